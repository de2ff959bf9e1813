"""The commands. Heavy imports stand inside them, so that `--help` answers at once."""

import json
import shlex
from pathlib import Path
from typing import Any

from rich.table import Table

from unicorn_maml.cli.consoles import console, notes
from unicorn_maml.errors import StoppedError
from unicorn_maml.files import check_can_write, read_object, write_json
from unicorn_maml.reporting.progress import progress_bar
from unicorn_maml.settings import (
    CompareSettings,
    EvaluateSettings,
    ExportSettings,
    ModelsSettings,
    PretrainSettings,
    TrainSettings,
)

__all__ = [
    "compare",
    "evaluate",
    "export",
    "models",
    "pretrain",
    "recorded_settings",
    "show_pair",
    "train",
]


def recorded_settings(kind: type, options: dict[str, Any]) -> dict[str, Any]:
    """With --resume, options that are left open are those that the run began with."""
    if not options["resume"]:
        return {}
    config = (options["out"] or kind(**options).folder) / "config.json"
    return read_object(config) if config.is_file() else {}


def _stopped_run(command: str, folder: Path) -> StoppedError:
    if not (folder / "config.json").is_file():
        return StoppedError("Stopped before anything was saved.")
    again = f"unicorn-maml {command} --out {shlex.quote(str(folder))} --resume"
    return StoppedError(f"Stopped; what was saved is kept, continue with `{again}`.")


def train(settings: TrainSettings) -> None:
    """Meta-train."""
    from unicorn_maml.training.meta_train import meta_train

    try:
        with progress_bar("meta-training", notes) as update:
            result = meta_train(settings, update)
    except KeyboardInterrupt:
        raise _stopped_run("train", settings.folder) from None
    console.print(
        f"Best of {result.epochs} epochs: {result.best_epoch}, with "
        f"{result.validation_accuracy:.2f} ± {result.validation_ci95:.2f}% on validation tasks "
        f"({settings.normalization} normalisation), after {result.seconds:.0f} s."
    )
    console.print(f"Next: unicorn-maml evaluate {result.folder}", soft_wrap=True)


def pretrain(settings: PretrainSettings) -> None:
    """Pre-train."""
    from unicorn_maml.training import pretrain as room

    try:
        with progress_bar("pre-training", notes) as update:
            result = room.pretrain(settings, update)
    except KeyboardInterrupt:
        raise _stopped_run("pretrain", settings.folder) from None
    console.print(
        f"Best of {result.epochs} epochs: {result.best_epoch}, with "
        f"{result.validation_accuracy:.2f} ± {result.validation_ci95:.2f}% by nearest centroid on "
        f"one-shot validation tasks, after {result.seconds:.0f} s at "
        f"{result.images_per_second:.0f} images/s."
    )
    console.print(f"Next: unicorn-maml evaluate {result.folder}", soft_wrap=True)


def evaluate(settings: EvaluateSettings) -> None:
    """Meta-test a checkpoint."""
    from unicorn_maml.evaluation import results, unfinished

    try:
        with progress_bar("evaluating", notes) as update:
            result = results.evaluate(settings, update)
    except KeyboardInterrupt:
        raise StoppedError(_stopped(settings.json)) from None
    table = Table("", "value", title="Meta-test", show_header=False)
    table.add_row("accuracy", f"{result['accuracy']:.2f} ± {result['ci95']:.2f} %")
    for name, value in result.items():
        if name not in _NOT_SHOWN:
            table.add_row(name.replace("_", " "), _shown(value))
    try:  # first: who reads what is printed may be gone
        unfinished.write_result(settings.json, result)
    finally:  # but a full disk does not cost the figures
        console.print(table)


def _stopped(file: Path | None) -> str:
    from unicorn_maml.evaluation.unfinished import unfinished_file

    if file is None or not unfinished_file(file).exists():
        return "Stopped."
    return f"Stopped; add --resume to continue for {file}."


_NOT_SHOWN = {"accuracy", "ci95", "per_task", "versions", "store_checksum", "weights_sha256"}
_NOT_SHOWN |= {"data_set", "trained_steps", "training"}


def export(settings: ExportSettings) -> None:
    """Write a small copy of a checkpoint."""
    from unicorn_maml.training.checkpoint import export_checkpoint

    export_checkpoint(settings.checkpoint, settings.out)
    size = sum(file.stat().st_size for file in settings.out.iterdir())
    console.print(f"Wrote {settings.out}, {size / 1e6:.1f} MB.")


def models(settings: ModelsSettings) -> None:
    """List the checkpoints that come with the package."""
    from unicorn_maml.training.checkpoint import load_checkpoint, shipped_checkpoints

    check_can_write(settings.json)
    listed = {}
    for name, folder in shipped_checkpoints().items():
        model = load_checkpoint(folder).spec
        size = sum(file.stat().st_size for file in folder.iterdir())
        card = read_object(folder / "card.json")
        listed[name] = {"method": model.method, **vars(model.features), "bytes": size, **card}
    if settings.json:
        write_json(settings.json, listed)
    for name, model_card in listed.items():
        table = Table("", "", title=name, title_justify="left", show_header=False)
        table.add_row("network", f"{model_card['backbone']}, {model_card['method']}")
        table.add_row("trained on", model_card["data"])
        for result in model_card["accuracy"]:
            figure = f"{result['percent']:.2f} ± {result['ci95']:.2f} %"
            table.add_row(f"{result['shot']}-shot", f"{figure}: {result['how']}")
        table.add_row("size", f"{model_card['bytes'] / 1e6:.1f} MB")
        table.add_row("licence", model_card["licence"])
        console.print(table)


def compare(settings: CompareSettings) -> None:
    """Compare two checkpoints on identical tasks."""
    from unicorn_maml.evaluation import results, unfinished

    try:
        with progress_bar("comparing", notes) as update:
            result = results.compare(settings, update)
    except KeyboardInterrupt:
        raise StoppedError(_stopped(settings.json)) from None
    try:
        unfinished.write_result(settings.json, result)
    finally:
        show_pair(result)


def show_pair(result: dict[str, Any]) -> None:
    """Print two results on identical tasks side by side."""
    first, second = result["first"], result["second"]
    table = Table("", "first", "second", title=f"{first['tasks']} identical tasks")
    scores = [f"{each['accuracy']:.2f} ± {each['ci95']:.2f} %" for each in (first, second)]
    table.add_row("accuracy", *scores)
    difference = f"{result['difference']:+z.2f} ± {result['difference_ci95']:.2f} points"
    table.add_row("first minus second (paired)", difference, "")
    for name in first:
        if name not in _NOT_SHOWN | {"tasks"}:
            table.add_row(name.replace("_", " "), _shown(first[name]), _shown(second.get(name)))
    console.print(table)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value)
