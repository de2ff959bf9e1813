"""How well a classifier made of these photos will do: each photo is held out once."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unicorn_maml.classifier.fitting import SupportSet, prepare_support
from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.scoring import predict
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import AdaptationSettings, PhotoSettings

__all__ = ["Checked", "check_photos", "folds_of"]

_MOST_ALONE = 100  # with more photos, a tenth of them is held out together
_FOLDS = 10
_FOLDS_AT_ONCE = 32


@dataclass(frozen=True)
class Checked:
    """What held-out photos were taken for."""

    held_out: NDArray[np.int64]  # numbers of the photos that could be held out
    probabilities: NDArray[np.float64]  # (held out, N)
    folds: int
    inner_loop: AdaptationSettings
    note: str | None


def folds_of(slots: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Deal the photos into folds, each class evenly.

    The only photo of a class is in none: without it, nothing is known of its class.
    """
    counts = np.bincount(slots)
    several = np.flatnonzero(counts[slots] > 1)
    by_class = several[np.argsort(slots[several], kind="stable")]
    folds = len(several) if len(several) <= _MOST_ALONE else _FOLDS
    return [by_class[fold::folds] for fold in range(folds)]


def check_photos(
    photos: Any,
    slots: NDArray[np.int64],
    asked: PhotoSettings,
    on_progress: OnProgress | None = None,
) -> Checked:
    """Classify every photo by a classifier that was adapted to photos of other folds.

    A fold is a task: its photos are the queries, all others the support set. Many adapt at once.
    """
    support = prepare_support(photos, slots, asked)
    inner_loop = support.inner_loop
    method = MAML(support.model.backbone, support.model.head, inner_loop).eval()
    folds = folds_of(slots)
    held_out, found, done = [], [], 0
    for some in _alike(folds):
        tasks = _tasks(support, some)
        with torch.no_grad():
            fixed = inner_loop.keeps_features
            logits = method.from_features(tasks) if fixed else predict(method, tasks)
        held_out.append(np.concatenate(some))
        found.append(logits.flatten(0, 1).double().softmax(-1).cpu().numpy())
        done += len(some)
        if on_progress:
            on_progress(done, len(folds), {})
    order = np.argsort(np.concatenate(held_out))
    return Checked(
        np.concatenate(held_out)[order],
        np.concatenate(found)[order],
        len(folds),
        inner_loop,
        support.note,
    )


def _alike(folds: list[NDArray[np.int64]]) -> Iterator[list[NDArray[np.int64]]]:
    """Some folds at a time, of equal sizes, since tasks of one batch have the same shape."""
    for size in sorted({len(fold) for fold in folds}):
        same = [fold for fold in folds if len(fold) == size]
        for start in range(0, len(same), _FOLDS_AT_ONCE):
            yield same[start : start + _FOLDS_AT_ONCE]


def _tasks(support: SupportSet, folds: list[NDArray[np.int64]]) -> TaskBatch:
    inputs: Tensor = support.features if support.inner_loop.keeps_features else support.images
    everything = np.arange(len(inputs))
    rest = torch.from_numpy(np.stack([np.setdiff1d(everything, fold) for fold in folds]))
    held = torch.from_numpy(np.stack(folds))
    rest, held = rest.to(inputs.device), held.to(inputs.device)
    slots = support.slots
    return TaskBatch(inputs[rest], slots[rest], inputs[held], slots[held], support.way)
