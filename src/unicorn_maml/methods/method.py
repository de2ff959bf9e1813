"""What all methods have in common."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unicorn_maml.adaptation.plan import tasks_at_once
from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.settings import Precision

__all__ = ["Method", "Prediction", "set_statistics"]


@dataclass(frozen=True)
class Prediction:
    """What a method makes of T tasks."""

    logits: Tensor  # (T, Q, N), of the query images
    statistics: dict[str, Tensor]  # running averages of the backbone after each task, (T * C,)
    support_losses: Tensor | None = None  # (M, T), of methods that adapt


class Method(nn.Module):
    """Maps a batch of tasks to query logits.

    In training mode the prediction is differentiable with respect to the parameters.
    """

    def __init__(self, backbone: nn.Module, precision: Precision):
        super().__init__()
        self.backbone, self.precision = backbone, precision

    @property
    def has_fixed_features(self) -> bool:
        """Whether an image has the same feature in every task, at meta-test."""
        return False

    def forward(self, tasks: TaskBatch) -> Prediction:
        """Learn from the support sets and predict the query images."""
        raise NotImplementedError

    def from_features(self, tasks: TaskBatch) -> Tensor:
        """Query logits (T, Q, N) at meta-test, of tasks with features in the place of images.

        For methods with fixed features only.
        """
        raise NotImplementedError

    def refuse_divergence(self, prediction: Prediction) -> None:
        """Raise if the prediction is of no use. Apart, because it waits for the device."""

    def tasks_at_once(self, tasks: TaskBatch) -> int:
        """How many tasks of this shape to put into one call, on the device that they are on."""
        queries = tasks.query_images.shape[1]
        return tasks_at_once(self.backbone, tasks.support_images, more_images=queries)


def set_statistics(method: Method, statistics: dict[str, Tensor]) -> None:
    """Make running averages (C,) those of the backbone."""
    buffers = dict(method.backbone.named_buffers())
    if statistics:
        torch._foreach_copy_([buffers[name] for name in statistics], list(statistics.values()))
