"""Recorded passes against the plain loop on the CPU.

On a machine without a GPU a stand-in runs a pass again instead of replaying it, so that all but
CUDA itself is tested.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest
import torch

from tasks import SIZE, random_tasks
from unicorn_maml.adaptation import engine, lane, lanes
from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.errors import DivergedError
from unicorn_maml.methods import maml
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.method import Prediction
from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.models.heads import PerSlotHead, SharedHead, ZeroHead
from unicorn_maml.models.resnet12 import ResNet12
from unicorn_maml.settings import AdaptationSettings, TrainSettings
from unicorn_maml.training.meta_step import make_updates
from unicorn_maml.training.optimizer import build_optimizer

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class SerialTrack:
    def __init__(self, device):
        pass

    def record(self, run):
        for _ in range(3):
            run()
        return run

    running = staticmethod(nullcontext)

    def follow_caller(self):
        pass

    lead_caller = wait = follow_caller


class Lanes:
    """Runs methods in lanes, whatever the device."""

    def __init__(self, monkeypatch):
        self.monkeypatch, self.made = monkeypatch, []

    def __call__(self, method: MAML, tasks: TaskBatch) -> Prediction:
        with self.used():
            return method(tasks)

    @contextmanager
    def used(self) -> Iterator[None]:
        with self.monkeypatch.context() as patch:
            if DEVICE == "cpu":
                patch.setattr(lane, "Track", SerialTrack)
                patch.setattr(lanes, "lanes_that_fit", lambda *_, **__: 3)
                patch.setattr(engine, "runs_in_lanes", lambda *_: True)
                patch.setattr(maml, "runs_in_lanes", lambda *_: True)
                patch.setattr(maml, "tasks_in_lanes", lambda *_: 64)
            make = lane.Lane.__init__

            def count(new, *arguments):
                self.made.append(new)
                make(new, *arguments)

            patch.setattr(lane.Lane, "__init__", count)
            yield

    def set_width(self, width: int) -> None:
        self.monkeypatch.setattr(lanes, "lane_width", lambda *_: width)


@pytest.fixture
def in_lanes(monkeypatch) -> Lanes:
    return Lanes(monkeypatch)


def make(head=PerSlotHead, backbone=None, **settings) -> MAML:
    torch.manual_seed(0)
    backbone = backbone or ConvNet4(channels=2, size=SIZE, width=4)
    width = backbone.feature_width
    first = head(width, 3) if head is PerSlotHead else head(width)
    chosen = {"inner_steps": 3, "inner_lr": 0.2, **settings}
    return MAML(backbone.double(), first.double(), AdaptationSettings(**chosen))


def there(tasks: TaskBatch) -> TaskBatch:
    return TaskBatch(
        tasks.support_images.to(DEVICE),
        tasks.support_labels.to(DEVICE),
        tasks.query_images.to(DEVICE),
        tasks.query_labels.to(DEVICE),
        tasks.way,
    )


def assert_near(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("policy", ["batch", "support", "mixed", "frozen"])
@pytest.mark.parametrize("head", [PerSlotHead, SharedHead])
@pytest.mark.parametrize("width", [1, 4])
def test_lanes_predict_what_the_plain_loop_predicts(policy, head, width, in_lanes):
    in_lanes.set_width(width)
    method = make(head, normalization=policy).eval()
    tasks = random_tasks(11)
    with torch.no_grad():
        found = in_lanes(copy.deepcopy(method).to(DEVICE), there(tasks))
        expected = method(tasks)
    assert in_lanes.made
    assert_near(found.logits, expected.logits)
    assert_near(found.support_losses, expected.support_losses)


@pytest.mark.parametrize("policy", ["batch", "support", "mixed", "frozen"])
@pytest.mark.parametrize("adapt", ["all", "head"])
@pytest.mark.parametrize("head", [PerSlotHead, SharedHead, ZeroHead])
@pytest.mark.parametrize("width", [1, 2])
def test_recorded_meta_gradients_are_those_of_autograd(policy, adapt, head, width, in_lanes):
    in_lanes.set_width(width)
    slow, tasks = make(head, adapt=adapt, normalization=policy).train(), random_tasks(5)
    fast = copy.deepcopy(slow).to(DEVICE)
    expected, gradients = slow.meta_gradients(tasks, temperature=0.5)
    with in_lanes.used():
        for _ in range(2):  # records, and replays
            found, recorded = fast.meta_gradients(there(tasks), temperature=0.5)
    assert in_lanes.made
    for ours, theirs in zip(recorded, gradients, strict=True):
        assert_near(ours, theirs)
    assert_near(found.logits, expected.logits)
    assert_near(found.support_losses, expected.support_losses)
    for name, average in expected.statistics.items():
        assert_near(found.statistics[name], average)


@pytest.mark.parametrize("drop", [True, False])
def test_drop_layers_that_act_have_one_lane_because_recordings_share_random_numbers(in_lanes, drop):
    in_lanes.set_width(1)
    with torch.no_grad():
        in_lanes(make(drop=drop).to(DEVICE).eval(), there(random_tasks(5)))
    supports = sum(isinstance(each, lane.SupportLane) for each in in_lanes.made)
    assert (supports == 1) == drop


def test_drop_layers_act_on_recorded_queries_in_meta_training_if_told_to(in_lanes):
    tasks = there(random_tasks(2))
    for drop in (True, False):
        backbone = ResNet12(channels=2, size=SIZE)
        method = make(backbone=backbone, inner_steps=0, drop=drop).to(DEVICE).train()
        with in_lanes.used():
            first, again = (method.meta_gradients(tasks, temperature=1)[0] for _ in range(2))
        assert torch.equal(first.logits, again.logits) != drop


def test_frozen_parameters_have_no_meta_gradient_in_lanes(in_lanes):
    slow, tasks = make().train(), random_tasks(2)
    slow.backbone.blocks[0][0].weight.requires_grad_(False)
    fast = copy.deepcopy(slow).to(DEVICE)
    with in_lanes.used():
        _, recorded = fast.meta_gradients(there(tasks), temperature=0.5)
    _, gradients = slow.meta_gradients(tasks, temperature=0.5)
    for ours, theirs in zip(recorded, gradients, strict=True):
        assert_near(ours, theirs)


def test_updates_in_lanes_lead_to_the_parameters_of_updates_by_autograd(in_lanes):
    slow, batches = make().train(), [random_tasks(2, seed=seed) for seed in range(3)]
    fast = copy.deepcopy(slow).to(DEVICE)
    settings = TrainSettings(backbone="convnet4", outer_lr=0.1)
    losses = []
    with in_lanes.used():
        optimizer = build_optimizer(fast, settings)
        losses.append(
            [
                float(step.loss)
                for step in make_updates(fast, optimizer, map(there, batches), temperature=0.5)
            ]
        )
    optimizer = build_optimizer(slow, settings)
    losses.append(
        [float(step.loss) for step in make_updates(slow, optimizer, batches, temperature=0.5)]
    )
    torch.testing.assert_close(*losses)
    for value, wanted in zip(fast.state_dict().values(), slow.state_dict().values(), strict=True):
        assert_near(value, wanted)


def test_lanes_follow_weights_that_change_between_calls(in_lanes):
    method, tasks = make().to(DEVICE).eval(), random_tasks(3)
    with torch.no_grad():
        in_lanes(method, there(tasks))
        for value in method.parameters():
            value.add_(0.1)
        made = len(in_lanes.made)
        found = in_lanes(method, there(tasks)).logits
        expected = copy.deepcopy(method).cpu()(tasks).logits
    assert len(in_lanes.made) == made, "what was recorded is used again"
    assert_near(found, expected)


def test_lanes_are_made_anew_for_other_shapes_and_few_are_kept(in_lanes, monkeypatch):
    monkeypatch.setattr(lanes, "_KINDS_KEPT", 2)
    method = make().to(DEVICE).eval()
    with torch.no_grad():
        for shot in (1, 2, 3, 1):
            tasks = random_tasks(2, shot=shot)
            found = in_lanes(method, there(tasks)).logits
            assert_near(found, copy.deepcopy(method).cpu()(tasks).logits)
            assert len(lanes._made[method.backbone]) == 2, "of support passes and of queries"


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
def test_a_compiled_network_predicts_what_the_plain_loop_predicts():
    backbone = ResNet12(channels=2, size=SIZE)
    method = make(compile=True, backbone=backbone).eval()
    tasks = random_tasks(5)
    with torch.no_grad():
        found = copy.deepcopy(method).cuda()(there(tasks)).logits
        expected = make(backbone=backbone).eval()(tasks).logits
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-6, atol=1e-8)


def test_a_diverging_rate_is_reported(in_lanes):
    method = make(inner_lr=1e200, inner_steps=5).to(DEVICE).eval()
    with torch.no_grad():
        prediction = in_lanes(method, there(random_tasks(2)))
    with pytest.raises(DivergedError, match="inner"):
        method.refuse_divergence(prediction)


def test_a_lane_that_finds_no_memory_leaves_the_work_to_the_others(in_lanes, monkeypatch, caplog):
    method, tasks = make().to(DEVICE).eval(), random_tasks(9)
    in_lanes.set_width(1)
    record, made = lane.SupportLane.record_steps, []

    def fail_after_two(self, *arguments):
        made.append(self)
        if len(made) > 2:
            raise torch.OutOfMemoryError("full")
        record(self, *arguments)

    monkeypatch.setattr(lane.SupportLane, "record_steps", fail_after_two)
    with torch.no_grad():
        found = in_lanes(method, there(tasks)).logits
        expected = copy.deepcopy(method).cpu()(tasks).logits
        assert_near(found, expected)
        assert "going on with 2 tasks at a time" in caplog.text
        tried = len(made)
        assert_near(in_lanes(method, there(tasks)).logits, expected)
    assert len(made) == tried, "what found no room once is not tried at every call"


def test_a_first_lane_that_finds_no_memory_takes_that_of_other_shapes(in_lanes, monkeypatch):
    method, tasks = make().to(DEVICE).eval(), random_tasks(3)
    record = lane.SupportLane.record_steps

    def fail_beside_others(self, *arguments):
        if len(lanes._made[method.backbone]) > 1:
            raise torch.OutOfMemoryError("full")
        record(self, *arguments)

    with torch.no_grad():
        in_lanes(method, there(random_tasks(3, shot=1)))
        monkeypatch.setattr(lane.SupportLane, "record_steps", fail_beside_others)
        found = in_lanes(method, there(tasks)).logits
        assert_near(found, copy.deepcopy(method).cpu()(tasks).logits)
