"""Batches of tasks: gathered from the store, and normalised, on the device that computes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unicorn_maml.data.store import ImageStore
from unicorn_maml.data.tasks import TaskSampler

__all__ = ["TaskBatch", "TaskLoader", "gather_tasks", "normaliser"]


@dataclass(frozen=True)
class TaskBatch:
    """T tasks side by side; S = shot * way support images and Q = query * way query images each.

    Where features are known, they stand in the place of images: (T, S, D) and (T, Q, D).
    """

    support_images: Tensor  # (T, S, C, H, W)
    support_labels: Tensor  # (T, S) slots in 0..way-1
    query_images: Tensor  # (T, Q, C, H, W)
    query_labels: Tensor  # (T, Q)
    way: int

    def __len__(self) -> int:
        return len(self.support_images)

    def __getitem__(self, tasks: slice) -> "TaskBatch":
        return TaskBatch(
            self.support_images[tasks],
            self.support_labels[tasks],
            self.query_images[tasks],
            self.query_labels[tasks],
            self.way,
        )


class TaskLoader:
    """Turns task numbers into tensors: pixels in 0..1, minus `pixel_mean`, over `pixel_std`.

    On a GPU the images of the split live on the card and are gathered there; on a CPU they are
    read through the memory map. `vary` makes other images (B, C, H, W) of those, in 0..1 too.
    """

    def __init__(
        self,
        sampler: TaskSampler,
        *,
        pixel_mean: Sequence[float],
        pixel_std: Sequence[float],
        device: torch.device,
        vary: Callable[[Tensor], Tensor] | None = None,
    ):
        self.sampler = sampler
        self.device = device
        self._vary = vary
        # As `normaliser` does, but times 255: tasks are made of raw pixels, in place.
        self._mean = torch.tensor(pixel_mean, device=device).view(-1, 1, 1) * 255
        self._scale = 1 / (torch.tensor(pixel_std, device=device).view(-1, 1, 1) * 255)
        self._resident: Tensor | None = None
        self._first_row = 0
        if device.type == "cuda":
            self._first_row = min(e.start for e in sampler.store.classes_of(sampler.split))
            self._resident = _split_on(device, sampler.store, sampler.split)

    def load(self, numbers: Sequence[int]) -> TaskBatch:
        """Return the tasks with these numbers."""
        return gather_tasks(self.sampler, numbers, self.images)

    def images(self, rows: NDArray[np.int64]) -> Tensor:
        """Rows (T, B) of the store -> normalised images (T, B, C, H, W)."""
        if self._resident is None:
            pixels = torch.from_numpy(self.sampler.store.images[rows])
        else:
            pixels = self._resident[torch.from_numpy(rows - self._first_row).to(self.device)]
        images = pixels.permute(0, 1, 4, 2, 3).float()  # keeps the channels last in memory
        if self._vary is not None:
            varied = self._vary(images.flatten(0, 1) / 255) * 255
            images = varied.contiguous(memory_format=torch.channels_last).view(images.shape)
        return images.sub_(self._mean).mul_(self._scale)


def normaliser(
    pixel_mean: Sequence[float], pixel_std: Sequence[float], device: torch.device
) -> Callable[[Tensor], Tensor]:
    """A function of images (..., C, H, W) in 0..1: minus `pixel_mean`, over `pixel_std`."""
    mean = torch.tensor(pixel_mean, device=device).view(-1, 1, 1)
    std = torch.tensor(pixel_std, device=device).view(-1, 1, 1)
    return lambda images: (images - mean) / std


_on_devices: WeakValueDictionary[tuple[str, str, torch.device], Tensor] = WeakValueDictionary()


def _split_on(device: torch.device, store: ImageStore, split: str) -> Tensor:
    """The pixels of a split, from its first row to its last: once for all loaders that use them."""
    key = (store.identity, split, device)
    pixels = _on_devices.get(key)
    if pixels is None:
        entries = store.classes_of(split)
        first = min(entry.start for entry in entries)
        last = max(entry.start + entry.count for entry in entries)
        pixels = torch.from_numpy(np.array(store.images[first:last])).to(device)
        _on_devices[key] = pixels
    return pixels


def gather_tasks(
    sampler: TaskSampler, numbers: Sequence[int], gather: Callable[[NDArray[np.int64]], Tensor]
) -> TaskBatch:
    """Return tasks of what `gather` makes of rows (T, B) of the store."""
    rows = sampler.rows(numbers)
    support, query = gather(rows.support), gather(rows.query)
    slots = torch.arange(sampler.way, device=support.device)
    return TaskBatch(
        support_images=support,
        support_labels=slots.repeat(len(numbers), sampler.shot),
        query_images=query,
        query_labels=slots.repeat(len(numbers), sampler.query),
        way=sampler.way,
    )
