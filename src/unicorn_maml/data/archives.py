"""One way to list and read the files of a data set: in folders, zip and tar archives, npz files.

Nothing is unpacked to disk, and nothing that an archive says is believed: entries whose path leads
out of the archive, links, devices and entries that unpack to far more than they take are refused.
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, cast

from unicorn_maml.errors import FileError, UsageError

__all__ = ["DAMAGED", "LARGEST_FILE", "Member", "Problem", "Sources", "shown"]

LARGEST_FILE = 64 * 2**20  # bytes of one image or one list; arrays are streamed and may be larger
_LARGEST_RATIO = 200  # unpacked over packed: photographs have 1, text and masks up to 100
_SMALL = 2**20  # below this, any ratio is harmless

_ZIP = (".zip", ".npz")
_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
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


@dataclass(frozen=True, slots=True)
class Member:
    """A file of a source. Reading in the order of `(source, position)` never goes back."""

    source: int
    position: int
    path: str  # inside the source, with forward slashes
    size: int

    @property
    def parts(self) -> list[str]:
        """Folders and file name."""
        return self.path.split("/")

    @property
    def name(self) -> str:
        """File name without folders."""
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        """Name of the folder that the file lies in, or nothing."""
        return self.path.rpartition("/")[0].rpartition("/")[2]


def shown(path: str) -> str:
    """Make a path that may hold anything fit for a message: no raw bytes, no control characters."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


class _Opened(Protocol):
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


class Sources:
    """The files of several folders and archives, listed once and read one after another.

    Archives that lie in a folder are opened too; archives inside archives are not. Use it in a
    `with` block. Not for several threads at once: compressed archives are read as streams.
    """

    def __init__(self, paths: Sequence[Path]):
        self.members: list[Member] = []
        self.problems: list[Problem] = []
        self.label = ", ".join(shown(path.name or str(path)) for path in paths)  # for people
        self._paths: list[Path] = []
        self._handles: list[list[Any]] = []
        self._opened: tuple[int, _Opened] | None = None
        for path in paths:
            if not path.exists():
                raise UsageError(f"There is no folder or archive {shown(str(path))}.")
            if not path.is_dir() and not _is_archive(path.name):
                raise UsageError(
                    f"{shown(str(path))} is neither a folder nor an archive; name a folder or "
                    f"files that end in {', '.join(_ZIP + _TAR[:3])}."
                )
            self._list(path)

    def __enter__(self) -> "Sources":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def source_name(self, member: Member) -> str:
        """File name of the folder or archive that a member is in."""
        return self._paths[member.source].name

    def name(self, member: Member) -> str:
        """Name a member in a message."""
        path = self._paths[member.source]
        joined = f"{path}/{member.path}" if path.is_dir() else f"{path.name}: {member.path}"
        return shown(joined)

    def problem(self, member: Member, reason: str) -> Problem:
        """Say what is wrong with a member."""
        return Problem(self.name(member), reason)

    def stream(self, member: Member) -> IO[bytes]:
        """Open a member of any size; opening another one may close it."""
        if self._opened is None or self._opened[0] != member.source:
            self._close()
            self._opened = (member.source, _open_source(self._paths[member.source]))
        return self._opened[1].open(self._handles[member.source][member.position])

    def read(self, member: Member) -> bytes:
        """Read a whole member; a damaged or huge one is a FileError with the reason alone."""
        if member.size > LARGEST_FILE:
            raise FileError(f"is larger than {LARGEST_FILE >> 20} MiB")
        try:
            with self.stream(member) as stream:
                content = stream.read(member.size + 1)
        except DAMAGED as error:
            raise FileError(f"cannot be read ({_reason(error)})") from error
        if len(content) != member.size:
            raise FileError(f"has {len(content)} bytes instead of {member.size}")
        return content

    def text(self, member: Member) -> str:
        """Read a list that the data set cannot do without; FileError with a whole sentence."""
        try:
            return self.read(member).decode("utf-8-sig")
        except (FileError, UnicodeDecodeError) as error:
            raise FileError(
                f"{self.name(member)} cannot be used ({error}); get it again."
            ) from error

    def _list(self, path: Path) -> None:
        number = len(self._paths)
        self._paths.append(path)
        self._handles.append([])
        inner_archives = []
        label = f"{path}/" if path.is_dir() else f"{path.name}: "
        try:
            opened = _open_source(path)
            self._opened = (number, opened)
            for entry in opened.entries():
                if isinstance(entry, Problem):
                    self.problems.append(Problem(shown(label + entry.name), entry.reason))
                elif path.is_dir() and _is_archive(entry[0]):
                    inner_archives.append(path / entry[0])
                elif not _is_litter(entry[0]):
                    self._add(number, label, *entry)
        except DAMAGED as error:
            self.problems.append(
                Problem(shown(str(path)), f"is not a sound archive ({_reason(error)})")
            )
        self._close()
        for inner in inner_archives:
            self._list(inner)

    def _add(self, number: int, label: str, path: str, size: int, handle: Any) -> None:
        try:
            path.encode("utf-8")
        except UnicodeEncodeError:
            reason = "has a name that is not UTF-8; rename it"
            self.problems.append(Problem(shown(label + path), reason))
            return
        handles = self._handles[number]
        self.members.append(Member(number, len(handles), path, size))
        handles.append(handle)

    def _close(self) -> None:
        if self._opened is not None:
            self._opened[1].close()
            self._opened = None


def _open_source(path: Path) -> _Opened:
    if path.is_dir():
        return _Folder(path)
    return _Zip(path) if path.name.lower().endswith(_ZIP) else _Tar(path)


def _is_archive(name: str) -> bool:
    return name.lower().endswith(_ZIP + _TAR)


def _is_litter(path: str) -> bool:
    """Hidden files and what macOS adds to archives are no part of a data set."""
    return any(part.startswith(".") or part == "__MACOSX" for part in path.split("/"))


def _reason(error: Exception) -> str:
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
            yield Problem(folder, f"cannot be listed ({_reason(error)}); change its permissions")
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
            if info.issparse() or total > max(_SMALL, _LARGEST_RATIO * self._packed_size):
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
