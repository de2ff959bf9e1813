"""Pre-training: a backbone learns to tell all base classes apart.

Tasks say which epoch is kept: nearest centroid on one-shot tasks of the validation classes.
"""

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from unicorn_maml.data.batches import normaliser
from unicorn_maml.data.sources import open_store
from unicorn_maml.data.store import ImageStore
from unicorn_maml.data.tasks import TaskSampler
from unicorn_maml.devices import can_compile, choose_device, describe_device, matrix_teraflops
from unicorn_maml.errors import DivergedError
from unicorn_maml.intervals import mean_interval
from unicorn_maml.methods.build import ModelSpec
from unicorn_maml.methods.centroid import NearestCentroid
from unicorn_maml.methods.features import FeatureLoader, frozen_features
from unicorn_maml.methods.scoring import iterate_feature_accuracies
from unicorn_maml.models.build import build_backbone
from unicorn_maml.models.flops import forward_flops
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import Distance, PretrainSettings
from unicorn_maml.training.augmentation import augment, four_rotations
from unicorn_maml.training.average import move_towards
from unicorn_maml.training.checkpoint import (
    Checkpoint,
    load_begun,
    load_checkpoint,
    load_training_state,
    refusing_nonsense,
)
from unicorn_maml.training.classifier import (
    Classifier,
    direction_loss,
    mixed_with_neighbours,
    rotation_loss,
    target_shares,
)
from unicorn_maml.training.optimizer import (
    optimizer_state,
    restore_optimizer,
    sgd_or_adam,
    share_of_rate,
)
from unicorn_maml.training.run import RunFolder
from unicorn_maml.training.split_images import SplitImages
from unicorn_maml.training.start import backbone_spec, drawing_from, epoch_seed, first_weights
from unicorn_maml.training.teacher import Teacher

__all__ = ["PretrainResult", "pretrain"]


@dataclass(frozen=True)
class PretrainResult:
    """How a run ended."""

    folder: Path
    epochs: int
    best_epoch: int
    validation_accuracy: float  # nearest centroid by cosine, on one-shot tasks
    validation_ci95: float
    images_per_second: float
    seconds: float


def pretrain(settings: PretrainSettings, on_progress: OnProgress | None = None) -> PretrainResult:
    """Pre-train as the settings say, or continue a run, and return how it ended."""
    device = choose_device(settings.device)
    store = open_store(settings.store)
    begun = load_begun(settings.folder, store.identity) if settings.resume else None
    trainer = _Trainer(settings, store, device, begun)
    with trainer.run.under_way():
        if begun:
            trainer.restore(begun)
        trainer.run.go_on(begun)
        return trainer.train(on_progress)


class _Trainer:
    """The state that an epoch changes."""

    def __init__(
        self,
        settings: PretrainSettings,
        store: ImageStore,
        device: torch.device,
        begun: Checkpoint | None,
    ):
        self.settings, self.device = settings, device
        self.spec = ModelSpec(method="pretrained", way=5, features=backbone_spec(settings, store))
        self.base = SplitImages(store, "base", device)
        self.validation = SplitImages(store, "validation", device)
        way = settings.select_way or self.validation.classes
        smallest = min(entry.count for entry in store.classes_of("validation"))
        query = max(1, min(15, smallest - 1))
        self.sampler = TaskSampler(
            store, "validation", way=way, shot=1, query=query, seed=settings.seed
        )
        self.teacher: Teacher | None = None
        if settings.teacher is not None:
            teacher = load_checkpoint(settings.teacher)
            self.teacher = Teacher(teacher, store, settings.precision, device)
        width = self.teacher.feature_width if self.teacher and settings.teacher_features > 0 else 0
        with drawing_from(settings.seed, torch.device("cpu")):
            backbone = build_backbone(self.spec.features)
            self.model = Classifier(backbone, backbone.feature_width, self.base.classes, width)
        pixels = first_weights(settings, backbone, self.spec.features, store, begun)
        self.model.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        # What is judged and kept: the backbone itself, or the running average of its weights.
        self.averaged = copy.deepcopy(backbone) if settings.average > 0 else backbone
        # CUDA graphs, because launching an update's kernels takes longer than running them.
        self.forward = (
            torch.compile(self.model, mode="reduce-overhead") if can_compile(device) else self.model
        )
        if self.teacher:
            self.teacher.see(self.base.load, self.base.labels)
        self.optimizer = sgd_or_adam(
            settings.optimizer,
            [{"params": list(self.model.parameters())}],
            lr=settings.lr,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
        )
        self.normalise = normaliser(*pixels, device)
        self.images_per_second = 0.0
        self.run = RunFolder(settings, self.spec, pixels, store.identity)

    def restore(self, begun: Checkpoint) -> None:
        """Take over what the last saved epoch left."""
        with refusing_nonsense(self.run.last):
            state = load_training_state(self.run.last)
            rest = {name: state.pop(name) for name in list(state) if not name[0].isdigit()}
            self.model.load_state_dict({**begun.weights, **rest})
            NearestCentroid(self.averaged).load_state_dict(begun.weights)
            restore_optimizer(self.optimizer, state)
            self.images_per_second = float(begun.metrics["images_per_second"])

    def train(self, on_progress: OnProgress | None) -> PretrainResult:
        run = self.run
        while self._share_done(run.epoch, 0.0) < 1:
            started = time.perf_counter()
            entry = self._train_epoch(run.epoch + 1, started, on_progress)
            last = self._share_done(entry["epoch"], time.perf_counter() - started) >= 1
            if last or entry["epoch"] % self.settings.select_every == 0:
                entry |= self._validate()
            entry["seconds"] = time.perf_counter() - started
            self.images_per_second = entry["images_per_second"]
            run.save(entry, NearestCentroid(self.averaged), self._training_state())
        result = PretrainResult(
            folder=run.folder,
            epochs=run.epoch,
            best_epoch=run.best_entry["epoch"],
            validation_accuracy=run.best_entry["validation_accuracy"],
            validation_ci95=run.best_entry["validation_ci95"],
            images_per_second=self.images_per_second,
            seconds=run.seconds,
        )
        run.finish({**vars(result), "device": describe_device(self.device), **self._rates()})
        return result

    def _rates(self) -> dict[str, float]:
        """Arithmetic per second, and its share of what the device reaches in matrix products."""
        shape = self.spec.features
        flops = 3 * forward_flops(self.model.backbone, shape.channels, shape.size)
        used = self.images_per_second * flops / 1e12
        limit = matrix_teraflops(self.device, self.settings.precision)
        return {"tflops": used, "matrix_tflops": limit, "share_of_matrix_rate": used / limit}

    def _share_done(self, epochs: float, seconds: float) -> float:
        """How much of the training lies behind, after so many epochs, seconds into this epoch."""
        if self.settings.minutes is not None:
            return (self.run.seconds + seconds) / (60 * self.settings.minutes)
        return epochs / self.settings.epochs

    def _train_epoch(
        self, epoch: int, started: float, on_progress: OnProgress | None
    ) -> dict[str, Any]:
        settings = self.settings
        self.model.train()
        losses: list[Tensor] = []
        correct: list[Tensor] = []
        images_seen = 0
        with drawing_from(epoch_seed(settings.seed, epoch), self.device):
            for number, rows in enumerate(self._batches()):
                seconds = time.perf_counter() - started
                done = self._share_done(epoch - 1 + images_seen / len(self.base), seconds)
                if done >= 1 and losses:
                    break
                rate = settings.lr * share_of_rate(
                    settings.schedule, done, settings.decay_shares, settings.decay
                )
                for group in self.optimizer.param_groups:
                    group["lr"] = rate
                loss, hits = self._update(rows)
                images_seen += len(rows)
                losses.append(loss)
                correct.append(hits)
                if number % 20 == 19 and on_progress:
                    figures = {
                        "epoch": epoch,
                        "loss": self._finite(loss, epoch),
                        "images/s": images_seen * self._views / (time.perf_counter() - started),
                        "best": max(0.0, self.run.best_entry["validation_accuracy"]),
                    }
                    on_progress(int(1000 * done), 1000, figures)
        mean_loss = self._finite(torch.stack(losses).mean(), epoch)
        speed = images_seen * self._views / (time.perf_counter() - started)
        return {
            "epoch": epoch,
            "loss": mean_loss,
            "accuracy": float(torch.stack(correct).float().mean() * 100),
            "lr": rate,
            "images_per_second": speed,
        }

    def _finite(self, loss: Tensor, epoch: int) -> float:
        value = float(loss)  # waits for the device
        if not np.isfinite(value):
            raise DivergedError(
                f"The loss was no longer finite in epoch {epoch}; try a smaller --lr."
            )
        return value

    @property
    def _views(self) -> int:
        """How many times an image goes through the network in an update."""
        return 4 if self.settings.rotation > 0 else 1

    def _batches(self) -> Iterator[Tensor]:
        order = torch.randperm(len(self.base))
        whole = len(order) // self.settings.batch_size * self.settings.batch_size
        yield from torch.split(order[: whole or None], self.settings.batch_size)

    def _update(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        settings = self.settings
        labels = self.base.labels[rows.to(self.device)]
        images = augment(self.base.load(rows), settings)
        lesson = self.teacher.teach(images) if self.teacher else None
        targets = target_shares(
            labels,
            self.base.classes,
            smoothing=settings.label_smoothing,
            soft_labels=lesson.soft_labels if lesson else None,
            soft_weight=settings.teacher_weight,
        )
        # Of upright images alone: a rotation is to be seen in the features.
        truth = lesson.directions if lesson and settings.teacher_features > 0 else None
        images = self.normalise(images)
        if settings.rotation > 0:
            images = four_rotations(images)
            labels, targets = labels.repeat(4), targets.repeat(4, 1)
        if settings.mixup > 0:
            share = float(np.random.default_rng(int(rows[0])).beta(settings.mixup, settings.mixup))
            share = max(share, 1 - share)  # the same mixtures; the labels' class is the larger part
            images = mixed_with_neighbours(images, share, self._views)
            targets = mixed_with_neighbours(targets, share, self._views)
            if truth is not None:
                truth = mixed_with_neighbours(truth, share, 1)
        images = images.contiguous(memory_format=torch.channels_last)
        bfloat16 = settings.precision == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=bfloat16):
            logits, turns, directions = self.forward(images)
        loss = F.cross_entropy(logits, targets)
        if truth is not None:
            told = directions[: len(truth)]
            loss = loss + settings.teacher_features * direction_loss(told, truth)
        if settings.rotation > 0:
            loss = loss + settings.rotation * rotation_loss(turns)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        if self.averaged is not self.model.backbone:
            now, share = self.model.backbone.state_dict(), 1 - settings.average
            move_towards(self.averaged.state_dict(), now, share)
        return loss.detach(), (logits.argmax(1) == labels).float().mean()

    @torch.no_grad()
    def _validate(self) -> dict[str, float]:
        """Nearest centroid on the validation tasks, by both distances."""
        features = torch.cat(
            [
                frozen_features(
                    self.averaged,
                    self.normalise(self.validation.load(rows)),
                    self.settings.precision,
                )
                for rows in torch.split(torch.arange(len(self.validation)), 512)
            ]
        )
        tasks = FeatureLoader(self.sampler, self.sampler.rows_of_split(), features)
        numbers = range(self.settings.select_tasks)
        cosine, euclidean = (
            mean_interval(np.concatenate([*iterate_feature_accuracies(method, tasks, numbers)]))
            for method in (NearestCentroid(self.model.backbone, each) for each in _DISTANCES)
        )
        return {
            "validation_accuracy": cosine.mean,
            "validation_ci95": cosine.ci95,
            "validation_accuracy_euclidean": euclidean.mean,
        }

    def _training_state(self) -> dict[str, Tensor]:
        """What resuming needs beside the backbone that is kept."""
        averages = self.averaged is not self.model.backbone
        rest = {
            name: value
            for name, value in self.model.state_dict().items()
            if averages or not name.startswith("backbone.")
        }
        return {**optimizer_state(self.optimizer), **rest}


_DISTANCES: tuple[Distance, Distance] = ("cosine", "euclidean")
