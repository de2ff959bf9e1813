"""Head-only adaptation from features, against the engine and against torch.optim."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tasks import SIZE, random_tasks
from unicorn_maml.adaptation.engine import adapt, refuse_divergence
from unicorn_maml.adaptation.head_only import adapt_head
from unicorn_maml.adaptation.passes import HEAD_BIAS, HEAD_WEIGHT
from unicorn_maml.errors import DivergedError
from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.models.heads import PerSlotHead, SharedHead
from unicorn_maml.settings import AdaptationSettings


def settings(**chosen) -> AdaptationSettings:
    chosen = {"inner_steps": 7, "inner_lr": 0.5, **chosen}
    return AdaptationSettings(adapt="head", normalization="frozen", **chosen)


@pytest.mark.parametrize("steps", [0, 1, 7])
@pytest.mark.parametrize("shared", [False, True])
def test_the_head_ends_where_the_engine_takes_it(steps, shared):
    torch.manual_seed(0)
    backbone = ConvNet4(channels=2, size=SIZE, width=4).double().eval()
    tasks = random_tasks(4, way=3, shot=3)
    head = (SharedHead(4) if shared else PerSlotHead(4, 3)).double()(3)
    chosen = settings(inner_steps=steps)
    with torch.no_grad():
        values = adapt(backbone, head, tasks.support_images, tasks.support_labels, chosen).values
        features = backbone(tasks.support_images.flatten(0, 1)).view(4, 9, -1)
    weight, bias = adapt_head(head, features, tasks.support_labels, chosen)
    torch.testing.assert_close(weight.flatten(0, 1), values[HEAD_WEIGHT])
    torch.testing.assert_close(bias.flatten(), values[HEAD_BIAS])


def test_each_task_follows_plain_gradient_descent_of_a_linear_layer():
    torch.manual_seed(0)
    features = torch.randn(3, 8, 6, dtype=torch.float64)
    labels = torch.randint(4, (3, 8))
    start = nn.Linear(6, 4).double()
    weight, bias = adapt_head((start.weight, start.bias), features, labels, settings())
    for number in range(3):
        layer = copy.deepcopy(start)
        sgd = torch.optim.SGD(layer.parameters(), lr=0.5)
        for _ in range(7):
            sgd.zero_grad()
            F.cross_entropy(layer(features[number]), labels[number]).backward()
            sgd.step()
        torch.testing.assert_close(weight[number], layer.weight.detach())
        torch.testing.assert_close(bias[number], layer.bias.detach())


@pytest.mark.parametrize("scale", [1e3, float("nan")])
def test_divergence_is_told_as_the_engine_tells_it(scale):
    torch.manual_seed(0)
    backbone = nn.Flatten()
    images = torch.randn(2, 6, 5) * scale
    labels = torch.arange(3).repeat(2, 2)
    head = PerSlotHead(5, 3)(3)
    chosen = settings(inner_lr=1e38)
    adapted = adapt(backbone, head, images[:1], labels[:1], chosen)
    with pytest.raises(DivergedError) as told:
        refuse_divergence(adapted.support_losses, chosen)
    with pytest.raises(DivergedError) as found:
        adapt_head(head, images[:1], labels[:1], chosen)
    assert str(found.value) == str(told.value)
