"""Cells of a study's table as text."""

from typing import Any

__all__ = ["cell_text"]


def cell_text(cell: Any) -> str:
    """A cell: an interval, a number, a text, or nothing."""
    if isinstance(cell, dict):
        return f"{cell['mean']:.2f} ± {cell['ci95']:.2f}"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
    return "" if cell is None else str(cell)
