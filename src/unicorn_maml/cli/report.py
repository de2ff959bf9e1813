"""`unicorn-maml report`: any set of runs and studies on one page."""

from unicorn_maml.cli.consoles import console
from unicorn_maml.files import check_can_write, write_text
from unicorn_maml.settings import ReportSettings

__all__ = ["report"]


def report(settings: ReportSettings) -> None:
    """Read the runs and write the page."""
    from unicorn_maml.reporting.report import report_page
    from unicorn_maml.reporting.sections import read_section

    check_can_write(settings.out)
    sections = [read_section(folder) for folder in settings.runs]
    write_text(settings.out, report_page(settings.title, sections))
    console.print(f"The report is in {settings.out}.", soft_wrap=True)
