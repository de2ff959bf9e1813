"""How much arithmetic a backbone needs."""

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

__all__ = ["forward_flops"]


def forward_flops(backbone: nn.Module, channels: int, size: int) -> int:
    """Floating-point operations of one forward pass of one image (a multiply-add counts as two).

    `backbone` must have `widen`. A training pass costs three times as much.
    """
    skeleton: nn.Module = backbone.widen(1).eval()  # type: ignore[operator]
    with FlopCounterMode(display=False) as counter:
        skeleton(torch.empty(1, channels, size, size, device="meta"))
    return int(counter.get_total_flops())
