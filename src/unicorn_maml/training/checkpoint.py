"""Checkpoints: a folder with `weights.safetensors`, `checkpoint.json` and, to resume from it,
`training_state.safetensors`.

Nothing is ever unpickled. Every byte is covered by a checksum, so a changed file is refused. Some
checkpoints come with the package, in its folder `weights`, and are known by their names alone.
"""

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unicorn_maml.devices import versions
from unicorn_maml.errors import FileError, UnicornError, UsageError, is_out_of_memory
from unicorn_maml.files import new_folder, replaced
from unicorn_maml.methods.build import METHODS, ModelSpec, build_method
from unicorn_maml.methods.method import Method
from unicorn_maml.models.build import BackboneSpec
from unicorn_maml.sealed import (
    UNFIT,
    read_sealed,
    read_tensors,
    reason_of,
    write_sealed,
    write_tensors,
)
from unicorn_maml.settings import (
    AdaptationSettings,
    HeadKind,
    PretrainSettings,
    TrainSettings,
    to_json,
)
from unicorn_maml.training.quantization import decode, encode

__all__ = [
    "Checkpoint",
    "export_checkpoint",
    "load_backbone",
    "load_begun",
    "load_checkpoint",
    "load_training_state",
    "refusing_nonsense",
    "save_checkpoint",
    "shipped_checkpoints",
]

_SHIPPED = Path(__file__).parents[1] / "weights"
_FORMAT = "unicorn-maml checkpoint 1"
_WEIGHTS, _STATE, _DESCRIPTION = (
    "weights.safetensors",
    "training_state.safetensors",
    "checkpoint.json",
)


@dataclass(frozen=True)
class Checkpoint:
    """A trained model, and how it came about."""

    spec: ModelSpec
    settings: TrainSettings | PretrainSettings
    pixel_mean: tuple[float, ...]  # images are normalised as in training, whatever the store
    pixel_std: tuple[float, ...]
    metrics: dict[str, Any]
    weights: dict[str, Tensor]
    weights_sha256: str
    folder: Path

    @property
    def name(self) -> str:
        """Its folder, or the name alone that every command takes if it comes with the package."""
        return self.folder.name if self.folder.parent == _SHIPPED else str(self.folder)

    def method(
        self, adaptation: AdaptationSettings | None = None, head: HeadKind | None = None
    ) -> Method:
        """Build the model, as trained or with other inner-loop settings or another head."""
        trained_head = METHODS[self.spec.method].trained_head
        possible: list[HeadKind] = [trained_head, "zero", "cosine", "euclidean"]
        if trained_head == "per-slot":
            possible.append("average")
        if head is not None and head not in possible:
            raise UsageError(
                f"{self.name} was trained with a {trained_head} head, which cannot become "
                f"`{head}`; choose one of {', '.join(dict.fromkeys(possible))}."
            )
        method = build_method(self.spec, adaptation or self.settings.adaptation, head=head)
        names = method.state_dict().keys()
        with refusing_nonsense(self.folder):
            method.load_state_dict({k: v for k, v in self.weights.items() if k in names})
        return method


def save_checkpoint(
    folder: Path,
    method: Method,
    *,
    spec: ModelSpec,
    settings: TrainSettings | PretrainSettings,
    pixel_mean: tuple[float, ...],
    pixel_std: tuple[float, ...],
    metrics: dict[str, Any],
    training_state: dict[str, Tensor] | None = None,
) -> None:
    """Write a checkpoint folder; an earlier one in its place stays until this one is complete."""
    description: dict[str, Any] = {
        "format": _FORMAT,
        "model": asdict(spec),
        "pixel_mean": list(pixel_mean),
        "pixel_std": list(pixel_std),
        "settings": to_json(settings),
        "metrics": metrics,
        "versions": versions(),
    }
    with new_folder(folder) as unfinished:
        description["sha256"] = {
            _WEIGHTS: write_tensors(unfinished / _WEIGHTS, method.state_dict())
        }
        if training_state is not None:
            description["sha256"][_STATE] = write_tensors(unfinished / _STATE, training_state)
        write_sealed(unfinished / _DESCRIPTION, description)


def export_checkpoint(path: Path, out: Path) -> None:
    """Write a copy that is small (8-bit weights) and names no folder of this machine."""
    if out.exists():
        raise UsageError(f"{out} exists already; choose another --out.")
    folder = load_checkpoint(path).folder  # nonsense is not handed on
    description = _read_description(folder)
    settings = description["settings"]
    settings |= {"store": Path(settings["store"]).name, "out": None}
    for name in ("init", "teacher"):
        if settings.get(name):
            settings[name] = Path(settings[name]).name
    weights = decode(_read(folder, _WEIGHTS, description))
    with new_folder(out) as unfinished:
        description["sha256"] = {_WEIGHTS: write_tensors(unfinished / _WEIGHTS, encode(weights))}
        write_sealed(unfinished / _DESCRIPTION, description)


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Load a checkpoint folder, the best checkpoint of a run folder, or one by its name."""
    for pause in (0.03, 0.1, 0.3):  # perhaps a run is just putting a new one in its place
        with suppress(UnicornError, OSError):
            return _load(Path(path))
        time.sleep(pause)
    return _load(Path(path))


def load_begun(run: Path, store_checksum: str) -> Checkpoint | None:
    """Load the last checkpoint of a run to resume, if it got so far, on the store it began with."""
    last = run / "last"
    if not any((folder / _DESCRIPTION).is_file() for folder in (last, replaced(last))):
        return None
    begun = load_checkpoint(last)
    if begun.metrics.get("store_checksum", store_checksum) != store_checksum:
        raise UsageError(
            f"The images of the store are not those that the run in {run} began with; resume it "
            "with the store of then, or choose another --out."
        )
    return begun


def shipped_checkpoints() -> dict[str, Path]:
    """Names and folders of the checkpoints that come with the package."""
    return {path.parent.name: path.parent for path in sorted(_SHIPPED.glob(f"*/{_DESCRIPTION}"))}


def load_backbone(path: Path, backbone: nn.Module, wanted: BackboneSpec) -> Checkpoint:
    """Give a backbone the weights and running averages of a checkpoint, if it is of its kind."""
    checkpoint = load_checkpoint(path)
    for name, value in vars(wanted).items():
        found = getattr(checkpoint.spec.features, name)
        if found != value and name != "sum_slope":  # no weights depend on it
            raise UsageError(
                f"The backbone in {path} has {name} {found}, but this run needs {value}; "
                "choose a checkpoint, a store and options that agree."
            )
    backbone.load_state_dict(checkpoint.method().backbone.state_dict())
    return checkpoint


def _load(path: Path) -> Checkpoint:
    folder = _find(path)
    description = _read_description(folder)
    with refusing_nonsense(folder):
        model = description["model"]
        spec = ModelSpec(**{**model, "features": BackboneSpec(**model["features"])})
        kind = PretrainSettings if spec.method == "pretrained" else TrainSettings
        mean, std = (
            tuple(float(value) for value in description[name])
            for name in ("pixel_mean", "pixel_std")
        )
        sound = all(map(math.isfinite, mean)) and all(0 < s < math.inf for s in std)
        if len(mean) != spec.features.channels or len(std) != len(mean) or not sound:
            raise ValueError("pixel moments do not fit the images")
        settings = kind(**description["settings"])
        weights = decode(_read(folder, _WEIGHTS, description))
        _check_shapes(weights, spec, settings)
        return Checkpoint(
            spec=spec,
            settings=settings,
            pixel_mean=mean,
            pixel_std=std,
            metrics=dict(description["metrics"]),
            weights=weights,
            weights_sha256=description["sha256"][_WEIGHTS],
            folder=folder,
        )


def _check_shapes(
    weights: dict[str, Tensor], spec: ModelSpec, settings: TrainSettings | PretrainSettings
) -> None:
    """Before any memory is taken for a network, which may be described as enormous."""
    with torch.device("meta"):
        needed = build_method(spec, settings.adaptation).state_dict()
    for name, value in needed.items():
        if name not in weights or weights[name].shape != value.shape:
            raise ValueError(f"the weights {name} do not fit the network that is described")
        if not weights[name].isfinite().all():
            raise ValueError(f"the weights {name} are not all finite")


@contextmanager
def refusing_nonsense(folder: Path) -> Iterator[None]:
    """Turn whatever an unfit description causes into one sentence."""
    try:
        yield
    except UNFIT as error:
        if is_out_of_memory(error):
            raise
        raise FileError(
            f"The checkpoint {folder} does not make sense ({reason_of(error)}); perhaps another "
            "version of unicorn-maml wrote it. Use the version that its checkpoint.json names."
        ) from error


def load_training_state(folder: Path) -> dict[str, Tensor]:
    """Load what only resuming needs: the optimiser's state, and weights that are not those kept."""
    return _read(folder, _STATE, _read_description(folder))


def _find(path: Path) -> Path:
    places = [path, path / "best", path / "last"]
    if path == Path(path.name):
        places.append(_SHIPPED / path.name)
    for place in places:
        for folder in (place, replaced(place)):
            if (folder / _DESCRIPTION).is_file():
                return folder
    if path.is_file():
        raise UsageError(
            f"{path} is a file; a checkpoint is a folder with {_WEIGHTS} and {_DESCRIPTION} "
            "(pickled weights are never loaded)."
        )
    shipped = ", ".join(shipped_checkpoints())
    raise UsageError(
        f"There is no checkpoint in {path}; name a checkpoint folder, a run folder, or one that "
        f"comes with the package ({shipped})."
    )


def _read_description(folder: Path) -> dict[str, Any]:
    description = read_sealed(folder / _DESCRIPTION)
    if description["format"] != _FORMAT:
        raise FileError(
            f"{folder / _DESCRIPTION} is damaged or of another program; use an unchanged copy."
        )
    return description


def _read(folder: Path, name: str, description: dict[str, Any]) -> dict[str, Tensor]:
    return read_tensors(folder / name, description["sha256"].get(name))
