"""The commands as a user meets them: what they print, write, refuse and survive."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import make_store
from sentences import error_sentence
from unicorn_maml.cli.commands import _stopped_run
from unicorn_maml.evaluation import meta_test
from unicorn_maml.evaluation.unfinished import unfinished_file
from unicorn_maml.training import checkpoint

ROOT = Path(__file__).parents[2]
SMALL = "--width 8 --way 3 --query 3 --inner-steps 2 --tasks-per-epoch 4 --task-batch 2"
SMALL += " --epochs 2 --validation-tasks 2 --device cpu"


@pytest.fixture
def store(small_store) -> str:
    return str(small_store.folder)


@pytest.fixture
def run(cli, store, tmp_path) -> Path:
    """A finished run."""
    folder = tmp_path / "run"
    assert cli("train --store", store, "--out", folder, SMALL)[0] == 0
    return folder


def test_models_lists_every_shipped_checkpoint_with_data_accuracy_and_licence(cli, tmp_path):
    code, out, _ = cli("models --json", tmp_path / "models.json")
    assert code == 0
    listed = json.loads((tmp_path / "models.json").read_text())
    assert listed.keys() == checkpoint.shipped_checkpoints().keys() != set()
    for name, model in listed.items():
        assert name in out
        assert "MIT" in model["licence"]
        assert "base classes" in model["data"]
        assert (ROOT / "docs" / "models" / f"{name}.md").is_file()
        for result in model["accuracy"]:
            assert f"{result['percent']:.2f} ± {result['ci95']:.2f} %" in out


def test_train_evaluate_and_compare_work_together(cli, store, run, tmp_path):
    maml = tmp_path / "maml"
    code, out, _ = cli("train --store", store, "--out", maml, "--method maml", SMALL)
    assert code == 0
    assert "Best of 2 epochs" in out
    assert f"unicorn-maml evaluate {maml}" in out
    file = tmp_path / "result.json"
    code, out, _ = cli("evaluate", run, "--store", store, "--tasks 5 --query 3 --json", file)
    assert code == 0
    result = json.loads(file.read_text())
    assert f"{result['accuracy']:.2f} ± {result['ci95']:.2f} %" in out
    assert "mixed" in out, "the normalisation policy is printed with every result"
    names = "accuracy ci95 tasks way shot query inner_steps inner_lr normalization seed "
    names += "tasks_per_second per_task"
    assert set(names.split()) <= result.keys()
    assert len(result["per_task"]) == result["tasks"] == 5
    code, out, _ = cli("compare", run, maml, "--tasks 5 --query 3")
    assert code == 0
    assert "first minus" in out
    other, pair = tmp_path / "other.json", tmp_path / "pair.json"
    cli("evaluate", run, "--store", store, "--tasks 4 --query 3 --inner-steps 1 --json", other)
    code, out, _ = cli("results difference", other, file, "--json", pair)
    assert code == 0
    assert f"{json.loads(pair.read_text())['difference']:+.2f}" in out
    assert cli("results add", pair, "steps --folder", tmp_path / "kept")[0] == 0
    other.write_text("{}")
    code, _, error = cli("results difference", other, file)
    assert code == 1
    assert "is no result" in error


def test_a_result_is_written_even_if_nobody_reads_what_is_printed(store, run, tmp_path):
    file = tmp_path / "result.json"
    words = ["evaluate", run, "--store", store, "--tasks", 2, "--query", 3, "--json", file]
    done = subprocess.run(
        f"{sys.executable} -m unicorn_maml {' '.join(map(str, words))} | true",
        shell=True,
        check=False,
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr
    assert json.loads(file.read_text())["tasks"] == 2


def test_a_closed_terminal_keeps_the_finished_tasks_of_an_evaluation(
    cli, store, run, tmp_path, monkeypatch
):
    scores = meta_test.iterate_accuracies

    def closed_after_some(method, loader, numbers):
        found = scores(method, loader, numbers)
        yield next(found)
        os.kill(os.getpid(), signal.SIGHUP)
        yield from found

    monkeypatch.setattr(meta_test, "iterate_accuracies", closed_after_some)
    file = tmp_path / "result.json"
    code, _, err = cli("evaluate", run, "--store", store, "--tasks 100 --query 3 --json", file)
    assert code == 130
    assert "add --resume to continue" in err
    assert unfinished_file(file).is_file()


def test_a_run_that_diverged_before_it_saved_anything_can_be_begun_anew(cli, store, tmp_path):
    run = ("train --store", store, "--out", tmp_path / "run", SMALL)
    code, _, err = cli(*run, "--inner-lr 1e200")
    assert code == 1
    assert "smaller --inner-lr" in error_sentence(err)
    assert cli(*run, "--inner-lr 0.1")[0] == 0
    pretraining = "--width 8 --epochs 1 --batch-size 16 --select-tasks 2 --device cpu"
    run = ("pretrain --store", store, "--out", tmp_path / "pretrained", pretraining)
    assert cli(*run, "--lr 1e25")[0] == 1
    assert cli(*run)[0] == 0


def test_a_folder_in_which_a_run_has_just_begun_is_refused(cli, store, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    code, _, err = cli("train --store", store, "--out", tmp_path / "run", SMALL)
    assert code == 2
    assert "already holds a run" in error_sentence(err)


def test_what_a_stopped_run_promises_is_there(tmp_path):
    assert str(_stopped_run("train", tmp_path)) == "Stopped before anything was saved."
    (tmp_path / "config.json").touch()
    assert f"continue with `unicorn-maml train --out {tmp_path} --resume`" in str(
        _stopped_run("train", tmp_path)
    )


def test_a_resumed_run_is_checked_against_its_own_settings(cli, run):
    code, _, err = cli("train --resume --task-batch 3 --out", run)
    assert code == 2
    assert "--tasks-per-epoch (4) must be a multiple" in error_sentence(err)


def test_resuming_with_the_other_command_names_the_right_one(cli, store, run):
    code, _, err = cli("pretrain --store", store, "--width 8 --out", run, "--resume")
    assert code == 2
    assert f"holds a run of meta-training; continue it with `unicorn-maml train --out {run}" in err


def test_options_of_the_inner_loop_are_refused_where_nothing_adapts(cli, store, tmp_path):
    out = tmp_path / "pretrained"
    words = "--width 8 --epochs 1 --batch-size 16 --select-tasks 2 --device cpu"
    assert cli("pretrain --store", store, words, "--out", out)[0] == 0
    asked = ("evaluate", out, "--store", store, "--tasks 2 --query 3")
    assert cli(*asked)[0] == 0
    code, _, err = cli(*asked, "--inner-steps 20")
    assert code == 2
    assert "--inner-steps has no effect; leave it out, or add --head zero" in error_sentence(err)


def test_a_checkpoint_whose_store_is_elsewhere_asks_for_one(cli):
    code, _, err = cli("evaluate miniimagenet-convnet4-pretrained --tasks 2")
    assert code == 2
    assert "which is not here; name one with --store" in error_sentence(err)


def test_a_misspelt_checkpoint_is_told_the_names_that_there_are(cli):
    code, _, err = cli("evaluate miniimagenet-resnet12-pretraind --store glyphs")
    assert code == 2
    assert "miniimagenet-resnet12-pretrained" in error_sentence(err)


def test_an_evaluation_stopped_before_its_first_task_does_not_offer_to_resume(
    cli, store, run, tmp_path, monkeypatch
):
    def stop(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(meta_test, "extract_features", stop)
    file = tmp_path / "result.json"
    code, _, err = cli("evaluate", run, "--store", store, "--head cosine --query 3 --json", file)
    assert code == 130
    assert "Stopped." in err
    assert "--resume" not in err


def test_data_show_prints_splits_and_checks_the_images(cli, store, tmp_path):
    code, out, _ = cli("data show", store, "--json", tmp_path / "d.json")
    assert code == 0
    assert "validation" in out
    assert "checksum is right" in out
    assert json.loads((tmp_path / "d.json").read_text())["splits"]["novel"]["classes"] == 8


def test_demo_prints_one_table_that_tells_the_methods_apart(cli, tmp_path):
    file = tmp_path / "demo.json"
    arguments = f"demo --out {tmp_path / 'demo'} --epochs 1 --tasks 8 --permutation-tasks 1"
    code, out, _ = cli(arguments, "--json", file)
    assert code == 0
    for words in (
        "accuracy (%)",
        "before adaptation",
        "best minus worst of 120",
        "same tasks",
    ):
        assert words in out
    result = json.loads(file.read_text())
    assert result["maml"]["best_minus_worst"] > 5
    assert result["unicorn"]["best_minus_worst"] == 0
    assert result["maml"]["accuracy_before"] == pytest.approx(20, abs=10)


@pytest.mark.parametrize(
    "command", ["", "demo", "train", "evaluate", "compare", "bench", "data", "data show"]
)
def test_every_command_has_help(cli, command):
    code, out, _ = cli(*command.split(), "--help")
    assert code == 0
    assert "Usage" in out


def test_help_does_not_wait_for_torch():
    script = "import sys; import unicorn_maml.cli.main; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_configuration_file_takes_the_same_keys_and_the_command_line_wins(cli, store, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(
        f"store: {store}\nwidth: 8\nway: 3\nquery: 3\ninner-steps: 2\nouter_lr: 1e-3\n"
        "tasks_per_epoch: 4\nepochs: 2\nvalidation_tasks: 2\ndrop: true\naugment: true\n"
    )
    run = tmp_path / "run"
    code, _, err = cli("train --config", config, "--inner-steps 1 --no-drop --out", run)
    assert code == 0, err
    recorded = json.loads((run / "config.json").read_text())
    assert (recorded["way"], recorded["inner_steps"], recorded["outer_lr"]) == (3, 1, 0.001)
    assert (recorded["drop"], recorded["augment"]) == (False, True)
    # what a run records is itself a configuration file
    code, _, err = cli("train --config", run / "config.json", "--out", tmp_path / "again")
    assert code == 0, err
    assert json.loads((tmp_path / "again" / "config.json").read_text()) == recorded


def test_an_unknown_key_is_an_error_that_names_the_nearest_known_one(cli, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("inner_step: 3\n")
    code, _, err = cli("train --config", config)
    assert code == 2
    assert "unknown key 'inner_step'; did you mean 'inner_steps'?" in error_sentence(err)


@pytest.mark.parametrize("content", ["- a\n- b\n", "{", "5", "way: [1, 2]", "way: 2024-13-45"])
def test_a_configuration_that_is_no_list_of_options_is_refused(cli, tmp_path, content):
    config = tmp_path / "config.yaml"
    config.write_text(content)
    code, _, err = cli("train --config", config, "--out", tmp_path / "run")
    assert code == 2
    assert "Traceback" not in err


def test_resume_needs_nothing_but_the_folder(cli, run):
    code, out, err = cli("train --resume --out", run)
    assert code == 0, err
    assert "Best of 2 epochs" in out
    code, _, err = cli("train --resume --inner-steps 7 --out", run)
    assert code == 2
    assert "has --inner-steps 2, not 7" in error_sentence(err)


def test_a_typing_error_in_an_option_suggests_the_right_one(cli):
    code, _, err = cli("train --inner-step 3")
    assert code == 2
    assert "--inner-steps" in err


WRONG = {
    "--way 9": "9-way tasks need 9 classes",
    "--way 1": "--way must be at least 2",
    "--query 8": "need 9; ask for fewer",
    "--inner-lr 0": "--inner-lr must be a positive number",
    "--inner-lr nan": "--inner-lr must be a positive number",
    "--store nowhere": "There is no store folder 'nowhere'",
    "--init nowhere": "There is no checkpoint in nowhere",
    "--device cuda:99": "is not there; choose --device cpu",
    "--device gpu": "Unknown device 'gpu'",
    "--tasks-per-epoch 5": "must be a multiple of --task-batch (2)",
    "--seed 100000000000000000000000000": "--seed must be below",
    "--decay nan": "--decay must be a positive number",
    "--store glyphs-5000x3": "Glyphs have 16 to 256 pixels",
    "--resume": "There is no run in",
    "--config nowhere": "Cannot read the configuration nowhere",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_usage_is_one_sentence_and_exit_code_2(cli, store, tmp_path, wrong):
    arguments = f"train --store {store} --out {tmp_path / 'run'} {SMALL} {wrong}"
    code, _, err = cli(arguments)
    assert code == 2
    assert WRONG[wrong] in error_sentence(err)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("file", [".", "", "{run}", "{run}/config.json/x.json"])
def test_a_result_file_that_cannot_be_written_is_noticed_before_the_work(cli, run, file):
    code, _, err = cli(
        "evaluate", run, "--tasks 1000000 --query 3", f"--json={file.format(run=run)}"
    )
    assert code == 2
    assert "Cannot write" in error_sentence(err)


def test_a_run_is_found_from_inside_its_folder(cli, run, monkeypatch):
    monkeypatch.chdir(run)
    assert cli("evaluate . --tasks 3 --query 3")[0] == 0
    code, _, err = cli("evaluate / --tasks 3")
    assert code == 2
    assert "There is no checkpoint in /" in error_sentence(err)


def test_names_that_look_like_markup_are_printed_as_they_are(cli, store, tmp_path):
    run = tmp_path / "a[/b]"
    code, out, _ = cli("train --store", store, "--out", run, SMALL)
    assert code == 0
    assert str(run) in out
    code, _, err = cli("evaluate", tmp_path / "none[bold]")
    assert code == 2
    assert "none[bold]" in err


@pytest.mark.parametrize(
    "config", ['{"way": "abc"}', '{"way": null}', '{"method": "x"}', "[]", "5"]
)
def test_a_run_whose_configuration_was_spoilt_is_refused(cli, run, config):
    (run / "config.json").write_text(config)
    code, _, err = cli("train --resume --out", run)
    assert code in (1, 2)
    assert error_sentence(err)


def test_resume_finds_the_default_folder(cli, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # everything but what names the folder is read from the run
    assert cli("train --store", store, SMALL)[0] == 0
    code, out, err = cli("train --resume --store", store, "--way 3")
    assert code == 0, err
    assert "Best of 2 epochs" in out


def test_a_folder_with_another_run_is_not_touched(cli, store, run):
    code, _, err = cli("train --store", store, "--out", run, SMALL)
    assert code == 2
    assert "already holds a run" in error_sentence(err)


def test_failed_work_is_one_sentence_and_exit_code_1(cli, run, tmp_path):
    code, _, err = cli("evaluate", run, "--tasks 3 --query 3 --inner-lr 1e30")
    assert code == 1
    assert "smaller --inner-lr" in error_sentence(err)
    weights = run / "best" / "weights.safetensors"
    content = bytearray(weights.read_bytes())
    content[-3] ^= 1
    weights.write_bytes(content)
    code, _, err = cli("evaluate", run, "--tasks 3 --query 3")
    assert code == 1
    assert "has changed since it was written" in error_sentence(err)
    truncated = make_store(tmp_path / "truncated").folder
    (truncated / "images.npy").write_bytes((truncated / "images.npy").read_bytes()[:500])
    code, _, err = cli("train --store", truncated, "--out", tmp_path / "other", SMALL)
    assert code == 1
    assert "is damaged" in error_sentence(err)


def test_a_full_disk_loses_nothing_that_was_done(cli, store, tmp_path, monkeypatch):
    run = tmp_path / "run"
    arguments = f"train --store {store} --out {run} {SMALL} --epochs 3"
    write, writes = checkpoint.write_tensors, []

    def write_until_full(path, tensors):
        writes.append(path)
        if len(writes) > 3:  # best and last of the first epoch took three files
            path.write_bytes(b"half a file")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, tensors)

    monkeypatch.setattr(checkpoint, "write_tensors", write_until_full)
    code, _, err = cli(arguments)
    assert code == 1
    assert "No space is left on the disk" in error_sentence(err)
    assert sorted(path.name for path in run.iterdir() if path.is_dir()) == ["best", "last"]
    monkeypatch.setattr(checkpoint, "write_tensors", write)
    code, out, _ = cli("train --resume --out", run)
    assert code == 0
    assert "Best of 3 epochs" in out


def test_a_disk_that_is_full_at_the_end_costs_no_figures(cli, store, tmp_path, monkeypatch):
    run = tmp_path / "run"
    assert cli(f"train --store {store} --out {run} {SMALL} --epochs 1")[0] == 0

    def full(path, *_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("unicorn_maml.evaluation.unfinished.write_json", full)
    file = tmp_path / "result.json"
    for words in (f"evaluate {run}", f"compare {run} {run}"):
        code, out, err = cli(words, f"--tasks 2 --query 3 --json {file}")
        assert code == 1
        assert "No space is left on the disk" in error_sentence(err)
        assert "accuracy" in out


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_stopping_a_run_says_how_to_go_on(store, tmp_path, stop):
    run = tmp_path / "run"
    words = f"-m unicorn_maml train --store {store} --out {run} {SMALL} --epochs 100000".split()
    process = subprocess.Popen(
        [sys.executable, *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "300"},  # or a long path would be broken into two words
        # a test run in the background may ignore Ctrl-C, and children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        deadline = time.monotonic() + 60
        while not (run / "last").is_dir() and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(stop)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert f"unicorn-maml train --out {run} --resume" in " ".join(err.split())
    assert checkpoint.load_checkpoint(run / "last").metrics["epoch"] >= 1
