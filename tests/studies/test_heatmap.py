"""Heat maps: options beside the recipe, cells that are taken up, workers, what is concluded."""

import json
import subprocess
import sys

import pytest
import yaml

from unicorn_maml.errors import UsageError
from unicorn_maml.settings import HeatmapSettings, PretrainSettings
from unicorn_maml.studies import heatmap
from unicorn_maml.training.pretrain import pretrain

# As the shipped recipes: written for a GPU, without a store.
RECIPE = {"method": "maml", "width": 8, "way": 3, "query": 3, "epochs": 1, "tasks_per_epoch": 2}
RECIPE |= {"validation_tasks": 2, "precision": "bfloat16", "compile": True, "device": "cuda"}
GRID = {"steps": "1", "rates": "0.01", "tasks": 2, "query": 3, "device": "cpu"}


@pytest.fixture
def recipe(tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(RECIPE))
    return file


def test_store_seed_and_precision_override_the_recipe(recipe, small_store, tmp_path):
    chosen = {"store": str(small_store.folder), "seed": 3, "precision": "float32"}
    result = heatmap.run(HeatmapSettings(recipe=recipe, out=tmp_path / "out", **GRID, **chosen))
    config = tmp_path / "out" / "cells" / "1-steps-rate-0.01" / "config.json"
    cell = json.loads(config.read_text())
    assert {name: cell[name] for name in chosen} == chosen
    assert (cell["way"], cell["device"], cell["compile"]) == (3, "cpu", False)
    assert result["tests"][0]["store"] == chosen["store"]
    assert "--seed 3 --precision float32" in result["command"]


def test_what_is_left_open_is_as_in_the_recipe(recipe, small_store, tmp_path):
    whole = {**RECIPE, "store": str(small_store.folder), "seed": 5}
    recipe.write_text(yaml.safe_dump(whole))
    result = heatmap.run(HeatmapSettings(recipe=recipe, out=tmp_path / "out", **GRID))
    config = tmp_path / "out" / "cells" / "1-steps-rate-0.01" / "config.json"
    cell = json.loads(config.read_text())
    for name in ("store", "seed", "precision"):
        assert cell[name] == result["tests"][0][name] == whole[name]


def test_cells_of_one_map_start_from_the_same_backbone(recipe, small_store, tmp_path):
    common = {"store": str(small_store.folder), "width": 8, "epochs": 1, "crop": "none"}
    for seed in (0, 1):
        pretrain(PretrainSettings(**common, seed=seed, out=tmp_path / f"backbone-{seed}"))
    (tmp_path / "backbone-0").rename(tmp_path / "backbone")
    whole = {**RECIPE, "store": str(small_store.folder), "init": str(tmp_path / "backbone")}
    recipe.write_text(yaml.safe_dump(whole))
    settings = HeatmapSettings(recipe=recipe, out=tmp_path / "out", **GRID)
    first = heatmap.run(settings)
    assert heatmap.run(settings)["data"] == first["data"]
    (tmp_path / "backbone").rename(tmp_path / "backbone-0")
    (tmp_path / "backbone-1").rename(tmp_path / "backbone")
    with pytest.raises(UsageError, match="was trained from another backbone"):
        heatmap.run(settings)


def test_compiling_is_asked_for_by_the_option(recipe, small_store, tmp_path):
    asked = {**GRID, "store": str(small_store.folder), "compile": True}
    with pytest.raises(UsageError, match="--compile needs a GPU"):
        heatmap.run(HeatmapSettings(recipe=recipe, out=tmp_path / "out", **asked))


def test_a_cell_whose_result_is_damaged_is_tested_again(recipe, small_store, tmp_path):
    settings = HeatmapSettings(
        recipe=recipe, store=str(small_store.folder), out=tmp_path / "out", **GRID
    )
    first = heatmap.run(settings)
    file = tmp_path / "out" / "cells" / "1-steps-rate-0.01" / "test.json"
    kept = file.read_text()
    file.write_text("{}")
    again = heatmap.run(settings)
    assert again["data"]["best"]["accuracy"] == first["data"]["best"]["accuracy"]
    assert json.loads(file.read_text())["asked"] == json.loads(kept)["asked"]


def test_a_shorter_training_names_its_share_of_the_epochs(recipe, small_store, tmp_path):
    recipe.write_text(yaml.safe_dump({**RECIPE, "epochs": 3}))
    settings = HeatmapSettings(
        recipe=recipe, store=str(small_store.folder), out=tmp_path / "out", budget=0.01, **GRID
    )
    assert "for each cell, 33.3% of the recipe's epochs" in heatmap.run(settings)["conclusion"]


def test_workers_end_with_a_study_that_is_killed():
    worker = (
        "import time; from unicorn_maml.studies.heatmap import _begin; _begin(1);"
        "print('up', flush=True); time.sleep(60); print('left alone', flush=True)"
    )
    study = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {worker!r}])"
    process = subprocess.Popen([sys.executable, "-c", study], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.kill()
    assert process.stdout.read() == "", "all that hold the pipe are gone before anything is said"


@pytest.mark.parametrize("best", [1, 5, 6, 20])
def test_more_than_five_steps_are_set_against_the_best_of_at_most_five(
    recipe, tmp_path, monkeypatch, best
):
    accuracies = {1: 50.0, 2: 51.0, 5: 52.0, 6: 53.0, 20: 54.0}
    cells = [
        {"inner_steps": steps, "inner_lr": 0.1, "accuracy": accuracy, "ci95": 0.5, "test": {}}
        | {"validation_accuracy": 90.0 if steps == best else accuracy}
        for steps, accuracy in accuracies.items()
    ]
    monkeypatch.setattr(heatmap, "_run_all", lambda *_: cells)
    asked = {**GRID, "steps": "1,2,5,6,20", "rates": "0.1", "tasks": 40}
    result = heatmap.run(HeatmapSettings(recipe=recipe, out=tmp_path / "out", **asked))
    few = " (52.00 ± 0.50% with the best of at most 5 steps)" if best > 5 else ""
    assert result["conclusion"] == (
        f"MAML, ConvNet-4, 3-way 1-shot: best with {best} inner steps at 0.1, "
        f"{accuracies[best]:.2f} ± 0.50% on 40 novel tasks{few}, chosen by validation accuracy; "
        "1 epochs of 2 tasks for each cell."
    )
