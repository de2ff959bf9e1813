"""Builds a store from folders and archives of images: list, check, decode, write, describe."""

import errno
import os
import shutil
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image

from unicorn_maml.data.archives import Problem, Sources, shown
from unicorn_maml.data.decode import Preprocessing
from unicorn_maml.data.kinds.build import KINDS
from unicorn_maml.data.listing import Listing
from unicorn_maml.data.pipeline import decode_items
from unicorn_maml.data.store import ImageStore, StoredClass, finish_store, write_array_header
from unicorn_maml.errors import FileError, UsageError
from unicorn_maml.files import new_folder, recover_folder
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import DataPrepareSettings

__all__ = ["Prepared", "list_data_set", "prepare_store"]

_PROBLEMS_SHOWN = 50


@dataclass(frozen=True)
class Prepared:
    """A new store, and how it went."""

    store: ImageStore
    problems: tuple[Problem, ...]  # of files that were left out
    not_in_data_set: int
    seconds: float

    @property
    def images_per_second(self) -> float:
        """From the start to the finished store."""
        return len(self.store.images) / self.seconds


def prepare_store(settings: DataPrepareSettings, update: OnProgress) -> Prepared:
    """Build a store as the settings say. It appears complete or not at all."""
    start = time.perf_counter()
    kind = KINDS[settings.dataset]
    out = settings.store_folder
    recover_folder(out)
    _check_out(out, settings.sources)
    preprocessing = Preprocessing(
        settings.size or kind.size, kind.channels, settings.resample, kind.whole
    )
    with Sources(settings.sources) as sources:
        listing = list_data_set(sources, settings)
        with new_folder(out) as unfinished:
            file = unfinished / "images.npy"
            problems, classes = _write_images(file, sources, listing, preprocessing, update)
            problems = listing.problems + problems
            if problems and settings.on_error == "stop":
                raise FileError(_describe(problems))
            if not classes:
                raise FileError(f"No image of {sources.label} is sound, so no store was made.")
            left_out = f"; bad files left out: {len(problems)}" if problems else ""
            finish_store(
                unfinished,
                classes,
                source=f"{settings.dataset} from {sources.label}{left_out}",
                preprocessing=_preprocessing_text(preprocessing, settings),
            )
    seconds = time.perf_counter() - start
    return Prepared(ImageStore.open(out), tuple(problems), listing.not_in_data_set, seconds)


def list_data_set(sources: Sources, settings: DataPrepareSettings) -> Listing:
    """List classes and images in the order of the store, and everything wrong with them."""
    kind = KINDS[settings.dataset]
    listing = kind.list(sources, settings)
    listing.problems[:0] = sources.problems
    _refuse_case_twins(listing)
    if not listing.classes:
        if listing.problems:
            raise FileError(_describe(listing.problems))
        raise FileError(
            f"There are no images of the {settings.dataset} data set in {sources.label}; "
            f"expected are {kind.expects}."
        )
    listing.sort()
    return listing


def _check_out(out: Path, sources: Iterable[Path]) -> None:
    if out.exists():
        if not out.is_dir() or (any(out.iterdir()) and not (out / "store.json").is_file()):
            raise UsageError(f"{out} exists and is no store; choose another --out.")
        for source in sources:
            if source.exists() and source.resolve().is_relative_to(out.resolve()):
                raise UsageError(f"The source {source} is inside {out}; choose another --out.")


def _refuse_case_twins(listing: Listing) -> None:
    """Classes that differ only in case become one on some file systems: which is which?"""
    by_folded: dict[str, list[str]] = {}
    for each in listing.classes:
        by_folded.setdefault(each.name.casefold(), []).append(each.name)
    twins = {name for names in by_folded.values() if len(names) > 1 for name in names}
    for name in sorted(twins):
        reason = "differs from another class only in case, or is there twice; rename one"
        listing.problems.append(Problem(f"class {shown(name)}", reason))
    listing.classes = [each for each in listing.classes if each.name not in twins]


def _describe(problems: list[Problem]) -> str:
    lines = [f"  {problem}" for problem in problems[:_PROBLEMS_SHOWN]]
    if len(problems) > _PROBLEMS_SHOWN:
        lines.append(f"  and {len(problems) - _PROBLEMS_SHOWN} more")
    return (
        f"Nothing was written, because of {len(problems)} bad files; mend or remove them, "
        "or leave them out with --on-error skip:\n" + "\n".join(lines)
    )


def _preprocessing_text(preprocessing: Preprocessing, settings: DataPrepareSettings) -> str:
    text = str(preprocessing)
    if settings.crop_to_box:
        text = f"cut to the bounding box, {text}"
    return f"{text}; turned by 90, 180 and 270 degrees" if settings.rotations else text


def _write_images(
    path: Path,
    sources: Sources,
    listing: Listing,
    preprocessing: Preprocessing,
    update: OnProgress,
) -> tuple[list[Problem], list[StoredClass]]:
    """Decode every listed image into its row; return what was bad, and the classes of the rest."""
    items = [item for each in listing.classes for item in each.items]
    row_bytes = int(np.prod(preprocessing.shape))
    _check_space(path, len(items) * row_bytes)
    bad: dict[int, Problem] = {}
    with path.open("w+b") as file, warnings.catch_warnings():
        # Pillow warns of large images; here they are refused, with a sentence.
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        start = write_array_header(file, (len(items), *preprocessing.shape))
        began, done = time.perf_counter(), 0
        for results in decode_items(sources, items, preprocessing):
            for row, result in results:
                if isinstance(result, FileError):
                    bad[row] = sources.problem(items[row].member, str(result))
                else:
                    # Plain writes: on a full disk they fail, where a memory map would crash.
                    file.seek(start + row * row_bytes)
                    file.write(result.tobytes())
            done += len(results)
            speed = done / (time.perf_counter() - began)
            update(done, len(items), {"images/s": round(speed), "bad": len(bad)})
        if bad:
            kept = [row for row in range(len(items)) if row not in bad]
            _close_gaps(file, start, row_bytes, kept)
            write_array_header(file, (len(kept), *preprocessing.shape))
    classes, first, row = [], 0, 0
    for each in listing.classes:
        count = sum(number not in bad for number in range(row, row + len(each.items)))
        row += len(each.items)
        if count:
            classes.append(StoredClass(each.name, each.split, first, count))
        first += count
    return [bad[row] for row in sorted(bad)], classes


def _check_space(path: Path, needed: int) -> None:
    if shutil.disk_usage(path.parent).free < needed:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def _close_gaps(file: IO[bytes], start: int, row_bytes: int, kept: list[int]) -> None:
    """Move the kept rows together, and cut the file after them."""
    for target, row in enumerate(kept):
        if target != row:
            file.seek(start + row * row_bytes)
            content = file.read(row_bytes)
            file.seek(start + target * row_bytes)
            file.write(content)
    file.truncate(start + len(kept) * row_bytes)
