"""Features that are computed once, against methods that see the images of every task."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from unicorn_maml.data.batches import TaskLoader
from unicorn_maml.data.tasks import TaskSampler
from unicorn_maml.methods.centroid import NearestCentroid
from unicorn_maml.methods.features import extract_features
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.method import Method
from unicorn_maml.methods.scoring import (
    accuracy_percent,
    iterate_accuracies,
    iterate_feature_accuracies,
    predict,
)
from unicorn_maml.methods.unicorn import UnicornMAML
from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.models.heads import PerSlotHead, SharedHead
from unicorn_maml.settings import AdaptationSettings

WAY, SHOT, QUERY = 3, 2, 3


class DoubleLoader(TaskLoader):
    def images(self, rows) -> Tensor:
        return super().images(rows).double()


@pytest.fixture
def loader(small_store) -> DoubleLoader:
    sampler = TaskSampler(small_store, "novel", way=WAY, shot=SHOT, query=QUERY, seed=0)
    mean, std = small_store.pixel_mean, small_store.pixel_std
    return DoubleLoader(sampler, pixel_mean=mean, pixel_std=std, device=torch.device("cpu"))


@pytest.fixture
def images(loader) -> Tensor:
    return loader.load([0]).query_images[0].float()


def make(kind: str, images: Tensor, **settings) -> Method:
    torch.manual_seed(0)
    backbone = ConvNet4(channels=1, size=16, width=8)
    for module in backbone.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
    backbone(images)  # running averages that suit the images, as after training
    if kind in ("cosine", "euclidean"):
        return NearestCentroid(backbone, kind).double()
    chosen = {
        "adapt": "head",
        "normalization": "frozen",
        "inner_steps": 20,
        "inner_lr": 0.5,
        **settings,
    }
    adaptation = AdaptationSettings(**chosen)
    if kind == "unicorn":
        return UnicornMAML(backbone, SharedHead(8), adaptation).double()
    return MAML(backbone, PerSlotHead(8, WAY), adaptation).double()


@pytest.mark.parametrize("kind", ["cosine", "euclidean", "maml", "unicorn"])
def test_features_give_the_logits_and_accuracies_of_the_images(loader, images, kind):
    method, numbers = make(kind, images), range(100, 170)
    known = extract_features(method, loader, numbers)
    of_features, of_images = known.load(numbers), loader.load(numbers)
    assert torch.equal(of_features.query_labels, of_images.query_labels)
    with torch.no_grad():
        logits = method.from_features(of_features)
    expected = predict(method, of_images)
    torch.testing.assert_close(logits, expected, rtol=1e-9, atol=1e-12)
    found = np.concatenate([*iterate_feature_accuracies(method, known, numbers)])
    assert found.mean() > 100 / WAY + 5, "there is something to agree on"
    assert found.tolist() == accuracy_percent(expected, of_images.query_labels).tolist()
    assert found.tolist() == np.concatenate([*iterate_accuracies(method, loader, numbers)]).tolist()


def test_an_image_goes_through_the_backbone_once_and_only_if_a_task_uses_it(loader, images):
    method = make("cosine", images)
    seen: list[int] = []
    method.backbone.register_forward_hook(lambda _module, _in, out: seen.append(len(out)))
    split = sum(entry.count for entry in loader.sampler.store.classes_of("novel"))
    extract_features(method, loader, range(1000))
    assert sum(seen) == split
    seen.clear()
    extract_features(method, loader, [7])
    assert sum(seen) == WAY * (SHOT + QUERY) < split
    seen.clear()
    rows = loader.sampler.rows([7, 8])
    extract_features(method, loader, [7, 8])
    assert sum(seen) == len({*rows.support.flat, *rows.query.flat})


@pytest.mark.parametrize("policy", ["batch", "support", "mixed", "frozen"])
@pytest.mark.parametrize("adapt", ["all", "head"])
def test_only_a_frozen_network_under_an_adapting_head_has_fixed_features(images, policy, adapt):
    method = make("maml", images, normalization=policy, adapt=adapt)
    assert method.has_fixed_features == (policy == "frozen" and adapt == "head")
    assert not make("maml", images, normalization=policy, adapt=adapt, drop=True).has_fixed_features
    assert make("cosine", images).has_fixed_features


def test_progress_counts_the_images(loader, images):
    told = []
    known = extract_features(
        make("cosine", images), loader, range(4), lambda *each: told.append(each)
    )
    assert told[-1][:2] == (len(known.rows), len(known.rows))
    assert "features/s" in told[-1][2]
