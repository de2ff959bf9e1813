"""A batch of tasks, piece by piece: spread over the cores of a CPU, or one after the other.

Tasks are independent, so cores that each take tasks of their own never wait for each other, as
they do when all of them share every operator of one task.
"""

import logging
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

__all__ = ["run_in_pieces", "worker_number", "workers_of"]

_Result = TypeVar("_Result")

_MOST_WORKERS = 16  # each has the memory of its own piece
_this_thread = threading.local()
_learned: dict[tuple[torch.device, int], int] = {}  # what fits on a GPU, where a plan was wrong


def workers_of(device: torch.device) -> int:
    """How many pieces are computed at a time; a worker takes pieces of its own one by one."""
    if hasattr(_this_thread, "worker"):  # workers of workers would have the same numbers
        return 1
    return min(torch.get_num_threads(), _MOST_WORKERS) if device.type == "cpu" else 1


def worker_number() -> int:
    """Tell the threads of a CPU apart; what is not safe to share is kept once for each."""
    return getattr(_this_thread, "worker", 0)


def run_in_pieces(
    function: Callable[[slice], _Result], tasks: int, at_once: int, device: torch.device
) -> list[_Result]:
    """Return `function` of slices of at most `at_once` tasks, in order."""
    if device.type == "cpu":
        return _on_cores(function, _cut(tasks, at_once))
    return _on_a_gpu(function, tasks, at_once, device)


def _cut(tasks: int, at_once: int) -> list[slice]:
    """Cut a batch into pieces of at most `at_once` tasks, as many for each worker if possible."""
    workers = workers_of(torch.device("cpu"))
    rounds = math.ceil(tasks / (workers * at_once))
    size = math.ceil(tasks / (workers * rounds))
    return [slice(i, min(i + size, tasks)) for i in range(0, tasks, size)]


def _on_cores(function: Callable[[slice], _Result], pieces: Sequence[slice]) -> list[_Result]:
    """Share out the threads of PyTorch evenly, so that a piece has the same result whichever
    worker takes it, and whenever. Pieces that are left over have all threads, one by one.
    """
    workers = min(len(pieces), workers_of(torch.device("cpu")))
    if workers < 2:
        return [function(piece) for piece in pieces]
    threads = torch.get_num_threads()
    left_over = len(pieces) % workers
    numbers = iter(range(workers))
    gradients = torch.is_grad_enabled()  # every thread has a switch of its own

    def begin() -> None:
        _this_thread.worker = next(numbers)
        torch.set_num_threads(threads // workers)
        torch.set_grad_enabled(gradients)

    pool = ThreadPoolExecutor(workers, initializer=begin)
    try:
        results = list(pool.map(function, pieces[: len(pieces) - left_over]))
    finally:  # an error or an interrupt waits for the pieces that were begun, and for no others
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # what threads to come start with
    return results + [function(piece) for piece in pieces[len(pieces) - left_over :]]


def _on_a_gpu(
    function: Callable[[slice], _Result], tasks: int, planned: int, device: torch.device
) -> list[_Result]:
    """One piece after the other; where memory does not suffice, half as many tasks at once."""
    at_once = _learned.get((device, planned), planned)
    results: list[_Result] = []
    start = 0
    while start < tasks:
        piece = slice(start, min(start + at_once, tasks))
        try:
            results.append(function(piece))
            start = piece.stop
            continue
        except torch.OutOfMemoryError:
            at_once = (piece.stop - start) // 2
            if at_once == 0:
                raise
        # Out here, because an error that is being handled holds on to the memory of its frames.
        torch.cuda.empty_cache()
        _learned[device, planned] = at_once
        logging.getLogger(__name__).warning(
            "The GPU's memory is full; going on with %d tasks at once.", at_once
        )
    return results
