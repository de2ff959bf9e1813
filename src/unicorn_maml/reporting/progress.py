"""A progress bar with figures beside it."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from unicorn_maml.progress import OnProgress

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(title: str, console: Console) -> Iterator[OnProgress]:
    """Show a bar while the block runs; give it the number done, the total, and figures to show."""
    columns = (
        TextColumn("{task.description}", table_column=Column(no_wrap=True)),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(title, total=None, figures="")

        def update(done: int, total: int, figures: dict[str, float]) -> None:
            shown = "  ".join(f"{name} {_short(value)}" for name, value in figures.items())
            progress.update(bar, completed=done, total=total, figures=shown)

        yield update


def _short(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:.4g}"
