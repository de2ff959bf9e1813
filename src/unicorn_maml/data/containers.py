"""Folders, zip and tar archives: each lists its files, names the suspicious ones, and opens them.

Nothing that an archive says is believed: entries whose path leads out of the archive, links,
devices and entries that unpack to far more than they take are refused.
"""

import bz2
import gzip
import io
import lzma
import os
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, cast

__all__ = [
    "DAMAGED",
    "LARGEST_FILE",
    "SUFFIXES",
    "Container",
    "Problem",
    "is_archive",
    "open_container",
    "reason_of",
    "shown",
]

LARGEST_FILE = 64 * 2**20  # bytes of one image or one list; arrays are streamed and may be larger
_LARGEST_RATIO = 200  # unpacked over packed: photographs have 1, text and masks up to 100
_SMALL = 2**20  # below this, any ratio is harmless

_ZIP = (".zip", ".npz")
_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
SUFFIXES = _ZIP + _TAR
DAMAGED = (  # what reading a broken archive raises
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,  # an unknown way of compression
    RuntimeError,
    OSError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that cannot be used, and why."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


def shown(path: str) -> str:
    """Make a path that may hold anything fit for a message: no raw bytes, no control characters."""
    try:
        raw = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # no file name of this system, but what a file says
        raw = path.encode("utf-8", "backslashreplace")
    text = raw.decode("utf-8", "backslashreplace")
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


class Container(Protocol):
    """An opened folder or archive. A handle is whatever `open` needs to find the file again."""

    def entries(self) -> Iterator[tuple[str, int, Any] | Problem]:
        """Yield (path, size, handle) for every file, and what is wrong with the others."""
        ...

    def open(self, handle: Any) -> IO[bytes]:
        """Open one file for reading from its start."""
        ...

    def close(self) -> None:
        """Let go of the files."""
        ...


def open_container(path: Path) -> Container:
    """Open a folder or an archive."""
    if path.is_dir():
        return _Folder(path)
    return _Zip(path) if path.name.lower().endswith(_ZIP) else _Tar(path)


def is_archive(name: str) -> bool:
    """Tell an archive by its name."""
    return name.lower().endswith(SUFFIXES)


def reason_of(error: Exception) -> str:
    """Say in a few words what went wrong."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return shown(text) or type(error).__name__


def _clean_path(path: str) -> str | None:
    """Return the path of an archive entry without `.` parts, or None if it leads out."""
    path = path.replace("\\", "/")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or re.match("[A-Za-z]:", path) or ".." in parts or not parts:
        return None
    return "/".join(parts)


_LEADS_OUT = "has a path that leads out of the archive; do not trust this archive"
_LINK = "is a link, which is never followed in an archive; replace it by the file itself"
_BOMB = "unpacks to far more than an image can (a zip bomb?); do not trust this archive"


class _Folder:
    def __init__(self, path: Path):
        self._root = path.resolve()

    def entries(self) -> Iterator[tuple[str, int, Any] | Problem]:
        yield from self._walk("")

    def _walk(self, folder: str) -> Iterator[tuple[str, int, Any] | Problem]:
        try:
            with os.scandir(self._root / folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            yield Problem(folder, f"cannot be listed ({reason_of(error)}); change its permissions")
            return
        for entry in entries:
            path = f"{folder}{entry.name}"
            if entry.is_symlink() and not self._link_stays(entry):
                reason = "is a link to a folder or out of this folder; name its target as a source"
                yield Problem(path, reason)
            elif entry.is_dir():
                yield from self._walk(f"{path}/")
            elif entry.is_file():
                yield path, entry.stat().st_size, path
            else:
                yield Problem(path, "is no regular file; remove it")

    def _link_stays(self, entry: "os.DirEntry[str]") -> bool:
        target = Path(os.path.realpath(entry.path))
        return target.is_file() and target.is_relative_to(self._root)

    def open(self, handle: Any) -> IO[bytes]:
        return (self._root / str(handle)).open("rb")

    def close(self) -> None:
        pass


class _Zip:
    def __init__(self, path: Path):
        self._zip = zipfile.ZipFile(path)

    def entries(self) -> Iterator[tuple[str, int, Any] | Problem]:
        for info in self._zip.infolist():
            name = _zip_name(info)
            path = _clean_path(name)
            if path is None:
                yield Problem(name, _LEADS_OUT)
            elif info.is_dir():
                continue
            elif stat.S_ISLNK(info.external_attr >> 16):
                yield Problem(name, _LINK)
            elif info.flag_bits & 1:
                yield Problem(name, "is encrypted; unpack it with its password first")
            elif info.file_size > max(_SMALL, _LARGEST_RATIO * info.compress_size):
                yield Problem(name, _BOMB)
            else:
                yield path, info.file_size, info

    def open(self, handle: Any) -> IO[bytes]:
        return self._zip.open(handle)

    def close(self) -> None:
        self._zip.close()


def _zip_name(info: zipfile.ZipInfo) -> str:
    """Undo a common slip: names in UTF-8 without the flag that says so."""
    name = info.orig_filename
    if not info.flag_bits & 0x800 and not name.isascii():
        try:
            return name.encode("cp437").decode("utf-8")
        except UnicodeError:
            pass
    return name


class _Tar:
    """A tar archive, compressed or not. Its index is read once; then files are found by offset."""

    def __init__(self, path: Path):
        self._packed_size = path.stat().st_size
        self._file = _Guarded(_unpacked(path))

    def entries(self) -> Iterator[tuple[str, int, Any] | Problem]:
        archive = tarfile.open(fileobj=self._file, mode="r:")  # noqa: SIM115 closed with the file
        total = 0
        while (info := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined] # an index of a million files would take a gigabyte
            total += info.size
            path = _clean_path(info.name)
            # Checked before the archive is read on, which would unpack what has been declared.
            # A size below zero would lead backwards, for ever.
            lies = info.size < 0 or info.issparse()
            if lies or total > max(_SMALL, _LARGEST_RATIO * self._packed_size):
                yield Problem(info.name, _BOMB)
                return
            if path is None:
                if info.name not in (".", "./"):
                    yield Problem(info.name, _LEADS_OUT)
            elif info.issym() or info.islnk():
                yield Problem(info.name, _LINK)
            elif info.isfile():
                yield path, info.size, (info.offset_data, info.size)
            elif not info.isdir():
                yield Problem(info.name, "is a device; do not trust this archive")

    def open(self, handle: Any) -> IO[bytes]:
        offset, size = handle
        self._file.seek(offset)
        return io.BufferedReader(_Slice(self._file, size))

    def close(self) -> None:
        self._file.close()


def _unpacked(path: Path) -> IO[bytes]:
    """Open a file; what it holds in compressed form is unpacked while it is read."""
    suffix = path.name.lower().rpartition(".")[2]
    if suffix in ("gz", "tgz"):
        return cast(IO[bytes], gzip.open(path))
    if suffix in ("bz2", "tbz2"):
        return cast(IO[bytes], bz2.open(path))
    if suffix in ("xz", "txz"):
        return cast(IO[bytes], lzma.open(path))
    return path.open("rb")


class _Guarded(io.RawIOBase):
    """A file that refuses huge reads: headers inside a tar may claim any length."""

    def __init__(self, file: IO[bytes]):
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= LARGEST_FILE:
            raise tarfile.ReadError("a header of it claims an absurd length")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        super().close()


class _Slice(io.RawIOBase):
    """The next `size` bytes of a file, from where it stands."""

    def __init__(self, file: _Guarded, size: int):
        self._file, self._left = file, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(min(len(buffer), self._left, LARGEST_FILE))
        buffer[: len(content)] = content
        self._left -= len(content)
        return len(content)
