"""Duplicates: same pixels, counted by pairs of splits."""

import numpy as np

from unicorn_maml.data.duplicates import count_pairs, find_duplicates
from unicorn_maml.data.store import StoredClass, write_store


def test_duplicates_are_found_and_named_within_and_across_splits(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (9, 8, 8, 3), dtype=np.uint8)
    images[1] = images[0]  # within base
    images[4] = images[0]  # base and validation
    images[8] = images[6]  # within novel
    images[5, 0, 0, 0] = images[2, 0, 0, 0]  # one equal pixel is no duplicate
    classes = [
        StoredClass("a", "base", 0, 3),
        StoredClass("b", "validation", 3, 3),
        StoredClass("c", "novel", 6, 1),
        StoredClass("d", "novel", 7, 2),
    ]
    store = write_store(tmp_path / "s", images, classes, source="here", preprocessing="none")
    groups = find_duplicates(store)
    assert [[str(copy) for copy in group] for group in groups] == [
        ["base a #0", "base a #1", "validation b #1"],
        ["novel c #0", "novel d #1"],
    ]
    assert [copy.row for copy in groups[1]] == [6, 8]
    assert count_pairs(groups) == {
        ("base", "base"): 1,
        ("base", "validation"): 2,
        ("novel", "novel"): 1,
    }


def test_a_store_without_duplicates_has_no_groups(small_store):
    assert find_duplicates(small_store) == []
    assert count_pairs([]) == {}
