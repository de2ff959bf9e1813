"""Results to keep: small files without per-task accuracies, and the table that is made of them.

A row of the paper's tables has a name, such as `miniimagenet-resnet12-unicorn-1shot`, which is also
the name of its recipe in `configs/paper`. A result is `ROW.POLICY.json`; a paired difference of two
methods on the same tasks is `difference-WHAT.POLICY.json`.
"""

import json
import math
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

from unicorn_maml.errors import FileError, UsageError
from unicorn_maml.files import read_object, write_json, write_text
from unicorn_maml.names import name_of_run, option_name
from unicorn_maml.settings import Normalization

__all__ = [
    "Row",
    "add_result",
    "published_rows",
    "results_table",
    "row_named",
    "update_document",
]

_POLICIES: tuple[str, ...] = get_args(Normalization)
_BEGIN, _END = "<!-- made by `unicorn-maml results table` -->", "<!-- end -->"
_NOT_KEPT = {"per_task", "feature_seconds", "tasks_per_second"}
_NOT_KEPT_OF_TRAINING = {"out", "resume", "device", "compile"}
_OF_THE_INNER_LOOP = {"inner_steps", "inner_lr", "adapt", "normalization"}
_PAPERS_TASKS = 10_000
_ROW = re.compile(
    r"(?P<trained_on>[a-z]+)(-to-(?P<tested_on>[a-z]+))?-(?P<backbone>[a-z]+\d+)"
    r"-(?P<method>maml|maml5steps|unicorn)-(?P<shot>\d+)shot"
)


def published_rows() -> dict[str, dict[str, Any]]:
    """The paper's accuracies by the names of the rows."""
    text = (files("unicorn_maml") / "reporting" / "published.json").read_text(encoding="utf-8")
    rows: dict[str, dict[str, Any]] = json.loads(text)
    return rows


@dataclass(frozen=True)
class Row:
    """What the name of a row says."""

    trained_on: str
    tested_on: str
    backbone: str
    method: str  # maml, maml5steps or unicorn
    shot: int

    @property
    def recipe(self) -> str:
        """The name of the recipe of its network; those of 5 shots are tested with more, too."""
        return f"{self.trained_on}-{self.backbone}-{self.method}-{min(self.shot, 5)}shot"


def row_named(name: str) -> Row:
    """Read the name of a row of the paper's tables."""
    if name not in published_rows():
        raise UsageError(
            f"{name!r} is no row of the paper's tables; choose one of "
            f"{', '.join(published_rows())}."
        )
    parts = _ROW.fullmatch(name)
    assert parts is not None, name
    return Row(
        parts["trained_on"],
        parts["tested_on"] or parts["trained_on"],
        parts["backbone"],
        parts["method"],
        int(parts["shot"]),
    )


def add_result(file: Path, row: str, folder: Path) -> Path:
    """Put a small copy of what `evaluate --json` or `compare --json` wrote among the results."""
    result = read_object(file)
    pair = [result.get("first"), result.get("second")]
    try:
        if all(isinstance(each, dict) for each in pair):
            if not re.fullmatch(r"\w[\w.-]*", row):
                raise UsageError(f"A difference is named in letters, digits and -, not {row!r}.")
            kept = {
                **{name: _small(result[name]) for name in ("first", "second")},
                "difference": _number(result["difference"]),
                "difference_ci95": _number(result["difference_ci95"]),
            }
            policy = result["first"]["normalization"]
            name = f"difference-{row}"
        else:
            kept = _small(result)
            policy, name = result["normalization"], row
            _check_row(row, result)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, UsageError):
            raise
        raise FileError(
            f"{file} is no result; make one with `unicorn-maml evaluate --json` or "
            "`compare --json`."
        ) from error
    out = folder / f"{name}.{policy}.json"
    write_json(out, kept)
    return out


def _check_row(row: str, result: dict[str, Any]) -> None:
    """Refuse a result of something else than its row says."""
    named = row_named(row)
    wanted = {
        "data_set": named.tested_on,
        "backbone": named.backbone,
        "method": named.method.removesuffix("5steps"),
        "way": 5,
        "shot": named.shot,
        "split": "novel",
        "head": "shared" if named.method == "unicorn" else "per-slot",
        "adapt": "all",
        "remedy": None,
        "drop": False,
        "leak": False,
    }
    if named.method == "maml5steps":
        wanted["inner_steps"] = 5
    for name, value in wanted.items():
        if result.get(name) != value:
            raise UsageError(
                f"The row {row} is of {name} {value}, but the result is of {result.get(name)}; "
                "name the row that it is of."
            )


def _small(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what is long or of one machine only, with the command that makes it."""
    _check_figures(result)
    small = {name: value for name, value in result.items() if name not in _NOT_KEPT}
    training = small["training"].items()
    small["training"] = {k: v for k, v in training if k not in _NOT_KEPT_OF_TRAINING}
    for values in (small, small["training"]):  # no folders of one machine
        for name in ("store", "checkpoint", "init", "teacher"):
            if values.get(name):
                values[name] = name_of_run(values[name])
    options = ["split", "tasks", "way", "shot", "query", "inner_steps", "inner_lr", "adapt"]
    options += ["normalization", "head", "remedy", "precision", "seed"]
    if small["adapt"] == "nothing":  # nearest centroid has no inner loop
        options = [name for name in options if name not in _OF_THE_INNER_LOOP]
    words = [
        f"{option_name(name)} {small[name]}" for name in options if small.get(name) is not None
    ]
    words += [f"--{name}" for name in ("drop", "leak", "compile") if small.get(name)]
    small["command"] = f"unicorn-maml evaluate {small['checkpoint']} --store STORE " + " ".join(
        words
    )
    return small


def _check_figures(result: dict[str, Any]) -> None:
    """ValueError, TypeError or KeyError for what a table cannot be made of."""
    if not result.get("diverged"):
        _number(result["accuracy"])
        _number(result["ci95"])
    training = result["training"]
    for count in (result["tasks"], training["kept_epoch"], training["tasks_per_epoch"]):
        if type(count) is not int:
            raise TypeError(count)
    if result["normalization"] not in _POLICIES:
        raise ValueError(result["normalization"])


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise TypeError(value)
    return float(value)


def results_table(folder: Path) -> str:
    """Markdown: the paper's accuracies and ours, row by row, and the paired differences.

    Bold is the policy that a model was meta-trained under, which is compared with the paper.
    """
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}; name that of the results with --folder.")
    lines = [
        "| row | paper | meta-trained on | "
        + " | ".join(f"`{policy}`" for policy in _POLICIES)
        + " | ours - paper |",
        "|---" * (len(_POLICIES) + 4) + "|",
    ]
    for row, paper in published_rows().items():
        found = {policy: _read(folder / f"{row}.{policy}.json") for policy in _POLICIES}
        cells = [_figure(paper["accuracy"], paper["ci95"]), _meta_training(found)]
        cells += [_cell(each) for each in found.values()]
        compared = next((each for each in found.values() if each and _as_trained(each)), None)
        cells += [_beside(compared, paper["accuracy"])]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    differences = sorted(folder.glob("difference-*.json"))
    if differences:
        lines += ["", "| same tasks | first minus second, points |", "|---|---|"]
    for file in differences:
        result = read_object(file)
        try:
            figure = _figure(_number(result["difference"]), _number(result["difference_ci95"]))
        except (KeyError, TypeError) as error:
            raise _not_kept(file) from error
        name = file.name.removeprefix("difference-").removesuffix(".json")
        lines.append(f"| {name} | {figure} |")
    return "\n".join(lines)


def _read(file: Path) -> dict[str, Any] | None:
    if not file.is_file():
        return None
    result = read_object(file)
    try:
        _check_figures(result)
        _as_trained(result)
    except (KeyError, TypeError, ValueError) as error:
        raise _not_kept(file) from error
    return result


def _not_kept(file: Path) -> FileError:
    return FileError(f"{file} is no result that `unicorn-maml results add` made; take it away.")


def _as_trained(result: dict[str, Any]) -> bool:
    same: bool = result["normalization"] == result["training"]["normalization"]
    return same


def _meta_training(results: dict[str, dict[str, Any] | None]) -> str:
    """The tasks that made the model of a row, up to its best epoch; the results are of one run."""
    runs = [each["training"] for each in results.values() if each]
    return f"{runs[0]['kept_epoch'] * runs[0]['tasks_per_epoch']:,} tasks" if runs else ""


def _beside(result: dict[str, Any] | None, published: float) -> str:
    if result is None:
        return "not run yet"
    return "" if "diverged" in result else f"{result['accuracy'] - published:+z.2f}"


def _cell(result: dict[str, Any] | None) -> str:
    if result is None:
        return ""
    if "diverged" in result:
        return "diverges"
    figure = _figure(result["accuracy"], result["ci95"])
    if result["tasks"] != _PAPERS_TASKS:
        figure += f" ({result['tasks']:,} tasks)"
    return f"**{figure}**" if _as_trained(result) else figure


def _figure(value: float, ci95: float | None) -> str:
    return f"{value:.2f}" if ci95 is None else f"{value:z.2f} ± {ci95:.2f}"


def update_document(document: Path, table: str) -> None:
    """Put the table between its two marks in a document."""
    try:
        text = document.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{document} is no text; name a document with the table's marks."
        ) from error
    if text.count(_BEGIN) != 1 or text.count(_END) != 1 or text.index(_BEGIN) > text.index(_END):
        raise FileError(f"{document} lacks the lines {_BEGIN!r} and {_END!r} for the table.")
    before, rest = text.split(_BEGIN)
    after = rest.split(_END)[1]
    write_text(document, f"{before}{_BEGIN}\n\n{table}\n\n{_END}{after}")
