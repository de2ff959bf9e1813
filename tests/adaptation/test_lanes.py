"""Recorded passes on a GPU against the plain loop on the CPU."""

import copy

import pytest
import torch
import torch.nn.functional as F

from tasks import SIZE, random_tasks
from unicorn_maml.adaptation import lanes
from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.errors import DivergedError
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.scoring import predict
from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.models.heads import PerSlotHead, SharedHead
from unicorn_maml.models.resnet12 import ResNet12
from unicorn_maml.settings import AdaptationSettings

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def make(head=PerSlotHead, backbone=None, **settings) -> MAML:
    torch.manual_seed(0)
    backbone = backbone or ConvNet4(channels=2, size=SIZE, width=4)
    width = backbone.feature_width
    first = head(width, 3) if head is PerSlotHead else head(width)
    chosen = {"inner_steps": 3, "inner_lr": 0.2, **settings}
    return MAML(backbone.double(), first.double(), AdaptationSettings(**chosen))


def on_gpu(tasks: TaskBatch) -> TaskBatch:
    return TaskBatch(
        tasks.support_images.cuda(),
        tasks.support_labels.cuda(),
        tasks.query_images.cuda(),
        tasks.query_labels.cuda(),
        tasks.way,
    )


@pytest.mark.parametrize("policy", ["batch", "support", "mixed", "frozen"])
@pytest.mark.parametrize("head", [PerSlotHead, SharedHead])
@pytest.mark.parametrize("width", [1, 4])
def test_lanes_predict_what_the_plain_loop_predicts(policy, head, width, monkeypatch):
    monkeypatch.setattr(lanes, "lane_width", lambda *_: width)
    method = make(head, normalization=policy).eval()
    tasks = random_tasks(11)
    with torch.no_grad():
        expected = method(tasks).logits
        found = copy.deepcopy(method).cuda()(on_gpu(tasks)).logits
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("adapt", ["all", "head"])
@pytest.mark.parametrize("head", [PerSlotHead, SharedHead])
def test_meta_gradients_through_lanes_are_those_of_the_plain_loop(head, adapt):
    tasks = random_tasks(3)
    results = []
    for device in ("cpu", "cuda"):
        method = make(head, adapt=adapt).to(device).train()
        here = tasks if device == "cpu" else on_gpu(tasks)
        for _ in range(2):  # the second time with what the first one recorded
            method.zero_grad()
            prediction = method(here)
            F.cross_entropy(prediction.logits.flatten(0, 1), here.query_labels.flatten()).backward()
        results.append((method, prediction))
    (slow, slow_prediction), (fast, fast_prediction) = results
    for (name, value), other in zip(slow.named_parameters(), fast.parameters(), strict=True):
        torch.testing.assert_close(other.grad.cpu(), value.grad, msg=name)
    for name, value in slow_prediction.statistics.items():
        torch.testing.assert_close(fast_prediction.statistics[name].cpu(), value)


def test_lanes_follow_weights_that_change_between_calls():
    method, tasks = make().cuda().eval(), random_tasks(3)
    with torch.no_grad():
        method(on_gpu(tasks))
        for value in method.parameters():
            value.add_(0.1)
        found = method(on_gpu(tasks)).logits
        expected = copy.deepcopy(method).cpu()(tasks).logits
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-9, atol=1e-11)


def test_a_compiled_network_predicts_what_the_plain_loop_predicts():
    method = make(compile=True, backbone=ResNet12(channels=2, size=SIZE)).eval()
    tasks = random_tasks(5)
    with torch.no_grad():
        found = copy.deepcopy(method).cuda()(on_gpu(tasks)).logits
        expected = make(backbone=method.backbone).eval()(tasks).logits
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-6, atol=1e-8)


def test_a_diverging_rate_is_reported():
    method = make(inner_lr=1e200, inner_steps=5).cuda().eval()
    with pytest.raises(DivergedError, match="inner"):
        predict(method, on_gpu(random_tasks(2)))


def test_a_lane_that_finds_no_memory_leaves_the_work_to_the_others(monkeypatch, caplog):
    method, tasks = make().cuda().eval(), random_tasks(9)
    monkeypatch.setattr(lanes, "lane_width", lambda *_: 1)
    record, made = lanes._SupportLane.record_steps, []

    def fail_after_two(self, *arguments):
        made.append(self)
        if len(made) > 2:
            raise torch.OutOfMemoryError("full")
        record(self, *arguments)

    monkeypatch.setattr(lanes._SupportLane, "record_steps", fail_after_two)
    with torch.no_grad():
        found = method(on_gpu(tasks)).logits
        expected = copy.deepcopy(method).cpu()(tasks).logits
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-9, atol=1e-11)
    assert "going on with 2 tasks at a time" in caplog.text
