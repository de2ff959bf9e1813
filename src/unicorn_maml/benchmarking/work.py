"""What is timed: three kinds of work on one row, each by the engine and by the plain loop."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unicorn_maml.adaptation.pieces import run_in_pieces
from unicorn_maml.benchmarking import plain_loop
from unicorn_maml.benchmarking.rows import QUERY, WAY, Row
from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.methods.build import ModelSpec, build_method
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.scoring import predict
from unicorn_maml.models.build import BackboneSpec
from unicorn_maml.settings import AdaptationSettings, TrainSettings
from unicorn_maml.training.meta_step import MetaStep, add_meta_gradient, make_updates
from unicorn_maml.training.optimizer import build_optimizer

__all__ = ["KINDS", "Work", "build_model", "build_work", "random_tasks"]

KINDS = ("adaptation", "evaluation", "meta_training")
_FEW = 4  # tasks in a call of what takes them one by one: the plain loop
_UPDATES = 16  # in a call of meta-training on a GPU, which is not waited for between them


@dataclass(frozen=True)
class Work:
    """Something to time."""

    call: Callable[[], object]
    tasks: int  # that a call does


def build_model(row: Row, adaptation: AdaptationSettings, device: torch.device) -> MAML:
    """A row's network, untrained."""
    features = BackboneSpec(
        backbone=row.backbone,
        width=row.width if row.backbone == "convnet4" else None,
        pooling="average",
        channels=row.channels,
        size=row.size,
    )
    spec = ModelSpec(method=row.method, way=WAY, features=features)
    method = build_method(spec, adaptation).to(device)
    assert isinstance(method, MAML)
    return method


def random_tasks(row: Row, count: int, device: torch.device) -> TaskBatch:
    """Tasks of noise: speed does not depend on what images show."""
    slots = torch.arange(WAY, device=device)

    def images(per_class: int) -> Tensor:
        shape = (count, WAY * per_class, row.channels, row.size, row.size)
        return torch.randn(shape, device=device)

    support, query = images(row.shot), images(QUERY)
    return TaskBatch(support, slots.repeat(count, row.shot), query, slots.repeat(count, QUERY), WAY)


def build_work(
    row: Row, method: MAML, *, tasks: int, task_batch: int
) -> dict[str, tuple[Work, Work]]:
    """Work of every kind: the engine's, and the plain loop's on a copy of the network."""
    device = next(method.parameters()).device
    plain = copy.deepcopy(method)
    batch = random_tasks(row, tasks, device)
    few = batch[:_FEW]
    few_updates = max(1, _FEW // task_batch)
    updates = _UPDATES if device.type == "cuda" else few_updates
    batches = [random_tasks(row, task_batch, device)] * updates
    few_batches = batches[:few_updates]
    return {
        "adaptation": (
            Work(lambda: _adapt_all(method, batch), len(batch)),
            Work(lambda: _adapt_one_by_one(plain, few), len(few)),
        ),
        "evaluation": (
            Work(lambda: predict(method, batch), len(batch)),
            Work(lambda: plain_loop.predict(plain, few), len(few)),
        ),
        "meta_training": (
            Work(_updates(row, method, add_meta_gradient, batches), updates * task_batch),
            Work(
                _updates(row, plain, plain_loop.add_meta_gradient, few_batches),
                few_updates * task_batch,
            ),
        ),
    }


@torch.no_grad()
def _adapt_all(method: MAML, tasks: TaskBatch) -> None:
    """The inner loop alone, of as many tasks at once as the device likes."""
    method.eval()

    def adapt_piece(piece: slice) -> None:
        method.adapt(tasks[piece])

    device = tasks.support_images.device
    run_in_pieces(adapt_piece, len(tasks), method.tasks_at_once(tasks), device)


def _adapt_one_by_one(method: MAML, tasks: TaskBatch) -> None:
    for number in range(len(tasks)):
        plain_loop.adapt(method, tasks, number)


def _updates(
    row: Row, method: MAML, add_gradient: Callable[..., MetaStep], batches: list[TaskBatch]
) -> Callable[[], None]:
    """An update for every batch of tasks, as `train` makes them."""
    settings = TrainSettings(backbone=row.backbone)
    optimizer = build_optimizer(method, settings)

    def run() -> None:
        for step in make_updates(
            method,
            optimizer,
            batches,
            temperature=settings.temperature,
            add_gradient=add_gradient,
        ):
            float(step.loss)

    return run
