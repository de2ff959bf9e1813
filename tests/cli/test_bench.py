"""`bench` as a user meets it. What it measures depends on the machine: no time is judged."""

import json

import pytest
import torch

from unicorn_maml.benchmarking import speed
from unicorn_maml.benchmarking.rows import Row, choose_rows
from unicorn_maml.settings import BenchSettings

TINY = "--size 16 --channels 1 --width 4 --inner-steps 2 --tasks 3 --repeats 1 --device cpu"
KINDS = ("adaptation", "evaluation", "meta_training")


@pytest.mark.parametrize("options", ["", "--method maml --precision bfloat16 --task-batch 5"])
def test_one_row_is_measured_and_written(cli, tmp_path, options):
    file = tmp_path / "speed.json"
    code, out, err = cli("bench", TINY, *options.split(), "--json", file)
    assert code == 0, err
    for words in ("adaptation", "evaluation", "meta-training", "ConvNet-4 (4)", "per update"):
        assert words in out
    result = json.loads(file.read_text())
    assert result["device"] in out
    assert result["versions"]["torch"] in out
    assert result["settings"]["precision"] in out
    assert result["compiled"] is False
    assert result["matrix_teraflops"] > 0
    (row,) = result["rows"]
    assert (row["size"], row["shot"], row["inner_steps"]) == (16, 1, 2)
    # Logits of untrained networks are nearly equal, so that rounding to bfloat16 may decide.
    least = 0.9 if result["settings"]["precision"] == "float32" else 0.5
    assert least < row["same_predictions"] <= 1
    for kind in KINDS:
        figures = row[kind]
        assert all(value > 0 for value in figures.values())
        assert figures["times_plain_loop"] == pytest.approx(
            figures["tasks_per_second"] / figures["plain_loop_tasks_per_second"]
        )
        assert figures["teraflops"] == pytest.approx(
            figures["tasks_per_second"] * row["flops_per_task"][kind] / 1e12
        )
        assert figures["share_of_matrix_rate"] == pytest.approx(
            figures["teraflops"] / result["matrix_teraflops"]
        )


def test_without_options_of_a_row_the_rows_are_those_of_the_device():
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    paper = choose_rows(BenchSettings(), gpu)
    assert [
        (row.method, row.shot, row.inner_steps) for row in paper if row.backbone == "resnet12"
    ] == [
        ("maml", 1, 15),
        ("maml", 5, 20),
        ("unicorn", 1, 5),
        ("unicorn", 5, 20),
    ]
    assert {row.backbone for row in choose_rows(BenchSettings(), cpu)} == {"convnet4"}
    for device in (gpu, cpu):
        own = choose_rows(BenchSettings(shot=5), device)
        assert own == [Row(backbone="convnet4", method="unicorn", shot=5, inner_steps=5)]


WRONG = {
    "--device gpu": "Unknown device 'gpu'",
    "--device cuda:99": "is not there; choose --device cpu",
    "--size 8": "needs images of at least 16x16 pixels",
    "--repeats 0": "--repeats must be at least 1",
    "--tasks 0": "--tasks must be at least 1",
    "--task-batch 0": "--task-batch must be at least 1",
    "--normalization support": "support",
    "--backbone resnet18": "resnet18",
    "--json .": "Cannot write",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_usage_is_one_sentence_and_exit_code_2(cli, wrong):
    code, _, err = cli("bench", TINY, wrong)
    assert code == 2
    assert "Traceback" not in err
    assert WRONG[wrong] in err


def test_too_large_images_are_one_sentence(cli):
    code, _, err = cli("bench", TINY, "--size 1000000")
    assert code == 1
    assert "Traceback" not in err
    assert "Not enough memory" in err


def test_stopping_is_one_sentence(cli, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(speed, "measure_in_turn", stop)
    code, _, err = cli("bench", TINY, "--json", tmp_path / "speed.json")
    assert code == 130
    assert "Traceback" not in err
    assert "Stopped; nothing was written." in err
    assert list(tmp_path.iterdir()) == []
