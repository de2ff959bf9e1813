"""The result of studies that do something to each task in several ways, and compare the first one.

The differences are paired: all are of the same tasks.
"""

from typing import Any

from unicorn_maml.evaluation.meta_test import MetaTest
from unicorn_maml.intervals import mean_interval
from unicorn_maml.settings import StudySettings
from unicorn_maml.studies.frame import interval_cell, labels, signed, study_result, values_of

__all__ = ["choices_result"]


def choices_result(
    settings: StudySettings, tests: list[MetaTest], *, title: str, choices: list[str], noun: str
) -> dict[str, Any]:
    """Tests whose measured rows (tasks, choices) are accuracies, in percent."""
    data: dict[str, Any] = {}
    sentences = []
    for label, test in zip(labels(tests), tests, strict=True):
        values = values_of(test)
        gains = values - values[:, :1]
        data[label] = {
            choice: {
                "accuracy": interval_cell(values[:, number]),
                "gain": interval_cell(gains[:, number]),
            }
            for number, choice in enumerate(choices)
        }
        best = 1 + int(gains[:, 1:].mean(0).argmax())
        gain = mean_interval(gains[:, best])
        sentences.append(
            f"{label}: {noun} {_verdict(gain.mean, gain.ci95)}: {choices[best]} gives "
            f"{signed(gain)} points over {choices[0]} ({mean_interval(values[:, 0])}%), "
            f"{len(values)} tasks."
        )
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


def _verdict(gain: float, ci95: float) -> str:
    if gain > ci95:
        return "helps"
    return "hurts" if gain < -ci95 else "makes no clear difference"
