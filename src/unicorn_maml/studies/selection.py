"""Can the support set tell which permutation is best? Four rules that choose one for each task."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unicorn_maml.data.batches import TaskLoader
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.permutations import all_orders, initial_support_logits, permuted_logits
from unicorn_maml.methods.remedies import select, support_scores
from unicorn_maml.methods.scoring import accuracy_percent
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import SelectionSettings
from unicorn_maml.studies.choices import choices_result
from unicorn_maml.studies.frame import batches, per_slot, run_tests, tests_of

__all__ = ["run"]

_RULES = {
    "initial-accuracy": "by initial support accuracy",
    "initial-loss": "by initial support loss",
    "updated-accuracy": "by updated support accuracy",
    "updated-loss": "by updated support loss",
}


def run(settings: SelectionSettings, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Solve tasks under all permutations, choose by each rule, and score the choices."""
    tests = tests_of(settings)
    for test in tests:
        test.measure = partial(_measure, per_slot(test), test.loader)
    run_tests(settings, tests, on_progress)
    return choices_result(
        settings,
        tests,
        title="One permutation for each task, chosen by its support set",
        choices=["as given", *_RULES.values()],
        noun="selection",
    )


def _measure(
    method: MAML, loader: TaskLoader, numbers: Sequence[int]
) -> Iterator[NDArray[np.float64]]:
    """Accuracies (t, 5) in percent: of the given permutation, and of each rule's choice."""
    orders = all_orders(loader.sampler.way)
    for tasks in batches(method, loader, numbers, copies=len(orders)):
        found = permuted_logits(method, tasks, orders, with_support=True)
        assert found.support is not None
        first = initial_support_logits(method, tasks)
        scores = support_scores(first, found.support, tasks.support_labels, orders)
        every = torch.arange(len(tasks), device=found.query.device)
        chosen = [torch.zeros_like(every)]  # the given order is the first one
        chosen += [select(scores[rule]) for rule in _RULES]
        accuracies = [accuracy_percent(found.query[every, c], tasks.query_labels) for c in chosen]
        yield torch.stack(accuracies, 1).cpu().numpy()
