"""A progress bar with figures beside it; in a log file, a line every minute."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from unicorn_maml.progress import OnProgress

__all__ = ["progress_bar"]

_SECONDS_BETWEEN_LINES = 60.0
_COUNT_AND_TIME = 24  # columns that they take, with the spaces between all


@contextmanager
def progress_bar(title: str, console: Console) -> Iterator[OnProgress]:
    """Show a bar while the block runs; give it the number done, the total, and figures to show.

    A console that is no terminal shows a bar only at its end, so it gets lines before that. A block
    that had nothing to do leaves no bar behind.
    """
    # Title and figures are cut where a line is short, never how far the work is.
    bar_width = 24 if console.width >= 100 else 8
    heading = _cut(title, console.width // 3)
    room = console.width - len(heading) - bar_width - _COUNT_AND_TIME
    columns = (
        TextColumn("{task.description}", table_column=Column(no_wrap=True)),
        BarColumn(bar_width=bar_width),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(heading, total=None, figures="")
        told_at = time.monotonic()

        def update(done: int, total: int, figures: dict[str, float]) -> None:
            nonlocal told_at
            shown = "  ".join(f"{name} {_short(value)}" for name, value in figures.items())
            progress.update(bar, completed=done, total=total, figures=_cut(shown, room))
            if not console.is_terminal and time.monotonic() - told_at >= _SECONDS_BETWEEN_LINES:
                console.print(f"{title}: {done}/{total}  {shown}", highlight=False, soft_wrap=True)
                told_at = time.monotonic()

        try:
            yield update
        finally:
            progress.update(bar, visible=progress.tasks[0].total is not None)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def _short(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:.4g}"
