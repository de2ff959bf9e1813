"""Batch normalisation whose statistics are named.

Where the statistics come from moves accuracy by several points, so it is a policy, printed with
every result. During the inner loop the support images are normalised by their own batch, except
under `frozen`. The policies differ in the query images:

| policy | query images are normalised by |
|---|---|
| `batch` | the statistics of the task's query batch (transductive: it sees all queries at once) |
| `support` | the statistics of the support set in the adapted network |
| `mixed` | running averages, from the trained ones moved by each support pass of this task |
| `frozen` | the trained running averages, as are the support images |

In meta-training the query images of `mixed` are normalised by their own batch, as in the official
code; that is also how the trained running averages come about, under every policy but `frozen`.
"""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from unicorn_maml.errors import UsageError
from unicorn_maml.settings import Normalization

__all__ = ["Statistics", "TaskBatchNorm", "query_statistics", "replace_batch_norm"]

Statistics = Literal["batch", "running", "support"]

_PLAIN = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def query_statistics(policy: Normalization, *, meta_training: bool) -> Statistics:
    """Which statistics normalise the query images under a policy."""
    if policy == "batch" or (policy == "mixed" and meta_training):
        return "batch"
    return "support" if policy == "support" else "running"


class TaskBatchNorm(nn.Module):
    """Stands in for a batch-norm layer, with the same parameters and buffers.

    `statistics` says by what the next batch is normalised: its own moments (`batch`, which also
    moves the running averages), the running averages (`running`), or the moments of its first
    `support_rows` rows (`support`: the batch is then the support set followed by queries).
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, layer: _BatchNorm):
        super().__init__()
        if layer.running_mean is None or layer.running_var is None or layer.momentum is None:
            raise UsageError(
                "A batch-norm layer of the backbone keeps no running averages; "
                "build it with track_running_stats=True and a momentum such as 0.1."
            )
        self.weight, self.bias = layer.weight, layer.bias
        self.register_buffer("running_mean", layer.running_mean)
        self.register_buffer("running_var", layer.running_var)
        self.momentum, self.eps = layer.momentum, layer.eps
        self.statistics: Statistics = "batch"
        self.support_rows = 0

    def forward(self, values: Tensor) -> Tensor:
        """Normalise (B, T * C, ...)."""
        if self.statistics != "support":
            return F.batch_norm(
                values,
                self.running_mean,
                self.running_var,
                self.weight,
                self.bias,
                training=self.statistics == "batch",
                momentum=self.momentum,
                eps=self.eps,
            )
        # Written out, because the gradient must also flow through the moments.
        support = values[: self.support_rows].to(self.running_mean.dtype)
        axes = [axis for axis in range(values.dim()) if axis != 1]
        scale = (support.var(axes, correction=0) + self.eps).rsqrt()
        shift = -support.mean(axes) * scale
        if self.weight is not None:
            scale, shift = scale * self.weight, shift * self.weight + self.bias
        shape = [1, -1] + [1] * (values.dim() - 2)
        return (values * scale.view(shape) + shift.view(shape)).to(values.dtype)


def replace_batch_norm(module: nn.Module) -> list[tuple[str, TaskBatchNorm]]:
    """Put a TaskBatchNorm in the place of every batch-norm layer; return them with their names.

    A layer that has several names is replaced under all of them, and returned with the first one.
    """
    stand_ins: dict[nn.Module, TaskBatchNorm] = {}
    replaced = []
    for name, layer in list(module.named_modules(remove_duplicate=False)):
        if not isinstance(layer, _BatchNorm):
            continue
        if type(layer) not in _PLAIN:  # it does more than to normalise, which would be lost
            raise UsageError(
                f"The layer {name} of this network is a {type(layer).__name__}, which is not "
                "replaced by statistics of tasks; take another network, or keep its features as "
                "they are (adapt its head, under `frozen`)."
            )
        if layer not in stand_ins:
            stand_ins[layer] = TaskBatchNorm(layer)
            replaced.append((name, stand_ins[layer]))
        parent, _, attribute = name.rpartition(".")
        setattr(module.get_submodule(parent), attribute, stand_ins[layer])
    return replaced
