"""A picture of which classes are taken for which."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from unicorn_maml.data.archives import shown
from unicorn_maml.reporting.pictures import write_png

__all__ = ["draw_confusion", "write_confusion"]

_CELL, _MARGIN = 44, 160
_LONGEST_NAME = 18
_RIGHT, _WRONG = (40, 120, 70), (190, 60, 40)


def write_confusion(counts: NDArray[np.int64], classes: Sequence[str], file: Path) -> None:
    """Write the picture as a PNG file."""
    write_png(draw_confusion(counts, classes), file)


def draw_confusion(counts: NDArray[np.int64], classes: Sequence[str]) -> Image.Image:
    """Draw counts (N, N): a row per class, a column for what its photos were taken for."""
    side = _MARGIN + len(classes) * _CELL
    picture = Image.new("RGB", (side + 8, side + 8), "white")
    draw = ImageDraw.Draw(picture)
    font = ImageFont.load_default(13)
    names = [_short(shown(name)) for name in classes]
    draw.text((8, 8), "rows: label\ncolumns: taken for", fill="grey", font=font)
    for row, name in enumerate(names):
        y = _MARGIN + row * _CELL
        draw.text((_MARGIN - 8, y + _CELL / 2), name, fill="black", font=font, anchor="rm")
        _paste_upright(picture, name, _MARGIN + row * _CELL, font)
        for column, count in enumerate(counts[row].tolist()):
            _draw_cell(draw, row, column, count / max(1, counts[row].sum()), count, font)
    return picture


def _draw_cell(
    draw: ImageDraw.ImageDraw,
    row: int,
    column: int,
    share: float,
    count: int,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
) -> None:
    x, y = _MARGIN + column * _CELL, _MARGIN + row * _CELL
    ink = _RIGHT if row == column else _WRONG
    fill = tuple(round(255 + (value - 255) * share) for value in ink)
    draw.rectangle((x, y, x + _CELL - 2, y + _CELL - 2), fill=fill, outline="lightgrey")
    if count:
        colour = "white" if share > 0.5 else "black"
        middle = (x + _CELL / 2 - 1, y + _CELL / 2 - 1)
        draw.text(middle, str(count), fill=colour, font=font, anchor="mm")


def _paste_upright(
    picture: Image.Image,
    name: str,
    x: int,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
) -> None:
    label = Image.new("RGB", (_MARGIN - 48, _CELL - 2), "white")
    middle = (4, _CELL / 2)
    ImageDraw.Draw(label).text(middle, name, fill="black", font=font, anchor="lm")
    picture.paste(label.rotate(90, expand=True), (x, 48 - 8))


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..."
