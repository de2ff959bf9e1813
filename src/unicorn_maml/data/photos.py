"""Photos as a user hands them over (paths, images of Pillow, arrays) -> pixels."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from unicorn_maml.data.archives import LARGEST_FILE, shown
from unicorn_maml.data.decode import Preprocessing, decode_file, pixels_of_image
from unicorn_maml.errors import FileError, UsageError

__all__ = ["iterate_pixels", "name_of_photo", "pixels_of_photo", "pixels_of_photos"]

_AT_ONCE = 64  # photos that are in memory together
_NAMED = 5  # bad photos in one message


def iterate_pixels(
    photos: Sequence[Any], preprocessing: Preprocessing
) -> Iterator[list[NDArray[np.uint8] | FileError]]:
    """Yield the pixels of all photos in order, some at a time, or why there are none."""

    def pixels_or_error(photo: Any) -> NDArray[np.uint8] | FileError:
        try:
            return pixels_of_photo(photo, preprocessing)
        except FileError as error:
            return error

    with ThreadPoolExecutor() as pool:  # Pillow lets go of Python's lock while it decodes
        for start in range(0, len(photos), _AT_ONCE):
            yield list(pool.map(pixels_or_error, photos[start : start + _AT_ONCE]))


def pixels_of_photos(photos: Any, preprocessing: Preprocessing) -> NDArray[np.uint8]:
    """Return the pixels (n, size, size, C) of all photos; bad ones are an error that names them."""
    if isinstance(photos, (str, os.PathLike, Image.Image)):
        raise UsageError("Give a list of photos, such as [photo], not a single one.")
    photos = list(photos)
    if not photos:
        raise UsageError("There are no photos; give at least one.")
    found: list[NDArray[np.uint8]] = []
    bad: list[str] = []
    tried = (each for part in iterate_pixels(photos, preprocessing) for each in part)
    for number, pixels in enumerate(tried):
        if isinstance(pixels, FileError):
            bad.append(f"Photo {number} ({name_of_photo(photos[number])}) {pixels}")
        else:
            found.append(pixels)
    if bad:
        raise FileError(_sentence_about(bad))
    return np.stack(found)


def _sentence_about(bad: list[str]) -> str:
    named = "; ".join(bad[:_NAMED])
    more = f"; and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
    return f"{named}{more}; mend or remove {'it' if len(bad) == 1 else 'them'}."


def name_of_photo(photo: Any) -> str:
    """Name a photo in a message."""
    if isinstance(photo, (str, os.PathLike)):
        return shown(os.fsdecode(photo))
    return "array" if isinstance(photo, np.ndarray) else type(photo).__name__


def pixels_of_photo(photo: Any, preprocessing: Preprocessing) -> NDArray[np.uint8]:
    """Return pixels (size, size, C); FileError with the reason alone for what is no sound image."""
    if isinstance(photo, (str, os.PathLike)):
        return decode_file(_read(Path(photo)), preprocessing)
    if not isinstance(photo, Image.Image):
        photo = _image_of_array(np.asarray(photo))
    return pixels_of_image(photo, preprocessing)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise FileError(f"cannot be read ({error.strerror})") from error
    if len(content) > LARGEST_FILE:
        raise FileError(f"is larger than {LARGEST_FILE >> 20} MiB")
    return content


def _image_of_array(array: NDArray[Any]) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim != 2 and not (array.ndim == 3 and array.shape[2] in (3, 4)):
        raise FileError(
            f"has the shape {array.shape}; give (height, width) or (height, width, 3) arrays"
        )
    if not array.size:
        raise FileError("has no pixels")
    if np.issubdtype(array.dtype, np.floating):
        if not (array.min() >= 0 and array.max() <= 1):  # nor not a number
            raise FileError("has values outside 0..1; divide 8-bit ones by 255")
        array = (array * 255).round().astype(np.uint8)
    if array.dtype != np.uint8:
        raise FileError(f"has values of type {array.dtype}; give uint8, or floats in 0..1")
    return Image.fromarray(np.ascontiguousarray(array))
