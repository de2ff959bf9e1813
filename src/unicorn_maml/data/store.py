"""A store: all images of a data set in one memory-mapped array, sorted by class.

A store is a folder. `images.npy` holds uint8 pixels `(n, H, W, C)`; `store.json` names the classes,
their splits and rows, where the images came from and what was done to them.
"""

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, get_args

import numpy as np
from numpy.typing import NDArray

from unicorn_maml.errors import NONSENSE, FileError, UsageError
from unicorn_maml.files import new_folder, read_json, sha256_of, write_json
from unicorn_maml.settings import Split

__all__ = ["ImageStore", "StoredClass", "finish_store", "write_array_header", "write_store"]

_FORMAT = "unicorn-maml store 1"
_CHUNK = 64  # images looked at together


@dataclass(frozen=True)
class StoredClass:
    """One class: its name, its split, and the rows of its images in the array."""

    name: str
    split: str
    start: int
    count: int


@dataclass(frozen=True)
class ImageStore:
    """An opened store. Reading a row touches the disk only for that row."""

    folder: Path
    images: NDArray[np.uint8]  # (n, H, W, C), memory-mapped
    classes: tuple[StoredClass, ...]
    source: str
    preprocessing: str
    pixel_mean: tuple[float, ...]  # per channel over the base classes, of pixels in 0..1
    pixel_std: tuple[float, ...]
    checksum: str  # of the pixels

    @cached_property
    def identity(self) -> str:
        """A checksum of the pixels and of where classes and splits begin: the same tasks."""
        layout = [(entry.split, entry.start, entry.count) for entry in self.classes]
        return hashlib.sha256(json.dumps([self.checksum, layout]).encode()).hexdigest()

    @property
    def size(self) -> int:
        """Side of the square images."""
        return int(self.images.shape[1])

    @property
    def channels(self) -> int:
        """Colour channels: 1 or 3."""
        return int(self.images.shape[3])

    @property
    def data_set(self) -> str:
        """The kind that the store was made as, such as `cub`."""
        return (self.source.split() or ["unknown"])[0].rstrip(":")

    def classes_of(self, split: str) -> tuple[StoredClass, ...]:
        """Return the classes of one split."""
        return tuple(entry for entry in self.classes if entry.split == split)

    def verify(self) -> None:
        """Read every byte and compare with the checksum that was taken when the store was made."""
        if sha256_of(self.folder / "images.npy") != self.checksum:
            raise FileError(
                f"The images in {self.folder} have changed since the store was made; make it again."
            )

    @classmethod
    def open(cls, folder: Path) -> "ImageStore":
        """Open a store folder; a folder that is not one, or is damaged, is refused."""
        if not (folder / "store.json").is_file():
            raise UsageError(
                f"{folder} is not a store (it has no store.json); "
                "name a store folder, or `glyphs` for the embedded one."
            )
        try:
            description = read_json(folder / "store.json")
            if description["format"] != _FORMAT:
                raise ValueError(f"unknown format {description['format']!r}")
            classes = tuple(StoredClass(**entry) for entry in description["classes"])
            images = np.load(folder / "images.npy", mmap_mode="r", allow_pickle=False)
            _check_layout(images, classes)
            mean, std = (
                tuple(float(value) for value in description[name])
                for name in ("pixel_mean", "pixel_std")
            )
            sound = all(0 <= m <= 1 for m in mean) and all(0 < s < 255 for s in std)
            if not len(mean) == len(std) == images.shape[3] or not sound:
                raise ValueError("the pixels' mean and deviation do not fit the images")
            return cls(
                folder=folder,
                images=images,
                classes=classes,
                source=str(description["source"]),
                preprocessing=str(description["preprocessing"]),
                pixel_mean=mean,
                pixel_std=std,
                checksum=str(description["checksum"]),
            )
        except (*NONSENSE, EOFError, OSError) as error:
            raise FileError(
                f"The store in {folder} is damaged ({error}); make it again."
            ) from error


def _check_layout(images: NDArray[Any], classes: Sequence[StoredClass]) -> None:
    shape = images.shape
    if (
        images.dtype != np.uint8
        or len(shape) != 4
        or shape[1] != shape[2]
        or shape[3] not in (1, 3)
    ):
        raise ValueError(f"images.npy holds {images.dtype} {shape}, not square uint8 images")
    row = 0
    for entry in classes:
        numbers = isinstance(entry.start, int) and isinstance(entry.count, int)
        fits = numbers and entry.start == row and entry.count > 0
        if not fits or entry.split not in get_args(Split):
            raise ValueError(f"class {entry.name!r} does not fit the rows before it")
        row += entry.count
    if row != len(images):
        raise ValueError(f"the classes name {row} images, images.npy holds {len(images)}")


def write_store(
    folder: Path,
    images: NDArray[np.uint8],
    classes: Sequence[StoredClass],
    *,
    source: str,
    preprocessing: str,
) -> ImageStore:
    """Write a store of `images` (n, H, W, C), sorted by class as `classes` says, and open it."""
    _check_layout(images, classes)
    with new_folder(folder) as unfinished:
        with (unfinished / "images.npy").open("wb") as file:
            write_array_header(file, images.shape)
            for image in images:
                file.write(image.tobytes())
        finish_store(unfinished, classes, source=source, preprocessing=preprocessing)
    return ImageStore.open(folder)


def write_array_header(file: IO[bytes], shape: tuple[int, ...]) -> int:
    """Write the header of an .npy file of uint8 at its start; return where the pixels begin.

    The pixels follow by plain writes: `np.save` hides the reason when the disk is full.
    """
    file.seek(0)
    header = {"descr": "|u1", "fortran_order": False, "shape": tuple(map(int, shape))}
    np.lib.format.write_array_header_1_0(file, header)
    return file.tell()


def finish_store(
    folder: Path, classes: Sequence[StoredClass], *, source: str, preprocessing: str
) -> None:
    """Describe the images in `folder/images.npy`: their classes, moments and checksum."""
    images = np.load(folder / "images.npy", mmap_mode="r", allow_pickle=False)
    _check_layout(images, classes)
    with ThreadPoolExecutor(1) as other_core:
        checksum = other_core.submit(sha256_of, folder / "images.npy")
        mean, std = _base_moments(images, classes)
        description = {
            "format": _FORMAT,
            "source": source,
            "preprocessing": preprocessing,
            "pixel_mean": mean,
            "pixel_std": std,
            "checksum": checksum.result(),
            "classes": [asdict(entry) for entry in classes],
        }
    write_json(folder / "store.json", description)


def _base_moments(
    images: NDArray[np.uint8], classes: Sequence[StoredClass]
) -> tuple[list[float], list[float]]:
    """Mean and deviation of the base classes' pixels, per channel, summed in exact integers."""
    channels = images.shape[3]
    total = np.zeros(channels, np.int64)
    squares = np.zeros(channels, np.int64)
    count = 0
    for entry in classes:
        if entry.split == "base":
            for start in range(entry.start, entry.start + entry.count, _CHUNK):
                stop = min(start + _CHUNK, entry.start + entry.count)
                # Over images first: whole rows add up many times faster than triples of channels.
                pixels = images[start:stop].reshape(stop - start, -1)
                squared = np.square(pixels, dtype=np.uint16)
                total += pixels.sum(0, dtype=np.int64).reshape(-1, channels).sum(0)
                squares += squared.sum(0, dtype=np.int64).reshape(-1, channels).sum(0)
                count += pixels.size // channels
    if count == 0:  # a store for testing only: nothing was ever trained on it
        return [0.5] * channels, [0.25] * channels
    mean = total / count
    std = np.sqrt(squares / count - mean**2)
    return (mean / 255).tolist(), (np.maximum(std, 1.0) / 255).tolist()
