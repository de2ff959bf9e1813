"""The commands. Heavy imports stand inside them, so that `--help` answers at once."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from unicorn_maml.errors import FileError, StoppedError
from unicorn_maml.files import read_json, write_json
from unicorn_maml.reporting.progress import progress_bar
from unicorn_maml.settings import (
    CompareSettings,
    DataShowSettings,
    EvaluateSettings,
    ExportSettings,
    PretrainSettings,
    TrainSettings,
)

__all__ = ["compare", "data_show", "evaluate", "export", "pretrain", "recorded_settings", "train"]

console = Console()
notes = Console(stderr=True)  # progress and the like: not part of the result


def recorded_settings(values: dict[str, Any]) -> dict[str, Any]:
    """With --resume, options that are left open are those that the run began with."""
    if not values["resume"] or values["out"] is None:
        return {}
    config = Path(values["out"]) / "config.json"
    if not config.is_file():
        return {}
    try:
        recorded = dict(read_json(config))
    except (ValueError, TypeError) as error:
        raise FileError(f"{config} is damaged ({error}); choose another --out.") from error
    return {name: value for name, value in recorded.items() if name in values}


def train(settings: TrainSettings) -> None:
    """Meta-train."""
    from unicorn_maml.training.meta_train import meta_train
    from unicorn_maml.training.run import default_folder

    folder = settings.out or default_folder(settings)
    try:
        with progress_bar("meta-training", notes) as update:
            result = meta_train(settings, update)
    except KeyboardInterrupt:
        raise StoppedError(
            f"Stopped; finished epochs are kept, continue with "
            f"`unicorn-maml train --out {folder} --resume`."
        ) from None
    console.print(
        f"Best of {result.epochs} epochs: {result.best_epoch}, with "
        f"{result.validation_accuracy:.2f} ± {result.validation_ci95:.2f}% on validation tasks "
        f"({settings.normalization} normalisation), after {result.seconds:.0f} s."
    )
    console.print(f"Next: unicorn-maml evaluate {result.folder}", soft_wrap=True)


def pretrain(settings: PretrainSettings) -> None:
    """Pre-train."""
    from unicorn_maml.training import pretrain as room
    from unicorn_maml.training.run import default_folder

    folder = settings.out or default_folder(settings)
    try:
        with progress_bar("pre-training", notes) as update:
            result = room.pretrain(settings, update)
    except KeyboardInterrupt:
        raise StoppedError(
            f"Stopped; finished epochs are kept, continue with "
            f"`unicorn-maml pretrain --out {folder} --resume`."
        ) from None
    console.print(
        f"Best of {result.epochs} epochs: {result.best_epoch}, with "
        f"{result.validation_accuracy:.2f} ± {result.validation_ci95:.2f}% by nearest centroid on "
        f"one-shot validation tasks, after {result.seconds:.0f} s at "
        f"{result.images_per_second:.0f} images/s."
    )
    console.print(f"Next: unicorn-maml evaluate {result.folder}", soft_wrap=True)


def evaluate(settings: EvaluateSettings) -> None:
    """Meta-test a checkpoint."""
    from unicorn_maml.evaluation import meta_test

    try:
        with progress_bar("evaluating", notes) as update:
            result = meta_test.evaluate(settings, update)
    except KeyboardInterrupt:
        kept = f"; finished tasks are in {settings.json}, add --resume" if settings.json else ""
        raise StoppedError(f"Stopped{kept}.") from None
    table = Table("", "value", title="Meta-test", show_header=False)
    table.add_row("accuracy", f"{result['accuracy']:.2f} ± {result['ci95']:.2f} %")
    for name, value in result.items():
        if name not in ("accuracy", "ci95", "per_task", "versions", "store_checksum"):
            table.add_row(name.replace("_", " "), _shown(value))
    console.print(table)


def export(settings: ExportSettings) -> None:
    """Write a small copy of a checkpoint."""
    from unicorn_maml.training.checkpoint import export_checkpoint

    export_checkpoint(settings.checkpoint, settings.out)
    size = sum(file.stat().st_size for file in settings.out.iterdir())
    console.print(f"Wrote {settings.out}, {size / 1e6:.1f} MB.")


def compare(settings: CompareSettings) -> None:
    """Compare two checkpoints on identical tasks."""
    from unicorn_maml.evaluation import meta_test

    try:
        with progress_bar("comparing", notes) as update:
            result = meta_test.compare(settings, update)
    except KeyboardInterrupt:
        raise StoppedError("Stopped; nothing was written.") from None
    first, second = result["first"], result["second"]
    table = Table("", "first", "second", title=f"{first['tasks']} identical tasks")
    scores = [f"{each['accuracy']:.2f} ± {each['ci95']:.2f} %" for each in (first, second)]
    table.add_row("accuracy", *scores)
    for name in first:
        if name not in ("accuracy", "ci95", "per_task", "versions", "store_checksum", "tasks"):
            table.add_row(name.replace("_", " "), _shown(first[name]), _shown(second[name]))
    console.print(table)
    console.print(
        f"First minus second: {result['difference']:+.2f} ± {result['difference_ci95']:.2f} points "
        "(paired, 95%)."
    )


def data_show(settings: DataShowSettings) -> None:
    """Describe a store."""
    from unicorn_maml.data.sources import open_store

    store = open_store(settings.store)
    store.verify()
    splits = {}
    table = Table("split", "classes", "images", "images per class", title=str(store.folder))
    for split in ("base", "validation", "novel"):
        counts = [entry.count for entry in store.classes_of(split)]
        splits[split] = {"classes": len(counts), "images": sum(counts)}
        per_class = f"{min(counts)} to {max(counts)}" if counts else "-"
        table.add_row(split, str(len(counts)), str(sum(counts)), per_class)
    console.print(table)
    console.print(f"{store.size}x{store.size} pixels, {store.channels} channels; checksum is right")
    console.print(f"source: {store.source}")
    console.print(f"preprocessing: {store.preprocessing}")
    if settings.json:
        description = {
            "folder": str(store.folder),
            "splits": splits,
            "size": store.size,
            "channels": store.channels,
            "source": store.source,
            "preprocessing": store.preprocessing,
            "checksum": store.checksum,
        }
        write_json(settings.json, description)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value)
