"""`unicorn-maml results`: results to keep, and their table beside the paper's."""

from unicorn_maml.cli.commands import console
from unicorn_maml.reporting.results import add_result, results_table, update_document
from unicorn_maml.settings import ResultsAddSettings, ResultsTableSettings

__all__ = ["results_add", "results_table_command"]


def results_add(settings: ResultsAddSettings) -> None:
    """Keep a result."""
    file = add_result(settings.file, settings.row, settings.folder)
    console.print(f"Wrote {file}.")


def results_table_command(settings: ResultsTableSettings) -> None:
    """Print the table, or put it into a document."""
    table = results_table(settings.folder)
    if settings.document:
        update_document(settings.document, table)
        console.print(f"Updated {settings.document}.")
    else:
        console.print(table, soft_wrap=True)
