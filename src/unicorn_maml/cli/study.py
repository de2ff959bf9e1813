"""`unicorn-maml study NAME`: one analysis, its table, its figure and its conclusion."""

import importlib
from pathlib import Path
from typing import Any

from rich.table import Table

from unicorn_maml.cli.consoles import console, notes
from unicorn_maml.errors import StoppedError, UsageError
from unicorn_maml.files import check_can_write, read_object, write_json
from unicorn_maml.names import STUDY_FILE, STUDY_FORMAT
from unicorn_maml.progress import OnProgress
from unicorn_maml.reporting.cells import cell_text
from unicorn_maml.reporting.paper import paper_numbers, paper_text
from unicorn_maml.reporting.progress import progress_bar

__all__ = ["run_study", "study"]


def study(settings: Any) -> None:
    """Run a study, print its table and conclusion, and write it into its folder."""
    check_can_write(settings.json)
    with progress_bar(settings.study, notes) as update:
        result = _undrawn(settings) or _measure(settings, update)
    try:  # first: who reads what is printed may be gone
        _write(settings, result)
        if settings.json:
            write_json(settings.json, result)
    finally:  # but a full disk does not cost the figures
        console.print(_table(result))
        console.print(result["conclusion"])
    for entry in paper_numbers(result):
        console.print(f"The paper, {entry['where']}: {entry['label']}: {paper_text(entry)}.")
    console.print(f"Figure and numbers are in {settings.folder}.", soft_wrap=True)


def run_study(settings: Any, on_progress: OnProgress | None) -> dict[str, Any]:
    """Run a study and write its numbers and figure; a report draws from study.json alone."""
    result = _measure(settings, on_progress)
    _write(settings, result)
    return result


def _undrawn(settings: Any) -> dict[str, Any] | None:
    """What an earlier call of the same command has measured, but could not draw."""
    from unicorn_maml.reporting.figures.draw import figure_files
    from unicorn_maml.studies.frame import command_of

    file = settings.folder / STUDY_FILE
    if not file.is_file() or all(map(Path.is_file, figure_files(settings.folder, settings.study))):
        return None
    result = read_object(file)
    same = (result.get("format"), result.get("command")) == (STUDY_FORMAT, command_of(settings))
    return result if same else None


def _measure(settings: Any, on_progress: OnProgress | None) -> dict[str, Any]:
    from unicorn_maml.evaluation.unfinished import unfinished_file

    file = settings.folder / STUDY_FILE
    for name, what in ((STUDY_FILE, "a finished study"), ("config.json", "a training run")):
        if (settings.folder / name).is_file() and not _widens(settings, name):
            raise UsageError(f"{settings.folder} already holds {what}; choose another --out.")
    check_can_write(file)
    # One file for each study; only the one that is asked for is imported.
    room = importlib.import_module(f"unicorn_maml.studies.{settings.study.replace('-', '_')}")
    try:
        result: dict[str, Any] = room.run(settings, on_progress)
    except KeyboardInterrupt:
        hint = "."
        if unfinished_file(file).exists():
            hint = f"; add --resume to continue the study in {settings.folder}."
        elif settings.study == "heatmap":
            hint = "; run the same command again to go on with the next cell."
        raise StoppedError(f"Stopped{hint}") from None
    return result


def _write(settings: Any, result: dict[str, Any]) -> None:
    from unicorn_maml.evaluation.unfinished import write_result
    from unicorn_maml.reporting.figures.draw import draw_study, write_figure

    # The numbers first: no mishap with the figure may cost them, and the next call will draw it.
    write_result(settings.folder / STUDY_FILE, result)
    write_figure(draw_study(result), settings.folder, settings.study)


def _widens(settings: Any, name: str) -> bool:
    """Whether the folder holds a heat map and is to hold a wider one; its cells are runs."""
    asked = name == STUDY_FILE and settings.study == "heatmap"
    return asked and read_object(settings.folder / name).get("study") == "heatmap"


def _table(result: dict[str, Any]) -> Table:
    columns, rows = result["table"]["columns"], result["table"]["rows"]
    table = Table("", title=result["title"])
    for column in columns:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(row["label"], *map(cell_text, row["cells"]))
    return table
