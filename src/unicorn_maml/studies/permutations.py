"""How much the result of a task depends on which class gets which slot."""

from collections.abc import Iterator, Sequence
from itertools import permutations

import numpy as np
import torch
from numpy.typing import NDArray

from unicorn_maml.data.batches import TaskBatch, TaskLoader
from unicorn_maml.methods.method import Method
from unicorn_maml.methods.scoring import accuracy_percent, predict

__all__ = ["iterate_permutation_accuracies", "permuted_copies"]


def permuted_copies(task: TaskBatch) -> TaskBatch:
    """One task -> a batch of N! copies of it, one for every assignment of classes to slots."""
    orders = torch.tensor(list(permutations(range(task.way))), device=task.support_labels.device)
    return TaskBatch(
        support_images=task.support_images.expand(len(orders), -1, -1, -1, -1),
        support_labels=orders[:, task.support_labels[0]],
        query_images=task.query_images.expand(len(orders), -1, -1, -1, -1),
        query_labels=orders[:, task.query_labels[0]],
        way=task.way,
    )


def iterate_permutation_accuracies(
    method: Method, loader: TaskLoader, numbers: Sequence[int]
) -> Iterator[NDArray[np.float64]]:
    """Yield, task by task, the query accuracies (N!,) of all assignments, in percent."""
    for number in numbers:
        copies = permuted_copies(loader.load([number]))
        yield accuracy_percent(predict(method, copies), copies.query_labels).cpu().numpy()
