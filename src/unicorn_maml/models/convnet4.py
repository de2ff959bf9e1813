"""ConvNet-4, the small backbone of the few-shot literature.

T independent copies of a convolutional network are one network that is T times wider, with T groups
in every convolution and ordinary batch normalisation: channels `t * C .. (t + 1) * C - 1` belong to
copy t throughout. So `tasks` is the only thing that tells one network from T of them.
"""

import torch
from torch import Tensor, nn

from unicorn_maml.errors import UsageError
from unicorn_maml.models.pooling import feature_width, pool_features
from unicorn_maml.settings import Pooling

__all__ = ["ConvNet4"]

_BLOCKS = 4


class ConvNet4(nn.Module):
    """Four times `conv3x3 -> batch norm -> relu -> max-pool 2`, with `width` channels.

    Maps images (B, tasks * channels, size, size) to features (B, tasks * feature_width).
    """

    def __init__(
        self,
        *,
        channels: int = 3,
        size: int = 84,
        width: int = 64,
        pooling: Pooling = "average",
        tasks: int = 1,
    ):
        super().__init__()
        side = size // 2**_BLOCKS
        if side < 1:
            raise UsageError(f"ConvNet-4 needs images of at least 16x16 pixels, not {size}x{size}.")
        self.channels, self.size, self.width, self.pooling = channels, size, width, pooling
        self.feature_width = feature_width(width, side, pooling)
        inputs = [channels] + [width] * (_BLOCKS - 1)
        self.blocks = nn.Sequential(*(_block(tasks, count, width) for count in inputs))

    def forward(self, images: Tensor) -> Tensor:
        """Images -> features."""
        return pool_features(self.blocks(images), self.pooling)

    def widen(self, tasks: int) -> "ConvNet4":
        """Return the architecture of `tasks` copies of this network, without weights."""
        with torch.device("meta"):
            return ConvNet4(
                channels=self.channels,
                size=self.size,
                width=self.width,
                pooling=self.pooling,
                tasks=tasks,
            )


def _block(tasks: int, inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(tasks * inputs, tasks * outputs, 3, padding=1, groups=tasks),
        nn.BatchNorm2d(tasks * outputs),
        nn.MaxPool2d(2),  # before relu: the same function, since relu is monotone, at a quarter of
        nn.ReLU(inplace=True),  # the work
    )
