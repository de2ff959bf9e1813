"""When a study calls a paired difference clear."""

from statistics import NormalDist

from unicorn_maml.intervals import Interval

__all__ = ["FEWEST_TASKS", "clear_side"]

FEWEST_TASKS = 30  # of fewer, the deviation is too uncertain for an interval to judge by


def clear_side(difference: Interval, among: int) -> int:
    """1 or -1 if a difference is clearly above or below zero, else 0.

    It is one `among` several that are looked at together. The limit is Bonferroni's: if there were
    no differences at all, any of them would be called clear in 5% of the studies at most.
    """
    deviations = NormalDist().inv_cdf(1 - 0.025 / among)
    limit = difference.ci95 * deviations / NormalDist().inv_cdf(0.975)
    return int(difference.mean > limit) - int(difference.mean < -limit)
