"""A contact sheet: sample images of some classes of every split, for a person to look at."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from unicorn_maml.data.archives import shown
from unicorn_maml.data.store import ImageStore, StoredClass
from unicorn_maml.reporting.pictures import write_png

__all__ = ["draw_contact_sheet", "write_contact_sheet"]

_CLASSES = 10  # per split
_IMAGES = 10  # per class
_SMALLEST_SIDE = 56  # smaller images are enlarged
_GAP = 2
_LABEL_WIDTH = 220
_TITLE_HEIGHT = 28
_INK, _PAPER = "black", "white"

T = TypeVar("T")


def write_contact_sheet(store: ImageStore, file: Path) -> None:
    """Write a sheet as a PNG file."""
    write_png(draw_contact_sheet(store), file)


def draw_contact_sheet(store: ImageStore) -> Image.Image:
    """Draw a row of images for each chosen class, under a title for each split."""
    enlarge = -(-_SMALLEST_SIDE // store.size)
    side = store.size * enlarge
    split_names = dict.fromkeys(entry.split for entry in store.classes)
    chosen = {split: _spread(store.classes_of(split), _CLASSES) for split in split_names}
    rows = sum(map(len, chosen.values()))
    width = _LABEL_WIDTH + _IMAGES * (side + _GAP)
    height = len(chosen) * _TITLE_HEIGHT + rows * (side + _GAP)
    sheet = Image.new("RGB", (width, height), _PAPER)
    draw = ImageDraw.Draw(sheet)
    y = 0
    for split, entries in chosen.items():
        total = store.classes_of(split)
        title = f"{split}: {len(total)} classes, {sum(each.count for each in total)} images"
        draw.text((_GAP, y + 6), title, fill=_INK, font=ImageFont.load_default(16))
        y += _TITLE_HEIGHT
        for entry in entries:
            _draw_class(sheet, draw, store, entry, y, enlarge)
            y += side + _GAP
    return sheet


def _draw_class(
    sheet: Image.Image,
    draw: ImageDraw.ImageDraw,
    store: ImageStore,
    entry: StoredClass,
    y: int,
    enlarge: int,
) -> None:
    font = ImageFont.load_default(12)
    draw.text((_GAP, y + 4), _shorten(shown(entry.name), font), fill=_INK, font=font)
    draw.text((_GAP, y + 20), f"{entry.count} images", fill="grey", font=font)
    for column, number in enumerate(_spread(range(entry.count), _IMAGES)):
        pixels = np.array(store.images[entry.start + number])
        pixels = pixels.repeat(enlarge, 0).repeat(enlarge, 1)
        tile = Image.fromarray(pixels[:, :, 0] if store.channels == 1 else pixels)
        sheet.paste(tile, (_LABEL_WIDTH + column * (pixels.shape[1] + _GAP), y))


def _spread(values: Sequence[T], count: int) -> list[T]:
    """Return up to `count` values, evenly spaced from the first to the last."""
    places = np.linspace(0, len(values) - 1, min(count, len(values))).round().astype(int)
    return [values[place] for place in places.tolist()]


def _shorten(name: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> str:
    if font.getlength(name) <= _LABEL_WIDTH - 3 * _GAP:
        return name
    while name and font.getlength(name + "...") > _LABEL_WIDTH - 3 * _GAP:
        name = name[:-1]
    return name + "..."
