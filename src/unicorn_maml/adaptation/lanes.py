"""First-order adaptation on a GPU: recorded passes, replayed side by side.

One small network cannot fill a card, and launching its kernels takes longer than running them. So
a pass is recorded once, as a CUDA graph, and replayed, and several lanes, each with a stream and
with memory of its own, run different tasks at the same time. A lane takes `width` tasks in one wide
network. Nothing here waits for the card.
"""

import logging
from collections.abc import Callable, Hashable, Iterator
from typing import TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from unicorn_maml.adaptation.network import TaskNetwork, can_widen, task_network
from unicorn_maml.adaptation.normalization import Statistics
from unicorn_maml.adaptation.passes import (
    HEAD_BIAS,
    HEAD_WEIGHT,
    descend,
    query_pass,
    support_pass,
)
from unicorn_maml.adaptation.plan import lane_width, lanes_that_fit
from unicorn_maml.adaptation.track import Track
from unicorn_maml.settings import AdaptationSettings

__all__ = ["adapt_in_lanes", "predict_in_lanes", "runs_in_lanes"]

_MOST_LANES = 8  # on an H200 four are up to a tenth slower, and more are no faster
_KINDS_KEPT = 4  # recordings hold memory, and a program seldom goes back to earlier shapes

Values = dict[str, Tensor]


def runs_in_lanes(backbone: nn.Module, images: Tensor) -> bool:
    """Whether first-order adaptation of this backbone can be recorded."""
    return images.device.type == "cuda" and can_widen(backbone)


@torch.no_grad()
def adapt_in_lanes(
    backbone: nn.Module,
    head: tuple[Tensor, Tensor],
    support_images: Tensor,
    support_labels: Tensor,
    settings: AdaptationSettings,
    *,
    adapting: list[str],
    first_adapting: list[str],
) -> tuple[Values, Values, Tensor]:
    """Adapted values and running averages of T tasks, wide, and their support losses (M, T).

    The first step moves `first_adapting` alone.
    """
    tasks, steps = len(support_images), settings.inner_steps
    width = lane_width(backbone, support_images)
    network = task_network(backbone, width)
    start = network.parameters_of(backbone)
    start[HEAD_WEIGHT], start[HEAD_BIAS] = head[0].repeat(width, 1), head[1].repeat(width)
    averages = network.statistics_of(backbone)
    constants = network.other_buffers_of(backbone)

    def make() -> _SupportLane:
        lane = _SupportLane(network, start, averages, constants, support_images, settings)
        lane.record_steps(support_labels, adapting, first_adapting)
        return lane

    kind = (settings.inner_lr, tuple(adapting), tuple(first_adapting))
    lanes = _lanes(backbone, kind, settings, support_images, len(head[1]), make, backward=True)
    values = {name: _for_tasks(tasks, value, width) for name, value in start.items()}
    statistics = {name: _for_tasks(tasks, value, width) for name, value in averages.items()}
    losses = head[1].new_empty(steps, tasks)
    for lane, piece in _share_out(lanes, tasks, width):
        count = piece.stop - piece.start
        lane.take({**start, **averages, **constants})
        lane.take_images(support_images[piece])
        lane.labels[:count].copy_(support_labels[piece])
        for step in range(steps):
            loss = lane.first_step() if step == 0 else lane.later_step()
            losses[step, piece].copy_(loss[:count])
        for all_tasks, of_lane in ((values, lane.values), (statistics, lane.statistics)):
            _copy_tasks(all_tasks, tasks, piece, of_lane, width, slice(0, count))
    return values, statistics, losses


@torch.no_grad()
def predict_in_lanes(
    backbone: nn.Module,
    values: Values,
    statistics: Values,
    constants: Values,
    images: Tensor,
    settings: AdaptationSettings,
    *,
    query_statistics: Statistics,
    support_rows: int,
) -> Tensor:
    """Logits (T, Q, N) of the images (T, support_rows + Q, C, H, W) under T tasks' values."""
    tasks, width = len(images), lane_width(backbone, images)
    way = len(values[HEAD_BIAS]) // tasks
    network = task_network(backbone, width)

    def make() -> _QueryLane:
        one_value, one_average = (
            {name: _for_tasks(width, value, tasks).zero_() for name, value in each.items()}
            for each in (values, statistics)
        )
        lane = _QueryLane(network, one_value, one_average, constants, images, settings)
        lane.record_query(query_statistics, support_rows)
        return lane

    kind = (query_statistics, support_rows)
    lanes = _lanes(backbone, kind, settings, images, way, make, backward=False)
    logits = values[HEAD_BIAS].new_empty(tasks, images.shape[1] - support_rows, way)
    for lane, piece in _share_out(lanes, tasks, width):
        part = slice(0, piece.stop - piece.start)
        for of_lane, all_tasks in ((lane.values, values), (lane.statistics, statistics)):
            _copy_tasks(of_lane, width, part, all_tasks, tasks, piece)
        lane.take(constants)
        lane.take_images(images[piece])
        logits[piece].copy_(lane.query()[part])
    return logits


class _Lane:
    """Tensors of W tasks that stay where they are, and the track on which passes change them."""

    def __init__(
        self,
        network: TaskNetwork,
        values: Values,
        statistics: Values,
        constants: Values,
        images: Tensor,
        settings: AdaptationSettings,
    ):
        self.network, self.settings = network, settings
        self.values = {name: value.clone() for name, value in values.items()}
        self.statistics = {name: value.clone() for name, value in statistics.items()}
        self.constants = {name: value.clone() for name, value in constants.items()}
        self.tensors = {**self.values, **self.statistics, **self.constants}
        one_task = images[:1].expand(network.tasks, *images.shape[1:])
        self.images = network.wide(one_task)  # (B, W * C, H, W)
        self.track = Track(images.device)

    def take(self, given: Values) -> None:
        """Copy tensors of W tasks to those of the same names."""
        if not given:
            return
        torch._foreach_copy_([self.tensors[name] for name in given], list(given.values()))

    def take_images(self, images: Tensor) -> None:
        """Copy the images (t, B, C, H, W) of the first t <= W tasks."""
        rows, _, *size = self.images.shape
        by_task = self.images.view(rows, self.network.tasks, -1, *size)
        by_task[:, : len(images)].copy_(images.transpose(0, 1))


class _SupportLane(_Lane):
    labels: Tensor  # (W, S)
    first_step: Callable[[], Tensor]
    later_step: Callable[[], Tensor]

    def record_steps(self, labels: Tensor, adapting: list[str], first_adapting: list[str]) -> None:
        self.labels = labels[:1].repeat(self.network.tasks, 1)
        self.later_step = self.track.record(lambda: self._step(adapting))
        self.first_step = self.later_step
        if first_adapting != adapting:
            self.first_step = self.track.record(lambda: self._step(first_adapting))

    @torch.enable_grad()
    def _step(self, adapting: list[str]) -> Tensor:
        leaves = {n: v.requires_grad_() if n in adapting else v for n, v in self.values.items()}
        loss, gradients = support_pass(
            self.network,
            leaves,
            {**self.constants, **self.statistics},
            self.images,
            self.labels,
            self.settings,
            adapting=adapting,
        )
        descend(leaves, adapting, gradients, self.settings.inner_lr)
        for value in leaves.values():
            value.requires_grad_(False)
        return loss


class _QueryLane(_Lane):
    query: Callable[[], Tensor]

    def record_query(self, statistics: Statistics, support_rows: int) -> None:
        self.query = self.track.record(
            lambda: query_pass(
                self.network,
                self.values,
                {**self.constants, **self.statistics},
                self.images,
                self.settings,
                statistics=statistics,
                support_rows=support_rows,
                drop=False,
            )
        )


_Kind = TypeVar("_Kind", bound=_Lane)
_made: WeakKeyDictionary[nn.Module, dict[Hashable, list[_Lane]]] = WeakKeyDictionary()


def _lanes(
    backbone: nn.Module,
    kind: Hashable,
    settings: AdaptationSettings,
    images: Tensor,
    way: int,
    make: Callable[[], _Kind],
    *,
    backward: bool,
) -> list[_Kind]:
    """The lanes for such passes, made when they are needed and memory allows."""
    width = lane_width(backbone, images)
    key = (
        kind,
        backward,
        way,
        width,
        images.shape[1:],
        images.dtype,
        images.device,
        settings.normalization,
        settings.precision,
        settings.drop,
        settings.compile,
    )
    kinds = _made.setdefault(backbone, {})
    lanes = kinds.pop(key, [])
    kinds[key] = lanes  # last: the one used most recently
    while len(kinds) > _KINDS_KEPT:
        for lane in kinds.pop(next(iter(kinds))):
            lane.track.wait()
    wanted = min(_MOST_LANES, -(-len(images) // width))
    if len(lanes) < wanted:
        fitting = lanes_that_fit(backbone, images, settings.precision, backward=backward)
        wanted = min(wanted, max(1, len(lanes) + fitting))
    while len(lanes) < wanted:
        try:
            lanes.append(make())
        except torch.OutOfMemoryError:
            if not lanes:
                raise
            logging.getLogger(__name__).warning(
                "The GPU's memory is full; going on with %d tasks at a time.", len(lanes) * width
            )
            torch.cuda.empty_cache()
            break
    return lanes[:wanted]  # type: ignore[return-value]


def _share_out(lanes: list[_Kind], tasks: int, width: int) -> Iterator[tuple[_Kind, slice]]:
    """Give tasks to lanes in turn, each on the lane's track; the caller goes on after all."""
    for lane in lanes:
        lane.track.follow_caller()
    for number, first in enumerate(range(0, tasks, width)):
        lane = lanes[number % len(lanes)]
        with lane.track.running():
            yield lane, slice(first, min(first + width, tasks))
    for lane in lanes:
        lane.track.lead_caller()


def _for_tasks(count: int, example: Tensor, tasks: int) -> Tensor:
    """An empty wide tensor of `count` tasks, like that of `tasks` tasks."""
    shape = (len(example) // tasks * count, *example.shape[1:])
    layout = torch.channels_last if example.dim() == 4 else torch.contiguous_format
    return torch.empty(shape, dtype=example.dtype, device=example.device, memory_format=layout)


def _copy_tasks(
    to: Values, to_tasks: int, to_part: slice, source: Values, tasks: int, part: slice
) -> None:
    """Copy some tasks' part of wide tensors to another part of wide tensors."""
    torch._foreach_copy_(
        [value.view(to_tasks, -1, *value.shape[1:])[to_part] for value in to.values()],
        [source[name].view(tasks, -1, *source[name].shape[1:])[part] for name in to],
    )
