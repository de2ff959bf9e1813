"""What visitors may hand over, and what is said when it is too much or no photo."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unicorn_maml.data.archives import shown
from unicorn_maml.data.decode import Preprocessing
from unicorn_maml.data.photos import iterate_pixels
from unicorn_maml.errors import FileError, UsageError

__all__ = [
    "LARGEST_UPLOAD",
    "MOST_CLASSES",
    "MOST_PHOTOS",
    "MOST_QUERIES",
    "LabelledPhotos",
    "labelled",
    "sound_photos",
]

LARGEST_UPLOAD = 20 << 20  # bytes of one file
MOST_CLASSES = 10
MOST_PHOTOS = 50  # of a class
MOST_QUERIES = 20  # at once; `predict` takes any number
_LONGEST_NAME = 60

_TRIAL = Preprocessing(size=16, channels=3, resample="box")


@dataclass(frozen=True)
class LabelledPhotos:
    """The support set as a visitor gave it."""

    paths: list[Path]
    labels: list[str]


def sound_photos(paths: Sequence[Path], most: int) -> tuple[list[Path], list[str]]:
    """Return the photos that can be used, and a sentence for every reason to leave others out.

    They are decoded on arrival, so that a bad one is named while it is fresh in mind.
    """
    kept: list[Path] = []
    sentences: list[str] = []
    tried = [each for part in iterate_pixels(paths[:most], _TRIAL) for each in part]
    for path, pixels in zip(paths, tried, strict=False):
        if isinstance(pixels, FileError):
            sentences.append(f"{shown(path.name)} {pixels}; it is left out.")
        else:
            kept.append(path)
    if len(paths) > most:
        sentences.append(f"At most {most} photos are taken here; the first {most} are kept.")
    return kept, sentences


def labelled(classes: Sequence[tuple[str, list[Path]]]) -> LabelledPhotos:
    """Check names and photos of a visitor's classes; those that have neither are left out."""
    found: dict[str, list[Path]] = {}
    for number, (name, paths) in enumerate(classes, 1):
        name = name.strip()
        if not name and not paths:
            continue
        if not name:
            raise UsageError(f"Class {number} has photos but no name; give it one.")
        if len(name) > _LONGEST_NAME:
            raise UsageError(f"The name of class {number} is longer than {_LONGEST_NAME} letters.")
        if name in found:
            raise UsageError(f"Two classes are called {shown(name)}; give one another name.")
        if not paths:
            raise UsageError(f"The class {shown(name)} has no photo; add one or remove the class.")
        found[name] = paths
    if len(found) < 2:
        raise UsageError("Give photos of two or more classes, or try the example.")
    return LabelledPhotos(
        [path for paths in found.values() for path in paths],
        [name for name, paths in found.items() for _ in paths],
    )
