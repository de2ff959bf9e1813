"""Options of `evaluate` and `compare`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from unicorn_maml.checks import check_numbers, check_positive, check_types, require
from unicorn_maml.settings.words import (
    ADAPT,
    AS_TRAINED,
    COMPILE,
    DEVICE,
    DROP,
    INNER_LR,
    JSON,
    NORMALIZATION,
    PRECISION,
    QUERY,
    SHOT,
    STEPS,
    WAY,
    HeadKind,
    Normalization,
    Precision,
    Remedy,
    Split,
)

__all__ = ["CompareSettings", "EvaluateSettings", "TestSettings"]


@dataclass(frozen=True, kw_only=True)
class TestSettings:
    """What `evaluate`, `compare` and studies have in common. `None`: the checkpoint's own value."""

    store: Annotated[str | None, "store folder or embedded store" + AS_TRAINED] = None
    split: Annotated[Split, "classes that the tasks are drawn from"] = "novel"
    tasks: Annotated[int, "number of tasks (the paper uses 10000)"] = 1000
    way: Annotated[int | None, WAY + AS_TRAINED] = None
    shot: Annotated[int | None, SHOT + AS_TRAINED] = None
    query: Annotated[int, QUERY] = 15
    inner_steps: Annotated[int | None, STEPS + AS_TRAINED] = None
    inner_lr: Annotated[float | None, INNER_LR + AS_TRAINED] = None
    adapt: Annotated[Literal["all", "head"] | None, ADAPT + AS_TRAINED] = None
    normalization: Annotated[Normalization | None, NORMALIZATION + AS_TRAINED] = None
    drop: Annotated[bool, DROP + "; what they blank is not seeded, so two tests differ"] = False
    leak: Annotated[
        bool, "let running averages leak from task to task, as the official code does (`mixed`)"
    ] = False
    seed: Annotated[int, "of the tasks"] = 0
    device: Annotated[str, DEVICE] = "auto"
    precision: Annotated[Precision, PRECISION] = "float32"
    compile: Annotated[bool, COMPILE] = False
    json: Annotated[Path | None, JSON] = None
    resume: Annotated[bool, "continue the interrupted work for the --json file"] = False

    def __post_init__(self) -> None:
        check_types(self)
        check_numbers(self, at_least={"tasks": 1, "way": 2, "shot": 1, "query": 1, "seed": 0})
        check_numbers(self, at_least={"inner_steps": 0})
        check_positive(self, "inner_lr")
        require(
            not (self.leak and self.resume),
            "With --leak a task depends on all before it, so it cannot --resume.",
        )


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(TestSettings):
    """Meta-test a checkpoint: mean accuracy over many tasks, with its 95% interval."""

    checkpoint: Annotated[Path, "checkpoint folder, or a run folder (its best checkpoint)"]
    head: Annotated[
        HeadKind | None,
        "head that every task starts from: `zero` and `average` work for any number of ways; "
        "`cosine` and `euclidean` adapt nothing and take the class of the nearest centroid"
        + AS_TRAINED,
    ] = None
    remedy: Annotated[
        Remedy | None,
        "for a head with slots of its own: average the predictions of all permutations "
        "(`ensemble`) or of the N `rotations`, or select the permutation that is best by accuracy "
        "or loss on the support set, before (`initial`) or after adaptation (`updated`)",
    ] = None


@dataclass(frozen=True, kw_only=True)
class CompareSettings(TestSettings):
    """Evaluate two checkpoints on identical tasks: the paired difference and its 95% interval."""

    first: Annotated[Path, "checkpoint or run folder"]
    second: Annotated[Path, "checkpoint or run folder to subtract from the first"]
