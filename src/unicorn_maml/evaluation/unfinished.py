"""Tests that may be interrupted: what is finished is kept beside the file that it is for."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from unicorn_maml.errors import FileError, UsageError
from unicorn_maml.evaluation.meta_test import MetaTest
from unicorn_maml.files import check_can_write, write_json
from unicorn_maml.progress import OnProgress
from unicorn_maml.sealed import read_sealed, write_sealed

__all__ = [
    "keep_finished",
    "other_setting",
    "read_tests",
    "run_all",
    "take_up",
    "unfinished_file",
    "write_result",
    "write_tests",
]

_FORMAT = "unicorn-maml tests"
_SECONDS_BETWEEN = 60.0  # of work that is lost at most where a process is killed


def write_result(file: Path | None, result: dict[str, Any]) -> None:
    """Write a finished result, and drop what was kept in case it would be interrupted."""
    if file is not None:
        write_json(file, result)
        unfinished_file(file).unlink(missing_ok=True)


def unfinished_file(file: Path) -> Path:
    """Where the finished tasks of an interrupted work for a result file are kept."""
    file = file.absolute()
    return file.with_name(f"{file.name}.part")


def run_all(
    tests: list[MetaTest], file: Path | None, on_progress: OnProgress | None, *, resume: bool
) -> None:
    """Run tests one after the other; whatever stops them, finished tasks are kept for --resume.

    They are kept beside the `file` that the result is meant for: when the tests are stopped, and
    from time to time, because a process that is killed or loses its machine can keep nothing.
    """
    check_can_write(file)
    if resume:
        take_up(tests, file)
    elif file and unfinished_file(file).exists():
        raise UsageError(
            f"Interrupted work for {file} is kept in {unfinished_file(file).name} beside it; add "
            "--resume to continue it, or delete that file."
        )
    tasks = max(test.tasks for test in tests)
    for test in tests:
        test.tasks = tasks
    # Where averages leak a task depends on all before it, and could not be taken up again.
    keeps = file if not any(test.record["leak"] for test in tests) else None
    kept_at = time.monotonic()

    def keep() -> None:
        if keeps and any(test.per_task for test in tests):
            keep_finished(tests, keeps)

    def progress(done: int, total: int, figures: dict[str, float]) -> None:
        nonlocal kept_at
        if time.monotonic() - kept_at >= _SECONDS_BETWEEN:
            with suppress(OSError):  # a full disk may have room again when the result is written
                keep()
            kept_at = time.monotonic()
        if on_progress:
            on_progress(done, total, figures)

    try:
        for number, test in enumerate(tests):
            test.run(progress, done_before=number * tasks, all_tasks=len(tests) * tasks)
    except BaseException:
        keep()
        raise


def keep_finished(tests: list[MetaTest], file: Path) -> None:
    """Keep finished tasks for --resume until `write_result` has written what they are for."""
    write_tests(unfinished_file(file), tests)


def take_up(tests: list[MetaTest], file: Path | None) -> None:
    """Give the tests the accuracies that an interrupted run of them had found."""
    if file is None:
        raise UsageError("--resume continues the work for a result file; name it with --json.")
    kept = unfinished_file(file)
    if not kept.exists():
        raise UsageError(f"There is nothing to resume for {file}; leave --resume out.")
    all_earlier = read_tests(kept)
    if len(all_earlier) != len(tests):
        raise UsageError(f"{kept} is of another command; name another file, or delete it.")
    for test, earlier in zip(tests, all_earlier, strict=True):
        name = other_setting(test.record, earlier["record"])
        if name:
            raise UsageError(
                f"The interrupted work had {name} {earlier['record'].get(name)}, not "
                f"{test.record[name]}; resume it with the same settings, or delete {kept}."
            )
        test.per_task = earlier["per_task"]
        test.tasks = max(test.tasks, earlier["tasks"])


def write_tests(path: Path, tests: list[MetaTest]) -> None:
    """Write settings of tests, and what was measured of each task."""
    write_sealed(path, {"format": _FORMAT, "tests": [test.unfinished() for test in tests]})


def read_tests(path: Path) -> list[dict[str, Any]]:
    """Read what `write_tests` has written; nobody else can have."""
    try:
        tests: list[dict[str, Any]] = read_sealed(path)["tests"]
    except (FileError, KeyError) as error:
        raise FileError(f"{path} is damaged; delete it and start anew.") from error
    return tests


_PLACES = {"checkpoint", "store"}  # told by checksums, wherever they are


def other_setting(record: dict[str, Any], earlier: dict[str, Any]) -> str | None:
    """The name of a setting in which an earlier test differs, if any does."""
    return next(
        (n for n, value in record.items() if n not in _PLACES and earlier.get(n) != value), None
    )
