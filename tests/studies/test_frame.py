"""What the studies have in common: names of networks, titles, warnings, interruptions."""

import shutil
from types import SimpleNamespace

import pytest

from conftest import make_store
from studying import TASKS, accuracy, ask, check
from unicorn_maml.errors import UsageError
from unicorn_maml.evaluation.unfinished import unfinished_file
from unicorn_maml.intervals import Interval
from unicorn_maml.settings import (
    AverageSettings,
    OneTaskSettings,
    PermutationsSettings,
    SelectionSettings,
    ShotsSettings,
    SlotsSettings,
    TransferSettings,
)
from unicorn_maml.studies import (
    average,
    frame,
    one_task,
    permuted,
    selection,
    shots,
    slots,
    transfer,
)
from unicorn_maml.studies import permutations as permutations_study


def test_two_checkpoints_of_one_run_have_columns_of_their_own(trained, tmp_path):
    best, last = trained["maml"] / "best", trained["maml"] / "last"
    result = shots.run(ask(ShotsSettings, tmp_path / "a", best, last, shots="1"))
    check(result)
    assert list(result["data"]) == [f"MAML ({best})", f"MAML ({last})"]
    for label, checkpoint in zip(result["data"], (best, last), strict=True):
        found = result["data"][label]["accuracy"][0]["mean"]
        assert found == pytest.approx(accuracy(checkpoint))
    with pytest.raises(UsageError, match="is named twice; name it once"):
        shots.run(ask(ShotsSettings, tmp_path / "b", best, trained["maml"], shots="1"))


def test_runs_of_one_name_are_told_apart_by_their_folders_in_full(trained, tmp_path):
    for name in ("a", "b"):
        shutil.copytree(trained["maml"] / "best", tmp_path / name / "net")
    folders = [tmp_path / "a" / "net", tmp_path / "b" / "net"]
    tests = frame.tests_of(ask(ShotsSettings, tmp_path, *folders))
    assert frame.labels(tests) == [f"MAML ({folder})" for folder in folders]
    shutil.copytree(folders[0], tmp_path / "b" / "other")
    tests = frame.tests_of(ask(ShotsSettings, tmp_path, folders[0], tmp_path / "b" / "other"))
    assert frame.labels(tests) == ["MAML (net)", "MAML (other)"]


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        (1, " Intervals of 1 tasks are rough; take at least 30."),
        (29, " Intervals of 29 tasks are rough; take at least 30."),
        (30, ""),
        (10_000, ""),
    ],
)
def test_intervals_of_less_than_thirty_tasks_are_called_rough(tasks, said):
    assert frame.few_tasks([SimpleNamespace(tasks=tasks)]) == said


def test_a_title_says_what_all_tests_of_a_study_have_in_common(trained, tmp_path):
    settings = {"tasks": 1, "query": 3}
    found = shots.run(ask(ShotsSettings, tmp_path, trained["maml"], shots="2", **settings))
    assert found["title"] == "Accuracy by the number of shots: ConvNet-4, made, 3-way 2-shot"
    found = shots.run(ask(ShotsSettings, tmp_path / "b", trained["maml"], shots="1,2", **settings))
    assert found["title"] == "Accuracy by the number of shots: ConvNet-4, made, 3-way"
    away = make_store(tmp_path / "away", smallest=9, source="birds: drawn for tests")
    asked = ask(TransferSettings, tmp_path / "c", trained["maml"], to=str(away.folder), **settings)
    found = transfer.run(asked)
    assert found["title"] == "From small to away: ConvNet-4, made and birds, 3-way 1-shot"


def test_a_study_that_is_resumed_with_fewer_tasks_has_those_that_it_was_begun_with(
    trained, tmp_path, monkeypatch
):
    whole = slots.run(ask(SlotsSettings, tmp_path / "a", trained["maml"]))
    out = tmp_path / "b"
    with monkeypatch.context() as broken:
        broken.setattr(slots, "head_numbers", None)  # measured, then it fails
        with pytest.raises(TypeError):
            slots.run(ask(SlotsSettings, out, trained["maml"]))
    resumed = slots.run(ask(SlotsSettings, out, trained["maml"], tasks=2, resume=True))
    check(resumed)
    assert f" --tasks {TASKS} " in resumed["command"]
    assert resumed["command"] == whole["command"].replace(str(tmp_path / "a"), str(out))
    assert resumed["settings"]["tasks"] == resumed["tests"][0]["tasks"] == TASKS
    assert resumed["data"] == whole["data"]


def test_an_interrupted_study_goes_on_where_it_stopped(trained, tmp_path, monkeypatch):
    whole = permutations_study.run(ask(PermutationsSettings, tmp_path / "a", trained["maml"]))
    measure = permuted.measure_permutations
    seen = []

    def stop(method, loader, orders, numbers):
        for rows in measure(method, loader, orders, numbers):
            seen.append(len(rows))
            if len(seen) == 3:
                raise KeyboardInterrupt
            yield rows

    out = tmp_path / "b"
    monkeypatch.setattr(permuted, "measure_permutations", stop)
    with pytest.raises(KeyboardInterrupt):
        permutations_study.run(ask(PermutationsSettings, out, trained["maml"]))
    assert unfinished_file(out / "study.json").is_file()
    monkeypatch.setattr(permuted, "measure_permutations", measure)
    with pytest.raises(UsageError, match="interrupted work had permutations 6, not 4"):
        permutations_study.run(
            ask(PermutationsSettings, out, trained["maml"], resume=True, sample=4)
        )
    resumed = permutations_study.run(ask(PermutationsSettings, out, trained["maml"], resume=True))
    assert resumed["data"]["MAML"]["by_position"] == whole["data"]["MAML"]["by_position"]


def test_a_study_does_not_take_up_what_another_one_has_measured(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(selection, "choices_result", None)  # measured, then it fails
    with pytest.raises(TypeError):
        selection.run(ask(SelectionSettings, tmp_path, trained["maml"]))
    with pytest.raises(UsageError, match="interrupted work had measured permutations, not shots"):
        shots.run(ask(ShotsSettings, tmp_path, trained["maml"], shots="1", resume=True))


@pytest.mark.parametrize(
    ("study", "kind", "what_follows"),
    [
        (permutations_study, PermutationsSettings, "_repeats"),
        (permutations_study, PermutationsSettings, "_speed"),
        (slots, SlotsSettings, "meta_gradient_norm"),
        (one_task, OneTaskSettings, "describe"),
        (average, AverageSettings, "choices_result"),
    ],
)
def test_what_was_measured_outlives_a_failure_of_what_follows(
    trained, tmp_path, monkeypatch, study, kind, what_follows
):
    whole = study.run(ask(kind, tmp_path / "a", trained["maml"]))

    def fail(*_arguments, **_settings):
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(study, what_follows, fail)
        with pytest.raises(MemoryError):
            study.run(ask(kind, tmp_path / "b", trained["maml"]))
    finished = []
    resumed = study.run(
        ask(kind, tmp_path / "b", trained["maml"], resume=True),
        lambda done, _all, _figures: finished.append(done),
    )
    check(resumed)
    assert not finished, "no task is measured again"
    assert resumed["tests"] == whole["tests"]
    timed = {"adaptations_per_second", "times_loop"}
    of_both = [
        {name: value for name, value in each["data"]["MAML"].items() if name not in timed}
        for each in (whole, resumed)
    ]
    assert of_both[0] == of_both[1]


@pytest.mark.parametrize(("mean", "shown"), [(-0.001, "+0.00"), (0.001, "+0.00"), (-0.01, "-0.01")])
def test_a_difference_that_rounds_to_zero_has_no_minus(mean, shown):
    assert frame.signed(Interval(mean, 0.5)) == f"{shown} ± 0.50"
    assert str(Interval(mean, 0.5)) == f"{shown.removeprefix('+')} ± 0.50"
