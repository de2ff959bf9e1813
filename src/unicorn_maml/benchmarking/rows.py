"""What is measured: networks and the tasks that they adapt to."""

from dataclasses import dataclass, fields

import torch

from unicorn_maml.settings import Backbone, BenchSettings, MethodName

__all__ = ["QUERY", "WAY", "Row", "choose_rows"]

WAY, QUERY = 5, 15  # of every row, as in the paper


@dataclass(frozen=True, kw_only=True)
class Row:
    """A network and the shape of its tasks."""

    backbone: Backbone = "convnet4"
    method: MethodName = "unicorn"
    shot: int = 1
    inner_steps: int = 5
    size: int = 84
    channels: int = 3
    width: int = 64  # of ConvNet-4


# The paper's settings, which take a GPU.
_ON_A_GPU = [
    Row(backbone="resnet12", method="maml", shot=1, inner_steps=15),
    Row(backbone="resnet12", method="maml", shot=5, inner_steps=20),
    Row(backbone="resnet12", method="unicorn", shot=1, inner_steps=5),
    Row(backbone="resnet12", method="unicorn", shot=5, inner_steps=20),
    Row(backbone="convnet4", method="unicorn", shot=1, inner_steps=10),
]
_ON_A_CPU = [
    Row(inner_steps=10),
    Row(inner_steps=5, size=28, channels=1, width=32),
]


def choose_rows(settings: BenchSettings, device: torch.device) -> list[Row]:
    """The one row that the settings describe, or the device's usual ones."""
    chosen = {field.name: getattr(settings, field.name) for field in fields(Row)}
    given = {name: value for name, value in chosen.items() if value is not None}
    if given:
        return [Row(**given)]
    return _ON_A_GPU if device.type == "cuda" else _ON_A_CPU
