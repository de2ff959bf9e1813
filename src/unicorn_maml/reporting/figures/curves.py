"""Curves along inner steps and along shots."""

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unicorn_maml.reporting.figures.style import (
    CHANCE,
    MUTED,
    color_of,
    line,
    new_figure,
    whole_numbers,
)

__all__ = ["draw_freeze", "draw_shots", "draw_steps"]


def draw_steps(result: dict[str, Any]) -> Figure:
    """Query accuracy on the left, support accuracy on the right; base classes are dashed."""
    data = result["data"]
    figure, grid = new_figure(2)
    for axes, part in zip(grid[0], ("query", "support"), strict=True):
        for split, dashes in (("novel", "-"), ("base", "--")):
            for label, splits in data.items():
                cells = splits[split][part]
                line(
                    axes,
                    range(len(cells)),
                    cells,
                    color=color_of(label, list(data)),
                    linestyle=dashes,
                    label=f"{label}, {split} classes",
                )
            if split == "novel":  # the end of the first column
                _explain_rings(axes)
        _step_axes(axes, result)
        axes.set_title(f"{part} images")
    for label, splits in data.items():
        _mark_trained(grid[0][0], splits["novel"], color_of(label, list(data)))
    grid[0][0].set_ylabel("accuracy (%)")
    _legend(figure, grid[0][0], columns=2)
    return figure


def draw_freeze(result: dict[str, Any]) -> Figure:
    """Query accuracy of both ways to adapt; frozen backbones are dashed."""
    data = result["data"]
    figure, grid = new_figure()
    axes = grid[0][0]
    for label, parts in data.items():
        color = color_of(label, list(data))
        for (part, found), dashes in zip(parts.items(), ("-", "--"), strict=True):
            cells = found["query"]
            name = f"{label}, {part}"
            line(axes, range(len(cells)), cells, color=color, linestyle=dashes, label=name)
        _mark_trained(axes, next(iter(parts.values())), color)
    _step_axes(axes, result)
    axes.set_ylabel("query accuracy (%)")
    _explain_rings(axes)
    _legend(figure, axes, columns=1)
    return figure


def _mark_trained(axes: Axes, found: dict[str, Any], color: str) -> None:
    """A ring where the network stops in training."""
    steps = found["trained_steps"]
    if steps < len(found["query"]):
        axes.plot(steps, found["query"][steps]["mean"], color=color, zorder=3, **_RING)


_RING: Any = {"marker": "o", "markerfacecolor": "white", "markersize": 7, "linestyle": "none"}


def _explain_rings(axes: Axes) -> None:
    """An entry of the legend for the rings of all networks."""
    axes.plot([], [], color=MUTED, label="as many steps as in training", **_RING)


def _legend(figure: Figure, axes: Axes, *, columns: int) -> None:
    """A legend below the axes, with room of its own: curves may pass everywhere inside."""
    lines, names = axes.get_legend_handles_labels()
    figure.set_figheight(figure.get_figheight() + 0.22 * math.ceil(len(names) / columns))
    figure.legend(lines, names, loc="outside lower center", ncols=columns)


def _step_axes(axes: Axes, result: dict[str, Any]) -> None:
    way = result["tests"][0]["way"]
    axes.axhline(100 / way, color=CHANCE, linestyle=":", linewidth=1)
    axes.annotate(
        "chance", (1, 100 / way), xycoords=("axes fraction", "data"), ha="right", va="bottom"
    ).set_color(MUTED)
    axes.set_xlabel("inner steps")
    whole_numbers(axes.xaxis)


def draw_shots(result: dict[str, Any]) -> Figure:
    """Accuracy by shots, on a logarithmic axis."""
    data = result["data"]
    figure, grid = new_figure()
    axes = grid[0][0]
    for label, found in data.items():
        axes.errorbar(
            found["shots"],
            [cell["mean"] for cell in found["accuracy"]],
            yerr=[cell["ci95"] for cell in found["accuracy"]],
            color=color_of(label, list(data)),
            marker="o",
            markersize=4,
            capsize=3,
            label=label,
        )
    shots = next(iter(data.values()))["shots"]
    axes.set_xscale("log")
    axes.set_xticks(shots, [str(shot) for shot in shots])
    axes.minorticks_off()
    axes.set_xlabel("support images per class")
    axes.set_ylabel("query accuracy (%)")
    axes.legend(loc="lower right")
    return figure
