"""Heads: from what a linear classifier starts in every task.

A head, called with a number of ways N, gives the first weights `(N, D)` and biases `(N,)` of a
task. What it gives is differentiable, so meta-gradients reach its parameters.
"""

import torch
from torch import Tensor, nn

from unicorn_maml.errors import UsageError
from unicorn_maml.settings import HeadKind

__all__ = ["AverageHead", "Head", "PerSlotHead", "SharedHead", "ZeroHead", "build_head"]


class Head(nn.Module):
    """The common contract: `head(way)` -> weights (way, D), biases (way,)."""

    def forward(self, way: int) -> tuple[Tensor, Tensor]:
        """Return the first weights and biases of a task."""
        raise NotImplementedError


class PerSlotHead(Head):
    """MAML: weights of its own for every slot, so it matters which class gets which slot."""

    def __init__(self, feature_width: int, way: int):
        super().__init__()
        first = nn.Linear(feature_width, way)  # for its customary initialisation
        self.weight, self.bias = first.weight, first.bias

    def forward(self, way: int) -> tuple[Tensor, Tensor]:
        """Return the first weights and biases of a task."""
        if way != len(self.bias):
            raise UsageError(
                f"This head has weights for {len(self.bias)} slots and cannot serve {way}-way "
                "tasks; use the head `average` or `zero`, or a UNICORN-MAML checkpoint."
            )
        return self.weight, self.bias


class SharedHead(Head):
    """UNICORN-MAML: one vector and one bias, duplicated to all slots.

    Autograd sums the gradients of the copies. The vector provably changes nothing: it adds the
    same number to all logits of an image, which softmax ignores. So this is a ZeroHead, up to
    rounding.
    """

    def __init__(self, feature_width: int):
        super().__init__()
        first = nn.Linear(feature_width, 1)
        self.weight, self.bias = first.weight, first.bias

    def forward(self, way: int) -> tuple[Tensor, Tensor]:
        """Return the first weights and biases of a task."""
        return self.weight.expand(way, -1), self.bias.expand(way)


class AverageHead(PerSlotHead):
    """A learned per-slot head whose slots all start from the mean of its slots."""

    def forward(self, way: int) -> tuple[Tensor, Tensor]:
        """Return the first weights and biases of a task."""
        return self.weight.mean(0).expand(way, -1), self.bias.mean().expand(way)


class ZeroHead(Head):
    """Every task starts from zeros; nothing to learn."""

    origin: Tensor

    def __init__(self, feature_width: int):
        super().__init__()
        # A buffer only so that the zeros live where the rest of the model lives.
        self.register_buffer("origin", torch.zeros(feature_width), persistent=False)

    def forward(self, way: int) -> tuple[Tensor, Tensor]:
        """Return the first weights and biases of a task."""
        return self.origin.expand(way, -1), self.origin[:1].expand(way)


def build_head(kind: HeadKind, *, feature_width: int, way: int) -> Head:
    """Make a fresh head; `way` is the number of slots of the heads that have slots."""
    if kind == "per-slot":
        return PerSlotHead(feature_width, way)
    if kind == "average":
        return AverageHead(feature_width, way)
    if kind in ("shared", "zero"):
        return SharedHead(feature_width) if kind == "shared" else ZeroHead(feature_width)
    raise ValueError(f"{kind} is no head to start an inner loop from")
