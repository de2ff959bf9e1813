"""Meta-testing a checkpoint on numbered tasks."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from unicorn_maml.data.batches import TaskLoader
from unicorn_maml.data.sources import open_store
from unicorn_maml.data.tasks import TaskSampler
from unicorn_maml.devices import choose_device, describe_device, versions
from unicorn_maml.errors import UsageError
from unicorn_maml.files import read_json, write_json
from unicorn_maml.intervals import mean_interval
from unicorn_maml.methods.build import METHODS
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.method import Method
from unicorn_maml.methods.scoring import iterate_accuracies
from unicorn_maml.settings import (
    AdaptationSettings,
    CompareSettings,
    EvaluateSettings,
    PretrainSettings,
    TrainSettings,
)
from unicorn_maml.training.checkpoint import Checkpoint, load_checkpoint

__all__ = ["MetaTest", "compare", "evaluate"]

OnProgress = Callable[[int, int, dict[str, float]], None]


@dataclass
class MetaTest:
    """A model, the tasks that it is tested on, and the accuracies so far."""

    method: Method
    loader: TaskLoader
    tasks: int
    record: dict[str, Any]  # every setting that the accuracies depend on
    per_task: list[float]  # percent, of tasks 0, 1, ...
    seconds: float = 0.0
    tasks_timed: int = 0

    def run(self, on_progress: OnProgress | None = None) -> None:
        """Test the remaining tasks; an interrupt leaves what is done in `per_task`."""
        started = time.perf_counter()
        numbers = range(len(self.per_task), self.tasks)
        for accuracies in iterate_accuracies(self.method, self.loader, numbers):
            self.per_task.extend(float(value) for value in accuracies)
            self.tasks_timed += len(accuracies)
            self.seconds = time.perf_counter() - started
            if on_progress:
                on_progress(
                    len(self.per_task), self.tasks, {"accuracy": mean_interval(self.per_task).mean}
                )

    def result(self) -> dict[str, Any]:
        """Return accuracies in percent, with all that is needed to get them again."""
        interval = mean_interval(self.per_task)
        return {
            "accuracy": interval.mean,
            "ci95": interval.ci95,
            "tasks": len(self.per_task),
            **self.record,
            "tasks_per_second": self.tasks_timed / self.seconds if self.seconds else None,
            "device": describe_device(self.loader.device),
            "versions": versions(),
            "per_task": self.per_task,
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
    store = open_store(store_name)
    wanted = checkpoint.spec.features
    if (store.size, store.channels) != (wanted.size, wanted.channels):
        raise UsageError(
            f"{checkpoint.folder} takes {wanted.size}x{wanted.size} images with {wanted.channels} "
            f"channels, but the store has {store.size}x{store.size} with {store.channels}; choose "
            "a store that fits."
        )
    adaptation = AdaptationSettings(
        inner_steps=_first(settings.inner_steps, trained.adaptation.inner_steps),
        inner_lr=_first(settings.inner_lr, trained.adaptation.inner_lr),
        order=trained.adaptation.order,
        adapt=_first(settings.adapt, trained.adaptation.adapt),
        normalization=_first(settings.normalization, trained.adaptation.normalization),
        precision=settings.precision,
    )
    head = settings.head if isinstance(settings, EvaluateSettings) else None
    method = checkpoint.method(adaptation, head)
    if isinstance(method, MAML):
        method.head(way)  # a head that cannot serve so many ways says so now
    device = choose_device(settings.device)
    sampler = TaskSampler(
        store, settings.split, way=way, shot=shot, query=settings.query, seed=settings.seed
    )
    loader = TaskLoader(
        sampler,
        pixel_mean=checkpoint.pixel_mean,
        pixel_std=checkpoint.pixel_std,
        device=device,
    )
    adapts = isinstance(method, MAML)
    record = {
        "way": way,
        "shot": shot,
        "query": settings.query,
        "inner_steps": adaptation.inner_steps if adapts else 0,
        "inner_lr": adaptation.inner_lr if adapts else None,
        "adapt": adaptation.adapt if adapts else "nothing",
        "normalization": adaptation.normalization if adapts else "frozen",
        "precision": adaptation.precision,
        "seed": settings.seed,
        "split": settings.split,
        "store": store_name,
        "store_checksum": store.checksum,
        "checkpoint": str(checkpoint.folder),
        "method": checkpoint.spec.method,
        "head": head or METHODS[checkpoint.spec.method].trained_head,
        "backbone": wanted.backbone,
    }
    return MetaTest(method.to(device), loader, settings.tasks, record, [])


_T = TypeVar("_T")


def _first(chosen: _T | None, default: _T) -> _T:
    return default if chosen is None else chosen


def evaluate(settings: EvaluateSettings, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Test one checkpoint and return the result; with --json it is also written.

    An interrupted evaluation writes what it has, and --resume continues from there.
    """
    test = prepare(load_checkpoint(settings.checkpoint), settings)
    if settings.resume:
        test.per_task = _finished_tasks(settings, test.record)[: settings.tasks]
    try:
        test.run(on_progress)
    finally:
        if settings.json and test.per_task:
            write_json(settings.json, test.result())
    return test.result()


def _finished_tasks(settings: EvaluateSettings, record: dict[str, Any]) -> list[float]:
    if settings.json is None:
        raise UsageError("--resume continues the evaluation in a file; name it with --json.")
    if not settings.json.exists():
        return []
    try:
        earlier = read_json(settings.json)
        finished = [float(value) for value in earlier["per_task"]]
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{settings.json} is not a result of `evaluate`; name another.") from None
    for name, value in record.items():
        if earlier.get(name) != value:
            raise UsageError(
                f"{settings.json} was made with {name} {earlier.get(name)}, not {value}; evaluate "
                "with the same settings, or write to another file."
            )
    return finished


def compare(settings: CompareSettings, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Test two checkpoints on identical tasks and return both results and the paired difference.

    Store, way and shot are the first one's unless given; the inner loop's settings are each one's
    own.
    """
    checkpoints = [load_checkpoint(path) for path in (settings.first, settings.second)]
    tests = [prepare(checkpoint, settings, checkpoints[0].settings) for checkpoint in checkpoints]
    for number, test in enumerate(tests):
        done_before = number * settings.tasks

        def shifted(
            done: int, total: int, figures: dict[str, float], add: int = done_before
        ) -> None:
            if on_progress:
                on_progress(add + done, 2 * total, figures)

        test.run(shifted)
    first, second = (test.result() for test in tests)
    difference = mean_interval(np.subtract(first["per_task"], second["per_task"]))
    result = {
        "first": first,
        "second": second,
        "difference": difference.mean,
        "difference_ci95": difference.ci95,
    }
    if settings.json:
        write_json(settings.json, result)
    return result
