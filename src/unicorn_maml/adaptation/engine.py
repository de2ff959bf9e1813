"""The inner loop: gradient descent on the support sets of T tasks at once."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unicorn_maml.adaptation.lanes import (
    MetaGradient,
    adapt_in_lanes,
    meta_gradient_in_lanes,
    predict_in_lanes,
    runs_in_lanes,
)
from unicorn_maml.adaptation.network import task_network
from unicorn_maml.adaptation.normalization import Statistics, query_statistics
from unicorn_maml.adaptation.passes import (
    HEAD,
    HEAD_BIAS,
    HEAD_WEIGHT,
    descend,
    query_pass,
    support_pass,
)
from unicorn_maml.adaptation.plan import lane_width, tasks_at_once
from unicorn_maml.errors import DivergedError
from unicorn_maml.settings import AdaptationSettings

__all__ = [
    "AdaptedTasks",
    "OnStep",
    "adapt",
    "meta_gradient",
    "refuse_divergence",
    "slots_are_equal",
]


@dataclass(frozen=True)
class AdaptedTasks:
    """T adapted networks; `adapted[2:5]` are three of them.

    `values` maps names to the backbones' parameters, wide `(T * out, ...)`, and to the heads'
    weights `(T * N, D)` and biases `(T * N,)`.
    """

    backbone: nn.Module
    settings: AdaptationSettings
    values: dict[str, Tensor]
    statistics: dict[str, Tensor]  # running averages as the support passes left them, (T * C,)
    constants: dict[str, Tensor]  # the other buffers: counters of drop layers, which no task sees
    support_images: Tensor  # (T, S, C, H, W)
    support_losses: Tensor  # (steps done, T): the mean support loss before each step

    def __len__(self) -> int:
        return len(self.support_images)

    def __getitem__(self, tasks: slice) -> "AdaptedTasks":
        def part(value: Tensor) -> Tensor:
            return value.view(len(self), -1, *value.shape[1:])[tasks].flatten(0, 1)

        return AdaptedTasks(
            self.backbone,
            self.settings,
            {name: part(value) for name, value in self.values.items()},
            {name: part(value) for name, value in self.statistics.items()},
            self.constants,
            self.support_images[tasks],
            self.support_losses[:, tasks],
        )

    def logits(self, images: Tensor, *, meta_training: bool = False) -> Tensor:
        """Logits (T, B, N) of images (T, B, C, H, W), normalised as the policy says.

        In meta-training, query images that are normalised by their own batch also move the running
        averages in `statistics`; at meta-test nothing is moved.
        """
        logits = self._logits(images, meta_training=meta_training)
        if not torch.is_grad_enabled() and self._slots_tie():
            return logits[..., :1].expand_as(logits)  # or else rounding would choose the winner
        return logits

    def _slots_tie(self) -> bool:
        """Whether no step has been made yet and all slots of a task start alike."""
        if len(self.support_losses):
            return False
        heads = (self.values[name] for name in HEAD)
        return slots_are_equal(*(head.view(len(self), -1, *head.shape[1:]) for head in heads))

    def _logits(self, images: Tensor, *, meta_training: bool) -> Tensor:
        statistics = query_statistics(self.settings.normalization, meta_training=meta_training)
        images, support_rows = _behind_support(images, self.support_images, statistics)
        recorded = not meta_training and not torch.is_grad_enabled()
        if recorded and runs_in_lanes(self.backbone, images):
            return predict_in_lanes(
                self.backbone,
                self.values,
                self.statistics,
                self.constants,
                images,
                self.settings,
                query_statistics=statistics,
                support_rows=support_rows,
            )
        # With gradients, many images fill a GPU without a second task.
        on_gpu = images.device.type == "cuda"
        at_once = (lane_width if on_gpu else tasks_at_once)(self.backbone, images)
        pieces = [slice(i, i + at_once) for i in range(0, len(images), at_once)]
        logits = []
        for piece in pieces:
            part = self[piece] if len(pieces) > 1 else self
            network = task_network(self.backbone, len(part))
            averages = part.statistics
            if not meta_training:
                averages = {name: value.clone() for name, value in averages.items()}
            logits.append(
                query_pass(
                    network,
                    part.values,
                    {**self.constants, **averages},
                    network.wide(images[piece]),
                    self.settings,
                    statistics=statistics,
                    support_rows=support_rows,
                    drop=self.settings.drop and meta_training,
                )
            )
        return torch.cat(logits)


def slots_are_equal(*heads: Tensor) -> bool:
    """Whether all slots of each task have the same values, of weights and biases (T, N, ...)."""
    return all(bool((head == head[:, :1]).all()) for head in heads)


OnStep = Callable[[int, AdaptedTasks], None]


def adapt(
    backbone: nn.Module,
    head: tuple[Tensor, Tensor],
    support_images: Tensor,
    support_labels: Tensor,
    settings: AdaptationSettings,
    *,
    on_step: OnStep | None = None,
) -> AdaptedTasks:
    """Adapt T copies of `backbone` and `head` to T support sets.

    `head` is a pair of weights (N, D) and biases (N,); images are (T, S, C, H, W), labels (T, S).
    With gradients enabled, what comes back is differentiable with respect to the parameters of
    backbone and head: exactly so (`order=2`, memory grows with the steps), or as if the inner
    gradients were constants (`order=1`). `on_step(m, tasks)` sees the state after m = 0..M steps;
    the state is valid only during that call. A diverging loop is not noticed here, so that a GPU
    need not be waited for: see `refuse_divergence`.
    """
    differentiable = torch.is_grad_enabled()
    second_order = settings.order == 2 and differentiable
    tasks = len(support_images)
    network = task_network(backbone, tasks)
    adapting, first_adapting = _adapting(backbone, head, settings, second_order=second_order)
    if runs_in_lanes(backbone, support_images) and not differentiable and on_step is None:
        values, statistics, losses = adapt_in_lanes(
            backbone,
            head,
            support_images,
            support_labels,
            settings,
            adapting=adapting,
            first_adapting=first_adapting,
        )
        constants = network.other_buffers_of(backbone)
        return AdaptedTasks(
            backbone, settings, values, statistics, constants, support_images, losses
        )

    start = network.parameters_of(backbone)
    start[HEAD_WEIGHT], start[HEAD_BIAS] = head[0].repeat(tasks, 1), head[1].repeat(tasks)
    statistics = network.statistics_of(backbone)
    # Copies, because drop layers count their calls, and what one task does is not to be seen by
    # the next.
    constants = {name: value.clone() for name, value in network.other_buffers_of(backbone).items()}
    wide_support = network.wide(support_images)
    done: list[Tensor] = []

    def state(values: dict[str, Tensor]) -> AdaptedTasks:
        losses = torch.stack(done) if done else wide_support.new_empty(0, tasks)
        return AdaptedTasks(
            backbone, settings, values, statistics, constants, support_images, losses
        )

    with torch.enable_grad():
        values = _leaves(start, adapting, keep_graph=second_order)
        for step in range(settings.inner_steps):
            if on_step:
                with torch.set_grad_enabled(differentiable):
                    on_step(step, state(values))
            moving = first_adapting if step == 0 else adapting
            loss, gradients = support_pass(
                network,
                values,
                {**constants, **statistics},
                wide_support,
                support_labels,
                settings,
                adapting=moving,
                create_graph=second_order,
            )
            done.append(loss)
            if second_order:
                for name, gradient in zip(moving, gradients, strict=True):
                    if gradient is not None:
                        values[name] = values[name] - settings.inner_lr * gradient
            else:
                descend(values, moving, gradients, settings.inner_lr)
        if differentiable and not second_order:
            values = _reattach(start, values, adapting)
    adapted = state(values)
    if on_step:
        on_step(settings.inner_steps, adapted)
    return adapted


def meta_gradient(
    backbone: nn.Module,
    head: tuple[Tensor, Tensor],
    support: tuple[Tensor, Tensor],
    query: tuple[Tensor, Tensor],
    settings: AdaptationSettings,
    *,
    temperature: float,
) -> MetaGradient:
    """The gradient of T tasks' mean query loss, of first order, where backbone `runs_in_lanes`.

    `support` and `query` are images and labels of T tasks. It is what autograd would make of
    `adapt` and `logits`, without a graph: the gradient at the adapted values.
    """
    statistics = query_statistics(settings.normalization, meta_training=True)
    images, support_rows = _behind_support(query[0], support[0], statistics)
    adapting, first_adapting = _adapting(backbone, head, settings, second_order=False)
    return meta_gradient_in_lanes(
        backbone,
        head,
        support,
        (images, query[1]),
        settings,
        adapting=adapting,
        first_adapting=first_adapting,
        wanted=_trainable(backbone) + HEAD,
        query_statistics=statistics,
        support_rows=support_rows,
        temperature=temperature,
    )


def _behind_support(
    images: Tensor, support_images: Tensor, statistics: Statistics
) -> tuple[Tensor, int]:
    """The images of a query pass, and how many support images stand first among a task's."""
    if statistics != "support":
        return images, 0
    return torch.cat([support_images, images], 1), support_images.shape[1]


def _trainable(backbone: nn.Module) -> list[str]:
    return [name for name, value in backbone.named_parameters() if value.requires_grad]


def _adapting(
    backbone: nn.Module,
    head: tuple[Tensor, Tensor],
    settings: AdaptationSettings,
    *,
    second_order: bool,
) -> tuple[list[str], list[str]]:
    """What the inner loop moves, and what its first step moves.

    Slots that start alike give an image's feature the gradient sum_k (p_k - y_k) w = 0 in the first
    step, so the backbone stays and its backward pass can be left out. (Not of second order: the
    derivative of that gradient is not zero.)
    """
    adapting = (_trainable(backbone) if settings.adapt == "all" else []) + HEAD
    return adapting, HEAD if _slots_are_alike(head) and not second_order else adapting


def _slots_are_alike(head: tuple[Tensor, Tensor]) -> bool:
    """Whether the head gave one vector and one bias to all slots, without copying them."""
    return all(len(value) == 1 or value.stride(0) == 0 for value in head)


def _leaves(
    start: dict[str, Tensor], adapting: list[str], *, keep_graph: bool
) -> dict[str, Tensor]:
    """The values that the inner loop begins with: cut off from `start` unless its graph is kept."""
    values = {}
    for name, value in start.items():
        if not keep_graph:
            value = value.detach()
            if name in adapting:
                value = value.clone()  # it is updated in place
        if name in adapting and not value.requires_grad:
            value = value.detach().requires_grad_()
        values[name] = value
    return values


def _reattach(
    start: dict[str, Tensor], values: dict[str, Tensor], adapting: list[str]
) -> dict[str, Tensor]:
    """First order: the adapted values, with the gradient of `start` plus a constant."""
    return {
        name: values[name].detach() + (value - value.detach()) if name in adapting else value
        for name, value in start.items()
    }


def refuse_divergence(losses: Tensor, settings: AdaptationSettings) -> None:
    """Raise if support losses (M, T) are not finite, naming the first step after which."""
    finite = losses.isfinite().all(1)  # (M,)
    if not finite.all():
        step = int(finite.long().argmin())
        if step == 0:
            raise DivergedError(
                "The support loss was not finite before the first inner step: the weights or the "
                "images are not; if this was meta-training, try a smaller --outer-lr."
            )
        raise DivergedError(
            f"The support loss was no longer finite after {step} inner steps at an inner learning "
            f"rate of {settings.inner_lr:g}; try a smaller --inner-lr, such as "
            f"{settings.inner_lr / 10:g}."
        )
