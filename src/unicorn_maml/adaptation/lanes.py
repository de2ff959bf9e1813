"""First-order adaptation on a GPU: recorded passes, replayed side by side.

One small network cannot fill a card, and launching its kernels takes longer than running them. So
a pass is recorded once, as a CUDA graph, and replayed, and several lanes, each with a stream and
with memory of its own, run different tasks at the same time. A lane takes `width` tasks in one wide
network. Nothing here waits for the card.
"""

import logging
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from unicorn_maml.adaptation.lane import Lane, MetaLane, QueryLane, SupportLane, Values
from unicorn_maml.adaptation.network import TaskNetwork, can_widen, task_network
from unicorn_maml.adaptation.normalization import Statistics
from unicorn_maml.adaptation.passes import HEAD_BIAS, HEAD_WEIGHT
from unicorn_maml.adaptation.plan import lane_width, lanes_that_fit
from unicorn_maml.settings import AdaptationSettings

__all__ = [
    "MetaGradient",
    "adapt_in_lanes",
    "meta_gradient_in_lanes",
    "predict_in_lanes",
    "runs_in_lanes",
]

_MOST_LANES = 8  # on an H200 four are up to a tenth slower, and more are no faster
_KINDS_KEPT = 4  # recordings hold memory, and a program seldom goes back to earlier shapes


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
    tasks, width = len(support_images), lane_width(backbone, support_images)
    start = _Start.of(backbone, head, width)

    def make() -> SupportLane:
        lane = SupportLane(*start, support_images, settings)
        lane.record_steps(support_labels, adapting, first_adapting)
        return lane

    kind = (settings.inner_lr, tuple(adapting), tuple(first_adapting))
    lanes = _lanes(
        backbone, kind, settings, support_images, len(head[1]), width, make, backward=True
    )
    values = {name: _for_tasks(tasks, value, width) for name, value in start.values.items()}
    averages = {name: _for_tasks(tasks, value, width) for name, value in start.statistics.items()}
    losses = head[1].new_empty(settings.inner_steps, tasks)
    for lane, piece in _share_out(lanes, tasks, width):
        lane.adapt(start.all(), support_images[piece], support_labels[piece], losses[:, piece])
        part = slice(0, piece.stop - piece.start)
        for all_tasks, of_lane in ((values, lane.values), (averages, lane.statistics)):
            _copy_tasks(all_tasks, tasks, piece, of_lane, width, part)
    return values, averages, losses


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

    def make() -> QueryLane:
        one_value, one_average = (
            {name: _for_tasks(width, value, tasks).zero_() for name, value in each.items()}
            for each in (values, statistics)
        )
        lane = QueryLane(network, one_value, one_average, constants, images, settings)
        lane.record_query(query_statistics, support_rows)
        return lane

    kind = (query_statistics, support_rows)
    lanes = _lanes(backbone, kind, settings, images, way, width, make, backward=False)
    logits = values[HEAD_BIAS].new_empty(tasks, images.shape[1] - support_rows, way)
    for lane, piece in _share_out(lanes, tasks, width):
        part = slice(0, piece.stop - piece.start)
        for of_lane, all_tasks in ((lane.values, values), (lane.statistics, statistics)):
            _copy_tasks(of_lane, width, part, all_tasks, tasks, piece)
        lane.take(constants)
        lane.take_images(images[piece])
        logits[piece].copy_(lane.query()[part])
    return logits


@dataclass(frozen=True)
class MetaGradient:
    """What T tasks contribute to an update of first order."""

    gradients: Values  # of their mean query loss
    logits: Tensor  # (T, Q, N), of the query images
    statistics: Values  # running averages that the tasks left, wide
    support_losses: Tensor  # (M, T)


@torch.no_grad()
def meta_gradient_in_lanes(
    backbone: nn.Module,
    head: tuple[Tensor, Tensor],
    support: tuple[Tensor, Tensor],
    query: tuple[Tensor, Tensor],
    settings: AdaptationSettings,
    *,
    adapting: list[str],
    first_adapting: list[str],
    wanted: list[str],
    query_statistics: Statistics,
    support_rows: int,
    temperature: float,
) -> MetaGradient:
    """The gradient of T tasks' mean query loss with respect to the first values that are `wanted`.

    `support` and `query` are images and labels; the query images stand behind `support_rows`
    support images. What a task adapts to and what it is asked runs in one lane, so that its
    adapted values never leave it.
    """
    (support_images, support_labels), (images, labels) = support, query
    tasks, way = len(images), len(head[1])
    width = min(tasks, lane_width(backbone, images))
    start = _Start.of(backbone, head, width)

    def make() -> MetaLane:
        lane = MetaLane(*start, support_images, settings)
        lane.record_steps(support_labels, adapting, first_adapting)
        lane.record_query(
            images,
            labels,
            wanted,
            statistics=query_statistics,
            support_rows=support_rows,
            temperature=temperature,
        )
        return lane

    steps = (settings.inner_lr, support_images.shape[1], tuple(adapting), tuple(first_adapting))
    kind = (steps, tuple(wanted), query_statistics, support_rows, temperature)
    lanes = _lanes(backbone, kind, settings, images, way, width, make, backward=True)
    averages = {name: _for_tasks(tasks, value, width) for name, value in start.statistics.items()}
    losses = head[1].new_empty(settings.inner_steps, tasks)
    logits = head[1].new_empty(tasks, images.shape[1] - support_rows, way)
    for lane in lanes:
        lane.forget_sums()
    for lane, piece in _share_out(lanes, tasks, width):
        part = slice(0, piece.stop - piece.start)
        lane.adapt(start.all(), support_images[piece], support_labels[piece], losses[:, piece])
        logits[piece].copy_(lane.query(images[piece], labels[piece])[part])
        _copy_tasks(averages, tasks, piece, lane.statistics, width, part)
    sums = lanes[0].sums
    for lane in lanes[1:]:
        torch._foreach_add_(list(sums.values()), list(lane.sums.values()))
    first = {**dict(backbone.named_parameters()), HEAD_WEIGHT: head[0], HEAD_BIAS: head[1]}
    # In the layout of the parameters, or else an optimiser takes them one by one.
    gradients = {name: torch.empty_like(first[name]) for name in wanted}
    for name, place in gradients.items():
        torch.sum(sums[name].view(width, *place.shape), 0, out=place)
    torch._foreach_div_(list(gradients.values()), tasks)
    return MetaGradient(gradients, logits, averages, losses)


class _Start(NamedTuple):
    """What a lane of W tasks begins with, wide."""

    network: TaskNetwork
    values: Values
    statistics: Values
    constants: Values

    @classmethod
    def of(cls, backbone: nn.Module, head: tuple[Tensor, Tensor], width: int) -> "_Start":
        network = task_network(backbone, width)
        values = network.parameters_of(backbone)
        values[HEAD_WEIGHT], values[HEAD_BIAS] = head[0].repeat(width, 1), head[1].repeat(width)
        return cls(
            network, values, network.statistics_of(backbone), network.other_buffers_of(backbone)
        )

    def all(self) -> Values:
        return {**self.values, **self.statistics, **self.constants}


_Kind = TypeVar("_Kind", bound=Lane)


@dataclass
class _Made:
    """The lanes for passes of one kind."""

    lanes: list[Lane]
    no_room_for_more: bool = False


_made: WeakKeyDictionary[nn.Module, dict[Hashable, _Made]] = WeakKeyDictionary()


def _lanes(
    backbone: nn.Module,
    kind: Hashable,
    settings: AdaptationSettings,
    images: Tensor,
    way: int,
    width: int,
    make: Callable[[], _Kind],
    *,
    backward: bool,
) -> list[_Kind]:
    """The lanes for such passes, made when they are needed and memory allows."""
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
    made = kinds.pop(key, _Made([]))
    kinds[key] = made  # last: the one used most recently
    _forget_all_but(_KINDS_KEPT, kinds)
    lanes = made.lanes
    # Recordings share the state of the random numbers that drop layers draw: one at a time.
    most = 1 if settings.drop else _MOST_LANES
    wanted = min(most, -(-len(images) // width))
    if made.no_room_for_more:
        wanted = min(wanted, len(lanes))
    if len(lanes) < wanted:
        fitting = lanes_that_fit(backbone, images, width, settings.precision, backward=backward)
        wanted = min(wanted, max(1, len(lanes) + fitting))
    while len(lanes) < wanted:
        try:
            lanes.append(make())
            continue
        except torch.OutOfMemoryError:
            if not lanes and len(kinds) == 1:
                raise
        # Out here, because an error that is being handled holds on to the memory of its frames.
        if not lanes:
            _forget_all_but(1, kinds)
        torch.cuda.empty_cache()
        if lanes:
            made.no_room_for_more = True
            logging.getLogger(__name__).warning(
                "The GPU's memory is full; going on with %d tasks at a time.", len(lanes) * width
            )
            break
    return lanes[:wanted]  # type: ignore[return-value]


def _forget_all_but(number: int, kinds: dict[Hashable, _Made]) -> None:
    """Let go of the lanes that were not used for longest."""
    while len(kinds) > number:
        for lane in kinds.pop(next(iter(kinds))).lanes:
            lane.track.wait()


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
