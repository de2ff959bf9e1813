"""From photos and their slots to an adapted network."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unicorn_maml.adaptation.engine import adapt, refuse_divergence
from unicorn_maml.adaptation.head_only import adapt_head
from unicorn_maml.classifier.inner_loop import choose_adapt, inner_loop_of
from unicorn_maml.classifier.model import PhotoModel, open_model
from unicorn_maml.classifier.network import AdaptedNetwork, normalised, with_fixed_statistics
from unicorn_maml.data.photos import name_of_photo, pixels_of_photos
from unicorn_maml.devices import choose_device
from unicorn_maml.errors import DivergedError, UsageError
from unicorn_maml.methods.features import frozen_features
from unicorn_maml.settings import AdaptationSettings, PhotoSettings

__all__ = ["Fitted", "OnInnerStep", "SupportSet", "adapt_to_photos", "prepare_support"]

# Called with m = 0..M and the probabilities (photos, classes) of the support photos after m steps.
OnInnerStep = Callable[[int, NDArray[np.float64]], None]

_AT_ONCE = 64


@dataclass(frozen=True)
class SupportSet:
    """Photos that are ready to adapt to, and the inner loop that is to be taken."""

    model: PhotoModel
    images: Tensor  # (S, C, H, W)
    features: Tensor  # (S, D), of the backbone before adaptation
    slots: Tensor  # (S,)
    inner_loop: AdaptationSettings
    note: str | None

    @property
    def way(self) -> int:
        """How many classes there are."""
        return int(self.slots.max()) + 1


@dataclass(frozen=True)
class Fitted:
    """An adapted network and how it came about."""

    network: AdaptedNetwork
    inner_loop: AdaptationSettings
    note: str | None


def prepare_support(photos: Any, slots: NDArray[np.int64], asked: PhotoSettings) -> SupportSet:
    """Read the photos and choose the inner loop."""
    model = open_model(asked.model)
    device = choose_device(asked.device)
    model.backbone.to(device)
    model.head.to(device)
    pixels = pixels_of_photos(photos, model.preprocessing)
    _refuse_twins(photos, pixels, slots)
    images = normalised(pixels, model.pixel_mean, model.pixel_std, device)
    what, note = choose_adapt(asked, model, images)
    with torch.no_grad():
        parts = (images[i : i + _AT_ONCE] for i in range(0, len(images), _AT_ONCE))
        features = torch.cat([frozen_features(model.backbone, part, "float32") for part in parts])
    inner_loop = inner_loop_of(asked, what, model, features, way=int(slots.max()) + 1)
    return SupportSet(model, images, features, torch.from_numpy(slots).to(device), inner_loop, note)


def adapt_to_photos(
    photos: Any,
    slots: NDArray[np.int64],
    asked: PhotoSettings,
    on_step: OnInnerStep | None = None,
) -> Fitted:
    """Adapt the model that was asked for to photos whose classes are slots 0..way-1."""
    support = prepare_support(photos, slots, asked)
    model = support.model
    head = model.head(support.way)

    def tell(step: int, logits: Tensor) -> None:
        assert on_step is not None
        on_step(step, logits[0].double().softmax(-1).cpu().numpy())

    with torch.no_grad():
        if support.inner_loop.keeps_features:
            weight, bias = adapt_head(
                head,
                support.features[None],
                support.slots[None],
                support.inner_loop,
                on_step=tell if on_step else None,
            )
            network = AdaptedNetwork(
                model.backbone,
                model.architecture,
                weight[0],
                bias[0],
                model.preprocessing,
                model.pixel_mean,
                model.pixel_std,
            )
        else:
            images = support.images[None]
            adapted = adapt(
                model.backbone,
                head,
                images,
                support.slots[None],
                support.inner_loop,
                on_step=(lambda m, task: tell(m, task.logits(images))) if on_step else None,
            )
            refuse_divergence(adapted.support_losses, support.inner_loop)
            network = with_fixed_statistics(adapted, model)
    values = [network.weight, network.bias, *network.backbone.state_dict().values()]
    if not all(value.isfinite().all() for value in values):
        raise DivergedError(
            "The network is not finite after the inner loop; try a smaller inner learning rate, "
            f"such as {support.inner_loop.inner_lr / 10:g}."
        )
    return Fitted(network, support.inner_loop, support.note)


def _refuse_twins(photos: Any, pixels: NDArray[np.uint8], slots: NDArray[np.int64]) -> None:
    """Refuse a photo that is in two classes: no classifier can learn from that."""
    seen: dict[bytes, int] = {}
    for number, image in enumerate(pixels):
        digest = hashlib.blake2b(image.tobytes(), digest_size=16).digest()
        first = seen.setdefault(digest, number)
        if slots[first] != slots[number]:
            raise UsageError(
                f"The same photo is in two classes (photos {first} and {number}: "
                f"{name_of_photo(photos[first])} and {name_of_photo(photos[number])}); keep one."
            )
