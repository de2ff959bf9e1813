"""Remedies against formulas that are written out."""

import pytest
import torch

from tasks import random_tasks, small_maml
from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.methods.permutations import all_orders, permuted_logits, rotations
from unicorn_maml.methods.remedies import RemediedMAML, averaged, select, support_scores
from unicorn_maml.methods.scoring import predict


def test_averaged_predictions_are_the_logarithm_of_the_mean_probability():
    torch.manual_seed(0)
    logits = torch.randn(2, 6, 4, 3, dtype=torch.float64)
    expected = logits.softmax(-1).mean(1).log()
    torch.testing.assert_close(averaged(logits), expected)


def test_support_scores_are_accuracies_and_negative_losses_of_each_permutation():
    torch.manual_seed(0)
    orders = all_orders(3)
    labels = torch.tensor([[0, 1, 2, 0], [2, 2, 1, 0]])
    initial = torch.randn(2, 4, 3, dtype=torch.float64)
    updated = torch.randn(2, 6, 4, 3, dtype=torch.float64)
    scores = support_scores(initial, updated, labels, orders)
    for task in range(2):
        for place, order in enumerate(orders):
            right, loss = {"initial": 0.0, "updated": 0.0}, {"initial": 0.0, "updated": 0.0}
            for image in range(4):
                label = labels[task, image]
                for when, row, slot in (
                    ("initial", initial[task, image], order[label]),
                    ("updated", updated[task, place, image], label),
                ):
                    right[when] += float(row.argmax() == slot) / 4
                    loss[when] -= float(row.softmax(0)[slot].log()) / 4
            for when in right:
                assert float(scores[f"{when}-accuracy"][task, place]) == pytest.approx(right[when])
                assert float(scores[f"{when}-loss"][task, place]) == pytest.approx(-loss[when])


def test_of_equal_permutations_the_given_one_is_selected():
    assert select(torch.tensor([[1.0, 1.0, 0.5], [0.0, 2.0, 2.0]])).tolist() == [0, 1]


@pytest.mark.parametrize(("remedy", "orders"), [("ensemble", all_orders), ("rotations", rotations)])
def test_an_ensemble_predicts_the_same_under_every_rotation_of_the_labels(remedy, orders):
    tasks, maml = random_tasks(3), small_maml()
    found = predict(RemediedMAML(maml, remedy), tasks)
    each = permuted_logits(maml, tasks, orders(3)).query.softmax(-1)
    torch.testing.assert_close(found.exp(), each.mean(1))
    assert (each - each[:, :1]).abs().max() > 1e-4, "the permutations alone differ"
    for turn in (1, 2):
        support = (tasks.support_labels + turn) % 3
        query = (tasks.query_labels + turn) % 3
        turned = TaskBatch(tasks.support_images, support, tasks.query_images, query, tasks.way)
        again = predict(RemediedMAML(maml, remedy), turned)
        torch.testing.assert_close(again.roll(-turn, -1), found)


@pytest.mark.parametrize(
    "remedy", ["initial-accuracy", "initial-loss", "updated-accuracy", "updated-loss"]
)
def test_a_selection_predicts_what_one_of_the_permutations_predicts(remedy):
    tasks, maml = random_tasks(3), small_maml()
    found = predict(RemediedMAML(maml, remedy), tasks)
    each = permuted_logits(maml, tasks, all_orders(3)).query
    distances = (each - found.unsqueeze(1)).abs().amax((-1, -2))
    assert (distances.amin(1) < 1e-9).all()
