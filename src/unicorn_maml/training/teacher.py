"""Self-distillation: soft labels from a network that was trained before.

A class is not equally unlike all others. The teacher says how near an image is to the centroid of
every base class; a student that has to agree learns features that carry over to new classes better
(Furlanello et al., "Born-Again Neural Networks", ICML 2018; Tian et al., "Rethinking Few-Shot Image
Classification", ECCV 2020).
"""

from collections.abc import Callable

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

__all__ = ["Teacher"]

_BATCH = 512
_TEMPERATURE = 0.05  # of cosines: on MiniImageNet leaves an image's own class about one half


class Teacher:
    """Nearest centroid among the base classes, by cosine, as a soft label."""

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
        self._backbone = backbone
        self._normalise = normaliser(checkpoint.pixel_mean, checkpoint.pixel_std, device)
        self._precision = precision
        self._directions: Tensor | None = None  # (classes, D), of length 1

    @torch.no_grad()
    def see(self, load: Callable[[Tensor], Tensor], labels: Tensor) -> None:
        """Find the centroids of all classes; `load` turns rows into images with values in 0..1."""
        features = [
            self._features(load(rows)) for rows in torch.split(torch.arange(len(labels)), _BATCH)
        ]
        members = F.one_hot(labels).float()  # (n, classes)
        self._directions = F.normalize(members.T @ torch.cat(features), dim=1)

    @torch.no_grad()
    def soft_labels(self, images: Tensor) -> Tensor:
        """Images (B, C, H, W) with values in 0..1 -> shares of the classes (B, classes)."""
        assert self._directions is not None, "the centroids are not known yet"
        cosines = F.normalize(self._features(images), dim=1) @ self._directions.T
        return F.softmax(cosines / _TEMPERATURE, dim=1)

    def _features(self, images: Tensor) -> Tensor:
        return frozen_features(self._backbone, self._normalise(images), self._precision)
