"""The inner loop where features are known and the head alone adapts: no network, no autograd."""

import torch
import torch.nn.functional as F
from torch import Tensor

from unicorn_maml.adaptation.engine import refuse_divergence
from unicorn_maml.settings import AdaptationSettings

__all__ = ["adapt_head"]


@torch.no_grad()
def adapt_head(
    head: tuple[Tensor, Tensor], features: Tensor, labels: Tensor, settings: AdaptationSettings
) -> tuple[Tensor, Tensor]:
    """Adapt T copies of `head` to support features (T, S, D) with labels (T, S), as `adapt` does.

    `head` is a pair of weights (N, D) and biases (N,); back come (T, N, D) and (T, N).
    """
    tasks, images, _ = features.shape
    weight, bias = (value.expand(tasks, *value.shape).clone() for value in head)
    wanted = F.one_hot(labels, len(head[1])).to(features.dtype)  # (T, S, N)
    losses = features.new_empty(settings.inner_steps, tasks)
    rate = settings.inner_lr / images  # the loss is a mean over the support set
    for step in range(settings.inner_steps):
        logits = torch.baddbmm(bias.unsqueeze(1), features, weight.transpose(1, 2))
        scores = F.log_softmax(logits, -1)
        losses[step] = -scores.gather(2, labels.unsqueeze(2)).mean((1, 2))
        gradient = scores.exp_() - wanted  # of the summed loss, with respect to the logits
        weight.baddbmm_(gradient.transpose(1, 2), features, alpha=-rate)
        bias.sub_(gradient.sum(1), alpha=rate)
    refuse_divergence(losses, settings)
    return weight, bias
