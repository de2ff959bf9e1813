"""Any tree of image folders: `split/class/image`, or `class/image`, which is split by class.

Split folders are called train, val (valid, validation) and test, or base, validation and novel.
Without them, `--fractions` of the classes become base, validation and novel, drawn by `--seed`.
"""

from collections import defaultdict

import numpy as np

from unicorn_maml.data.archives import Problem, Sources, shown
from unicorn_maml.data.listing import SPLITS, Item, ListedClass, Listing, images_of, split_of_word
from unicorn_maml.settings import DataPrepareSettings

__all__ = ["list_folder"]


def list_folder(sources: Sources, settings: DataPrepareSettings) -> Listing:
    """List the images by the folders they lie in."""
    listing = Listing()
    with_split: dict[tuple[str, str], list[Item]] = defaultdict(list)
    without: dict[tuple[str, ...], list[Item]] = defaultdict(list)
    for image in images_of(sources):
        *folders, _ = image.parts
        at, split = _split_folder(folders)
        if split is not None:
            with_split[split, "/".join(folders[at + 1 :])].append(Item(image))
        elif folders:
            without[tuple(folders)].append(Item(image))
        else:
            listing.problems.append(
                sources.problem(image, "lies in no class folder; name the folder above it")
            )
    if with_split:
        for items in without.values():
            reason = "lies in no split folder, but others do; move it into train, val or test"
            listing.problems += [sources.problem(item.member, reason) for item in items]
        listing.classes = [
            ListedClass(name, split, items) for (split, name), items in with_split.items()
        ]
        _refuse_shared_classes(listing)
    elif without:
        root = _common_folders(list(without))
        classes = {"/".join(path[root:]): items for path, items in sorted(without.items())}
        splits = _draw_splits(len(classes), settings.split_fractions, settings.seed)
        for (name, items), split in zip(classes.items(), splits, strict=True):
            listing.classes.append(ListedClass(name, split, items))
    return listing


def _split_folder(folders: list[str]) -> tuple[int, str | None]:
    """Return where the split folder is: the outermost one that has a class folder inside."""
    for at, folder in enumerate(folders[:-1]):
        split = split_of_word(folder)
        if split is not None:
            return at, split
    return 0, None


def _refuse_shared_classes(listing: Listing) -> None:
    """Novel classes must be new: a class in two splits is a data set of another kind."""
    splits = defaultdict(set)
    for each in listing.classes:
        splits[each.name].add(each.split)
    for name, where in splits.items():
        if len(where) > 1:
            reason = (
                f"is in several splits ({', '.join(sorted(where))}); few-shot splits share none"
            )
            listing.problems.append(Problem(f"class {shown(name)}", reason))
    listing.classes = [each for each in listing.classes if len(splits[each.name]) == 1]


def _common_folders(paths: list[tuple[str, ...]]) -> int:
    """Return how many outer folders all paths share, leaving each at least a class folder."""
    count = 0
    while all(len(path) > count + 1 and path[count] == paths[0][count] for path in paths):
        count += 1
    return count


def _draw_splits(classes: int, fractions: tuple[float, float, float], seed: int) -> list[str]:
    """Return a split for each class: the fractions are met as nearly as whole classes allow."""
    exact = [classes * fraction / sum(fractions) for fraction in fractions]
    counts = [int(value) for value in exact]
    by_remainder = sorted(range(3), key=lambda k: counts[k] - exact[k])
    for k in by_remainder[: classes - sum(counts)]:
        counts[k] += 1
    labels = [split for split, count in zip(SPLITS, counts, strict=True) for _ in range(count)]
    # Raw output of a counter-based generator: the same split on every machine and NumPy version.
    order = np.argsort(np.random.Philox(key=seed).random_raw(classes), kind="stable")
    result = [""] * classes
    for position, label in zip(order.tolist(), labels, strict=True):
        result[position] = label
    return result
