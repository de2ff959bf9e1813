"""MAML: an initialisation from which a few steps of gradient descent fit a new task.

Finn, Abbeel & Levine, "Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks",
ICML 2017; first order by default, with many steps and a pre-trained backbone, as in Ye & Chao,
"How to Train Your MAML to Excel in Few-Shot Classification", ICLR 2022.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unicorn_maml.adaptation.engine import (
    AdaptedTasks,
    OnStep,
    adapt,
    meta_gradient,
    refuse_divergence,
    slots_are_equal,
)
from unicorn_maml.adaptation.head_only import adapt_head
from unicorn_maml.adaptation.lanes import runs_in_lanes
from unicorn_maml.adaptation.passes import HEAD
from unicorn_maml.adaptation.plan import tasks_at_once, tasks_in_lanes
from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.errors import DivergedError
from unicorn_maml.methods.method import Method, Prediction
from unicorn_maml.models.heads import Head
from unicorn_maml.settings import AdaptationSettings, HeadKind

__all__ = ["MAML"]


class MAML(Method):
    """Adapts `backbone` and `head` to every task.

    In training mode queries are normalised as in meta-training.
    """

    trained_head: HeadKind = "per-slot"

    def __init__(self, backbone: nn.Module, head: Head, adaptation: AdaptationSettings):
        super().__init__(backbone, adaptation.precision)
        self.head, self.adaptation = head, adaptation

    @property
    def has_fixed_features(self) -> bool:
        """As the inner loop says."""
        return self.adaptation.keeps_features

    def forward(self, tasks: TaskBatch) -> Prediction:
        """Adapt to the support sets and predict the query images."""
        adapted = self.adapt(tasks)
        logits = adapted.logits(tasks.query_images, meta_training=self.training)
        return Prediction(logits, adapted.statistics, adapted.support_losses)

    def adapt(self, tasks: TaskBatch, on_step: OnStep | None = None) -> AdaptedTasks:
        """Adapt to the support sets; `on_step` is as for the engine's `adapt`."""
        return adapt(
            self.backbone,
            self.head(tasks.way),
            tasks.support_images,
            tasks.support_labels,
            self.adaptation,
            on_step=on_step,
        )

    def meta_gradients(
        self, tasks: TaskBatch, *, temperature: float
    ) -> tuple[Prediction, list[Tensor | None]]:
        """Predict, and return the gradients of the mean query loss at a temperature.

        One for every parameter that requires it, in order; `None` if it has no part in the loss.
        """
        if self.adaptation.order == 1 and runs_in_lanes(self.backbone, tasks.support_images):
            return self._recorded_gradients(tasks, temperature)
        prediction = self(tasks)
        loss = F.cross_entropy(
            prediction.logits.flatten(0, 1) / temperature, tasks.query_labels.flatten()
        )
        parameters = [value for value in self.parameters() if value.requires_grad]
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        kept = Prediction(
            prediction.logits.detach(), prediction.statistics, prediction.support_losses
        )
        return kept, list(gradients)

    def _recorded_gradients(
        self, tasks: TaskBatch, temperature: float
    ) -> tuple[Prediction, list[Tensor | None]]:
        head = self.head(tasks.way)
        found = meta_gradient(
            self.backbone,
            head,
            (tasks.support_images, tasks.support_labels),
            (tasks.query_images, tasks.query_labels),
            self.adaptation,
            temperature=temperature,
        )
        to_first = [found.gradients.pop(name) for name in HEAD]
        gradients: dict[str, Tensor | None] = {
            f"backbone.{name}": value for name, value in found.gradients.items()
        }
        of_head = {n: v for n, v in self.head.named_parameters("head") if v.requires_grad}
        if of_head:
            to_head = torch.autograd.grad(head, list(of_head.values()), to_first, allow_unused=True)
            gradients |= dict(zip(of_head, to_head, strict=True))
        prediction = Prediction(found.logits, found.statistics, found.support_losses)
        return prediction, [
            gradients[name] for name, value in self.named_parameters() if value.requires_grad
        ]

    def from_features(self, tasks: TaskBatch) -> Tensor:
        """Adapt the head to the support features and predict the query features."""
        weight, bias = adapt_head(
            self.head(tasks.way), tasks.support_images, tasks.support_labels, self.adaptation
        )
        logits = tasks.query_images @ weight.transpose(1, 2) + bias.unsqueeze(1)
        if not logits.isfinite().all():
            raise self._diverged()
        if not self.adaptation.inner_steps and slots_are_equal(weight, bias):
            return logits[..., :1].expand_as(logits)  # a tie, as for the engine
        return logits

    def refuse_divergence(self, prediction: Prediction) -> None:
        """Raise if the inner loop diverged: whatever is not finite ends in the logits."""
        if not prediction.logits.isfinite().all():
            assert prediction.support_losses is not None
            refuse_divergence(prediction.support_losses, self.adaptation)
            raise self._diverged()

    def _diverged(self) -> DivergedError:
        return DivergedError(
            f"The query logits are not finite after {self.adaptation.inner_steps} inner steps; "
            f"try a smaller --inner-lr, such as {self.adaptation.inner_lr / 10:g}."
        )

    def tasks_at_once(self, tasks: TaskBatch) -> int:
        """How many tasks to put into one call; the graphs of second order take their memory."""
        second_order = self.training and self.adaptation.order == 2
        if not second_order and runs_in_lanes(self.backbone, tasks.support_images):
            return tasks_in_lanes(self.backbone, tasks.support_images)
        return tasks_at_once(
            self.backbone,
            tasks.support_images,
            more_images=tasks.query_images.shape[1],
            kept_steps=self.adaptation.inner_steps if second_order else 0,
        )
