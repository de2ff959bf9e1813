"""Means with their 95% intervals."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Interval", "mean_interval", "share_interval"]


@dataclass(frozen=True)
class Interval:
    """A mean and the half-width of its 95% interval."""

    mean: float
    ci95: float

    def __str__(self) -> str:
        return f"{self.mean:z.2f} ± {self.ci95:.2f}"


def mean_interval(values: ArrayLike) -> Interval:
    """Mean of per-task values; 1.96 * population deviation / sqrt(tasks), as the field reports it.

    For two methods on the same tasks, pass the differences: their interval is the paired one.
    """
    array = np.asarray(values, np.float64)
    return Interval(float(array.mean()), float(1.96 * array.std() / np.sqrt(array.size)))


def share_interval(right: int, among: int) -> tuple[float, float]:
    """95% interval of a share (Wilson's), which stays honest for few trials and for all right."""
    z = 1.96
    share = right / among
    centre = share + z**2 / (2 * among)
    reach = z * np.sqrt(share * (1 - share) / among + z**2 / (4 * among**2))
    scale = 1 + z**2 / among
    return max(0.0, float((centre - reach) / scale)), min(1.0, float((centre + reach) / scale))
