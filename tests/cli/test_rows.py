"""`results run`: rows of the paper's tables from one command, which can be stopped and repeated."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from conftest import make_store
from unicorn_maml.errors import DivergedError
from unicorn_maml.evaluation import meta_test
from unicorn_maml.evaluation.unfinished import unfinished_file
from unicorn_maml.training import meta_train as training

ROWS = {f"miniimagenet-convnet4-{method}-1shot" for method in ("maml5steps", "maml", "unicorn")}
RECIPE = """
backbone: convnet4
width: 8
query: 3
inner_lr: 0.1
epochs: 2
tasks_per_epoch: 4
task_batch: 2
validation_tasks: 2
compile: true
"""


@pytest.fixture
def place(tmp_path) -> Path:
    """A folder with a store and with recipes for three rows."""
    make_store(tmp_path / "stores" / "miniimagenet", smallest=16, source="miniimagenet")
    (tmp_path / "recipes").mkdir()
    for row in ROWS:
        method = "unicorn" if "unicorn" in row else "maml"
        steps = 5 if "5steps" in row else 2
        recipe = f"{RECIPE}method: {method}\ninner_steps: {steps}\n"
        (tmp_path / "recipes" / f"{row}.yaml").write_text(recipe)
    return tmp_path


@pytest.fixture
def results_run(cli, place):
    """Run the command in that folder."""
    names = {"stores": "stores", "recipes": "recipes", "out": "runs", "folder": "results"}
    options = " ".join(f"--{option} {place / name}" for option, name in names.items())

    def run(*words: object) -> tuple[int, str, str]:
        return cli("results run", *words, options, "--device cpu")

    return run


def kept(place: Path) -> dict[str, dict]:
    return {file.name: json.loads(file.read_text()) for file in (place / "results").iterdir()}


def test_rows_are_trained_tested_under_every_policy_and_paired_on_the_same_tasks(
    results_run, place, cli
):
    code, out, _ = results_run("miniimagenet-convnet4-*-1shot --tasks 3 --policies mixed,batch")
    assert code == 0
    found = kept(place)
    one = "miniimagenet-convnet4-1shot-unicorn-minus-maml"
    steps = ("maml-minus-maml5steps", "unicorn-minus-maml5steps")
    policies = {f"difference-{row}-batch-minus-mixed.batch.json" for row in ROWS}
    assert found.keys() == {
        f"{row}.{policy}.json" for row in ROWS for policy in ("mixed", "batch")
    } | (
        policies
        | {f"difference-{one}.mixed.json"}
        | {f"difference-miniimagenet-convnet4-1shot-{each}.mixed.json" for each in steps}
    )
    for row in ROWS:
        result = found[f"{row}.mixed.json"]
        assert f"{row}, mixed: {result['accuracy']:.2f} ± {result['ci95']:.2f} %, 3 tasks" in out
    per_task = {
        method: json.loads(
            (place / "runs" / f"miniimagenet-convnet4-{method}-1shot.mixed.json").read_text()
        )["per_task"]
        for method in ("unicorn", "maml")
    }
    difference = np.mean(np.subtract(per_task["unicorn"], per_task["maml"]))
    assert found[f"difference-{one}.mixed.json"]["difference"] == pytest.approx(difference)
    code, out, _ = cli("results table --folder", place / "results")
    assert code == 0
    assert out.count("(3 tasks)") == 6


def test_what_is_finished_is_done_again_only_for_more_tasks_or_on_other_images(
    results_run, place, monkeypatch
):
    [row] = [row for row in ROWS if "unicorn" in row]
    assert results_run(row, "--tasks 3")[0] == 0
    before = kept(place)

    def fail(*_arguments, **_options):
        raise AssertionError("it was done already")

    with monkeypatch.context() as patched:
        patched.setattr(meta_test.MetaTest, "run", fail)
        patched.setattr(training._Trainer, "_train_epoch", fail)
        assert results_run(row, "--tasks 2")[0] == 0
    assert kept(place) == before
    assert results_run(row, "--tasks 4")[0] == 0
    assert kept(place)[f"{row}.mixed.json"]["tasks"] == 4
    file = place / "runs" / f"{row}.mixed.json"
    of_other_images = json.loads(file.read_text()) | {"store_checksum": "0" * 64}
    file.write_text(json.dumps(of_other_images))
    assert results_run(row, "--tasks 4")[0] == 0
    assert kept(place)[f"{row}.mixed.json"]["store_checksum"] != "0" * 64


def test_a_row_that_was_stopped_goes_on_to_the_same_result(results_run, place, monkeypatch):
    [row] = [row for row in ROWS if "unicorn" in row]
    assert results_run(row, "--tasks 40")[0] == 0
    whole = kept(place)
    (place / "results" / f"{row}.mixed.json").unlink()
    (place / "runs" / f"{row}.mixed.json").unlink()
    scored = meta_test.iterate_accuracies

    def stop_soon(*arguments):
        yield next(iter(scored(*arguments)))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(meta_test, "iterate_accuracies", stop_soon)
        code, _, error = results_run(row, "--tasks 40")
    assert code == 130
    assert "the same command goes on" in error
    asked = []
    monkeypatch.setattr(
        meta_test, "iterate_accuracies", lambda *each: asked.append(each[2]) or scored(*each)
    )
    assert results_run(row, "--tasks 40")[0] == 0
    assert 0 < asked[0].start < 40
    assert kept(place).keys() == whole.keys()
    assert kept(place)[f"{row}.mixed.json"]["accuracy"] == whole[f"{row}.mixed.json"]["accuracy"]


def test_a_network_that_was_trained_anew_shares_nothing_with_the_one_before(
    results_run, place, monkeypatch
):
    [row] = [row for row in ROWS if "unicorn" in row]
    assert results_run(row, "--tasks 3 --policies mixed,batch")[0] == 0
    before = kept(place)
    scored = meta_test.iterate_accuracies

    def stop_soon(*arguments):
        yield next(iter(scored(*arguments)))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(meta_test, "iterate_accuracies", stop_soon)
        assert results_run(row, "--tasks 40")[0] == 130
    assert unfinished_file(place / "runs" / f"{row}.mixed.json").exists()
    shutil.rmtree(place / "runs" / row)
    recipe = place / "recipes" / f"{row}.yaml"
    recipe.write_text(recipe.read_text() + "seed: 1\n")
    assert results_run(row, "--tasks 3")[0] == 0
    assert {file.name for file in (place / "runs").glob("*.json*")} == {f"{row}.mixed.json"}
    after = kept(place)
    name = f"{row}.mixed.json"
    assert after.keys() == {name}, "a row is of one network"
    assert after[name]["weights_sha256"] != before[name]["weights_sha256"]
    assert after[name]["tasks"] == 3


def test_folders_that_are_named_otherwise_are_the_same_folders(
    results_run, place, cli, monkeypatch
):
    [row] = [row for row in ROWS if "unicorn" in row]
    assert results_run(row, "--tasks 3")[0] == 0
    before = kept(place)
    monkeypatch.setattr(meta_test.MetaTest, "run", None)  # must not be needed again
    monkeypatch.chdir(place)
    folders = "--stores stores --recipes recipes --out runs --folder results"
    assert cli("results run", row, folders, "--tasks 3 --device cpu")[0] == 0
    assert kept(place) == before


def test_a_store_that_was_made_anew_holds_up_no_row(results_run, place):
    """Rows are tested anew one after the other, and paired when both have been."""
    words = "miniimagenet-convnet4-maml-1shot miniimagenet-convnet4-unicorn-1shot --tasks 3"
    assert results_run(words)[0] == 0
    before = kept(place)
    for file in (place / "runs").glob("miniimagenet*.json"):
        of_other_images = json.loads(file.read_text()) | {"store_checksum": "0" * 64}
        file.write_text(json.dumps(of_other_images))
    assert results_run(words)[0] == 0
    after = kept(place)
    pair = "difference-miniimagenet-convnet4-1shot-unicorn-minus-maml.mixed.json"
    assert after[pair]["difference"] == before[pair]["difference"]
    sums = {after[pair][side]["store_checksum"] for side in ("first", "second")}
    assert sums == {before[pair]["first"]["store_checksum"]}


def test_a_store_of_another_kind_and_a_folder_that_is_a_file_are_told_first(results_run, place):
    row = "miniimagenet-convnet4-unicorn-1shot"
    (place / "results").write_text("")
    code, _, error = results_run(row, "--tasks 2")
    assert code == 2
    assert "Cannot write" in error
    (place / "results").unlink()
    shutil.rmtree(place / "stores" / "miniimagenet")
    make_store(place / "stores" / "miniimagenet", smallest=16, source="folder: birds")
    code, _, error = results_run(row, "--tasks 2")
    assert code == 2
    assert "is one of folder" in error
    assert not (place / "runs").exists()


def test_that_a_policy_diverges_is_a_result_and_is_found_only_once(
    results_run, place, cli, monkeypatch
):
    [row] = [row for row in ROWS if "unicorn" in row]
    scored = meta_test.iterate_accuracies

    def diverge_when_frozen(method, *others):
        if method.adaptation.normalization == "frozen":
            raise DivergedError("no longer finite")
        return scored(method, *others)

    monkeypatch.setattr(meta_test, "iterate_accuracies", diverge_when_frozen)
    words = row, "--tasks 2 --policies frozen,mixed"
    code, out, _ = results_run(*words)
    assert code == 0
    assert f"{row}, frozen: diverges, 2 tasks" in out
    found = kept(place)
    assert found.keys() == {f"{row}.mixed.json", f"{row}.frozen.json"}, "nothing to pair"
    assert found[f"{row}.frozen.json"]["diverged"] is True
    assert "accuracy" not in found[f"{row}.frozen.json"]
    assert not list((place / "runs").glob("*.part"))
    code, out, _ = cli("results table --folder", place / "results")
    assert code == 0
    assert next(line for line in out.splitlines() if row in line).count("diverges") == 1
    monkeypatch.setattr(meta_test.MetaTest, "run", None)  # must not be needed again
    assert results_run(*words)[0] == 0
    assert kept(place) == found


def test_a_backbone_that_is_missing_is_told_before_anything_is_trained(results_run, place):
    recipe = place / "recipes" / "miniimagenet-convnet4-unicorn-1shot.yaml"  # the last of the rows
    recipe.write_text(recipe.read_text() + "init: runs/not-pretrained\n")
    code, _, error = results_run("miniimagenet-convnet4-*-1shot --tasks 2")
    assert code == 2
    assert "not-pretrained" in error
    assert not (place / "runs").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("nothing-*", "no row of the paper's tables"),
        ("cub-resnet12-maml-1shot", "needs the store"),
        ("miniimagenet-convnet4-maml-5shot", "Cannot read the configuration"),
        ("miniimagenet-convnet4-maml-1shot --policies mixed,bath", "--policies has 'bath'"),
        ("miniimagenet-convnet4-maml-1shot --tasks 0", "--tasks"),
    ],
)
def test_what_cannot_be_made_is_refused_before_anything_is_trained(
    results_run, place, words, reason
):
    code, _, error = results_run(words)
    assert code == 2
    assert reason in error
    assert not (place / "runs").exists()
