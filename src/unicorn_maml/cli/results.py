"""`unicorn-maml results`: results to keep, and their table beside the paper's."""

from unicorn_maml.cli.commands import show_pair
from unicorn_maml.cli.consoles import console
from unicorn_maml.errors import FileError, UsageError
from unicorn_maml.files import check_can_write, read_object
from unicorn_maml.reporting.results import add_result, results_table, update_document
from unicorn_maml.settings import (
    ResultsAddSettings,
    ResultsDifferenceSettings,
    ResultsTableSettings,
)

__all__ = ["results_add", "results_difference", "results_table_command"]


def results_add(settings: ResultsAddSettings) -> None:
    """Keep a result."""
    file = add_result(settings.file, settings.row, settings.folder)
    console.print(f"Wrote {file}.", soft_wrap=True)


def results_difference(settings: ResultsDifferenceSettings) -> None:
    """Print the paired difference of two results."""
    from unicorn_maml.evaluation.results import paired
    from unicorn_maml.evaluation.unfinished import write_result

    check_can_write(settings.json)
    both = [read_object(file) for file in (settings.first, settings.second)]
    for file, each in zip((settings.first, settings.second), both, strict=True):
        if each.get("diverged"):
            raise UsageError(f"The test in {file} diverged, so it has no difference to another.")
    try:
        result = paired(both[0], both[1])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, UsageError):
            raise
        raise FileError(
            f"{settings.first} or {settings.second} is no result; make them with "
            "`unicorn-maml evaluate --json`."
        ) from error
    write_result(settings.json, result)
    show_pair(result)


def results_table_command(settings: ResultsTableSettings) -> None:
    """Print the table, or put it into a document."""
    table = results_table(settings.folder)
    if settings.document:
        update_document(settings.document, table)
        console.print(f"Updated {settings.document}.", soft_wrap=True)
    else:
        console.print(table, soft_wrap=True)
