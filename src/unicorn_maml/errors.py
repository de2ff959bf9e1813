"""The errors that a user can cause and mend. Each message is one sentence that says what to do."""

__all__ = [
    "NONSENSE",
    "DivergedError",
    "FileError",
    "StoppedError",
    "UnicornError",
    "UsageError",
    "is_out_of_memory",
]


# What content causes that can be parsed, but makes no sense: files may come from anyone.
NONSENSE = (
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    StopIteration,
    RecursionError,
)


class UnicornError(Exception):
    """The work failed; the command line prints the message alone and exits with `exit_code`."""

    exit_code = 1


class UsageError(UnicornError, ValueError):
    """What was asked for cannot be done: a wrong option, a wrong path, settings that do not fit."""

    exit_code = 2


class FileError(UnicornError):
    """A file that should be sound is not: truncated, changed, or not what it says it is."""


class DivergedError(UnicornError):
    """A loss became infinite or not a number."""


class StoppedError(UnicornError):
    """The user stopped the work; the message says what is kept and how to go on."""

    exit_code = 130


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory was wanting, of this machine or of a GPU."""
    # torch's own class of this name is not imported here, because that takes seconds; a CPU's
    # allocator has none.
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "DefaultCPUAllocator" in str(error)
    )
