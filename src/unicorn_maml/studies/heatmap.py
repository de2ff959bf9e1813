"""Accuracy over a grid of inner steps and inner learning rates, each cell trained on its own."""

import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import fields, replace
from multiprocessing import active_children, get_context
from typing import Any

import torch

from unicorn_maml.configuration import read_configuration
from unicorn_maml.data.sources import open_store
from unicorn_maml.devices import choose_device, describe_device
from unicorn_maml.errors import DivergedError, UnicornError, UsageError
from unicorn_maml.evaluation.results import evaluate
from unicorn_maml.files import read_object, write_json
from unicorn_maml.names import BACKBONE_NAMES, METHOD_NAMES
from unicorn_maml.processes import keep_freed_memory
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import EvaluateSettings, HeatmapSettings, TrainSettings, to_json
from unicorn_maml.studies.frame import study_result
from unicorn_maml.training.checkpoint import load_checkpoint
from unicorn_maml.training.meta_train import meta_train

__all__ = ["run"]

Cell = dict[str, Any]  # inner_steps, inner_lr, and accuracies with ci95, or diverged


def run(settings: HeatmapSettings, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Train and test every cell that is not finished yet, and find the best one."""
    recipe = _recipe(settings)
    grid = [(steps, rate) for steps in settings.step_counts for rate in settings.learning_rates]
    runs = [_cell_settings(recipe, settings, steps, rate) for steps, rate in grid]
    started = time.perf_counter()
    cells = _run_all(runs, settings, on_progress)
    finished = [cell for cell in cells if "accuracy" in cell]
    if not finished:
        raise DivergedError("No cell of the grid could be trained; take smaller --rates.")
    # The novel tasks score the cells; they choose one only if an older version trained some.
    by = _VALIDATED if all(_VALIDATED in cell for cell in finished) else "accuracy"
    best = _best(finished, by)
    share = runs[0].epochs / recipe.epochs
    shorter = f", {100 * share:.3g}% of the recipe's epochs" if share < 1 else ""
    what = (
        f"{METHOD_NAMES[recipe.method]}, {BACKBONE_NAMES[recipe.backbone]}, "
        f"{recipe.way}-way {recipe.shot}-shot"
    )
    diverged = len(cells) - len(finished)
    result = study_result(
        settings,
        [],
        title=f"Inner steps and inner learning rate: {what}{shorter}",
        conclusion=(
            f"{what}: best with {best['inner_steps']} inner steps at {best['inner_lr']:g}, "
            f"{best['accuracy']:.2f} ± {best['ci95']:.2f}% on {settings.tasks} novel tasks"
            + _over_five(finished, best, by)
            + (", chosen by validation accuracy" if by == _VALIDATED else ", chosen on these tasks")
            + f"; {runs[0].epochs} epochs of {recipe.tasks_per_epoch} tasks for each cell{shorter}"
            + (f"; {diverged} of {len(cells)} cells diverged." if diverged else ".")
        ),
        columns=[f"rate {rate:g}" for rate in settings.learning_rates],
        rows=[
            (
                f"{steps} steps (%)",
                [_table_cell(cell) for cell in cells if cell["inner_steps"] == steps],
            )
            for steps in settings.step_counts
        ],
        data={"cells": cells, "best": best, "method": METHOD_NAMES[recipe.method]},
    )
    tested = next(cell["test"] for cell in cells if "test" in cell)
    result["tests"] = [{name: value for name, value in tested.items() if name not in _VARIED}]
    result["seconds"] = time.perf_counter() - started
    result["device"] = describe_device(choose_device(settings.device))
    return result


_VARIED = {"inner_steps", "trained_steps", "inner_lr", "checkpoint", "weights_sha256"}
_VALIDATED = "validation_accuracy"


def _best(cells: list[Cell], by: str) -> Cell:
    return max(cells, key=lambda cell: float(cell[by]))


def _over_five(finished: list[Cell], best: Cell, by: str) -> str:
    """How much the best cell has over the best one with few steps, the usual choice."""
    few = [cell for cell in finished if cell["inner_steps"] <= 5]
    if not few or best["inner_steps"] <= 5:
        return ""
    found = _best(few, by)
    return f" ({found['accuracy']:.2f} ± {found['ci95']:.2f}% with the best of at most 5 steps)"


def _table_cell(cell: Cell) -> Any:
    if "accuracy" in cell:
        return {"mean": cell["accuracy"], "ci95": cell["ci95"]}
    return "diverged"


def _recipe(settings: HeatmapSettings) -> TrainSettings:
    """The settings of a training run, or of a configuration file, for this store and machine."""
    file = settings.recipe
    if file.is_dir():
        file = file / "config.json"
    if not file.is_file():
        raise UsageError(
            f"There is no run folder or configuration {settings.recipe}; name one that says how to "
            "train."
        )
    known = read_configuration(file, {field.name for field in fields(TrainSettings)})
    chosen = {name: getattr(settings, name) for name in ("store", "seed", "precision")}
    known |= {name: value for name, value in chosen.items() if value is not None}
    return TrainSettings(**known | {"device": settings.device, "compile": settings.compile})


def _cell_settings(
    recipe: TrainSettings, settings: HeatmapSettings, steps: int, rate: float
) -> TrainSettings:
    shown = f"{rate:g}" if float(f"{rate:g}") == rate else repr(rate)
    folder = settings.folder / "cells" / f"{steps}-steps-rate-{shown}"
    return replace(
        recipe,
        inner_steps=steps,
        inner_lr=rate,
        epochs=max(1, round(recipe.epochs * settings.budget)),
        out=folder,
        resume=(folder / "config.json").is_file(),
    )


def _run_all(
    runs: list[TrainSettings], settings: HeatmapSettings, on_progress: OnProgress | None
) -> list[Cell]:
    """All cells, one after another or in processes. Progress is in meta-training tasks."""
    cells: dict[int, Cell] = {}
    tasks = runs[0].epochs * runs[0].tasks_per_epoch  # of each cell

    def progress(done: int, _all: int = 0, _figures: dict[str, float] | None = None) -> None:
        if on_progress:
            scores = [float(each["accuracy"]) for each in cells.values() if "accuracy" in each]
            best = {"best": max(scores)} if scores else {}
            figures = {"cell": float(min(len(cells) + 1, len(runs))), **best}
            on_progress(len(cells) * tasks + done, len(runs) * tasks, figures)

    def note(number: int, cell: Cell) -> None:
        cells[number] = cell
        progress(0)

    if settings.workers == 1:
        for number, each in enumerate(runs):
            note(number, _run_cell(each, settings, progress))
    else:
        threads = max(1, torch.get_num_threads() // settings.workers)
        pool = ProcessPoolExecutor(
            settings.workers, get_context("spawn"), initializer=_begin, initargs=(threads,)
        )
        waiting = {
            pool.submit(_run_cell, each, settings): number for number, each in enumerate(runs)
        }
        try:
            for done in as_completed(waiting):
                note(waiting[done], done.result())
        except BrokenProcessPool as error:
            raise UnicornError(
                "The process of a cell was killed, perhaps for want of memory; use fewer --workers."
            ) from error
        except BaseException:
            for process in active_children():  # what a cell has finished is kept
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
    return [cells[number] for number in range(len(runs))]


def _begin(threads: int) -> None:
    """Set up a worker: its share of the cores, and a quiet end together with the study."""
    torch.set_num_threads(threads)
    keep_freed_memory()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when its parent is gone: a killed study cannot tell its workers to stop."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _run_cell(
    training: TrainSettings, settings: HeatmapSettings, on_progress: OnProgress | None = None
) -> Cell:
    """Train and test one cell, or take what an earlier call has found."""
    place = {"inner_steps": training.inner_steps, "inner_lr": training.inner_lr}
    file = training.folder / "test.json"
    asked = {
        "training": {**to_json(training), "resume": False, "device": None},
        "store_checksum": open_store(training.store).identity,
        "tasks": settings.tasks,
        "query": settings.query,
        "init_sha256": load_checkpoint(training.init).weights_sha256 if training.init else None,
    }
    if file.is_file():
        earlier = read_object(file)
        backbone, before = asked["init_sha256"], earlier.get("asked")
        if isinstance(before, dict) and before.get("init_sha256", backbone) != backbone:
            raise UsageError(
                f"{training.folder} was trained from another backbone than the one that is in "
                f"{training.init} now; choose another --out."
            )
        if before == asked:
            return dict(earlier["cell"])
        if not training.resume:  # it diverged, and left no run
            file.unlink()
    try:
        trained = meta_train(training, on_progress)
        test = evaluate(
            EvaluateSettings(
                checkpoint=training.folder,
                tasks=settings.tasks,
                query=settings.query,
                device=training.device,
                precision=training.precision,
                compile=training.compile,
                seed=training.seed,
            )
        )
    except DivergedError:
        cell: Cell = {**place, "diverged": True}
    else:
        kept = {name: value for name, value in test.items() if name != "per_task"}
        cell = {**place, "accuracy": test["accuracy"], "ci95": test["ci95"], "test": kept}
        cell[_VALIDATED] = trained.validation_accuracy
    write_json(file, {"asked": asked, "cell": cell})
    return cell
