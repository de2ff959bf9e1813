"""Held-out photos are judged by classifiers that never saw them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from photos import photos
from unicorn_maml import FewShotClassifier
from unicorn_maml.classifier.checking import check_photos, folds_of
from unicorn_maml.intervals import share_interval
from unicorn_maml.settings import PhotoSettings

CONVNET = "miniimagenet-convnet4-pretrained"


@pytest.mark.parametrize(
    "options",
    [
        {"adapt": "head", "inner_lr": 0.02},
        {"adapt": "all", "inner_lr": 0.01, "inner_steps": 2, "normalization": "mixed"},
    ],
)
def test_all_folds_at_once_give_what_one_classifier_after_another_gives(options):
    images, labels = photos(2)
    classes, slots = np.unique(labels, return_inverse=True)
    asked = {"model": CONVNET, "device": "cpu", **options}
    checked = check_photos(images, slots, PhotoSettings(**asked))
    assert checked.held_out.tolist() == list(range(6))
    for number in range(6):
        rest = [other for other in range(6) if other != number]
        made = FewShotClassifier(**asked)
        made.fit([images[i] for i in rest], [labels[i] for i in rest])
        assert made.classes_.tolist() == classes.tolist()
        alone = made.predict_proba([images[number]])[0]
        assert_allclose(checked.probabilities[number], alone, atol=1e-4)


@pytest.mark.parametrize("counts", [(3, 2, 1), (60, 50, 2), (40, 33, 1, 29)])
def test_folds_hold_every_photo_once_and_leave_some_of_each_class(counts):
    slots = np.repeat(np.arange(len(counts)), counts)
    folds = folds_of(slots)
    together = np.sort(np.concatenate(folds))
    several = [n for n in range(len(slots)) if counts[slots[n]] > 1]
    assert together.tolist() == several
    assert len(folds) == (len(several) if len(several) <= 100 else 10)
    for fold in folds:
        left = set(np.delete(slots, fold))
        assert left == set(range(len(counts)))


def test_more_than_a_hundred_photos_are_held_out_by_tenths():
    images, labels = photos(35)
    slots = np.unique(labels, return_inverse=True)[1]
    checked = check_photos(images, slots, PhotoSettings(model=CONVNET, device="cpu"))
    assert checked.folds == 10
    assert checked.held_out.tolist() == list(range(105))
    assert (checked.probabilities.argmax(1) == slots).mean() > 0.95


@pytest.mark.parametrize(("right", "among"), [(0, 5), (5, 5), (7, 9), (80, 100)])
def test_the_interval_of_a_share_holds_the_shares_that_are_within_its_own_deviation(right, among):
    low, high = share_interval(right, among)
    for bound in (low, high):  # Wilson: at its bounds the observed share is 1.96 deviations away
        deviation = np.sqrt(bound * (1 - bound) / among)
        assert abs(right / among - bound) == pytest.approx(1.96 * deviation, abs=1e-9)
    assert -1e-12 <= low <= right / among <= high <= 1 + 1e-12
