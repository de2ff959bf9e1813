"""Accuracy along the inner steps, on tasks of base and of novel classes.

Support images are predicted as query images are, by the same policy. A network whose logits are not
finite counts as guessing (1/N are right), and is counted.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unicorn_maml.adaptation.engine import AdaptedTasks
from unicorn_maml.data.batches import TaskBatch, TaskLoader
from unicorn_maml.evaluation.meta_test import MetaTest
from unicorn_maml.intervals import mean_interval
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.scoring import accuracy_or_guess
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import StepsSettings
from unicorn_maml.studies.frame import (
    adapting,
    batches,
    few_tasks,
    interval_cell,
    labels,
    run_tests,
    study_result,
    tests_of,
    values_of,
    wide_batches,
)

__all__ = [
    "FINITE",
    "QUERY",
    "SUPPORT",
    "curve",
    "diverged_text",
    "follow_steps",
    "measure_steps",
    "run",
]

SUPPORT, QUERY, FINITE = 0, 1, 2  # the rows of what is measured

_SPLITS = ("base", "novel")


def run(settings: StepsSettings, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Follow tasks of base and novel classes for many steps."""
    tests = {split: tests_of(settings, split=split) for split in _SPLITS}
    every = [test for split in _SPLITS for test in tests[split]]
    for test in every:
        test.measure = partial(measure_steps, adapting(test), test.loader)
    run_tests(settings, every, on_progress)
    names = labels(tests["novel"])
    data = {
        label: {split: curve(tests[split][number]) for split in _SPLITS}
        for number, label in enumerate(names)
    }
    novel = [data[label]["novel"] for label in names]
    return study_result(
        settings,
        every,
        title=f"Accuracy along {settings.inner_steps} inner steps",
        conclusion=" ".join(
            _sentence(label, values_of(test))
            + diverged_text({f"{s} tasks": data[label][s] for s in _SPLITS}, len(test.per_task))
            + "."
            for label, test in zip(names, tests["novel"], strict=True)
        )
        + few_tasks(every),
        columns=names,
        rows=[
            (f"{split} classes, {text} (%)", [data[label][split]["query"][step] for label in names])
            for split in _SPLITS
            for text, step in (("before adaptation", 0), ("after the last step", -1))
        ]
        + [
            ("novel classes, best step", [found["best_step"] for found in novel]),
            ("novel classes, at the best step (%)", [f["query"][f["best_step"]] for f in novel]),
            *[
                (
                    f"{split} tasks that diverged",
                    [data[label][split]["diverged"] for label in names],
                )
                for split in _SPLITS
            ],
        ],
        data=data,
    )


def measure_steps(
    method: MAML, loader: TaskLoader, numbers: Sequence[int]
) -> Iterator[NDArray[np.float64]]:
    """Support accuracy, query accuracy, whether all is finite, after 0..M steps (t, 3, M + 1)."""
    for tasks in batches(method, loader, numbers):
        for part in wide_batches(method, tasks):
            yield follow_steps(method, part)


@torch.no_grad()
def follow_steps(method: MAML, tasks: TaskBatch) -> NDArray[np.float64]:
    """Do the same for the tasks of one batch, all at once."""
    method.eval()
    rows = []

    def see(_step: int, state: AdaptedTasks) -> None:
        support, query = state.logits(tasks.support_images), state.logits(tasks.query_images)
        on_support, _ = accuracy_or_guess(support, tasks.support_labels)
        on_query, finite = accuracy_or_guess(query, tasks.query_labels)
        rows.append(torch.stack([on_support, on_query, finite.double()]))

    method.adapt(tasks, see)
    return torch.stack(rows, -1).transpose(0, 1).cpu().numpy()  # (T, 3, M + 1)


def curve(test: MetaTest) -> dict[str, Any]:
    """Means with intervals after each step, and where the best one is."""
    values = values_of(test)
    query = values[:, QUERY]
    return {
        "support": [interval_cell(column) for column in values[:, SUPPORT].T],
        "query": [interval_cell(column) for column in query.T],
        "best_step": int(query.mean(0).argmax()),
        "diverged": int((values[:, FINITE, -1] == 0).sum()),
        "trained_steps": test.record["trained_steps"],
    }


def diverged_text(curves: dict[str, dict[str, Any]], tasks: int) -> str:
    """How many diverged of as many, where any did, by what the curves are of: ends a sentence."""
    return "".join(
        f"; {found['diverged']} of {tasks} {what} diverged"
        for what, found in curves.items()
        if found["diverged"]
    )


def _sentence(label: str, values: NDArray[np.float64]) -> str:
    query = values[:, QUERY]
    best = int(query.mean(0).argmax())
    start, top = mean_interval(query[:, 0]), mean_interval(query[:, best])
    text = (
        f"{label}: {start}% before adaptation and {top}% at the best step, {best}, chosen on these "
        "tasks"
    )
    if best > 1:
        text += f" ({mean_interval(query[:, best] - query[:, 1])} points above one step)"
    return text
