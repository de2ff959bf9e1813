"""Distillation: what a network that was trained before says of the images of base classes.

A class is not equally unlike all others. The teacher says how near an image is to the centroid of
every base class; a student that has to agree learns features that carry over to new classes better
(Furlanello et al., "Born-Again Neural Networks", ICML 2018; Tian et al., "Rethinking Few-Shot Image
Classification", ECCV 2020). It also has features, which say more than the base classes do.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unicorn_maml.data.batches import normaliser
from unicorn_maml.data.store import ImageStore
from unicorn_maml.devices import can_compile
from unicorn_maml.errors import UsageError
from unicorn_maml.methods.features import frozen_features
from unicorn_maml.settings import Precision
from unicorn_maml.training.checkpoint import Checkpoint

__all__ = ["Lesson", "Teacher"]

_BATCH = 512
_TEMPERATURE = 0.05  # of cosines: on MiniImageNet leaves an image's own class about one half


@dataclass(frozen=True)
class Lesson:
    """What a teacher says of B images."""

    soft_labels: Tensor  # (B, classes): nearness to the centroids of the base classes, by cosine
    directions: Tensor  # (B, D), of length 1: where features lie, seen from their mean


class Teacher:
    """A backbone that has seen all images of the base classes."""

    def __init__(
        self, checkpoint: Checkpoint, store: ImageStore, precision: Precision, device: torch.device
    ):
        taken = checkpoint.spec.features
        if (taken.size, taken.channels) != (store.size, store.channels):
            raise UsageError(
                f"The teacher {checkpoint.name} takes {taken.size}x{taken.size} images with "
                f"{taken.channels} channels, but the store has {store.size}x{store.size} with "
                f"{store.channels}; choose another --teacher."
            )
        backbone = checkpoint.method().backbone.to(device).requires_grad_(False).eval()
        backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if can_compile(device):
            backbone.compile(dynamic=False)
        self.feature_width: int = backbone.feature_width  # type: ignore[assignment]
        self._backbone = backbone
        self._normalise = normaliser(checkpoint.pixel_mean, checkpoint.pixel_std, device)
        self._precision = precision
        self._centroids: Tensor | None = None  # (classes, D), of length 1
        self._mean: Tensor | None = None  # (D,)

    @torch.no_grad()
    def see(self, load: Callable[[Tensor], Tensor], labels: Tensor) -> None:
        """Find the centroids of all classes; `load` turns rows into images with values in 0..1."""
        parts = torch.split(torch.arange(len(labels)), _BATCH)
        features = torch.cat([self._features(load(rows)) for rows in parts])
        members = F.one_hot(labels).float()  # (n, classes)
        self._centroids = F.normalize(members.T @ features, dim=1)
        self._mean = features.mean(0)

    @torch.no_grad()
    def teach(self, images: Tensor) -> Lesson:
        """Say what there is to say of images (B, C, H, W) with values in 0..1."""
        assert self._centroids is not None, "the base classes are not known yet"
        assert self._mean is not None
        features = self._features(images)
        cosines = F.normalize(features, dim=1) @ self._centroids.T
        return Lesson(
            soft_labels=F.softmax(cosines / _TEMPERATURE, dim=1),
            directions=F.normalize(features - self._mean, dim=1),
        )

    def _features(self, images: Tensor) -> Tensor:
        return frozen_features(self._backbone, self._normalise(images), self._precision)
