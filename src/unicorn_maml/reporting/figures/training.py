"""The course of a training run."""

from typing import Any

from matplotlib.figure import Figure

from unicorn_maml.reporting.figures.style import color_of, line, new_figure, style, whole_numbers

__all__ = ["draw_training"]


def draw_training(label: str, entries: list[dict[str, Any]]) -> Figure:
    """Validation accuracy by epoch, from the log of a run."""
    with style():
        figure, grid = new_figure()
        axes = grid[0][0]
        points = [entry for entry in entries if "validation_accuracy" in entry]
        cells = [
            {"mean": entry["validation_accuracy"], "ci95": entry["validation_ci95"]}
            for entry in points
        ]
        epochs = [entry["epoch"] for entry in points]
        line(axes, epochs, cells, color=color_of(label, [label]), marker="o", markersize=3)
        axes.set_xlabel("epoch")
        axes.set_ylabel("accuracy on validation tasks (%)")
        whole_numbers(axes.xaxis)
        return figure
