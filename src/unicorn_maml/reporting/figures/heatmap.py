"""Accuracy over inner steps and learning rates."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from unicorn_maml.reporting.figures.style import INK, new_figure

__all__ = ["draw_heatmap"]

_RANGE = 15.0  # points below the highest that colours tell apart; what is lower looks alike


def draw_heatmap(result: dict[str, Any]) -> Figure:
    """One square for each cell, the chosen one boxed; low accuracies are clipped for contrast."""
    cells, best = result["data"]["cells"], result["data"]["best"]
    steps = sorted({cell["inner_steps"] for cell in cells})
    rates = sorted({cell["inner_lr"] for cell in cells})
    table = np.full((len(steps), len(rates)), np.nan)
    for cell in cells:
        row, column = steps.index(cell["inner_steps"]), rates.index(cell["inner_lr"])
        table[row, column] = cell.get("accuracy", np.nan)
    top = float(np.nanmax(table))
    lowest = max(float(np.nanmin(table)), top - _RANGE)
    figure, grid = new_figure()
    figure.set_size_inches(1.8 + 0.8 * len(rates), 1.6 + 0.45 * len(steps))
    axes = grid[0][0]
    axes.grid(False)
    axes.set_facecolor("#dddddd")
    image = axes.imshow(
        table, cmap="viridis", vmin=min(lowest, top - 1), vmax=top, aspect="auto", origin="lower"
    )
    for row in range(len(steps)):
        for column in range(len(rates)):
            value = table[row, column]
            text = "diverged" if np.isnan(value) else f"{value:.1f}"
            dark = not np.isnan(value) and value < (lowest + top) / 2
            axes.text(
                column,
                row,
                text,
                ha="center",
                va="center",
                fontsize=8 if np.isnan(value) else 9,
                color="white" if dark else INK,
            )
    corner = rates.index(best["inner_lr"]) - 0.5, steps.index(best["inner_steps"]) - 0.5
    axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="#D55E00", linewidth=3))
    axes.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
    axes.set_yticks(range(len(steps)), [str(count) for count in steps])
    axes.set_xlabel("inner learning rate")
    axes.set_ylabel("inner steps")
    clipped = bool(np.nanmin(table) < lowest)
    figure.colorbar(
        image, ax=axes, label="query accuracy (%)", extend="min" if clipped else "neither"
    )
    return figure
