"""Nearest centroid, against its definition."""

import pytest
import torch

from tasks import SIZE, random_tasks
from unicorn_maml.data.batches import TaskLoader
from unicorn_maml.data.tasks import TaskSampler
from unicorn_maml.methods.centroid import NearestCentroid, centroid_accuracies, frozen_features
from unicorn_maml.methods.scoring import accuracy_percent, predict
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


def test_known_features_give_the_accuracies_of_the_images(small_store):
    torch.manual_seed(0)
    backbone = ConvNet4(channels=1, size=16, width=8)
    sampler = TaskSampler(small_store, "novel", way=3, shot=2, query=3, seed=0)
    mean, std = small_store.pixel_mean, small_store.pixel_std
    loader = TaskLoader(sampler, pixel_mean=mean, pixel_std=std, device=torch.device("cpu"))
    entries = small_store.classes_of("novel")
    rows = slice(entries[0].start, entries[-1].start + entries[-1].count)
    pixels = torch.from_numpy(small_store.images[rows].copy()).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        features = frozen_features(backbone, (pixels - mean[0]) / std[0], "float32")
    tasks = loader.load(range(20))
    for distance in ("cosine", "euclidean"):
        expected = accuracy_percent(
            predict(NearestCentroid(backbone, distance), tasks), tasks.query_labels
        )
        found = centroid_accuracies(features, sampler, range(20), distance)
        torch.testing.assert_close(found, expected)
