"""Before the first step slots that start alike tie, and rounding does not choose among them."""

import numpy as np
import pytest
import torch

from studying import TASKS, ask, per_task
from tasks import random_tasks, small_maml
from unicorn_maml.adaptation.engine import AdaptedTasks
from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.methods.maml import MAML
from unicorn_maml.models.heads import PerSlotHead, SharedHead
from unicorn_maml.settings import AdaptationSettings, OneTaskSettings, StepsSettings
from unicorn_maml.studies import one_task, steps

CHANCE = pytest.approx(100 / 3)


@pytest.fixture
def rounded(monkeypatch):
    """Logits that are rounded differently in every slot, as on some machines and in some sizes."""
    exact, random = AdaptedTasks._logits, torch.Generator().manual_seed(0)

    def inexact(self, images, **settings):
        logits = exact(self, images, **settings)
        return logits + 1e-6 * torch.rand(logits.shape, generator=random)

    monkeypatch.setattr(AdaptedTasks, "_logits", inexact)


@pytest.mark.usefixtures("rounded")
def test_unicorn_has_exactly_chance_in_each_task_before_adaptation(trained, tmp_path):
    for policy in ("batch", "support", "mixed", "frozen"):
        scores = per_task(trained["unicorn"], inner_steps=0, normalization=policy)
        assert scores.tolist() == [CHANCE] * TASKS
    result = steps.run(ask(StepsSettings, tmp_path, trained["unicorn"], inner_steps=1))
    for split in ("base", "novel"):
        for part in ("support", "query"):
            first = result["data"]["UNICORN-MAML"][split][part][0]
            assert first == {"mean": CHANCE, "ci95": pytest.approx(0, abs=1e-9)}


@pytest.mark.usefixtures("rounded")
def test_unicorn_has_exactly_chance_under_each_permutation_before_adaptation(trained, tmp_path):
    result = one_task.run(ask(OneTaskSettings, tmp_path, trained["unicorn"], inner_steps=1))
    for part in ("support", "query"):
        assert [row[0] for row in result["data"]["UNICORN-MAML"][part]] == [CHANCE] * 6


def test_mamls_own_slots_do_not_tie_before_adaptation(trained, tmp_path):
    scores = per_task(trained["maml"], inner_steps=0, normalization="support")
    assert len(set(scores.round(6))) > 1
    settings = ask(
        OneTaskSettings, tmp_path, trained["maml"], inner_steps=1, normalization="support"
    )
    first = np.array(one_task.run(settings)["data"]["MAML"]["query"])[:, 0]
    assert first.mean() == CHANCE
    assert first.std() > 1


@pytest.mark.parametrize("alike", ["weights and biases", "weights", "biases", "nothing"])
def test_logits_are_equal_in_all_slots_only_where_weights_and_biases_are(alike):
    method = small_maml(PerSlotHead, inner_steps=0, normalization="frozen").eval()
    with torch.no_grad():
        if "weights" in alike:
            method.head.weight[:] = method.head.weight[0].clone()
        if "biases" in alike:
            method.head.bias[:] = method.head.bias[0].clone()
        tasks = random_tasks()
        logits = method.adapt(tasks).logits(tasks.query_images)
        for found, images in zip(logits, tasks.query_images, strict=True):
            expected = method.backbone(images) @ method.head.weight.T + method.head.bias
            torch.testing.assert_close(found, expected)
    tied = bool((logits == logits[..., :1]).all())
    assert tied == (alike == "weights and biases")


def test_the_first_step_ends_a_tie():
    tasks = random_tasks()
    for inner_steps, tied in ((0, True), (1, False)):
        method = small_maml(SharedHead, inner_steps=inner_steps).eval()
        with torch.no_grad():
            logits = method.adapt(tasks).logits(tasks.query_images)
        assert bool((logits == logits[..., :1]).all()) == tied


@pytest.mark.parametrize("head", [SharedHead, PerSlotHead])
def test_features_tie_as_images_do(head):
    random = torch.Generator().manual_seed(0)

    def features(images: int) -> torch.Tensor:
        return torch.randn(20, images, 640, generator=random)  # so many are summed inexactly

    labels = torch.arange(5).repeat(20, 1)
    tasks = TaskBatch(features(5), labels, features(15), labels.repeat(1, 3), way=5)
    for inner_steps in (0, 1):
        inner_loop = AdaptationSettings(
            inner_steps=inner_steps, inner_lr=0.1, adapt="head", normalization="frozen"
        )
        torch.manual_seed(0)
        first = head(640) if head is SharedHead else head(640, 5)
        with torch.no_grad():
            logits = MAML(torch.nn.Identity(), first, inner_loop).from_features(tasks)
        if inner_steps == 0:
            weight, bias = first(5)
            torch.testing.assert_close(logits, tasks.query_images @ weight.T + bias)
        tied = bool((logits == logits[..., :1]).all())
        assert tied == (head is SharedHead and inner_steps == 0)
