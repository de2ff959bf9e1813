"""Types and help texts that several commands share."""

from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from unicorn_maml.checks import require

__all__ = [
    "ADAPT",
    "AS_TRAINED",
    "COMPILE",
    "DEVICE",
    "DROP",
    "INNER_LR",
    "JSON",
    "NORMALIZATION",
    "PRECISION",
    "QUERY",
    "SHOT",
    "STEPS",
    "WAY",
    "Backbone",
    "DataSetKind",
    "Distance",
    "HeadKind",
    "MethodName",
    "Normalization",
    "Pooling",
    "Precision",
    "Remedy",
    "Resampling",
    "Split",
    "counts_in",
    "numbers_in",
    "to_json",
]

Backbone = Literal["convnet4", "resnet12"]
MethodName = Literal["maml", "unicorn"]
HeadKind = Literal["per-slot", "shared", "zero", "average", "cosine", "euclidean"]
Normalization = Literal["batch", "support", "mixed", "frozen"]
Distance = Literal["cosine", "euclidean"]
Pooling = Literal["average", "flatten", "max"]
Precision = Literal["float32", "bfloat16"]
Remedy = Literal[
    "ensemble",
    "rotations",
    "initial-accuracy",
    "initial-loss",
    "updated-accuracy",
    "updated-loss",
]
Split = Literal["base", "validation", "novel"]
DataSetKind = Literal[
    "miniimagenet", "tieredimagenet", "cub", "omniglot", "cifar-fs", "fc100", "folder"
]
Resampling = Literal["bilinear", "bicubic", "lanczos", "box", "nearest"]


WAY = "classes in a task"
SHOT = "support images per class"
QUERY = "query images per class"
STEPS = "gradient steps of the inner loop"
INNER_LR = "learning rate of the inner loop (on the mean support loss)"
ADAPT = "what adapts: `all` parameters, or the `head` alone on a frozen backbone"
NORMALIZATION = (
    "batch-norm statistics of the query images: `batch` their own (sees all queries at once), "
    "`support` those of the support set, `mixed` running averages moved by the support passes "
    "(the paper's code, without its leak between tasks), `frozen` the trained ones"
)
DEVICE = "auto, cpu, cuda or cuda:N"
PRECISION = "arithmetic of the backbone; heads, losses and statistics are never below float32"
DROP = (
    "let dropout and DropBlock act during adaptation, as the official code does (DropBlock as "
    "strong as pre-training left it)"
)
COMPILE = "compile the network for the GPU: a minute or so at the start, then up to a third faster"
JSON = "write the result, with every setting, to this file"
AS_TRAINED = "  [default: as trained]"


def to_json(settings: Any) -> dict[str, Any]:
    """Return a settings dataclass as plain JSON values."""
    return {field.name: _plain(getattr(settings, field.name)) for field in fields(settings)}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def numbers_in(option: str, text: str) -> list[float]:
    """The numbers of a list such as `1,5,10`, ascending."""
    try:
        found = sorted({float(part) for part in text.split(",")})
    except ValueError:
        found = []
    require(
        bool(found) and all(0 < number < float("inf") for number in found),
        f"{option} takes positive numbers such as 1,5,10, not {text!r}.",
    )
    return found


def counts_in(option: str, text: str) -> list[int]:
    """The whole numbers of a list such as `1,5,10`, ascending."""
    found = numbers_in(option, text)
    require(
        all(number == int(number) for number in found),
        f"{option} takes whole numbers such as 1,5,10, not {text!r}.",
    )
    return [int(number) for number in found]
