"""The backbones against formulas written out here."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from unicorn_maml.errors import UsageError
from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.models.dropblock import DropBlock, blanked_squares
from unicorn_maml.models.resnet12 import ResNet12


def count(module: nn.Module) -> int:
    return sum(value.numel() for value in module.parameters())


def test_convnet4_has_113088_parameters():
    assert count(ConvNet4()) == 113_088


def test_resnet12_has_12424320_parameters():
    assert count(ResNet12()) == 12_424_320


@pytest.mark.parametrize(("pooling", "width"), [("average", 64), ("max", 64), ("flatten", 1600)])
def test_convnet4_is_four_times_conv_norm_relu_pool(pooling, width):
    torch.manual_seed(0)
    network = ConvNet4(pooling=pooling).double().eval()
    images = torch.randn(2, 3, 84, 84, dtype=torch.float64)
    values = images
    for block in network.blocks:
        conv, norm = block[0], block[1]
        values = F.conv2d(values, conv.weight, conv.bias, padding=1)
        values = F.batch_norm(values, norm.running_mean, norm.running_var, norm.weight, norm.bias)
        values = F.max_pool2d(F.relu(values), 2)
    assert values.shape == (2, 64, 5, 5)
    expected = {
        "average": values.flatten(2).mean(2),
        "max": values.flatten(2).max(2).values,
        "flatten": values.flatten(1),
    }[pooling]
    torch.testing.assert_close(network(images), expected)
    assert network.feature_width == expected.shape[1] == width


def test_resnet12_is_four_residual_blocks_with_leaky_slopes_and_pools():
    torch.manual_seed(0)
    network = ResNet12(size=32).double().eval()
    images = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    values = images
    for block in network.blocks:

        def norm(x, layer):
            return F.batch_norm(x, layer.running_mean, layer.running_var, layer.weight, layer.bias)

        inner = values
        for number in (1, 2, 3):
            conv, bn = getattr(block, f"conv{number}"), getattr(block, f"norm{number}")
            inner = norm(F.conv2d(inner, conv.weight, padding=1), bn)
            if number < 3:
                inner = torch.where(inner > 0, inner, 0.1 * inner)
        shortcut = norm(F.conv2d(values, block.shortcut.weight), block.shortcut_norm)
        total = inner + shortcut
        values = F.max_pool2d(torch.where(total > 0, total, 0.1 * total), 2)
    assert values.shape == (2, 640, 2, 2)
    torch.testing.assert_close(network(images), values.mean((2, 3)))


def test_resnet12_maps_shrink_from_84_to_5():
    sides = []
    network = ResNet12().eval()
    for block in network.blocks:
        block.register_forward_hook(lambda _m, _i, out: sides.append(tuple(out.shape[1:])))
    network(torch.zeros(1, 3, 84, 84))
    assert sides == [(64, 42, 42), (160, 21, 21), (320, 10, 10), (640, 5, 5)]


def test_resnet12_drops_values_after_two_blocks_and_squares_after_the_others():
    drops = [block.drop for block in ResNet12().blocks]
    assert [type(drop) for drop in drops] == [nn.Dropout, nn.Dropout, DropBlock, DropBlock]
    assert [drop.p for drop in drops[:2]] == [0.1, 0.1]
    assert [(drop.drop_rate, drop.block_size) for drop in drops[2:]] == [(0.1, 5)] * 2
    small = [block.drop for block in ResNet12(size=32).blocks]
    assert [drop.block_size for drop in small[2:]] == [2, 2], "for images of 32 pixels"


def test_the_slope_after_a_residual_sum_can_be_that_of_a_plain_relu():
    torch.manual_seed(0)
    leaky = ResNet12(size=16).eval()
    plain = ResNet12(size=16, sum_slope=0.0).eval()
    plain.load_state_dict(leaky.state_dict())
    images = torch.randn(4, 3, 16, 16)
    block = plain.blocks[0]
    inner = images
    for conv, norm in ((block.conv1, block.norm1), (block.conv2, block.norm2)):
        inner = F.leaky_relu(norm(conv(inner)), 0.1)
    summed = block.norm3(block.conv3(inner)) + block.shortcut_norm(block.shortcut(images))
    torch.testing.assert_close(block(images), F.max_pool2d(summed.clamp(min=0), 2))
    assert plain(images).min() >= 0 > leaky(images).min()
    assert plain.widen(2).sum_slope == 0.0


def test_resnet12_convolutions_start_kaiming_normal_by_fan_out_with_gain_root_2():
    torch.manual_seed(0)
    for block in ResNet12().blocks:
        weight = block.conv3.weight
        expected = (2 / (weight.shape[0] * 9)) ** 0.5
        assert weight.std().item() == pytest.approx(expected, rel=0.03)
        assert block.norm1.weight.eq(1).all()
        assert block.norm1.bias.eq(0).all()


@pytest.mark.parametrize("network", [ConvNet4, ResNet12])
def test_images_that_are_too_small_are_refused_with_a_sentence(network):
    with pytest.raises(UsageError, match="at least 16x16"):
        network(size=15)


@pytest.mark.parametrize("seeds_in_map", [1, 3, 5, 25])
def test_every_dropblock_seed_blanks_its_whole_square(seeds_in_map):
    """The widely copied code misses most cells when the number of seeds is a multiple of 5."""
    torch.manual_seed(seeds_in_map)
    side, block = 21, 5
    grid = side - block + 1
    seeds = torch.zeros(1, 1, grid, grid)
    chosen = torch.randperm(grid * grid)[:seeds_in_map]
    seeds.view(-1)[chosen] = 1
    expected = torch.zeros(side, side)
    for cell in chosen.tolist():
        row, column = divmod(cell, grid)
        expected[row : row + block, column : column + block] = 1
    assert torch.equal(blanked_squares(seeds, block)[0, 0], expected)


def test_dropblock_drops_at_its_full_rate_after_40000_calls_and_keeps_the_mean():
    torch.manual_seed(0)
    layer = DropBlock(drop_rate=0.1, block_size=5)
    layer.calls.fill_(50_000)
    side = 10
    maps = torch.ones(64, 64, side, side)
    dropped = layer(maps)
    seed_rate = 0.1 / 25 * side**2 / (side - 4) ** 2
    assert seed_rate == pytest.approx(0.0111, abs=1e-4)
    # A cell far from the border is dropped if any of the 25 seeds that reach it is set.
    expected = 1 - (1 - seed_rate) ** 25
    assert (dropped[:, :, 4:6, 4:6] == 0).float().mean().item() == pytest.approx(expected, rel=0.05)
    assert dropped.mean().item() == pytest.approx(1, abs=1e-5)


def test_the_dropblock_rate_grows_linearly():
    torch.manual_seed(0)
    layer = DropBlock()
    layer.calls.fill_(20_000)
    # On a 5x5 map the square covers all: a channel is dropped at the rate itself, half of 0.1.
    dropped = (layer(torch.ones(256, 64, 5, 5)).flatten(2) == 0).all(2)
    assert dropped.float().mean().item() == pytest.approx(0.05, abs=0.006)


def test_the_dropblock_clock_starts_at_zero_is_saved_and_counts_training_calls_only():
    layer = DropBlock()
    maps = torch.randn(4, 8, 10, 10)
    layer.eval()
    assert torch.equal(layer(maps), maps)
    assert layer.calls == 0
    layer.train()
    layer(maps)
    assert layer.calls == 1
    restored = DropBlock()
    restored.load_state_dict(layer.state_dict())
    assert restored.calls == 1
    torch.manual_seed(0)
    early = (layer(torch.ones(64, 64, 10, 10)) == 0).float().mean().item()
    assert early < 1e-3, "the rate grows from zero"


def test_dropblock_removes_whole_channels_where_the_square_covers_the_map():
    torch.manual_seed(0)
    layer = DropBlock()
    layer.calls.fill_(40_000)
    kept = layer(torch.ones(32, 64, 5, 5)).flatten(2) != 0
    assert torch.equal(kept.all(2), kept.any(2))
    assert 1 - kept.float().mean().item() == pytest.approx(0.1, abs=0.02)
