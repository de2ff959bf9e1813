"""`unicorn-maml data ...`: make stores, and look at them."""

import errno
from typing import TYPE_CHECKING, Any, get_args

from rich.table import Table

from unicorn_maml.cli.consoles import console, notes
from unicorn_maml.errors import FileError, StoppedError
from unicorn_maml.files import check_can_write, write_json
from unicorn_maml.reporting.progress import progress_bar
from unicorn_maml.settings import DataPrepareSettings, DataShowSettings, Split

if TYPE_CHECKING:
    from unicorn_maml.data.store import ImageStore

__all__ = ["data_prepare", "data_show"]

_DUPLICATES_SHOWN = 20
_PROBLEMS_SHOWN = 20


def data_prepare(settings: DataPrepareSettings) -> None:
    """Build a store."""
    from unicorn_maml.data.prepare import prepare_store

    check_can_write(settings.json)
    try:
        with progress_bar("preparing", notes) as update:
            prepared = prepare_store(settings, update)
    except KeyboardInterrupt:
        raise StoppedError("Stopped; nothing was written.") from None
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise FileError(
            f"No space is left on the disk for {settings.out}; free some and prepare it again."
        ) from error
    store, problems = prepared.store, prepared.problems
    if settings.json:  # first: who reads what is printed may be gone
        result = {
            **_description(store),
            "left_out": [str(problem) for problem in problems],
            "not_in_data_set": prepared.not_in_data_set,
            "seconds": prepared.seconds,
            "images_per_second": prepared.images_per_second,
        }
        write_json(settings.json, result)
    _print_splits(store)
    _print_pixels(store)
    console.print(f"preprocessing: {store.preprocessing}", soft_wrap=True)
    if prepared.not_in_data_set:
        console.print(f"{prepared.not_in_data_set} images that belong to no class were left out")
    if problems:
        console.print(f"left out as bad: {len(problems)}")
        for problem in problems[:_PROBLEMS_SHOWN]:
            console.print(f"  {problem}", soft_wrap=True)
        if len(problems) > _PROBLEMS_SHOWN:
            console.print(f"  and {len(problems) - _PROBLEMS_SHOWN} more")
    console.print(f"{prepared.seconds:.1f} s, {prepared.images_per_second:.0f} images per second")
    console.print(f"Next: unicorn-maml data show {store.folder}", soft_wrap=True)


def data_show(settings: DataShowSettings) -> None:
    """Describe a store."""
    from unicorn_maml.data.duplicates import count_pairs, find_duplicates
    from unicorn_maml.data.sources import open_store

    for file in (settings.json, settings.image):
        check_can_write(file)
    store = open_store(settings.store)
    store.verify()
    groups = find_duplicates(store)
    pairs = count_pairs(groups)
    if settings.json:  # first: who reads what is printed may be gone
        duplicates = {
            "pairs": {f"{first}-{second}": count for (first, second), count in pairs.items()},
            "groups": [[vars(copy) for copy in group] for group in groups],
        }
        write_json(settings.json, {**_description(store), "duplicates": duplicates})
    if settings.image:
        from unicorn_maml.reporting.contact_sheet import write_contact_sheet

        write_contact_sheet(store, settings.image)
    _print_splits(store)
    _print_pixels(store)
    console.print("checksum is right")
    console.print(f"source: {store.source}", soft_wrap=True)
    console.print(f"preprocessing: {store.preprocessing}", soft_wrap=True)
    total = sum(pairs.values())
    noun = "pair" if total == 1 else "pairs"
    console.print(f"duplicates: {total or 'no'} {noun} of images with the same pixels")
    for (first, second), count in pairs.items():
        where = f"within {first}" if first == second else f"between {first} and {second}"
        console.print(f"  {count} {where}")
    for group in groups[:_DUPLICATES_SHOWN]:
        console.print("  " + " = ".join(map(str, group)), soft_wrap=True)
    if len(groups) > _DUPLICATES_SHOWN:
        console.print(f"  and {len(groups) - _DUPLICATES_SHOWN} more; --json FILE keeps them all")
    if settings.image:
        console.print(f"sample images: {settings.image}", soft_wrap=True)


def _images_per_class(store: "ImageStore") -> dict[str, list[int]]:
    return {split: [entry.count for entry in store.classes_of(split)] for split in get_args(Split)}


def _print_splits(store: "ImageStore") -> None:
    table = Table("split", "classes", "images", "images per class", title=str(store.folder))
    for split, counts in _images_per_class(store).items():
        per_class = f"{min(counts)} to {max(counts)}" if counts else "-"
        table.add_row(split, str(len(counts)), str(sum(counts)), per_class)
    console.print(table)


def _print_pixels(store: "ImageStore") -> None:
    size = f"{store.size}x{store.size} pixels, {store.channels} channels"
    console.print(f"{len(store.images)} images of {size}; {store.images.nbytes / 2**20:.1f} MiB")


def _description(store: "ImageStore") -> dict[str, Any]:
    return {
        "folder": str(store.folder),
        "splits": {
            split: {"classes": len(counts), "images": sum(counts)}
            for split, counts in _images_per_class(store).items()
        },
        "images": len(store.images),
        "size": store.size,
        "channels": store.channels,
        "bytes": store.images.nbytes,
        "source": store.source,
        "preprocessing": store.preprocessing,
        "checksum": store.checksum,
    }
