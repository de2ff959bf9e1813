"""A model's description, as it stands in a checkpoint, and the network that it describes."""

from dataclasses import dataclass

from unicorn_maml.checks import check_types
from unicorn_maml.errors import UsageError
from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.models.resnet12 import ResNet12
from unicorn_maml.settings import Backbone, Pooling

__all__ = ["BackboneSpec", "build_backbone"]


@dataclass(frozen=True, kw_only=True)
class BackboneSpec:
    """All that is needed to build a backbone; two backbones fit each other if these are equal."""

    backbone: Backbone
    width: int | None  # of ConvNet-4; ResNet-12 has its own widths
    pooling: Pooling
    channels: int
    size: int
    sum_slope: float = 0.1  # of ResNet-12

    def __post_init__(self) -> None:
        check_types(self)
        if (self.width is None) != (self.backbone == "resnet12") or (self.width or 1) < 1:
            raise UsageError(f"A {self.backbone} cannot have the width {self.width}.")


def build_backbone(spec: BackboneSpec) -> ConvNet4 | ResNet12:
    """Make a fresh backbone."""
    if spec.backbone == "resnet12":
        return ResNet12(
            channels=spec.channels,
            size=spec.size,
            pooling=spec.pooling,
            sum_slope=spec.sum_slope,
        )
    assert spec.width is not None
    return ConvNet4(channels=spec.channels, size=spec.size, width=spec.width, pooling=spec.pooling)
