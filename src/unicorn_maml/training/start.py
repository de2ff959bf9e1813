"""What both kinds of training begin with: a backbone, its weights, and the pixels that it sees."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from unicorn_maml.data.store import ImageStore
from unicorn_maml.models.build import BackboneSpec
from unicorn_maml.settings import PretrainSettings, TrainSettings
from unicorn_maml.training.checkpoint import Checkpoint, load_backbone

__all__ = ["Pixels", "backbone_spec", "drawing_from", "epoch_seed", "first_weights"]

Pixels = tuple[tuple[float, ...], tuple[float, ...]]  # mean and deviation per channel


def backbone_spec(settings: TrainSettings | PretrainSettings, store: ImageStore) -> BackboneSpec:
    """Describe the backbone of a run on a store."""
    return BackboneSpec(
        backbone=settings.backbone,
        width=settings.width if settings.backbone == "convnet4" else None,
        pooling=settings.pooling,
        channels=store.channels,
        size=store.size,
        sum_slope=settings.sum_slope,
    )


def first_weights(
    settings: TrainSettings | PretrainSettings,
    backbone: nn.Module,
    spec: BackboneSpec,
    store: ImageStore,
    begun: Checkpoint | None,
) -> Pixels:
    """Give a backbone the weights of --init, and return the moments of the pixels that it sees.

    A run that goes on where it stopped has the moments from there, and its weights will come from
    there too; what it was made of need not be there any more.
    """
    source: Checkpoint | ImageStore = store
    if begun:
        source = begun
    elif settings.init is not None:
        source = load_backbone(settings.init, backbone, spec)
    return source.pixel_mean, source.pixel_std


def epoch_seed(seed: int, epoch: int) -> int:
    """Of what an epoch draws at random: the same whether or not the run was interrupted."""
    return (seed * 100_003 + epoch) % 2**63


@contextmanager
def drawing_from(seed: int, device: torch.device) -> Iterator[None]:
    """Draw random numbers by a seed within the block; those of the caller go on after it."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
