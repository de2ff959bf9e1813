"""Random tasks and small models for tests of the mathematics, in float64."""

import torch
from torch import Tensor, nn

from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.methods.maml import MAML
from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.models.heads import PerSlotHead
from unicorn_maml.settings import AdaptationSettings

SIZE = 16


def random_tasks(
    tasks: int = 3, *, way: int = 3, shot: int = 2, query: int = 2, channels: int = 2, seed: int = 0
) -> TaskBatch:
    random = torch.Generator().manual_seed(seed)

    def images(count: int) -> Tensor:
        shape = (tasks, way * count, channels, SIZE, SIZE)
        return torch.randn(shape, generator=random, dtype=torch.float64)

    labels = torch.arange(way)
    return TaskBatch(
        images(shot), labels.repeat(tasks, shot), images(query), labels.repeat(tasks, query), way
    )


class MLP(nn.Module):
    """A backbone that the library has never heard of: no `widen`, no batch norm."""

    feature_width = 7

    def __init__(self, channels: int = 2):
        super().__init__()
        self.hidden = nn.Linear(channels * SIZE * SIZE, 11)
        self.out = nn.Linear(11, self.feature_width)

    def forward(self, images: Tensor) -> Tensor:
        return self.out(torch.tanh(self.hidden(images.flatten(1))))


def small_maml(head: type = PerSlotHead, way: int = 3, **settings) -> MAML:
    torch.manual_seed(0)
    backbone = ConvNet4(channels=2, size=16, width=4)
    options = {"inner_steps": 2, "inner_lr": 0.1, "normalization": "support", **settings}
    first = PerSlotHead(4, way) if head is PerSlotHead else head(4)
    return MAML(backbone, first, AdaptationSettings(**options)).double()
