"""A running average of a network's weights, which is less noisy than the weights themselves."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

__all__ = ["RunningAverage", "move_towards"]


@torch.no_grad()
def move_towards(average: dict[str, Tensor], now: dict[str, Tensor], share: float) -> None:
    """Move numbers by a share of their distance, in place; take over counters."""
    moving = [name for name, value in average.items() if value.is_floating_point()]
    torch._foreach_lerp_([average[name] for name in moving], [now[name] for name in moving], share)
    for name in average.keys() - set(moving):
        average[name].copy_(now[name])


class RunningAverage:
    """The average of the weights (and of batch norm's averages) that a network has had.

    The network learns on with its own; `kept` lends it the averaged ones, to be judged and saved.
    """

    def __init__(self, network: nn.Module, old: float):
        self._network, self._share = network, 1 - old
        self._average = {name: value.clone() for name, value in network.state_dict().items()}

    def update(self) -> None:
        """Take in what the network has now."""
        move_towards(self._average, self._network.state_dict(), self._share)

    def restore(self, average: dict[str, Tensor]) -> None:
        """Go on from another average."""
        for name, value in self._average.items():
            value.copy_(average[name])

    @contextmanager
    def kept(self) -> Iterator[dict[str, Tensor]]:
        """Give the network the average for as long as this lasts; yields what it learns with."""
        own = {name: value.clone() for name, value in self._network.state_dict().items()}
        self._network.load_state_dict(self._average)
        try:
            yield own
        finally:
            self._network.load_state_dict(own)
