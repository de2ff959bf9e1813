"""Results to keep: small files without per-task accuracies, and the table that is made of them.

A row of the paper's tables has a name, such as `miniimagenet-resnet12-unicorn-1shot`, which is also
the name of its recipe in `configs/paper`. A result is `ROW.POLICY.json`; a paired difference of two
methods on the same tasks is `difference-WHAT.POLICY.json`.
"""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from unicorn_maml.errors import FileError, UsageError
from unicorn_maml.files import read_object, write_json

__all__ = ["add_result", "published_rows", "results_table", "update_document"]

_POLICIES = ("batch", "support", "mixed", "frozen")
_BEGIN, _END = "<!-- made by `unicorn-maml results table` -->", "<!-- end -->"
_NOT_KEPT = {"per_task", "feature_seconds", "tasks_per_second"}


def published_rows() -> dict[str, dict[str, Any]]:
    """The paper's accuracies by the names of the rows."""
    text = (files("unicorn_maml") / "reporting" / "published.json").read_text(encoding="utf-8")
    rows: dict[str, dict[str, Any]] = json.loads(text)
    return rows


def add_result(file: Path, row: str, folder: Path) -> Path:
    """Put a small copy of what `evaluate --json` or `compare --json` wrote among the results."""
    result = read_object(file)
    pair = [result.get("first"), result.get("second")]
    try:
        if all(isinstance(each, dict) for each in pair):
            kept = {
                **{name: _small(result[name]) for name in ("first", "second")},
                "difference": float(result["difference"]),
                "difference_ci95": float(result["difference_ci95"]),
            }
            policy = result["first"]["normalization"]
            name = f"difference-{row}"
        else:
            kept = _small(result)
            policy, name = result["normalization"], row
            if row not in published_rows():
                raise UsageError(
                    f"{row!r} is no row of the paper's tables; choose one of "
                    f"{', '.join(published_rows())}."
                )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise FileError(
            f"{file} is no result; make one with `unicorn-maml evaluate --json` or "
            "`compare --json`."
        ) from error
    out = folder / f"{name}.{policy}.json"
    write_json(out, kept)
    return out


def _small(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what is long or of one machine only, with the command that makes it."""
    float(result["accuracy"])
    small = {name: value for name, value in result.items() if name not in _NOT_KEPT}
    for name in ("store", "checkpoint"):  # no folders of one machine
        small[name] = Path(small[name]).name
    options = ["split", "tasks", "way", "shot", "query", "inner_steps", "inner_lr", "adapt"]
    options += ["normalization", "head", "precision", "seed"]
    words = [f"--{name.replace('_', '-')} {small[name]}" for name in options]
    words += [f"--{name}" for name in ("drop", "leak", "compile") if small.get(name)]
    small["command"] = f"unicorn-maml evaluate {small['checkpoint']} --store STORE " + " ".join(
        words
    )
    return small


def results_table(folder: Path) -> str:
    """Markdown: the paper's accuracies and ours, row by row, and the paired differences."""
    lines = [
        "| row | paper | "
        + " | ".join(f"`{policy}`" for policy in _POLICIES)
        + " | best - paper |",
        "|---" * (len(_POLICIES) + 3) + "|",
    ]
    for row, paper in published_rows().items():
        found = {policy: _read(folder / f"{row}.{policy}.json") for policy in _POLICIES}
        measured = [each for each in found.values() if each]
        best = max((each["accuracy"] for each in measured), default=None)
        cells = [_figure(each["accuracy"], each["ci95"]) if each else "" for each in found.values()]
        difference = "not run yet" if best is None else f"{best - paper['accuracy']:+.2f}"
        figure = _figure(paper["accuracy"], paper["ci95"])
        lines.append(f"| {row} | {figure} | {' | '.join(cells)} | {difference} |")
    differences = sorted(folder.glob("difference-*.json"))
    if differences:
        lines += ["", "| same tasks | first minus second, points |", "|---|---|"]
    for file in differences:
        result = read_object(file)
        figure = _figure(result["difference"], result["difference_ci95"])
        name = file.name.removeprefix("difference-").removesuffix(".json")
        lines.append(f"| {name} | {figure} |")
    return "\n".join(lines)


def _read(file: Path) -> dict[str, Any] | None:
    return read_object(file) if file.is_file() else None


def _figure(value: float, ci95: float | None) -> str:
    return f"{value:.2f}" if ci95 is None else f"{value:.2f} ± {ci95:.2f}"


def update_document(document: Path, table: str) -> None:
    """Put the table between its two marks in a document."""
    text = document.read_text(encoding="utf-8")
    if text.count(_BEGIN) != 1 or text.count(_END) != 1 or text.index(_BEGIN) > text.index(_END):
        raise FileError(f"{document} lacks the lines {_BEGIN!r} and {_END!r} for the table.")
    before, rest = text.split(_BEGIN)
    after = rest.split(_END)[1]
    document.write_text(f"{before}{_BEGIN}\n\n{table}\n\n{_END}{after}", encoding="utf-8")
