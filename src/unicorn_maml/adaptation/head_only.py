"""The inner loop where features are known and the head alone adapts: no network, no autograd.

The gradient of the support loss with respect to the logits is (softmax - one-hot) / S, and a step
adds multiples of the support features to the weights. So a step needs no more of the features than
their products with each other, which stay the same.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from unicorn_maml.adaptation.engine import refuse_divergence
from unicorn_maml.settings import AdaptationSettings

__all__ = ["adapt_head"]


@torch.no_grad()
def adapt_head(
    head: tuple[Tensor, Tensor],
    features: Tensor,
    labels: Tensor,
    settings: AdaptationSettings,
    *,
    on_step: Callable[[int, Tensor], None] | None = None,
) -> tuple[Tensor, Tensor]:
    """Adapt T copies of `head` to support features (T, S, D) with labels (T, S), as `adapt` does.

    `head` is a pair of weights (N, D) and biases (N,); back come (T, N, D) and (T, N).
    `on_step(m, logits)` sees the logits (T, S, N) of the support set after m = 0..M steps.
    """
    weight, bias = head
    tasks, images, _ = features.shape
    wanted = F.one_hot(labels, len(bias)).to(features.dtype)  # (T, S, N)
    first_logits = features @ weight.T + bias
    products = features @ features.transpose(1, 2) + 1  # (T, S, S); the one is the bias's input
    descent = torch.zeros_like(wanted)  # sum of the steps so far, as multiples of the features
    losses = features.new_empty(settings.inner_steps, tasks)
    for step in range(settings.inner_steps):
        logits = first_logits - products @ descent
        if on_step:
            on_step(step, logits)
        scores = F.log_softmax(logits, -1)
        losses[step] = -scores.gather(2, labels.unsqueeze(2)).mean((1, 2))
        descent += settings.inner_lr / images * (scores.exp() - wanted)
    if on_step:
        on_step(settings.inner_steps, first_logits - products @ descent)
    refuse_divergence(losses, settings)
    return weight - descent.transpose(1, 2) @ features, bias - descent.sum(1)
