"""Made-up photos: coloured shapes that are easy to tell apart, of any size."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

COLOURS = {"red": (200, 40, 30), "green": (30, 160, 60), "blue": (40, 60, 200)}


def photo(colour: str, number: int, size=(120, 96)) -> Image.Image:
    """A shape of this colour on a noisy ground; every number is another photo."""
    random = np.random.default_rng([number, *map(ord, colour)])
    noise = random.integers(90, 160, (size[1], size[0], 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    width, height = size
    left, top = random.integers(0, width // 4), random.integers(0, height // 4)
    box = (left, top, left + width * 0.7, top + height * 0.7)
    draw = ImageDraw.Draw(image)
    (draw.ellipse if colour == "red" else draw.rectangle)(box, fill=COLOURS[colour])
    return image


def photos(per_class: int = 3, colours=tuple(COLOURS)) -> tuple[list[Image.Image], list[str]]:
    """Photos and their labels."""
    named = [(colour, number) for colour in colours for number in range(per_class)]
    return [photo(*each) for each in named], [colour for colour, _ in named]


def write_photos(folder: Path, per_class: int = 3, colours=tuple(COLOURS), first: int = 0) -> Path:
    """A folder with a folder of photos for each colour."""
    for colour in colours:
        (folder / colour).mkdir(parents=True)
        for number in range(first, first + per_class):
            photo(colour, number).save(folder / colour / f"{number}.jpg")
    return folder
