"""What the paper claims of one shared vector, and what follows from a linear softmax head."""

from itertools import permutations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tasks import SIZE, random_tasks
from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.errors import UsageError
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.permutations import all_orders, permuted_copies
from unicorn_maml.methods.scoring import accuracy_percent, predict
from unicorn_maml.methods.unicorn import UnicornMAML
from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.models.heads import AverageHead, PerSlotHead, SharedHead, ZeroHead
from unicorn_maml.settings import AdaptationSettings

few = settings(max_examples=12, deadline=None)
ways, shots, seeds = st.integers(2, 5), st.integers(1, 3), st.integers(0, 2**16)


def make(kind, *, seed: int = 0, way: int = 3, **adaptation) -> MAML:
    torch.manual_seed(seed)
    backbone = ConvNet4(channels=2, size=SIZE, width=4).double()
    arguments = (way,) if issubclass(kind, PerSlotHead) else ()
    head = kind(backbone.feature_width, *arguments).double()
    method = UnicornMAML if kind is SharedHead else MAML
    chosen = {"inner_steps": 4, "inner_lr": 0.3, "normalization": "batch", **adaptation}
    return method(backbone, head, AdaptationSettings(**chosen))


def permuted(tasks: TaskBatch, order: Tensor) -> TaskBatch:
    return TaskBatch(
        tasks.support_images,
        order[tasks.support_labels],
        tasks.query_images,
        order[tasks.query_labels],
        tasks.way,
    )


@few
@given(way=ways, shot=shots, seed=seeds)
def test_unicorn_outputs_permute_exactly_when_labels_permute(way, shot, seed):
    tasks = random_tasks(1, way=way, shot=shot, seed=seed)
    method = make(SharedHead, seed=seed)
    order = torch.randperm(way, generator=torch.Generator().manual_seed(seed))
    plain, moved = predict(method, tasks), predict(method, permuted(tasks, order))
    torch.testing.assert_close(moved[..., order], plain, rtol=1e-9, atol=1e-11)


def test_maml_outputs_do_not_permute_when_labels_permute():
    tasks = random_tasks(1)
    method = make(PerSlotHead)
    order = torch.tensor([1, 2, 0])
    plain, moved = predict(method, tasks), predict(method, permuted(tasks, order))
    assert (moved[..., order] - plain).abs().max() > 0.01


def test_all_permutations_of_a_task_get_one_accuracy_from_unicorn_and_several_from_maml():
    tasks = random_tasks(1, way=4, query=5)
    copies = permuted_copies(tasks, all_orders(4))
    assert len(copies) == 24
    assert {tuple(row) for row in copies.support_labels[:, :4].tolist()} == set(
        permutations(range(4))
    )
    for kind, several in ((SharedHead, False), (PerSlotHead, True)):
        method = make(kind, way=4)
        accuracies = accuracy_percent(predict(method, copies), copies.query_labels)
        assert (len(accuracies.unique()) > 1) == several


@few
@given(way=ways, shot=shots, seed=seeds, scale=st.floats(0.0, 10.0))
def test_the_shared_vector_changes_no_adapted_logit(way, shot, seed, scale):
    tasks = random_tasks(2, way=way, shot=shot, seed=seed)
    method = make(SharedHead, seed=seed)
    before = predict(method, tasks)
    with torch.no_grad():
        method.head.weight.copy_(torch.randn_like(method.head.weight) * scale)
        method.head.bias.fill_(scale)
    difference = predict(method, tasks) - before
    # Every logit of an image moves by the same number, which no prediction sees.
    common = difference - difference.mean(-1, keepdim=True)
    torch.testing.assert_close(common, torch.zeros_like(common), rtol=0, atol=1e-9)


@few
@given(way=ways, shot=shots, seed=seeds)
def test_unicorn_equals_maml_with_its_head_reset_to_zero(way, shot, seed):
    tasks = random_tasks(2, way=way, shot=shot, seed=seed)
    unicorn = predict(make(SharedHead, seed=seed), tasks).softmax(-1)
    zero = predict(make(ZeroHead, seed=seed), tasks).softmax(-1)
    torch.testing.assert_close(unicorn, zero, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("order", [1, 2])
def test_the_meta_gradient_of_the_shared_vector_is_zero(order):
    tasks = random_tasks(2)
    method = make(SharedHead, order=order).train()
    logits = method(tasks).logits
    F.cross_entropy(logits.flatten(0, 1), tasks.query_labels.flatten()).backward()
    largest = max(value.grad.abs().max() for value in method.backbone.parameters())
    assert method.head.weight.grad.abs().max() < 1e-13 * max(1.0, largest)
    assert method.head.bias.grad.abs().max() < 1e-13
    assert largest > 1e-3, "the rest of the meta-gradient must not vanish"


@pytest.mark.parametrize("order", [1, 2])
def test_backbone_meta_gradients_do_not_depend_on_the_head_being_shared_or_zero(order):
    tasks = random_tasks(2)
    gradients = []
    for kind in (SharedHead, ZeroHead):
        method = make(kind, order=order).train()
        logits = method(tasks).logits
        F.cross_entropy(logits.flatten(0, 1), tasks.query_labels.flatten()).backward()
        gradients.append([value.grad for value in method.backbone.parameters()])
    for shared, zero in zip(*gradients, strict=True):
        torch.testing.assert_close(shared, zero, rtol=1e-9, atol=1e-12)


@few
@given(way=ways, shot=shots, seed=seeds)
def test_one_step_on_frozen_features_gives_centred_prototypes(way, shot, seed):
    tasks = random_tasks(1, way=way, shot=shot, seed=seed)
    rate = 0.3
    method = make(
        SharedHead, seed=seed, adapt="head", normalization="frozen", inner_steps=1, inner_lr=rate
    )
    backbone = method.backbone.eval()
    with torch.no_grad():
        support = backbone(tasks.support_images[0]).view(shot, way, -1)
        means = support.mean(0)  # (way, D)
        weights = method.head.weight + rate / way * (means - means.mean(0))
        expected = backbone(tasks.query_images[0]) @ weights.T + method.head.bias
    torch.testing.assert_close(predict(method, tasks)[0], expected)


@few
@given(way=ways, seed=seeds)
def test_before_adaptation_the_accuracy_is_chance(way, seed):
    tasks = random_tasks(2, way=way, seed=seed)
    shared = predict(make(SharedHead, seed=seed, inner_steps=0), tasks)
    torch.testing.assert_close(shared, shared[..., :1].expand_as(shared))
    zero = predict(make(ZeroHead, seed=seed, inner_steps=0), tasks)
    accuracy = accuracy_percent(zero, tasks.query_labels)
    torch.testing.assert_close(accuracy, torch.full_like(accuracy, 100 / way))


@pytest.mark.parametrize("kind", [SharedHead, ZeroHead, AverageHead])
def test_heads_without_slots_serve_any_number_of_ways(kind):
    method = make(kind, way=3)
    for way in (2, 3, 6):
        assert predict(method, random_tasks(1, way=way)).shape[-1] == way


def test_a_head_per_slot_serves_its_own_number_of_ways_only():
    with pytest.raises(UsageError, match=r"3 slots and cannot serve 4-way tasks.*`average`"):
        predict(make(PerSlotHead, way=3), random_tasks(1, way=4))


def test_the_average_head_starts_every_slot_from_the_mean_of_the_slots():
    head = AverageHead(5, 3)
    weight, bias = head(4)
    for slot in range(4):
        torch.testing.assert_close(
            weight[slot], (head.weight[0] + head.weight[1] + head.weight[2]) / 3
        )
        torch.testing.assert_close(bias[slot], head.bias.sum() / 3)
