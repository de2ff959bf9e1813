"""Weights in 8 bits."""

import torch

from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.training.quantization import decode, encode


def test_every_weight_is_off_by_at_most_half_a_step_of_its_channel():
    torch.manual_seed(0)
    weights = ConvNet4().state_dict()
    restored = decode(encode(weights))
    assert restored.keys() == weights.keys()
    for name, value in weights.items():
        if value.dim() < 2:
            assert torch.equal(restored[name], value)
        else:
            step = value.flatten(1).abs().amax(1) / 127
            error = (restored[name] - value).flatten(1).abs().amax(1)
            assert (error <= step / 2 * 1.001).all()
            assert error.max() > 0


def test_encoded_weights_take_a_quarter_of_the_space():
    weights = ConvNet4(width=128).state_dict()

    def size(tensors):
        return sum(value.numel() * value.element_size() for value in tensors.values())

    assert size(encode(weights)) < 0.27 * size(weights)


def test_channels_of_zeros_and_unencoded_weights_survive():
    weights = {"a": torch.zeros(3, 2), "b": torch.ones(4), "n": torch.tensor(7)}
    assert all(torch.equal(decode(encode(weights))[name], weights[name]) for name in weights)
    plain = {"w": torch.randn(3, 3)}
    assert torch.equal(decode(plain)["w"], plain["w"])
