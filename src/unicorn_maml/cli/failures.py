"""What a user can cause ends in one sentence and an exit code, never in a traceback."""

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from unicorn_maml.errors import UnicornError, is_out_of_memory

__all__ = ["failing_in_a_sentence"]


@contextmanager
def failing_in_a_sentence() -> Iterator[None]:
    """End the program with a sentence if what is done within fails."""
    errors = Console(stderr=True, markup=False, highlight=False)
    try:
        yield
    except UnicornError as error:
        errors.print(f"Error: {error}", style="red")
        sys.exit(error.exit_code)
    except OSError as error:
        errors.print(f"Error: {_explain(error)}", style="red")
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        errors.print("Error: Not enough memory; use smaller images or batches.", style="red")
        sys.exit(1)


def _explain(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"No space is left on the disk{where}; free some and run the command again, with "
            "--resume if it left a run folder or a .part file."
        )
    return f"{error.strerror or error}{where}; check that the file or folder can be used."
