"""The plain loop does the same work as the engine, or the ratio of their speeds means nothing."""

import copy

import pytest
import torch
from torch import nn

from tasks import SIZE, random_tasks
from unicorn_maml.benchmarking import plain_loop
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.scoring import predict
from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.models.heads import build_head
from unicorn_maml.models.resnet12 import ResNet12
from unicorn_maml.settings import AdaptationSettings
from unicorn_maml.training.meta_step import add_meta_gradient

POLICIES = ["batch", "mixed", "frozen"]


def convnet() -> nn.Module:
    return ConvNet4(channels=2, size=SIZE, width=4)


def resnet() -> nn.Module:
    return ResNet12(channels=2, size=SIZE)


def make(backbone: nn.Module, head: str, policy: str) -> MAML:
    torch.manual_seed(0)
    first_head = build_head(head, feature_width=backbone.feature_width, way=3)
    settings = AdaptationSettings(inner_steps=3, inner_lr=0.1, normalization=policy)
    method = MAML(backbone, first_head, settings).double()
    for module in method.modules():
        if isinstance(module, nn.BatchNorm2d):  # averages as after training, not the first ones
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return method


@pytest.mark.parametrize(
    ("backbone", "head", "policy"),
    [*((convnet, "per-slot", policy) for policy in POLICIES), (resnet, "shared", "mixed")],
)
def test_engine_and_plain_loop_predict_the_same(backbone, head, policy):
    method, tasks = make(backbone(), head, policy), random_tasks(2)
    torch.testing.assert_close(predict(method, tasks), plain_loop.predict(method, tasks))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("head", ["per-slot", "shared"])
def test_engine_and_plain_loop_have_the_same_meta_gradient(head, policy):
    method, tasks = make(convnet(), head, policy), random_tasks(3)
    plain = copy.deepcopy(method)
    ours = add_meta_gradient(method, tasks, temperature=0.5)
    theirs = plain_loop.add_meta_gradient(plain, tasks, temperature=0.5)
    torch.testing.assert_close(ours.loss, theirs.loss)
    torch.testing.assert_close(ours.accuracy, theirs.accuracy)
    torch.testing.assert_close(ours.statistics, theirs.statistics)
    torch.testing.assert_close(
        {name: value.grad for name, value in method.named_parameters()},
        {name: value.grad for name, value in plain.named_parameters()},
    )


def test_the_plain_loop_leaves_the_network_as_it_was():
    method, tasks = make(convnet(), "per-slot", "mixed"), random_tasks(2)
    before = copy.deepcopy(method.state_dict())
    plain_loop.predict(method, tasks)
    torch.testing.assert_close(method.state_dict(), before, rtol=0, atol=0)
