"""From the result of a study to its figure, and into files."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from unicorn_maml.files import write_bytes
from unicorn_maml.reporting.figures.chance import draw_chance
from unicorn_maml.reporting.figures.choices import draw_choices
from unicorn_maml.reporting.figures.curves import draw_freeze, draw_shots, draw_steps
from unicorn_maml.reporting.figures.heatmap import draw_heatmap
from unicorn_maml.reporting.figures.one_task import draw_one_task
from unicorn_maml.reporting.figures.permutations import draw_permutations
from unicorn_maml.reporting.figures.slots import draw_slots
from unicorn_maml.reporting.figures.style import style

__all__ = ["draw_study", "figure_files", "svg_of", "write_figure"]

_DRAW: dict[str, Callable[[dict[str, Any]], Figure]] = {
    "steps": draw_steps,
    "freeze": draw_freeze,
    "permutations": draw_permutations,
    "one-task": draw_one_task,
    "selection": draw_choices,
    "ensemble": draw_choices,
    "average": draw_choices,
    "transfer": draw_choices,
    "policies": draw_choices,
    "shots": draw_shots,
    "slots": draw_slots,
    "chance": draw_chance,
    "heatmap": draw_heatmap,
}


def draw_study(result: dict[str, Any]) -> Figure:
    """Draw the figure of a study."""
    with style():
        return _DRAW[result["study"]](result)


def figure_files(folder: Path, name: str) -> list[Path]:
    """The files of a figure."""
    return [folder / f"{name}.{kind}" for kind in ("png", "svg")]


def write_figure(figure: Figure, folder: Path, name: str) -> None:
    """Write a figure as PNG and SVG."""
    for file in figure_files(folder, name):
        write_bytes(file, _bytes_of(figure, file.suffix[1:]))


def svg_of(figure: Figure) -> bytes:
    """A figure as SVG."""
    return _bytes_of(figure, "svg")


def _bytes_of(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    with style():
        # no date, so that the same numbers give the same file
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
    return buffer.getvalue()
