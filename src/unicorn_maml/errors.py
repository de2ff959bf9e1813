"""The errors that a user can cause and mend. Each message is one sentence that says what to do."""

__all__ = ["DivergedError", "FileError", "StoppedError", "UnicornError", "UsageError"]


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
