"""Curves along inner steps and along shots."""

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
    figure, grid = new_figure(2, sharey=True)
    for axes, part in zip(grid[0], ("query", "support"), strict=True):
        for label, splits in data.items():
            for split, dashes in (("novel", "-"), ("base", "--")):
                cells = splits[split][part]
                line(
                    axes,
                    range(len(cells)),
                    cells,
                    color=color_of(label, list(data)),
                    linestyle=dashes,
                    label=f"{label}, {split} classes",
                )
        _step_axes(axes, result)
        axes.set_title(f"{part} images")
    for label, splits in data.items():
        _mark_trained(grid[0][0], splits["novel"], color_of(label, list(data)))
    grid[0][0].set_ylabel("accuracy (%)")
    grid[0][0].legend(loc="center right")
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
    axes.legend(loc="center right", bbox_to_anchor=(1, 0.4))
    return figure


def _mark_trained(axes: Axes, found: dict[str, Any], color: str) -> None:
    """A ring where the network stops in training."""
    steps = found["trained_steps"]
    if steps < len(found["query"]):
        axes.plot(steps, found["query"][steps]["mean"], "o", mfc="white", mec=color, ms=7, zorder=3)


def _step_axes(axes: Axes, result: dict[str, Any]) -> None:
    way = result["tests"][0]["way"]
    axes.axhline(100 / way, color=CHANCE, linestyle=":", linewidth=1)
    axes.annotate(
        "chance", (1, 100 / way), xycoords=("axes fraction", "data"), ha="right", va="bottom"
    ).set_color(MUTED)
    axes.set_xlabel("inner steps")
    axes.set_ylim(0, 103)
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
