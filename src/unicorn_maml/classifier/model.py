"""What a classifier starts from: a checkpoint, or a model of timm with its classifier removed."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from unicorn_maml.data.decode import Preprocessing
from unicorn_maml.errors import UnicornError, UsageError
from unicorn_maml.methods.maml import MAML
from unicorn_maml.models.build import BackboneSpec, build_backbone
from unicorn_maml.models.heads import Head, ZeroHead
from unicorn_maml.settings import AdaptationSettings, TrainSettings
from unicorn_maml.training.checkpoint import load_checkpoint

__all__ = ["PhotoModel", "build_photo_backbone", "open_model"]

_TIMM = "timm/"


@dataclass(frozen=True)
class PhotoModel:
    """A trained backbone, how it sees photos, and how it adapts."""

    backbone: nn.Module
    architecture: dict[str, Any]  # what `build_photo_backbone` needs
    head: Head  # that adaptation starts from
    preprocessing: Preprocessing
    pixel_mean: tuple[float, ...]
    pixel_std: tuple[float, ...]
    inner_loop: AdaptationSettings | None  # of meta-training, if there was any


def open_model(name: str) -> PhotoModel:
    """Open a checkpoint by its name or folder, or `timm/NAME` with the weights that timm has."""
    if name.startswith(_TIMM):
        return _open_timm(name.removeprefix(_TIMM))
    checkpoint = load_checkpoint(name)
    meta_trained = isinstance(checkpoint.settings, TrainSettings)
    # Slots start alike, so that it does not matter which class gets which, nor how many there are.
    head = {"maml": "average", "unicorn": "shared", "pretrained": "zero"}[checkpoint.spec.method]
    method = checkpoint.method(head=head)  # type: ignore[arg-type]
    assert isinstance(method, MAML)
    seen = checkpoint.spec.features
    return PhotoModel(
        backbone=method.backbone,
        architecture=vars(seen),
        head=method.head,
        preprocessing=Preprocessing(seen.size, seen.channels, "bilinear"),
        pixel_mean=checkpoint.pixel_mean,
        pixel_std=checkpoint.pixel_std,
        inner_loop=checkpoint.settings.adaptation if meta_trained else None,
    )


def build_photo_backbone(architecture: dict[str, Any]) -> nn.Module:
    """Build a backbone without its weights, from the record of a saved classifier."""
    if "timm" in architecture:
        if ":" in architecture["timm"]:  # timm would look such a name up in a network
            raise UsageError(f"{architecture['timm']!r} is no name of a model of timm.")
        backbone: nn.Module = _create_timm(architecture["timm"], pretrained=False)
        return backbone
    return build_backbone(BackboneSpec(**architecture))


def _open_timm(name: str) -> PhotoModel:
    backbone = _create_timm(name, pretrained=True)
    seen = backbone.pretrained_cfg
    channels, size, _ = seen["input_size"]
    return PhotoModel(
        backbone=backbone,
        architecture={"timm": name},
        head=ZeroHead(backbone.num_features),
        preprocessing=Preprocessing(size, channels, "bicubic"),
        pixel_mean=tuple(seen["mean"]),
        pixel_std=tuple(seen["std"]),
        inner_loop=None,
    )


def _create_timm(name: str, *, pretrained: bool) -> Any:
    try:
        import timm
    except ImportError as error:
        raise UsageError(
            f"The model timm/{name} needs the package timm ({error}); install it with "
            "`pip install -e '.[timm]'` in the project's folder."
        ) from error
    try:
        return timm.create_model(name, pretrained=pretrained, num_classes=0)
    except RuntimeError as error:
        raise UsageError(f"timm has no model {name!r}; see timm.list_models().") from error
    except Exception as error:  # of its download: many kinds, which change with its versions
        raise UnicornError(
            f"timm could not fetch the weights of {name!r} ({type(error).__name__}); connect to a "
            "network for the first use, or take a model that `unicorn-maml models` lists."
        ) from error
