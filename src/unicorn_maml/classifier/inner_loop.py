"""Which inner loop a classifier takes where its user leaves that open."""

import time
from typing import Literal

import torch
from torch import Tensor

from unicorn_maml.classifier.model import PhotoModel
from unicorn_maml.errors import UsageError
from unicorn_maml.methods.features import frozen_features
from unicorn_maml.settings import AdaptationSettings, Normalization, PhotoSettings

__all__ = ["choose_adapt", "inner_loop_of"]

_LONGEST_SECONDS = 20.0
_PASSES_OF_A_STEP = 3  # a step costs about as much as three forward passes
_TIMED_IMAGES = 8

# For backbones that were never meta-trained, in units of 1 / (|z|^2 + 1), the mean over the support
# features and the bias's input: below 4 of them gradient descent on a softmax head cannot diverge.
# Many photos bear more steps of the head: ten per photo of a class, within these bounds. Chosen on
# validation classes, see docs/results.md.
_RATE = 3.0
_FEWEST_HEAD_STEPS, _STEPS_PER_PHOTO, _MOST_HEAD_STEPS = 100, 10, 200
_ALL_STEPS = 10


def choose_adapt(
    asked: PhotoSettings, model: PhotoModel, images: Tensor
) -> tuple[Literal["all", "head"], str | None]:
    """Return what adapts to support images (S, C, H, W), and, where it is worth a word, why."""
    if asked.adapt == "all" and "timm" in model.architecture:
        raise UsageError('Models of timm keep their features; choose adapt="head".')
    if asked.adapt != "auto":
        return asked.adapt, None
    if model.inner_loop is None:  # see docs/results.md: only meta-training makes it worth it
        return "head", None
    if model.inner_loop.adapt == "head":
        return "head", None
    steps = model.inner_loop.inner_steps if asked.inner_steps is None else asked.inner_steps
    seconds = _estimate_seconds(model, images, steps)
    if seconds <= _LONGEST_SECONDS:
        return "all", None
    return "head", (
        f"The head adapts alone, because adapting all parameters would take about {seconds:.0f} s "
        'on this machine; adapt="all" does it nevertheless.'
    )


@torch.no_grad()
def _estimate_seconds(model: PhotoModel, images: Tensor, steps: int) -> float:
    few = images[:_TIMED_IMAGES]
    frozen_features(model.backbone, few, "float32").sum().item()  # the first pass is slower
    started = time.perf_counter()
    frozen_features(model.backbone, few, "float32").sum().item()
    seconds = (time.perf_counter() - started) * len(images) / len(few)
    return seconds * steps * _PASSES_OF_A_STEP


def inner_loop_of(
    asked: PhotoSettings,
    adapt: Literal["all", "head"],
    model: PhotoModel,
    features: Tensor,
    way: int,
) -> AdaptationSettings:
    """Return the settings that were asked for, completed by those of the model.

    `features` (S, D) are those of the support images of `way` classes before adaptation.
    """
    trained = model.inner_loop
    normalization: Normalization
    if trained is not None and trained.adapt == adapt:
        steps, rate = trained.inner_steps, trained.inner_lr
        # A photo's answer must not depend on the photos beside it.
        normalization = "support" if trained.normalization == "batch" else trained.normalization
    else:
        steps = _STEPS_PER_PHOTO * len(features) // way
        steps = max(_FEWEST_HEAD_STEPS, min(steps, _MOST_HEAD_STEPS))
        steps = _ALL_STEPS if adapt == "all" else steps
        rate = _RATE / (float(features.square().sum(1).mean()) + 1)
        normalization = "frozen"
    return AdaptationSettings(
        inner_steps=steps if asked.inner_steps is None else asked.inner_steps,
        inner_lr=rate if asked.inner_lr is None else asked.inner_lr,
        adapt=adapt,
        normalization=asked.normalization or normalization,
    )
