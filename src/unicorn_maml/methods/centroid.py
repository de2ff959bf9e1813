"""Nearest centroid: no adaptation, each query gets the class whose mean support feature is nearest.

It is how a pre-trained backbone is judged before any meta-training (Chen et al., "A Closer Look at
Few-shot Classification", ICLR 2019; Wang et al., "SimpleShot", 2019).
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.data.tasks import TaskSampler
from unicorn_maml.methods.method import Method, Prediction
from unicorn_maml.methods.scoring import accuracy_percent
from unicorn_maml.settings import Distance, HeadKind, Precision

__all__ = ["NearestCentroid", "centroid_accuracies", "centroid_logits", "frozen_features"]


class NearestCentroid(Method):
    """Compares features of the network as it is: running averages normalise, nothing is adapted."""

    trained_head: HeadKind = "cosine"

    def __init__(
        self, backbone: nn.Module, distance: Distance = "cosine", precision: Precision = "float32"
    ):
        super().__init__(backbone)
        self.distance, self.precision = distance, precision

    def forward(self, tasks: TaskBatch) -> Prediction:
        """Similarities of the query images to the centroids of the support sets."""
        images = torch.cat([tasks.support_images, tasks.query_images], 1).flatten(0, 1)
        features = frozen_features(self.backbone, images, self.precision)
        features = features.view(len(tasks), -1, features.shape[1])
        shots = tasks.support_images.shape[1]
        logits = centroid_logits(
            features[:, :shots], tasks.support_labels, features[:, shots:], tasks.way, self.distance
        )
        return Prediction(logits, {})


def frozen_features(backbone: nn.Module, images: Tensor, precision: Precision) -> Tensor:
    """Images (B, C, H, W) -> features (B, D) of the backbone in evaluation mode."""
    with torch.autocast(images.device.type, torch.bfloat16, enabled=precision == "bfloat16"):
        features: Tensor = backbone.eval()(images.contiguous(memory_format=torch.channels_last))
    return features.to(torch.promote_types(features.dtype, torch.float32))


def centroid_logits(
    support: Tensor, labels: Tensor, query: Tensor, way: int, distance: Distance
) -> Tensor:
    """Features (T, S, D), labels (T, S), features (T, Q, D) -> similarities (T, Q, N)."""
    members = F.one_hot(labels, way).to(support.dtype)  # (T, S, N)
    centroids = members.transpose(1, 2) @ support / members.sum(1).unsqueeze(-1)  # (T, N, D)
    if distance == "cosine":
        return F.normalize(query, dim=-1) @ F.normalize(centroids, dim=-1).transpose(1, 2)
    return -(torch.cdist(query, centroids) ** 2)


def centroid_accuracies(
    features: Tensor, sampler: TaskSampler, numbers: Sequence[int], distance: Distance
) -> Tensor:
    """Accuracies (T,) in percent of tasks whose features are known.

    `features` (n, D) are those of all images of the sampler's split, in the order of the store.
    """
    rows = sampler.rows(numbers)
    first = sampler.store.classes_of(sampler.split)[0].start
    support = features[torch.from_numpy(rows.support - first).to(features.device)]
    query = features[torch.from_numpy(rows.query - first).to(features.device)]
    slots = torch.arange(sampler.way, device=features.device)
    logits = centroid_logits(
        support, slots.repeat(len(numbers), sampler.shot), query, sampler.way, distance
    )
    return accuracy_percent(logits, slots.repeat(len(numbers), sampler.query))
