"""T copies of a backbone, each with its own parameters, run as one computation.

The copies are one network that is T times wider (see ConvNet4), so parameters of T tasks are
`(T * out, ...)`: the T copies one after the other along the first axis.
"""

import copy
from collections.abc import Callable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call

from unicorn_maml.adaptation.convolution import replace_convolutions
from unicorn_maml.adaptation.normalization import Statistics, replace_batch_norm
from unicorn_maml.adaptation.pieces import worker_number
from unicorn_maml.adaptation.pooled_block import replace_blocks
from unicorn_maml.settings import Precision

__all__ = ["TaskNetwork", "can_widen", "task_network"]


def can_widen(backbone: nn.Module) -> bool:
    """Whether several tasks of this backbone can run at once."""
    return hasattr(backbone, "widen")


class TaskNetwork:
    """The architecture of `tasks` copies of a backbone; the values are given with every call."""

    def __init__(self, backbone: nn.Module, tasks: int):
        if can_widen(backbone):
            skeleton = backbone.widen(tasks)  # type: ignore[operator]
        elif tasks == 1:
            skeleton = copy.deepcopy(backbone)
        else:
            raise ValueError("a backbone without `widen` runs one task at a time")
        self.tasks = tasks
        module: nn.Module = skeleton
        norms = replace_batch_norm(module)
        replace_convolutions(module)
        replace_blocks(module)
        self._module = module
        self._forward: _Forward = lambda values, images: functional_call(module, values, (images,))
        self._compiled: _Forward | None = None
        self._norms = [layer for _, layer in norms]
        self._statistics_names = [
            f"{name}.{buffer}" for name, _ in norms for buffer in ("running_mean", "running_var")
        ]

    def parameters_of(self, backbone: nn.Module) -> dict[str, Tensor]:
        """T copies of the backbone's parameters, differentiable with respect to them."""
        return {name: self._copies(value) for name, value in backbone.named_parameters()}

    def statistics_of(self, backbone: nn.Module) -> dict[str, Tensor]:
        """T copies of the backbone's running averages, for the tasks to move."""
        buffers = dict(backbone.named_buffers())
        return {name: self._copies(buffers[name]).clone() for name in self._statistics_names}

    def other_buffers_of(self, backbone: nn.Module) -> dict[str, Tensor]:
        """The buffers that are no running averages, such as counters of calls."""
        names = {name for name, _ in self._module.named_buffers()} - set(self._statistics_names)
        return {name: value for name, value in backbone.named_buffers() if name in names}

    def _copies(self, value: Tensor) -> Tensor:
        if self.tasks > 1:
            value = value.expand(self.tasks, *value.shape).flatten(0, 1)
        if value.dim() == 4:  # convolutions are fastest with channels last, on CPUs and GPUs
            value = value.contiguous(memory_format=torch.channels_last)
        return value

    def wide(self, images: Tensor) -> Tensor:
        """Images of T tasks (T, B, ...) -> the input of the wide network (B, T * C, H, W)."""
        side_by_side = images.transpose(0, 1).flatten(1, 2)
        if side_by_side.dim() != 4:
            return side_by_side
        # Copied, because `contiguous` leaves images of one channel alone, whose strides then do
        # not tell the first convolution which layout is meant.
        channels_last = torch.empty_like(side_by_side, memory_format=torch.channels_last)
        return channels_last.copy_(side_by_side)

    def features(
        self,
        values: dict[str, Tensor],
        wide_images: Tensor,
        *,
        statistics: Statistics,
        support_rows: int = 0,
        precision: Precision,
        drop: bool = False,
        compiled: bool = False,
    ) -> Tensor:
        """Features (T, B, D); `values` hold parameters, running averages and other buffers.

        Batch statistics move the running averages in `values` in place. Drop layers rest unless
        told to `drop`, so that a task has one result.
        """
        self._module.train(drop)
        for layer in self._norms:
            layer.statistics, layer.support_rows = statistics, support_rows
        device = wide_images.device.type
        compiled = compiled and device == "cuda"
        forward = self._compiled_forward() if compiled else self._forward
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16"):
            features = forward(values, wide_images)
        features = features.view(len(features), self.tasks, -1).transpose(0, 1)
        return features.float() if features.dtype == torch.bfloat16 else features

    def _compiled_forward(self) -> "_Forward":
        if self._compiled is None:
            # Every shape, policy and direction is a version of its own; the default allows eight.
            torch._dynamo.config.recompile_limit = 64
            self._compiled = torch.compile(self._forward, dynamic=False)
        return self._compiled


_Forward = Callable[[dict[str, Tensor], Tensor], Tensor]
_networks: WeakKeyDictionary[nn.Module, dict[tuple[int, int], TaskNetwork]] = WeakKeyDictionary()


def task_network(backbone: nn.Module, tasks: int) -> TaskNetwork:
    """Return the network of `tasks` copies of a backbone, made once for each worker."""
    made = _networks.setdefault(backbone, {})
    key = (tasks, worker_number())  # a call lends its values to the module: not to be shared
    if key not in made:
        made[key] = TaskNetwork(backbone, tasks)
    return made[key]
