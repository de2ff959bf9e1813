"""What tests of studies ask for, and what holds for every study."""

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unicorn_maml.evaluation.results import evaluate
from unicorn_maml.settings import EvaluateSettings

TASKS = 6
ROUGH = f" Intervals of {TASKS} tasks are rough; take at least 30."


def ask(kind: type, out: Path, *checkpoints: Path, **settings):
    named = {field.name for field in fields(kind)}
    options = {"tasks": TASKS, "query": 4, "device": "cpu", "out": out, **settings}
    return kind(checkpoints=list(checkpoints), **{k: v for k, v in options.items() if k in named})


def per_task(checkpoint: Path, **settings) -> NDArray[np.float64]:
    """What `evaluate` says about each of the same tasks."""
    options = {"tasks": TASKS, "query": 4, "device": "cpu", **settings}
    return np.array(evaluate(EvaluateSettings(checkpoint=checkpoint, **options))["per_task"])


def accuracy(checkpoint: Path, **settings) -> float:
    return float(per_task(checkpoint, **settings).mean())


def interval(values: NDArray[np.float64], sign: str = "") -> str:
    """A mean and its 95% interval as they are printed; with the sign `+`, a difference."""
    half = 1.96 * np.sqrt(np.mean((values - np.mean(values)) ** 2) / len(values))
    return f"{np.mean(values):{sign}.2f} ± {half:.2f}"


def printed(cell: dict) -> str:
    """A cell of a table, in the form of `interval`."""
    return f"{cell['mean']:.2f} ± {cell['ci95']:.2f}"


def rows(result: dict) -> dict[str, list]:
    """The cells of a study's table, by the labels of its rows."""
    return {row["label"]: row["cells"] for row in result["table"]["rows"]}


def check(result: dict) -> None:
    """What holds for every study."""
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["command"].startswith(f"unicorn-maml study {result['study']}")
    assert result["conclusion"].endswith(".")
    width = len(result["table"]["columns"])
    assert all(len(row["cells"]) == width for row in result["table"]["rows"])
    assert {"settings", "versions", "title", "tests"} <= result.keys()
