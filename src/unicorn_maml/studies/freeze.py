"""Accuracy along the inner steps, with the backbone adapted or frozen."""

from functools import partial
from typing import Any

from unicorn_maml.intervals import mean_interval
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import FreezeSettings
from unicorn_maml.studies.frame import (
    adapting,
    few_tasks,
    interval_cell,
    labels,
    run_tests,
    signed,
    study_result,
    tests_of,
    values_of,
)
from unicorn_maml.studies.steps import QUERY, curve, diverged_text, measure_steps

__all__ = ["run"]

_PARTS = {"all": "backbone adapted", "head": "backbone frozen"}


def run(settings: FreezeSettings, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Follow the same tasks twice: all parameters adapt, or the head alone."""
    tests = {part: tests_of(settings, adapt=part) for part in _PARTS}
    every = [test for part in _PARTS for test in tests[part]]
    for test in every:
        test.measure = partial(measure_steps, adapting(test), test.loader)
    run_tests(settings, every, on_progress)
    names = labels(tests["all"])
    data, sentences = {}, []
    at_best: list[Any] = []  # adapted minus frozen
    as_trained: list[Any] = []
    for number, label in enumerate(names):
        curves = {text: curve(tests[part][number]) for part, text in _PARTS.items()}
        adapted, frozen = (values_of(tests[part][number])[:, QUERY] for part in _PARTS)
        # Each at its own best step, which these same tasks choose: a little better than a step that
        # is chosen beforehand, for both. So the number of steps of the training is shown, too.
        steps = [found["best_step"] for found in curves.values()]
        gain = adapted[:, steps[0]] - frozen[:, steps[1]]
        data[label] = curves
        at_best.append(interval_cell(gain))
        trained = curves["backbone adapted"]["trained_steps"]
        text = (
            f"{label}: adapting the backbone changes accuracy by {signed(mean_interval(gain))} "
            f"points, each at its best step ({steps[0]} adapted, {steps[1]} frozen), "
            "chosen on these tasks"
        )
        if trained <= settings.inner_steps:
            gain = adapted[:, trained] - frozen[:, trained]
            text += f", and by {signed(mean_interval(gain))} after the {trained} steps of training"
            as_trained.append(interval_cell(gain))
        else:
            as_trained.append(None)
        diverged = {f"tasks, {part},": found for part, found in curves.items()}
        sentences.append(f"{text}{diverged_text(diverged, len(gain))}.")
    return study_result(
        settings,
        every,
        title="The backbone adapted or frozen",
        conclusion=" ".join(sentences) + few_tasks(every),
        columns=names,
        rows=[
            (
                f"{text}, at its best step (%)",
                [data[label][text]["query"][data[label][text]["best_step"]] for label in names],
            )
            for text in _PARTS.values()
        ]
        + [
            ("adapted minus frozen, each at its best step, same tasks (points)", at_best),
            ("adapted minus frozen, both after the steps of training (points)", as_trained),
        ]
        + [
            (f"{text}: tasks that diverged", [data[label][text]["diverged"] for label in names])
            for text in _PARTS.values()
        ],
        data=data,
    )
