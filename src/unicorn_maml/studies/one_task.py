"""One task under all permutations, along the inner steps: support and query accuracy of each."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unicorn_maml.data.batches import TaskLoader
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.permutations import permuted_copies
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import OneTaskSettings
from unicorn_maml.studies.frame import (
    adapting,
    labels,
    run_tests,
    study_result,
    tests_of,
    values_of,
    wide_batches,
)
from unicorn_maml.studies.permutations import orders_for
from unicorn_maml.studies.steps import FINITE, QUERY, SUPPORT, diverged_text, follow_steps

__all__ = ["describe", "run"]


def run(settings: OneTaskSettings, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Follow every permutation of one task."""
    tests = tests_of(settings)
    orders = orders_for(settings, tests[0])
    for test in tests:
        test.record |= {"permutations": len(orders), "task": settings.task}
        test.measure = partial(_measure, adapting(test), test.loader, orders, settings.task)
        test.tasks = len(orders)  # each permutation is measured like a task, and kept as one
    run_tests(settings, tests, on_progress)
    data = {}
    for label, test in zip(labels(tests), tests, strict=True):
        curves = values_of(test)  # (P, 3, M + 1)
        test.tasks, test.per_task = 1, [curves]
        data[label] = {
            "support": curves[:, SUPPORT].tolist(),
            "query": curves[:, QUERY].tolist(),
            "diverged": int((curves[:, FINITE, -1] == 0).sum()),
        }
    return study_result(
        settings,
        tests,
        title=f"Task {settings.task} under {len(orders)} label permutations, step by step",
        conclusion=" ".join(describe(label, found) for label, found in data.items()),
        columns=list(data),
        rows=[
            (text, [_range(found[part], step) for found in data.values()])
            for part, text, step in (
                ("query", "query accuracy before adaptation (%)", 0),
                ("query", "query accuracy after the last step (%)", -1),
                ("support", "support accuracy before adaptation (%)", 0),
                ("support", "support accuracy after the last step (%)", -1),
            )
        ],
        data=data,
    )


def _measure(
    method: MAML, loader: TaskLoader, orders: Tensor, task: int, numbers: Sequence[int]
) -> Iterator[NDArray[np.float64]]:
    """Support accuracy, query accuracy and whether all is finite (p, 3, M + 1), of these orders."""
    if numbers:
        copies = permuted_copies(loader.load([task]), orders[list(numbers)])
        for part in wide_batches(method, copies):
            yield follow_steps(method, part)


def _range(curves: list[list[float]], step: int) -> str:
    values = [curve[step] for curve in curves]
    return f"{min(values):.1f} to {max(values):.1f}"


def describe(label: str, found: dict[str, Any]) -> str:
    """What is said of a network: the range of its permutations, whether they fit or diverge."""
    support = np.array(found["support"])  # (P, M + 1)
    unfitted = np.flatnonzero((support < 100).any(0))
    fitted_from = int(unfitted[-1]) + 1 if len(unfitted) else 0  # they may lose a fit again
    text = (
        f"{label}: query accuracy of the permutations is {_range(found['query'], 0)}% before "
        f"adaptation and {_range(found['query'], -1)}% after {support.shape[1] - 1} steps"
        + diverged_text({"permutations": found}, len(support))
    )
    if fitted_from < support.shape[1]:
        return f"{text}; all of them fit the support set from step {fitted_from} on."
    fitting = 100 * float((support[:, -1] == 100).mean())
    return f"{text}; {fitting:.0f}% of them fit the whole support set at the end."
