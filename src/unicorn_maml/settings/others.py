"""Options of `demo`, `bench`, `results`, `models` and `export`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, cast, get_args

from unicorn_maml.checks import check_numbers, check_types, require
from unicorn_maml.settings.words import (
    AS_TRAINED,
    DEVICE,
    JSON,
    PRECISION,
    SHOT,
    STEPS,
    Backbone,
    MethodName,
    Normalization,
    Precision,
)

__all__ = [
    "BenchSettings",
    "DemoSettings",
    "ExportSettings",
    "ModelsSettings",
    "ResultsAddSettings",
    "ResultsDifferenceSettings",
    "ResultsRunSettings",
    "ResultsTableSettings",
]


@dataclass(frozen=True, kw_only=True)
class DemoSettings:
    """Meta-train MAML and UNICORN-MAML on drawn characters and compare them: about three minutes.

    A second demo with the same settings continues or shows the runs of the first.
    """

    out: Annotated[Path, "folder of the two runs"] = Path("runs/demo")
    epochs: Annotated[int, "epochs of 100 meta-training tasks"] = 16
    tasks: Annotated[int, "novel tasks that both are tested on"] = 1000
    permutation_tasks: Annotated[int, "tasks that are solved under all 120 label permutations"] = 10
    seed: Annotated[int, "of weights and tasks"] = 0
    device: Annotated[str, DEVICE] = "auto"
    json: Annotated[Path | None, JSON] = None

    def __post_init__(self) -> None:
        check_types(self)
        check_numbers(self, at_least={"epochs": 1, "tasks": 1, "permutation_tasks": 1, "seed": 0})


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """Measure how fast this machine adapts, evaluates and meta-trains, beside a plain loop.

    By default it measures the paper's settings on a GPU, and two small ones on a CPU. Any of the
    options from --backbone to --width measures one network of your own instead.
    """

    backbone: Annotated[Backbone | None, "network  [default: convnet4]"] = None
    method: Annotated[MethodName | None, "maml or unicorn  [default: unicorn]"] = None
    shot: Annotated[int | None, SHOT + "  [default: 1]"] = None
    inner_steps: Annotated[int | None, STEPS + "  [default: 5]"] = None
    size: Annotated[int | None, "side of the images  [default: 84]"] = None
    channels: Annotated[int | None, "channels of the images  [default: 3]"] = None
    width: Annotated[int | None, "channels of ConvNet-4  [default: 64]"] = None
    normalization: Annotated[
        Literal["batch", "mixed", "frozen"],
        "batch-norm statistics of the query images, as for `train`; the plain loop cannot do "
        "`support`",
    ] = "mixed"
    tasks: Annotated[
        int | None, "tasks of a batch at adaptation and evaluation  [default: 64, on a CPU 8]"
    ] = None
    task_batch: Annotated[int, "tasks whose gradients make one update of meta-training"] = 1
    repeats: Annotated[int, "measurements whose median is shown"] = 3
    device: Annotated[str, DEVICE] = "auto"
    precision: Annotated[
        Precision | None, PRECISION + "  [default: bfloat16, on a CPU float32]"
    ] = None
    compile: Annotated[bool, "compile the network, where that is possible"] = True
    json: Annotated[Path | None, JSON] = None

    def __post_init__(self) -> None:
        check_types(self)
        counts = ["shot", "inner_steps", "size", "channels", "width"]
        counts += ["tasks", "task_batch", "repeats"]
        check_numbers(self, at_least=dict.fromkeys(counts, 1))


@dataclass(frozen=True, kw_only=True)
class ResultsRunSettings:
    """Make rows of the paper's tables: meta-train, test, pair and keep.

    A second call with the same --out goes on where the first one stopped, and does nothing twice.
    Rows of the same networks, of more shots or of another data set, are only tested.
    """

    rows: Annotated[
        list[str], "rows, or patterns in quotes such as 'miniimagenet-convnet4-*-1shot'"
    ]
    stores: Annotated[Path, "folder of stores with the names of their data sets, such as `cub`"] = (
        Path("stores")
    )
    recipes: Annotated[Path, "folder of YAML files for `train --config`, one for each network"] = (
        Path("configs/paper")
    )
    out: Annotated[Path, "folder of the runs, and of results with every task"] = Path("runs/paper")
    folder: Annotated[Path, "folder of the small files"] = Path("results")
    tasks: Annotated[int, "novel tasks of each test"] = 10_000
    policies: Annotated[
        str | None, "normalisation policies of the tests, separated by commas" + AS_TRAINED
    ] = None
    device: Annotated[str, DEVICE] = "auto"

    def __post_init__(self) -> None:
        check_types(self)
        check_numbers(self, at_least={"tasks": 1})
        known = get_args(Normalization)
        for policy in self.policies_or("mixed"):
            require(policy in known, f"--policies has {policy!r}; take some of {', '.join(known)}.")

    def policies_or(self, trained: Normalization) -> list[Normalization]:
        """The policies to test under; where none is named, that of the training."""
        return cast(list[Normalization], (self.policies or trained).split(","))


@dataclass(frozen=True, kw_only=True)
class ResultsAddSettings:
    """Keep a result of `evaluate` or `compare` as a small file, without per-task accuracies."""

    file: Annotated[Path, "what --json wrote"]
    row: Annotated[str, "row of the paper's tables, such as miniimagenet-resnet12-unicorn-1shot"]
    folder: Annotated[Path, "folder of the small files"] = Path("results")


@dataclass(frozen=True, kw_only=True)
class ResultsDifferenceSettings:
    """Set two results of `evaluate` on the same tasks beside each other: the paired difference."""

    first: Annotated[Path, "what `evaluate --json` wrote"]
    second: Annotated[Path, "the same, to subtract from the first"]
    json: Annotated[Path | None, "write both and their difference to this file"] = None


@dataclass(frozen=True, kw_only=True)
class ResultsTableSettings:
    """Make a table of the paper's accuracies and of the results that were kept."""

    folder: Annotated[Path, "folder of the small files"] = Path("results")
    document: Annotated[Path | None, "put it into this document, between its marks"] = None


@dataclass(frozen=True, kw_only=True)
class ModelsSettings:
    """List the checkpoints that come with the package; every command takes them by name."""

    json: Annotated[Path | None, "write the list to this file"] = None


@dataclass(frozen=True, kw_only=True)
class ExportSettings:
    """Write a small copy of a checkpoint to hand on: 8-bit weights, no folder names."""

    checkpoint: Annotated[Path, "checkpoint folder, or a run folder (its best checkpoint)"]
    out: Annotated[Path, "folder for the copy"] = Path("exported")
