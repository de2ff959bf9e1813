"""The three conventions by which the field turns the last feature map into a vector.

A checkpoint of one convention loads into a network of another without an error and means something
else, so the convention is part of a checkpoint's description.
"""

from torch import Tensor

from unicorn_maml.settings import Pooling

__all__ = ["feature_width", "pool_features"]


def pool_features(maps: Tensor, pooling: Pooling) -> Tensor:
    """Feature maps (B, T * C, h, w) -> features (B, T * D)."""
    if pooling == "average":
        return maps.mean((2, 3))
    if pooling == "max":
        return maps.amax((2, 3))
    return maps.flatten(1)


def feature_width(channels: int, side: int, pooling: Pooling) -> int:
    """Width D of the features that `pool_features` makes of maps with this side."""
    return channels * side * side if pooling == "flatten" else channels
