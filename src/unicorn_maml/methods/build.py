"""From a model's description to a method ready to train or test."""

from dataclasses import dataclass
from typing import Literal

from unicorn_maml.checks import check_numbers, check_types
from unicorn_maml.methods.centroid import NearestCentroid
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.unicorn import UnicornMAML
from unicorn_maml.models.build import BackboneSpec, build_backbone
from unicorn_maml.models.heads import build_head
from unicorn_maml.settings import AdaptationSettings, HeadKind

__all__ = ["METHODS", "ModelSpec", "build_method"]

TrainedBy = Literal["maml", "unicorn", "pretrained"]

METHODS: dict[TrainedBy, type[MAML | NearestCentroid]] = {
    "maml": MAML,
    "unicorn": UnicornMAML,
    "pretrained": NearestCentroid,
}


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """All that is needed to build a method's network."""

    method: TrainedBy
    way: int  # slots of a per-slot head
    features: BackboneSpec

    def __post_init__(self) -> None:
        check_types(self)
        check_numbers(self, at_least={"way": 2})


def build_method(
    spec: ModelSpec, adaptation: AdaptationSettings, *, head: HeadKind | None = None
) -> MAML | NearestCentroid:
    """Make a fresh method, with the head that it is trained with or another one."""
    method = METHODS[spec.method]
    head = head or method.trained_head
    backbone = build_backbone(spec.features)
    if head in ("cosine", "euclidean"):
        return NearestCentroid(backbone, head, adaptation.precision)
    first_head = build_head(head, feature_width=backbone.feature_width, way=spec.way)
    adapting = method if issubclass(method, MAML) else MAML
    return adapting(backbone, first_head, adaptation)
