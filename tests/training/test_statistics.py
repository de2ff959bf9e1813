"""Running averages of other images, at the same function."""

import copy

import pytest
import torch
from torch import nn

from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.models.resnet12 import ResNet12
from unicorn_maml.training.statistics import match_statistics


def trained_elsewhere(backbone: nn.Module) -> nn.Module:
    """In float64, with scales, shifts and running averages as of other images."""
    torch.manual_seed(1)
    for layer in backbone.double().modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.weight.data.uniform_(-1, 2)
            layer.bias.data.normal_()
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.1, 4)
    return backbone.eval()


@pytest.fixture(params=["convnet4", "resnet12"])
def backbone(request) -> nn.Module:
    torch.manual_seed(0)
    made = (
        ConvNet4(channels=3, size=16, width=4) if request.param == "convnet4" else ResNet12(size=16)
    )
    return trained_elsewhere(made)


@pytest.fixture
def images() -> torch.Tensor:
    torch.manual_seed(2)
    return torch.randn(7, 3, 16, 16, dtype=torch.double) * 2 + 1


@torch.no_grad()
def test_features_of_any_image_stay_the_same(backbone, images):
    others = torch.randn(3, 3, 16, 16, dtype=torch.double)
    before = backbone(others)
    moved = copy.deepcopy(backbone)
    match_statistics(moved, images.split(3))
    torch.testing.assert_close(moved(others), before)
    assert not torch.equal(next(moved.buffers()), next(backbone.buffers()))


@torch.no_grad()
def test_the_images_own_moments_now_normalise_as_the_running_averages_did(backbone, images):
    before = backbone(images)
    match_statistics(backbone, images.split(3))
    for layer in backbone.modules():
        layer.train(isinstance(layer, nn.BatchNorm2d))
    torch.testing.assert_close(backbone(images), before)


@torch.no_grad()
def test_statistics_that_fit_already_stay(backbone, images):
    match_statistics(backbone, [images])
    kept = copy.deepcopy(backbone.state_dict())
    match_statistics(backbone, [images])
    for name, value in backbone.state_dict().items():
        torch.testing.assert_close(value, kept[name])


def test_a_network_stays_in_training_mode(backbone, images):
    match_statistics(backbone.train(), [images])
    assert backbone.training
