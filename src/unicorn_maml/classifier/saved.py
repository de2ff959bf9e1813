"""Saved classifiers: a folder with `classifier.safetensors` and `classifier.json`."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from unicorn_maml.classifier.model import build_photo_backbone
from unicorn_maml.classifier.network import AdaptedNetwork
from unicorn_maml.data.decode import Preprocessing
from unicorn_maml.devices import versions
from unicorn_maml.errors import FileError, UnicornError, UsageError, is_out_of_memory
from unicorn_maml.files import new_folder, recover_folder, unfinished
from unicorn_maml.sealed import (
    UNFIT,
    read_sealed,
    read_tensors,
    reason_of,
    write_sealed,
    write_tensors,
)
from unicorn_maml.settings import Resampling

__all__ = ["Saved", "check_can_save", "load_classifier", "refusing_nonsense", "save_classifier"]

_FORMAT, _VERSION = "unicorn-maml classifier", 1
_TENSORS, _DESCRIPTION = "classifier.safetensors", "classifier.json"
_BACKBONE, _WEIGHT, _BIAS = "backbone.", "head.weight", "head.bias"
_LARGEST_SIZE = 2048  # of the photos that a network sees; a larger one would only take the memory


@dataclass(frozen=True)
class Saved:
    """All there is to an adapted classifier."""

    network: AdaptedNetwork
    classes: NDArray[Any]
    parameters: dict[str, Any]  # that the classifier was made with
    state: dict[str, Any]  # that `fit` found out


def check_can_save(folder: Path) -> None:
    """Refuse a folder that holds other things or cannot be written, before any work for it."""
    try:
        recover_folder(folder)
        free = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
        if not free and not (folder / _DESCRIPTION).is_file():
            raise UsageError(f"{folder} exists and is no saved classifier; choose another folder.")
        trial = unfinished(folder)
        trial.mkdir(parents=True)
        trial.rmdir()
    except OSError as error:
        raise UsageError(
            f"Cannot write {folder} ({error.strerror}); choose another folder."
        ) from error


def save_classifier(folder: Path, saved: Saved) -> None:
    """Write a classifier; what is in its place stays until this one is complete."""
    check_can_save(folder)
    network = saved.network
    tensors = {_BACKBONE + name: value for name, value in network.backbone.state_dict().items()}
    tensors |= {_WEIGHT: network.weight, _BIAS: network.bias}
    model = str(saved.parameters["model"])
    if not model.startswith("timm/"):
        model = Path(model).name  # a classifier that is handed on names no folder of this machine
    parameters = saved.parameters | {"model": model, "random_state": None}
    with new_folder(folder) as new:
        description = {
            "format": _FORMAT,
            "format_version": _VERSION,
            "classes": saved.classes.tolist(),
            "architecture": network.architecture,
            "preprocessing": asdict(network.preprocessing),
            "pixel_mean": list(network.pixel_mean),
            "pixel_std": list(network.pixel_std),
            "parameters": parameters,
            "state": saved.state,
            "versions": versions(),
            "sha256": write_tensors(new / _TENSORS, tensors),
        }
        write_sealed(new / _DESCRIPTION, description)


@contextmanager
def refusing_nonsense(folder: Path) -> Iterator[None]:
    """Turn whatever an unfit description causes into one sentence."""
    try:
        yield
    except UnicornError:
        raise
    except UNFIT as error:
        if is_out_of_memory(error):
            raise
        raise FileError(
            f"The classifier {folder} does not make sense ({reason_of(error)}); save it again."
        ) from error


def load_classifier(folder: Path, device: torch.device) -> Saved:
    """Load a classifier that was saved; to be called within `refusing_nonsense`."""
    if not (folder / _DESCRIPTION).is_file():
        raise UsageError(f"There is no saved classifier in {folder}; name a folder made by `save`.")
    description = read_sealed(folder / _DESCRIPTION)
    if description["format"] != _FORMAT:
        raise FileError(f"{folder} is not a saved classifier of unicorn-maml.")
    version = description.get("format_version")
    if version != _VERSION:
        raise FileError(
            f"{folder} was saved in format {version}, which this version of unicorn-maml does not "
            "know; use a newer version."
        )
    tensors = read_tensors(folder / _TENSORS, description.get("sha256"))
    return _build(description, tensors, device)


def _build(
    description: dict[str, Any], tensors: dict[str, torch.Tensor], device: torch.device
) -> Saved:
    classes = np.array(description["classes"])
    weight, bias = tensors.pop(_WEIGHT), tensors.pop(_BIAS)
    if classes.ndim != 1 or classes.dtype.kind not in "iubU" or len(set(classes.tolist())) < 2:
        raise ValueError("its classes are no labels")
    if weight.ndim != 2 or len(weight) != len(classes) or bias.shape != (len(classes),):
        raise ValueError("its head does not fit its classes")
    weights = {name.removeprefix(_BACKBONE): value for name, value in tensors.items()}
    _check_shapes(weights, description["architecture"])
    backbone = build_photo_backbone(description["architecture"])
    backbone.load_state_dict(weights)
    network = AdaptedNetwork(
        backbone.eval().to(device),
        description["architecture"],
        weight.to(device),
        bias.to(device),
        _checked_preprocessing(description["preprocessing"]),
        *_checked_moments(description),
    )
    _try(network)
    return Saved(network, classes, dict(description["parameters"]), dict(description["state"]))


def _check_shapes(weights: dict[str, torch.Tensor], architecture: dict[str, Any]) -> None:
    """Before any memory is taken for a network, which may be described as enormous."""
    if "timm" in architecture:  # a name of a model that is as large as it is
        return
    with torch.device("meta"):
        needed = build_photo_backbone(architecture).state_dict()
    shapes = {name: value.shape for name, value in weights.items()}
    if shapes != {name: value.shape for name, value in needed.items()}:
        raise ValueError("its weights do not fit the network that is described")


def _checked_preprocessing(recorded: dict[str, Any]) -> Preprocessing:
    found = Preprocessing(**recorded)
    if type(found.size) is not int or not 1 <= found.size <= _LARGEST_SIZE:
        raise ValueError(f"photos cannot have the size {found.size}")
    if found.channels not in (1, 3) or found.resample not in get_args(Resampling):
        raise ValueError("it prepares photos in an unknown way")
    return found


def _checked_moments(description: dict[str, Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    mean, std = (tuple(map(float, description[name])) for name in ("pixel_mean", "pixel_std"))
    sound = all(map(math.isfinite, mean)) and all(0 < each < math.inf for each in std)
    if len(mean) != description["preprocessing"]["channels"] or len(std) != len(mean) or not sound:
        raise ValueError("pixel moments do not fit the images")
    return mean, std


def _try(network: AdaptedNetwork) -> None:
    """Classify a black photo: that fails here if the parts do not fit, not amid a user's photos."""
    black = np.zeros((1, *network.preprocessing.shape), np.uint8)
    if not network.logits(black).isfinite().all():
        raise ValueError("its answers are no numbers")
