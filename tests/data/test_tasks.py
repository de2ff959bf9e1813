"""A task is a pure function of its settings and its number."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import make_store
from unicorn_maml.data import batches
from unicorn_maml.data.batches import TaskLoader
from unicorn_maml.data.tasks import TaskSampler
from unicorn_maml.errors import UsageError


def sampler(store, *, split="novel", way=5, shot=1, query=3, seed=0) -> TaskSampler:
    return TaskSampler(store, split, way=way, shot=shot, query=query, seed=seed)


@settings(max_examples=30, deadline=None)
@given(
    way=st.integers(2, 8), shot=st.integers(1, 4), query=st.integers(1, 4), seed=st.integers(0, 99)
)
def test_support_and_query_are_disjoint_and_of_the_right_classes(
    small_store, way, shot, query, seed
):
    tasks = sampler(small_store, way=way, shot=shot, query=query, seed=seed).rows([0, 1, 12345])
    entries = small_store.classes_of("novel")
    for classes, support, queries in zip(tasks.classes, tasks.support, tasks.query, strict=True):
        assert len(set(classes)) == way
        assert len({*support, *queries}) == way * (shot + query)
        for rows in (support, queries):
            for position, row in enumerate(rows):
                entry = entries[classes[position % way]]
                assert entry.start <= row < entry.start + entry.count


def test_a_task_is_the_same_on_every_call_and_for_any_batch_size(small_store):
    together = sampler(small_store).rows(range(10))
    for number in (9, 0, 4):
        alone = sampler(small_store).rows([number])
        assert np.array_equal(alone.support[0], together.support[number])
        assert np.array_equal(alone.query[0], together.query[number])


def test_a_task_is_the_same_in_another_process(small_store):
    script = (
        "import sys; from pathlib import Path\n"
        "from unicorn_maml.data.store import ImageStore\n"
        "from unicorn_maml.data.tasks import TaskSampler\n"
        "store = ImageStore.open(Path(sys.argv[1]))\n"
        "sampler = TaskSampler(store, 'novel', way=5, shot=1, query=3, seed=7)\n"
        "print(sampler.rows([41]).support[0].tolist())"
    )
    printed = subprocess.run(
        [sys.executable, "-c", script, str(small_store.folder)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed.strip() == str(sampler(small_store, seed=7).rows([41]).support[0].tolist())


def test_the_tasks_of_a_seed_never_change(glyphs):
    """Drawn once; a change of the sampler would change every published result."""
    tasks = sampler(glyphs, query=1, seed=3).rows([0, 10**6])
    assert tasks.classes.tolist() == GOLDEN_CLASSES
    assert tasks.support.tolist() == GOLDEN_SUPPORT


GOLDEN_CLASSES = [[43, 78, 71, 6, 13], [23, 29, 60, 4, 84]]
GOLDEN_SUPPORT = [[11749, 13149, 12844, 10250, 10530], [10949, 11199, 12412, 10189, 13378]]


def test_seeds_and_numbers_give_different_tasks(small_store):
    rows = sampler(small_store).rows(range(50)).support
    assert len({tuple(row) for row in rows}) == 50
    assert not np.array_equal(rows, sampler(small_store, seed=1).rows(range(50)).support)


def test_every_class_slot_and_image_is_equally_likely(small_store):
    count, way = 6000, 4
    tasks = sampler(small_store, way=way).rows(range(count))
    classes = len(small_store.classes_of("novel"))
    observed = np.zeros((classes, way))
    for slot in range(way):
        observed[:, slot] = np.bincount(tasks.classes[:, slot], minlength=classes)
    expected = count / classes
    chi_square = ((observed - expected) ** 2 / expected).sum()
    # 32 cells; the sum stays below 70 with a probability of 0.9999
    assert chi_square < 70
    entry = small_store.classes_of("novel")[0]
    rows = tasks.support[tasks.classes == 0] - entry.start
    images = np.bincount(rows, minlength=entry.count)
    share = len(rows) / entry.count
    assert ((images - share) ** 2 / share).sum() < 40  # 8 to 12 cells


def test_more_ways_than_classes_are_refused_with_a_sentence(small_store):
    with pytest.raises(UsageError, match=r"9-way tasks need 9 classes.*has 8; ask for fewer ways"):
        sampler(small_store, way=9)


def test_a_class_with_too_few_images_is_named(tmp_path):
    store = make_store(tmp_path / "store", smallest=3)
    with pytest.raises(UsageError, match=r"Class 'class \d+' has 3 images.*need 6; ask for fewer"):
        sampler(store, query=5)


def test_loaders_of_the_same_split_share_its_pixels_on_a_device(small_store):
    cpu = torch.device("cpu")
    base = batches._split_on(cpu, small_store, "base")
    entries = small_store.classes_of("base")
    rows = np.concatenate([np.arange(each.start, each.start + each.count) for each in entries])
    assert np.array_equal(base.numpy(), small_store.images[rows])
    assert batches._split_on(cpu, small_store, "base") is base
    assert batches._split_on(cpu, small_store, "novel") is not base
    key = (small_store.identity, "base", cpu)
    assert key in batches._on_devices
    del base
    assert key not in batches._on_devices


def test_a_batch_can_hold_varied_images(small_store):
    mean, std = small_store.pixel_mean, small_store.pixel_std
    options = {"pixel_mean": mean, "pixel_std": std, "device": torch.device("cpu")}
    plain = TaskLoader(sampler(small_store), **options).load([2, 5])
    mirrored = TaskLoader(sampler(small_store), **options, vary=lambda x: x.flip(-1)).load([2, 5])
    torch.testing.assert_close(mirrored.support_images, plain.support_images.flip(-1))
    torch.testing.assert_close(mirrored.query_images, plain.query_images.flip(-1))


def test_a_batch_holds_the_store_s_pixels_normalised(small_store):
    mean, std = small_store.pixel_mean, small_store.pixel_std
    drawn = sampler(small_store)
    loader = TaskLoader(drawn, pixel_mean=mean, pixel_std=std, device=torch.device("cpu"))
    batch = loader.load([2, 5])
    rows = drawn.rows([2, 5])
    for images, wanted in ((batch.support_images, rows.support), (batch.query_images, rows.query)):
        pixels = small_store.images[wanted].astype(np.float64) / 255
        expected = torch.from_numpy((pixels - mean) / std).permute(0, 1, 4, 2, 3).float()
        torch.testing.assert_close(images, expected)
    assert batch.support_labels.tolist() == [[0, 1, 2, 3, 4]] * 2
    assert batch.query_labels.tolist() == [[0, 1, 2, 3, 4] * 3] * 2
    base = small_store.images[: sum(entry.count for entry in small_store.classes_of("base"))]
    assert mean[0] == pytest.approx(base.mean() / 255)
    assert std[0] == pytest.approx(base.std() / 255)
