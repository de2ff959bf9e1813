"""Meta-testing: intervals, independence of tasks, comparisons, interruptions."""

import copy
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from conftest import make_store
from unicorn_maml.benchmarking import plain_loop
from unicorn_maml.data.batches import TaskLoader
from unicorn_maml.data.store import write_store
from unicorn_maml.data.tasks import TaskSampler
from unicorn_maml.errors import FileError, UsageError
from unicorn_maml.evaluation.meta_test import prepare
from unicorn_maml.evaluation.results import compare, evaluate, paired
from unicorn_maml.evaluation.unfinished import unfinished_file, write_result
from unicorn_maml.intervals import mean_interval
from unicorn_maml.methods.scoring import iterate_accuracies, predict
from unicorn_maml.settings import CompareSettings, EvaluateSettings, TrainSettings
from unicorn_maml.training.checkpoint import load_checkpoint
from unicorn_maml.training.meta_train import meta_train


def ask(run: Path, **settings) -> EvaluateSettings:
    return EvaluateSettings(checkpoint=run, **{"tasks": 12, "query": 3, **settings})


def test_the_interval_is_196_population_deviations_over_the_root_of_the_tasks():
    values = [10.0, 20.0, 60.0, 50.0]
    mean = sum(values) / 4
    deviation = (sum((value - mean) ** 2 for value in values) / 4) ** 0.5
    interval = mean_interval(values)
    assert interval.mean == pytest.approx(mean)
    assert interval.ci95 == pytest.approx(1.96 * deviation / 2)


def test_a_result_holds_every_setting_and_the_accuracies_in_percent(trained, tmp_path):
    file = tmp_path / "result.json"
    result = evaluate(ask(trained["unicorn"], json=file, normalization="support", inner_lr=0.05))
    write_result(file, result)
    assert json.loads(file.read_text()) == result
    assert result["accuracy"] == pytest.approx(np.mean(result["per_task"]))
    assert result["ci95"] == pytest.approx(1.96 * np.std(result["per_task"]) / 12**0.5)
    wanted = {"tasks": 12, "way": 3, "shot": 1, "query": 3, "inner_steps": 2, "inner_lr": 0.05}
    wanted |= {"normalization": "support", "seed": 0, "method": "unicorn", "head": "shared"}
    assert wanted.items() <= result.items()
    assert result["tasks_per_second"] > 0
    assert all(0 <= value <= 100 for value in result["per_task"])


@pytest.mark.parametrize("policy", ["batch", "support", "mixed", "frozen"])
def test_no_task_depends_on_the_tasks_before_or_beside_it(trained, policy):
    test = prepare(load_checkpoint(trained["maml"]), ask(trained["maml"], normalization=policy))
    alone = predict(test.method, test.loader.load([5]))[0]
    for numbers in ([5, 1, 2], [3, 4, 5], [9, 5], list(range(40))):
        logits = predict(test.method, test.loader.load(numbers))
        torch.testing.assert_close(logits[numbers.index(5)], alone, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(predict(test.method, test.loader.load([5]))[0], alone)


def test_leaking_averages_go_from_task_to_task_and_the_models_own_are_kept(trained):
    test = prepare(load_checkpoint(trained["maml"]), ask(trained["maml"], leak=True, tasks=5))
    before = {k: v.clone() for k, v in test.method.backbone.named_buffers()}
    test.run()
    for name, value in test.method.backbone.named_buffers():
        assert torch.equal(value, before[name])
    plain = copy.deepcopy(test.method)
    for number, accuracy in enumerate(test.per_task):
        tasks = test.loader.load([number])
        task = plain_loop.adapt(plain, tasks, 0)
        logits = plain_loop.predict(plain, tasks)[0]
        correct = (logits.argmax(-1) == tasks.query_labels[0]).double().mean() * 100
        assert accuracy == pytest.approx(float(correct))
        plain.backbone.load_state_dict(task.buffers, strict=False)
    clean = evaluate(ask(trained["maml"], tasks=5))
    assert clean["per_task"][0] == test.per_task[0]
    with pytest.raises(UsageError, match="--normalization mixed"):
        evaluate(ask(trained["maml"], leak=True, normalization="batch"))
    with pytest.raises(UsageError, match="without --remedy"):
        evaluate(ask(trained["maml"], leak=True, remedy="ensemble"))
    with pytest.raises(UsageError, match="cannot --resume"):
        ask(trained["maml"], leak=True, resume=True)


def test_compare_reports_the_paired_difference_on_identical_tasks(trained):
    result = compare(
        CompareSettings(first=trained["unicorn"], second=trained["maml"], tasks=10, query=3)
    )
    for name, run in (("first", trained["unicorn"]), ("second", trained["maml"])):
        assert result[name]["per_task"] == evaluate(ask(run, tasks=10))["per_task"]
    points = np.subtract(result["first"]["per_task"], result["second"]["per_task"])
    assert result["difference"] == pytest.approx(points.mean())
    assert result["difference_ci95"] == pytest.approx(1.96 * points.std() / 10**0.5)


def test_two_results_are_paired_on_the_tasks_that_both_have_and_only_on_the_same_ones(trained):
    long = evaluate(ask(trained["unicorn"], tasks=10))
    short = evaluate(ask(trained["unicorn"], tasks=6, inner_steps=0))
    both = paired(long, short)
    assert both["first"]["tasks"] == both["second"]["tasks"] == 6
    assert both["first"]["accuracy"] == pytest.approx(np.mean(long["per_task"][:6]))
    differences = np.subtract(long["per_task"][:6], short["per_task"])
    assert both["difference"] == pytest.approx(differences.mean())
    other = evaluate(ask(trained["unicorn"], tasks=6, seed=1))
    with pytest.raises(UsageError, match="not of the same tasks: seed is 0 in one and 1"):
        paired(long, other)


def interrupt(*_progress):
    raise KeyboardInterrupt


def test_an_interrupted_evaluation_keeps_its_tasks_and_resumes(trained, tmp_path):
    whole = evaluate(ask(trained["unicorn"], tasks=40))["per_task"]
    asked = ask(trained["unicorn"], tasks=40, json=tmp_path / "result.json")
    with pytest.raises(KeyboardInterrupt):
        evaluate(asked, interrupt)
    assert not asked.json.exists(), "half a result is not a result"
    (kept,) = json.loads((tmp_path / "result.json.part").read_text())["tests"]
    assert 0 < len(kept["per_task"]) < 40
    assert kept["per_task"] == whole[: len(kept["per_task"])]
    with pytest.raises(UsageError, match="add --resume to continue it, or delete that file"):
        evaluate(asked)
    leaking = ask(trained["maml"], tasks=40, leak=True, json=tmp_path / "leaking.json")
    with pytest.raises(KeyboardInterrupt):
        evaluate(leaking, interrupt)
    assert not unfinished_file(leaking.json).exists(), "it could not be resumed"
    with pytest.raises(UsageError, match=r"had inner_lr 0\.1, not 0\.2"):
        evaluate(replace(asked, resume=True, inner_lr=0.2))
    # The number of tasks that was asked for first is not forgotten.
    result = evaluate(replace(asked, resume=True, tasks=5))
    assert result["per_task"] == pytest.approx(whole)
    write_result(asked.json, result)
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_finished_tasks_are_kept_from_time_to_time_for_a_process_that_is_killed(
    trained, tmp_path, monkeypatch
):
    settings = ask(trained["unicorn"], tasks=40, json=tmp_path / "result.json")
    kept = unfinished_file(settings.json)
    seen = []

    def look(*_):
        seen.append(
            len(json.loads(kept.read_text())["tests"][0]["per_task"]) if kept.exists() else 0
        )

    result = evaluate(settings, look)
    assert len(seen) > 1
    assert not any(seen), "a test of a few seconds writes nothing before its end"
    monkeypatch.setattr("unicorn_maml.evaluation.unfinished._SECONDS_BETWEEN", 0.0)
    seen.clear()
    evaluate(settings, look)
    assert seen == sorted(seen)
    assert 0 < seen[0] < seen[-1] == 40
    again = evaluate(replace(settings, resume=True))
    assert again["per_task"] == result["per_task"]


def test_a_disk_that_is_full_for_a_while_does_not_stop_an_evaluation(
    trained, tmp_path, monkeypatch
):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("unicorn_maml.evaluation.unfinished._SECONDS_BETWEEN", 0.0)
    monkeypatch.setattr("unicorn_maml.evaluation.unfinished.write_json", full)
    settings = ask(trained["unicorn"], tasks=20, json=tmp_path / "result.json")
    assert len(evaluate(settings)["per_task"]) == 20


def test_an_interrupted_evaluation_leaves_an_earlier_result_alone(trained, tmp_path):
    file = tmp_path / "result.json"
    write_result(file, evaluate(ask(trained["unicorn"])))
    before = file.read_text()
    with pytest.raises(KeyboardInterrupt):
        evaluate(ask(trained["unicorn"], json=file, seed=1, tasks=40), interrupt)
    assert file.read_text() == before


def test_an_evaluation_does_not_resume_with_other_weights(trained, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained["unicorn"], run)
    asked = ask(run, tasks=40, json=tmp_path / "result.json")
    with pytest.raises(KeyboardInterrupt):
        evaluate(asked, interrupt)
    shutil.rmtree(run / "best")
    shutil.copytree(trained["maml"] / "best", run / "best")
    with pytest.raises(UsageError, match="The interrupted work had"):
        evaluate(replace(asked, resume=True))


def test_an_interrupted_comparison_resumes(trained, tmp_path):
    asked = CompareSettings(
        first=trained["unicorn"],
        second=trained["maml"],
        tasks=40,
        query=3,
        json=tmp_path / "c.json",
    )
    whole = compare(asked)
    calls = []

    def stop_in_the_second(*progress):
        calls.append(progress)
        if progress[0] > 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(asked, stop_in_the_second)
    resumed = compare(replace(asked, resume=True))
    for name in ("first", "second"):
        assert resumed[name]["per_task"] == pytest.approx(whole[name]["per_task"])


FIXED = [{"head": "cosine"}, {"head": "euclidean"}, {"adapt": "head", "normalization": "frozen"}]


@pytest.mark.parametrize("options", FIXED)
def test_fixed_features_are_computed_once_and_change_no_accuracy(trained, options):
    asked = ask(trained["maml"], tasks=60, **options)
    result = evaluate(asked)
    test = prepare(load_checkpoint(trained["maml"]), asked)
    expected = np.concatenate([*iterate_accuracies(test.method, test.loader, range(60))])
    assert result["per_task"] == pytest.approx(expected)
    assert result["feature_seconds"] > 0
    # The time per task includes that of the features.
    assert result["tasks_per_second"] < 60 / result["feature_seconds"]
    adapted = evaluate(ask(trained["maml"], adapt="head", normalization="mixed"))
    assert adapted["feature_seconds"] is None


def test_a_comparison_takes_features_where_they_are_fixed(trained):
    asked = CompareSettings(
        first=trained["unicorn"],
        second=trained["maml"],
        tasks=10,
        query=3,
        adapt="head",
        normalization="frozen",
    )
    result = compare(asked)
    for name, run in (("first", trained["unicorn"]), ("second", trained["maml"])):
        assert result[name]["feature_seconds"] > 0
        alone = evaluate(ask(run, tasks=10, adapt="head", normalization="frozen"))
        assert result[name]["per_task"] == alone["per_task"]


def test_an_evaluation_from_features_resumes(trained, tmp_path):
    asked = ask(trained["maml"], tasks=300, head="cosine", json=tmp_path / "result.json")
    whole = evaluate(asked)["per_task"]
    with pytest.raises(KeyboardInterrupt):
        evaluate(asked, interrupt)
    assert not unfinished_file(asked.json).exists(), "stopped before the first task"

    def stop_after_some_tasks(_done, _all, figures):
        if "accuracy" in figures:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(asked, stop_after_some_tasks)
    (kept,) = json.loads(unfinished_file(asked.json).read_text())["tests"]
    assert 0 < len(kept["per_task"]) < 300
    result = evaluate(replace(asked, resume=True))
    assert result["per_task"] == pytest.approx(whole)


def test_resume_needs_a_file_and_something_to_resume(trained, tmp_path):
    with pytest.raises(UsageError, match="name it with --json"):
        evaluate(ask(trained["unicorn"], resume=True))
    with pytest.raises(UsageError, match="There is nothing to resume for"):
        evaluate(ask(trained["unicorn"], resume=True, json=tmp_path / "none.json"))
    (tmp_path / "bad.json.part").write_text("[5]")
    with pytest.raises(FileError, match="is damaged; delete it"):
        evaluate(ask(trained["unicorn"], resume=True, json=tmp_path / "bad.json"))


def test_finished_tasks_that_somebody_has_changed_are_not_taken_up(trained, tmp_path):
    asked = ask(trained["unicorn"], tasks=40, json=tmp_path / "result.json")
    with pytest.raises(KeyboardInterrupt):
        evaluate(asked, interrupt)
    part = unfinished_file(asked.json)
    kept = json.loads(part.read_text())
    kept["tests"][0]["per_task"].pop()
    part.write_text(json.dumps(kept))
    with pytest.raises(FileError, match="is damaged; delete it"):
        evaluate(replace(asked, resume=True))


@pytest.mark.parametrize(
    "accuracies", [None, [[1, 2], [3, 4]], [1, float("nan")], [1, 10**400], ["a"]]
)
def test_accuracies_that_are_none_are_not_paired(trained, accuracies):
    result = evaluate(ask(trained["unicorn"]))
    with pytest.raises((ValueError, TypeError, OverflowError)):
        paired(result, result | {"per_task": accuracies})


def test_work_of_another_command_is_not_called_damaged(trained, tmp_path):
    file = tmp_path / "result.json"
    with pytest.raises(KeyboardInterrupt):
        evaluate(ask(trained["unicorn"], json=file, tasks=40), interrupt)
    both = CompareSettings(first=trained["unicorn"], second=trained["maml"], query=3, json=file)
    with pytest.raises(UsageError, match="is of another command"):
        compare(replace(both, resume=True))


def test_a_checkpoint_that_is_named_otherwise_is_the_same(trained, tmp_path, monkeypatch):
    file = tmp_path / "result.json"
    with pytest.raises(KeyboardInterrupt):
        evaluate(ask(trained["unicorn"], json=file, tasks=40), interrupt)
    monkeypatch.chdir(trained["unicorn"].parent)
    relative = ask(Path(trained["unicorn"].name), json=file, tasks=40, resume=True)
    assert len(evaluate(relative)["per_task"]) == 40


def test_split_seed_and_what_adapts_are_heeded(trained):
    results = [
        evaluate(ask(trained["unicorn"], **options))["per_task"]
        for options in ({}, {"split": "base"}, {"seed": 1}, {"adapt": "head"}, {"inner_steps": 0})
    ]
    assert all(result != results[0] for result in results[1:])


def test_images_are_normalised_as_in_training_whatever_the_store(trained, tmp_path, small_store):
    brighter = np.minimum(np.asarray(small_store.images, np.int64) + 30, 255).astype(np.uint8)
    store = write_store(
        tmp_path / "brighter", brighter, small_store.classes, source="", preprocessing=""
    )
    checkpoint = load_checkpoint(trained["maml"])
    test = prepare(checkpoint, ask(trained["maml"], store=str(store.folder)))
    image = test.loader.load([0]).support_images[0, 0]
    row = test.loader.sampler.rows([0]).support[0, 0]
    mean, std = small_store.pixel_mean[0], small_store.pixel_std[0]
    expected = (torch.from_numpy(brighter[row]).permute(2, 0, 1).double() / 255 - mean) / std
    torch.testing.assert_close(image.double(), expected, rtol=1e-4, atol=1e-4)
    assert store.pixel_mean != small_store.pixel_mean


def test_any_number_of_ways_works_with_a_shared_zero_or_average_head(trained):
    for run, head in (("unicorn", None), ("unicorn", "zero"), ("maml", "average")):
        assert evaluate(ask(trained[run], head=head, way=5))["way"] == 5
    with pytest.raises(UsageError, match="3 slots and cannot serve 5-way tasks"):
        evaluate(ask(trained["maml"], way=5))
    with pytest.raises(UsageError, match=r"shared head, which cannot become `average`"):
        evaluate(ask(trained["unicorn"], head="average"))


def test_a_store_with_other_images_is_refused(trained, tmp_path):
    larger = make_store(tmp_path / "larger", size=20)
    with pytest.raises(UsageError, match=r"takes 16x16 images with 1 channels.*has 20x20"):
        evaluate(ask(trained["maml"], store=str(larger.folder)))


def test_a_short_meta_training_passes_90_percent_on_novel_glyphs(tmp_path):
    run = meta_train(
        TrainSettings(
            store="glyphs",
            out=tmp_path / "run",
            width=32,
            inner_lr=0.2,
            query=5,
            normalization="support",
            epochs=4,
            task_batch=4,
            outer_optimizer="adam",
            outer_lr=0.002,
            weight_decay=0.0,
            schedule="cosine",
            validation_tasks=20,
        )
    )
    result = evaluate(EvaluateSettings(checkpoint=run.folder, tasks=100))
    assert result["accuracy"] - result["ci95"] > 90


def test_tasks_are_gathered_from_the_store_that_they_are_drawn_from(small_store):
    sampler = TaskSampler(small_store, "novel", way=3, shot=2, query=1, seed=0)
    loader = TaskLoader(
        sampler, pixel_mean=(0.0,), pixel_std=(1 / 255,), device=torch.device("cpu")
    )
    batch, rows = loader.load([4]), sampler.rows([4])
    expected = torch.from_numpy(small_store.images[rows.support[0]]).permute(0, 3, 1, 2).float()
    torch.testing.assert_close(batch.support_images[0], expected)
