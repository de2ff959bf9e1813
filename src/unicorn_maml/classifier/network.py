"""An adapted network as an ordinary one: from the pixels of a photo to the logits of its classes.

Its batch-norm statistics are fixed, so a photo's logits do not depend on the photos beside it.
"""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from unicorn_maml.adaptation.engine import AdaptedTasks
from unicorn_maml.adaptation.passes import HEAD, HEAD_BIAS, HEAD_WEIGHT
from unicorn_maml.classifier.model import PhotoModel
from unicorn_maml.data.batches import normaliser
from unicorn_maml.data.decode import Preprocessing
from unicorn_maml.methods.features import frozen_features

__all__ = ["AdaptedNetwork", "normalised", "with_fixed_statistics"]

_AT_ONCE = 64


@dataclass(frozen=True)
class AdaptedNetwork:
    """A backbone and a linear head."""

    backbone: nn.Module
    architecture: dict[str, Any]
    weight: Tensor  # (N, D)
    bias: Tensor  # (N,)
    preprocessing: Preprocessing
    pixel_mean: tuple[float, ...]
    pixel_std: tuple[float, ...]

    def logits(self, pixels: NDArray[np.uint8]) -> Tensor:
        """Pixels (n, H, W, C) -> logits (n, N), on the CPU."""
        return self.logits_of(self.features(pixels)).cpu()

    @torch.no_grad()
    def features(self, pixels: NDArray[np.uint8]) -> Tensor:
        """Pixels (n, H, W, C) -> features (n, D)."""
        found = []
        for start in range(0, len(pixels), _AT_ONCE):
            part = pixels[start : start + _AT_ONCE]
            images = normalised(part, self.pixel_mean, self.pixel_std, self.weight.device)
            found.append(frozen_features(self.backbone, images, "float32"))
        return torch.cat(found)

    def logits_of(self, features: Tensor) -> Tensor:
        """Features (n, D) -> logits (n, N)."""
        return features @ self.weight.T + self.bias


def normalised(
    pixels: NDArray[np.uint8],
    mean: tuple[float, ...],
    std: tuple[float, ...],
    device: torch.device,
) -> Tensor:
    """Pixels (n, H, W, C) -> images (n, C, H, W) as the backbone was trained on."""
    images = torch.from_numpy(pixels).to(device).permute(0, 3, 1, 2).float() / 255
    return normaliser(mean, std, device)(images)


@torch.no_grad()
def with_fixed_statistics(adapted: AdaptedTasks, model: PhotoModel) -> AdaptedNetwork:
    """Make an ordinary network of one adapted task.

    What normalises queries becomes the running averages: under `mixed` and `frozen` they are that
    already, under `support` they are measured on the support set.
    """
    backbone = copy.deepcopy(model.backbone)
    values = {name: value for name, value in adapted.values.items() if name not in HEAD}
    backbone.load_state_dict({**backbone.state_dict(), **values, **adapted.statistics})
    if adapted.settings.normalization == "support":
        _measure_statistics(backbone, adapted.support_images[0])
    return AdaptedNetwork(
        backbone.eval(),
        model.architecture,
        adapted.values[HEAD_WEIGHT].detach(),
        adapted.values[HEAD_BIAS].detach(),
        model.preprocessing,
        model.pixel_mean,
        model.pixel_std,
    )


def _measure_statistics(backbone: nn.Module, images: Tensor) -> None:
    """Make the moments of these images the running averages of all batch-norm layers."""

    def measure(layer: nn.Module, inputs: tuple[Tensor]) -> None:
        assert isinstance(layer, _BatchNorm)
        assert layer.running_mean is not None
        assert layer.running_var is not None
        axes = [axis for axis in range(inputs[0].dim()) if axis != 1]
        layer.running_mean.copy_(inputs[0].mean(axes))
        layer.running_var.copy_(inputs[0].var(axes, correction=0))

    layers = [layer for layer in backbone.modules() if isinstance(layer, _BatchNorm)]
    # Each layer is measured just before it normalises, so that the next one sees the right input.
    hooks = [layer.register_forward_pre_hook(measure) for layer in layers]
    backbone.eval()(images)
    for hook in hooks:
        hook.remove()
