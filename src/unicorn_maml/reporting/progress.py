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


@contextmanager
def progress_bar(title: str, console: Console) -> Iterator[OnProgress]:
    """Show a bar while the block runs; give it the number done, the total, and figures to show.

    A console that is no terminal shows a bar only at its end, so it gets lines before that. A block
    that had nothing to do leaves no bar behind.
    """
    columns = (
        TextColumn("{task.description}", table_column=Column(no_wrap=True)),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(title, total=None, figures="")
        told_at = time.monotonic()

        def update(done: int, total: int, figures: dict[str, float]) -> None:
            nonlocal told_at
            shown = "  ".join(f"{name} {_short(value)}" for name, value in figures.items())
            progress.update(bar, completed=done, total=total, figures=shown)
            if not console.is_terminal and time.monotonic() - told_at >= _SECONDS_BETWEEN_LINES:
                console.print(f"{title}: {done}/{total}  {shown}", highlight=False, soft_wrap=True)
                told_at = time.monotonic()

        try:
            yield update
        finally:
            progress.update(bar, visible=progress.tasks[0].total is not None)


def _short(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:.4g}"
