"""The inner loop: gradient descent on the support sets of T tasks at once."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unicorn_maml.adaptation.network import task_network
from unicorn_maml.adaptation.normalization import query_statistics
from unicorn_maml.adaptation.plan import tasks_at_once
from unicorn_maml.errors import DivergedError
from unicorn_maml.settings import AdaptationSettings

__all__ = ["AdaptedTasks", "OnStep", "adapt"]

# Names beside those of the backbone's parameters; a parameter's own name never holds a blank.
HEAD_WEIGHT, HEAD_BIAS = "head weight", "head bias"


@dataclass(frozen=True)
class AdaptedTasks:
    """T adapted networks; `adapted[2:5]` are three of them.

    `values` maps names to the backbones' parameters, wide `(T * out, ...)`, and to the heads'
    weights `(T, N, D)` and biases `(T, N)`.
    """

    backbone: nn.Module
    settings: AdaptationSettings
    values: dict[str, Tensor]
    statistics: dict[str, Tensor]  # running averages as the support passes left them, (T * C,)
    constants: dict[str, Tensor]  # buffers that no task changes
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
            {
                name: value[tasks] if name in (HEAD_WEIGHT, HEAD_BIAS) else part(value)
                for name, value in self.values.items()
            },
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
        at_once = tasks_at_once(self.backbone, images)
        if len(images) > at_once:
            pieces = [slice(i, i + at_once) for i in range(0, len(images), at_once)]
            return torch.cat(
                [self[part].logits(images[part], meta_training=meta_training) for part in pieces]
            )
        network = task_network(self.backbone, len(images))
        statistics = query_statistics(self.settings.normalization, meta_training=meta_training)
        wide = network.wide(images)
        support_rows = 0
        if statistics == "support":
            support_rows = self.support_images.shape[1]
            wide = torch.cat([network.wide(self.support_images), wide])
        averages = self.statistics
        if not meta_training:
            averages = {name: value.clone() for name, value in averages.items()}
        features = network.features(
            {**_without_head(self.values), **self.constants, **averages},
            wide,
            statistics=statistics,
            support_rows=support_rows,
            precision=self.settings.precision,
        )
        return _head_logits(self.values, features[:, support_rows:])


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
    the state is valid only during that call.
    """
    differentiable = torch.is_grad_enabled()
    second_order = settings.order == 2 and differentiable
    tasks, way = len(support_images), len(head[1])
    network = task_network(backbone, tasks)
    start = network.parameters_of(backbone)
    trainable = {name for name, value in backbone.named_parameters() if value.requires_grad}
    adapting = [name for name in start if name in trainable and settings.adapt == "all"]
    start[HEAD_WEIGHT] = head[0].expand(tasks, -1, -1)
    start[HEAD_BIAS] = head[1].expand(tasks, way)
    adapting += [HEAD_WEIGHT, HEAD_BIAS]

    statistics = network.statistics_of(backbone)
    constants = network.other_buffers_of(backbone)
    wide_support = network.wide(support_images)
    losses: list[Tensor] = []

    def state(values: dict[str, Tensor]) -> AdaptedTasks:
        done = torch.stack(losses) if losses else wide_support.new_empty(0, tasks)
        return AdaptedTasks(backbone, settings, values, statistics, constants, support_images, done)

    with torch.enable_grad():
        values = _leaves(start, adapting, keep_graph=second_order)
        for step in range(settings.inner_steps):
            if on_step:
                with torch.set_grad_enabled(differentiable):
                    on_step(step, state(values))
            features = network.features(
                {**_without_head(values), **constants, **statistics},
                wide_support,
                statistics="running" if settings.normalization == "frozen" else "batch",
                precision=settings.precision,
            )
            loss = _mean_loss(_head_logits(values, features), support_labels)  # (T,)
            losses.append(loss.detach())
            gradients = torch.autograd.grad(
                loss.sum(),  # each task's parameters get the gradient of that task's loss
                [values[name] for name in adapting],
                create_graph=second_order,
                allow_unused=True,
            )
            _descend(values, adapting, gradients, settings.inner_lr, in_place=not second_order)
        if differentiable and not second_order:
            values = _reattach(start, values, adapting)
    adapted = state(values)
    _refuse_divergence(adapted.support_losses, settings)
    if on_step:
        on_step(settings.inner_steps, adapted)
    return adapted


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


def _descend(
    values: dict[str, Tensor],
    adapting: list[str],
    gradients: tuple[Tensor | None, ...],
    rate: float,
    *,
    in_place: bool,
) -> None:
    used = [(name, g) for name, g in zip(adapting, gradients, strict=True) if g is not None]
    if in_place:  # keeps the memory layout, which a sum with a gradient would not
        with torch.no_grad():
            torch._foreach_add_(
                [values[name] for name, _ in used], [g for _, g in used], alpha=-rate
            )
    else:
        for name, gradient in used:
            values[name] = values[name] - rate * gradient


def _reattach(
    start: dict[str, Tensor], values: dict[str, Tensor], adapting: list[str]
) -> dict[str, Tensor]:
    """First order: the adapted values, with the gradient of `start` plus a constant."""
    return {
        name: values[name].detach() + (value - value.detach()) if name in adapting else value
        for name, value in start.items()
    }


def _without_head(values: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k: v for k, v in values.items() if k not in (HEAD_WEIGHT, HEAD_BIAS)}


def _head_logits(values: dict[str, Tensor], features: Tensor) -> Tensor:
    """Features (T, B, D) -> logits (T, B, N)."""
    return features @ values[HEAD_WEIGHT].transpose(1, 2) + values[HEAD_BIAS].unsqueeze(1)


def _mean_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Logits (T, S, N) and labels (T, S) -> the mean cross-entropy of each task (T,)."""
    losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    return losses.view(labels.shape).mean(1)


def _refuse_divergence(losses: Tensor, settings: AdaptationSettings) -> None:
    """Look once, after the loop, so that a GPU never waits inside it."""
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
