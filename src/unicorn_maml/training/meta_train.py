"""Meta-training: the outer loop, from settings to a run folder.

Task numbers, weights and schedules are functions of the settings and the epoch alone, so a run that
was interrupted at any moment and resumed ends with the same weights as one that was not. (With
drop layers that act, only where one task makes an update: the cores of a CPU draw in turn.)
"""

import time
from collections.abc import Callable
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
from unicorn_maml.models.build import BackboneSpec
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import PretrainSettings, TrainSettings
from unicorn_maml.training.augmentation import augment
from unicorn_maml.training.checkpoint import (
    Checkpoint,
    load_backbone,
    load_begun,
    load_training_state,
    refusing_nonsense,
    save_checkpoint,
)
from unicorn_maml.training.meta_step import make_updates, norm_of
from unicorn_maml.training.optimizer import (
    build_optimizer,
    optimizer_state,
    restore_optimizer,
    set_learning_rate,
)
from unicorn_maml.training.run import RunFolder, epoch_seed

__all__ = ["TrainResult", "backbone_spec", "meta_train"]

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
    method, pixels = _first_model(settings, spec, store, begun)
    method.to(device)
    vary = (lambda images: augment(images, _VARIATION)) if settings.augment else None
    base = _loader(settings, store, "base", pixels, device, vary)
    validation = _loader(settings, store, "validation", pixels, device)
    run = RunFolder(settings)
    trainer = _Trainer(settings, spec, method, pixels, run, base, validation)
    try:
        if settings.resume:
            trainer.restore(begun)
        return trainer.train(on_progress)
    except DivergedError as error:
        run.abandon()
        kept = f" Epoch {trainer.epoch} is kept in {run.last}." if trainer.epoch else ""
        raise DivergedError(f"{error}{kept}") from error
    finally:
        run.close()


_VARIATION = PretrainSettings(crop="padded", flip=True, jitter=0.4)
_Pixels = tuple[tuple[float, ...], tuple[float, ...]]  # mean and deviation per channel


def backbone_spec(settings: TrainSettings | PretrainSettings, store: ImageStore) -> BackboneSpec:
    """Describe the backbone of a run on a store."""
    return BackboneSpec(
        backbone=settings.backbone,
        width=settings.width if settings.backbone == "convnet4" else None,
        pooling=settings.pooling,
        channels=store.channels,
        size=store.size,
        sum_slope=settings.sum_slope,
    )


def _first_model(
    settings: TrainSettings, spec: ModelSpec, store: ImageStore, begun: Checkpoint | None
) -> tuple[MAML, _Pixels]:
    """The model before the first update: random, or with the backbone of --init.

    A run that goes on where it stopped has the moments of the pixels from there, and its weights
    will come from there too; what it was made of need not be there any more.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        method = build_method(spec, settings.adaptation)
    assert isinstance(method, MAML)
    if begun:
        return method, (begun.pixel_mean, begun.pixel_std)
    if settings.init is None:
        return method, (store.pixel_mean, store.pixel_std)
    checkpoint = load_backbone(settings.init, method.backbone, spec.features)
    return method, (checkpoint.pixel_mean, checkpoint.pixel_std)


def _loader(
    settings: TrainSettings,
    store: ImageStore,
    split: str,
    pixels: _Pixels,
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
        spec: ModelSpec,
        method: MAML,
        pixels: _Pixels,
        run: RunFolder,
        base: TaskLoader,
        validation: TaskLoader,
    ):
        self.settings, self.spec, self.method, self.pixels = settings, spec, method, pixels
        self.run, self.base, self.validation = run, base, validation
        self.optimizer = build_optimizer(method, settings)
        self.epoch = 0  # the last one that is saved
        self.best: dict[str, Any] = {"epoch": 0, "validation_accuracy": -1.0}
        self.seconds = 0.0
        self.saved_at = time.perf_counter()

    def restore(self, begun: Checkpoint | None) -> None:
        """Go back to the end of the last saved epoch, or to the beginning."""
        if begun is None:
            self.run.forget_after(0)
            return
        with refusing_nonsense(self.run.last):
            self.method.load_state_dict(begun.weights)
            restore_optimizer(self.optimizer, load_training_state(self.run.last))
            self.epoch, self.best = int(begun.metrics["epoch"]), begun.metrics["best"]
            self.seconds = float(begun.metrics["run_seconds"])
            self.run.forget_after(self.epoch)

    def train(self, on_progress: OnProgress | None) -> TrainResult:
        epoch = self.epoch
        while epoch < self.settings.epochs and not self._out_of_patience(epoch):
            epoch += 1
            started = time.perf_counter()
            with torch.random.fork_rng(devices=self._devices()):
                # of drop layers and varied images
                torch.manual_seed(epoch_seed(self.settings.seed, epoch))
                entry = self._train_epoch(epoch, on_progress)
            judged = epoch % self.settings.validate_every == 0 or epoch == self.settings.epochs
            if judged:
                entry |= self._validate()
            entry["seconds"] = time.perf_counter() - started
            self.seconds += entry["seconds"]
            if judged or time.perf_counter() - self.saved_at >= _SECONDS_BETWEEN:
                self._save(entry)
            else:
                self.run.log(entry)
        result = TrainResult(
            folder=self.run.folder,
            epochs=self.epoch,
            best_epoch=self.best["epoch"],
            validation_accuracy=self.best["validation_accuracy"],
            validation_ci95=self.best["validation_ci95"],
            seconds=self.seconds,
        )
        device = describe_device(self.base.device)
        self.run.finish({**vars(result), "folder": str(result.folder), "device": device})
        return result

    def _devices(self) -> list[torch.device]:
        return [self.base.device] if self.base.device.type == "cuda" else []

    def _out_of_patience(self, epoch: int) -> bool:
        """Only a validation ends a run: which other epochs are saved is a matter of speed."""
        patience, judged = self.settings.patience, epoch % self.settings.validate_every == 0
        return judged and 0 < patience <= epoch - int(self.best["epoch"])

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

    def _save(self, entry: dict[str, Any]) -> None:
        is_best = entry.get("validation_accuracy", -1.0) > self.best["validation_accuracy"]
        if is_best:
            self.best = entry
        self.run.save_epoch(entry, is_best=is_best, write=self._checkpoint)
        self.epoch, self.saved_at = entry["epoch"], time.perf_counter()

    def _checkpoint(self, folder: Path, entry: dict[str, Any], resumable: bool) -> None:
        save_checkpoint(
            folder,
            self.method,
            spec=self.spec,
            settings=replace(self.settings, resume=False),
            pixel_mean=self.pixels[0],
            pixel_std=self.pixels[1],
            metrics={
                **entry,
                "best": self.best,
                "run_seconds": self.seconds,
                "store_checksum": self.base.sampler.store.identity,
            },
            training_state=optimizer_state(self.optimizer) if resumable else None,
        )
