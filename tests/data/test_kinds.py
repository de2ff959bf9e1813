"""Every kind of data set, in small: where its classes, splits and images are found."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from image_trees import (
    class_tree,
    encoded,
    pixels_of,
    prepare,
    splits_of,
    write_tar,
    write_tree,
    write_zip,
)
from unicorn_maml.data.archives import Sources
from unicorn_maml.data.class_lists import cifar100_superclasses, published_splits
from unicorn_maml.data.kinds.build import KINDS
from unicorn_maml.data.prepare import list_data_set
from unicorn_maml.errors import FileError, UsageError
from unicorn_maml.settings import DataPrepareSettings, DataSetKind

WNIDS = {"train": "n01532829", "val": "n01855672", "test": "n01930112"}
SPLITS = {"train": "base", "val": "validation", "test": "novel"}


def csv_of(word: str, names: list[str]) -> str:
    return "filename,label\n" + "".join(f"{name},{WNIDS[word]}\n" for name in names)


def mini_files() -> dict[str, bytes | str]:
    files: dict[str, bytes | str] = {}
    for k, (word, wnid) in enumerate(WNIDS.items()):
        names = [f"{wnid}{number:08d}.jpg" for number in range(3)]
        files |= {f"images/{name}": encoded(10 * k + n) for n, name in enumerate(names)}
        files[f"{word}.csv"] = csv_of(word, names)
    return files


def test_every_kind_is_known_by_its_name():
    assert set(KINDS) == set(DataSetKind.__args__)


@pytest.mark.parametrize(
    ("data_set", "counts"),
    [
        ("miniimagenet", (64, 16, 20)),
        ("tieredimagenet", (351, 97, 160)),
        ("cub", (100, 50, 50)),
        ("cifar-fs", (64, 16, 20)),
        ("fc100", (12, 4, 4)),
    ],
)
def test_the_published_class_lists_are_shipped(data_set, counts):
    splits = list(published_splits(data_set).values())
    assert tuple(splits.count(split) for split in SPLITS.values()) == counts


def test_cifar100_has_20_superclasses_of_five():
    superclasses = list(cifar100_superclasses().values())
    assert len(superclasses) == 100
    assert {superclasses.count(each) for each in superclasses} == {5}
    assert set(superclasses) == set(published_splits("fc100"))
    assert cifar100_superclasses().keys() == published_splits("cifar-fs").keys()


@pytest.mark.parametrize("form", ["folder", "zip", "tar.gz", "both"])
def test_miniimagenet_is_the_same_store_from_any_form(tmp_path, form):
    files = mini_files()
    if form == "folder":
        sources = [write_tree(tmp_path / "mini", files)]
    elif form == "both":
        lists = {name: content for name, content in files.items() if name.endswith(".csv")}
        images = {name: content for name, content in files.items() if name not in lists}
        sources = [write_tree(tmp_path / "l", lists), write_zip(tmp_path / "i.zip", images)]
    else:
        write = write_zip if form == "zip" else write_tar
        backwards = dict(reversed(files.items()))
        sources = [write(tmp_path / f"mini.{form}", backwards)]
    prepared = prepare(tmp_path / "store", *sources, dataset="miniimagenet")
    assert splits_of(prepared) == {WNIDS[word]: split for word, split in SPLITS.items()}
    assert [entry.count for entry in prepared.store.classes] == [3, 3, 3]
    reference = prepare(
        tmp_path / "r", write_tree(tmp_path / "reference", files), dataset="miniimagenet"
    )
    assert prepared.store.checksum == reference.store.checksum


def test_miniimagenet_csvs_work_with_class_folders_and_equal_file_names(tmp_path):
    files: dict[str, bytes | str] = {}
    for k, (word, wnid) in enumerate(WNIDS.items()):
        files |= {f"{word}/{wnid}/{n}.jpg": encoded(10 * k + n) for n in range(2)}
        files[f"{word}.csv"] = csv_of(word, ["0.jpg", "1.jpg"])
    prepared = prepare(
        tmp_path / "store", write_tree(tmp_path / "mini", files), dataset="miniimagenet"
    )
    assert splits_of(prepared) == {WNIDS[word]: split for word, split in SPLITS.items()}


def test_without_csvs_wordnet_numbers_and_the_published_lists_decide(tmp_path):
    files = {f"x/{wnid}/{n}.jpg": encoded(n) for wnid in WNIDS.values() for n in range(2)}
    files["x/n99999999/1.jpg"] = encoded()
    folder = write_tree(tmp_path / "mini", files)
    for form in ("folder", "archives"):
        sources = [folder]
        if form == "archives":
            sources = [
                write_tar(
                    tmp_path / f"{wnid}.tar", {f"{wnid}_{n}.JPEG": encoded(n) for n in (1, 2)}
                )
                for wnid in (*WNIDS.values(), "n99999999")
            ]
        prepared = prepare(tmp_path / form, *sources, dataset="miniimagenet", on_error="skip")
        assert splits_of(prepared) == {WNIDS[word]: split for word, split in SPLITS.items()}
        assert prepared.not_in_data_set == (1 if form == "folder" else 2)
        assert len(prepared.problems) == 97, "the classes without images are named"


def test_tieredimagenet_takes_class_folders(tmp_path):
    files = {
        "n01530575/1.jpg": encoded(),
        "n02099267/1.jpg": encoded(),
        "n01440764/1.jpg": encoded(),
    }
    prepared = prepare(
        tmp_path / "store",
        write_tree(tmp_path / "t", files),
        dataset="tieredimagenet",
        on_error="skip",
    )
    assert sorted(splits_of(prepared).values()) == ["base", "novel", "validation"]


@pytest.mark.parametrize("labels", ["list", "object", "array"])
@pytest.mark.parametrize("order", ["bgr", "rgb"])
def test_tieredimagenet_takes_npz_with_json_labels(tmp_path, labels, order):
    folder, images = tmp_path / "tiered", {}
    folder.mkdir()
    for k, word in enumerate(SPLITS):
        pixels = np.random.default_rng(k).integers(0, 256, (4, 12, 12, 3), dtype=np.uint8)
        images[word] = pixels
        numbers = [1, 0, 1, 0]
        arrays = {"images": pixels}
        if labels == "array":
            arrays["labels"] = np.array(numbers)
        np.savez(folder / f"{word}_images.npz", **arrays)
        names = [f"{word} {n}" for n in range(2)]
        value = {"label_specific": numbers, "label_specific_str": names}
        if labels != "array":
            (folder / f"{word}_labels.json").write_text(
                json.dumps(numbers if labels == "list" else value)
            )
    prepared = prepare(tmp_path / "s", folder, dataset="tieredimagenet", channel_order=order)
    first = "train 0" if labels == "object" else "train_000"
    assert prepared.store.classes[0].name == first
    expected = images["train"][[1, 3, 0, 2]]
    if order == "bgr":
        expected = expected[..., ::-1]
    assert np.array_equal(prepared.store.images[:4], expected)


@pytest.mark.parametrize("labels", [np.zeros((4, 1)), np.array(3), "[" * 100_000])
def test_labels_that_are_no_list_are_refused_with_a_sentence(tmp_path, labels):
    folder = tmp_path / "tiered"
    folder.mkdir()
    for word in SPLITS:
        arrays = {"images": np.zeros((4, 12, 12, 3), np.uint8)}
        if isinstance(labels, str):
            (folder / f"{word}_labels.json").write_text(labels)
        else:
            arrays["labels"] = labels
        np.savez(folder / f"{word}_images.npz", **arrays)
    with pytest.raises(FileError, match="is no list of labels"):
        prepare(tmp_path / "s", folder, dataset="tieredimagenet")
    arrays = {**omniglot_arrays(), "alphabet": np.array("x")}
    np.savez(tmp_path / "omniglot.npz", **arrays)
    with pytest.raises(FileError, match="do not fit their names"):
        prepare(tmp_path / "o", tmp_path / "omniglot.npz", dataset="omniglot")


def test_arrays_of_enormous_images_are_refused_before_one_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("unicorn_maml.data.arrays.LARGEST_PIXELS", 10 * 12)
    (tmp_path / "tiered").mkdir()
    for word in SPLITS:
        arrays = {"images": np.zeros((4, 12, 12, 3), np.uint8), "labels": np.zeros(4, int)}
        np.savez(tmp_path / "tiered" / f"{word}_images.npz", **arrays)
    with pytest.raises(FileError, match="has images of 12 x 12 pixels"):
        prepare(tmp_path / "s", tmp_path / "tiered", dataset="tieredimagenet")
    np.savez(tmp_path / "omniglot.npz", **omniglot_arrays())
    with pytest.raises(FileError, match=r"has images of .* pixels"):
        prepare(tmp_path / "o", tmp_path / "omniglot.npz", dataset="omniglot")


def test_pickles_are_refused_with_a_sentence(tmp_path):
    tiered = write_tree(tmp_path / "t", {"train_images_png.pkl": b"", "train_labels.pkl": b""})
    with pytest.raises(UsageError, match=r"pickles, which are never loaded.*train_images.npz"):
        prepare(tmp_path / "store", tiered, dataset="tieredimagenet")
    python = write_tar(tmp_path / "cifar-100-python.tar.gz", {"cifar-100-python/train": b"x"})
    with pytest.raises(UsageError, match=r"never loaded.*give cifar-100-binary.tar.gz"):
        prepare(tmp_path / "store", python, dataset="fc100")
    np.savez(tmp_path / "omniglot.npz", images=np.array([{}], dtype=object))
    with pytest.raises(FileError, match="lacks one of the arrays"):
        prepare(tmp_path / "store", tmp_path / "omniglot.npz", dataset="omniglot")


BIRDS = {"003.Sooty_Albatross": "base", "001.Black_footed_Albatross": "validation"}
BIRDS |= {"010.Red_winged_Blackbird": "novel"}


def cub_files(size=(40, 30)) -> dict[str, bytes | str]:
    names = [f"{bird}/{bird[4:]}_{n}.jpg" for bird in BIRDS for n in range(2)]
    files: dict[str, bytes | str] = {
        f"CUB/images/{name}": encoded(n, size=size) for n, name in enumerate(names)
    }
    files["CUB/images.txt"] = "".join(f"{n + 1} {name}\n" for n, name in enumerate(names))
    files["CUB/bounding_boxes.txt"] = "".join(
        f"{n + 1} {n + 3}.0 4.0 12.0 12.0\n" for n in range(len(names))
    )
    files[f"CUB/segmentations/{names[0][:-4]}.png"] = encoded()
    return files


def test_cub_takes_the_official_tree_and_the_published_lists(tmp_path):
    archive = write_tar(tmp_path / "CUB_200_2011.tgz", cub_files())
    prepared = prepare(tmp_path / "store", archive, dataset="cub", on_error="skip")
    assert splits_of(prepared) == BIRDS
    assert [entry.count for entry in prepared.store.classes] == [2, 2, 2]


def test_cub_takes_csvs_with_spaces_in_the_header_and_more_columns(tmp_path):
    files = cub_files()
    for word, split in SPLITS.items():
        bird = next(name for name, where in BIRDS.items() if where == split)
        rows = "".join(f"{bird[4:]}_{n}.jpg,{bird},6,5,5\n" for n in range(2))
        files[f"split/{word}.csv"] = "filename, label, concept_label\n" + rows
    prepared = prepare(tmp_path / "store", write_zip(tmp_path / "cub.zip", files), dataset="cub")
    assert splits_of(prepared) == BIRDS
    assert prepared.problems == ()


def test_cub_can_be_cut_to_the_bounding_boxes(tmp_path):
    folder = write_tree(tmp_path / "cub", cub_files())
    options = {"dataset": "cub", "on_error": "skip", "size": 12}
    prepared = prepare(tmp_path / "store", folder, crop_to_box=True, **options)
    # image 0 is the first of 003.Sooty_Albatross; its box of 12x12 begins at column 3, row 4
    original = pixels_of(0, size=(40, 30))
    assert np.array_equal(prepared.store.images[0], original[4:16, 3:15])
    assert "cut to the bounding box" in prepared.store.preprocessing


def test_boxes_of_larger_images_and_missing_boxes_are_refused(tmp_path):
    small = write_tree(tmp_path / "small", cub_files(size=(12, 12)))
    with pytest.raises(UsageError, match="boxes do not fit the images"):
        prepare(tmp_path / "store", small, dataset="cub", crop_to_box=True)
    (small / "CUB/bounding_boxes.txt").unlink()
    with pytest.raises(UsageError, match=r"needs bounding_boxes.txt"):
        prepare(tmp_path / "store", small, dataset="cub", crop_to_box=True)


def omniglot_arrays() -> dict[str, np.ndarray]:
    """Twelve background alphabets of one character, and one evaluation alphabet of two."""
    parts = ["images_background"] * 12 + ["images_evaluation"] * 2
    return {
        "images": np.random.default_rng(0).integers(0, 256, (14, 3, 28, 28), dtype=np.uint8),
        "split": np.array(parts),
        "alphabet": np.array([f"alphabet {min(n, 12):02d}" for n in range(14)]),
        "character": np.array([1] * 13 + [2]),
    }


def test_omniglot_is_the_same_from_npz_and_from_the_official_trees(tmp_path):
    arrays = omniglot_arrays()
    np.savez_compressed(tmp_path / "omniglot.npz", **arrays)
    from_npz = prepare(tmp_path / "npz", tmp_path / "omniglot.npz", dataset="omniglot", size=None)
    assert from_npz.store.images.shape == (42, 28, 28, 1)
    trees: dict[str, dict[str, bytes]] = {"images_background": {}, "images_evaluation": {}}
    for n in range(14):
        part, alphabet = str(arrays["split"][n]), arrays["alphabet"][n]
        for drawing, pixels in enumerate(arrays["images"][n]):
            name = f"{part}/{alphabet}/character{arrays['character'][n]:02d}/{drawing:02d}.png"
            trees[part][name] = _png(pixels)
    archives = [write_zip(tmp_path / f"{part}.zip", tree) for part, tree in trees.items()]
    from_trees = prepare(tmp_path / "trees", *archives, dataset="omniglot", size=None)
    assert from_trees.store.checksum == from_npz.store.checksum
    assert from_trees.store.classes == from_npz.store.classes
    splits = list(splits_of(from_npz).items())
    assert [name for name, split in splits if split == "validation"] == [
        "alphabet 05/character01",
        "alphabet 11/character01",
    ]
    assert [split for _, split in splits].count("novel") == 2
    with pytest.raises(FileError, match="images_evaluation is missing"):
        prepare(tmp_path / "half", archives[0], dataset="omniglot")


def _png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def test_a_damaged_array_is_refused_as_a_whole(tmp_path):
    np.savez(tmp_path / "omniglot.npz", **omniglot_arrays())
    content = bytearray((tmp_path / "omniglot.npz").read_bytes())
    content[5000] ^= 1  # a pixel: only the checksum at the end of the array tells
    (tmp_path / "omniglot.npz").write_bytes(content)
    with pytest.raises(FileError, match=r"images.npy is damaged: it cannot be read"):
        prepare(tmp_path / "store", tmp_path / "omniglot.npz", dataset="omniglot", size=28)
    assert not (tmp_path / "store").exists()


def test_rotations_are_new_classes(tmp_path):
    np.savez(tmp_path / "omniglot.npz", **omniglot_arrays())
    options = {"dataset": "omniglot", "size": 28}
    plain = prepare(tmp_path / "a", tmp_path / "omniglot.npz", **options).store
    turned = prepare(tmp_path / "b", tmp_path / "omniglot.npz", rotations=True, **options).store
    assert len(turned.classes) == 4 * len(plain.classes)
    by_name = {entry.name: entry for entry in turned.classes}
    for entry in plain.classes:
        upright = plain.images[entry.start : entry.start + entry.count]
        for turns, suffix in enumerate(["", "/rot90", "/rot180", "/rot270"]):
            other = by_name[entry.name + suffix]
            assert other.split == entry.split
            images = turned.images[other.start : other.start + other.count]
            assert np.array_equal(images, np.rot90(upright, turns, axes=(1, 2)))


def cifar_binary() -> dict[str, bytes | str]:
    names = sorted(cifar100_superclasses())
    records = {}
    for number, part in enumerate(("train", "test")):
        pixels = np.random.default_rng(number).integers(0, 256, (200, 3072), dtype=np.uint8)
        labels = np.stack([np.zeros(200), np.arange(200) % 100], axis=1).astype(np.uint8)
        records[part] = np.concatenate([labels, pixels], axis=1).tobytes()
    return {
        "cifar-100-binary/train.bin": records["train"],
        "cifar-100-binary/test.bin": records["test"],
        "cifar-100-binary/fine_label_names.txt": "\n".join(names) + "\n",
    }


@pytest.mark.parametrize(
    ("dataset", "counts"), [("cifar-fs", (64, 16, 20)), ("fc100", (60, 20, 20))]
)
def test_cifar_takes_the_binary_archive_and_class_folders(tmp_path, dataset, counts):
    archive = write_tar(tmp_path / "cifar-100-binary.tar.gz", cifar_binary())
    prepared = prepare(tmp_path / "store", archive, dataset=dataset, size=None)
    splits = list(splits_of(prepared).values())
    assert tuple(splits.count(split) for split in SPLITS.values()) == counts
    assert prepared.store.images.shape == (400, 32, 32, 3)
    first = prepared.store.classes[0]
    number = sorted(cifar100_superclasses()).index(first.name)
    train = np.random.default_rng(0).integers(0, 256, (200, 3072), dtype=np.uint8)
    expected = train[number].reshape(3, 32, 32).transpose(1, 2, 0)
    rows = prepared.store.images[first.start : first.start + first.count]
    assert any(np.array_equal(row, expected) for row in rows)
    files = {f"data/{name}/1.png": encoded(size=(32, 32)) for name in cifar100_superclasses()}
    folders = prepare(
        tmp_path / "f", write_tree(tmp_path / "data", files), dataset=dataset, size=None
    )
    assert splits_of(folders) == splits_of(prepared)


def test_a_cifar_archive_that_is_cut_off_is_refused(tmp_path):
    files = cifar_binary()
    files["cifar-100-binary/test.bin"] = files["cifar-100-binary/test.bin"][:-5]
    folder = write_tree(tmp_path / "cut", files)
    with pytest.raises(FileError, match=r"test.bin is cut off"):
        prepare(tmp_path / "store", folder, dataset="cifar-fs")
    (folder / "cifar-100-binary/test.bin").unlink()
    with pytest.raises(FileError, match=r"lacks test.bin"):
        prepare(tmp_path / "store", folder, dataset="cifar-fs")


def test_folders_with_splits_are_taken_as_they_are(tmp_path):
    files = {
        "set/train/ant/1.png": encoded(1),
        "set/val/bee/1.png": encoded(2),
        "set/test/train/1.png": encoded(3),  # a class may be called like a split
    }
    prepared = prepare(tmp_path / "store", write_tree(tmp_path / "data", files))
    assert splits_of(prepared) == {"ant": "base", "bee": "validation", "train": "novel"}


def test_folders_without_splits_are_split_by_class_with_fractions_and_a_seed(tmp_path):
    names = [f"class{n:02d}" for n in range(20)]
    folder = write_tree(tmp_path / "deep/data", class_tree(names, images=1)).parent
    settings = DataPrepareSettings(
        sources=[folder], dataset="folder", out=tmp_path / "s", fractions="0.5,0.2,0.3"
    )

    def drawn(seed: int, **options) -> dict[str, str]:
        chosen = replace(settings, seed=seed, **options)
        with Sources(chosen.sources) as sources:
            return {each.name: each.split for each in list_data_set(sources, chosen).classes}

    first = drawn(0)
    assert sorted(first) == names
    counts = [list(first.values()).count(split) for split in SPLITS.values()]
    assert counts == [10, 4, 6]
    assert drawn(0) == first
    assert drawn(1) != first
    assert set(drawn(0, fractions="0,0,1").values()) == {"novel"}


def test_a_class_in_two_splits_and_images_outside_are_named(tmp_path):
    files = {
        "train/ant/1.png": encoded(1),
        "train/bee/1.png": encoded(2),
        "test/ant/1.png": encoded(3),
        "cat/1.png": encoded(4),
        "1.png": encoded(5),
    }
    folder = write_tree(tmp_path / "data", files)
    with pytest.raises(FileError) as error:
        prepare(tmp_path / "store", folder)
    assert "class ant: is in several splits (base, novel)" in str(error.value)
    assert "cat/1.png: lies in no split folder" in str(error.value)
    assert "1.png: lies in no class folder" in str(error.value)
    assert splits_of(prepare(tmp_path / "store", folder, on_error="skip")) == {"bee": "base"}


@pytest.mark.parametrize("dataset", KINDS)
def test_a_source_without_images_of_the_kind_says_what_is_expected(tmp_path, dataset):
    folder = write_tree(tmp_path / "empty", {"readme.txt": "nothing here"})
    with pytest.raises(FileError, match=rf"no images of the {dataset} data set.*expected are"):
        prepare(tmp_path / "store", folder, dataset=dataset)
    assert not (tmp_path / "store").exists()
