"""Averaged predictions of all permutations of a task, or of the N that rotate its slots."""

from typing import Any

from unicorn_maml.methods.permutations import all_orders
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import EnsembleSettings
from unicorn_maml.studies.choices import choices_result
from unicorn_maml.studies.frame import per_slot, tests_of
from unicorn_maml.studies.permuted import run_permuted, scores_of

__all__ = ["run"]


def run(settings: EnsembleSettings, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Solve tasks under all permutations and average what they predict."""
    tests = tests_of(settings)
    for test in tests:
        per_slot(test)
    way = tests[0].record["way"]
    orders = all_orders(way)
    run_permuted(settings, tests, orders, on_progress)
    averaged = [0, way - 1, len(orders) - 1]  # with all orders before: the rotations come first
    return choices_result(
        settings,
        tests,
        [scores_of(test)["averaged"][:, averaged] for test in tests],
        title="Averaged predictions of permutations",
        choices=["one permutation", f"{way} rotations", f"all {len(orders)} permutations"],
        noun="averaging predictions",
    )
