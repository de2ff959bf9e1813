"""One task: a line for each permutation, in the same colour on both sides."""

from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from unicorn_maml.reporting.figures.style import new_figure, whole_numbers

__all__ = ["draw_one_task"]

_WIGGLE = 0.25  # points between lines that would lie on top of each other


def draw_one_task(result: dict[str, Any]) -> Figure:
    """Support images on the left, query images on the right, one row for each network."""
    data = result["data"]
    figure, grid = new_figure(2, len(data), sharey=True)
    finals = [curve[-1] for found in data.values() for curve in found["query"]]
    scale = ScalarMappable(Normalize(min(finals), max(max(finals), min(finals) + 1)), "viridis")
    for row, (label, found) in zip(grid, data.items(), strict=True):
        ranks = np.argsort([curve[-1] for curve in found["query"]], kind="stable")
        shift = np.linspace(-1, 1, len(ranks)) * _WIGGLE
        for axes, part in zip(row, ("support", "query"), strict=True):
            for place, number in enumerate(ranks):
                curve = found[part][number]
                color = scale.to_rgba(found["query"][number][-1])
                shifted = [value + shift[place] for value in curve]
                axes.plot(range(len(curve)), shifted, color=color, linewidth=0.8, alpha=0.6)
            axes.set_title(f"{label}, {part} images")
            axes.set_xlabel("inner steps")
            axes.set_ylim(-2, 103)
            whole_numbers(axes.xaxis)
        row[0].set_ylabel("accuracy (%)")
    figure.colorbar(
        scale, ax=grid, label="query accuracy after the last step (%)", shrink=0.8, pad=0.02
    )
    return figure
