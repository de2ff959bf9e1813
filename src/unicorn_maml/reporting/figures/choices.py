"""Accuracies of several choices, with intervals, and what each gains on the same tasks."""

from typing import Any

from matplotlib.figure import Figure

from unicorn_maml.reporting.figures.style import MUTED, color_of, new_figure

__all__ = ["draw_choices"]

_SHORT_NAMES = 60  # letters that fit beside each other, with their marks


def draw_choices(result: dict[str, Any]) -> Figure:
    """A row for each choice, a point for each network; gains are printed beside."""
    data = result["data"]
    choices = list(next(iter(data.values())))
    figure, grid = new_figure()
    height = 0.5 * len(choices) * max(1, 0.7 * len(data)) + 1.1
    figure.set_size_inches(7.6, max(2.4, height))
    axes = grid[0][0]
    for number, (label, found) in enumerate(data.items()):
        color = color_of(label, list(data))
        offset = (number - (len(data) - 1) / 2) * 0.3
        for place, choice in enumerate(choices):
            cell = found[choice]["accuracy"]
            y = place + offset
            axes.errorbar(
                cell["mean"],
                y,
                xerr=cell["ci95"],
                fmt="o",
                color=color,
                capsize=3,
                label=label if place == 0 else None,
            )
            axes.annotate(
                _note(found[choice], first=place == 0),
                (1.02, y),
                xycoords=("axes fraction", "data"),
                va="center",
                color=color,
                fontsize=9,
            )
    if any("gain" in cell for found in data.values() for cell in found.values()):
        axes.annotate(
            "difference, same tasks (points)",
            (1.02, 1.02),
            xycoords="axes fraction",
            fontsize=9,
            color=MUTED,
            va="bottom",
        )
    axes.set_yticks(range(len(choices)), choices)
    axes.set_ylim(len(choices) - 0.5, -0.5)
    axes.set_xlabel("query accuracy (%), with 95% intervals")
    if len(data) > 1:
        short = sum(map(len, data)) < _SHORT_NAMES
        if not short:
            figure.set_figheight(figure.get_figheight() + 0.2 * len(data))
        figure.legend(loc="outside upper left", ncols=len(data) if short else 1)
    return figure


def _note(cell: dict[str, Any], *, first: bool) -> str:
    """What a choice gains; the reference is the one as trained, or, without one, the first."""
    if cell.get("diverged"):
        return f"{cell['diverged']} tasks diverged"
    if cell.get("trained"):
        return "as trained"
    if "gain" not in cell or (first and "trained" not in cell):
        return ""
    return f"{cell['gain']['mean']:+z.2f} ± {cell['gain']['ci95']:.2f}"
