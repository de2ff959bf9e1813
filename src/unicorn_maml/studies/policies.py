"""The four normalisation policies on the same tasks, with paired differences.

A policy that a network was not trained for may let the inner loop diverge. Such a task counts as
guessed (all images in the first slot), and is counted.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from unicorn_maml.data.batches import TaskLoader
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.scoring import accuracy_percent
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import Normalization, PoliciesSettings
from unicorn_maml.studies.frame import (
    adapting,
    batches,
    interval_cell,
    labels,
    run_tests,
    study_result,
    tests_of,
    values_of,
)

__all__ = ["run"]

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
        conclusion=" ".join(_sentence(label, found) for label, found in data.items()),
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
        finite = logits.isfinite().all(-1).all(-1).double()
        yield torch.stack([accuracy_percent(logits, tasks.query_labels), finite], 1).cpu().numpy()


def _sentence(label: str, found: dict[str, Any]) -> str:
    means = {policy: cell["accuracy"]["mean"] for policy, cell in found.items()}
    best, worst = (choose(means, key=lambda p: means[p]) for choose in (max, min))
    trained = next(policy for policy in found if found[policy]["trained"])
    text = (
        f"{label}, trained with `{trained}`: best with `{best}` ({means[best]:.2f}%), worst with "
        f"`{worst}` ({means[worst]:.2f}%)"
    )
    for policy, cell in found.items():
        if cell["diverged"]:
            text += f"; {cell['diverged']} tasks diverged with `{policy}`"
    return text + "."
