"""`unicorn-maml demo`: the paper's point, on embedded data, in minutes."""

from dataclasses import replace
from typing import Any

import numpy as np
from rich.table import Table

from unicorn_maml.cli.commands import console, notes
from unicorn_maml.errors import StoppedError
from unicorn_maml.files import check_can_write, write_json
from unicorn_maml.intervals import Interval, mean_interval
from unicorn_maml.reporting.progress import progress_bar
from unicorn_maml.settings import DemoSettings, EvaluateSettings, MethodName, TrainSettings

__all__ = ["demo"]

_NAMES: dict[MethodName, str] = {"maml": "MAML", "unicorn": "UNICORN-MAML"}


def demo(settings: DemoSettings) -> None:
    """Train both methods on the same tasks, test both on the same tasks, print one table."""
    check_can_write(settings.json)
    try:
        results = {method: _train_and_test(method, settings) for method in _NAMES}
    except KeyboardInterrupt:
        raise StoppedError("Stopped; run the demo again to go on from the last epoch.") from None
    difference = mean_interval(
        np.subtract(results["unicorn"]["per_task"], results["maml"]["per_task"])
    )
    console.print(_table(results, difference, settings))
    example = results["unicorn"]
    console.print(
        f"Settings: {example['inner_steps']} inner steps at {example['inner_lr']:g}, first order, "
        f"{example['normalization']} normalisation, seed {settings.seed}, {example['device']}."
    )
    console.print(f"The runs are in {settings.out}.", soft_wrap=True)
    if settings.json:
        paired = {"difference": difference.mean, "difference_ci95": difference.ci95}
        write_json(settings.json, {**results, **paired})


def _table(
    results: dict[MethodName, dict[str, Any]], difference: Interval, settings: DemoSettings
) -> Table:
    title = f"ConvNet-4 on glyphs, 5-way 1-shot, {settings.tasks} novel tasks"
    table = Table("", *_NAMES.values(), title=title)

    def row(label: str, name: str) -> None:
        cells = (Interval(results[m][name], results[m][f"{name}_ci95"]) for m in _NAMES)
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
    from unicorn_maml.studies.permutations import iterate_permutation_accuracies
    from unicorn_maml.training.checkpoint import load_checkpoint
    from unicorn_maml.training.meta_train import meta_train

    name = _NAMES[method]
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
    spreads = []
    numbers = range(settings.permutation_tasks)
    with progress_bar(f"{name} permutations", notes) as update:
        for scores in iterate_permutation_accuracies(test.method, test.loader, numbers):
            spreads.append(float(scores.max() - scores.min()))
            update(len(spreads), len(numbers), {"spread": float(np.mean(spreads))})
    unadapted, spread = mean_interval(before.per_task), mean_interval(spreads)
    result = test.result()
    return {
        **result,
        "accuracy_ci95": result["ci95"],
        "accuracy_before": unadapted.mean,
        "accuracy_before_ci95": unadapted.ci95,
        "permutation_tasks": len(spreads),
        "best_minus_worst": spread.mean,
        "best_minus_worst_ci95": spread.ci95,
    }
