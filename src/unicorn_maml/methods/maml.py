"""MAML: an initialisation from which a few steps of gradient descent fit a new task.

Finn, Abbeel & Levine, "Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks",
ICML 2017; first order by default, with many steps and a pre-trained backbone, as in Ye & Chao,
"How to Train Your MAML to Excel in Few-Shot Classification", ICLR 2022.
"""

from torch import Tensor, nn

from unicorn_maml.adaptation.engine import adapt, refuse_divergence
from unicorn_maml.adaptation.head_only import adapt_head
from unicorn_maml.adaptation.lanes import runs_in_lanes
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
        """Only with `frozen`: under other policies the task's own images normalise the features."""
        return self.adaptation.adapt == "head" and self.adaptation.normalization == "frozen"

    def forward(self, tasks: TaskBatch) -> Prediction:
        """Adapt to the support sets and predict the query images."""
        adapted = adapt(
            self.backbone,
            self.head(tasks.way),
            tasks.support_images,
            tasks.support_labels,
            self.adaptation,
        )
        logits = adapted.logits(tasks.query_images, meta_training=self.training)
        return Prediction(logits, adapted.statistics, adapted.support_losses)

    def from_features(self, tasks: TaskBatch) -> Tensor:
        """Adapt the head to the support features and predict the query features."""
        weight, bias = adapt_head(
            self.head(tasks.way), tasks.support_images, tasks.support_labels, self.adaptation
        )
        logits = tasks.query_images @ weight.transpose(1, 2) + bias.unsqueeze(1)
        if not logits.isfinite().all():
            raise self._diverged()
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
        if not self.training and runs_in_lanes(self.backbone, tasks.support_images):
            return tasks_in_lanes(self.backbone, tasks.support_images)
        second_order = self.training and self.adaptation.order == 2
        return tasks_at_once(
            self.backbone,
            tasks.support_images,
            more_images=tasks.query_images.shape[1],
            kept_steps=self.adaptation.inner_steps if second_order else 0,
        )
