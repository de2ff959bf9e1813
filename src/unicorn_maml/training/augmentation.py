"""Random crops, flips and colours of a whole batch at once, on the device that trains."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from unicorn_maml.settings import PretrainSettings

__all__ = ["augment", "four_rotations"]

_ASPECTS = (3 / 4, 4 / 3)
_SHIFT = 8  # pixels that a padded crop moves by, at most
_GREY = (0.299, 0.587, 0.114)


def augment(images: Tensor, settings: PretrainSettings) -> Tensor:
    """Images (B, C, H, W) with values in 0..1 -> as many varied ones, also in 0..1."""
    if settings.crop != "none" or settings.flip:
        images = _crop_and_flip(images, settings)
    if settings.jitter > 0:
        images = _jitter(images, settings.jitter)
    return images


def four_rotations(images: Tensor) -> Tensor:
    """Square images (B, C, H, H) -> (4 B, C, H, H): all of them by 0, then by 90 degrees, ..."""
    return torch.cat([images.rot90(turns, (2, 3)) for turns in range(4)])


def _crop_and_flip(images: Tensor, settings: PretrainSettings) -> Tensor:
    """One resampling does both: output pixels look up where they come from."""
    count, device = len(images), images.device

    def uniform(low: float, high: float) -> Tensor:
        return torch.empty(count, device=device).uniform_(low, high)

    width, height = torch.ones(2, count, device=device)
    shift_x, shift_y = torch.zeros(2, count, device=device)
    if settings.crop == "resized":
        area = uniform(settings.smallest_crop, 1)
        aspect = uniform(math.log(_ASPECTS[0]), math.log(_ASPECTS[1])).exp()
        width, height = (area * aspect).sqrt().clamp(max=1), (area / aspect).sqrt().clamp(max=1)
        shift_x, shift_y = uniform(-1, 1) * (1 - width), uniform(-1, 1) * (1 - height)
    elif settings.crop == "padded":
        # Whole pixels: parts of one would blur the images that are learnt from, not those of tasks.
        pixels = torch.randint(-_SHIFT, _SHIFT + 1, (2, count), device=device)
        shift_x, shift_y = pixels * (2 / images.shape[-1])
    if settings.flip:
        width = width * (torch.randint(2, (count,), device=device) * 2 - 1)
    zero = torch.zeros_like(width)
    rows = torch.stack([width, zero, shift_x, zero, height, shift_y], 1)
    grid = F.affine_grid(rows.view(-1, 2, 3), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def _jitter(images: Tensor, strength: float) -> Tensor:
    def factor() -> Tensor:
        shape = (len(images), 1, 1, 1)
        return torch.empty(shape, device=images.device).uniform_(1 - strength, 1 + strength)

    images = (images * factor()).clamp(0, 1)  # brightness
    grey = _grey(images).mean((2, 3), keepdim=True)
    images = (grey + (images - grey) * factor()).clamp(0, 1)  # contrast
    if images.shape[1] == 3:
        grey = _grey(images)
        images = (grey + (images - grey) * factor()).clamp(0, 1)  # saturation
    return images


def _grey(images: Tensor) -> Tensor:
    if images.shape[1] == 1:
        return images
    weights = torch.tensor(_GREY, device=images.device, dtype=images.dtype).view(1, 3, 1, 1)
    return (images * weights).sum(1, keepdim=True)
