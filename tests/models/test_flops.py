"""Arithmetic counted by hand."""

import pytest

from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.models.flops import forward_flops, task_flops
from unicorn_maml.models.resnet12 import ResNet12


def test_convnet4_needs_what_its_convolutions_need():
    sides, inputs = [84, 42, 21, 10], [3, 64, 64, 64]
    expected = sum(2 * 9 * i * 64 * s * s for s, i in zip(sides, inputs, strict=True))
    assert forward_flops(ConvNet4(), 3, 84) == expected


def test_resnet12_needs_what_its_convolutions_need():
    widths, sides = [3, 64, 160, 320, 640], [84, 42, 21, 10]
    expected = 0
    for inputs, outputs, side in zip(widths, widths[1:], sides, strict=False):
        expected += 2 * side * side * outputs * (9 * (inputs + 2 * outputs) + inputs)
    assert forward_flops(ResNet12(), 3, 84) == expected


def test_a_task_of_convnet4_needs_three_passes_per_image_and_step():
    forward = 2 * 9 * 64 * (3 * 84**2 + 64 * 42**2 + 64 * 21**2 + 64 * 10**2)
    flops = task_flops(forward_flops(ConvNet4(), 3, 84), support=5, query=75, steps=10)
    inner_loop = 10 * 5 * (forward + 2 * forward)  # forward and backward, 10 steps of 5 images
    assert flops.adaptation == inner_loop
    assert flops.evaluation == inner_loop + 75 * forward
    assert flops.meta_training == inner_loop + 75 * (forward + 2 * forward)


@pytest.mark.parametrize(
    ("shot", "steps", "teraflops"), [(1, 15, 2.1), (5, 20, 11.0), (1, 5, 1.05)]
)
def test_evaluating_a_task_of_the_paper_takes_teraflops(shot, steps, teraflops):
    forward = forward_flops(ResNet12(), 3, 84)
    flops = task_flops(forward, support=5 * shot, query=75, steps=steps)
    assert flops.evaluation / 1e12 == pytest.approx(teraflops, rel=0.01)
