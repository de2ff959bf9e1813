"""What the studies of trained networks have in common: tests on identical tasks, and one result.

A study is a file with a function `run(settings, on_progress)` that returns a result: numbers for a
table and a figure, with all that is needed to get them again, and a conclusion in words.
"""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unicorn_maml.adaptation.plan import tasks_at_once
from unicorn_maml.data.batches import TaskBatch, TaskLoader
from unicorn_maml.devices import describe_device, versions
from unicorn_maml.errors import UsageError
from unicorn_maml.evaluation.meta_test import MetaTest, prepare
from unicorn_maml.evaluation.unfinished import keep_finished, run_all
from unicorn_maml.intervals import Interval, mean_interval
from unicorn_maml.methods.maml import MAML
from unicorn_maml.models.heads import PerSlotHead
from unicorn_maml.names import (
    BACKBONE_NAMES,
    METHOD_NAMES,
    STUDY_FILE,
    STUDY_FORMAT,
    name_of_run,
    option_name,
)
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import EvaluateSettings, PretrainSettings, StudySettings, to_json
from unicorn_maml.studies.verdicts import FEWEST_TASKS
from unicorn_maml.training.checkpoint import load_checkpoint

__all__ = [
    "adapting",
    "batches",
    "command_of",
    "few_tasks",
    "interval_cell",
    "labels",
    "per_slot",
    "run_tests",
    "signed",
    "study_result",
    "tests_of",
    "values_of",
    "wide_batches",
]


def tests_of(settings: StudySettings, **changes: Any) -> list[MetaTest]:
    """A test of each checkpoint with these changes to its settings, all on the same tasks.

    A study that has an inner loop of its own, by its settings or these changes, needs one to test.
    """
    common = {field.name for field in fields(EvaluateSettings)}
    asked = {name: getattr(settings, name) for name in common if hasattr(settings, name)}
    asked |= {"json": None, "resume": False, **changes}
    checkpoints = [load_checkpoint(path) for path in settings.checkpoints]
    folders = [checkpoint.folder.resolve() for checkpoint in checkpoints]
    for folder in folders:
        if folders.count(folder) > 1:
            raise UsageError(f"The checkpoint {folder} is named twice; name it once.")
    if any(asked[name] is not None for name in ("inner_steps", "adapt", "normalization")):
        for checkpoint in checkpoints:
            if isinstance(checkpoint.settings, PretrainSettings):
                raise _adapts_nothing(checkpoint.name)
    return [
        prepare(
            checkpoint,
            EvaluateSettings(**{**asked, "checkpoint": checkpoint.folder}),
            checkpoints[0].settings,
        )
        for checkpoint in checkpoints
    ]


def run_tests(
    settings: StudySettings, tests: list[MetaTest], on_progress: OnProgress | None
) -> None:
    """Run the tests; finished tasks are kept beside the study's file, for --resume.

    They stay there until that file is written, because a study may fail at what follows, too.
    """
    if settings.leak and any(test.measure for test in tests):
        raise UsageError(
            f"The study {settings.study} measures every task by itself, so nothing can leak from "
            "one to the next; leave --leak out."
        )
    for test in tests:
        # What is measured: another study does not resume it, unless it measures the same.
        test.record.setdefault("measured", settings.study)
    file = settings.folder / STUDY_FILE
    run_all(tests, file, on_progress, resume=settings.resume)
    with suppress(OSError):  # a full disk does not cost the figures
        keep_finished(tests, file)


def adapting(test: MetaTest) -> MAML:
    """The method of a test that must have an inner loop."""
    if not isinstance(test.method, MAML):
        raise _adapts_nothing(test.record["checkpoint"])
    return test.method


def _adapts_nothing(checkpoint: str) -> UsageError:
    return UsageError(
        f"{checkpoint} is a pre-trained backbone, which adapts nothing; this study needs a "
        "meta-trained checkpoint."
    )


def per_slot(test: MetaTest) -> MAML:
    """The method of a test whose head must have slots that start differently."""
    method = adapting(test)
    if type(method.head) is not PerSlotHead:
        raise UsageError(
            f"{test.record['checkpoint']} was trained with one vector for all slots: they start "
            "alike, every permutation gives the same answer and there is nothing to mend. This "
            "study needs a checkpoint of MAML."
        )
    return method


def batches(
    method: MAML, loader: TaskLoader, numbers: Sequence[int], *, copies: int = 1
) -> Iterator[TaskBatch]:
    """Tasks in such batches that `copies` of each fit into one call."""
    if numbers:
        at_once = max(1, method.tasks_at_once(loader.load(numbers[:1])) // copies)
        for start in range(0, len(numbers), at_once):
            yield loader.load(numbers[start : start + at_once])


def wide_batches(method: MAML, tasks: TaskBatch) -> Iterator[TaskBatch]:
    """Parts of a batch for one wide network, which is how tasks run whose steps are watched."""
    images = tasks.query_images.shape[1]
    at_once = tasks_at_once(method.backbone, tasks.support_images, more_images=images)
    for start in range(0, len(tasks), at_once):
        yield tasks[start : start + at_once]


def values_of(test: MetaTest) -> NDArray[np.float64]:
    """What was measured, (tasks, ...)."""
    return np.array(test.per_task, np.float64)


def labels(tests: list[MetaTest]) -> list[str]:
    """The methods' names; where two tests have the same, with their folders, if need be in full.

    No two are equal: `tests_of` refuses a checkpoint that is named twice.
    """
    names = [METHOD_NAMES[test.record["method"]] for test in tests]
    folders = [str(test.record["checkpoint"]) for test in tests]
    for details in ([""] * len(tests), [f" ({name_of_run(f)})" for f in folders]):
        found = [name + detail for name, detail in zip(names, details, strict=True)]
        if len(set(found)) == len(found):
            return found
    return [f"{name} ({folder})" for name, folder in zip(names, folders, strict=True)]


def interval_cell(values: ArrayLike) -> dict[str, float]:
    """A mean and its interval, as a cell of a table."""
    return vars(mean_interval(values))


def study_result(
    settings: Any,
    tests: list[MetaTest],
    *,
    title: str,
    conclusion: str,
    columns: Sequence[str],
    rows: Sequence[tuple[str, Sequence[Any]]],
    data: dict[str, Any],
) -> dict[str, Any]:
    """The record of a study.

    Rows are labels and cells; a cell is an interval (`interval_cell`, or with `low` and `high`), a
    number, a text, or None.
    `data` is what the figure is drawn from.
    """
    if tests and hasattr(settings, "tasks") and settings.tasks != tests[0].tasks:
        settings = replace(settings, tasks=tests[0].tasks)  # those that it was begun with
    return {
        "format": STUDY_FORMAT,
        "study": settings.study,
        "title": f"{title}: {_tested(tests)}" if tests else title,
        "conclusion": conclusion,
        "table": {
            "columns": list(columns),
            "rows": [{"label": label, "cells": list(cells)} for label, cells in rows],
        },
        "data": data,
        "command": command_of(settings),
        "settings": to_json(settings),
        "tests": [{**test.record, "tasks": len(test.per_task)} for test in tests],
        "seconds": sum(test.seconds for test in tests),
        "device": describe_device(tests[0].loader.device) if tests else None,
        "versions": versions(),
    }


def _tested(tests: list[MetaTest]) -> str:
    """What the tests of a study have in common, such as `ConvNet-4, glyphs, 5-way 1-shot`."""

    def values(name: str) -> list[Any]:
        return list(dict.fromkeys(test.record[name] for test in tests))

    backbones = [BACKBONE_NAMES[name] for name in values("backbone")]
    shots = [f" {shot}-shot" for shot in values("shot")]
    task = f"{tests[0].record['way']}-way" + (shots[0] if len(shots) == 1 else "")
    return ", ".join([*backbones, " and ".join(map(str, values("data_set"))), task])


def few_tasks(tests: list[MetaTest]) -> str:
    """A warning, to follow a conclusion, where there are too few tasks for its intervals."""
    tasks = tests[0].tasks
    if tasks >= FEWEST_TASKS:
        return ""
    return f" Intervals of {tasks} tasks are rough; take at least {FEWEST_TASKS}."


_PASSING = ("json", "measured", "resume")  # options without which the result is the same


def command_of(settings: Any) -> str:
    """The command line that repeats the study: arguments, and what differs from the defaults."""
    words, options = ["unicorn-maml", "study", settings.study], []
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.default is MISSING:
            words += [str(each) for each in (value if isinstance(value, list) else [value])]
        elif value != field.default and field.name not in _PASSING:
            option = option_name(field.name)
            options += [option] if value is True else [option, str(value)]
    return shlex.join([*words, *options])


def signed(interval: Interval) -> str:
    """A difference in points."""
    return f"{interval.mean:+z.2f} ± {interval.ci95:.2f}"
