"""What can be done at meta-test about a head whose slots start differently.

Ye & Chao (ICLR 2022) try three remedies for MAML's dependence on the order of classes: to select a
permutation by what it makes of the support set (which does not help), to average the predictions of
all or of the N rotated permutations, and to start all slots from their mean, which is the head
`average`.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.method import Method, Prediction
from unicorn_maml.methods.permutations import (
    all_orders,
    initial_support_logits,
    permuted_logits,
    rotations,
)
from unicorn_maml.settings import Remedy

__all__ = ["RemediedMAML", "SupportScores", "averaged", "select", "support_scores"]

SupportScores = dict[str, Tensor]  # (T, P) each, larger is better


class RemediedMAML(Method):
    """MAML that solves every task under many permutations and makes one prediction of them."""

    def __init__(self, maml: MAML, remedy: Remedy):
        super().__init__(maml.backbone, maml.precision)
        self.maml, self.remedy = maml, remedy

    def forward(self, tasks: TaskBatch) -> Prediction:
        """Predict the query images; logits are log-probabilities where predictions are averaged."""
        orders = self.orders(tasks.way)
        if self.remedy in ("ensemble", "rotations"):
            return Prediction(averaged(permuted_logits(self.maml, tasks, orders).query), {})
        found = permuted_logits(self.maml, tasks, orders, with_support=True)
        assert found.support is not None
        first = initial_support_logits(self.maml, tasks)
        scores = support_scores(first, found.support, tasks.support_labels, orders)
        chosen = select(scores[self.remedy])
        return Prediction(found.query[torch.arange(len(tasks)), chosen], {})

    def tasks_at_once(self, tasks: TaskBatch) -> int:
        """As many tasks as have their permutations fit into one call."""
        return max(1, self.maml.tasks_at_once(tasks) // len(self.orders(tasks.way)))

    def orders(self, way: int) -> Tensor:
        """The permutations that are tried, as `permuted_copies` takes them."""
        if self.remedy == "rotations":
            return rotations(way)
        return all_orders(way, otherwise="take the remedy `rotations`, or the head `average`")


def averaged(logits: Tensor) -> Tensor:
    """Logits (T, P, Q, N) of P permutations -> logarithms (T, Q, N) of their mean probabilities."""
    return F.log_softmax(logits, -1).logsumexp(1) - math.log(logits.shape[1])


def support_scores(
    initial: Tensor, updated: Tensor, labels: Tensor, orders: Tensor
) -> SupportScores:
    """How well each permutation does on the support set, by four rules.

    `initial` (T, S, N) is in the order of slots, `updated` (T, P, S, N) in that of classes, labels
    (T, S) are classes.
    """
    slots = orders.to(labels.device)[:, labels].transpose(0, 1)  # (T, P, S)
    first = initial.unsqueeze(1).expand(-1, len(orders), -1, -1)
    classes = labels.unsqueeze(1).expand_as(slots)
    scores = {}
    for when, logits, wanted in (("initial", first, slots), ("updated", updated, classes)):
        right = logits.argmax(-1) == wanted
        scores[f"{when}-accuracy"] = right.double().mean(-1)
        scores[f"{when}-loss"] = (
            F.log_softmax(logits, -1).gather(-1, wanted.unsqueeze(-1)).mean((-1, -2))
        )
    return scores


def select(scores: Tensor) -> Tensor:
    """Scores (T, P) -> the best permutation of each task (T,); of equals the first one wins."""
    return scores.argmax(1)
