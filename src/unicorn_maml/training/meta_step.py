"""One update of the meta-parameters: the gradient of the mean query loss over a batch of tasks."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.method import set_statistics
from unicorn_maml.methods.scoring import accuracy_percent

__all__ = ["MetaStep", "absorb_statistics", "add_meta_gradient"]


@dataclass(frozen=True)
class MetaStep:
    """What an update saw, averaged over its tasks."""

    loss: Tensor  # (), of the query images
    accuracy: Tensor  # (), in percent
    statistics: dict[str, Tensor]  # running averages that the tasks left, (C,)


def add_meta_gradient(method: MAML, tasks: TaskBatch, *, temperature: float) -> MetaStep:
    """Add the meta-gradient of a batch of tasks to the parameters' `.grad`.

    The tasks go through the network in as large pieces as the device likes; every piece starts from
    the same parameters and running averages, so the pieces make no difference.
    """
    method.train()
    at_once = method.tasks_at_once(tasks)
    losses, accuracies = [], []
    totals: dict[str, Tensor] = {}
    for start in range(0, len(tasks), at_once):
        part = tasks[start : start + at_once]
        prediction = method(part)
        loss = F.cross_entropy(
            prediction.logits.flatten(0, 1) / temperature, part.query_labels.flatten()
        )
        share = len(part) / len(tasks)
        (loss * share).backward()  # type: ignore[no-untyped-call]
        method.refuse_divergence(prediction)
        losses.append(loss.detach() * share)
        accuracies.append(accuracy_percent(prediction.logits, part.query_labels))
        for name, value in prediction.statistics.items():
            total = value.unflatten(0, (len(part), -1)).sum(0)
            totals[name] = totals[name] + total if name in totals else total
    return MetaStep(
        loss=torch.stack(losses).sum(),
        accuracy=torch.cat(accuracies).mean(),
        statistics={name: total / len(tasks) for name, total in totals.items()},
    )


def absorb_statistics(method: MAML, step: MetaStep) -> None:
    """Make the running averages that the tasks left, averaged over the tasks, the trained ones."""
    if method.adaptation.normalization == "frozen":
        return
    set_statistics(method, step.statistics)
