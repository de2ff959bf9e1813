"""Results that are kept, and the table that is made of them."""

import json
import re
from pathlib import Path

import pytest

from unicorn_maml.errors import FileError, UsageError
from unicorn_maml.reporting.results import (
    _check_row,
    add_result,
    published_rows,
    results_table,
    row_named,
    update_document,
)
from unicorn_maml.training.checkpoint import load_checkpoint, shipped_checkpoints

ROOT = Path(__file__).parents[2]
ROW = "miniimagenet-resnet12-unicorn-1shot"


def result(accuracy: float, policy: str = "mixed") -> dict:
    return {
        "accuracy": accuracy,
        "ci95": 0.25,
        "tasks": 10_000 if policy == "mixed" else 10,
        "way": 5,
        "shot": 1,
        "query": 15,
        "inner_steps": 5,
        "inner_lr": 0.1,
        "adapt": "all",
        "normalization": policy,
        "precision": "bfloat16",
        "compile": True,
        "seed": 0,
        "split": "novel",
        "store": "/somewhere/mini",
        "checkpoint": "/somewhere/runs/unicorn/best",
        "remedy": None,
        "drop": False,
        "leak": False,
        "head": "shared",
        "data_set": "miniimagenet",
        "backbone": "resnet12",
        "method": "unicorn",
        "training": {
            "store": "/somewhere/mini",
            "out": "/somewhere/runs/unicorn",
            "init": "/somewhere/pretrained",
            "normalization": "mixed",
            "epochs": 100,
            "kept_epoch": 40,
            "tasks_per_epoch": 100,
        },
        "per_task": [1.0] * 10,
    }


def write(folder: Path, content: object) -> Path:
    file = folder / "result.json"
    file.write_text(json.dumps(content))
    return file


def test_a_kept_result_is_small_names_no_folder_and_has_its_command(tmp_path):
    out = add_result(write(tmp_path, result(65.5)), ROW, tmp_path / "results")
    assert out.name == f"{ROW}.mixed.json"
    text = out.read_text()
    assert "per_task" not in text
    assert "/somewhere" not in text
    kept = json.loads(text)
    assert kept["training"]["init"] == "pretrained"
    assert kept["training"]["kept_epoch"] == 40
    command = kept["command"]
    assert command.startswith("unicorn-maml evaluate unicorn --store STORE")
    assert "--inner-steps 5 --inner-lr 0.1" in command
    assert command.endswith("--compile")
    assert "--remedy" not in command
    with pytest.raises(UsageError, match="of remedy None, but the result is of ensemble"):
        add_result(write(tmp_path, result(65.5) | {"remedy": "ensemble"}), ROW, tmp_path)


def test_the_commands_of_a_pair_repeat_remedies_and_leave_out_what_was_not_there(tmp_path):
    centroid = result(60.0) | {"adapt": "nothing", "inner_lr": None, "head": "cosine"}
    both = {"first": result(65.5) | {"remedy": "ensemble"}, "second": centroid}
    both |= {"difference": 5.5, "difference_ci95": 0.2}
    kept = json.loads(add_result(write(tmp_path, both), "x", tmp_path).read_text())
    assert "--remedy ensemble" in kept["first"]["command"]
    assert "--head cosine" in kept["second"]["command"]
    for option in ("--inner-steps", "--inner-lr", "--adapt", "--normalization", "None"):
        assert option not in kept["second"]["command"]


def test_the_table_sets_ours_beside_the_papers_and_says_what_is_missing(tmp_path):
    folder = tmp_path / "results"
    for accuracy, policy in ((65.5, "mixed"), (66.25, "batch")):
        add_result(write(tmp_path, result(accuracy, policy)), ROW, folder)
    both = {"first": result(65.5), "second": result(64.5)}
    both |= {"difference": 1.0, "difference_ci95": 0.2}
    add_result(write(tmp_path, both), "miniimagenet-resnet12-1shot", folder)
    lines = results_table(folder).splitlines()
    line = next(line for line in lines if ROW in line)
    assert line == (
        f"| {ROW} | 65.17 ± 0.20 | 4,000 tasks | 66.25 ± 0.25 (10 tasks) |  | "
        "**65.50 ± 0.25** |  | +0.33 |"
    )
    assert sum("not run yet" in line for line in lines) == len(published_rows()) - 1
    assert lines[-1] == "| miniimagenet-resnet12-1shot.mixed | 1.00 ± 0.20 |"


def test_an_unknown_row_and_a_file_that_is_no_result_are_refused(tmp_path):
    with pytest.raises(UsageError, match="no row of the paper's tables"):
        add_result(write(tmp_path, result(1.0)), "miniimagenet", tmp_path)
    with pytest.raises(FileError, match="is no result"):
        add_result(write(tmp_path, {"accuracy": 1.0}), ROW, tmp_path)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("miniimagenet-resnet12-unicorn-5shot", "of shot 5, but the result is of 1"),
        ("miniimagenet-resnet12-maml-1shot", "of method maml, but the result is of unicorn"),
        ("miniimagenet-convnet4-unicorn-1shot", "of backbone convnet4"),
        ("miniimagenet-to-cub-resnet12-unicorn-1shot", "of data_set cub"),
    ],
)
def test_a_result_of_something_else_than_its_row_is_refused(tmp_path, row, reason):
    with pytest.raises(UsageError, match=reason):
        add_result(write(tmp_path, result(65.5)), row, tmp_path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"head": "cosine"}, "of head shared, but the result is of cosine"),
        ({"adapt": "head"}, "of adapt all"),
        ({"leak": True}, "of leak False"),
        ({"drop": True}, "of drop False"),
    ],
)
def test_a_result_that_was_tested_otherwise_than_its_row_says_is_refused(tmp_path, change, reason):
    with pytest.raises(UsageError, match=reason):
        add_result(write(tmp_path, result(65.5) | change), ROW, tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"accuracy": "much"},
        {"accuracy": float("nan")},
        {"ci95": [1]},
        {"tasks": "many"},
        {"training": {**result(1.0)["training"], "kept_epoch": None}},
        {"normalization": "../../elsewhere"},
    ],
)
def test_figures_that_are_none_are_neither_kept_nor_shown(tmp_path, change):
    strange = result(65.5) | change
    with pytest.raises(FileError, match=r"is no result; make one|NaN is no number"):
        add_result(write(tmp_path, strange), ROW, tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
    (tmp_path / f"{ROW}.mixed.json").write_text(json.dumps(strange))
    with pytest.raises(FileError, match=r"is no result that|NaN is no number"):
        results_table(tmp_path)


def test_a_difference_is_kept_in_the_folder_whatever_its_name(tmp_path):
    both = {"first": result(65.5), "second": result(64.5)}
    both |= {"difference": 1.0, "difference_ci95": 0.2}
    with pytest.raises(UsageError, match="letters, digits"):
        add_result(write(tmp_path, both), "../../evil", tmp_path / "kept")
    with pytest.raises(FileError, match="Infinity is no number"):
        add_result(write(tmp_path, both | {"difference": float("inf")}), "x", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_a_table_of_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="There is no folder"):
        results_table(tmp_path / "nowhere")


@pytest.mark.parametrize("name", [f"{ROW}.mixed.json", "difference-x.json"])
def test_a_strange_file_among_the_results_is_named(tmp_path, name):
    (tmp_path / name).write_text("{}")
    with pytest.raises(FileError, match=f"{name} is no result that"):
        results_table(tmp_path)


def test_a_document_that_is_no_text_and_a_result_that_is_not_there_are_refused(tmp_path):
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff")
    with pytest.raises(UsageError, match="is no text"):
        update_document(tmp_path / "picture.png", "table")
    with pytest.raises(UsageError, match=r"Cannot read .*nothing.json \(No such file"):
        add_result(tmp_path / "nothing.json", ROW, tmp_path)


def test_every_row_can_be_read_by_its_name():
    for row in published_rows():
        with pytest.raises(UsageError, match="of split novel"):
            _check_row(row, _as_named(row) | {"split": "base"})
        _check_row(row, _as_named(row))


def test_rows_of_more_shots_and_of_another_data_set_are_tests_of_networks_that_have_a_recipe():
    more, elsewhere = "miniimagenet-resnet12-maml-50shot", "miniimagenet-to-cub-resnet12-maml-1shot"
    assert row_named(more).recipe == "miniimagenet-resnet12-maml-5shot"
    assert row_named(elsewhere).recipe == "miniimagenet-resnet12-maml-1shot"
    assert row_named(elsewhere).tested_on == "cub"
    recipes = {file.stem for file in (ROOT / "configs" / "paper").glob("*.yaml")}
    assert {row_named(row).recipe for row in published_rows()} == recipes


def _as_named(row: str) -> dict:
    *data, backbone, method, shot = row.split("-")
    return {
        "data_set": data[-1],
        "backbone": backbone,
        "method": method.removesuffix("5steps"),
        "way": 5,
        "shot": int(shot.removesuffix("shot")),
        "split": "novel",
        "head": "shared" if method == "unicorn" else "per-slot",
        "adapt": "all",
        "drop": False,
        "leak": False,
        "inner_steps": 5,
    }


def test_a_table_replaces_the_one_between_the_marks_and_nothing_else(tmp_path):
    document = tmp_path / "document.md"
    begin, end = re.findall(r"<!--.*?-->", (ROOT / "docs" / "results.md").read_text())
    document.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    update_document(document, "new")
    update_document(document, "new")
    assert document.read_text() == f"before\n{begin}\n\nnew\n\n{end}\nafter\n"
    document.write_text("no marks")
    with pytest.raises(FileError, match="lacks the lines"):
        update_document(document, "new")


def test_the_document_holds_the_table_of_the_results_that_are_kept():
    assert results_table(ROOT / "results") in (ROOT / "docs" / "results.md").read_text()


def kept_results() -> list[dict]:
    """All that are in the project, and both of every pair."""
    kept = [json.loads(file.read_text()) for file in (ROOT / "results").glob("*.json")]
    return [
        each
        for one in kept
        for each in ([one["first"], one["second"]] if "first" in one else [one])
    ]


def test_every_kept_result_has_what_is_needed_to_get_it_again():
    for each in kept_results():
        assert "diverged" in each or {"accuracy", "ci95"} <= each.keys()
        assert {"tasks", "seed", "device", "versions", "training", "command"} <= each.keys()
        assert "per_task" not in each


def test_a_kept_result_that_names_a_shipped_checkpoint_is_of_its_weights():
    shipped = {name: load_checkpoint(name).weights_sha256 for name in shipped_checkpoints()}
    found = [each for each in kept_results() if each["checkpoint"] in shipped]
    assert found
    for each in found:
        assert each["weights_sha256"] == shipped[each["checkpoint"]], each["command"]
