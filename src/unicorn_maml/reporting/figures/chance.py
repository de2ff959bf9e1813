"""Permutations by fixed points."""

from typing import Any

from matplotlib.figure import Figure

from unicorn_maml.reporting.figures.style import CHANCE, INK, new_figure, whole_numbers

__all__ = ["draw_chance"]

_MOST_BARS = 12
_MOST_DIGITS = 6


def draw_chance(result: dict[str, Any]) -> Figure:
    """A bar for each number of classes that stay in place; the mean is one class."""
    counts = [int(count) for count in result["data"]["counts"]]
    total, way = sum(counts), result["data"]["way"]
    figure, grid = new_figure()
    axes = grid[0][0]
    shown = counts[: _MOST_BARS + 1]  # beyond, bars are too small to be seen
    bars = axes.bar(range(len(shown)), [100 * count / total for count in shown], color=CHANCE)
    if total < 10**_MOST_DIGITS:
        axes.bar_label(bars, [str(count) for count in shown], color=INK)
    axes.set_title(f"on average 1 of {way} classes stays in its slot: {100 / way:.3g}%")
    axes.set_ylim(0, 115 * max(counts) / total)
    axes.set_xlabel(f"classes of {way} that stay in their slot")
    axes.set_ylabel("share of permutations (%)")
    whole_numbers(axes.xaxis)
    return figure
