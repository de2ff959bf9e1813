"""The two passes through T networks that adaptation consists of, for all ways of running them."""

import torch
import torch.nn.functional as F
from torch import Tensor

from unicorn_maml.adaptation.network import TaskNetwork
from unicorn_maml.adaptation.normalization import Statistics
from unicorn_maml.settings import AdaptationSettings

__all__ = ["HEAD", "HEAD_BIAS", "HEAD_WEIGHT", "descend", "query_pass", "support_pass"]

# Names beside those of the backbone's parameters; a parameter's own name never holds a blank.
HEAD_WEIGHT, HEAD_BIAS = "head weight", "head bias"
HEAD = [HEAD_WEIGHT, HEAD_BIAS]


def support_pass(
    network: TaskNetwork,
    values: dict[str, Tensor],
    buffers: dict[str, Tensor],
    wide_support: Tensor,
    labels: Tensor,
    settings: AdaptationSettings,
    *,
    adapting: list[str],
    create_graph: bool = False,
) -> tuple[Tensor, tuple[Tensor | None, ...]]:
    """The mean support loss of each task (T,), and its gradients with respect to `adapting`.

    Moves the running averages among the buffers, unless they are frozen.
    """
    if adapting == HEAD and not create_graph:  # nothing behind the features is asked for
        values = {name: v if name in HEAD else v.detach() for name, v in values.items()}
    features = network.features(
        {**_backbone(values), **buffers},
        wide_support,
        statistics="running" if settings.normalization == "frozen" else "batch",
        precision=settings.precision,
        drop=settings.drop,
        compiled=settings.compile,
    )
    loss = _mean_loss(_head_logits(values, features), labels)
    gradients = torch.autograd.grad(
        loss.sum(),  # each task's parameters get the gradient of that task's loss
        [values[name] for name in adapting],
        create_graph=create_graph,
        allow_unused=True,
    )
    return loss.detach(), gradients


def descend(
    values: dict[str, Tensor],
    adapting: list[str],
    gradients: tuple[Tensor | None, ...],
    rate: float,
) -> None:
    """One step of gradient descent, in place: that keeps addresses and memory layout."""
    used = [(values[n], g) for n, g in zip(adapting, gradients, strict=True) if g is not None]
    # PyTorch updates many tensors with one kernel, but none if one of them has another layout than
    # its gradient, as filters of 1x1 pixels may have.
    alike = [(value, g) for value, g in used if value.stride() == g.stride()]
    others = [(value, g) for value, g in used if value.stride() != g.stride()]
    with torch.no_grad():
        for pairs in (alike, others):
            if pairs:
                # A rate beyond all numbers of the kind would be refused; this one diverges too.
                alpha = -min(rate, torch.finfo(pairs[0][0].dtype).max)
                torch._foreach_add_([v for v, _ in pairs], [g for _, g in pairs], alpha=alpha)


def query_pass(
    network: TaskNetwork,
    values: dict[str, Tensor],
    buffers: dict[str, Tensor],
    wide_images: Tensor,
    settings: AdaptationSettings,
    *,
    statistics: Statistics,
    support_rows: int,
    drop: bool,
) -> Tensor:
    """Logits (T, Q, N) of the images that stand behind `support_rows` support images."""
    features = network.features(
        {**_backbone(values), **buffers},
        wide_images,
        statistics=statistics,
        support_rows=support_rows,
        precision=settings.precision,
        drop=drop,
        compiled=settings.compile,
    )
    return _head_logits(values, features[:, support_rows:])


def _backbone(values: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value for name, value in values.items() if name not in HEAD}


def _head_logits(values: dict[str, Tensor], features: Tensor) -> Tensor:
    """Features (T, B, D) -> logits (T, B, N)."""
    tasks, _, width = features.shape
    weight, bias = values[HEAD_WEIGHT].view(tasks, -1, width), values[HEAD_BIAS].view(tasks, 1, -1)
    return features @ weight.transpose(1, 2) + bias


def _mean_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Logits (T, S, N) and labels (T, S) -> the mean cross-entropy of each task (T,)."""
    losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    return losses.view(labels.shape).mean(1)
