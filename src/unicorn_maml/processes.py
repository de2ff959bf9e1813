"""How processes of our own treat the machine that they run on."""

import ctypes
import os
from contextlib import suppress

__all__ = ["keep_freed_memory", "wait_asleep"]


def keep_freed_memory() -> None:
    """Let the C library keep the memory that it has, for processes that compute on a CPU.

    By default glibc gives large blocks back to the system when they are freed, and every layer then
    pays for fresh pages: three tenths of the time of a task. Elsewhere this does nothing.
    """
    trim_threshold, mmap_max, arena_max = -1, -4, -8  # numbers of <malloc.h>
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(mmap_max, 0)
        libc.mallopt(arena_max, 1)  # or each thread would keep memory of its own
        libc.mallopt(trim_threshold, 2**31 - 1)


def wait_asleep() -> None:
    """Let threads that wait for each other fall asleep soon; to be called before torch is imported.

    By default the threads of GNU's OpenMP spin for a while first, and where another program needs
    the processor, too, they take it from the very thread that they wait for. Elsewhere this does
    nothing, nor where the user has said how to wait.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "3000")
