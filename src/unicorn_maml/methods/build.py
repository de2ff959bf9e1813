"""From a model's description to a method ready to train or test."""

from dataclasses import dataclass

from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.unicorn import UnicornMAML
from unicorn_maml.models.build import BackboneSpec, build_backbone
from unicorn_maml.models.heads import build_head
from unicorn_maml.settings import AdaptationSettings, HeadKind, MethodName

__all__ = ["METHODS", "ModelSpec", "build_method"]

METHODS: dict[MethodName, type[MAML]] = {"maml": MAML, "unicorn": UnicornMAML}


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """All that is needed to build a method's network."""

    method: MethodName
    way: int  # slots of a per-slot head
    features: BackboneSpec


def build_method(
    spec: ModelSpec, adaptation: AdaptationSettings, *, head: HeadKind | None = None
) -> MAML:
    """Make a fresh method, with the head that it is trained with or another one."""
    method = METHODS[spec.method]
    backbone = build_backbone(spec.features)
    first_head = build_head(
        head or method.trained_head, feature_width=backbone.feature_width, way=spec.way
    )
    return method(backbone, first_head, adaptation)
