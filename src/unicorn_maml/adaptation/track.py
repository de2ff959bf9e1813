"""A stream of a GPU, with passes that are recorded on it once and replayed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

__all__ = ["Track"]

_WARM_UP = 2  # runs before a recording, in which libraries choose their algorithms


class Track:
    """What is called within `with track.running():` runs beside the caller's own stream."""

    def __init__(self, device: torch.device):
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._memory = torch.cuda.graph_pool_handle()  # one for all: they never run together

    def record(self, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Record a pass over tensors that stay where they are; the result replays it.

        What a replay returns is at the same place every time.
        """
        self.follow_caller()
        with torch.cuda.stream(self._stream):
            for _ in range(_WARM_UP):
                run()
        torch.cuda.synchronize(self._device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._memory, stream=self._stream):
            result = run()

        def replay() -> Tensor:
            graph.replay()
            return result

        return replay

    def wait(self) -> None:
        """Wait until everything on the device is done: a pass at work must not be forgotten."""
        torch.cuda.synchronize(self._device)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Launch on this track."""
        with torch.cuda.stream(self._stream):
            yield

    def follow_caller(self) -> None:
        """Begin only after what the caller has launched so far."""
        self._stream.wait_stream(torch.cuda.current_stream(self._device))

    def lead_caller(self) -> None:
        """Let the caller go on only after what was launched here so far."""
        torch.cuda.current_stream(self._device).wait_stream(self._stream)
