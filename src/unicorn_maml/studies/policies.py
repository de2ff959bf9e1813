"""The four normalisation policies on the same tasks, with paired differences.

A policy that a network was not trained for may let the inner loop diverge. Such a task counts as
guessed (1/N are right), and is counted.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from unicorn_maml.data.batches import TaskLoader
from unicorn_maml.intervals import Interval
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.scoring import accuracy_or_guess
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import Normalization, PoliciesSettings
from unicorn_maml.studies.frame import (
    adapting,
    batches,
    interval_cell,
    labels,
    run_tests,
    signed,
    study_result,
    tests_of,
    values_of,
)
from unicorn_maml.studies.verdicts import FEWEST_TASKS, clear_side

__all__ = ["describe", "run"]

_POLICIES: tuple[Normalization, ...] = get_args(Normalization)


def run(settings: PoliciesSettings, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Test every checkpoint under every policy; differences are to the policy of its training."""
    trained = [test.record["normalization"] for test in tests_of(settings)]
    tests = {policy: tests_of(settings, normalization=policy) for policy in _POLICIES}
    every = [test for policy in _POLICIES for test in tests[policy]]
    for test in every:
        test.measure = partial(_measure, adapting(test), test.loader)
    run_tests(settings, every, on_progress)
    names = labels(tests["batch"])
    data: dict[str, Any] = {}
    for number, label in enumerate(names):
        reference = values_of(tests[trained[number]][number])[:, 0]
        data[label] = {}
        for policy in _POLICIES:
            values = values_of(tests[policy][number])
            data[label][policy] = {
                "accuracy": interval_cell(values[:, 0]),
                "gain": interval_cell(values[:, 0] - reference),
                "diverged": int((values[:, 1] == 0).sum()),
                "trained": policy == trained[number],
            }
    rows: list[tuple[str, list[Any]]] = []
    for policy in _POLICIES:
        rows.append((f"{policy} (%)", [data[label][policy]["accuracy"] for label in names]))
        text = f"{policy} minus the trained policy, same tasks (points)"
        rows.append((text, [data[label][policy]["gain"] for label in names]))
        diverged = [data[label][policy]["diverged"] for label in names]
        if any(diverged):
            rows.append((f"{policy}: tasks that diverged", diverged))
    return study_result(
        settings,
        every,
        title="Normalisation policies",
        conclusion=" ".join(
            describe(label, found, every[0].tasks) for label, found in data.items()
        ),
        columns=names,
        rows=rows,
        data=data,
    )


@torch.no_grad()
def _measure(
    method: MAML, loader: TaskLoader, numbers: Sequence[int]
) -> Iterator[NDArray[np.float64]]:
    """Accuracy in percent, and whether the logits are finite (t, 2)."""
    method.eval()
    for tasks in batches(method, loader, numbers):
        logits = method(tasks).logits
        accuracy, finite = accuracy_or_guess(logits, tasks.query_labels)
        yield torch.stack([accuracy, finite.double()], 1).cpu().numpy()


def describe(label: str, found: dict[str, Any], tasks: int) -> str:
    """What is said of a network: how each policy differs from that of its training."""
    trained = next(policy for policy in found if found[policy]["trained"])
    others = {p: Interval(**cell["gain"]) for p, cell in found.items() if p != trained}
    sides = {policy: clear_side(gain, among=len(others)) for policy, gain in others.items()}
    if tasks < FEWEST_TASKS:
        sides = dict.fromkeys(others, 0)
    different = [f"`{p}` {signed(others[p])} points" for p, side in sides.items() if side]
    alike = [f"`{p}` ({signed(others[p])})" for p, side in sides.items() if not side]
    parts = [f"{', '.join(different)} on the same tasks"] if different else []
    if tasks < FEWEST_TASKS:
        parts.append(
            f"{tasks} tasks are too few to tell policies apart, take at least {FEWEST_TASKS}: "
            + ", ".join(alike)
        )
    elif alike:
        parts.append(f"cannot be told apart from it: {', '.join(alike)}")
    parts += [
        f"{cell['diverged']} tasks diverged with `{policy}`"
        for policy, cell in found.items()
        if cell["diverged"]
    ]
    accuracy = Interval(**found[trained]["accuracy"])
    return f"{label}, {accuracy}% with `{trained}`, as trained: {'; '.join(parts)}."
