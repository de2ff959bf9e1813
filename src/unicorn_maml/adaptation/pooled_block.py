"""`convolution -> batch norm -> max-pool -> relu` with fewer passes over memory, for CPUs.

What a CPU does beside the convolutions is reading and writing their outputs. Normalisation by
running averages is therefore made part of the convolution. Otherwise the outputs are pooled first
and normalised then, at a quarter of the size: the same function as long as the batch norm has no
negative weight. A channel with one is mirrored: its filter, bias, average and weight change sign,
which is the same function again.
"""

from typing import Any

import torch
from torch import Tensor, nn

from unicorn_maml.adaptation.convolution import TaskConv2d
from unicorn_maml.adaptation.normalization import TaskBatchNorm

__all__ = ["PooledBlock", "replace_blocks"]

_LAYERS = [TaskConv2d, TaskBatchNorm, nn.MaxPool2d, nn.ReLU]
_FEWEST = 2**19  # outputs of a convolution; with fewer, the few more operations cost what they save
_FILTERS, _MAPS = (-1, 1, 1, 1), (1, -1, 1, 1)


def replace_blocks(module: nn.Module) -> None:
    """Put a PooledBlock in the place of every `Sequential` of such stand-ins."""
    for name, block in list(module.named_modules()):
        if isinstance(block, nn.Sequential) and [type(layer) for layer in block] == _LAYERS:
            parent, _, attribute = name.rpartition(".")
            if block[0].bias is not None and block[1].weight is not None:
                setattr(module.get_submodule(parent), attribute, PooledBlock(*block))


class PooledBlock(nn.Sequential):
    """The four layers, with the same parameters and buffers."""

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, T * C, H, W) -> normalised and pooled maps."""
        layers: Any = self
        conv, norm, pool, relu = layers
        outputs = len(images) * len(conv.weight) * images.shape[2:].numel()
        values: Tensor
        if images.device.type != "cpu" or torch.is_autocast_enabled("cpu") or outputs < _FEWEST:
            values = relu(pool(norm(conv(images))))
        elif norm.statistics == "running":
            mean = norm.running_mean - conv.bias
            scale, shift = _affine(norm, norm.weight, mean, norm.running_var)
            values = relu(pool(conv.convolve(images, conv.weight * scale.view(_FILTERS), shift)))
        else:
            filters, bias, weight = conv.weight, conv.bias, norm.weight
            negative = weight < 0
            sign = 1 - 2 * negative.to(weight.dtype) if negative.any() else None
            if sign is not None:
                filters, bias, weight = filters * sign.view(_FILTERS), bias * sign, weight * sign
                norm.running_mean.mul_(sign)
            maps = conv.convolve(images, filters, bias.detach())
            pooled, *moments = _pool_and_moments(maps, bias, norm, pool)
            if sign is not None:
                norm.running_mean.mul_(sign)
            scale, shift = _affine(norm, weight, *moments)
            zero, one = torch.zeros_like(scale), torch.ones_like(scale)
            # Not that of torch.nn.functional, which in some versions refuses an epsilon of 0.
            values = relu(torch.batch_norm(pooled, scale, shift, zero, one, False, 0, 0, False))
        return values


def _affine(
    norm: TaskBatchNorm, weight: Tensor, mean: Tensor, variance: Tensor
) -> tuple[Tensor, Tensor]:
    """What values are multiplied by, and what is added then."""
    scale = weight * (variance + norm.eps).rsqrt()
    return scale, norm.bias - mean * scale


class _PoolAndMoments(torch.autograd.Function):
    """Pools maps, and takes the moments that they are normalised by.

    `bias` is the one within the maps. Its gradient is zero, because normalisation takes away what
    all values of a channel have in common.
    """

    @staticmethod
    def forward(
        ctx: Any, maps: Tensor, _bias: Tensor, norm: TaskBatchNorm, pool: nn.MaxPool2d
    ) -> tuple[Tensor, Tensor, Tensor]:
        whole = norm.statistics == "batch"
        ctx.rows = len(maps) if whole else norm.support_rows
        mean, variance = torch.batch_norm_update_stats(
            maps[: ctx.rows],
            norm.running_mean if whole else None,
            norm.running_var if whole else None,
            norm.momentum,
        )
        ctx.pooling = (pool.kernel_size, pool.stride, pool.padding, pool.dilation, pool.ceil_mode)
        pooled, places = torch.ops.aten.max_pool2d_with_indices(maps, *ctx.pooling)
        ctx.save_for_backward(maps, mean, places)
        return pooled, mean, variance

    @staticmethod
    def backward(
        ctx: Any, to_pooled: Tensor, to_mean: Tensor, to_variance: Tensor
    ) -> tuple[Tensor | None, ...]:
        maps, mean, places = ctx.saved_tensors
        to_maps = torch.ops.aten.max_pool2d_with_indices_backward(
            to_pooled, maps, *ctx.pooling, places
        )
        rows = maps[: ctx.rows]
        count = rows.numel() // len(mean)
        slope = to_variance * (2 / count)
        level = to_mean / count - slope * mean
        to_maps[: ctx.rows].add_(level.view(_MAPS)).addcmul_(rows, slope.view(_MAPS))
        return to_maps, torch.zeros_like(mean), None, None


_pool_and_moments: Any = _PoolAndMoments.apply
