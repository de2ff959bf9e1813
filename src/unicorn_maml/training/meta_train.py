"""Meta-training: the outer loop, from settings to a run folder.

Task numbers, weights and schedules are functions of the settings and the epoch alone, so a run that
was interrupted at any moment and resumed ends with the same weights as one that was not. (With
drop layers that act, only where one task makes an update: the cores of a CPU draw in turn.)
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicorn_maml.data.batches import TaskLoader
from unicorn_maml.data.sources import open_store
from unicorn_maml.data.store import ImageStore
from unicorn_maml.data.tasks import TaskSampler
from unicorn_maml.devices import choose_device, describe_device, require_compiler
from unicorn_maml.errors import DivergedError
from unicorn_maml.intervals import mean_interval
from unicorn_maml.methods.build import ModelSpec, build_method
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.scoring import iterate_accuracies
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import PretrainSettings, TrainSettings
from unicorn_maml.training.augmentation import augment
from unicorn_maml.training.average import RunningAverage
from unicorn_maml.training.checkpoint import (
    Checkpoint,
    load_begun,
    load_training_state,
    refusing_nonsense,
)
from unicorn_maml.training.meta_step import make_updates, norm_of
from unicorn_maml.training.optimizer import (
    build_optimizer,
    optimizer_state,
    restore_optimizer,
    set_learning_rate,
)
from unicorn_maml.training.run import RunFolder
from unicorn_maml.training.start import (
    Pixels,
    backbone_spec,
    drawing_from,
    epoch_seed,
    first_weights,
)
from unicorn_maml.training.statistics import match_statistics

__all__ = ["TrainResult", "meta_train"]

# Of the pre-trained ConvNet-4, moments of so many are within 1% (means, in deviations) and 3%
# (variances) of those of ten times as many others; pre-training's own are 17% and 28% away.
_MATCHED_IMAGES = 1280
_IMAGES_AT_ONCE = 128
_SECONDS_BETWEEN = 60.0  # of epochs that are lost at most, if more than one, by an interrupt


@dataclass(frozen=True)
class TrainResult:
    """How a run ended."""

    folder: Path
    epochs: int
    best_epoch: int
    validation_accuracy: float
    validation_ci95: float
    seconds: float


def meta_train(settings: TrainSettings, on_progress: OnProgress | None = None) -> TrainResult:
    """Meta-train as the settings say, or continue a run, and return how it ended."""
    device = choose_device(settings.device)
    if settings.compile:
        require_compiler(device)
    store = open_store(settings.store)
    spec = ModelSpec(
        method=settings.method, way=settings.way, features=backbone_spec(settings, store)
    )
    begun = load_begun(settings.folder, store.identity) if settings.resume else None
    with drawing_from(settings.seed, torch.device("cpu")):
        method = build_method(spec, settings.adaptation)
    assert isinstance(method, MAML)
    pixels = first_weights(settings, method.backbone, spec.features, store, begun)
    method.to(device)
    if settings.init and settings.match_statistics and not begun:
        images = _base_images(_loader(settings, store, "base", pixels, device))
        match_statistics(method.backbone, images, settings.precision)
    vary = (lambda images: augment(images, _VARIATION)) if settings.augment else None
    base = _loader(settings, store, "base", pixels, device, vary)
    validation = _loader(settings, store, "validation", pixels, device)
    run = RunFolder(settings, spec, pixels, store.identity)
    trainer = _Trainer(settings, method, run, base, validation)
    with run.under_way():
        if begun:
            trainer.restore(begun)
        run.go_on(begun)
        return trainer.train(on_progress)


def _base_images(base: TaskLoader) -> Iterator[Tensor]:
    """Images of the first tasks' support sets, a batch at a time."""
    sampler = base.sampler
    tasks = -(-_MATCHED_IMAGES // (sampler.way * sampler.shot))
    rows = sampler.rows(range(tasks)).support.reshape(1, -1)
    for start in range(0, rows.shape[1], _IMAGES_AT_ONCE):
        yield base.images(rows[:, start : start + _IMAGES_AT_ONCE])[0]


_VARIATION = PretrainSettings(crop="padded", flip=True, jitter=0.4)


def _loader(
    settings: TrainSettings,
    store: ImageStore,
    split: str,
    pixels: Pixels,
    device: torch.device,
    vary: Callable[[Tensor], Tensor] | None = None,
) -> TaskLoader:
    sampler = TaskSampler(
        store,
        split,
        way=settings.way,
        shot=settings.shot,
        query=settings.query,
        seed=settings.seed,
    )
    return TaskLoader(sampler, pixel_mean=pixels[0], pixel_std=pixels[1], device=device, vary=vary)


class _Trainer:
    """The state that an epoch changes."""

    def __init__(
        self,
        settings: TrainSettings,
        method: MAML,
        run: RunFolder,
        base: TaskLoader,
        validation: TaskLoader,
    ):
        self.settings, self.method = settings, method
        self.run, self.base, self.validation = run, base, validation
        self.optimizer = build_optimizer(method, settings)
        # What is judged and kept, if not the weights themselves.
        self.average = RunningAverage(method, settings.average) if settings.average > 0 else None

    def restore(self, begun: Checkpoint) -> None:
        """Take over what the last saved epoch left."""
        with refusing_nonsense(self.run.last):
            state = load_training_state(self.run.last)
            own = {name: state.pop(name) for name in list(state) if not name[0].isdigit()}
            self.method.load_state_dict(own or begun.weights)
            restore_optimizer(self.optimizer, state)
            if self.average:
                self.average.restore(begun.weights)

    def train(self, on_progress: OnProgress | None) -> TrainResult:
        settings, run = self.settings, self.run
        epoch, saved_at = run.epoch, time.perf_counter()
        while epoch < settings.epochs and not self._out_of_patience(epoch):
            epoch += 1
            started = time.perf_counter()
            # Drop layers and varied images draw.
            with drawing_from(epoch_seed(settings.seed, epoch), self.base.device):
                entry = self._train_epoch(epoch, on_progress)
            judged = epoch % settings.validate_every == 0 or epoch == settings.epochs
            with self._kept_weights() as own:
                if judged:
                    entry |= self._validate()
                entry["seconds"] = time.perf_counter() - started
                if judged or time.perf_counter() - saved_at >= _SECONDS_BETWEEN:
                    run.save(entry, self.method, {**optimizer_state(self.optimizer), **own})
                    saved_at = time.perf_counter()
                else:
                    run.log(entry)
        result = TrainResult(
            folder=run.folder,
            epochs=run.epoch,
            best_epoch=run.best_entry["epoch"],
            validation_accuracy=run.best_entry["validation_accuracy"],
            validation_ci95=run.best_entry["validation_ci95"],
            seconds=run.seconds,
        )
        run.finish({**vars(result), "device": describe_device(self.base.device)})
        return result

    @contextmanager
    def _kept_weights(self) -> Iterator[dict[str, Tensor]]:
        """Put what is kept in place; yields what only resuming needs then: the weights themselves.

        Without an average they are kept, so nothing is needed.
        """
        if self.average:
            with self.average.kept() as own:
                yield own
        else:
            yield {}

    def _out_of_patience(self, epoch: int) -> bool:
        """Only a validation ends a run: which other epochs are saved is a matter of speed."""
        patience, judged = self.settings.patience, epoch % self.settings.validate_every == 0
        return judged and 0 < patience <= epoch - int(self.run.best_entry["epoch"])

    def _train_epoch(self, epoch: int, on_progress: OnProgress | None) -> dict[str, Any]:
        settings = self.settings
        rate = set_learning_rate(self.optimizer, settings, epoch)
        first_task = (epoch - 1) * settings.tasks_per_epoch
        all_tasks = settings.epochs * settings.tasks_per_epoch
        losses, accuracies, gradients = [], [], []
        started = time.perf_counter()
        firsts = range(first_task, first_task + settings.tasks_per_epoch, settings.task_batch)
        updates = make_updates(
            self.method,
            self.optimizer,
            (self.base.load(range(i, i + settings.task_batch)) for i in firsts),
            temperature=settings.temperature,
            after_update=self.average.update if self.average else None,
        )
        for first, step in zip(firsts, updates, strict=True):
            done = first + settings.task_batch
            assert step.head_gradient_norm is not None
            gradients.append(float(step.head_gradient_norm))
            losses.append(float(step.loss))
            accuracies.append(float(step.accuracy))
            if not np.isfinite(losses[-1]):
                raise DivergedError(
                    f"The query loss was no longer finite in epoch {epoch}; try a smaller "
                    "--outer-lr or --inner-lr."
                )
            figures = {
                "epoch": epoch,
                "loss": float(np.mean(losses[-50:])),
                "accuracy": float(np.mean(accuracies[-50:])),
                "tasks/s": (done - first_task) / (time.perf_counter() - started),
            }
            if on_progress:
                on_progress(done, all_tasks, figures)
        return {
            "epoch": epoch,
            "loss": float(np.mean(losses)),
            "accuracy": float(np.mean(accuracies)),
            "outer_lr": rate,
            "head_norm": float(norm_of(self.method.head.parameters())),
            "head_gradient_norm": float(np.mean(gradients)),
            "tasks_per_second": settings.tasks_per_epoch / (time.perf_counter() - started),
        }

    def _validate(self) -> dict[str, float]:
        """Accuracy on the validation tasks; drop layers rest, so that a task has one result."""
        numbers = range(self.settings.validation_tasks)
        trained = self.method.adaptation
        self.method.adaptation = replace(trained, drop=False)
        try:
            scores = np.concatenate(list(iterate_accuracies(self.method, self.validation, numbers)))
        finally:
            self.method.adaptation = trained
        interval = mean_interval(scores)
        return {"validation_accuracy": interval.mean, "validation_ci95": interval.ci95}
