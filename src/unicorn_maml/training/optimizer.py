"""The outer optimiser: its course over the epochs, and its state as plain tensors."""

import math
from typing import Any, Literal

import torch
from torch import Tensor

from unicorn_maml.methods.maml import MAML
from unicorn_maml.settings import TrainSettings

__all__ = [
    "build_optimizer",
    "optimizer_state",
    "restore_optimizer",
    "set_learning_rate",
    "sgd_or_adam",
    "share_of_rate",
]


def build_optimizer(method: MAML, settings: TrainSettings) -> torch.optim.Optimizer:
    """The outer optimiser; the head's rate is a multiple of the backbone's."""
    assert settings.outer_lr is not None  # the settings have filled it in
    groups = [
        {"params": list(method.backbone.parameters()), "multiplier": 1.0},
        {"params": list(method.head.parameters()), "multiplier": settings.head_lr_multiplier},
    ]
    return sgd_or_adam(
        settings.outer_optimizer,
        groups,
        lr=settings.outer_lr,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
    )


def sgd_or_adam(
    name: Literal["sgd", "adam"],
    groups: list[dict[str, Any]],
    *,
    lr: float,
    momentum: float,
    weight_decay: float,
) -> torch.optim.Optimizer:
    """SGD with Nesterov momentum, or Adam."""
    if name == "adam":
        return torch.optim.Adam(groups, lr=lr, weight_decay=weight_decay)
    return torch.optim.SGD(
        groups, lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=momentum > 0
    )


def set_learning_rate(
    optimizer: torch.optim.Optimizer, settings: TrainSettings, epoch: int
) -> float:
    """Set the rate of an epoch (counted from 1) and return the backbone's."""
    assert settings.outer_lr is not None
    assert settings.decay is not None
    done = epoch - 1
    drops = range(settings.decay_every, settings.epochs, settings.decay_every)
    shares = [drop / settings.epochs for drop in drops]
    factor = share_of_rate(settings.schedule, done / settings.epochs, shares, settings.decay)
    for group in optimizer.param_groups:
        group["lr"] = settings.outer_lr * factor * group["multiplier"]
    return settings.outer_lr * factor


def share_of_rate(schedule: str, done: float, drops: list[float], decay: float) -> float:
    """The part of the first rate that is left when `done` (0..1) of a training lies behind."""
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * done))
    if schedule == "step":
        return float(decay ** sum(done >= drop for drop in drops))
    return 1.0


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return momenta and the like as named tensors: `<parameter number>.<what>`."""
    return {
        f"{number}.{name}": value
        for number, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
        if value is not None
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Tensor]) -> None:
    """Put back what `optimizer_state` returned."""
    by_parameter: dict[int, dict[str, Tensor]] = {}
    for key, value in state.items():
        number, _, name = key.partition(".")
        by_parameter.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": by_parameter})
