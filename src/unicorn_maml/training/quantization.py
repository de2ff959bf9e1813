"""Weights in 8 bits, for checkpoints that travel.

Every output channel of a matrix or convolution becomes integers from -127 to 127 and one float
scale: a quarter of the size. Vectors (biases, norms, running averages) stay as they are.
"""

import torch
from torch import Tensor

__all__ = ["decode", "encode"]

_SCALE = ".scale"


def encode(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Float tensors with two or more axes become int8, with `<name>.scale` (out,) beside them."""
    encoded = {}
    for name, value in weights.items():
        if value.dim() < 2 or not value.is_floating_point():
            encoded[name] = value
            continue
        scale = (value.detach().flatten(1).abs().amax(1) / 127).clamp(min=1e-12).float()
        steps = value.detach() / _per_channel(scale, value)
        encoded[name] = steps.round().clamp(-127, 127).to(torch.int8)
        encoded[name + _SCALE] = scale
    return encoded


def decode(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Undo `encode`, up to rounding; weights that are not in 8 bits pass through."""
    return {
        name: value.float() * _per_channel(tensors[name + _SCALE], value)
        if value.dtype == torch.int8
        else value
        for name, value in tensors.items()
        if not name.endswith(_SCALE)
    }


def _per_channel(scale: Tensor, value: Tensor) -> Tensor:
    return scale.view(-1, *[1] * (value.dim() - 1))
