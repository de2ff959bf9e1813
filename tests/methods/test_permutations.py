"""Tasks under permutations of their labels."""

from itertools import permutations
from math import factorial
from threading import Barrier

import pytest
import torch

from tasks import random_tasks, small_maml
from unicorn_maml.adaptation.pieces import worker_number
from unicorn_maml.errors import UsageError
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.permutations import (
    all_orders,
    initial_support_logits,
    permuted_copies,
    permuted_logits,
    rotations,
    sampled_orders,
)
from unicorn_maml.methods.scoring import predict
from unicorn_maml.models.heads import SharedHead


def test_all_orders_are_all_permutations_each_once_with_the_rotations_first():
    orders = all_orders(4).tolist()
    assert orders[:4] == [[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]
    assert len(orders) == 24
    assert {tuple(order) for order in orders} == set(permutations(range(4)))


def test_too_many_permutations_are_refused_with_advice():
    assert len(all_orders(5)) == 120
    with pytest.raises(UsageError, match=r"6-way tasks have 720 permutations.*draw fewer"):
        all_orders(6, otherwise="draw fewer")


def test_sampled_orders_are_different_and_repeatable():
    orders = sampled_orders(6, 50, seed=3)
    assert orders[0].tolist() == list(range(6))
    assert len({tuple(order) for order in orders.tolist()}) == 50
    assert (orders.sort(1).values == torch.arange(6)).all()
    assert torch.equal(orders, sampled_orders(6, 50, seed=3))
    assert not torch.equal(orders, sampled_orders(6, 50, seed=4))
    assert len(sampled_orders(3, factorial(3), seed=0)) == 6
    with pytest.raises(UsageError, match="fewer than --sample 7"):
        sampled_orders(3, 7, seed=0)


def test_rotations_put_every_class_into_every_slot_once():
    orders = rotations(5)
    assert orders[0].tolist() == [0, 1, 2, 3, 4]
    for each in (orders, orders.T):
        assert (each.sort(1).values == torch.arange(5)).all()


def test_logits_of_permutations_are_those_of_one_task_at_a_time_in_the_order_of_classes():
    tasks, method, orders = random_tasks(2), small_maml(), all_orders(3)
    found = permuted_logits(method, tasks, orders, with_support=True)
    assert found.query.shape == (2, 6, 6, 3)
    for number in range(2):
        for place, order in enumerate(orders):
            copy = permuted_copies(tasks[number : number + 1], order[None])
            alone = predict(method, copy)[0]
            for label in range(3):
                expected = alone[:, order[label]]
                torch.testing.assert_close(found.query[number, place, :, label], expected)


def test_permutations_are_spread_over_the_cores(monkeypatch):
    tasks, method, orders = random_tasks(2), small_maml(), all_orders(3)
    alone = permuted_logits(method, tasks, orders, with_support=True)
    first = initial_support_logits(method, tasks)
    both_at_work, workers, adapt = Barrier(2), [], MAML.adapt

    def watched(*arguments):
        workers.append(worker_number())
        both_at_work.wait(timeout=60)  # which one core alone never passes
        return adapt(*arguments)

    monkeypatch.setattr(MAML, "adapt", watched)
    torch.set_num_threads(2)
    try:
        spread = permuted_logits(method, tasks, orders, with_support=True)
        assert sorted(workers) == [0, 1]
        torch.testing.assert_close(initial_support_logits(method, tasks), first)
        assert sorted(workers) == [0, 0, 1, 1]
    finally:
        torch.set_num_threads(1)
    torch.testing.assert_close(spread.query, alone.query)
    torch.testing.assert_close(spread.support, alone.support)


def test_permuting_labels_is_permuting_the_slots_of_the_head():
    tasks, method = random_tasks(1), small_maml()
    order = torch.tensor([2, 0, 1])
    by_labels = permuted_logits(method, tasks, order[None]).query[0, 0]
    moved = small_maml()
    with torch.no_grad():
        moved.head.weight.copy_(method.head.weight[order])
        moved.head.bias.copy_(method.head.bias[order])
    torch.testing.assert_close(by_labels, predict(moved, tasks)[0])


def test_every_permutation_of_equal_slots_predicts_the_same():
    found = permuted_logits(small_maml(SharedHead), random_tasks(2), all_orders(3)).query
    torch.testing.assert_close(found, found[:, :1].expand_as(found))


def test_all_permutations_share_the_logits_before_adaptation():
    tasks, method = random_tasks(2), small_maml(inner_steps=0)
    first = initial_support_logits(small_maml(), tasks)
    orders = all_orders(3)
    found = permuted_logits(method, tasks, orders, with_support=True).support
    for place, order in enumerate(orders):
        torch.testing.assert_close(found[:, place], first[..., order])
