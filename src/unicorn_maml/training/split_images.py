"""All images of a split with their classes, for training that knows no tasks."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicorn_maml.data.store import ImageStore
from unicorn_maml.errors import UsageError

__all__ = ["SplitImages"]


class SplitImages:
    """The images of one split with their classes, on the GPU if there is one."""

    def __init__(self, store: ImageStore, split: str, device: torch.device):
        entries = store.classes_of(split)
        if not entries:
            raise UsageError(f"{store.folder} has no {split} classes; choose another store.")
        first, last = entries[0].start, entries[-1].start + entries[-1].count
        if last - first != sum(entry.count for entry in entries):
            raise UsageError(f"The {split} classes of {store.folder} do not stand together.")
        self.pixels: Tensor | np.ndarray[Any, Any] = store.images[first:last]
        if device.type == "cuda":
            self.pixels = torch.from_numpy(np.array(self.pixels)).to(device)
        counts = torch.tensor([entry.count for entry in entries])
        self.labels = torch.arange(len(entries)).repeat_interleave(counts).to(device)
        self.device = device
        self.classes = len(entries)

    def __len__(self) -> int:
        return len(self.labels)

    def load(self, rows: Tensor) -> Tensor:
        """Rows (B,) -> images (B, C, H, W) with values in 0..1."""
        if isinstance(self.pixels, Tensor):
            pixels = self.pixels[rows.to(self.device)]
        else:
            pixels = torch.from_numpy(self.pixels[rows.numpy()])
        return pixels.permute(0, 3, 1, 2).float() / 255
