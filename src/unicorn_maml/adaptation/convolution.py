"""The convolutions of T tasks, each with its own weights: where nearly all of the arithmetic is."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["TaskConv2d", "replace_convolutions", "task_convolution"]


def task_convolution(
    maps: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    stride: tuple[int, int],
    padding: tuple[int, int] | str,
    dilation: tuple[int, int],
    groups: int,
) -> Tensor:
    """Maps (B, T * C, H, W) with weights (T * O, C / g, k, k) and groups T * g -> (B, T * O, H, W).

    Every convolution of the engine, and by autograd its two backward ones, goes through here, so a
    kernel of our own has this one function to replace.
    """
    return F.conv2d(maps, weight, bias, stride, padding, dilation, groups)


class TaskConv2d(nn.Module):
    """Stands in for a convolution layer, with the same parameters."""

    def __init__(self, layer: nn.Conv2d):
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self.shape: dict[str, Any] = {
            "stride": layer.stride,
            "padding": layer.padding,
            "dilation": layer.dilation,
            "groups": layer.groups,
        }

    def forward(self, maps: Tensor) -> Tensor:
        """Convolve (B, T * C, H, W)."""
        return self.convolve(maps, self.weight, self.bias)

    def convolve(self, maps: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Convolve with other values."""
        return task_convolution(maps, weight, bias, **self.shape)


def replace_convolutions(module: nn.Module) -> None:
    """Put a stand-in in the place of every plain convolution layer."""
    for name, layer in list(module.named_modules()):
        if type(layer) is nn.Conv2d and layer.padding_mode == "zeros":
            parent, _, attribute = name.rpartition(".")
            setattr(module.get_submodule(parent), attribute, TaskConv2d(layer))
