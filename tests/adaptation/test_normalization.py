"""Batch-norm layers of foreign networks, and what stands in for them."""

import pytest
import torch
from torch import nn

from unicorn_maml.adaptation.normalization import TaskBatchNorm, replace_batch_norm
from unicorn_maml.errors import UsageError


class _NormAndRelu(nn.BatchNorm2d):
    """Like those of some model libraries: a normalisation that does one more thing."""

    def forward(self, values):
        return super().forward(values).relu()


class _TwoNames(nn.Module):
    """A layer that is known by two names, and used by the second one."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(4)
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), self.norm, nn.ReLU())

    def forward(self, images):
        return self.body(images)


def test_a_normalisation_that_does_more_is_refused_instead_of_losing_it():
    with pytest.raises(UsageError, match="layer 1 of this network is a _NormAndRelu"):
        replace_batch_norm(nn.Sequential(nn.Conv2d(3, 4, 3), _NormAndRelu(4)))


def test_a_layer_with_two_names_is_replaced_under_both_and_counted_once():
    torch.manual_seed(0)
    network, images = _TwoNames().double(), torch.randn(6, 3, 8, 8, dtype=torch.double)
    wanted = network.train()(images)
    [(name, stand_in)] = replace_batch_norm(network)
    assert name == "norm"
    assert network.body[1] is network.norm is stand_in
    assert isinstance(stand_in, TaskBatchNorm)
    torch.testing.assert_close(network.eval()(images), wanted)
