"""Results of tests: of one checkpoint, or of two on identical tasks."""

from typing import Any

import numpy as np

from unicorn_maml.errors import UsageError
from unicorn_maml.evaluation.meta_test import prepare
from unicorn_maml.evaluation.unfinished import run_all
from unicorn_maml.intervals import mean_interval
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import CompareSettings, EvaluateSettings
from unicorn_maml.training.checkpoint import load_checkpoint

__all__ = ["compare", "evaluate", "of_the_same_tasks", "paired"]

# What says which tasks a number stands for.
_TASKS = ("store_checksum", "split", "way", "shot", "query", "seed")


def evaluate(settings: EvaluateSettings, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Test one checkpoint and return the result; `write_result` puts it into the --json file.

    An interrupted evaluation leaves its finished tasks beside that file, for --resume.
    """
    test = prepare(load_checkpoint(settings.checkpoint), settings)
    run_all([test], settings.json, on_progress, resume=settings.resume)
    return test.result()


def compare(settings: CompareSettings, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Test two checkpoints on identical tasks and return both results and the paired difference.

    Store, way and shot are the first one's unless given; the inner loop's settings are each one's
    own.
    """
    checkpoints = [load_checkpoint(path) for path in (settings.first, settings.second)]
    tests = [prepare(checkpoint, settings, checkpoints[0].settings) for checkpoint in checkpoints]
    run_all(tests, settings.json, on_progress, resume=settings.resume)
    first, second = (test.result() for test in tests)
    return paired(first, second)


def of_the_same_tasks(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two results can be paired."""
    return all(name in first and first[name] == second.get(name) for name in _TASKS)


def paired(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two results on identical tasks, and their difference; of the tasks that both have."""
    for name in _TASKS:
        if first[name] != second[name]:
            raise UsageError(
                f"The two results are not of the same tasks: {name} is {first[name]} in one and "
                f"{second[name]} in the other; evaluate both on the same tasks."
            )
    for result in (first, second):
        scores = np.array(result["per_task"], np.float64)
        if scores.ndim != 1 or not len(scores) or not np.isfinite(scores).all():
            raise ValueError("no accuracies")
    tasks = min(len(first["per_task"]), len(second["per_task"]))
    first, second = (_of_the_first(tasks, result) for result in (first, second))
    difference = mean_interval(np.subtract(first["per_task"], second["per_task"]))
    return {
        "first": first,
        "second": second,
        "difference": difference.mean,
        "difference_ci95": difference.ci95,
    }


def _of_the_first(tasks: int, result: dict[str, Any]) -> dict[str, Any]:
    per_task = result["per_task"][:tasks]
    interval = mean_interval(per_task)
    return {
        **result,
        "accuracy": interval.mean,
        "ci95": interval.ci95,
        "tasks": tasks,
        "per_task": per_task,
    }
