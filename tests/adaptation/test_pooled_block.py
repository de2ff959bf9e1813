"""A block with fewer passes over memory computes what its four layers compute."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tasks import random_tasks, small_maml
from unicorn_maml.adaptation import pooled_block
from unicorn_maml.adaptation.convolution import replace_convolutions
from unicorn_maml.adaptation.network import TaskNetwork
from unicorn_maml.adaptation.normalization import replace_batch_norm
from unicorn_maml.adaptation.pooled_block import PooledBlock, replace_blocks
from unicorn_maml.errors import DivergedError
from unicorn_maml.methods.scoring import predict
from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.models.resnet12 import ResNet12


@pytest.fixture(autouse=True)
def _however_small(monkeypatch):
    monkeypatch.setattr(pooled_block, "_FEWEST", 0)


def blocks(statistics: str, *, groups: int = 1) -> tuple[nn.Module, nn.Module]:
    """The four layers as they are, and their stand-in; some weights are negative."""
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv2d(2 * groups, 6 * groups, 3, padding=1, groups=groups),
        nn.BatchNorm2d(6 * groups),
        nn.MaxPool2d(2),
        nn.ReLU(inplace=True),
    ).double()
    norm = layers[1]
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    nn.init.normal_(norm.running_mean)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    assert (norm.weight < 0).any()
    assert (norm.weight > 0).any()
    plain = nn.Sequential(layers)
    for _, layer in replace_batch_norm(plain):
        layer.statistics, layer.support_rows = statistics, 3
    replace_convolutions(plain)
    stand_in = copy.deepcopy(plain)
    replace_blocks(stand_in)
    assert isinstance(stand_in[0], PooledBlock)
    return plain, stand_in


def images(groups: int = 1) -> Tensor:
    values = torch.randn(5, 2 * groups, 9, 9, dtype=torch.float64)  # pooling leaves a row out
    return values.contiguous(memory_format=torch.channels_last).requires_grad_()


STATISTICS = pytest.mark.parametrize("statistics", ["batch", "support", "running"])


@STATISTICS
@pytest.mark.parametrize("groups", [1, 3])
def test_values_gradients_and_running_averages_are_those_of_the_layers(statistics, groups):
    given, found = images(groups), []
    weights = torch.randn(5, 6 * groups, 4, 4, dtype=torch.float64)
    for module in blocks(statistics, groups=groups):
        values = module(given)
        gradients = torch.autograd.grad((values * weights).sum(), [given, *module.parameters()])
        found.append([values, *gradients, *module.buffers()])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_values_are_those_of_the_formula():
    _, stand_in = blocks("batch")
    given = images().detach()
    filters, bias, weight, shift = stand_in.parameters()
    maps = F.conv2d(given, filters, bias, padding=1)
    centred = maps - maps.mean((0, 2, 3), keepdim=True)
    deviation = (centred.pow(2).mean((0, 2, 3), keepdim=True) + 1e-5).sqrt()
    normalised = centred / deviation * weight.view(1, -1, 1, 1) + shift.view(1, -1, 1, 1)
    squares = normalised[:, :, :8, :8].unflatten(3, (4, 2)).unflatten(2, (4, 2))
    torch.testing.assert_close(stand_in(given), squares.amax((3, 5)).clamp(min=0))


@STATISTICS
def test_no_epsilon_of_0_is_needed_which_batch_norm_of_torch_2_11_refuses(statistics, monkeypatch):
    _, stand_in = blocks(statistics)
    given, plain = images(), F.batch_norm
    expected = stand_in(given)

    def strict(*tensors, eps, **options):
        assert eps > 0
        return plain(*tensors, eps=eps, **options)

    monkeypatch.setattr(F, "batch_norm", strict)
    _, stand_in = blocks(statistics)
    torch.testing.assert_close(stand_in(given), expected)


@STATISTICS
def test_second_derivatives_are_those_of_the_layers(statistics):
    given, found = images(), []
    for module in blocks(statistics):
        inputs = [given, *module.parameters()]
        first = torch.autograd.grad(module(given).pow(3).sum(), inputs, create_graph=True)
        length = sum(gradient.pow(2).sum() for gradient in first)
        found.append(torch.autograd.grad(length, inputs, materialize_grads=True))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("statistics", ["batch", "support"])
def test_a_bias_before_batch_norm_has_no_gradient_not_even_a_rounding_error(statistics):
    _, stand_in = blocks(statistics)
    stand_in(images()).sum().backward()
    assert not stand_in[0][0].bias.grad.any()


@STATISTICS
@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("place", ["image", "0.0.weight", "0.0.bias", "0.1.weight", "0.1.bias"])
def test_what_is_not_finite_comes_out_wherever_it_comes_out_of_the_layers(
    statistics, number, place
):
    given, found = images().detach(), []
    if place == "image":
        given[0, 0, 4, 4] = number
    for module in blocks(statistics):
        if place != "image":
            module.get_parameter(place).data.view(-1)[0] = number
        found.append(module(given).detach().isfinite())
    plain, ours = found
    assert not (ours & ~plain).any()
    if number != number:
        assert not ours.all()


@pytest.mark.parametrize("policy", ["batch", "support", "mixed", "frozen"])
def test_a_diverging_run_is_noticed(policy):
    method = small_maml(normalization=policy, inner_lr=1e200, inner_steps=3)
    with pytest.raises(DivergedError, match="try a smaller --inner-lr"):
        predict(method, random_tasks(1))


def test_under_autocast_the_layers_run_as_they_are():
    given = images().detach().float()
    with torch.autocast("cpu", torch.bfloat16):
        expected, found = (module.float()(given) for module in blocks("batch"))
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, expected)


def test_few_outputs_are_left_to_the_layers(monkeypatch):
    given, pooled_first = images(), []
    monkeypatch.setattr(pooled_block, "_pool_and_moments", lambda *_: pooled_first.append(1))
    monkeypatch.setattr(pooled_block, "_FEWEST", 5 * 6 * 9 * 9 + 1)
    expected, found = (module(given) for module in blocks("batch"))
    assert torch.equal(found, expected)
    assert not pooled_first


def test_blocks_of_other_layers_are_left_alone():
    network = nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Sequential(
            nn.Conv2d(2, 2, 3), nn.BatchNorm2d(2, affine=False), nn.MaxPool2d(2), nn.ReLU()
        ),
        nn.Sequential(
            nn.Conv2d(2, 2, 3, bias=False), nn.BatchNorm2d(2), nn.MaxPool2d(2), nn.ReLU()
        ),
    )
    for backbone, expected in ((network, 0), (ResNet12(), 0), (ConvNet4(), 4)):
        module = TaskNetwork(backbone, 1)._module
        assert sum(isinstance(layer, PooledBlock) for layer in module.modules()) == expected
