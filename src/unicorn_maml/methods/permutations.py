"""One task under many assignments of its classes to slots.

An order is a row (N,) that gives each class its slot. Permuting the labels of a task is the same as
permuting the slots of the head, so the permutations of a task are tasks like any others, and run
side by side.
"""

from dataclasses import dataclass, replace
from itertools import permutations
from math import factorial

import numpy as np
import torch
from torch import Tensor

from unicorn_maml.adaptation.pieces import run_in_pieces
from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.errors import UsageError
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.method import Prediction

__all__ = [
    "MOST_EXACT",
    "PermutedLogits",
    "all_orders",
    "initial_support_logits",
    "permuted_copies",
    "permuted_logits",
    "rotations",
    "sampled_orders",
]

MOST_EXACT = 120  # permutations that are all tried: those of five ways


def all_orders(
    way: int, *, otherwise: str = "take a network that was meta-trained for at most 5 ways"
) -> Tensor:
    """All N! orders (N!, N), the rotations first; if they are too many, `otherwise` is advised."""
    if factorial(way) > MOST_EXACT:
        raise UsageError(
            f"{way}-way tasks have {factorial(way)} permutations, too many to try them all; "
            f"{otherwise}."
        )
    first = map(tuple, rotations(way).tolist())
    return torch.tensor(list(dict.fromkeys([*first, *permutations(range(way))])))


def sampled_orders(way: int, count: int, seed: int) -> Tensor:
    """Different orders (count, N) drawn at random, the given one first."""
    if count > factorial(way):
        raise UsageError(
            f"{way}-way tasks have {factorial(way)} permutations, fewer than --sample {count}."
        )
    random = np.random.Philox(key=seed)
    drawn = dict.fromkeys([tuple(range(way))])
    while len(drawn) < count:
        drawn.setdefault(tuple(np.argsort(random.random_raw(way), kind="stable").tolist()))
    return torch.tensor(list(drawn))


def rotations(way: int) -> Tensor:
    """The N orders (N, N) that move all classes by as many slots, the given one first."""
    slots = torch.arange(way)
    return (slots[None, :] + slots[:, None]) % way


def permuted_copies(tasks: TaskBatch, orders: Tensor) -> TaskBatch:
    """T tasks, P orders (P, N) -> T * P tasks: the copies of the first one, of the second one..."""
    orders = orders.to(tasks.support_labels.device)

    def copies(images: Tensor) -> Tensor:
        return images.unsqueeze(1).expand(-1, len(orders), *images.shape[1:]).flatten(0, 1)

    def labels(given: Tensor) -> Tensor:
        return orders[:, given].transpose(0, 1).flatten(0, 1)

    return TaskBatch(
        support_images=copies(tasks.support_images),
        support_labels=labels(tasks.support_labels),
        query_images=copies(tasks.query_images),
        query_labels=labels(tasks.query_labels),
        way=tasks.way,
    )


@dataclass(frozen=True)
class PermutedLogits:
    """What P permutations of T tasks predict, in the order of classes, not of slots."""

    query: Tensor  # (T, P, Q, N)
    support: Tensor | None  # (T, P, S, N), predicted as query images are


@torch.no_grad()
def permuted_logits(
    method: MAML, tasks: TaskBatch, orders: Tensor, *, with_support: bool = False
) -> PermutedLogits:
    """Adapt to all permutations of the tasks, as many at once as the device likes."""
    method.eval()
    copies = permuted_copies(tasks, orders)
    slots = orders.to(copies.support_labels.device)

    def one_piece(piece: slice) -> tuple[Prediction, Tensor | None]:
        """What a piece predicts for query images and, if asked for, for support images."""
        part = copies[piece]
        adapted = method.adapt(part)
        query = Prediction(adapted.logits(part.query_images), {}, adapted.support_losses)
        return query, adapted.logits(part.support_images) if with_support else None

    at_once = method.tasks_at_once(copies)
    found = run_in_pieces(one_piece, len(copies), at_once, copies.support_images.device)
    for prediction, _ in found:
        method.refuse_divergence(prediction)

    def of_classes(pieces: list[Tensor]) -> Tensor:
        joined = torch.cat(pieces)
        logits = joined.view(len(tasks), len(slots), *joined.shape[1:])  # (T, P, B, N)
        return logits.gather(-1, slots[None, :, None, :].expand_as(logits))

    query = of_classes([prediction.logits for prediction, _ in found])
    support = [logits for _, logits in found if logits is not None]
    return PermutedLogits(query, of_classes(support) if support else None)


@torch.no_grad()
def initial_support_logits(method: MAML, tasks: TaskBatch) -> Tensor:
    """Logits (T, S, N) of the support images before adaptation, in the order of slots.

    All permutations share them: one pass serves every order.
    """
    method.eval()
    still = MAML(method.backbone, method.head, replace(method.adaptation, inner_steps=0))

    def one_piece(piece: slice) -> Tensor:
        part = tasks[piece]
        return still.adapt(part).logits(part.support_images)

    at_once = method.tasks_at_once(tasks)
    return torch.cat(run_in_pieces(one_piece, len(tasks), at_once, tasks.support_images.device))
