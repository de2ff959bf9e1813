"""A lane of a GPU: tensors of W tasks that stay where they are, and passes recorded over them."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from unicorn_maml.adaptation.network import TaskNetwork
from unicorn_maml.adaptation.normalization import Statistics
from unicorn_maml.adaptation.passes import descend, query_pass, support_pass
from unicorn_maml.adaptation.track import Track
from unicorn_maml.settings import AdaptationSettings

__all__ = ["Lane", "MetaLane", "QueryLane", "SupportLane", "Values"]

Values = dict[str, Tensor]


class Lane:
    """What all lanes have: values, running averages, other buffers, and a track."""

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
        self.images = self._place_for(images)
        self.track = Track(images.device)

    def _place_for(self, images: Tensor) -> Tensor:
        """A wide tensor (B, W * C, H, W) for such images."""
        return self.network.wide(images[:1].expand(self.network.tasks, *images.shape[1:]))

    def take(self, given: Values) -> None:
        """Copy tensors of W tasks to those of the same names."""
        if not given:
            return
        torch._foreach_copy_([self.tensors[name] for name in given], list(given.values()))

    def take_images(self, images: Tensor) -> None:
        """Copy the images (t, B, C, H, W) of the first t <= W tasks."""
        self._put(images, self.images)

    def _put(self, images: Tensor, place: Tensor) -> None:
        rows, _, *size = place.shape
        by_task = place.view(rows, self.network.tasks, -1, *size)
        by_task[:, : len(images)].copy_(images.transpose(0, 1))

    def _leaves(self, names: list[str]) -> Values:
        return {n: v.requires_grad_() if n in names else v for n, v in self.values.items()}

    def _release(self, leaves: Values) -> None:
        for value in leaves.values():
            value.requires_grad_(False)


class SupportLane(Lane):
    """Adapts."""

    labels: Tensor  # (W, S)
    _first_step: Callable[[], Tensor]
    _later_step: Callable[[], Tensor]

    def record_steps(self, labels: Tensor, adapting: list[str], first_adapting: list[str]) -> None:
        """Record an inner step; the first one moves `first_adapting` alone."""
        self.labels = labels[:1].repeat(self.network.tasks, 1)
        self._later_step = self.track.record(lambda: self._step(adapting))
        self._first_step = self._later_step
        if first_adapting != adapting:
            self._first_step = self.track.record(lambda: self._step(first_adapting))

    def adapt(self, start: Values, images: Tensor, labels: Tensor, losses: Tensor) -> None:
        """Adapt to t <= W tasks, and write their support losses before each step (M, t)."""
        self.take(start)
        self.take_images(images)
        self.labels[: len(labels)].copy_(labels)
        for step, place in enumerate(losses):
            loss = self._first_step() if step == 0 else self._later_step()
            place.copy_(loss[: len(labels)])

    @torch.enable_grad()
    def _step(self, adapting: list[str]) -> Tensor:
        leaves = self._leaves(adapting)
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
        self._release(leaves)
        return loss


class QueryLane(Lane):
    """Predicts with values that are given."""

    query: Callable[[], Tensor]

    def record_query(self, statistics: Statistics, support_rows: int) -> None:
        """Record the query pass."""
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


class MetaLane(SupportLane):
    """Adapts, predicts, and adds up the gradients of the query loss at the adapted values."""

    sums: Values  # of gradients
    _query_images: Tensor
    _query_labels: Tensor  # (W, Q)
    _shares: Tensor  # (W,) of each task in the sum: 0 where there is none
    _query: Callable[[], Tensor]

    def record_query(
        self,
        images: Tensor,
        labels: Tensor,
        wanted: list[str],
        *,
        statistics: Statistics,
        support_rows: int,
        temperature: float,
    ) -> None:
        """Record the query pass and its backward pass to the values that are `wanted`."""
        self.sums = {name: torch.zeros_like(self.values[name]) for name in wanted}
        self._query_images = self._place_for(images)
        self._query_labels = labels[:1].repeat(self.network.tasks, 1)
        example = next(iter(self.values.values()))
        self._shares = example.new_zeros(self.network.tasks)
        self._query = self.track.record(lambda: self._pass(statistics, support_rows, temperature))

    def forget_sums(self) -> None:
        """Begin a new sum."""
        torch._foreach_zero_(list(self.sums.values()))

    def query(self, images: Tensor, labels: Tensor) -> Tensor:
        """Logits (W, Q, N) of t <= W tasks' images; adds to the sums, moves the averages."""
        self._put(images, self._query_images)
        self._query_labels[: len(labels)].copy_(labels)
        self._shares.zero_()[: len(labels)].fill_(1)
        return self._query()

    @torch.enable_grad()
    def _pass(self, statistics: Statistics, support_rows: int, temperature: float) -> Tensor:
        names = list(self.sums)
        leaves = self._leaves(names)
        logits = query_pass(
            self.network,
            leaves,
            {**self.constants, **self.statistics},
            self._query_images,
            self.settings,
            statistics=statistics,
            support_rows=support_rows,
            drop=self.settings.drop,
        )
        losses = F.cross_entropy(
            logits.flatten(0, 1) / temperature, self._query_labels.flatten(), reduction="none"
        )
        loss = losses.view(self._query_labels.shape).mean(1) @ self._shares
        gradients = torch.autograd.grad(loss, [leaves[name] for name in names], allow_unused=True)
        self._release(leaves)
        descend(self.sums, names, gradients, rate=-1)
        return logits.detach()
