"""`unicorn-maml demo`: the paper's point, on embedded data, in minutes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from unicorn_maml.cli.consoles import console, notes
from unicorn_maml.cli.report import report
from unicorn_maml.cli.study import run_study
from unicorn_maml.errors import FileError, StoppedError, UsageError
from unicorn_maml.files import check_can_write, read_object, write_json
from unicorn_maml.intervals import Interval, mean_interval
from unicorn_maml.names import METHOD_NAMES, STUDY_FILE
from unicorn_maml.reporting.progress import progress_bar
from unicorn_maml.settings import (
    ChanceSettings,
    DemoSettings,
    EvaluateSettings,
    MethodName,
    PermutationsSettings,
    ReportSettings,
    SlotsSettings,
    StepsSettings,
    TrainSettings,
    to_json,
)

__all__ = ["demo"]

_METHODS: tuple[MethodName, ...] = ("maml", "unicorn")
_STUDY_TASKS = 20  # of the studies that only the report shows
_STUDY_STEPS = 10


def demo(settings: DemoSettings) -> None:
    """Train both methods on the same tasks, test both on the same tasks, print one table."""
    check_can_write(settings.json)
    try:
        results = {method: _train_and_test(method, settings) for method in _METHODS}
        spreads = _studies(settings)
    except (KeyboardInterrupt, StoppedError):
        raise StoppedError("Stopped; run the demo again to go on from there.") from None
    for method in _METHODS:
        spread = spreads[METHOD_NAMES[method]]["best_minus_worst"]
        results[method] |= {
            "permutation_tasks": settings.permutation_tasks,
            "best_minus_worst": spread["mean"],
            "best_minus_worst_ci95": spread["ci95"],
        }
    difference = mean_interval(
        np.subtract(results["unicorn"]["per_task"], results["maml"]["per_task"])
    )
    if settings.json:
        paired = {"difference": difference.mean, "difference_ci95": difference.ci95}
        write_json(settings.json, {**results, **paired})
    console.print(_table(results, difference, settings))
    example = results["unicorn"]
    console.print(
        f"Settings: {example['inner_steps']} inner steps at {example['inner_lr']:g}, first order, "
        f"{example['normalization']} normalisation, seed {settings.seed}, {example['device']}."
    )
    console.print(f"The runs are in {settings.out}.", soft_wrap=True)
    names = (*_METHODS, "permutations", "steps", "slots", "chance")
    page = settings.out / "report.html"
    report(ReportSettings(runs=[settings.out / name for name in names], out=page))


def _studies(settings: DemoSettings) -> dict[str, Any]:
    """Run the studies that the report shows; return the numbers of `permutations`."""
    out = settings.out
    shared: dict[str, Any] = {
        "checkpoints": [out / method for method in _METHODS],
        "seed": settings.seed,
        "device": settings.device,
    }
    tasks, steps = _STUDY_TASKS, _STUDY_STEPS
    for asked in (
        ChanceSettings(out=out / "chance"),
        SlotsSettings(**shared, out=out / "slots", tasks=tasks),
        StepsSettings(**shared, out=out / "steps", tasks=tasks, inner_steps=steps),
        PermutationsSettings(**shared, out=out / "permutations", tasks=settings.permutation_tasks),
    ):
        result = _study(asked)
    numbers: dict[str, Any] = result["data"]
    return numbers


def _study(settings: Any) -> dict[str, Any]:
    """Run a study, or take an earlier demo's of the same networks with the same settings."""
    from unicorn_maml.evaluation.unfinished import unfinished_file

    file = settings.folder / STUDY_FILE
    if file.is_file():
        earlier = read_object(file)
        networks = getattr(settings, "checkpoints", [])  # the study of chance has none
        asked = {**earlier.get("settings", {}), "resume": False}
        if asked == {**to_json(settings), "resume": False} and _is_of(networks, earlier):
            return earlier
        file.unlink()
    with progress_bar(settings.study, notes) as update:
        if unfinished_file(file).exists():
            try:
                return run_study(replace(settings, resume=True), update)
            except (UsageError, FileError):  # of other networks
                unfinished_file(file).unlink()
        return run_study(settings, update)


def _is_of(checkpoints: list[Path], study: dict[str, Any]) -> bool:
    """Whether the folders still hold the weights that a study was made of."""
    from unicorn_maml.training.checkpoint import load_checkpoint

    tested = {test.get("weights_sha256") for test in study.get("tests", [])}
    return tested == {load_checkpoint(path).weights_sha256 for path in checkpoints}


def _table(
    results: dict[MethodName, dict[str, Any]], difference: Interval, settings: DemoSettings
) -> Table:
    title = f"ConvNet-4 on glyphs, 5-way 1-shot, {settings.tasks} novel tasks"
    table = Table("", *(METHOD_NAMES[method] for method in _METHODS), title=title)

    def row(label: str, name: str) -> None:
        cells = (Interval(results[m][name], results[m][f"{name}_ci95"]) for m in _METHODS)
        table.add_row(label, *map(str, cells))

    row("accuracy (%)", "accuracy")
    row("accuracy before adaptation (%)", "accuracy_before")
    table.add_row("UNICORN-MAML minus MAML, same tasks (points)", "", str(difference))
    tasks = settings.permutation_tasks
    row(f"best minus worst of 120 label permutations ({tasks} tasks)", "best_minus_worst")
    return table


def _train_settings(method: MethodName, settings: DemoSettings) -> TrainSettings:
    return TrainSettings(
        store="glyphs",
        out=settings.out / method,
        resume=(settings.out / method / "config.json").is_file(),
        method=method,
        width=32,
        inner_lr=0.2,
        normalization="support",
        epochs=settings.epochs,
        task_batch=4,
        query=5,
        outer_optimizer="adam",
        outer_lr=0.002,
        weight_decay=0.0,
        schedule="cosine",
        validation_tasks=50,
        seed=settings.seed,
        device=settings.device,
    )


def _train_and_test(method: MethodName, settings: DemoSettings) -> dict[str, Any]:
    from unicorn_maml.evaluation.meta_test import prepare
    from unicorn_maml.training.checkpoint import load_checkpoint
    from unicorn_maml.training.meta_train import meta_train

    name = METHOD_NAMES[method]
    with progress_bar(f"{name} training", notes) as update:
        run = meta_train(_train_settings(method, settings), update)
    checkpoint = load_checkpoint(run.folder)
    asked = EvaluateSettings(
        checkpoint=run.folder, tasks=settings.tasks, seed=settings.seed, device=settings.device
    )
    test = prepare(checkpoint, asked)
    before = prepare(checkpoint, replace(asked, inner_steps=0))
    with progress_bar(f"{name} testing", notes) as update:
        test.run(update)
    with progress_bar(f"{name} without adaptation", notes) as update:
        before.run(update)
    unadapted = mean_interval(before.per_task)
    result = test.result()
    return {
        **result,
        "accuracy_ci95": result["ci95"],
        "accuracy_before": unadapted.mean,
        "accuracy_before_ci95": unadapted.ci95,
    }
