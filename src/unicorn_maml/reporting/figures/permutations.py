"""Accuracies of all permutations: sorted within each task, and around the task's mean."""

from typing import Any

from matplotlib.figure import Figure

from unicorn_maml.reporting.figures.style import color_of, line, new_figure

__all__ = ["draw_permutations"]


def draw_permutations(result: dict[str, Any]) -> Figure:
    """Means by position on the left; how far permutations are from their task's mean, right."""
    data = result["data"]
    figure, grid = new_figure(2)
    sorted_axes, histogram = grid[0]
    for label, found in data.items():
        color = color_of(label, list(data))
        cells = found["by_position"]
        line(sorted_axes, range(1, len(cells) + 1), cells, color=color, label=label)
        counts, edges = found["histogram"]["counts"], found["histogram"]["edges"]
        shares = [100 * count / sum(counts) for count in counts]
        histogram.stairs(shares, edges, color=color, fill=True, alpha=0.25)
        histogram.stairs(shares, edges, color=color, linewidth=1.5, label=label)
    sorted_axes.set_title("sorted within each task, averaged by position")
    sorted_axes.set_xlabel("position of the permutation, best first")
    sorted_axes.set_ylabel("query accuracy (%)")
    sorted_axes.legend(loc="lower left")
    histogram.set_title("all permutations of all tasks")
    histogram.set_xlabel("accuracy minus the task's mean (points)")
    histogram.set_ylabel("share of permutations (%)")
    histogram.legend(loc="upper right")
    return figure
