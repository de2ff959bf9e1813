"""`study`, `report` and `evaluate --remedy` as a user meets them."""

import errno
import json

import pytest

from sentences import error_sentence
from unicorn_maml.settings import STUDIES


@pytest.mark.parametrize("name", ["", *[each.study for each in STUDIES]])
def test_every_study_has_help(cli, name):
    code, out, _ = cli(*f"study {name}".split(), "--help")
    assert code == 0
    assert "Usage" in out
    assert f"Example: unicorn-maml study {name}" in out


def test_a_study_writes_numbers_and_figures_that_a_report_shows(cli, trained, tmp_path):
    out, file = tmp_path / "study", tmp_path / "copy.json"
    small = "--tasks 3 --query 3 --device cpu"
    both = (trained["maml"], trained["unicorn"])
    code, printed, err = cli("study permutations", *both, small, "--out", out, "--json", file)
    assert code == 0, err
    assert "best minus worst of 6 permutations" in printed
    assert sorted(path.name for path in out.iterdir()) == [
        "measured.json",
        "permutations.png",
        "permutations.svg",
        "study.json",
    ]
    result = json.loads((out / "study.json").read_text())
    assert json.loads(file.read_text()) == result
    assert result["command"].endswith(f"--tasks 3 --query 3 --device cpu --out {out}")
    page = tmp_path / "report.html"
    code, printed, err = cli("report", out, trained["maml"], "--out", page)
    assert code == 0, err
    assert str(page) in printed
    assert result["conclusion"] in page.read_text()
    code, _, err = cli("study permutations", trained["maml"], small, "--out", out)
    assert code == 2
    assert "already holds a finished study" in error_sentence(err)
    code, _, err = cli("study permutations", trained["maml"], small, "--out", trained["maml"])
    assert code == 2
    assert "already holds a training run" in error_sentence(err)


def test_a_finished_heat_map_gets_a_wider_grid_and_keeps_its_cells(cli, trained, tmp_path):
    out, small = tmp_path / "map", "--steps 1 --tasks 2 --query 3 --device cpu --budget 0.01 --out"
    cell = out / "cells" / "1-steps-rate-0.01" / "test.json"
    assert cli("study heatmap", trained["maml"], small, out, "--rates 0.01")[0] == 0
    first = cell.read_bytes(), cell.stat().st_mtime_ns
    code, _, err = cli("study heatmap", trained["maml"], small, out, "--rates 0.01,0.1")
    assert code == 0, err
    assert (cell.read_bytes(), cell.stat().st_mtime_ns) == first
    assert len(json.loads((out / "study.json").read_text())["data"]["cells"]) == 2
    code, _, err = cli("study slots", trained["maml"], "--tasks 2 --query 3 --out", out)
    assert code == 2
    assert "already holds a finished study" in error_sentence(err)
    code, _, err = cli("study heatmap", trained["maml"], small, trained["maml"])
    assert code == 2
    assert "already holds a training run" in error_sentence(err)


def test_a_figure_that_cannot_be_drawn_costs_no_numbers_and_is_drawn_by_the_next_call(
    cli, trained, tmp_path, monkeypatch
):
    def fail(_result):
        raise OSError(errno.ENOSPC, "no room for the figure")

    out, small = tmp_path / "study", "--tasks 2 --query 3 --device cpu --out"
    with monkeypatch.context() as broken:
        broken.setattr("unicorn_maml.reporting.figures.draw.draw_study", fail)
        code, printed, err = cli("study slots", trained["maml"], small, out)
    assert code == 1
    assert "No space is left on the disk" in error_sentence(err)
    assert "norm of the head's meta-gradient" in printed
    assert [path.name for path in out.iterdir()] == ["study.json"]
    code, _, err = cli("report", out, "--out", tmp_path / "report.html")
    assert code == 0, err
    code, _, err = cli("study slots", trained["unicorn"], small, out)
    assert code == 2, "another study is not taken for the one that lacks its figure"
    measured = (out / "study.json").read_bytes()
    monkeypatch.setattr("unicorn_maml.studies.slots.run", fail)  # nothing is measured again
    code, again, err = cli("study slots", trained["maml"], small, out)
    assert code == 0, err
    assert again.startswith(printed)
    assert (out / "study.json").read_bytes() == measured
    assert {"slots.png", "slots.svg"} < {path.name for path in out.iterdir()}


def test_a_full_disk_costs_no_printed_numbers_of_a_study(cli, trained, tmp_path, monkeypatch):
    def full(*_arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("unicorn_maml.evaluation.unfinished.write_json", full)
    out = tmp_path / "study"
    code, printed, err = cli("study shots", trained["maml"], "--shots 1 --query 3 --out", out)
    assert code == 1
    assert "No space is left on the disk" in error_sentence(err)
    assert "1-shot (%)" in printed


def test_a_page_does_not_take_the_place_of_a_study(cli, tmp_path):
    study = tmp_path / "chance"
    assert cli("study chance --out", study)[0] == 0
    before = (study / "study.json").read_bytes()
    code, _, err = cli("report", study, "--out", study / "study.json")
    assert code == 2
    assert "is no name for a page; take one that ends in .html" in error_sentence(err)
    assert (study / "study.json").read_bytes() == before


def test_evaluate_takes_a_remedy(cli, trained, tmp_path):
    file = tmp_path / "result.json"
    asked = "--tasks 3 --query 3 --remedy rotations --device cpu --json"
    code, out, err = cli("evaluate", trained["maml"], asked, file)
    assert code == 0, err
    assert "rotations" in out
    assert json.loads(file.read_text())["remedy"] == "rotations"


WRONG = {
    "study selection {unicorn} --query 3": "one vector for all slots",
    "study permutations {unicorn} --way 6 --query 3": "--sample 120",
    "study permutations {maml} --sample 7 --query 3": "fewer than --sample 7",
    "study permutations {maml} --query 1": "--query must be at least 2",
    "study permutations {maml} --store glyphs": "choose a store that fits",
    "study permutations {maml} --resume --query 3": "nothing to resume",
    "study permutations {maml} --query 3 --leak": "leave --leak out",
    "study slots {maml} --query 3 --leak": "leave --leak out",
    "study steps nowhere": "There is no checkpoint in nowhere",
    "study transfer {maml}": "--to STORE",
    "study shots {maml} --shots 1,x": "--shots takes positive numbers",
    "study shots {maml} --shots 0.5": "--shots takes whole numbers",
    "study shots {maml} --shots 50": "ask for fewer",
    "study chance --way 1": "--way must be at least 2",
    "study heatmap nowhere": "There is no run folder or configuration nowhere",
    "study heatmap {maml} --budget 0": "--budget must be above 0 and at most 1",
    "study heatmap {maml} --seed -1": "--seed must be at least 0",
    "study heatmap {maml} --store nowhere": "There is no store folder 'nowhere'",
    "evaluate {unicorn} --remedy ensemble": "every permutation gives the same answer",
    "report nowhere": "There is no folder nowhere",
    "report {folder}": "neither a study nor a training run",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_usage_is_one_sentence_and_exit_code_2(cli, trained, tmp_path, monkeypatch, wrong):
    monkeypatch.chdir(tmp_path)
    code, _, err = cli(wrong.format(**trained, folder=tmp_path))
    assert code == 2
    assert WRONG[wrong] in error_sentence(err)
