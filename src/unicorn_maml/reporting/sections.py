"""From the folder of a study or of a training run to a section of the report."""

import json
import shlex
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unicorn_maml.errors import NONSENSE, FileError, UsageError
from unicorn_maml.files import read_object
from unicorn_maml.names import BACKBONE_NAMES, METHOD_NAMES, STUDY_FILE, STUDY_FORMAT
from unicorn_maml.reporting.cells import cell_text
from unicorn_maml.reporting.figures.draw import draw_study, svg_of
from unicorn_maml.reporting.figures.training import draw_training
from unicorn_maml.reporting.paper import paper_numbers, paper_text

__all__ = ["Section", "read_section"]


@dataclass(frozen=True)
class Section:
    """What the report shows of one run, all of it text but the figure."""

    title: str
    conclusion: str
    command: str
    details: dict[str, str]
    figure: bytes | None = None  # SVG
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    paper: list[list[str]] = field(default_factory=list)  # what, value, where


def read_section(folder: Path) -> Section:
    """Read a finished study or training run; anything else is refused in one sentence."""
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}; name folders of studies or training runs.")
    study, config = folder / STUDY_FILE, folder / "config.json"
    if study.is_file():
        return _refusing(study, _study_section)
    if (folder / f"{STUDY_FILE}.part").exists() or (folder / "cells").is_dir():
        raise UsageError(
            f"The study in {folder} is not finished; finish it first (with --resume, or, for a "
            "heat map, with the same command)."
        )
    if not config.is_file():
        raise UsageError(
            f"{folder} holds neither a study nor a training run; leave it out, or name its folders."
        )
    if not (folder / "result.json").is_file():
        kind = "train" if "method" in read_object(config) else "pretrain"
        raise UsageError(
            f"The run in {folder} is not finished; continue it with `unicorn-maml {kind} --out "
            f"{shlex.quote(str(folder))} --resume`."
        )
    return _refusing(config, _run_section)


def _refusing(file: Path, read: Any) -> Section:
    """Read a section; a file that lacks something is damaged or of another version."""
    content = read_object(file)
    try:
        section: Section = read(file.parent, content)
    except NONSENSE as error:
        raise FileError(
            f"{file} is damaged or was written by another version; run it again to report it."
        ) from error
    return section


def _study_section(_folder: Path, result: dict[str, Any]) -> Section:
    if result["format"] != STUDY_FORMAT or not result["data"]:
        raise ValueError(result["format"])
    table = result["table"]
    shown = {"study": result["study"]}
    shown |= _tested(result["tests"])
    shown |= {"device": str(result["device"] or ""), **_versions(result["versions"])}
    if result["seconds"]:
        shown["time"] = f"{result['seconds']:.0f} s"
    return Section(
        title=_text(result["title"]),
        conclusion=_text(result["conclusion"]),
        command=_text(result["command"]),
        details={name: value for name, value in shown.items() if value},
        figure=svg_of(draw_study(result)),
        columns=["", *map(_text, table["columns"])],
        rows=[[_text(row["label"]), *map(cell_text, row["cells"])] for row in table["rows"]],
        paper=[[e["label"], paper_text(e), e["where"]] for e in paper_numbers(result)],
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


_SETTINGS = ["data_set", "backbone", "split", "way", "shot", "query", "inner_steps", "inner_lr"]
_SETTINGS += ["adapt", "normalization", "drop", "leak", "precision", "seed", "tasks", "checkpoint"]


def _tested(tests: list[dict[str, Any]]) -> dict[str, str]:
    """The settings of all tests: the different values of each, in the order of the tests."""
    shown = {}
    for name in _SETTINGS:
        values = list(dict.fromkeys(test[name] for test in tests if test.get(name) is not None))
        if any(value is not False for value in values):  # what is off is not worth a line
            shown[name] = ", ".join(_setting_text(value) for value in values)
    return shown


def _setting_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return BACKBONE_NAMES.get(value, str(value))


def _run_section(folder: Path, config: dict[str, Any]) -> Section:
    result = read_object(folder / "result.json")
    trained = "method" in config
    label = METHOD_NAMES[config["method"] if trained else "pretrained"]
    task = f", {config['way']}-way {config['shot']}-shot" if trained else ""
    what = f"{BACKBONE_NAMES[config['backbone']]} on {Path(config['store']).name}{task}"
    title = f"Meta-training of {label}" if trained else "Pre-training"
    names = ["inner_steps", "inner_lr", "order", "normalization", "epochs", "tasks_per_epoch"]
    names += ["task_batch", "outer_optimizer", "outer_lr", "optimizer", "lr", "seed", "device"]
    values = {**config, "device": result.get("device", config.get("device"))}
    entries = _log_entries(folder / "log.jsonl")
    return Section(
        title=f"{title}: {what}",
        conclusion=(
            f"Best of {result['epochs']} epochs: {result['best_epoch']}, with "
            f"{result['validation_accuracy']:.2f} ± {result['validation_ci95']:.2f}% on validation "
            f"tasks, after {result['seconds']:.0f} s."
        ),
        command=shlex.join(
            [
                "unicorn-maml",
                "train" if trained else "pretrain",
                "--config",
                f"{folder}/config.json",
            ]
        ),
        details={name: str(values[name]) for name in names if values.get(name) is not None},
        figure=svg_of(draw_training(label, entries)) if entries else None,
    )


def _log_entries(log: Path) -> list[dict[str, Any]]:
    """The epochs of a run's log; a figure is no reason to refuse a run whose log is damaged."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    entries = []
    for line in text.splitlines():
        with suppress(ValueError):
            entries.append(json.loads(line))
    return [entry for entry in entries if isinstance(entry, dict)]


def _versions(versions: dict[str, str]) -> dict[str, str]:
    return {"versions": ", ".join(f"{name} {value}" for name, value in versions.items())}
