"""Time and memory of functions that are called in turn."""

import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["WARM_UP", "Cost", "measure_in_turn"]

WARM_UP = 2  # calls that are not counted: code is compiled or captured in them


@dataclass(frozen=True)
class Cost:
    """What a call of a function takes."""

    seconds: float  # median
    peak_bytes: int  # of all tensors on a GPU; on a CPU, of the whole process since it began
    returned: Any  # by the last call


def measure_in_turn(
    functions: Sequence[Callable[[], object]],
    *,
    repeats: int,
    device: torch.device,
    on_call: Callable[[], None] | None = None,
) -> list[Cost]:
    """Call all functions in turn, `repeats` times, so that a noisy machine disturbs all alike."""
    times: list[list[float]] = [[] for _ in functions]
    peaks = [0 for _ in functions]
    returned: list[Any] = [None for _ in functions]
    for turn in range(WARM_UP + repeats):
        for number, function in enumerate(functions):
            returned[number] = None  # or else it would add to the memory of this call
            if device.type == "cuda":
                torch.cuda.synchronize(device)
                torch.cuda.reset_peak_memory_stats(device)
            started = time.perf_counter()
            returned[number] = function()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            if turn >= WARM_UP:
                times[number].append(time.perf_counter() - started)
                peaks[number] = max(peaks[number], _peak_bytes(device))
            if on_call:
                on_call()
    return [
        Cost(statistics.median(measured), peak, value)
        for measured, peak, value in zip(times, peaks, returned, strict=True)
    ]


def _peak_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
