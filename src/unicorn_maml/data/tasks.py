"""Which images make up task number i.

A task is a pure function of (store, split, way, shot, query, seed) and its number: the same on
every machine, in every process, whatever was drawn before. Random numbers are counter-based
(Philox, keyed by the seed, counted by the task) and only their raw 64-bit output is used, because
that is what NumPy promises never to change.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unicorn_maml.data.store import ImageStore
from unicorn_maml.errors import UsageError

__all__ = ["TaskRows", "TaskSampler"]


@dataclass(frozen=True)
class TaskRows:
    """Rows of the store for T tasks; entry `k * way + c` of a task is image k of slot c's class."""

    classes: NDArray[np.int64]  # (T, way): which class of the split sits in which slot
    support: NDArray[np.int64]  # (T, shot * way)
    query: NDArray[np.int64]  # (T, query * way)


class TaskSampler:
    """Draws tasks by number: `sampler.rows([3, 7])` are tasks 3 and 7, always the same."""

    def __init__(
        self, store: ImageStore, split: str, *, way: int, shot: int, query: int, seed: int
    ):
        self.store, self.split = store, split
        self.way, self.shot, self.query, self.seed = way, shot, query, seed
        self._classes = store.classes_of(split)
        if len(self._classes) < way:
            raise UsageError(
                f"{way}-way tasks need {way} classes, but the {split} split of {store.folder.name} "
                f"has {len(self._classes)}; ask for fewer ways or another split."
            )
        smallest = min(self._classes, key=lambda entry: entry.count)
        if smallest.count < shot + query:
            raise UsageError(
                f"Class {smallest.name!r} has {smallest.count} images, but {shot} shots and "
                f"{query} queries need {shot + query}; ask for fewer shots or queries."
            )

    def rows_of_split(self) -> NDArray[np.int64]:
        """Return the rows of all images that tasks can have, ascending."""
        return np.concatenate([np.arange(e.start, e.start + e.count) for e in self._classes])

    def rows(self, numbers: Sequence[int]) -> TaskRows:
        """Return the rows of the tasks with these numbers."""
        drawn = [self._draw(number) for number in numbers]
        classes = np.stack([slots for slots, _ in drawn])
        images = np.stack([rows for _, rows in drawn])  # (T, way, shot + query)
        by_position = images.transpose(0, 2, 1).reshape(len(drawn), -1)
        boundary = self.shot * self.way
        return TaskRows(classes, by_position[:, :boundary], by_position[:, boundary:])

    def _draw(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        # The number goes into a high word of the counter: streams of two tasks never meet.
        random = np.random.Philox(key=self.seed, counter=[0, 0, number, 0])
        slots = _random_order(random, len(self._classes))[: self.way]
        rows = []
        for slot in slots:
            entry = self._classes[slot]
            rows.append(entry.start + _random_order(random, entry.count)[: self.shot + self.query])
        return slots, np.stack(rows)


def _random_order(random: np.random.Philox, count: int) -> NDArray[np.int64]:
    """Return 0..count-1 in random order: sorting random keys favours no element and no place."""
    return np.argsort(random.random_raw(count), kind="stable").astype(np.int64)
