"""Cells of a study's table as text."""

from typing import Any

__all__ = ["cell_text"]


def cell_text(cell: Any) -> str:
    """A cell: an interval, by its half-width or by its ends, a number, a text, or nothing."""
    if isinstance(cell, dict) and "low" in cell:
        return f"{cell['mean']:z.2f} ({cell['low']:.2f} to {cell['high']:.2f})"
    if isinstance(cell, dict):
        return f"{cell['mean']:z.2f} ± {cell['ci95']:.2f}"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
    return "" if cell is None else str(cell)
