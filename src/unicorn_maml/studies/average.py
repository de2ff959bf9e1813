"""All slots of a trained head started from their mean, or from zero, at meta-test."""

from typing import Any

import numpy as np

from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import AverageSettings
from unicorn_maml.studies.choices import choices_result
from unicorn_maml.studies.frame import per_slot, run_tests, tests_of

__all__ = ["run"]

_HEADS = {"per-slot": "learned slots", "average": "mean of the slots", "zero": "zeros"}


def run(settings: AverageSettings, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Test with each head, on the same tasks."""
    for test in tests_of(settings):
        per_slot(test)
    tests = {head: tests_of(settings, head=head) for head in _HEADS}
    run_tests(settings, [test for head in _HEADS for test in tests[head]], on_progress)
    first = tests["per-slot"]
    accuracies = []
    for number, test in enumerate(first):
        test.seconds = sum(tests[head][number].seconds for head in _HEADS)
        accuracies.append(np.stack([tests[head][number].per_task for head in _HEADS], 1))
    return choices_result(
        settings,
        first,
        accuracies,
        title="Where the slots of a trained head start at meta-test",
        choices=list(_HEADS.values()),
        noun="starting all slots alike",
    )
