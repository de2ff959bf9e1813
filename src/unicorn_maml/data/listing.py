"""What a data-set kind finds in its sources: classes, their splits, and where each image is."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args

from unicorn_maml.data.archives import Member, Problem, Sources
from unicorn_maml.settings import Split

__all__ = [
    "SPLITS",
    "SUFFIXES",
    "Item",
    "ListedClass",
    "Listing",
    "RawPixels",
    "images_of",
    "split_of_word",
]

SPLITS: tuple[str, ...] = get_args(Split)
_WORDS = {"train": "base", "val": "validation", "valid": "validation", "test": "novel"}
_WORDS |= {split: split for split in SPLITS}
_WORDS |= {f"meta-{word}": split for word, split in _WORDS.items()}

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm")


def split_of_word(word: str) -> str | None:
    """Return the split that a folder or file called `word` stands for, if it does."""
    return _WORDS.get(word.lower().replace("_", "-"))


@dataclass(frozen=True, slots=True)
class RawPixels:
    """How pixels lie in a member that is an array: `(height, width, channels)` bytes at `offset`.

    `planar` pixels are stored channel by channel; `bgr` ones blue first, as OpenCV does.
    """

    offset: int
    height: int
    width: int
    channels: int
    planar: bool = False
    bgr: bool = False

    @property
    def length(self) -> int:
        """Number of bytes."""
        return self.height * self.width * self.channels


@dataclass(frozen=True, slots=True)
class Item:
    """One image to be: a file, or raw pixels in an array; cut to a box and turned if wanted."""

    member: Member
    raw: RawPixels | None = None
    box: tuple[float, float, float, float] | None = None  # left, top, right, bottom
    quarter_turns: int = 0  # anticlockwise


@dataclass(frozen=True)
class ListedClass:
    """A class with at least one image."""

    name: str
    split: str
    items: Sequence[Item]


@dataclass
class Listing:
    """All classes, in the order of the store, and everything that is wrong with the sources."""

    classes: list[ListedClass] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    not_in_data_set: int = 0  # images that belong to no class of the data set

    def sort(self) -> None:
        """Put classes in the order of split and name, and images in the order of their names.

        So a store is the same whether its images came from a folder, a zip or ten tars.
        """
        self.classes = [
            ListedClass(each.name, each.split, sorted(each.items, key=_place_in_class))
            for each in sorted(self.classes, key=lambda each: (SPLITS.index(each.split), each.name))
        ]


def _place_in_class(item: Item) -> tuple[str, str, int, int]:
    offset = item.raw.offset if item.raw else 0
    return item.member.name, item.member.path, item.member.source, offset


def images_of(sources: Sources) -> list[Member]:
    """Return the members whose names are those of images."""
    return [each for each in sources.members if each.name.lower().endswith(SUFFIXES)]
