"""One way to list and read the files of a data set: in folders, zip and tar archives, npz files.

Nothing is unpacked to disk. What is suspicious is listed as a problem instead of a member.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from unicorn_maml.data.containers import (
    DAMAGED,
    LARGEST_FILE,
    SUFFIXES,
    Container,
    Problem,
    is_archive,
    open_container,
    reason_of,
    shown,
)
from unicorn_maml.errors import FileError, UsageError

__all__ = ["DAMAGED", "LARGEST_FILE", "Member", "Problem", "Sources", "shown"]


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
        self._opened: tuple[int, Container] | None = None
        for path in paths:
            if not path.exists():
                raise UsageError(f"There is no folder or archive {shown(str(path))}.")
            if not path.is_dir() and not is_archive(path.name):
                raise UsageError(
                    f"{shown(str(path))} is neither a folder nor an archive; name a folder or "
                    f"files that end in {', '.join(SUFFIXES[:5])}."
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
            self._opened = (member.source, open_container(self._paths[member.source]))
        return self._opened[1].open(self._handles[member.source][member.position])

    def read(self, member: Member) -> bytes:
        """Read a whole member; a damaged or huge one is a FileError with the reason alone."""
        if member.size > LARGEST_FILE:
            raise FileError(f"is larger than {LARGEST_FILE >> 20} MiB")
        try:
            with self.stream(member) as stream:
                content = stream.read(member.size + 1)
        except DAMAGED as error:
            raise FileError(f"cannot be read ({reason_of(error)})") from error
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
            opened = open_container(path)
            self._opened = (number, opened)
            for entry in opened.entries():
                if isinstance(entry, Problem):
                    self.problems.append(Problem(shown(label + entry.name), entry.reason))
                elif _is_litter(entry[0]):
                    continue
                elif path.is_dir() and is_archive(entry[0]):
                    inner_archives.append(path / entry[0])
                else:
                    self._add(number, label, *entry)
        except DAMAGED as error:
            self.problems.append(
                Problem(shown(str(path)), f"is not a sound archive ({reason_of(error)})")
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


def _is_litter(path: str) -> bool:
    """Hidden files and what macOS adds to archives are no part of a data set."""
    return any(part.startswith(".") or part == "__MACOSX" for part in path.split("/"))
