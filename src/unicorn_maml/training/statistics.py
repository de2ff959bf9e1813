"""What batch normalisation expects of images, made to fit those of tasks.

A pre-trained network has seen crops with black borders and turned images, so its running averages
are not those of whole, upright ones. An inner loop normalises by the images of a task, and that
network's features are worse for it, by several points. Here the running averages become those of
given images, and scales and shifts absorb the difference: the function of the network stays the
same, and the inner loop now begins with it.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from unicorn_maml.methods.features import frozen_features
from unicorn_maml.settings import Precision

__all__ = ["match_statistics"]


@torch.no_grad()
def match_statistics(
    backbone: nn.Module, batches: Iterable[Tensor], precision: Precision = "float32"
) -> None:
    """Make the running averages those of batches of images (B, C, H, W), at the same function."""
    moments = {layer: _Moments() for layer in backbone.modules() if isinstance(layer, _BatchNorm)}
    hooks = [layer.register_forward_pre_hook(kept.add) for layer, kept in moments.items()]
    training = backbone.training
    try:
        for images in batches:
            frozen_features(backbone, images, precision)
    finally:
        backbone.train(training)
        for hook in hooks:
            hook.remove()
    for layer, kept in moments.items():
        _move(layer, *kept.mean_and_variance())


class _Moments:
    """Collects mean and mean square of what a layer is given, channel by channel."""

    def __init__(self) -> None:
        self.count = 0
        self.sums: Tensor | float = 0.0  # (2, C)

    def add(self, _: nn.Module, inputs: tuple[Tensor]) -> None:
        values = inputs[0].transpose(0, 1).flatten(1)  # (C, n)
        values = values.to(torch.promote_types(values.dtype, torch.float32))
        variance, mean = torch.var_mean(values, 1, correction=0)
        variance, mean = variance.double(), mean.double()
        self.count += values.shape[1]
        self.sums = self.sums + values.shape[1] * torch.stack([mean, variance + mean**2])

    def mean_and_variance(self) -> tuple[Tensor, Tensor]:
        assert isinstance(self.sums, Tensor), "no images"
        mean, square = self.sums / self.count
        return mean, square - mean**2


def _move(layer: _BatchNorm, mean: Tensor, variance: Tensor) -> None:
    """Give a layer other running averages, at the same function."""
    assert layer.running_mean is not None
    assert layer.running_var is not None
    old = (layer.running_var.double() + layer.eps).sqrt()
    shift = (mean - layer.running_mean) / old * layer.weight
    layer.weight.mul_((variance + layer.eps).sqrt() / old)
    layer.bias.add_(shift)
    layer.running_mean.copy_(mean)
    layer.running_var.copy_(variance)
