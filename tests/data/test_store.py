"""Stores: written whole, opened by memory map, refused when damaged."""

import json
from dataclasses import replace

import numpy as np
import pytest

from conftest import make_store
from unicorn_maml.data.sources import open_store
from unicorn_maml.data.store import ImageStore, StoredClass, write_store
from unicorn_maml.data.tasks import TaskSampler
from unicorn_maml.errors import FileError, UsageError


def test_a_store_round_trips(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)
    classes = [StoredClass("a", "base", 0, 2), StoredClass("b", "novel", 2, 3)]
    write_store(tmp_path / "store", images, classes, source="here", preprocessing="none")
    store = ImageStore.open(tmp_path / "store")
    assert isinstance(store.images, np.memmap)
    assert np.array_equal(store.images, images)
    assert store.classes == tuple(classes)
    assert (store.size, store.channels, store.source) == (8, 3, "here")
    store.verify()
    assert [path.name for path in tmp_path.iterdir()] == ["store"], "no temporary folder is left"


def test_a_changed_pixel_is_noticed_by_verify(tmp_path):
    store = make_store(tmp_path / "store")
    file = store.folder / "images.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(FileError, match="have changed"):
        ImageStore.open(store.folder).verify()


def test_a_truncated_store_is_refused(tmp_path):
    folder = make_store(tmp_path / "store").folder
    content = (folder / "images.npy").read_bytes()
    for length in (0, 50, len(content) // 2):
        (folder / "images.npy").write_bytes(content[:length])
        with pytest.raises(FileError, match=r"is damaged .*; make it again"):
            ImageStore.open(folder)


def test_a_description_that_does_not_fit_the_images_is_refused(tmp_path):
    folder = make_store(tmp_path / "store").folder
    good = json.loads((folder / "store.json").read_text())
    for key, value in (
        ("classes", good["classes"][:-1]),
        ("classes", [{**good["classes"][0], "split": "elsewhere"}, *good["classes"][1:]]),
        ("format", "something else"),
        ("classes", 7),
        ("classes", [{**good["classes"][0], "start": 0.0}, *good["classes"][1:]]),
        ("pixel_mean", [0.5, 0.5]),
        ("pixel_std", [0.0]),
        ("pixel_std", "x"),
        ("pixel_mean", [float("nan")]),
        ("pixel_mean", [10**400]),
    ):
        (folder / "store.json").write_text(json.dumps({**good, key: value}))
        with pytest.raises(FileError, match="is damaged"):
            ImageStore.open(folder)
    for text in ("not json", "[" * 100_000):
        (folder / "store.json").write_text(text)
        with pytest.raises(FileError, match="is damaged"):
            ImageStore.open(folder)


def test_a_store_of_pickled_objects_is_refused(tmp_path):
    folder = make_store(tmp_path / "store").folder
    np.save(folder / "images.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(FileError, match="is damaged"):
        ImageStore.open(folder)


def test_a_folder_that_is_no_store_and_a_missing_one_are_told_apart(tmp_path):
    with pytest.raises(UsageError, match=r"is not a store \(it has no store.json\)"):
        open_store(str(tmp_path))
    with pytest.raises(UsageError, match="There is no store folder"):
        open_store(str(tmp_path / "missing"))


def test_a_damaged_cache_is_drawn_again(tmp_path, monkeypatch):
    monkeypatch.setenv("UNICORN_MAML_CACHE", str(tmp_path))
    folder = open_store("glyphs-16x1").folder
    (folder / "images.npy").write_bytes(b"")
    open_store("glyphs-16x1").verify()


def test_stores_of_the_same_pixels_but_other_splits_are_told_apart(tmp_path):
    first = make_store(tmp_path / "first")
    last_of_base = max(n for n, entry in enumerate(first.classes) if entry.split == "base")
    moved = list(first.classes)
    moved[last_of_base + 1] = replace(moved[last_of_base + 1], split="base")
    kept = {"source": first.source, "preprocessing": first.preprocessing}
    second = write_store(tmp_path / "second", np.array(first.images), moved, **kept)
    again = write_store(tmp_path / "again", np.array(first.images), first.classes, **kept)
    assert first.checksum == second.checksum
    assert first.identity != second.identity
    assert first.identity == again.identity
    numbers = [0, 1, 2]
    rows = [
        TaskSampler(store, "base", way=3, shot=1, query=3, seed=0).rows(numbers).support
        for store in (first, second)
    ]
    assert not np.array_equal(*rows), "so their tasks are not the same"
