"""Meta-training runs: resumed, killed, stopped, diverged, refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from conftest import make_store
from unicorn_maml.data.batches import TaskLoader
from unicorn_maml.data.sources import open_store
from unicorn_maml.data.tasks import TaskSampler
from unicorn_maml.errors import DivergedError, FileError, UsageError
from unicorn_maml.evaluation.results import evaluate
from unicorn_maml.methods.scoring import iterate_accuracies
from unicorn_maml.sealed import read_sealed, read_tensors, write_sealed, write_tensors
from unicorn_maml.settings import EvaluateSettings, TrainSettings, to_json
from unicorn_maml.training import checkpoint, meta_step
from unicorn_maml.training import meta_train as training
from unicorn_maml.training.checkpoint import (
    export_checkpoint,
    load_checkpoint,
    refusing_nonsense,
)
from unicorn_maml.training.meta_train import meta_train
from unicorn_maml.training.run import RunFolder


@pytest.fixture
def settings(small_store, tmp_path) -> TrainSettings:
    return TrainSettings(
        store=str(small_store.folder),
        out=tmp_path / "run",
        width=8,
        way=3,
        query=3,
        inner_steps=2,
        epochs=3,
        tasks_per_epoch=8,
        task_batch=2,
        outer_optimizer="adam",
        outer_lr=0.01,
        validation_tasks=6,
    )


def weights(folder) -> dict[str, torch.Tensor]:
    return load_checkpoint(folder).weights


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def test_a_run_leaves_config_log_checkpoints_and_result(settings):
    result = meta_train(settings)
    folder = settings.out
    config = json.loads((folder / "config.json").read_text())
    assert config["inner_steps"] == 2
    assert "out" not in config
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [entry["epoch"] for entry in log] == [1, 2, 3]
    assert log[-1].keys() >= {"loss", "accuracy", "validation_accuracy", "tasks_per_second"}
    best = max(log, key=lambda entry: entry["validation_accuracy"])
    assert result.best_epoch == best["epoch"]
    assert json.loads((folder / "result.json").read_text())["best_epoch"] == best["epoch"]
    assert load_checkpoint(folder).metrics["epoch"] == best["epoch"]
    assert load_checkpoint(folder / "last").metrics["epoch"] == 3
    assert list(folder.glob("events.out.tfevents.*"))


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_the_validation_accuracy_of_the_best_checkpoint_can_be_measured_again(
    settings, small_store, average
):
    settings = replace(settings, average=average, validation_tasks=40)
    result = meta_train(settings)
    checkpoint = load_checkpoint(settings.out)
    sampler = TaskSampler(small_store, "validation", way=3, shot=1, query=3, seed=0)
    loader = TaskLoader(
        sampler,
        pixel_mean=checkpoint.pixel_mean,
        pixel_std=checkpoint.pixel_std,
        device=torch.device("cpu"),
    )
    scores = torch.cat(
        [torch.from_numpy(s) for s in iterate_accuracies(checkpoint.method(), loader, range(40))]
    )
    assert scores.mean().item() == pytest.approx(result.validation_accuracy)


@pytest.mark.parametrize(
    "options",
    [{"outer_optimizer": "sgd"}, {"outer_optimizer": "adam"}, {"augment": True}, {"average": 0.8}],
    ids=["sgd", "adam", "augment", "average"],
)
def test_a_resumed_run_ends_with_the_same_weights(settings, tmp_path, options):
    settings = replace(settings, **options)
    meta_train(settings)

    def interrupt(done, _total, _figures):
        if done >= 20:  # within the third epoch
            raise KeyboardInterrupt

    interrupted = replace(settings, out=tmp_path / "interrupted")
    with pytest.raises(KeyboardInterrupt):
        meta_train(interrupted, interrupt)
    assert load_checkpoint(interrupted.out / "last").metrics["epoch"] == 2
    meta_train(replace(interrupted, resume=True))
    for name in ("last", "best"):
        assert_same(weights(settings.out / name), weights(interrupted.out / name))
    logs = [(out / "log.jsonl").read_text().splitlines() for out in (settings.out, interrupted.out)]
    losses = [[json.loads(line)["loss"] for line in log] for log in logs]
    assert losses[0] == losses[1]


def test_what_is_kept_is_the_average_of_the_weights_that_training_without_one_goes_through(
    settings, tmp_path, monkeypatch
):
    seen = []

    def note(method):
        seen.append({name: value.double() for name, value in method.state_dict().items()})

    def watched(function):
        def watch(method, other):
            result = function(method, other)
            note(method)
            return result

        return watch

    for module, name in ((training, "build_optimizer"), (meta_step, "absorb_statistics")):
        monkeypatch.setattr(module, name, watched(getattr(module, name)))
    meta_train(settings)
    plain = seen.copy()
    seen.clear()
    averaged = replace(settings, out=tmp_path / "averaged", average=0.7)
    meta_train(averaged)
    assert len(plain) == len(seen) == 1 + 12
    for before, after in zip(plain, seen, strict=True):
        assert_same(before, after)
    for name, value in weights(averaged.out / "last").items():
        average = plain[0][name]
        for later in plain[1:]:
            average = 0.7 * average + 0.3 * later[name]
        torch.testing.assert_close(value.double(), average, rtol=1e-5, atol=1e-6)


def test_a_run_may_be_continued_where_nothing_compiles(settings):
    meta_train(replace(settings, epochs=1))
    config = settings.out / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"compile": True}))
    meta_train(replace(settings, epochs=1, resume=True))


def test_want_of_memory_is_not_taken_for_a_bad_checkpoint(tmp_path):
    with pytest.raises(torch.OutOfMemoryError), refusing_nonsense(tmp_path):
        raise torch.OutOfMemoryError("CUDA out of memory")
    with pytest.raises(FileError, match="does not make sense"), refusing_nonsense(tmp_path):
        raise RuntimeError("size mismatch")


def test_a_very_large_seed_serves(settings):
    meta_train(replace(settings, seed=2**61, epochs=1))


def test_images_are_varied_for_meta_training_alone(settings, tmp_path, monkeypatch):
    seen = []

    def blank(images, variation):
        seen.append((images.shape[1:], float(images.min()), float(images.max())))
        assert (variation.crop, variation.flip, variation.jitter) == ("padded", True, 0.4)
        return torch.zeros_like(images)

    monkeypatch.setattr("unicorn_maml.training.meta_train.augment", blank)
    meta_train(replace(settings, epochs=1))
    assert not seen
    varied = replace(settings, epochs=1, augment=True, out=tmp_path / "varied")
    meta_train(varied)
    batches = settings.tasks_per_epoch // settings.task_batch
    assert len(seen) == 2 * batches  # support and query images, never those of validation tasks
    assert all(low >= 0 and high <= 1 for _, low, high in seen)
    # Of blank images nothing can be learnt but to guess.
    [entry] = [json.loads(line) for line in (varied.out / "log.jsonl").read_text().splitlines()]
    assert entry["accuracy"] == pytest.approx(100 / 3)


def test_epochs_between_validations_are_logged_and_done_again_after_an_interrupt(
    settings, tmp_path
):
    rarely = replace(settings, epochs=5, validate_every=2)
    meta_train(rarely)

    def interrupt(done, _total, _figures):
        if done >= 20 and not (tmp_path / "once").exists():  # within the third epoch
            (tmp_path / "once").touch()
            raise KeyboardInterrupt

    interrupted = replace(rarely, out=tmp_path / "interrupted")
    with pytest.raises(KeyboardInterrupt):
        meta_train(interrupted, interrupt)
    meta_train(replace(interrupted, resume=True))
    assert_same(weights(rarely.out / "last"), weights(interrupted.out / "last"))
    for folder in (rarely.out, interrupted.out):
        log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        assert [entry["epoch"] for entry in log] == [1, 2, 3, 4, 5]
        judged = [entry["epoch"] for entry in log if "validation_accuracy" in entry]
        assert judged == [2, 4, 5]


def test_epochs_between_validations_are_saved_when_they_take_long(settings, tmp_path, monkeypatch):
    rarely = replace(settings, epochs=12, validate_every=4, patience=3, outer_lr=1e-12)
    whole = meta_train(rarely)  # nothing is better than the fourth epoch, which the eighth shows
    monkeypatch.setattr("unicorn_maml.training.meta_train._SECONDS_BETWEEN", 0.0)
    done_of = []

    def interrupt(done, _total, _figures):
        done_of.append(done)
        if done in (20, 60) and done_of.count(done) == 1:  # within the third and the eighth epoch
            raise KeyboardInterrupt

    slow = replace(rarely, out=tmp_path / "slow")
    for settings_of_call in (slow, replace(slow, resume=True)):
        with pytest.raises(KeyboardInterrupt):
            meta_train(settings_of_call, interrupt)
    result = meta_train(replace(slow, resume=True), interrupt)
    assert done_of[done_of.index(20) + 1] == 18, "the third epoch is done again, not the first"
    assert done_of[done_of.index(60) + 1] == 58
    assert (result.epochs, result.best_epoch) == (whole.epochs, whole.best_epoch) == (8, 4)
    assert_same(weights(rarely.out / "last"), weights(slow.out / "last"))


def test_a_killed_run_recovers_and_ends_with_the_same_weights(settings, tmp_path):
    settings = replace(settings, epochs=6)
    meta_train(settings)
    killed = replace(settings, out=tmp_path / "killed")
    command = [sys.executable, "-m", "unicorn_maml", "train"]
    for name, value in to_json(killed).items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            command.append(option)
        elif value is not None and value is not False:
            command += [option, str(value)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (killed.out / "last").is_dir():
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    meta_train(replace(killed, resume=True))
    assert_same(weights(settings.out / "last"), weights(killed.out / "last"))
    assert_same(weights(settings.out / "best"), weights(killed.out / "best"))


def test_a_run_killed_between_the_two_renames_of_a_checkpoint_recovers(settings):
    meta_train(replace(settings, epochs=3))
    wanted = weights(settings.out / "last")
    (settings.out / "last").rename(settings.out / ".last.unicorn.old")  # between the renames
    (settings.out / ".last.unicorn-12345.new").mkdir()
    (settings.out / "last.old").mkdir()  # the user's, as is
    (settings.out / "last.12345.new").mkdir()
    assert_same(weights(settings.out / "last"), wanted)  # readers find it without touching it
    assert (settings.out / ".last.unicorn.old").is_dir()
    trained = []
    result = meta_train(replace(settings, resume=True), lambda *progress: trained.append(progress))
    assert result.epochs == 3
    assert not trained, "finished epochs are not done again"
    folders = sorted(path.name for path in settings.out.iterdir() if path.is_dir())
    assert folders == ["best", "last", "last.12345.new", "last.old"]


class Killed(BaseException):
    """A process that was killed."""


def test_a_run_killed_at_any_write_recovers(settings, tmp_path, monkeypatch):
    """Before every rename, removal and line of the log, a process may die; then it does nothing."""
    settings = replace(settings, epochs=2)
    moments, dies_at = 0, 0

    def dying(action):
        def act(*arguments, **options):
            nonlocal moments
            moments += 1
            if 0 < dies_at <= moments:
                raise Killed
            return action(*arguments, **options)

        return act

    for owner, name in [(Path, "rename"), (Path, "replace"), (shutil, "rmtree")]:
        monkeypatch.setattr(owner, name, dying(getattr(owner, name)))
    monkeypatch.setattr(RunFolder, "log", dying(RunFolder.log))
    meta_train(settings)
    left_behind = set()
    for moment in range(1, moments + 1):
        killed = replace(settings, out=tmp_path / f"killed-{moment}")
        moments, dies_at = 0, moment
        with pytest.raises(Killed):
            meta_train(killed)
        dies_at = 0
        left_behind |= {path.suffix for path in killed.out.iterdir() if path.is_dir()}
        meta_train(replace(killed, resume=(killed.out / "config.json").is_file()))
        assert_same(weights(settings.out / "last"), weights(killed.out / "last"))
        assert_same(weights(settings.out / "best"), weights(killed.out / "best"))
        epochs = [json.loads(line)["epoch"] for line in (killed.out / "log.jsonl").open()]
        assert epochs == [1, 2]
    assert {".new", ".old"} <= left_behind, "what only a killed process leaves"


def test_resuming_where_there_is_no_run_is_refused(settings):
    with pytest.raises(UsageError, match=r"There is no run in .* to resume; check --out"):
        meta_train(replace(settings, resume=True))
    assert not settings.out.exists()


def test_a_checkpoint_can_be_read_while_it_is_being_replaced(settings):
    readings, failures, stop = [], [], threading.Event()

    def read():
        while not stop.is_set():
            if (settings.out / "last").is_dir():
                try:
                    readings.append(load_checkpoint(settings.out / "last").metrics["epoch"])
                except Exception as error:
                    failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        meta_train(replace(settings, epochs=30, tasks_per_epoch=2, validation_tasks=1))
    finally:
        stop.set()
        reader.join()
    assert not failures
    assert readings == sorted(readings)
    assert len(readings) > 10


def test_a_checkpoint_may_be_met_three_times_in_the_moment_of_its_replacement(
    settings, monkeypatch
):
    meta_train(settings)
    load, tries = checkpoint._load, []

    def in_between(path):
        tries.append(path)
        if len(tries) < 4:
            raise FileError("has changed")
        return load(path)

    monkeypatch.setattr(checkpoint, "_load", in_between)
    assert load_checkpoint(settings.out / "last").metrics["epoch"] == settings.epochs


def test_a_finished_run_resumes_to_its_result(settings):
    first = meta_train(settings)
    again = meta_train(replace(settings, resume=True))
    assert again == first


def test_a_folder_that_holds_another_run_is_refused_and_left_alone(settings):
    meta_train(settings)
    before = weights(settings.out)
    with pytest.raises(UsageError, match=r"already holds a run.*--resume.*another --out"):
        meta_train(replace(settings, seed=1))
    with pytest.raises(UsageError, match=r"has --seed 0, not 1"):
        meta_train(replace(settings, seed=1, resume=True))
    assert_same(weights(settings.out), before)


def test_a_diverging_run_keeps_its_last_good_checkpoint(settings):
    exploding = replace(settings, schedule="step", decay_every=1, decay=1e30, weight_decay=0.0)
    with pytest.raises(DivergedError, match=r"finite.*--outer-lr.*Epoch 1 is kept in"):
        meta_train(exploding)
    assert load_checkpoint(settings.out / "last").metrics["epoch"] == 1


def test_patience_stops_a_run_that_no_longer_improves(settings):
    result = meta_train(replace(settings, epochs=30, patience=2, outer_lr=1e-12))
    assert result.epochs == result.best_epoch + 2 < 30


def test_init_takes_the_backbone_and_its_averages_but_never_the_head(settings, tmp_path):
    meta_train(settings)
    first = weights(settings.out)
    tiny = replace(
        settings, out=tmp_path / "second", init=settings.out, method="maml", outer_lr=1e-30
    )
    tiny = replace(tiny, outer_optimizer="sgd", weight_decay=0.0, epochs=1, normalization="frozen")
    meta_train(replace(tiny, match_statistics=False))
    second = weights(tiny.out)
    for name, value in second.items():
        if name.startswith("backbone"):
            torch.testing.assert_close(value, first[name])
    assert second["head.weight"].shape == (3, 8)


def test_init_makes_running_averages_those_of_base_images_at_the_same_function(settings, tmp_path):
    meta_train(settings)
    still = replace(
        settings, init=settings.out, outer_lr=1e-30, epochs=1, normalization="frozen", way=2, shot=2
    )
    still = replace(still, outer_optimizer="sgd", weight_decay=0.0)
    kept = replace(still, out=tmp_path / "kept", match_statistics=False)
    moved = replace(still, out=tmp_path / "moved")
    for each in (kept, moved):
        meta_train(each)
    varied = replace(moved, out=tmp_path / "varied", augment=True)  # is matched by plain images
    meta_train(varied)
    assert_same(weights(varied.out), weights(moved.out))
    first, second = (load_checkpoint(each.out).method().backbone.eval() for each in (kept, moved))
    images = torch.randn(5, 1, 16, 16)
    torch.testing.assert_close(second(images), first(images), atol=1e-4, rtol=1e-4)
    store = open_store(settings.store)
    base = TaskSampler(store, "base", way=2, shot=2, query=settings.query, seed=settings.seed)
    rows = base.rows(range(320)).support.flatten()
    pixels = torch.from_numpy(store.images[rows]).permute(0, 3, 1, 2).float() / 255
    mean, std = store.pixel_mean[0], store.pixel_std[0]
    convolution, norm = second.blocks[0][0], second.blocks[0][1]
    inputs = convolution((pixels - mean) / std)
    torch.testing.assert_close(norm.running_mean, inputs.mean((0, 2, 3)), atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(
        norm.running_var, inputs.var((0, 2, 3), correction=0), atol=1e-4, rtol=1e-3
    )


def test_init_brings_its_own_normalisation_of_images(settings, tmp_path):
    meta_train(settings)
    other = make_store(tmp_path / "other", classes=30)
    second = replace(settings, out=tmp_path / "second", init=settings.out, store=str(other.folder))
    meta_train(replace(second, epochs=1))
    first = load_checkpoint(settings.out)
    assert other.pixel_mean != first.pixel_mean
    assert load_checkpoint(second.out).pixel_mean == first.pixel_mean


def test_weights_that_are_no_numbers_are_refused(settings, tmp_path):
    meta_train(replace(settings, epochs=1))
    best = settings.out / "best"
    description = read_sealed(best / "checkpoint.json")
    file = best / "weights.safetensors"
    tensors = read_tensors(file, description["sha256"]["weights.safetensors"])
    tensors["head.weight"].view(-1)[0] = torch.nan
    description["sha256"]["weights.safetensors"] = write_tensors(file, tensors)
    write_sealed(best / "checkpoint.json", description)
    for load in (load_checkpoint, lambda path: export_checkpoint(path, tmp_path / "exported")):
        with pytest.raises(FileError, match="are not all finite"):
            load(best)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("model/method", "x"),
        ("model/way", -1),
        ("model/features/width", -1),
        ("model/features/width", 300_000),
        ("model/features/width", "a"),
        ("model/features/pooling", "x"),
        ("model/features/size", None),
        ("sha256", []),
        ("pixel_mean", []),
        ("pixel_std", [0.0]),
        ("pixel_std", [-1.0]),
        ("pixel_mean", [10**400]),
        ("pixel_mean", "ab"),
        ("settings/store", 5),
        ("settings/inner_steps", "many"),
        ("settings", {"unknown": 1}),
        ("metrics", 5),
    ],
)
def test_a_checkpoint_that_makes_no_sense_is_refused_whatever_its_checksum(settings, place, value):
    meta_train(replace(settings, epochs=1))
    file = settings.out / "best" / "checkpoint.json"
    description = json.loads(file.read_text())
    del description["checksum"]
    *parents, last = place.split("/")
    target = description
    for name in parents:
        target = target[name]
    target[last] = value
    write_sealed(file, description)
    with pytest.raises(FileError, match="does not make sense"):
        load_checkpoint(settings.out)
    with pytest.raises(FileError, match="does not make sense"):
        export_checkpoint(settings.out, settings.out / "small")


def test_a_run_resumes_without_the_checkpoint_that_it_began_with_but_not_on_another_store(
    settings, tmp_path
):
    store = make_store(tmp_path / "store").folder
    first = replace(settings, store=str(store))
    meta_train(replace(first, epochs=1))
    second = replace(first, out=tmp_path / "second", init=first.out)
    meta_train(second)
    meta_train(replace(second, out=tmp_path / "begun", epochs=2))
    file = tmp_path / "begun" / "config.json"
    file.write_text(file.read_text().replace('"epochs": 2', f'"epochs": {second.epochs}'))
    first.out.rename(tmp_path / "elsewhere")
    meta_train(replace(second, out=tmp_path / "begun", resume=True))
    assert_same(weights(second.out / "last"), weights(tmp_path / "begun" / "last"))
    shutil.rmtree(store)
    make_store(store, classes=30)
    with pytest.raises(UsageError, match="are not those that the run in"):
        meta_train(replace(second, resume=True))


def test_with_drop_layers_a_run_of_one_task_per_update_is_repeatable(settings, tmp_path):
    dropping = replace(settings, backbone="resnet12", drop=True, task_batch=1, epochs=2)
    dropping = replace(dropping, tasks_per_epoch=2, validation_tasks=3)
    found = {}
    for name in ("first", "second"):
        torch.manual_seed(len(name))
        meta_train(replace(dropping, out=tmp_path / name))
        log = [json.loads(line) for line in (tmp_path / name / "log.jsonl").open()]
        found[name] = [(entry["loss"], entry["validation_accuracy"]) for entry in log]
    assert found["first"] == found["second"]
    for kept in ("best", "last"):
        assert_same(weights(tmp_path / "first" / kept), weights(tmp_path / "second" / kept))
    tested = evaluate(
        EvaluateSettings(
            checkpoint=tmp_path / "first" / "last",
            split="validation",
            tasks=3,
            query=3,
            seed=dropping.seed,
        )
    )
    assert tested["accuracy"] == found["first"][-1][1], "drop layers rest, as in `evaluate`"


def test_a_run_of_an_older_version_does_not_resume_with_a_newer_option(settings):
    meta_train(replace(settings, epochs=1))
    file = settings.out / "config.json"
    recorded = json.loads(file.read_text())
    del recorded["augment"]
    file.write_text(json.dumps(recorded))
    with pytest.raises(UsageError, match="has --augment False, not True"):
        meta_train(replace(settings, epochs=1, augment=True, resume=True))
    meta_train(replace(settings, epochs=1, resume=True))


def test_init_refuses_another_backbone_pooling_or_image_size(settings, tmp_path):
    meta_train(settings)
    other = replace(settings, out=tmp_path / "other", init=settings.out)
    with pytest.raises(UsageError, match="has width 8, but this run needs 16"):
        meta_train(replace(other, width=16))
    with pytest.raises(UsageError, match="has pooling average, but this run needs max"):
        meta_train(replace(other, pooling="max"))
    with pytest.raises(UsageError, match="has backbone convnet4, but this run needs resnet12"):
        meta_train(replace(other, backbone="resnet12"))
    larger = make_store(tmp_path / "larger", size=20)
    with pytest.raises(UsageError, match="has size 16, but this run needs 20"):
        meta_train(replace(other, store=str(larger.folder)))
    assert not other.out.exists(), "nothing is written for a run that cannot start"


@pytest.mark.parametrize(
    "file", ["weights.safetensors", "checkpoint.json", "training_state.safetensors"]
)
def test_a_checkpoint_with_a_changed_byte_is_refused(settings, file):
    meta_train(replace(settings, epochs=1))
    path = settings.out / "last" / file
    content = bytearray(path.read_bytes())
    position = content.index(b"accuracy") + 1 if file.endswith(".json") else len(content) // 2
    content[position] ^= 4
    path.write_bytes(content)
    with pytest.raises(FileError, match="has changed since it was written"):
        meta_train(replace(settings, epochs=1, resume=True))


def test_foreign_and_incomplete_checkpoints_are_refused(settings, tmp_path):
    meta_train(replace(settings, epochs=1))
    with pytest.raises(UsageError, match="There is no checkpoint in"):
        load_checkpoint(tmp_path / "nowhere")
    pickle = tmp_path / "model.pth"
    torch.save({"a": 1}, pickle)
    with pytest.raises(UsageError, match="pickled weights are never loaded"):
        load_checkpoint(pickle)
    best = settings.out / "best"
    (best / "weights.safetensors").unlink()
    with pytest.raises(FileError, match=r"lacks weights\.safetensors"):
        load_checkpoint(best)
    (best / "checkpoint.json").write_text('{"model": "of another program"}')
    with pytest.raises(FileError, match="damaged or of another program"):
        load_checkpoint(best)
