"""The real data sets, where they are at hand: $UNICORN_MAML_TEST_DATA, or ../shared/data."""

import csv
import io
import json
import os
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from image_trees import prepare, splits_of
from unicorn_maml.data.archives import Sources
from unicorn_maml.data.class_lists import published_splits
from unicorn_maml.data.duplicates import count_pairs, find_duplicates
from unicorn_maml.data.prepare import list_data_set
from unicorn_maml.data.store import ImageStore
from unicorn_maml.evaluation.results import evaluate
from unicorn_maml.settings import DataPrepareSettings, EvaluateSettings
from unicorn_maml.training.checkpoint import shipped_checkpoints

ROOT = Path(__file__).parents[2].parent / "shared" / "data"
ROOT = Path(os.environ.get("UNICORN_MAML_TEST_DATA") or ROOT)


def folder_of(name: str) -> Path:
    if not (ROOT / name).is_dir():
        pytest.skip(f"{name} is not at hand")
    return ROOT / name


@pytest.mark.parametrize(
    ("name", "dataset", "classes", "images"),
    [
        ("mini_imagenet", "miniimagenet", (64, 16, 20), (38_400, 9_600, 12_000)),
        ("cub", "cub", (100, 50, 50), (5_891, 2_932, 2_965)),
        ("omniglot", "omniglot", (806, 158, 659), (16_120, 3_160, 13_180)),
    ],
)
def test_the_counts_of_classes_and_images_are_the_published_ones(name, dataset, classes, images):
    settings = DataPrepareSettings(sources=[folder_of(name)], dataset=dataset, out=Path("unused"))
    with Sources(settings.sources) as sources:
        listing = list_data_set(sources, settings)
    assert listing.problems == []
    assert listing.not_in_data_set == 0
    counted, totals = Counter[str](), Counter[str]()
    for each in listing.classes:
        counted[each.split] += 1
        totals[each.split] += len(each.items)
    splits = ("base", "validation", "novel")
    assert tuple(counted[split] for split in splits) == classes
    assert tuple(totals[split] for split in splits) == images


DUPLICATED = {
    "train": ["n02091831", "n02108551", "n02111277", "n03888605", "n04389033"],
    "val": ["n03535780", "n02950826"],
    "test": ["n01930112"],
}


def some_of_miniimagenet(wanted: set[str], file: Path) -> Path:
    """Take these classes from the archives into a smaller one."""
    with zipfile.ZipFile(file, "w") as some:
        for path in sorted(folder_of("mini_imagenet").glob("*.zip")):
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    if name.endswith(".csv"):
                        rows = csv.reader(io.StringIO(archive.read(name).decode()))
                        kept = [row for row in rows if row[1] in {*wanted, "label"}]
                        some.writestr(name, "\n".join(map(",".join, kept)))
                    elif name.removeprefix("images/")[:9] in wanted:
                        some.writestr(name, archive.read(name))
    return file


def test_miniimagenet_keeps_its_pixels_and_has_eight_pairs_of_duplicates(tmp_path):
    wanted = {name for names in DUPLICATED.values() for name in names}
    some = some_of_miniimagenet(wanted, tmp_path / "some.zip")
    prepared = prepare(tmp_path / "store", some, dataset="miniimagenet", size=84)
    store = prepared.store
    assert len(store.images) == 8 * 600
    assert Counter(splits_of(prepared).values()) == {"base": 5, "validation": 2, "novel": 1}
    groups = find_duplicates(store)
    assert count_pairs(groups) == {("base", "base"): 2, ("base", "validation"): 6}
    assert {copy.class_name for group in groups for copy in group} == wanted - {"n01930112"}
    with zipfile.ZipFile(some) as archive:
        for entry in store.classes:
            names = sorted(n for n in archive.namelist() if n.startswith(f"images/{entry.name}"))
            for number in (0, 299, 599):
                pixels = np.asarray(Image.open(archive.open(names[number])).convert("RGB"))
                assert np.array_equal(store.images[entry.start + number], pixels)


def check_recorded_accuracy(name: str, store: ImageStore) -> None:
    """A shipped 1-shot model solves novel tasks as well as its card says, and by adapting."""
    asked = EvaluateSettings(checkpoint=Path(name), store=str(store.folder), tasks=60, device="cpu")
    result = evaluate(asked)
    [recorded] = json.loads((shipped_checkpoints()[name] / "card.json").read_text())["accuracy"]
    # Four standard errors of 60 tasks.
    assert abs(result["accuracy"] - recorded["percent"]) < result["ci95"] / 1.96 * 4
    before = evaluate(replace(asked, inner_steps=0))
    assert before["accuracy"] < 30 < recorded["percent"]


def test_the_shipped_convnet4_has_its_recorded_accuracy_on_novel_tasks(tmp_path):
    novel = {each for each, split in published_splits("miniimagenet").items() if split == "novel"}
    some = some_of_miniimagenet(novel | {"n02091831", "n03535780"}, tmp_path / "some.zip")
    prepared = prepare(tmp_path / "store", some, dataset="miniimagenet", size=84)
    check_recorded_accuracy("miniimagenet-convnet4-1shot", prepared.store)


def test_cub_is_prepared_from_its_archives_and_the_shipped_convnet4s_know_its_birds(tmp_path):
    store = prepare(tmp_path / "store", folder_of("cub"), dataset="cub", size=84).store
    store.verify()
    assert store.images.shape == (11_788, 84, 84, 3)
    assert count_pairs(find_duplicates(store)) == {("validation", "validation"): 1}
    for name in ("cub-convnet4-1shot", "cub-convnet4-maml-1shot"):
        check_recorded_accuracy(name, store)


def test_omniglot_is_prepared_from_its_npz_unchanged(tmp_path):
    folder = folder_of("omniglot")
    store = prepare(tmp_path / "store", folder, dataset="omniglot", size=None).store
    with np.load(folder / "omniglot_28.npz") as arrays:
        images, alphabets, characters = (
            arrays[name] for name in ("images", "alphabet", "character")
        )
    assert store.images.shape == (1623 * 20, 28, 28, 1)
    by_name = {entry.name: entry for entry in store.classes}
    for number in range(0, 1623, 50):
        entry = by_name[f"{alphabets[number]}/character{characters[number]:02d}"]
        stored = store.images[entry.start : entry.start + entry.count, :, :, 0]
        assert np.array_equal(stored, images[number])
