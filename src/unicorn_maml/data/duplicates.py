"""Images of a store that have the same pixels, within a split and across splits."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement

from unicorn_maml.data.archives import shown
from unicorn_maml.data.listing import SPLITS
from unicorn_maml.data.store import ImageStore

__all__ = ["Copy", "count_pairs", "find_duplicates"]


@dataclass(frozen=True)
class Copy:
    """One of several images with the same pixels."""

    class_name: str
    split: str
    number: int  # of the image in its class, from 0
    row: int  # of the store

    def __str__(self) -> str:
        return f"{self.split} {shown(self.class_name)} #{self.number}"


def find_duplicates(store: ImageStore) -> list[list[Copy]]:
    """Return every group of images with identical pixels, in the order of their first rows."""
    by_digest: dict[bytes, list[int]] = defaultdict(list)
    for row, image in enumerate(store.images):
        by_digest[hashlib.blake2b(image, digest_size=16).digest()].append(row)
    groups = [rows for rows in by_digest.values() if len(rows) > 1]
    copies = dict(_locate(store, {row for rows in groups for row in rows}))
    return [[copies[row] for row in rows] for rows in groups]


def _locate(store: ImageStore, rows: set[int]) -> Iterator[tuple[int, Copy]]:
    for entry in store.classes:
        for number in range(entry.count):
            row = entry.start + number
            if row in rows:
                yield row, Copy(entry.name, entry.split, number, row)


def count_pairs(groups: list[list[Copy]]) -> dict[tuple[str, str], int]:
    """Return the number of pairs of copies for every two splits; those without are left out."""
    pairs: Counter[tuple[str, str]] = Counter()
    for group in groups:
        members = Counter(copy.split for copy in group)
        for first, second in combinations_with_replacement(SPLITS, 2):
            same = members[first] * (members[first] - 1) // 2
            pairs[first, second] += same if first == second else members[first] * members[second]
    return {splits: count for splits, count in pairs.items() if count}
