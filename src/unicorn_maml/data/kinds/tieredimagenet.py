"""TieredImageNet: 608 ImageNet classes, 351 base, 97 validation and 160 novel ones.

Accepted are

- raw ImageNet images in class folders (or archives per class) named by WordNet number, with
  `train.csv`, `val.csv`, `test.csv` or, without any csv, by the published class lists;
- `train_images.npz`, `val_images.npz`, `test_images.npz`, each with an array `images` of uint8
  (n, 84, 84, 3), and the labels as `train_labels.json` and so on: a list of one label per image,
  or an object with `label_specific` (numbers) and perhaps `label_specific_str` (their names); or
  as an array `labels` in the npz. The usual npz files were written by OpenCV, blue first, and
  become RGB here; `--channel-order rgb` takes them as they are.

The `.pkl` files of the original release are refused: loading a pickle runs whatever it says.
"""

import json
from collections import defaultdict
from typing import Any

from unicorn_maml.data.archives import Member, Problem, Sources
from unicorn_maml.data.arrays import read_array, read_header, refuse_large_images
from unicorn_maml.data.class_lists import published_splits
from unicorn_maml.data.class_splits import list_by_class_names, list_by_csvs
from unicorn_maml.data.kinds.miniimagenet import wordnet_number
from unicorn_maml.data.listing import Item, ListedClass, Listing, RawPixels, images_of
from unicorn_maml.errors import FileError, UsageError
from unicorn_maml.settings import DataPrepareSettings

__all__ = ["list_tieredimagenet"]

_WORDS = {"train": "base", "val": "validation", "test": "novel"}


def list_tieredimagenet(sources: Sources, settings: DataPrepareSettings) -> Listing:
    """List the arrays, or else the images by split csvs, or else by WordNet numbers."""
    arrays = [each for each in sources.members if each.path == "images.npy"]
    if arrays:
        return _list_arrays(sources, settings.channel_order == "bgr")
    if any(each.name.endswith(".pkl") for each in sources.members):
        raise UsageError(
            f"{sources.label} holds pickles, which are never loaded because they can run any code; "
            "give raw ImageNet class folders, or train_images.npz with train_labels.json and so on."
        )
    images = images_of(sources)
    by_csvs = list_by_csvs(sources, images)
    if by_csvs is not None:
        return by_csvs
    return list_by_class_names(sources, images, wordnet_number, published_splits("tieredimagenet"))


def _list_arrays(sources: Sources, bgr: bool) -> Listing:
    listing = Listing()
    for word, split in _WORDS.items():
        name = f"{word}_images.npz"
        images = _in_npz(sources, name, "images.npy")
        if images is None:
            listing.problems.append(Problem(name, "is missing or has no array `images`; add it"))
            continue
        header = read_header(sources, images)
        if len(header.shape) != 4 or header.shape[3] != 3:
            raise FileError(f"{name} has images {header.shape} instead of (n, height, width, 3).")
        count, height, width, channels = header.shape
        refuse_large_images(name, height, width)
        labels = _labels(sources, word)
        if len(labels) != count:
            raise FileError(f"{name} has {count} images, but there are {len(labels)} labels.")
        classes: dict[str, list[Item]] = defaultdict(list)
        for row, label in enumerate(labels):
            offset = header.offset + row * height * width * channels
            raw = RawPixels(offset, height, width, channels, bgr=bgr)
            classes[label].append(Item(images, raw))
        listing.classes += [ListedClass(label, split, each) for label, each in classes.items()]
    return listing


def _in_npz(sources: Sources, npz: str, array: str) -> Member | None:
    for each in sources.members:
        if each.path == array and sources.source_name(each) == npz:
            return each
    return None


def _labels(sources: Sources, word: str) -> list[str]:
    array = _in_npz(sources, f"{word}_images.npz", "labels.npy")
    lists = [each for each in sources.members if each.name == f"{word}_labels.json"]
    for each in [array] if array else lists:
        try:
            content = (
                read_array(sources, each).tolist() if array else json.loads(sources.read(each))
            )
            if isinstance(content, dict):
                return _named(content["label_specific"], content.get("label_specific_str"), word)
            return _named(content, None, word)
        except (
            ValueError,
            KeyError,
            TypeError,
            IndexError,
            RecursionError,
            FileError,
        ) as error:
            raise FileError(
                f"{sources.name(each)} is no list of labels ({error!r}); make it again."
            ) from error
    pickled = any(each.name == f"{word}_labels.pkl" for each in sources.members)
    reason = " (pickles are never loaded: write the list as JSON)" if pickled else ""
    raise FileError(f"The labels {word}_labels.json are missing{reason}.")


def _named(labels: Any, names: Any, word: str) -> list[str]:
    """Numbered classes get their names, or else the split's name: 7 is another class in each."""
    if not isinstance(labels, list):
        raise TypeError("not a list")
    if names is not None:
        return [str(names[label]) for label in labels]
    return [label if isinstance(label, str) else f"{word}_{int(label):03d}" for label in labels]
