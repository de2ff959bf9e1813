"""Why accuracy before adaptation is 1/N, exactly.

Suppose the first weights put each class into one slot. Given all permutations of the labels, an
initialisation that finds all N classes is right for k of them where the permutation has k fixed
points; the mean over all N! permutations is one class, whatever N is.
"""

from fractions import Fraction
from math import comb, factorial
from typing import Any

from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import ChanceSettings
from unicorn_maml.studies.frame import study_result

__all__ = ["fixed_point_counts", "run"]


def fixed_point_counts(way: int) -> list[int]:
    """How many permutations of `way` things keep exactly 0, 1, ..., way of them in place."""
    without = [1, 0]  # permutations of n things that keep none: n! (1 - 1/1! + 1/2! - ...)
    for n in range(2, way + 1):
        without.append((n - 1) * (without[n - 1] + without[n - 2]))
    return [comb(way, kept) * without[way - kept] for kept in range(way + 1)]


def run(settings: ChanceSettings, _on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Count permutations by fixed points, and take the mean accuracy."""
    way = settings.way
    counts = fixed_point_counts(way)
    total = sum(counts)
    assert total == factorial(way)
    mean = sum(Fraction(count * kept, way) for kept, count in enumerate(counts)) / total
    assert mean == Fraction(1, way)
    descending = list(reversed(list(enumerate(counts))))
    shown = ", ".join(str(count) for _, count in descending[:8])
    more = "" if way < 8 else ", ..."
    return study_result(
        settings,
        [],
        title=f"Permutations of {way} classes by fixed points",
        conclusion=(
            f"Of {total} permutations, {shown}{more} keep {way}, {way - 1}, ... classes in their "
            f"slots; the mean accuracy is exactly 1/{way} = {100 / way:.4g}%, so an initialisation "
            "that tells classes apart perfectly is no better than chance before adaptation."
        ),
        columns=["permutations", "accuracy (%)"],
        rows=[
            (f"{kept} of {way} in place", [str(count), f"{100 * kept / way:.4g}"])
            for kept, count in descending
        ]
        + [("all", [str(total), f"{100 / way:.4g}"])],
        data={"way": way, "counts": [str(count) for count in counts]},
    )
