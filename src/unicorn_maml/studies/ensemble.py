"""Averaged predictions of all permutations of a task, or of the N that rotate its slots."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unicorn_maml.data.batches import TaskLoader
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.permutations import all_orders, permuted_logits, rotations
from unicorn_maml.methods.remedies import averaged
from unicorn_maml.methods.scoring import accuracy_percent
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import EnsembleSettings
from unicorn_maml.studies.choices import choices_result
from unicorn_maml.studies.frame import batches, per_slot, run_tests, tests_of

__all__ = ["run"]


def run(settings: EnsembleSettings, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Solve tasks under all permutations and average what they predict."""
    tests = tests_of(settings)
    for test in tests:
        test.measure = partial(_measure, per_slot(test), test.loader)
    run_tests(settings, tests, on_progress)
    way = tests[0].record["way"]
    return choices_result(
        settings,
        tests,
        title="Averaged predictions of permutations",
        choices=["one permutation", f"{way} rotations", f"all {len(all_orders(way))} permutations"],
        noun="averaging predictions",
    )


def _measure(
    method: MAML, loader: TaskLoader, numbers: Sequence[int]
) -> Iterator[NDArray[np.float64]]:
    """Accuracies (t, 3) in percent: of one permutation, of the rotations, of all."""
    orders = all_orders(loader.sampler.way)
    rows = orders.tolist()
    rotated = [rows.index(row) for row in rotations(loader.sampler.way).tolist()]
    for tasks in batches(method, loader, numbers, copies=len(orders)):
        logits = permuted_logits(method, tasks, orders).query
        several = [logits[:, :1], logits[:, rotated], logits]
        accuracies = [accuracy_percent(averaged(each), tasks.query_labels) for each in several]
        yield torch.stack(accuracies, 1).cpu().numpy()
