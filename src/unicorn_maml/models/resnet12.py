"""ResNet-12, the large backbone of the few-shot literature (12.4 million parameters)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unicorn_maml.errors import UsageError
from unicorn_maml.models.dropblock import DropBlock
from unicorn_maml.models.pooling import feature_width, pool_features
from unicorn_maml.settings import Pooling

__all__ = ["ResNet12"]

_WIDTHS = (64, 160, 320, 640)
_SLOPE = 0.1
_DROP_RATE = 0.1


class ResNet12(nn.Module):
    """Four residual blocks, each of three 3x3 convolutions and halved by a max-pool.

    Maps images (B, tasks * channels, size, size) to features (B, tasks * feature_width). `tasks`
    copies are one wide network, as in ConvNet4. Drop layers act in training mode only: dropout
    after the first two blocks, DropBlock after the others. `sum_slope` is the slope of the leaky
    relu after a residual sum.
    """

    def __init__(
        self,
        *,
        channels: int = 3,
        size: int = 84,
        pooling: Pooling = "average",
        sum_slope: float = _SLOPE,
        tasks: int = 1,
    ):
        super().__init__()
        side = size // 2 ** len(_WIDTHS)
        if side < 1:
            raise UsageError(f"ResNet-12 needs images of at least 16x16 pixels, not {size}x{size}.")
        self.channels, self.size, self.pooling = channels, size, pooling
        self.sum_slope = sum_slope
        self.feature_width = feature_width(_WIDTHS[-1], side, pooling)
        block_size = 5 if size > 32 else 2
        blocks = []
        for number, (inputs, outputs) in enumerate(
            zip((channels, *_WIDTHS), _WIDTHS, strict=False)
        ):
            drop = nn.Dropout(_DROP_RATE) if number < 2 else DropBlock(_DROP_RATE, block_size)
            blocks.append(_Block(tasks, inputs, outputs, drop, sum_slope))
        self.blocks = nn.Sequential(*blocks)
        for module in self.modules():
            if isinstance(module, nn.Conv2d) and not module.weight.is_meta:
                # The leaky slope is left out of the gain, as in the networks of the literature.
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Images -> features."""
        return pool_features(self.blocks(images), self.pooling)

    def widen(self, tasks: int) -> "ResNet12":
        """Return the architecture of `tasks` copies of this network, without weights."""
        with torch.device("meta"):
            return ResNet12(
                channels=self.channels,
                size=self.size,
                pooling=self.pooling,
                sum_slope=self.sum_slope,
                tasks=tasks,
            )


class _Block(nn.Module):
    def __init__(self, tasks: int, inputs: int, outputs: int, drop: nn.Module, sum_slope: float):
        super().__init__()
        self.conv1 = _conv(tasks, inputs, outputs, 3)
        self.norm1 = nn.BatchNorm2d(tasks * outputs)
        self.conv2 = _conv(tasks, outputs, outputs, 3)
        self.norm2 = nn.BatchNorm2d(tasks * outputs)
        self.conv3 = _conv(tasks, outputs, outputs, 3)
        self.norm3 = nn.BatchNorm2d(tasks * outputs)
        self.shortcut = _conv(tasks, inputs, outputs, 1)
        self.shortcut_norm = nn.BatchNorm2d(tasks * outputs)
        self.drop, self.sum_slope = drop, sum_slope

    def forward(self, maps: Tensor) -> Tensor:
        inner = F.leaky_relu(self.norm1(self.conv1(maps)), _SLOPE)
        inner = F.leaky_relu(self.norm2(self.conv2(inner)), _SLOPE)
        inner = self.norm3(self.conv3(inner))
        summed = F.leaky_relu(inner + self.shortcut_norm(self.shortcut(maps)), self.sum_slope)
        dropped: Tensor = self.drop(F.max_pool2d(summed, 2))
        return dropped


def _conv(tasks: int, inputs: int, outputs: int, kernel: int) -> nn.Conv2d:
    return nn.Conv2d(
        tasks * inputs, tasks * outputs, kernel, padding=kernel // 2, groups=tasks, bias=False
    )
