"""DropBlock: dropout that blanks squares of a feature map instead of single values."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["DropBlock"]

_RAMP_CALLS = 40_000


class DropBlock(nn.Module):
    """Blanks `block_size` squares, with a rate that grows from 0 to `drop_rate` over 40,000 calls.

    The call counter is a buffer: it is saved with the weights and goes on where it stopped. It
    counts the passes of pre-training only: copies of a network that adapt to tasks do not move it.
    """

    calls: Tensor

    def __init__(self, drop_rate: float = 0.1, block_size: int = 5):
        super().__init__()
        self.drop_rate, self.block_size = drop_rate, block_size
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, maps: Tensor) -> Tensor:
        """Blank squares of (B, C, s, s), and scale what is kept so that the mean stays."""
        if not self.training:
            return maps
        self.calls += 1
        side = maps.shape[-1]
        block = min(self.block_size, side)
        seeds_side = side - block + 1
        dropped = (self.drop_rate * self.calls / _RAMP_CALLS).clamp(max=self.drop_rate)
        seed_rate = dropped / block**2 * side**2 / seeds_side**2
        shape = (*maps.shape[:2], seeds_side, seeds_side)
        seeds = (torch.rand(shape, device=maps.device) < seed_rate).to(maps.dtype)
        kept = 1 - blanked_squares(seeds, block)
        return maps * kept * (kept.numel() / kept.sum().clamp(min=1))


def blanked_squares(seeds: Tensor, block: int) -> Tensor:
    """Seeds (B, C, s-b+1, s-b+1) -> a map (B, C, s, s) with the b x b square of every seed set.

    Max-pooling dilates all seeds at once. The widely copied code pairs lists of seeds and of
    offsets instead, and misses most pairs whenever the number of seeds is a multiple of b.
    """
    return F.max_pool2d(F.pad(seeds, [block - 1] * 4), block, stride=1)
