"""The embedded data set: always the same, and a real problem."""

import hashlib

import numpy as np
import pytest

from unicorn_maml.data.glyphs import CLASSES_PER_SPLIT, IMAGES_PER_CLASS, draw_glyphs
from unicorn_maml.data.sources import open_store
from unicorn_maml.data.tasks import TaskSampler
from unicorn_maml.errors import UsageError


def test_glyphs_are_the_same_on_every_machine(glyphs):
    digest = hashlib.sha256(glyphs.images.tobytes()).hexdigest()
    assert digest == "d37f214518a1330ae8e89cf1136d6ec05a69e5fa559c1e2edc9e6aaa2d1a4b47"


def test_there_are_350_classes_of_40_images_in_three_splits(glyphs):
    assert glyphs.images.shape == (350 * IMAGES_PER_CLASS, 28, 28, 1)
    for split, count in CLASSES_PER_SPLIT.items():
        assert [entry.count for entry in glyphs.classes_of(split)] == [40] * count


def test_size_and_channels_are_parameters():
    store = open_store("glyphs-16x3")
    assert store.images.shape[1:] == (16, 16, 3)
    for wrong in ({"channels": 2}, {"size": 8}):
        with pytest.raises(UsageError):
            draw_glyphs(**wrong)


def test_nearest_neighbour_on_raw_pixels_stays_under_65_percent(glyphs):
    sampler = TaskSampler(glyphs, "novel", way=5, shot=1, query=15, seed=0)
    rows = sampler.rows(range(300))
    correct = []
    for support, query in zip(rows.support, rows.query, strict=True):
        a = glyphs.images[support].reshape(5, -1).astype(np.float64)
        b = glyphs.images[query].reshape(75, -1).astype(np.float64)
        distances = ((b[:, None] - a[None]) ** 2).sum(2)
        correct.append((distances.argmin(1) == np.arange(75) % 5).mean())
    assert 0.45 < np.mean(correct) < 0.65
