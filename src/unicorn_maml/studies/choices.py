"""The result of studies that do something to each task in several ways, and compare the first one.

The differences are paired: all are of the same tasks.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unicorn_maml.evaluation.meta_test import MetaTest
from unicorn_maml.intervals import mean_interval
from unicorn_maml.settings import StudySettings
from unicorn_maml.studies.frame import interval_cell, labels, signed, study_result
from unicorn_maml.studies.verdicts import FEWEST_TASKS, clear_side

__all__ = ["choices_result", "verdict"]


def choices_result(
    settings: StudySettings,
    tests: list[MetaTest],
    accuracies: list[NDArray[np.float64]],
    *,
    title: str,
    choices: list[str],
    noun: str,
) -> dict[str, Any]:
    """Of tests with these accuracies (tasks, choices), in percent."""
    data: dict[str, Any] = {}
    sentences = []
    for label, values in zip(labels(tests), accuracies, strict=True):
        gains = values - values[:, :1]
        data[label] = {
            choice: {
                "accuracy": interval_cell(values[:, number]),
                "gain": interval_cell(gains[:, number]),
            }
            for number, choice in enumerate(choices)
        }
        sentences.append(f"{label}: {verdict(values, choices, noun)}.")
    rows = []
    for number, choice in enumerate(choices):
        rows.append((f"{choice} (%)", [data[label][choice]["accuracy"] for label in data]))
        if number:
            text = f"{choice} minus {choices[0]}, same tasks (points)"
            rows.append((text, [data[label][choice]["gain"] for label in data]))
    return study_result(
        settings,
        tests,
        title=title,
        conclusion=" ".join(sentences),
        columns=list(data),
        rows=rows,
        data=data,
    )


def verdict(values: NDArray[np.float64], choices: list[str], noun: str) -> str:
    """Accuracies (tasks, choices) -> whether any choice clearly helps, and which ones hurt."""
    tasks = len(values)
    gains = {
        choice: mean_interval(values[:, number] - values[:, 0])
        for number, choice in enumerate(choices[1:], start=1)
    }
    over = f"points over {choices[0]} ({mean_interval(values[:, 0])}%)"
    if tasks < FEWEST_TASKS:
        best = max(gains, key=lambda choice: gains[choice].mean)
        return (
            f"{tasks} tasks are too few to say whether {noun} helps, take at least {FEWEST_TASKS}; "
            f"in them, {best} gives {signed(gains[best])} {over}"
        )
    sides = {choice: clear_side(gain, among=len(gains)) for choice, gain in gains.items()}
    best = max(gains, key=lambda choice: (sides[choice], gains[choice].mean))
    if sides[best] > 0:
        effect = "helps"
    elif sides[best] < 0:
        effect = "hurts"
    else:
        effect = "does not clearly help" if -1 in sides.values() else "makes no clear difference"
    text = f"{noun} {effect}: {best} gives {signed(gains[best])} {over}, {tasks} tasks"
    worse = [
        f"{choice} ({signed(gains[choice])})"
        for choice, side in sides.items()
        if side < 0 and choice != best
    ]
    return text + (f"; clearly worse: {', '.join(worse)}" if worse else "")
