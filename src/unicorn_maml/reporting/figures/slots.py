"""Slots before adaptation, the head's size, and its course through meta-training."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unicorn_maml.reporting.figures.style import color_of, logarithmic, new_figure, whole_numbers

__all__ = ["draw_slots"]


_NORMS = {
    "mean_norm": "mean of\nthe slots",
    "spread": "distance\nfrom it",
    "meta_gradient_norm": "meta-\ngradient",
}


def draw_slots(result: dict[str, Any]) -> Figure:
    """Shares of the slots, norms, and norms by epoch where a log has them."""
    data = result["data"]
    with_history = any(found["history"]["epoch"] for found in data.values())
    figure, grid = new_figure(3 if with_history else 2)
    _draw_shares(grid[0][0], data)
    _draw_norms(grid[0][1], data)
    if with_history:
        _draw_course(grid[0][2], data)
    return figure


def _shift(number: int, networks: int) -> float:
    """How far a network's bars and points stand beside the middle of their places."""
    return (number - (networks - 1) / 2) * (0.8 / networks)


def _draw_shares(axes: Axes, data: dict[str, Any]) -> None:
    # Of equal slots, that the first of equals counts means nothing.
    with_bars = [label for label, found in data.items() if found["spread"] != 0]
    for label, found in data.items():
        color, cells = color_of(label, list(data)), found["shares"]
        if label not in with_bars:
            axes.plot([], [], "s", color=color, label=f"{label}: all slots tie")
            continue
        shift = _shift(with_bars.index(label), len(with_bars))
        axes.bar(
            [slot + shift for slot in range(len(cells))],
            [cell["mean"] for cell in cells],
            0.8 / len(with_bars),
            yerr=[cell["ci95"] for cell in cells],
            capsize=2,
            color=color,
            label=label,
        )
    axes.set_title("who wins before adaptation")
    axes.set_xlabel("slot")
    axes.set_ylabel("share of query images (%)")
    axes.set_xticks(range(len(next(iter(data.values()))["shares"])))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16))  # bars may stand everywhere inside


def _draw_norms(axes: Axes, data: dict[str, Any]) -> None:
    for number, (label, found) in enumerate(data.items()):
        color, shift = color_of(label, list(data)), _shift(number, len(data)) / 4
        axes.plot(  # no bars: on a logarithmic axis they have nothing to stand on
            [place + shift for place in range(len(_NORMS))],
            [found[name] or float("nan") for name in _NORMS],
            "o",
            color=color,
            label=label,
        )
        for place, name in enumerate(_NORMS):
            if found[name] == 0:  # which has no place on a logarithmic axis
                at = (place + shift, 0.01)
                axes.annotate("0", at, xycoords=("data", "axes fraction"), ha="center", color=color)
    axes.set_title("the trained head")
    logarithmic(axes)
    axes.set_xlim(-0.5, len(_NORMS) - 0.5)
    axes.set_ylabel("norm")
    axes.set_xticks(range(len(_NORMS)), list(_NORMS.values()))


def _draw_course(axes: Axes, data: dict[str, Any]) -> None:
    for label, found in data.items():
        history = found["history"]
        if not history["epoch"]:
            continue
        for name, what, dashes in (
            ("head_norm", "head", "-"),
            ("head_gradient_norm", "its meta-gradient", ":"),
        ):
            axes.plot(
                history["epoch"],
                [value or float("nan") for value in history[name]],
                color=color_of(label, list(data)),
                linestyle=dashes,
                label=f"{label}: {what}",
            )
    axes.set_title("through meta-training")
    logarithmic(axes)
    axes.set_xlabel("epoch")
    axes.set_ylabel("norm")
    whole_numbers(axes.xaxis)
    axes.legend(fontsize=8)
