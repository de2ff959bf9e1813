"""Per-task accuracies of a method."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unicorn_maml.adaptation.pieces import run_in_pieces, workers_of
from unicorn_maml.data.batches import TaskBatch, TaskLoader
from unicorn_maml.methods.features import FeatureLoader
from unicorn_maml.methods.method import Method, Prediction, set_statistics

__all__ = [
    "accuracy_or_guess",
    "accuracy_percent",
    "iterate_accuracies",
    "iterate_feature_accuracies",
    "iterate_leaking_accuracies",
    "predict",
]

# Tasks of features that are taken together, at most; more of them gain nothing.
_FEATURE_TASKS = 256
_FEATURE_BYTES = 64 * 2**20


def accuracy_percent(logits: Tensor, labels: Tensor) -> Tensor:
    """Logits (T, Q, N), labels (T, Q) -> accuracies (T,) in percent; the first of equals wins."""
    return (logits.argmax(-1) == labels).double().mean(1) * 100


def accuracy_or_guess(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The same, but 100 / N where logits are not finite; and whether they are, (T,)."""
    finite = logits.isfinite().all(-1).all(-1)
    guess = torch.tensor(100 / logits.shape[-1], dtype=torch.double, device=logits.device)
    return torch.where(finite, accuracy_percent(logits, labels), guess), finite


def predict(method: Method, tasks: TaskBatch) -> Tensor:
    """Query logits (T, Q, N) at meta-test, of as many tasks at once as the device likes."""
    return _checked(method, _begin(method, tasks))


@torch.no_grad()
def _begin(method: Method, tasks: TaskBatch) -> list[Prediction]:
    """Predict, piece by piece; a GPU is not waited for."""
    method.eval()
    device = tasks.support_images.device
    at_once = method.tasks_at_once(tasks)
    return run_in_pieces(lambda piece: method(tasks[piece]), len(tasks), at_once, device)


def _checked(method: Method, predictions: list[Prediction]) -> Tensor:
    """Wait for the predictions and put their logits together."""
    for prediction in predictions:
        method.refuse_divergence(prediction)
    return torch.cat([prediction.logits for prediction in predictions])


def iterate_accuracies(
    method: Method, loader: TaskLoader, numbers: Sequence[int]
) -> Iterator[NDArray[np.float64]]:
    """Yield the accuracies of the tasks with these numbers, a few tasks at a time, in order."""
    if not numbers:
        return
    method.eval()
    at_once = method.tasks_at_once(loader.load(numbers[:1])) * workers_of(loader.device)
    parts = [numbers[i : i + at_once] for i in range(0, len(numbers), at_once)]
    tasks = loader.load(parts[0])
    for following in [*parts[1:], None]:
        predictions, labels = _begin(method, tasks), tasks.query_labels
        if following is not None:
            tasks = loader.load(following)  # while a GPU is at work
        yield accuracy_percent(_checked(method, predictions), labels).cpu().numpy()


@torch.no_grad()
def iterate_leaking_accuracies(
    method: Method, loader: TaskLoader, numbers: Sequence[int]
) -> Iterator[NDArray[np.float64]]:
    """Do the same one task after the other, each with the running averages that the last one left.

    It is what the official code does, by mistake. The method's own averages are back at the end.
    """
    trained = {name: value.clone() for name, value in method.backbone.named_buffers()}
    method.eval()
    try:
        for number in numbers:
            tasks = loader.load([number])
            prediction = method(tasks)
            method.refuse_divergence(prediction)
            set_statistics(method, prediction.statistics)
            yield accuracy_percent(prediction.logits, tasks.query_labels).cpu().numpy()
    finally:
        set_statistics(method, trained)


@torch.no_grad()
def iterate_feature_accuracies(
    method: Method, loader: FeatureLoader, numbers: Sequence[int]
) -> Iterator[NDArray[np.float64]]:
    """Do the same from features, with a method that has fixed ones."""
    sampler = loader.sampler
    numbers_per_task = sampler.way * (sampler.shot + sampler.query) * loader.features.shape[1]
    fitting = _FEATURE_BYTES // (numbers_per_task * loader.features.element_size())
    at_once = max(1, min(_FEATURE_TASKS, fitting))
    for start in range(0, len(numbers), at_once):
        tasks = loader.load(numbers[start : start + at_once])
        yield accuracy_percent(method.from_features(tasks), tasks.query_labels).cpu().numpy()
