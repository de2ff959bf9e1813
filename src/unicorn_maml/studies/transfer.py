"""Networks trained on one data set, tested on another."""

from pathlib import Path
from typing import Any

from unicorn_maml.errors import UsageError
from unicorn_maml.intervals import mean_interval
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import TransferSettings
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


def run(settings: TransferSettings, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Test every checkpoint on the store that it knows and on the other one."""
    home, away = tests_of(settings), tests_of(settings, store=settings.to)
    if home[0].record["store_checksum"] == away[0].record["store_checksum"]:
        raise UsageError(
            f"{settings.to} is the store that the networks are at home on; name another one with "
            "--to."
        )
    run_tests(settings, [*home, *away], on_progress)
    names = labels(home)
    places = [Path(str(test.record["store"])).name for test in (home[0], away[0])]
    if places[0] == places[1]:  # two folders of one name
        places = [f"{places[0]} (own)", f"{places[1]} (other)"]
    data = {
        label: {
            place: {"accuracy": interval_cell(values_of(tests[number]))}
            for place, tests in zip(places, (home, away), strict=True)
        }
        for number, label in enumerate(names)
    }
    sentences = [
        f"{label}: {mean_interval(home[n].per_task)}% on {places[0]} and "
        f"{mean_interval(away[n].per_task)}% on {places[1]}."
        for n, label in enumerate(names)
    ]
    rows = [
        (f"{place} (%)", [data[label][place]["accuracy"] for label in names]) for place in places
    ]
    for number in range(1, len(names)):
        gain = mean_interval(values_of(away[number]) - values_of(away[0]))
        sentences.append(
            f"{names[number]} minus {names[0]} on {places[1]}, same tasks: {signed(gain)} points."
        )
    return study_result(
        settings,
        [*home, *away],
        title=f"From {places[0]} to {places[1]}",
        conclusion=" ".join(sentences) + few_tasks(home),
        columns=names,
        rows=rows,
        data=data,
    )
