"""Updates of the meta-parameters: the gradient of the mean query loss over a batch of tasks."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from unicorn_maml.adaptation.pieces import run_in_pieces
from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.method import Prediction, set_statistics
from unicorn_maml.methods.scoring import accuracy_percent

__all__ = ["MetaStep", "absorb_statistics", "add_meta_gradient", "make_updates", "norm_of"]


@dataclass(frozen=True)
class MetaStep:
    """What an update saw, averaged over its tasks."""

    loss: Tensor  # (), of the query images
    accuracy: Tensor  # (), in percent
    statistics: dict[str, Tensor]  # running averages that the tasks left, (C,)
    predictions: tuple[Prediction, ...] = ()  # to be checked once the device is waited for anyway
    head_gradient_norm: Tensor | None = None  # ()


def add_meta_gradient(method: MAML, tasks: TaskBatch, *, temperature: float) -> MetaStep:
    """Add the meta-gradient of a batch of tasks to the parameters' `.grad`.

    The tasks go through the network in as large pieces as the device likes; every piece starts from
    the same parameters and running averages, so the pieces make no difference.
    """
    method.train()
    parameters = [value for value in method.parameters() if value.requires_grad]

    def one_piece(piece: slice) -> tuple[MetaStep, list[Tensor | None]]:
        """What a piece adds to the results, and to the gradients of `parameters`."""
        part = tasks[piece]
        share = len(part) / len(tasks)
        prediction, gradients = method.meta_gradients(part, temperature=temperature)
        loss = share * F.cross_entropy(
            prediction.logits.flatten(0, 1) / temperature, part.query_labels.flatten()
        )
        accuracy = share * accuracy_percent(prediction.logits, part.query_labels).mean()
        statistics = {
            name: share * value.view(len(part), -1).mean(0)
            for name, value in prediction.statistics.items()
        }
        if share < 1:
            torch._foreach_mul_([each for each in gradients if each is not None], share)
        kept = Prediction(prediction.logits, {}, prediction.support_losses)
        return MetaStep(loss, accuracy, statistics, (kept,)), gradients

    device = tasks.support_images.device
    results = run_in_pieces(one_piece, len(tasks), method.tasks_at_once(tasks), device)
    for _, gradients in results:  # in order, so that the sum never depends on which came first
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
    steps = [step for step, _ in results]
    return MetaStep(
        loss=torch.stack([step.loss for step in steps]).sum(),
        accuracy=torch.stack([step.accuracy for step in steps]).sum(),
        statistics={
            name: torch.stack([step.statistics[name] for step in steps]).sum(0)
            for name in steps[0].statistics
        },
        predictions=tuple(prediction for step in steps for prediction in step.predictions),
    )


def make_updates(
    method: MAML,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[TaskBatch],
    *,
    temperature: float,
    add_gradient: Callable[..., MetaStep] = add_meta_gradient,
    after_update: Callable[[], None] | None = None,
) -> Iterator[MetaStep]:
    """Update the parameters once for every batch, and yield what the updates saw.

    That is yielded when the next update is under way, so that a GPU does not wait for whoever looks
    at it. Whoever does gets a clear error in the place of numbers that are not finite.
    """
    before: MetaStep | None = None
    for tasks in batches:
        optimizer.zero_grad()
        step = add_gradient(method, tasks, temperature=temperature)
        norm = norm_of([value.grad for value in method.head.parameters()])
        optimizer.step()
        absorb_statistics(method, step)
        if after_update:
            after_update()
        if before:
            yield _checked(method, before)
        before = replace(step, head_gradient_norm=norm)
    if before:
        yield _checked(method, before)


def _checked(method: MAML, step: MetaStep) -> MetaStep:
    for prediction in step.predictions:
        method.refuse_divergence(prediction)
    return replace(step, predictions=())


def norm_of(values: Iterable[Tensor | None]) -> Tensor:
    """The norm () of all numbers together; a head of zeros has none. A GPU is not waited for."""
    squares = [value.detach().square().sum() for value in values if value is not None]
    return torch.stack(squares).sum().sqrt() if squares else torch.zeros(())


def absorb_statistics(method: MAML, step: MetaStep) -> None:
    """Make the running averages that the tasks left, averaged over the tasks, the trained ones."""
    if method.adaptation.normalization == "frozen":
        return
    set_statistics(method, step.statistics)
