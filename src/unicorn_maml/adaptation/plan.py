"""How many tasks to run at once on a device.

On a GPU one small network leaves the card idle, so as many tasks as fit in memory run together. On
a CPU tasks are taken together only while what a layer produces stays in the cache: small images
gain from it, large ones lose. The choice changes results by rounding only. It never depends on a
clock, and on a CPU on nothing but shapes, so that a run repeats itself exactly there.
"""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from unicorn_maml.adaptation.network import can_widen
from unicorn_maml.settings import Precision

__all__ = ["bytes_per_task", "lane_width", "lanes_that_fit", "tasks_at_once", "tasks_in_lanes"]

_MOST_ON_A_GPU = 32
_MOST_IN_LANES = 64
_SHARE_FOR_RESULTS = 0.1
_WIDEST_LANE = 8
_NUMBERS_IN_A_LANE = 60_000_000  # outputs of all layers
_SHARE_OF_FREE_MEMORY = 0.6
_MOST_ON_A_CPU = 16
_CACHE = 4 * 2**20  # measured on two cores: the best T keeps the largest output near 4 MiB
_BYTES = 4  # of a float32
# What is alive in the backward pass, in multiples of the outputs of all layers: the outputs
# themselves, gradients, and the outputs of functions that are no layers.
_ALIVE = 3
_ALIVE_FORWARD = 4  # without a backward pass: in multiples of the largest output
_COPIES_OF_PARAMETERS = 4  # values, gradients, the start, a temporary
_KEPT_PER_STEP = 3  # second order keeps the graph of each step's forward and backward pass


@dataclass(frozen=True)
class _Outputs:
    """Numbers that the layers of a backbone produce for one image."""

    largest: int
    total: int


_measured: WeakKeyDictionary[nn.Module, dict[torch.Size, _Outputs]] = WeakKeyDictionary()


def tasks_at_once(
    backbone: nn.Module,
    images: Tensor,
    *,
    more_images: int = 0,
    kept_steps: int = 0,
    memory_limit: int | None = None,
) -> int:
    """Return how many tasks to run together.

    `images` (any, B, C, H, W) show the device, and what a pass has for each task; `more_images` per
    task may be in memory with them, and second order keeps the graph of `kept_steps` passes.
    `memory_limit` is in bytes, by default 60% of what a GPU has free; a CPU goes by its cache.
    """
    if not can_widen(backbone):
        return 1
    if images.device.type == "cpu":
        largest = _outputs_per_image(backbone, images.shape[2:]).largest
        fitting = _CACHE // (images.shape[1] * largest * _BYTES)
        return max(1, min(_MOST_ON_A_CPU, fitting))
    if memory_limit is None:
        memory_limit = int(_free_memory(images.device) * _SHARE_OF_FREE_MEMORY)
    count = images.shape[1] * (1 + kept_steps * _KEPT_PER_STEP) + more_images
    fitting = memory_limit // bytes_per_task(backbone, images.shape[2:], count)
    return max(1, min(_MOST_ON_A_GPU, fitting))


def lane_width(backbone: nn.Module, images: Tensor) -> int:
    """How many tasks share a lane of a GPU, given images (any, B, C, H, W).

    Measured on an H200: ResNet-12 is fastest one task to a lane, ConvNet-4 with few images in wide
    networks of eight; with many images both are fastest alone.
    """
    if not can_widen(backbone):
        return 1
    numbers = _outputs_per_image(backbone, images.shape[2:]).total * images.shape[1]
    return max(1, min(_WIDEST_LANE, _NUMBERS_IN_A_LANE // numbers))


def tasks_in_lanes(backbone: nn.Module, images: Tensor) -> int:
    """How many tasks to give to the lanes of a GPU in one call, given images (any, B, C, H, W).

    Many, so that lanes seldom run out of work; what is kept of each is its adapted network.
    """
    parameters = sum(value.numel() for value in backbone.parameters())
    kept = _BYTES * (2 * parameters + images.shape[2:].numel() * images.shape[1])
    fitting = int(_free_memory(images.device) * _SHARE_FOR_RESULTS) // kept
    return max(1, min(_MOST_IN_LANES, fitting))


def lanes_that_fit(
    backbone: nn.Module, images: Tensor, width: int, precision: Precision, *, backward: bool
) -> int:
    """How many lanes of `width` tasks with such images fit into the free memory of a GPU.

    Each lane has memory of its own, so what PyTorch keeps for others does not count.
    """
    size = width * bytes_per_task(
        backbone, images.shape[2:], images.shape[1], precision=precision, backward=backward
    )
    free, _ = torch.cuda.mem_get_info(images.device)
    return int(free * _SHARE_OF_FREE_MEMORY) // size


def _free_memory(device: torch.device) -> int:
    """Memory that a pass can have: what PyTorch keeps for reuse counts as free."""
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + kept


def bytes_per_task(
    backbone: nn.Module,
    image_shape: torch.Size,
    images: int,
    *,
    precision: Precision = "float32",
    backward: bool = True,
) -> int:
    """Estimate the memory of one task: its parameters, and what is alive of the outputs."""
    outputs = _outputs_per_image(backbone, image_shape)
    alive = outputs.total * _ALIVE if backward else outputs.largest * _ALIVE_FORWARD
    parameters = sum(value.numel() for value in backbone.parameters())
    output_bytes = _BYTES // 2 if precision == "bfloat16" else _BYTES
    return alive * images * output_bytes + parameters * _COPIES_OF_PARAMETERS * _BYTES


def _outputs_per_image(backbone: nn.Module, image_shape: torch.Size) -> _Outputs:
    measured = _measured.setdefault(backbone, {})
    if image_shape not in measured:
        sizes: list[int] = []
        skeleton: nn.Module = backbone.widen(1)  # type: ignore[operator]
        for module in skeleton.modules():
            if not list(module.children()):
                module.register_forward_hook(lambda _layer, _in, out: sizes.append(out.numel()))
        skeleton.eval()(torch.empty(1, *image_shape, device="meta"))
        measured[image_shape] = _Outputs(max(sizes), sum(sizes))
    return measured[image_shape]
