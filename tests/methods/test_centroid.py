"""Nearest centroid, against its definition."""

import pytest
import torch

from tasks import SIZE, random_tasks
from unicorn_maml.methods.centroid import NearestCentroid
from unicorn_maml.methods.scoring import predict
from unicorn_maml.models.convnet4 import ConvNet4


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_a_query_gets_the_class_of_the_nearest_mean_feature(distance):
    torch.manual_seed(0)
    backbone = ConvNet4(channels=2, size=SIZE, width=4).double()
    tasks = random_tasks(2, way=3, shot=2)
    logits = predict(NearestCentroid(backbone, distance), tasks)
    backbone.eval()
    with torch.no_grad():
        for number in range(2):
            support = backbone(tasks.support_images[number])
            means = [support[tasks.support_labels[number] == c].mean(0) for c in range(3)]
            for query, row in zip(
                backbone(tasks.query_images[number]), logits[number], strict=True
            ):
                if distance == "cosine":
                    expected = [torch.cosine_similarity(query, mean, dim=0) for mean in means]
                else:
                    expected = [-((query - mean) ** 2).sum() for mean in means]
                torch.testing.assert_close(row, torch.stack(expected))
