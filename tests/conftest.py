"""Shared fixtures: a cache of their own, one thread per test process, small tasks."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from unicorn_maml.data.sources import open_store
from unicorn_maml.data.store import ImageStore, StoredClass, write_store
from unicorn_maml.settings import TrainSettings
from unicorn_maml.training.meta_train import meta_train

# Two test processes share two cores; sub-processes inherit this through the environment.
os.environ["OMP_NUM_THREADS"] = "1"
torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    # One cache for all test processes: the embedded store is drawn once.
    os.environ["UNICORN_MAML_CACHE"] = str(tmp_path_factory.getbasetemp().parent / "cache")


@pytest.fixture(scope="session")
def glyphs(_own_cache) -> ImageStore:
    return open_store("glyphs")


@pytest.fixture(scope="session")
def small_store(tmp_path_factory: pytest.TempPathFactory) -> ImageStore:
    """24 classes of 16x16 grey images, unequal class sizes, easy to tell apart."""
    return make_store(tmp_path_factory.mktemp("stores") / "small")


@pytest.fixture(scope="session")
def trained(small_store, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A short run of each method on the small store: 3 ways, 1 shot, 2 inner steps."""
    folder = tmp_path_factory.mktemp("trained")
    for method in ("maml", "unicorn"):
        meta_train(
            TrainSettings(
                store=str(small_store.folder),
                out=folder / method,
                method=method,
                width=8,
                way=3,
                query=3,
                inner_steps=2,
                epochs=2,
                tasks_per_epoch=8,
                task_batch=4,
                validation_tasks=2,
                outer_optimizer="adam",
                device="cpu",
            )
        )
    return {"maml": folder / "maml", "unicorn": folder / "unicorn"}


def make_store(
    folder: Path,
    *,
    classes: int = 24,
    size: int = 16,
    channels: int = 1,
    smallest: int = 8,
    source: str = "made for tests",
) -> ImageStore:
    random = np.random.default_rng(0)
    images, entries, start = [], [], 0
    for number in range(classes):
        count = smallest + number % 5
        pattern = random.integers(0, 200, (1, size, size, channels))
        noise = random.integers(0, 56, (count, size, size, channels))
        images.append((pattern + noise).astype(np.uint8))
        split = ("base", "validation", "novel")[number % 3]
        entries.append((f"class {number}", split, count))
    order = sorted(range(classes), key=lambda n: entries[n][1])
    stored = []
    for number in order:
        name, split, count = entries[number]
        stored.append(StoredClass(name, split, start, count))
        start += count
    pixels = np.concatenate([images[number] for number in order])
    return write_store(folder, pixels, stored, source=source, preprocessing="none")
