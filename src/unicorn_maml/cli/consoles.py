"""Where commands print: results to one console, everything else to the other."""

from rich.console import Console

__all__ = ["console", "notes"]

# No markup: what is printed holds names of files and classes, which may look like it.
console = Console(markup=False, highlight=False)
notes = Console(markup=False, highlight=False, stderr=True)  # progress: not part of the result
