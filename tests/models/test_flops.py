"""Arithmetic counted by hand."""

from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.models.flops import forward_flops
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
