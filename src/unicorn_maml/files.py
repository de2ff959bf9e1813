"""Writing files so that a crash at any moment leaves the old version or the new one, never half."""

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unicorn_maml.errors import FileError, UsageError

__all__ = [
    "check_can_write",
    "new_folder",
    "read_json",
    "read_object",
    "recover_folder",
    "replaced",
    "sha256_of",
    "unfinished",
    "write_bytes",
    "write_json",
    "write_text",
]


def unfinished(path: Path) -> Path:
    """Return where this process makes a new version of `path`: a name that nobody else takes."""
    path = path.absolute()
    return path.parent / f".{path.name}.unicorn-{os.getpid()}.new"


def replaced(folder: Path) -> Path:
    """Return where the old version of a folder is while the new one takes its place."""
    folder = folder.absolute()
    return folder.parent / f".{folder.name}.unicorn.old"


def check_can_write(path: Path | None) -> None:
    """Refuse a result file that cannot be written, before any work is done for it."""
    if path is None:
        return
    trial = unfinished(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            trial.touch()
        finally:
            trial.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot write {path} ({error.strerror}); name another file.") from error


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON; the file appears complete or not at all."""
    write_text(path, json.dumps(value, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text; the file appears complete or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file; it appears complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = unfinished(path)
    try:
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> Any:
    """Read a JSON file; ValueError for what is none, NaN and infinity included."""
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON file that must hold an object."""
    try:
        value = read_json(path)
    except OSError as error:
        raise UsageError(f"Cannot read {path} ({error.strerror}); name another file.") from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is damaged ({error}); use an unchanged copy.") from error
    if not isinstance(value, dict):
        raise FileError(f"{path} is damaged (it holds no object); use an unchanged copy.")
    return value


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
    new, old = unfinished(target), replaced(target)
    try:
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        yield new
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
            target.rename(old)
        new.rename(target)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        if old.is_dir() and not target.exists():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def recover_folder(target: Path) -> None:
    """Undo a replacement by `new_folder` that was cut off half-way. For writers only."""
    target = target.absolute()
    if replaced(target).is_dir() and not target.exists():
        replaced(target).rename(target)
    ours = re.compile(rf"\.{re.escape(target.name)}\.unicorn-\d+\.new")
    if target.parent.is_dir():
        for abandoned in [each for each in target.parent.iterdir() if ours.fullmatch(each.name)]:
            shutil.rmtree(abandoned)
