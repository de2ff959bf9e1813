"""Accuracy with more and more support images per class."""

from typing import Any

import numpy as np

from unicorn_maml.intervals import mean_interval
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import ShotsSettings
from unicorn_maml.studies.frame import (
    few_tasks,
    interval_cell,
    labels,
    run_tests,
    signed,
    study_result,
    tests_of,
    values_of,
)

__all__ = ["run"]


def run(settings: ShotsSettings, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Test every checkpoint with every number of shots."""
    shots = settings.shot_counts
    tests = {shot: tests_of(settings, shot=shot) for shot in shots}
    every = [test for shot in shots for test in tests[shot]]
    run_tests(settings, every, on_progress)
    names = labels(tests[shots[0]])
    values = np.array([[values_of(test) for test in tests[shot]] for shot in shots])
    # (shots, checkpoints, tasks)
    data: dict[str, Any] = {
        label: {
            "shots": shots,
            "accuracy": [interval_cell(values[i, number]) for i in range(len(shots))],
        }
        for number, label in enumerate(names)
    }
    first, last = values[0], values[-1]
    sentences = [
        f"{label}: {mean_interval(first[n])}% at {shots[0]} and {mean_interval(last[n])}% at "
        f"{shots[-1]} shots."
        for n, label in enumerate(names)
    ]
    rows = [
        (f"{shot}-shot (%)", [data[label]["accuracy"][i] for label in names])
        for i, shot in enumerate(shots)
    ]
    for number in range(1, len(names)):
        gain = mean_interval(last[number] - last[0])
        sentences.append(
            f"{names[number]} minus {names[0]} at {shots[-1]} shots, same tasks: {signed(gain)} "
            "points."
        )
    return study_result(
        settings,
        every,
        title="Accuracy by the number of shots",
        conclusion=" ".join(sentences) + few_tasks(every),
        columns=names,
        rows=rows,
        data=data,
    )
