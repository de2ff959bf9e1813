"""Tasks of features, for methods to which an image has the same feature in every task.

Tasks share images, so each image goes through the backbone once and not once per task.
"""

import time
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unicorn_maml.data.batches import TaskBatch, TaskLoader, gather_tasks
from unicorn_maml.data.tasks import TaskSampler
from unicorn_maml.methods.method import Method
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import Precision

__all__ = ["FeatureLoader", "extract_features", "frozen_features"]

_IMAGES_AT_ONCE = 128


class FeatureLoader:
    """Turns task numbers into tasks with features in the place of images.

    `features` (n, D) are those of the store's images `rows` (n,), which ascend.
    """

    def __init__(self, sampler: TaskSampler, rows: NDArray[np.int64], features: Tensor):
        self.sampler, self.rows, self.features = sampler, rows, features

    def load(self, numbers: Sequence[int]) -> TaskBatch:
        """Return the tasks with these numbers."""
        return gather_tasks(self.sampler, numbers, self._gather)

    def _gather(self, rows: NDArray[np.int64]) -> Tensor:
        """Rows (T, B) of the store -> features (T, B, D)."""
        places = torch.from_numpy(np.searchsorted(self.rows, rows))
        return self.features[places.to(self.features.device)]


@torch.no_grad()
def extract_features(
    method: Method,
    loader: TaskLoader,
    numbers: Sequence[int],
    on_progress: OnProgress | None = None,
) -> FeatureLoader:
    """Compute the features that the tasks with these numbers need."""
    rows = _rows_of(loader.sampler, numbers)
    started = time.perf_counter()
    features: list[Tensor] = []
    for start in range(0, len(rows), _IMAGES_AT_ONCE):
        part = rows[start : start + _IMAGES_AT_ONCE]
        images = loader.images(part[None])[0]
        features.append(frozen_features(method.backbone, images, method.precision))
        if on_progress:
            done = start + len(part)
            figures = {"features/s": done / (time.perf_counter() - started)}
            on_progress(done, len(rows), figures)
    table = torch.cat(features)
    table[0, 0].item()  # waits for the device, so that a caller can tell the time it took
    return FeatureLoader(loader.sampler, rows, table)


def _rows_of(sampler: TaskSampler, numbers: Sequence[int]) -> NDArray[np.int64]:
    """Rows of the store that tasks use, or of the whole split where they draw that many images."""
    whole = sampler.rows_of_split()
    if len(numbers) * sampler.way * (sampler.shot + sampler.query) >= len(whole):
        return whole
    tasks = sampler.rows(numbers)
    return np.union1d(tasks.support, tasks.query)


def frozen_features(backbone: nn.Module, images: Tensor, precision: Precision) -> Tensor:
    """Images (B, C, H, W) -> features (B, D) of the backbone in evaluation mode."""
    with torch.autocast(images.device.type, torch.bfloat16, enabled=precision == "bfloat16"):
        features: Tensor = backbone.eval()(images.contiguous(memory_format=torch.channels_last))
    return features.to(torch.promote_types(features.dtype, torch.float32))
