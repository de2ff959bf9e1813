"""Options of the studies and of the report."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from unicorn_maml.checks import check_numbers, check_shares, check_types, require
from unicorn_maml.settings.testing import TestSettings
from unicorn_maml.settings.words import (
    COMPILE,
    DEVICE,
    PRECISION,
    QUERY,
    WAY,
    Normalization,
    Precision,
    Split,
    counts_in,
    numbers_in,
)

__all__ = [
    "STUDIES",
    "AverageSettings",
    "ChanceSettings",
    "EnsembleSettings",
    "FreezeSettings",
    "HeatmapSettings",
    "OneTaskSettings",
    "PermutationsSettings",
    "PermutedSettings",
    "PoliciesSettings",
    "ReportSettings",
    "SelectionSettings",
    "ShotsSettings",
    "SlotsSettings",
    "StepsSettings",
    "StudySettings",
    "TransferSettings",
]


@dataclass(frozen=True, kw_only=True)
class _OutputSettings:
    """What all studies have in common."""

    study: ClassVar[str]
    example: ClassVar[str] = "runs/maml runs/unicorn --tasks 200"  # what may follow its name
    out: Annotated[
        Path | None, "folder for study.json and the figures  [default: runs/study- and its name]"
    ] = None
    json: Annotated[Path | None, "write study.json to this file, too"] = None

    @property
    def folder(self) -> Path:
        """The folder that the study is written into."""
        return self.out or Path("runs") / f"study-{self.study}"


@dataclass(frozen=True, kw_only=True)
class StudySettings(_OutputSettings, TestSettings):
    """What the studies of trained networks have in common."""

    checkpoints: Annotated[
        list[Path],
        "checkpoint or run folders; all are tested on the same tasks, with store, ways and shots "
        "of the first one unless given",
    ]
    resume: Annotated[bool, "continue the interrupted study in --out"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.checkpoints), "Name at least one checkpoint or run folder.")


@dataclass(frozen=True, kw_only=True)
class PermutedSettings(StudySettings):
    """What the studies of all permutations of tasks have in common: they measure the same."""

    measured: Annotated[
        Path | None,
        "folder of a finished study `permutations`, `selection` or `ensemble` of the same networks "
        "and tasks: take what it measured, and adapt to no task twice",
    ] = None


_SAMPLE = "draw this many permutations instead of trying all (needed for more than 5 ways)"


@dataclass(frozen=True, kw_only=True)
class PermutationsSettings(PermutedSettings):
    """How much the result of a task depends on which class gets which slot.

    Every task is solved under all N! assignments of its classes to slots. Three controls tell how
    much of the spread is noise: repeats of one permutation, the best permutation by half of the
    query images scored on the other half, and what the halves have in common over permutations.
    """

    study: ClassVar[str] = "permutations"
    tasks: Annotated[int, "number of tasks (the paper uses 2000)"] = 200
    sample: Annotated[int | None, _SAMPLE] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, at_least={"sample": 2, "query": 2})


@dataclass(frozen=True, kw_only=True)
class OneTaskSettings(StudySettings):
    """Follow every permutation of one task along the inner steps, on support and query images."""

    study: ClassVar[str] = "one-task"
    example: ClassVar[str] = "runs/maml --task 7"
    task: Annotated[int, "number of the task"] = 0
    tasks: ClassVar[int] = 1  # type: ignore[misc]  # not an option here
    sample: Annotated[int | None, _SAMPLE] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, at_least={"sample": 2, "task": 0})


@dataclass(frozen=True, kw_only=True)
class SelectionSettings(PermutedSettings):
    """Choose one permutation per task by its accuracy or loss on the support set. Does it help?"""

    study: ClassVar[str] = "selection"
    example: ClassVar[str] = "runs/maml --tasks 200"
    tasks: Annotated[int, "number of tasks (the paper uses 2000)"] = 200


@dataclass(frozen=True, kw_only=True)
class EnsembleSettings(PermutedSettings):
    """Average the predictions of all permutations of a task, or of its N rotations."""

    study: ClassVar[str] = "ensemble"
    example: ClassVar[str] = "runs/maml --tasks 200"
    tasks: Annotated[int, "number of tasks (the paper uses 10000)"] = 200


@dataclass(frozen=True, kw_only=True)
class AverageSettings(StudySettings):
    """Start all slots of a trained head from their mean, or from zero, at meta-test."""

    study: ClassVar[str] = "average"
    example: ClassVar[str] = "runs/maml --tasks 1000"


@dataclass(frozen=True, kw_only=True)
class StepsSettings(StudySettings):
    """Accuracy along the inner steps, on tasks of base and of novel classes."""

    study: ClassVar[str] = "steps"
    tasks: Annotated[int, "number of tasks (the paper uses 10000)"] = 200
    inner_steps: Annotated[int, "inner steps to follow"] = 30
    split: ClassVar[Split] = "novel"  # type: ignore[misc]  # and base: both are shown


@dataclass(frozen=True, kw_only=True)
class FreezeSettings(StudySettings):
    """Accuracy along the inner steps, with the backbone adapted or frozen."""

    study: ClassVar[str] = "freeze"
    tasks: Annotated[int, "number of tasks (the paper uses 10000)"] = 200
    inner_steps: Annotated[int, "inner steps to follow"] = 30
    adapt: ClassVar[Literal["all", "head"] | None] = None  # type: ignore[misc]  # both are shown


@dataclass(frozen=True, kw_only=True)
class ShotsSettings(StudySettings):
    """Accuracy with more and more support images per class."""

    study: ClassVar[str] = "shots"
    example: ClassVar[str] = "runs/unicorn --shots 1,5,10"
    tasks: Annotated[int, "number of tasks (the paper uses 10000)"] = 200
    shots: Annotated[str, "support images per class to test, separated by commas"] = (
        "1,5,10,20,30,50"
    )
    shot: ClassVar[int | None] = None  # type: ignore[misc]  # --shots says it

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.shot_counts

    @property
    def shot_counts(self) -> list[int]:
        """The numbers of shots."""
        return counts_in("--shots", self.shots)


@dataclass(frozen=True, kw_only=True)
class TransferSettings(StudySettings):
    """Train on one data set, test on another."""

    study: ClassVar[str] = "transfer"
    example: ClassVar[str] = "runs/maml runs/unicorn --to stores/cub"
    to: Annotated[str | None, "store folder of the other data set; needed"] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.to is not None, "Name the store of the other data set, with --to STORE.")


@dataclass(frozen=True, kw_only=True)
class PoliciesSettings(StudySettings):
    """The four normalisation policies on the same tasks, with paired differences."""

    study: ClassVar[str] = "policies"
    normalization: ClassVar[Normalization | None] = None  # type: ignore[misc]  # all are shown


@dataclass(frozen=True, kw_only=True)
class SlotsSettings(StudySettings):
    """What a head knows before adaptation: which slot wins, how far the slots are apart.

    Also the norm of the head and of its meta-gradient, now and through meta-training, where the
    run's log is there.
    """

    study: ClassVar[str] = "slots"
    tasks: Annotated[int, "number of tasks, of novel classes and for the meta-gradient"] = 200


@dataclass(frozen=True, kw_only=True)
class ChanceSettings(_OutputSettings):
    """Why accuracy before adaptation is 1/N: permutations by fixed points, counted exactly."""

    study: ClassVar[str] = "chance"
    example: ClassVar[str] = "--way 5"
    way: Annotated[int, WAY] = 5

    def __post_init__(self) -> None:
        check_types(self)
        check_numbers(self, at_least={"way": 2})
        require(self.way <= 100, f"--way must be at most 100, not {self.way}.")


_AS_IN_THE_RECIPE = "  [default: as in the recipe]"


@dataclass(frozen=True, kw_only=True)
class HeatmapSettings(_OutputSettings):
    """Meta-train and test over a grid of inner steps and inner learning rates.

    Every cell is a run of its own in the folder `cells`. A second call with the same --out goes on
    where the first one stopped, or widens the grid of a finished one.
    """

    study: ClassVar[str] = "heatmap"
    example: ClassVar[str] = "runs/maml --budget 0.1 --steps 1,5,10 --rates 0.01,0.1 --workers 2"
    recipe: Annotated[
        Path, "how to train: a run folder, or a YAML or JSON file as for `train --config`"
    ]
    store: Annotated[str | None, "store folder, or `glyphs` (embedded)" + _AS_IN_THE_RECIPE] = None
    steps: Annotated[str, "inner steps, separated by commas"] = "1,5,10,15,20"
    rates: Annotated[str, "inner learning rates, separated by commas"] = "0.0001,0.001,0.01,0.1,1"
    budget: Annotated[float, "share of the recipe's epochs that each cell is trained for"] = 1.0
    tasks: Annotated[int, "novel tasks that each cell is tested on"] = 200
    query: Annotated[int, QUERY + " in these tasks"] = 15
    workers: Annotated[int, "cells that run at the same time, each in a process"] = 1
    seed: Annotated[int | None, "of the first weights and of the tasks" + _AS_IN_THE_RECIPE] = None
    precision: Annotated[Precision | None, PRECISION + _AS_IN_THE_RECIPE] = None
    # The machine's, not the recipe's: it may have been written for another one.
    device: Annotated[str, DEVICE] = "auto"
    compile: Annotated[bool, COMPILE + " (whatever the recipe says)"] = False

    def __post_init__(self) -> None:
        check_types(self)
        check_numbers(self, at_least={"tasks": 1, "query": 1, "workers": 1, "seed": 0})
        check_shares(self, "budget", zero=False, one=True)
        _ = self.step_counts, self.learning_rates

    @property
    def step_counts(self) -> list[int]:
        """The numbers of inner steps."""
        return counts_in("--steps", self.steps)

    @property
    def learning_rates(self) -> list[float]:
        """The inner learning rates."""
        return numbers_in("--rates", self.rates)


STUDIES: list[type[_OutputSettings]] = [
    StepsSettings,
    FreezeSettings,
    PermutationsSettings,
    OneTaskSettings,
    SelectionSettings,
    EnsembleSettings,
    AverageSettings,
    ShotsSettings,
    TransferSettings,
    PoliciesSettings,
    SlotsSettings,
    ChanceSettings,
    HeatmapSettings,
]


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """Put runs and studies into one page that opens without a network."""

    runs: Annotated[list[Path], "folders of studies and of training runs"]
    out: Annotated[Path, "the page"] = Path("report.html")
    title: Annotated[str, "heading of the page"] = "UNICORN-MAML report"

    def __post_init__(self) -> None:
        check_types(self)
        require(bool(self.runs), "Name at least one folder of a study or of a training run.")
        require(
            self.out.suffix.lower() in (".html", ".htm"),
            f"--out {self.out} is no name for a page; take one that ends in .html.",
        )
