"""Preparing a store: whole or not at all, and every bad file is named."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from image_trees import (
    claiming_size,
    class_tree,
    encoded,
    pixels_of,
    prepare,
    splits_of,
    write_tar,
    write_tree,
    write_zip,
)
from unicorn_maml.data import prepare as module
from unicorn_maml.data.prepare import prepare_store
from unicorn_maml.data.store import ImageStore
from unicorn_maml.errors import FileError, UsageError
from unicorn_maml.settings import DataPrepareSettings

BAD = {
    "ant/zero.jpg": b"",
    "ant/text.jpg": b"I am no image",
    "bee/cut.jpg": encoded(size=(84, 84), format="JPEG")[:-500],
    "bee/huge.png": claiming_size(50_000, 50_000),
}


def test_images_land_in_their_rows_and_the_moments_are_right(tmp_path):
    files = class_tree()
    store = prepare(tmp_path / "store", write_tree(tmp_path / "data", files)).store
    store.verify()
    for entry in store.classes:
        k = ["ant", "bee", "cat", "dog", "elk"].index(entry.name)
        for number in range(3):
            assert np.array_equal(store.images[entry.start + number], pixels_of(100 * k + number))
    base = np.concatenate(
        [store.images[each.start : each.start + each.count] for each in store.classes_of("base")]
    )
    assert store.pixel_mean == pytest.approx(base.mean((0, 1, 2)) / 255)
    assert store.pixel_std == pytest.approx(base.std((0, 1, 2)) / 255)


def test_the_source_and_the_preprocessing_are_recorded(tmp_path):
    data = write_zip(tmp_path / "data.zip", class_tree())
    store = prepare(tmp_path / "store", data, size=42, resample="lanczos").store
    assert store.images.shape == (15, 42, 42, 3)
    assert store.source == "folder from data.zip"
    assert "short side to 46 (lanczos), centre crop 42x42" in store.preprocessing


def test_all_bad_files_are_listed_and_nothing_is_written(tmp_path):
    folder = write_tree(tmp_path / "data", {**class_tree(), **BAD})
    (folder / "cat" / "link.jpg").symlink_to("/etc/hostname")
    with pytest.raises(FileError) as error:
        prepare(tmp_path / "store", folder)
    message = str(error.value)
    assert error.value.exit_code == 1
    assert "5 bad files" in message
    assert "--on-error skip" in message
    for name in (*BAD, "cat/link.jpg"):
        assert name in message
    for reason in ("is empty", "no image of a known format", "truncated", "too many pixels"):
        assert reason in message
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_bad_files_are_left_out_on_request(tmp_path):
    good = prepare(tmp_path / "good", write_tree(tmp_path / "data", class_tree())).store
    folder = write_tree(tmp_path / "data", BAD)
    prepared = prepare(tmp_path / "store", folder, on_error="skip")
    assert len(prepared.problems) == 4
    assert np.array_equal(prepared.store.images, good.images)
    assert prepared.store.classes == good.classes
    assert "bad files left out: 4" in prepared.store.source
    prepared.store.verify()


def test_a_class_of_bad_files_only_disappears(tmp_path):
    files = {**class_tree(), "fox/1.jpg": b"", "fox/2.jpg": b"text"}
    prepared = prepare(tmp_path / "store", write_tree(tmp_path / "d", files), on_error="skip")
    assert "fox" not in splits_of(prepared)
    only_bad = write_tree(tmp_path / "bad", {"fox/1.jpg": b""})
    with pytest.raises(FileError, match="No image of bad is sound"):
        prepare(tmp_path / "other", only_bad, on_error="skip")
    assert not (tmp_path / "other").exists()


def test_a_long_list_is_cut_short_but_counted(tmp_path):
    files = {f"ant/{n}.jpg": b"" for n in range(70)}
    with pytest.raises(FileError, match="70 bad files") as error:
        prepare(tmp_path / "store", write_zip(tmp_path / "a.zip", files))
    assert len(str(error.value).splitlines()) == 52
    assert str(error.value).endswith("and 20 more")


def test_archive_entries_that_lead_out_stop_the_preparation_and_write_nothing(tmp_path):
    files = {**class_tree(), "../../evil.png": encoded(), "/evil.png": encoded()}
    for archive in (write_zip(tmp_path / "a.zip", files), write_tar(tmp_path / "a.tgz", files)):
        with pytest.raises(FileError, match=r"evil.png: has a path that leads out of the archive"):
            prepare(tmp_path / "deep" / "er" / "store", archive)
        prepared = prepare(tmp_path / "deep" / "er" / "store", archive, on_error="skip")
        assert len(prepared.store.images) == 15
        assert not list(tmp_path.rglob("evil*"))


def test_a_zip_bomb_is_named(tmp_path):
    archive = write_zip(tmp_path / "a.zip", {**class_tree(), "ant/bomb.png": bytes(3 * 2**20)})
    with pytest.raises(FileError, match=r"ant/bomb.png: unpacks to far more"):
        prepare(tmp_path / "store", archive)


def test_classes_that_differ_only_in_case_are_named(tmp_path):
    archive = write_zip(tmp_path / "a.zip", class_tree(["Ant", "ant", "bee", "cat"]))
    with pytest.raises(FileError) as error:
        prepare(tmp_path / "store", archive)
    assert "class Ant: differs from another class only in case" in str(error.value)
    assert "class ant: differs from another class only in case" in str(error.value)
    assert set(splits_of(prepare(tmp_path / "store", archive, on_error="skip"))) == {"bee", "cat"}


def test_names_that_are_not_utf8_are_named_without_a_crash(tmp_path):
    name = os.fsdecode(b"ant/\xff\xfe.png")
    archive = write_tar(tmp_path / "a.tar", {**class_tree(), name: encoded()})
    with pytest.raises(FileError, match=r"ant/\\xff\\xfe.png: has a name that is not UTF-8"):
        prepare(tmp_path / "store", archive)
    assert len(prepare(tmp_path / "store", archive, on_error="skip").store.images) == 15


def mini(**files: str) -> dict[str, bytes | str]:
    rows = "filename,label\na.png,ant\nb.png,ant\n"
    lists = {"train": rows, "val": "filename,label\nc.png,cat\n", "test": "c2.png,dog\n"}
    lists |= files
    images = {f"images/{name}.png": encoded(n) for n, name in enumerate(("a", "b", "c", "c2"))}
    return {**images, **{f"{word}.csv": text for word, text in lists.items() if text}}


CSV_FAULTS = {
    "a missing csv": ({"val": ""}, "val.csv: is missing; add it"),
    "a csv that names missing files": (
        {"val": "c.png,cat\nlost.png,cat\n"},
        "val.csv: lost.png: is not in the sources",
    ),
    "a file in two csvs": ({"val": "c.png,cat\na.png,cat\n"}, "a.png: is named twice"),
    "a csv with one column": ({"val": "c.png\n"}, "does not hold `filename,label` rows"),
    "an empty csv": ({"val": "filename,label\n"}, "does not hold `filename,label` rows"),
    "a class in two csvs": ({"val": "c.png,ant\n"}, "class ant: differs from another"),
}


@pytest.mark.parametrize("fault", CSV_FAULTS)
def test_faults_of_split_csvs_are_named_and_can_be_skipped(tmp_path, fault):
    changes, sentence = CSV_FAULTS[fault]
    folder = write_tree(tmp_path / "mini", mini(**changes))
    with pytest.raises(FileError) as error:
        prepare(tmp_path / "store", folder, dataset="miniimagenet")
    assert sentence in str(error.value)
    prepared = prepare(tmp_path / "store", folder, dataset="miniimagenet", on_error="skip")
    assert "dog" in splits_of(prepared)


def test_an_image_that_is_there_twice_is_named(tmp_path):
    folder = write_tree(tmp_path / "mini", {**mini(), "copy/a.png": encoded()})
    with pytest.raises(FileError, match=r"a.png: is in the sources more than once"):
        prepare(tmp_path / "store", folder, dataset="miniimagenet")


def test_an_interruption_leaves_nothing_and_the_old_store_untouched(tmp_path):
    folder = write_tree(tmp_path / "data", class_tree())
    old = prepare(tmp_path / "store", folder).store.checksum
    write_tree(tmp_path / "data", {"ant/new.png": encoded(7)})

    def interrupt(*_):
        raise KeyboardInterrupt

    settings = DataPrepareSettings(sources=[folder], out=tmp_path / "store", size=12)
    with pytest.raises(KeyboardInterrupt):
        prepare_store(settings, interrupt)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "store"]
    assert ImageStore.open(tmp_path / "store").checksum == old
    assert prepare(tmp_path / "store", folder).store.checksum != old


def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path, monkeypatch):
    folder = write_tree(tmp_path / "data", class_tree())

    def is_full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("write_array_header", "finish_store"):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, is_full)
            with pytest.raises(OSError, match="No space left"):
                prepare(tmp_path / "store", folder)
        assert [path.name for path in tmp_path.iterdir()] == ["data"]
    usage = type("usage", (), {"free": 100})
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(OSError, match="No space left"):
        prepare(tmp_path / "store", folder)


def test_what_is_no_store_is_never_replaced(tmp_path):
    folder = write_tree(tmp_path / "data", class_tree())
    precious = write_tree(tmp_path / "precious", {"thesis.txt": "years of work"})
    with pytest.raises(UsageError, match="exists and is no store"):
        prepare(precious, folder)
    with pytest.raises(UsageError, match="exists and is no store"):
        prepare(precious / "thesis.txt", folder)
    assert (precious / "thesis.txt").read_text() == "years of work"
    (tmp_path / "empty").mkdir()
    store = prepare(tmp_path / "empty", folder).store
    inside = write_tree(store.folder / "more", class_tree())
    with pytest.raises(UsageError, match="is inside"):
        prepare(store.folder, inside)
    assert inside.is_dir()


def test_many_batches_with_errors_between_them_keep_their_places(tmp_path):
    files = {f"c{n % 7}/{n:04d}.png": encoded(n, size=(12, 12)) for n in range(300)}
    bad = {f"c{n % 7}/{n:04d}.png": b"" for n in range(0, 300, 13)}
    archive = write_tar(tmp_path / "a.tar.gz", {**files, **bad})
    store = prepare(tmp_path / "store", archive, on_error="skip").store
    assert len(store.images) == 300 - len(bad)
    for entry in store.classes:
        names = sorted(name for name in files if name.startswith(entry.name) and name not in bad)
        assert entry.count == len(names)
        for row, name in enumerate(names, entry.start):
            assert np.array_equal(store.images[row], pixels_of(int(Path(name).stem)))


WRONG = {
    "out": (None, "--out FOLDER"),
    "size": (4, "--size must be at least 8"),
    "seed": (-1, "--seed must be at least 0"),
    "fractions": ("0.5,0.5", "three numbers that add up to 1"),
    "crop_to_box": (True, "--crop-to-box is for --dataset cub only"),
    "rotations": (True, "--rotations is for --dataset omniglot only"),
    "sources": ([], "at least one folder"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_settings_are_refused(tmp_path, name):
    value, sentence = WRONG[name]
    good = {"sources": [tmp_path], "dataset": "folder", "out": tmp_path / "store"}
    with pytest.raises(UsageError, match=sentence):
        DataPrepareSettings(**{**good, name: value})
