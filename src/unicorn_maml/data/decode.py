"""From the bytes of an image to the square of pixels that a store holds. Pillow does the work."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from unicorn_maml.data.listing import Item, RawPixels
from unicorn_maml.errors import FileError
from unicorn_maml.settings import Resampling

__all__ = [
    "LARGEST_PIXELS",
    "Preprocessing",
    "decode",
    "decode_file",
    "image_size",
    "pixels_of_image",
]

LARGEST_PIXELS = 64_000_000  # checked before anything is decoded
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
_FILTERS: dict[Resampling, Image.Resampling] = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
    "box": Image.Resampling.BOX,
    "nearest": Image.Resampling.NEAREST,
}


@dataclass(frozen=True)
class Preprocessing:
    """What is done to every image.

    The short side becomes `round(size * 92 / 84)` and the central `size` x `size` pixels are kept,
    as in the paper's code; with `whole`, the image is resized to the square, nothing cut off.
    """

    size: int
    channels: int
    resample: Resampling
    whole: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of one image: (H, W, C)."""
        return (self.size, self.size, self.channels)

    @property
    def short_side(self) -> int:
        """Length of the short side before the crop."""
        return round(self.size * 92 / 84)

    def __str__(self) -> str:
        colour = "RGB" if self.channels == 3 else "grey"
        size = f"{self.size}x{self.size}"
        fit = f"short side to {self.short_side} ({self.resample}), centre crop {size}"
        if self.whole:
            fit = f"resized to {size} ({self.resample})"
        return f"{colour}, EXIF rotation applied, {fit}; {size} images as they were"


def decode(content: bytes, item: Item, preprocessing: Preprocessing) -> NDArray[np.uint8]:
    """Return pixels (size, size, C); FileError with the reason for whatever is no sound image."""
    with _refusing_broken_images():
        image = _open(content) if item.raw is None else _from_pixels(content, item.raw)
        if item.box is not None:
            image = _cut(image, item.box)
        pixels = _square(image, preprocessing)
    return np.rot90(pixels, item.quarter_turns) if item.quarter_turns else pixels


def decode_file(content: bytes, preprocessing: Preprocessing) -> NDArray[np.uint8]:
    """Return the pixels of an image file, as `decode` does."""
    with _refusing_broken_images():
        return _square(_open(content), preprocessing)


def pixels_of_image(image: Image.Image, preprocessing: Preprocessing) -> NDArray[np.uint8]:
    """Return the pixels of an image that Pillow has opened, as `decode` does."""
    with _refusing_broken_images():
        return _square(_upright(image), preprocessing)


@contextmanager
def _refusing_broken_images() -> Iterator[None]:
    try:
        yield
    except FileError:
        raise
    except Exception as error:  # decoders raise anything on broken input
        reason = str(error) if isinstance(error, OSError) else type(error).__name__
        if isinstance(error, UnidentifiedImageError):
            reason = "its content is no image of a known format"
        raise FileError(f"cannot be decoded ({reason})") from error


def _square(image: Image.Image, preprocessing: Preprocessing) -> NDArray[np.uint8]:
    image = _fit(_plain(image, preprocessing.channels), preprocessing)
    return np.asarray(image).reshape(preprocessing.shape)


def _open(content: bytes) -> Image.Image:
    if not content:
        raise FileError("is empty")
    try:
        image: Image.Image = Image.open(io.BytesIO(content), formats=_FORMATS)
    except Image.DecompressionBombError as error:
        raise FileError(_too_large("it")) from error
    return _upright(image)


def _upright(image: Image.Image) -> Image.Image:
    if image.width * image.height > LARGEST_PIXELS:
        raise FileError(_too_large(f"{image.width} x {image.height}"))
    image.load()
    if image.getexif().get(0x0112, 1) != 1:  # orientation
        image = ImageOps.exif_transpose(image)
    return image


def _too_large(size: str) -> str:
    return f"has too many pixels ({size} is over {LARGEST_PIXELS // 10**6} million)"


def _from_pixels(content: bytes, raw: RawPixels) -> Image.Image:
    pixels = np.frombuffer(content, np.uint8)
    if raw.planar:
        pixels = pixels.reshape(raw.channels, raw.height, raw.width).transpose(1, 2, 0)
    else:
        pixels = pixels.reshape(raw.height, raw.width, raw.channels)
    if raw.bgr:
        pixels = pixels[:, :, ::-1]
    squeezed = pixels[:, :, 0] if raw.channels == 1 else pixels
    return Image.fromarray(np.ascontiguousarray(squeezed))


def _plain(image: Image.Image, channels: int) -> Image.Image:
    """RGB or grey, 8 bits, transparent parts white."""
    wanted = "RGB" if channels == 3 else "L"
    if image.mode == wanted and "transparency" not in image.info:
        return image
    if image.mode in ("I", "F") or image.mode.startswith("I;"):
        return _eight_bits(image).convert(wanted)
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return image.convert(wanted)


def _eight_bits(image: Image.Image) -> Image.Image:
    if image.mode == "F":
        raise FileError("has floating-point pixels; save it with 8 bits per channel")
    values = np.asarray(image).astype(np.int64)
    return Image.fromarray((np.clip(values, 0, 65535) >> 8).astype(np.uint8))


def _cut(image: Image.Image, box: tuple[float, float, float, float]) -> Image.Image:
    left, top = max(0, round(box[0])), max(0, round(box[1]))
    right, bottom = min(image.width, round(box[2])), min(image.height, round(box[3]))
    if right <= left or bottom <= top:
        raise FileError("has a bounding box outside the image")
    return image.crop((left, top, right, bottom))


def _fit(image: Image.Image, preprocessing: Preprocessing) -> Image.Image:
    size, filter_ = preprocessing.size, _FILTERS[preprocessing.resample]
    if image.size == (size, size):
        return image
    if preprocessing.whole:
        return image.resize((size, size), filter_)
    short = min(image.size)
    # The long side is rounded down and the crop to the nearest pixel, as torchvision does.
    width, height = (int(preprocessing.short_side * side / short) for side in image.size)
    if width * height > LARGEST_PIXELS:
        raise FileError("is too long and narrow")
    image = image.resize((width, height), filter_)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.crop((left, top, left + size, top + size))


def image_size(content: bytes) -> tuple[int, int]:
    """Return width and height of an image file without decoding it."""
    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
            return image.size
    except Exception as error:  # decoders raise anything on broken input
        raise FileError("is no sound image") from error
