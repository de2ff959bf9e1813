"""Can the support set tell which permutation is best? Four rules that choose one for each task."""

from typing import Any

import numpy as np

from unicorn_maml.methods.permutations import all_orders
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import SelectionSettings
from unicorn_maml.studies.choices import choices_result
from unicorn_maml.studies.frame import per_slot, tests_of
from unicorn_maml.studies.permuted import RULES, run_permuted, scores_of

__all__ = ["run"]


def run(settings: SelectionSettings, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Solve tasks under all permutations, choose by each rule, and score the choices."""
    tests = tests_of(settings)
    for test in tests:
        per_slot(test)
    run_permuted(settings, tests, all_orders(tests[0].record["way"]), on_progress)
    accuracies = []
    for test in tests:
        found = scores_of(test)
        chosen = [np.zeros(test.tasks, int)]  # the given order is the first one
        chosen += [found[rule].argmax(1) for rule in RULES]  # and wins where it is as good
        columns = np.stack(chosen, 1)
        accuracies.append(np.take_along_axis(found["accuracy"], columns, 1))
    return choices_result(
        settings,
        tests,
        accuracies,
        title="One permutation for each task, chosen by its support set",
        choices=["as given", *(f"by {rule.replace('-', ' support ')}" for rule in RULES)],
        noun="selection",
    )
