"""Any image becomes a plain square; what is no image is refused with a reason."""

import io

import numpy as np
import pytest
from PIL import Image

from image_trees import claiming_size, encoded
from unicorn_maml.data.archives import Member
from unicorn_maml.data.decode import Preprocessing, decode
from unicorn_maml.data.listing import Item, RawPixels
from unicorn_maml.errors import FileError

ITEM = Item(Member(0, 0, "a.png", 0))
RGB = Preprocessing(size=84, channels=3, resample="bilinear")


def saved(image: Image.Image, format: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def test_an_image_of_the_right_size_keeps_every_pixel():
    content = encoded(size=(84, 84), format="JPEG")
    assert np.array_equal(decode(content, ITEM, RGB), np.asarray(Image.open(io.BytesIO(content))))


@pytest.mark.parametrize("size", [(200, 150), (150, 200), (92, 92), (84, 300), (20, 30)])
def test_the_short_side_becomes_92_and_the_centre_is_kept(size):
    content = encoded(size=size)
    short = min(size)
    width, height = (92 * side // short for side in size)
    resized = Image.open(io.BytesIO(content)).resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - 84) / 2), round((height - 84) / 2)
    expected = np.asarray(resized)[top : top + 84, left : left + 84]
    assert np.array_equal(decode(content, ITEM, RGB), expected)


def test_the_resampling_filter_is_the_named_one():
    content = encoded(size=(200, 200))
    names = ("bilinear", "bicubic", "lanczos", "box", "nearest")
    results = [decode(content, ITEM, Preprocessing(84, 3, name)) for name in names]
    assert len({result.tobytes() for result in results}) == len(names)


def test_exif_rotation_is_applied():
    pixels = np.zeros((84, 84, 3), np.uint8)
    pixels[:42] = 255  # the upper half is white
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    turned = decode(saved(Image.fromarray(pixels), exif=exif), ITEM, RGB)
    assert turned[:, 42:].min() == 255
    assert turned[:, :42].max() == 0


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA", "CMYK", "I;16", "YCbCr"])
def test_every_colour_mode_becomes_plain_rgb(mode):
    grey = Image.new("L", (84, 84), 255)
    if mode == "I;16":
        image = Image.fromarray(np.full((84, 84), 65535, np.uint16))
    else:
        image = grey.convert("RGB").convert(mode) if mode != "1" else grey.convert("1")
    format = "JPEG" if mode in ("CMYK", "YCbCr") else "PNG"
    result = decode(saved(image, format), ITEM, RGB)
    assert result.shape == (84, 84, 3)
    assert result.dtype == np.uint8
    assert result.min() > 250, "white stays white"


def test_sixteen_bits_are_scaled_and_not_cut_off():
    values = np.full((84, 84), 0x8000, np.uint16)
    assert np.all(decode(saved(Image.fromarray(values)), ITEM, RGB) == 0x80)


def test_transparent_parts_become_white():
    rgba = Image.new("RGBA", (84, 84), (10, 20, 30, 0))
    assert decode(saved(rgba), ITEM, RGB).min() == 255
    palette = Image.new("P", (84, 84), 0)
    palette.putpalette([10, 20, 30])
    assert decode(saved(palette, "GIF", transparency=0), ITEM, RGB).min() == 255
    assert np.all(decode(saved(palette), ITEM, RGB)[0, 0] == (10, 20, 30))


def test_one_channel_is_resized_as_a_whole():
    pixels = np.full((105, 105), 255, np.uint8)
    pixels[:4] = 0  # a crop would lose it
    content = saved(Image.fromarray(pixels).convert("1"))
    result = decode(content, ITEM, Preprocessing(28, 1, "bilinear", whole=True))
    assert result.shape == (28, 28, 1)
    assert result[0].max() < 30
    assert result[5:].min() == 255


def test_raw_pixels_may_be_planar_or_blue_first():
    pixels = np.random.default_rng(0).integers(0, 256, (84, 84, 3), dtype=np.uint8)
    planar = Item(ITEM.member, RawPixels(0, 84, 84, 3, planar=True))
    blue_first = Item(ITEM.member, RawPixels(0, 84, 84, 3, bgr=True))
    assert np.array_equal(decode(pixels.transpose(2, 0, 1).tobytes(), planar, RGB), pixels)
    assert np.array_equal(decode(pixels[:, :, ::-1].tobytes(), blue_first, RGB), pixels)


def test_a_box_is_cut_out_before_resizing():
    pixels = np.zeros((100, 200, 3), np.uint8)
    pixels[8:92, 100:184] = np.random.default_rng(0).integers(0, 256, (84, 84, 3))
    content = saved(Image.fromarray(pixels))
    result = decode(content, Item(ITEM.member, box=(100.0, 8.0, 184.0, 92.0)), RGB)
    assert np.array_equal(result, pixels[8:92, 100:184])
    with pytest.raises(FileError, match="bounding box outside the image"):
        decode(content, Item(ITEM.member, box=(300.0, 8.0, 384.0, 92.0)), RGB)


def test_quarter_turns_go_anticlockwise():
    content = encoded(size=(84, 84))
    plain = decode(content, ITEM, RGB)
    turned = decode(content, Item(ITEM.member, quarter_turns=1), RGB)
    assert np.array_equal(turned[0, 0], plain[0, -1])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"just text, called .jpg", "no image of a known format"),
        (encoded(size=(84, 84), format="JPEG")[:-400], "truncated"),
        (encoded(size=(84, 84))[:500], "cannot be decoded"),
        (claiming_size(50_000, 50_000), "too many pixels"),
        (claiming_size(9_000, 9_000), r"too many pixels \(9000 x 9000 is over 64 million\)"),
        (claiming_size(2, 20_000_000), "cannot be decoded|too"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "no image of a known format"),
    ],
    ids=["empty", "text", "cut jpeg", "cut png", "50000", "9000", "long", "postscript"],
)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_what_is_no_sound_image_is_refused_with_a_reason(content, reason):
    with pytest.raises(FileError, match=reason):
        decode(content, ITEM, RGB)


def test_a_long_and_narrow_image_does_not_fill_the_memory():
    with pytest.raises(FileError, match="too long and narrow"):
        decode(encoded(size=(20_000, 1)), ITEM, Preprocessing(84, 3, "bilinear"))
