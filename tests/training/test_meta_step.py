"""One update of the meta-parameters."""

import copy

import pytest
import torch
import torch.nn.functional as F

from tasks import SIZE, random_tasks
from unicorn_maml.errors import DivergedError
from unicorn_maml.methods.maml import MAML
from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.models.heads import PerSlotHead
from unicorn_maml.settings import AdaptationSettings, TrainSettings
from unicorn_maml.training.meta_step import absorb_statistics, add_meta_gradient, make_updates
from unicorn_maml.training.optimizer import (
    build_optimizer,
    optimizer_state,
    restore_optimizer,
    set_learning_rate,
)


def make(policy: str = "batch") -> MAML:
    torch.manual_seed(0)
    backbone = ConvNet4(channels=2, size=SIZE, width=4).double()
    settings = AdaptationSettings(inner_steps=2, inner_lr=0.2, normalization=policy)
    return MAML(backbone, PerSlotHead(4, 3).double(), settings)


def test_the_gradient_is_that_of_the_mean_query_loss_at_a_temperature():
    method, tasks = make(), random_tasks(3)
    step = add_meta_gradient(method, tasks, temperature=0.5)
    other = make().train()
    losses = []
    for number in range(3):
        logits = other(tasks[number : number + 1]).logits[0]
        losses.append(F.cross_entropy(2 * logits, tasks.query_labels[number]))
    mean = sum(losses) / 3
    mean.backward()
    torch.testing.assert_close(step.loss, mean.detach())
    for ours, theirs in zip(method.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("policy", ["batch", "support", "mixed", "frozen"])
def test_the_pieces_that_a_batch_is_cut_into_make_no_difference(policy, monkeypatch):
    tasks = random_tasks(5)
    results = []
    for at_once in (5, 2, 1):
        method = make(policy)
        monkeypatch.setattr(MAML, "tasks_at_once", lambda _self, _tasks, n=at_once: n)
        step = add_meta_gradient(method, tasks, temperature=0.5)
        absorb_statistics(method, step)
        gradients = [value.grad for value in method.parameters()]
        results.append([step.loss, step.accuracy, *gradients, *method.backbone.buffers()])
    for other in results[1:]:
        for ours, theirs in zip(results[0], other, strict=True):
            torch.testing.assert_close(ours, theirs)


def test_the_trained_averages_become_the_mean_of_what_the_tasks_left():
    method, tasks = make("mixed"), random_tasks(3)
    left = [make("mixed").train()(tasks[i : i + 1]).statistics for i in range(3)]
    absorb_statistics(method, add_meta_gradient(method, tasks, temperature=0.5))
    for name, value in method.backbone.named_buffers():
        if name in left[0]:
            torch.testing.assert_close(value, (left[0][name] + left[1][name] + left[2][name]) / 3)


def test_running_averages_follow_the_tasks_except_when_frozen():
    tasks = random_tasks(2)
    for policy in ("batch", "support", "mixed", "frozen"):
        method = make(policy)
        before = method.backbone.blocks[0][1].running_mean.clone()
        absorb_statistics(method, add_meta_gradient(method, tasks, temperature=0.5))
        moved = not torch.equal(before, method.backbone.blocks[0][1].running_mean)
        assert moved == (policy != "frozen")


def test_an_update_that_diverged_is_reported_before_later_ones_are_looked_at():
    method, broken = make(), random_tasks(2)
    broken.query_images.fill_(torch.nan)
    optimizer = build_optimizer(method, TrainSettings(backbone="convnet4"))
    updates = make_updates(method, optimizer, [broken, random_tasks(2)] * 2, temperature=0.5)
    with pytest.raises(DivergedError):
        next(updates)


def test_updates_are_told_of_in_order_each_once():
    batches = [random_tasks(2, seed=seed) for seed in range(3)]
    method, other = make(), make()
    optimizers = [
        build_optimizer(each, TrainSettings(backbone="convnet4", outer_lr=0.1))
        for each in (method, other)
    ]
    found = [step.loss for step in make_updates(method, optimizers[0], batches, temperature=0.5)]
    expected = []
    for tasks in batches:
        optimizers[1].zero_grad()
        step = add_meta_gradient(other, tasks, temperature=0.5)
        optimizers[1].step()
        absorb_statistics(other, step)
        expected.append(step.loss)
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(method.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_schedules_follow_their_formulas():
    method = make()

    def rates(**settings) -> list[float]:
        chosen = TrainSettings(outer_lr=0.8, epochs=4, head_lr_multiplier=10, **settings)
        optimizer = build_optimizer(method, chosen)
        found = []
        for epoch in (1, 2, 3, 4):
            rate = set_learning_rate(optimizer, chosen, epoch)
            assert [group["lr"] for group in optimizer.param_groups] == [rate, 10 * rate]
            found.append(rate)
        return found

    assert rates(schedule="step", decay_every=2, decay=0.1) == pytest.approx([0.8, 0.8, 0.08, 0.08])
    assert rates(schedule="constant") == [0.8] * 4
    root = 0.5**0.5
    cosine = [0.8, 0.4 * (1 + root), 0.4, 0.4 * (1 - root)]
    assert rates(schedule="cosine") == pytest.approx(cosine)


def test_sgd_is_nesterov_with_weight_decay():
    method = make()
    settings = TrainSettings(outer_lr=0.1, momentum=0.9, weight_decay=0.01)
    optimizer = build_optimizer(method, settings)
    value = method.head.weight
    expected, velocity = value.detach().clone(), torch.zeros_like(value)
    for _ in range(3):
        value.grad = torch.full_like(value, 0.5)
        optimizer.step()
        gradient = 0.5 + 0.01 * expected
        velocity = 0.9 * velocity + gradient
        expected = expected - 0.1 * (gradient + 0.9 * velocity)
    torch.testing.assert_close(value.detach(), expected)


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_a_restored_optimiser_goes_on_as_if_nothing_had_happened(name):
    settings = TrainSettings(outer_optimizer=name, outer_lr=0.1)
    first = make()
    optimizer = build_optimizer(first, settings)

    def step(method, opt):
        for value in method.parameters():
            value.grad = torch.ones_like(value)
        opt.step()

    step(first, optimizer)
    second = copy.deepcopy(first)
    fresh = build_optimizer(second, settings)
    saved = {name: value.clone() for name, value in optimizer_state(optimizer).items()}
    restore_optimizer(fresh, saved)
    step(first, optimizer)
    step(second, fresh)
    for ours, theirs in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(ours, theirs)
