"""How much arithmetic a backbone needs, for an image and for a task."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

__all__ = ["TaskFlops", "forward_flops", "task_flops"]


def forward_flops(backbone: nn.Module, channels: int, size: int) -> int:
    """Floating-point operations of one forward pass of one image (a multiply-add counts as two).

    `backbone` must have `widen`. A training pass costs three times as much.
    """
    skeleton: nn.Module = backbone.widen(1).eval()  # type: ignore[operator]
    with FlopCounterMode(display=False) as counter:
        skeleton(torch.empty(1, channels, size, size, device="meta"))
    return int(counter.get_total_flops())


@dataclass(frozen=True)
class TaskFlops:
    """Floating-point operations of one task."""

    adaptation: int  # the inner loop
    evaluation: int  # and the prediction of the query images
    meta_training: int  # the inner loop and the query images' share of a first-order meta-gradient


def task_flops(forward: int, *, support: int, query: int, steps: int) -> TaskFlops:
    """Count a task with so many images and inner steps; `forward` is what one image takes.

    A pass with gradients is three forward passes: one forward, one for the gradients of the
    layers' inputs, one for those of their weights. The first layer's input needs no gradient but
    is counted, as is usual. Heads, losses and the outer optimiser are too small to count.
    """
    adaptation = 3 * steps * support * forward
    return TaskFlops(adaptation, adaptation + query * forward, adaptation + 3 * query * forward)
