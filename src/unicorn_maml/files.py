"""Writing files so that a crash at any moment leaves the old version or the new one, never half."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["new_folder", "read_json", "recover_folder", "sha256_of", "write_json"]


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON; the file appears complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".new")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            json.dump(value, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Give an empty folder to fill, and put it in `target`'s place once the block has ended well.

    A folder that is already there is replaced. Should the process die between the two renames,
    `recover_folder` brings the old one back.
    """
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.new")
    replaced = target.with_name(target.name + ".old")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    if target.exists():
        shutil.rmtree(replaced, ignore_errors=True)
        target.rename(replaced)
    unfinished.rename(target)
    shutil.rmtree(replaced, ignore_errors=True)


def recover_folder(target: Path) -> None:
    """Undo a replacement by `new_folder` that was cut off half-way."""
    replaced = target.with_name(target.name + ".old")
    if replaced.is_dir() and not target.exists():
        replaced.rename(target)
