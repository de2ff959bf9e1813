"""An example set for the first click: drawn leaves, flowers and mushrooms.

They are drawn when the page starts, so that nothing has to come with the package.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from PIL import Image, ImageDraw

__all__ = ["Example", "draw_example"]

_SIZE = (320, 240)
_PHOTOS, _QUERIES = 4, 1  # of each class


@dataclass(frozen=True)
class Example:
    """Labelled photos, and others to classify."""

    classes: dict[str, list[Path]]
    queries: list[Path]


def draw_example(folder: Path) -> Example:
    """Write the photos of the example into a folder."""
    classes: dict[str, list[Path]] = {}
    queries: list[Path] = []
    for kind in _PENS:
        (folder / kind).mkdir(parents=True)
        paths = [folder / kind / f"{kind}-{number + 1}.jpg" for number in range(_PHOTOS + _QUERIES)]
        for number, path in enumerate(paths):
            _draw(kind, number).save(path, quality=90)
        classes[kind], queries = paths[:_PHOTOS], queries + paths[_PHOTOS:]
    return Example(classes, queries)


def _draw(kind: str, number: int) -> Image.Image:
    random = Random(f"{kind} {number}")
    ground = _colour(random, (120, 220), (120, 220), (120, 220))
    photo = Image.new("RGB", _SIZE, ground)
    x, y = random.randint(130, 190), random.randint(105, 135)
    _PENS[kind](ImageDraw.Draw(photo), random, x, y, random.randint(55, 75))
    return photo.rotate(
        random.randint(-30, 30), fillcolor=ground, resample=Image.Resampling.BICUBIC
    )


def _leaf(pen: ImageDraw.ImageDraw, random: Random, x: float, y: float, size: float) -> None:
    green = _colour(random, (20, 90), (120, 170), (20, 70))
    pen.ellipse((x - size, y - size / 2, x + size, y + size / 2), fill=green)
    pen.line((x - size, y, x + size * 1.4, y), fill=(60, 80, 30), width=4)


def _flower(pen: ImageDraw.ImageDraw, random: Random, x: float, y: float, size: float) -> None:
    petal = _colour(random, (180, 250), (40, 120), (120, 220))
    for dx, dy in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        _disc(pen, x + dx * size / 2, y + dy * size / 2, size / 2, petal)
    _disc(pen, x, y, size / 3, (240, 200, 60))


def _mushroom(pen: ImageDraw.ImageDraw, random: Random, x: float, y: float, size: float) -> None:
    cap = _colour(random, (150, 210), (30, 90), (20, 50))
    pen.rectangle((x - size / 5, y, x + size / 5, y + size), fill=(235, 225, 205))
    pen.pieslice((x - size, y - size, x + size, y + size), 180, 360, fill=cap)
    for dx, dy in ((-0.5, -0.3), (0, -0.6), (0.5, -0.3)):
        _disc(pen, x + dx * size, y + dy * size, size / 9, (245, 240, 230))


def _disc(
    pen: ImageDraw.ImageDraw, x: float, y: float, radius: float, fill: tuple[int, int, int]
) -> None:
    pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=fill)


def _colour(random: Random, *ranges: tuple[int, int]) -> tuple[int, int, int]:
    red, green, blue = (random.randint(*each) for each in ranges)
    return red, green, blue


_PENS: dict[str, Callable[[ImageDraw.ImageDraw, Random, float, float, float], None]] = {
    "leaf": _leaf,
    "flower": _flower,
    "mushroom": _mushroom,
}
