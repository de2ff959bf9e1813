"""NumPy arrays in npz archives, read without unpickling and, where they are large, row by row."""

import io
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from unicorn_maml.data.archives import DAMAGED, Member, Sources
from unicorn_maml.data.decode import LARGEST_PIXELS
from unicorn_maml.errors import FileError

__all__ = ["ArrayHeader", "read_array", "read_header", "refuse_large_images"]


@dataclass(frozen=True)
class ArrayHeader:
    """Shape of an array of bytes, and where in its file the first one is."""

    shape: tuple[int, ...]
    offset: int


def read_header(sources: Sources, member: Member) -> ArrayHeader:
    """Read the header of a uint8 array in C order; anything else is refused."""
    try:
        with sources.stream(member) as stream:
            start = io.BytesIO(stream.read(4096))
        shape, fortran, dtype = _parse(start)
    except DAMAGED as error:
        raise FileError(f"{sources.name(member)} is no sound array ({error}).") from error
    if dtype != np.uint8 or fortran or any(side < 1 for side in shape):
        raise FileError(
            f"{sources.name(member)} holds {dtype} {shape}; images must be uint8, in C order."
        )
    header = ArrayHeader(shape, start.tell())
    if header.offset + int(np.prod(shape, dtype=object)) != member.size:
        raise FileError(f"{sources.name(member)} is cut off; get it again.")
    return header


def refuse_large_images(name: str, height: int, width: int) -> None:
    """Refuse an array of images that would take more memory than an image file may."""
    if height * width > LARGEST_PIXELS:
        raise FileError(
            f"{name} has images of {width} x {height} pixels, over {LARGEST_PIXELS // 10**6} "
            "million; make them smaller."
        )


def _parse(file: IO[bytes]) -> tuple[tuple[int, ...], bool, Any]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


def read_array(sources: Sources, member: Member) -> NDArray[Any]:
    """Read a small array whole: labels, names. Arrays of Python objects are refused."""
    try:
        array: NDArray[Any] = np.load(io.BytesIO(sources.read(member)), allow_pickle=False)
    except (*DAMAGED, FileError) as error:
        raise FileError(f"{sources.name(member)} is no sound array ({error}).") from error
    return array
