"""The reference: a plain loop over tasks, with torch alone.

It is what a careful user writes, and what other libraries do: `functional_call` and
`autograd.grad`, one task after the other, in the default memory layout, every operation called
from Python. First order, all parameters adapt. The normalisation policies are those that ordinary
batch-norm layers can follow: `batch`, `mixed` and `frozen`. `predict` and `add_meta_gradient`
return what the engine's functions of these names return.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.methods.maml import MAML
from unicorn_maml.training.meta_step import MetaStep

__all__ = ["AdaptedTask", "adapt", "add_meta_gradient", "predict"]


@dataclass(frozen=True)
class AdaptedTask:
    """One adapted network."""

    parameters: dict[str, Tensor]
    buffers: dict[str, Tensor]  # with running averages that the passes move
    weight: Tensor  # of the head (N, D)
    bias: Tensor


def adapt(method: MAML, tasks: TaskBatch, number: int) -> AdaptedTask:
    """The inner loop of task `number`."""
    images, labels = tasks.support_images[number], tasks.support_labels[number]
    names = [name for name, _ in method.backbone.named_parameters()]
    buffers = {name: value.clone() for name, value in method.backbone.named_buffers()}
    first = [*method.backbone.parameters(), *method.head(tasks.way)]
    values = [value.detach().requires_grad_() for value in first]
    task = _adapted(names, values, buffers)
    _use_batch_statistics(method.backbone, method.adaptation.normalization != "frozen")
    for _ in range(method.adaptation.inner_steps):
        loss = F.cross_entropy(_logits(method, task, images), labels)
        gradients = torch.autograd.grad(loss, values)
        values = [
            (value - method.adaptation.inner_lr * gradient).detach().requires_grad_()
            for value, gradient in zip(values, gradients, strict=True)
        ]
        task = _adapted(names, values, buffers)
    return task


def predict(method: MAML, tasks: TaskBatch) -> Tensor:
    """Query logits (T, Q, N) at meta-test."""
    logits = []
    for number, images in enumerate(tasks.query_images):
        task = adapt(method, tasks, number)
        _use_batch_statistics(method.backbone, method.adaptation.normalization == "batch")
        with torch.no_grad():
            logits.append(_logits(method, task, images))
    return torch.stack(logits)


def add_meta_gradient(method: MAML, tasks: TaskBatch, *, temperature: float) -> MetaStep:
    """Add the meta-gradient of a batch of tasks to the parameters' `.grad`."""
    count = len(tasks)
    losses, accuracies, averages = [], [], []
    for number, images in enumerate(tasks.query_images):
        task = adapt(method, tasks, number)
        # Meta-training normalises queries by their own batch under `mixed` too.
        _use_batch_statistics(method.backbone, method.adaptation.normalization != "frozen")
        logits, labels = _logits(method, task, images), tasks.query_labels[number]
        loss = F.cross_entropy(logits / temperature, labels)
        gradients = torch.autograd.grad(
            loss / count, [*task.parameters.values(), task.weight, task.bias]
        )
        # First order: what the adapted values get is what the first values get.
        torch.autograd.backward([*method.backbone.parameters(), *method.head(tasks.way)], gradients)
        losses.append(loss.detach())
        accuracies.append((logits.argmax(-1) == labels).double().mean() * 100)
        averages.append(task.buffers)
    return MetaStep(
        loss=torch.stack(losses).mean(),
        accuracy=torch.stack(accuracies).mean(),
        statistics={
            name: torch.stack([each[name] for each in averages]).mean(0)
            for name in averages[0]
            if name.endswith(("running_mean", "running_var"))
        },
    )


def _adapted(names: list[str], values: list[Tensor], buffers: dict[str, Tensor]) -> AdaptedTask:
    return AdaptedTask(dict(zip(names, values[:-2], strict=True)), buffers, values[-2], values[-1])


def _use_batch_statistics(backbone: nn.Module, wanted: bool) -> None:
    """Only batch-norm layers ever train: dropout rests during adaptation."""
    for module in backbone.modules():
        module.training = wanted and isinstance(module, nn.BatchNorm2d)


def _logits(method: MAML, task: AdaptedTask, images: Tensor) -> Tensor:
    """Logits (B, N) of one task's images."""
    low = method.adaptation.precision == "bfloat16"
    with torch.autocast(images.device.type, torch.bfloat16, enabled=low):
        values = {**task.parameters, **task.buffers}
        features: Tensor = functional_call(method.backbone, values, (images,))
    return F.linear(features.to(task.weight.dtype), task.weight, task.bias)
