"""One look for all figures: colours for colour-blind readers too, and one for each method."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

__all__ = [
    "CHANCE",
    "INK",
    "MUTED",
    "color_of",
    "line",
    "logarithmic",
    "new_figure",
    "style",
    "whole_numbers",
]

INK, MUTED, CHANCE = "#222222", "#777777", "#999999"
# Okabe and Ito's palette. The methods keep their colours in every figure.
_OF_METHODS = {"UNICORN-MAML": "#0072B2", "MAML": "#D55E00", "nearest centroid": "#009E73"}
_OTHERS = ["#CC79A7", "#E69F00", "#56B4E9", "#000000"]

_STYLE: Any = {
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "text.parse_math": False,  # names of folders may hold dollars
    "svg.hashsalt": "unicorn-maml",  # the same picture gives the same file
}


@contextmanager
def style() -> Iterator[None]:
    """Draw in the project's style inside the block."""
    with mpl.rc_context(_STYLE):
        yield


def new_figure(columns: int = 1, rows: int = 1, **options: Any) -> tuple[Figure, Any]:
    """A figure and its axes (rows, columns), made without a window."""
    figure = Figure(figsize=(5.2 * columns + 0.4, 3.7 * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def color_of(label: str, labels: Sequence[str]) -> str:
    """The method's colour; further networks of the same method get others."""
    taken: dict[str, str] = {}
    spare = iter(_OTHERS * len(labels))
    for each in labels:
        own = next((c for name, c in _OF_METHODS.items() if each.startswith(name)), None)
        taken[each] = own if own and own not in taken.values() else next(spare)
    return taken[label]


def whole_numbers(axis: Axis) -> None:
    """Put ticks at whole numbers only."""
    axis.set_major_locator(MaxNLocator(integer=True))


def logarithmic(axes: Axes) -> None:
    """Make the upright axis logarithmic, with plain numbers: its usual ones need `parse_math`."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _position: f"{value:g}")


def line(axes: Axes, x: Sequence[float], cells: Sequence[dict[str, float]], **options: Any) -> None:
    """A line through means, with a band for their intervals."""
    means = [cell["mean"] for cell in cells]
    low = [cell["mean"] - cell["ci95"] for cell in cells]
    high = [cell["mean"] + cell["ci95"] for cell in cells]
    (drawn,) = axes.plot(x, means, **options)
    axes.fill_between(x, low, high, color=drawn.get_color(), alpha=0.2, linewidth=0)
