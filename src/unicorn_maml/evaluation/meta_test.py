"""Meta-testing a checkpoint on numbered tasks."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from unicorn_maml.data.batches import TaskLoader
from unicorn_maml.data.sources import is_embedded, open_store
from unicorn_maml.data.store import ImageStore
from unicorn_maml.data.tasks import TaskSampler
from unicorn_maml.devices import choose_device, describe_device, require_compiler, versions
from unicorn_maml.errors import UsageError
from unicorn_maml.intervals import mean_interval
from unicorn_maml.methods.build import METHODS
from unicorn_maml.methods.features import extract_features
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.method import Method
from unicorn_maml.methods.remedies import RemediedMAML
from unicorn_maml.methods.scoring import (
    iterate_accuracies,
    iterate_feature_accuracies,
    iterate_leaking_accuracies,
)
from unicorn_maml.models.heads import PerSlotHead
from unicorn_maml.names import option_name
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import (
    CompareSettings,
    EvaluateSettings,
    HeadKind,
    PretrainSettings,
    Remedy,
    TrainSettings,
    to_json,
)
from unicorn_maml.training.checkpoint import Checkpoint

__all__ = [
    "Measure",
    "MetaTest",
    "prepare",
]

# From task numbers to what is measured of a few tasks at a time, in order: arrays (t, ...).
Measure = Callable[[Sequence[int]], Iterator[NDArray[np.float64]]]


@dataclass
class MetaTest:
    """A model, the tasks that it is tested on, and what was measured so far: their accuracies.

    A study measures something else, a row of numbers for each task, by a `measure` of its own.
    """

    method: Method
    loader: TaskLoader
    tasks: int
    record: dict[str, Any]  # every setting that the accuracies depend on
    training: dict[str, Any]  # how the model came about
    per_task: list[Any]  # of tasks 0, 1, ...: percent, or rows of numbers
    seconds: float = 0.0  # all of the time, that of feature_seconds too
    feature_seconds: float | None = None  # spent on features before the first task, if any was
    tasks_timed: int = 0
    measure: Measure | None = None

    def run(
        self,
        on_progress: OnProgress | None = None,
        *,
        done_before: int = 0,
        all_tasks: int | None = None,
    ) -> None:
        """Test the remaining tasks; an interrupt leaves what is done in `per_task`.

        `done_before` and `all_tasks` place this test in a longer work, for the progress shown.
        """
        started = time.perf_counter()
        numbers = range(len(self.per_task), self.tasks)
        if self.measure:
            found = self.measure(numbers)
        elif numbers and self.method.has_fixed_features:
            features = extract_features(self.method, self.loader, numbers, on_progress)
            self.feature_seconds = time.perf_counter() - started
            found = iterate_feature_accuracies(self.method, features, numbers)
        elif self.record["leak"]:
            found = iterate_leaking_accuracies(self.method, self.loader, numbers)
        else:
            found = iterate_accuracies(self.method, self.loader, numbers)
        for rows in found:
            self.per_task.extend(rows.tolist())
            self.tasks_timed += len(rows)
            self.seconds = time.perf_counter() - started
            if on_progress:
                figures = {"tasks/s": self.tasks_timed / self.seconds}
                if not self.measure:
                    figures = {"accuracy": mean_interval(self.per_task).mean}
                on_progress(done_before + len(self.per_task), all_tasks or self.tasks, figures)

    def unfinished(self) -> dict[str, Any]:
        """Return what another process needs to continue."""
        return {"record": self.record, "tasks": self.tasks, "per_task": self.per_task}

    def result(self) -> dict[str, Any]:
        """Return accuracies in percent, with all that is needed to get them again."""
        interval = mean_interval(self.per_task)
        return {
            "accuracy": interval.mean,
            "ci95": interval.ci95,
            "tasks": len(self.per_task),
            **self.record,
            "tasks_per_second": self.tasks_timed / self.seconds if self.seconds else None,
            "feature_seconds": self.feature_seconds,
            **self._circumstances(),
            "per_task": self.per_task,
        }

    def diverged(self) -> dict[str, Any]:
        """Return the result of a test whose inner loop diverged in some task: no accuracy."""
        return {"diverged": True, "tasks": self.tasks, **self.record, **self._circumstances()}

    def _circumstances(self) -> dict[str, Any]:
        return {
            "device": describe_device(self.loader.device),
            "versions": versions(),
            "training": self.training,
        }


def prepare(
    checkpoint: Checkpoint,
    settings: EvaluateSettings | CompareSettings,
    tasks_as: TrainSettings | PretrainSettings | None = None,
) -> MetaTest:
    """Make a test of a checkpoint; options left open are taken from its training.

    Those that say which tasks are drawn (store, way, shot) are taken from `tasks_as`, if given.
    """
    trained = checkpoint.settings
    tasks_as = tasks_as or trained
    way, shot = _first(settings.way, tasks_as.way), _first(settings.shot, tasks_as.shot)
    store_name = _first(settings.store, tasks_as.store)
    store = _open_store(store_name, checkpoint, chosen=settings.store is not None)
    given = {name: getattr(settings, name) for name in _AS_TRAINED}
    adaptation = replace(
        trained.adaptation,
        **{name: value for name, value in given.items() if value is not None},
        drop=settings.drop,
        precision=settings.precision,
        compile=settings.compile,
    )
    head: HeadKind | None = None
    remedy: Remedy | None = None
    if isinstance(settings, EvaluateSettings):
        head, remedy = settings.head, settings.remedy
    method = checkpoint.method(adaptation, head)
    if isinstance(method, MAML):
        method.head(way)  # a head that cannot serve so many ways says so now
    elif isinstance(settings, EvaluateSettings):
        _refuse_inner_loop(settings)
    adapts = isinstance(method, MAML)
    if settings.leak and not (adapts and adaptation.normalization == "mixed" and not remedy):
        raise UsageError(
            "--leak is for methods that adapt, with --normalization mixed and without --remedy."
        )
    if remedy:
        method = _remedied(method, remedy, checkpoint)
        method.orders(way)  # too many permutations: the same
    device = choose_device(settings.device)
    if settings.compile:
        require_compiler(device)
    sampler = TaskSampler(
        store, settings.split, way=way, shot=shot, query=settings.query, seed=settings.seed
    )
    loader = TaskLoader(
        sampler,
        pixel_mean=checkpoint.pixel_mean,
        pixel_std=checkpoint.pixel_std,
        device=device,
    )
    record = {
        "way": way,
        "shot": shot,
        "query": settings.query,
        "inner_steps": adaptation.inner_steps if adapts else 0,
        "trained_steps": trained.adaptation.inner_steps if adapts else 0,
        "inner_lr": adaptation.inner_lr if adapts else None,
        "adapt": adaptation.adapt if adapts else "nothing",
        "normalization": adaptation.normalization if adapts else "frozen",
        "drop": adapts and adaptation.drop,
        "leak": settings.leak,
        "precision": adaptation.precision,
        "compile": adaptation.compile,
        "seed": settings.seed,
        "split": settings.split,
        "store": store_name,
        "store_checksum": store.identity,
        "data_set": store.data_set,
        "checkpoint": checkpoint.name,
        "weights_sha256": checkpoint.weights_sha256,
        "method": checkpoint.spec.method,
        "head": head or METHODS[checkpoint.spec.method].trained_head,
        "remedy": remedy,
        "backbone": checkpoint.spec.features.backbone,
    }
    training = {**to_json(trained), "kept_epoch": checkpoint.metrics.get("epoch")}
    return MetaTest(method.to(device), loader, settings.tasks, record, training, [])


# Settings of the inner loop that are those of the training unless given.
_AS_TRAINED = ("inner_steps", "inner_lr", "adapt", "normalization")


def _open_store(name: str, checkpoint: Checkpoint, *, chosen: bool) -> ImageStore:
    """Open the store to test on, `chosen` by the user or that of the training."""
    if not chosen and not is_embedded(name) and not Path(name).is_dir():
        raise UsageError(
            f"{checkpoint.name} was trained on the store {name!r}, which is not here; "
            "name one with --store."
        )
    store = open_store(name)
    wanted = checkpoint.spec.features
    if (store.size, store.channels) != (wanted.size, wanted.channels):
        raise UsageError(
            f"{checkpoint.name} takes {wanted.size}x{wanted.size} images with {wanted.channels} "
            f"channels, but the store has {store.size}x{store.size} with {store.channels}; choose "
            "a store that fits."
        )
    return store


def _refuse_inner_loop(settings: EvaluateSettings) -> None:
    for name in (*_AS_TRAINED, "drop"):
        if getattr(settings, name) not in (None, False):
            raise UsageError(
                f"Nearest centroid adapts nothing, so {option_name(name)} has no effect; "
                "leave it out, or add --head zero to adapt."
            )


def _remedied(method: Method, remedy: Remedy, checkpoint: Checkpoint) -> RemediedMAML:
    if not isinstance(method, MAML) or type(method.head) is not PerSlotHead:
        raise UsageError(
            "--remedy is for heads whose slots start differently, but those of "
            f"{checkpoint.name} start alike here: every permutation gives the same answer. Leave "
            "--remedy out."
        )
    return RemediedMAML(method, remedy)


_T = TypeVar("_T")


def _first(chosen: _T | None, default: _T) -> _T:
    return default if chosen is None else chosen
