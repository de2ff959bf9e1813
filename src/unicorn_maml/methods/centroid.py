"""Nearest centroid: no adaptation, each query gets the class whose mean support feature is nearest.

It is how a pre-trained backbone is judged before any meta-training (Chen et al., "A Closer Look at
Few-shot Classification", ICLR 2019; Wang et al., "SimpleShot", 2019).
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.methods.features import frozen_features
from unicorn_maml.methods.method import Method, Prediction
from unicorn_maml.settings import Distance, HeadKind, Precision

__all__ = ["NearestCentroid", "centroid_logits"]


class NearestCentroid(Method):
    """Compares features of the network as it is: running averages normalise, nothing is adapted."""

    trained_head: HeadKind = "cosine"

    def __init__(
        self, backbone: nn.Module, distance: Distance = "cosine", precision: Precision = "float32"
    ):
        super().__init__(backbone, precision)
        self.distance = distance

    @property
    def has_fixed_features(self) -> bool:
        """Always: nothing is adapted."""
        return True

    def forward(self, tasks: TaskBatch) -> Prediction:
        """Similarities of the query images to the centroids of the support sets."""
        images = torch.cat([tasks.support_images, tasks.query_images], 1).flatten(0, 1)
        features = frozen_features(self.backbone, images, self.precision)
        features = features.view(len(tasks), -1, features.shape[1])
        shots = tasks.support_images.shape[1]
        known = replace(tasks, support_images=features[:, :shots], query_images=features[:, shots:])
        return Prediction(self.from_features(known), {})

    def from_features(self, tasks: TaskBatch) -> Tensor:
        """Similarities of the query features to the centroids of the support sets."""
        return centroid_logits(
            tasks.support_images,
            tasks.support_labels,
            tasks.query_images,
            tasks.way,
            self.distance,
        )


def centroid_logits(
    support: Tensor, labels: Tensor, query: Tensor, way: int, distance: Distance
) -> Tensor:
    """Features (T, S, D), labels (T, S), features (T, Q, D) -> similarities (T, Q, N)."""
    members = F.one_hot(labels, way).to(support.dtype)  # (T, S, N)
    centroids = members.transpose(1, 2) @ support / members.sum(1).unsqueeze(-1)  # (T, N, D)
    if distance == "cosine":
        return F.normalize(query, dim=-1) @ F.normalize(centroids, dim=-1).transpose(1, 2)
    return -(torch.cdist(query, centroids) ** 2)
