"""Reads the images of a listing one after another, and decodes them on all cores meanwhile."""

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO

import numpy as np
from numpy.typing import NDArray

from unicorn_maml.data.archives import DAMAGED, Sources
from unicorn_maml.data.decode import Preprocessing, decode
from unicorn_maml.data.listing import Item
from unicorn_maml.errors import FileError

__all__ = ["Result", "decode_items"]

_BATCH_IMAGES = 32
_BATCH_BYTES = 4 * 2**20

Job = tuple[int, Item, bytes]  # number of the item, the item, the bytes it is made of
Result = tuple[int, "NDArray[np.uint8] | FileError"]


def decode_items(
    sources: Sources, items: list[Item], preprocessing: Preprocessing
) -> Iterator[list[Result]]:
    """Yield all items by number, in no order: their pixels, or why there are none."""
    return _decode_all(_read_jobs(sources, items), preprocessing)


def _read_jobs(sources: Sources, items: list[Item]) -> Iterator[Job | tuple[int, FileError]]:
    """Read the bytes of every item, in the order in which they lie in the sources."""
    rows = sorted(range(len(items)), key=lambda row: _place(items[row]))
    reader = _Reader(sources)
    for row in rows:
        try:
            yield row, items[row], reader.read(items[row])
        except FileError as error:
            if items[row].raw is not None:  # then none of the rows before can be trusted either
                name = sources.name(items[row].member)
                raise FileError(f"{name} is damaged: it {error}; get it again.") from error
            yield row, error


def _place(item: Item) -> tuple[int, int, int]:
    return item.member.source, item.member.position, item.raw.offset if item.raw else 0


class _Reader:
    """Reads items; consecutive rows of one array are read from one stream."""

    def __init__(self, sources: Sources):
        self._sources = sources
        self._stream: IO[bytes] | None = None
        self._last: tuple[tuple[int, int, int], bytes] | None = None
        self._at = 0

    def read(self, item: Item) -> bytes:
        """Return the bytes of a file, or of the raw pixels."""
        place = _place(item)
        if self._last is None or self._last[0] != place:
            content = self._next_row(item) if item.raw else self._sources.read(item.member)
            self._last = (place, content)
        return self._last[1]

    def _next_row(self, item: Item) -> bytes:
        assert item.raw is not None
        try:
            if self._last is None or self._last[0][:2] != _place(item)[:2]:
                self._stream, self._at = self._sources.stream(item.member), 0
            assert self._stream is not None
            while self._at < item.raw.offset:
                skipped = len(self._stream.read(min(item.raw.offset - self._at, 2**20)))
                if not skipped:
                    break
                self._at += skipped
            content = self._stream.read(item.raw.length)
        except DAMAGED as error:
            raise FileError(f"cannot be read ({type(error).__name__})") from error
        self._at += len(content)
        if len(content) != item.raw.length:
            raise FileError("is cut off")
        return content


def _decode_all(
    jobs: Iterator[Job | tuple[int, FileError]], preprocessing: Preprocessing
) -> Iterator[list[Result]]:
    """Decode on all cores while the next images are read.

    Threads suffice, because Pillow lets go of Python's lock while it decodes and resizes, and they
    spare copies between processes. A bounded number of batches is under way at any time.
    """

    def decode_batch(batch: list[Job]) -> list[Result]:
        return [
            (row, _decode_or_error(item, content, preprocessing)) for row, item, content in batch
        ]

    workers = _cores()
    under_way: deque[Future[list[Result]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for batch, unreadable in _batches(jobs):
            if unreadable:
                yield list(unreadable)
            under_way.append(pool.submit(decode_batch, batch))
            if len(under_way) > 2 * workers:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


def _batches(
    jobs: Iterator[Job | tuple[int, FileError]],
) -> Iterator[tuple[list[Job], list[tuple[int, FileError]]]]:
    batch: list[Job] = []
    unreadable: list[tuple[int, FileError]] = []
    size = 0
    for job in jobs:
        if len(job) == 2:
            unreadable.append(job)
        else:
            batch.append(job)
            size += len(job[2])
        if len(batch) + len(unreadable) >= _BATCH_IMAGES or size >= _BATCH_BYTES:
            yield batch, unreadable
            batch, unreadable, size = [], [], 0
    if batch or unreadable:
        yield batch, unreadable


def _decode_or_error(
    item: Item, content: bytes, preprocessing: Preprocessing
) -> "NDArray[np.uint8] | FileError":
    try:
        return decode(content, item, preprocessing)
    except FileError as error:
        return error


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
