"""The studies that follow the inner steps: steps, freeze and one-task."""

import numpy as np
import pytest

from studying import ROUGH, TASKS, accuracy, ask, check, interval, printed, rows
from unicorn_maml.settings import FreezeSettings, OneTaskSettings, StepsSettings
from unicorn_maml.studies import freeze, one_task, steps


def made_up(seed: int, best: int, tasks: int = TASKS) -> np.ndarray:
    """What is measured, (tasks, 3, 5): support and query accuracies after 0..4 steps, finite."""
    random = np.random.default_rng(seed)
    support, query = random.uniform(20, 60, (2, tasks, 5))
    query[:, best] += 40
    return np.stack([support, query, np.ones((tasks, 5))], 1)


def measuring(values_of):
    """Stands in for `measure_steps`; `values_of` a method and a loader are what it finds."""

    def measure(method, loader, numbers):
        yield values_of(method, loader)[list(numbers)]

    return measure


def test_one_task_follows_every_permutation_from_chance(trained, tmp_path):
    result = one_task.run(ask(OneTaskSettings, tmp_path, trained["maml"], task=3, inner_steps=4))
    check(result)
    curves = result["data"]["MAML"]
    assert np.shape(curves["query"]) == np.shape(curves["support"]) == (6, 5)
    assert result["tests"][0]["task"] == 3
    # Before adaptation all permutations see the same winners, so their mean is exactly chance.
    assert np.mean(curves["query"], 0)[0] == pytest.approx(100 / 3)


@pytest.mark.parametrize(
    ("support", "said"),
    [
        ([[60, 100, 100, 100], [60, 100, 80, 100]], "all of them fit the support set from step 3"),
        ([[60, 100, 100, 100], [60, 80, 100, 100]], "all of them fit the support set from step 2"),
        ([[100, 100], [100, 100]], "all of them fit the support set from step 0 on."),
        ([[60, 100, 100], [60, 100, 80]], "; 50% of them fit the whole support set at the end."),
    ],
)
def test_permutations_fit_from_the_step_after_which_none_loses_its_fit(support, said):
    found = {"support": support, "query": support, "diverged": 0}
    assert said in one_task.describe("MAML", found)


def test_one_task_has_the_worst_and_the_best_permutation_before_and_after_adaptation(
    trained, tmp_path, monkeypatch
):
    support = [[33, 60, 100], [30, 65, 80], [36, 70, 90]]
    query = [[35, 50, 70], [31, 55, 85], [32, 45, 75]]
    finite = [[1, 1, 1], [1, 1, 0], [1, 0, 0]]
    curves = np.stack([support, query, finite], 1).astype(float)  # (3, 3, 3)

    def measure(*_):
        yield curves

    monkeypatch.setattr(one_task, "_measure", measure)
    result = one_task.run(ask(OneTaskSettings, tmp_path, trained["maml"], sample=3))
    check(result)
    assert rows(result) == {
        "query accuracy before adaptation (%)": ["31.0 to 35.0"],
        "query accuracy after the last step (%)": ["70.0 to 85.0"],
        "support accuracy before adaptation (%)": ["30.0 to 36.0"],
        "support accuracy after the last step (%)": ["80.0 to 100.0"],
    }
    assert result["conclusion"] == (
        "MAML: query accuracy of the permutations is 31.0 to 35.0% before adaptation and 70.0 to "
        "85.0% after 2 steps; 2 of 3 permutations diverged; 33% of them fit the whole support set "
        "at the end."
    )


def test_one_task_shows_how_many_permutations_are_done_and_goes_on_from_there(
    trained, tmp_path, monkeypatch
):
    def two_at_once(_method, tasks):
        for start in range(0, len(tasks), 2):
            yield tasks[start : start + 2]

    monkeypatch.setattr(one_task, "wide_batches", two_at_once)
    whole = one_task.run(ask(OneTaskSettings, tmp_path / "a", trained["maml"]))
    shown = []

    def interrupt(done, every, _figures):
        shown.append((done, every))
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        one_task.run(ask(OneTaskSettings, tmp_path / "b", trained["maml"]), interrupt)
    again = ask(OneTaskSettings, tmp_path / "b", trained["maml"], resume=True)
    resumed = one_task.run(again, lambda done, every, _figures: shown.append((done, every)))
    assert shown == [(2, 6), (4, 6), (6, 6)]
    assert resumed["data"] == whole["data"]
    assert resumed["tests"][0]["tasks"] == 1


def test_one_task_names_permutations_that_diverge(trained, tmp_path):
    both = trained["maml"], trained["unicorn"]
    result = one_task.run(ask(OneTaskSettings, tmp_path, *both, inner_steps=6, inner_lr=1e30))
    check(result)
    of_maml, of_unicorn = result["conclusion"].split("UNICORN-MAML: ")
    for said, label in ((of_maml, "MAML"), (of_unicorn, "UNICORN-MAML")):
        diverged = result["data"][label]["diverged"]
        assert (f"after 6 steps; {diverged} of 6 permutations diverged;" in said) == (diverged > 0)
    assert result["data"]["MAML"]["diverged"] == 6


def test_steps_pass_through_what_evaluate_finds_for_each_number_of_steps(trained, tmp_path):
    settings = ask(StepsSettings, tmp_path, trained["maml"], trained["unicorn"], inner_steps=3)
    result = steps.run(settings)
    check(result)
    for label, name in (("MAML", "maml"), ("UNICORN-MAML", "unicorn")):
        for split in ("base", "novel"):
            found = result["data"][label][split]
            for step, cell in enumerate(found["query"]):
                expected = accuracy(trained[name], inner_steps=step, split=split)
                assert cell["mean"] == pytest.approx(expected)
            assert len(found["support"]) == 4
            assert found["trained_steps"] == 2


def test_steps_say_how_much_the_best_step_has_over_one_step(trained, tmp_path, monkeypatch):
    found = {"base": made_up(0, best=4), "novel": made_up(1, best=3)}
    measure = measuring(lambda _method, loader: found[loader.sampler.split])
    monkeypatch.setattr(steps, "measure_steps", measure)
    result = steps.run(ask(StepsSettings, tmp_path, trained["maml"], inner_steps=4))
    check(result)
    base, novel = (found[split][:, 1] for split in ("base", "novel"))
    assert result["conclusion"] == (
        f"MAML: {interval(novel[:, 0])}% before adaptation and {interval(novel[:, 3])}% at the "
        f"best step, 3, chosen on these tasks ({interval(novel[:, 3] - novel[:, 1])} points above "
        f"one step).{ROUGH}"
    )
    cells = {label: row[0] for label, row in rows(result).items()}
    assert cells.pop("novel classes, best step") == 3
    assert [cells.pop(f"{split} tasks that diverged") for split in found] == [0, 0]
    assert {label: printed(cell) for label, cell in cells.items()} == {
        "base classes, before adaptation (%)": interval(base[:, 0]),
        "base classes, after the last step (%)": interval(base[:, 4]),
        "novel classes, before adaptation (%)": interval(novel[:, 0]),
        "novel classes, after the last step (%)": interval(novel[:, 4]),
        "novel classes, at the best step (%)": interval(novel[:, 3]),
    }
    for split, values in found.items():
        curve = result["data"]["MAML"][split]
        assert curve["best_step"] == {"base": 4, "novel": 3}[split]
        for row, name in enumerate(("support", "query")):
            assert list(map(printed, curve[name])) == list(map(interval, values[:, row].T))


@pytest.mark.parametrize("best", [0, 1])
def test_a_best_step_that_is_the_first_or_none_is_not_set_against_one_step(
    trained, tmp_path, monkeypatch, best
):
    measure = measuring(lambda *_: made_up(0, best, tasks=30))
    monkeypatch.setattr(steps, "measure_steps", measure)
    settings = ask(StepsSettings, tmp_path, trained["maml"], inner_steps=4, tasks=30)
    said = steps.run(settings)["conclusion"]
    assert said.endswith(f"% at the best step, {best}, chosen on these tasks.")


def test_diverging_steps_are_counted_not_hidden(trained, tmp_path):
    settings = ask(StepsSettings, tmp_path, trained["unicorn"], inner_steps=6, inner_lr=1e30)
    result = steps.run(settings)
    check(result)
    assert "chosen on these tasks" in result["conclusion"]
    counts = {row["label"]: row["cells"] for row in result["table"]["rows"]}
    for split in ("base", "novel"):
        diverged = result["data"]["UNICORN-MAML"][split]["diverged"]
        assert diverged > 0
        assert f"{diverged} of {TASKS} {split} tasks diverged" in result["conclusion"]
        assert counts[f"{split} tasks that diverged"] == [diverged]


def test_tasks_that_diverge_are_counted_for_both_ways_to_adapt(trained, tmp_path):
    settings = ask(FreezeSettings, tmp_path, trained["unicorn"], inner_steps=6, inner_lr=1e30)
    result = freeze.run(settings)
    check(result)
    counts = {row["label"]: row["cells"] for row in result["table"]["rows"]}
    for part, found in result["data"]["UNICORN-MAML"].items():
        diverged = found["diverged"]
        assert counts[f"{part}: tasks that diverged"] == [diverged]
        said = f"{diverged} of {TASKS} tasks, {part}, diverged" in result["conclusion"]
        assert said == (diverged > 0)
    assert result["data"]["UNICORN-MAML"]["backbone adapted"]["diverged"] > 0


def test_freeze_compares_both_ways_to_adapt(trained, tmp_path):
    result = freeze.run(ask(FreezeSettings, tmp_path, trained["unicorn"], inner_steps=2))
    check(result)
    found = result["data"]["UNICORN-MAML"]
    for part, adapt in (("backbone adapted", "all"), ("backbone frozen", "head")):
        expected = accuracy(trained["unicorn"], adapt=adapt)
        assert found[part]["query"][2]["mean"] == pytest.approx(expected)
    assert "after the 2 steps of training." in result["conclusion"]


def test_freeze_says_what_adapting_the_backbone_gives_at_the_best_steps_and_at_those_of_training(
    trained, tmp_path, monkeypatch
):
    found = {"all": made_up(0, best=3), "head": made_up(1, best=1)}
    measure = measuring(lambda method, _loader: found[method.adaptation.adapt])
    monkeypatch.setattr(freeze, "measure_steps", measure)
    result = freeze.run(ask(FreezeSettings, tmp_path / "a", trained["unicorn"], inner_steps=4))
    check(result)
    adapted, frozen = (found[part][:, 1] for part in ("all", "head"))
    at_best, as_trained = adapted[:, 3] - frozen[:, 1], adapted[:, 2] - frozen[:, 2]
    said = (
        f"UNICORN-MAML: adapting the backbone changes accuracy by {interval(at_best, '+')} points, "
        "each at its best step (3 adapted, 1 frozen), chosen on these tasks"
    )
    assert result["conclusion"] == (
        f"{said}, and by {interval(as_trained, '+')} after the 2 steps of training.{ROUGH}"
    )
    cells = {label: row[0] for label, row in rows(result).items()}
    at_steps_of_training = "adapted minus frozen, both after the steps of training (points)"
    expected = {
        "backbone adapted, at its best step (%)": adapted[:, 3],
        "backbone frozen, at its best step (%)": frozen[:, 1],
        "adapted minus frozen, each at its best step, same tasks (points)": at_best,
        at_steps_of_training: as_trained,
    }
    assert {label: printed(cells[label]) for label in expected} == {
        label: interval(values) for label, values in expected.items()
    }
    found = {part: values[:, :, :2] for part, values in found.items()}  # too few for the training
    result = freeze.run(ask(FreezeSettings, tmp_path / "b", trained["unicorn"], inner_steps=1))
    check(result)
    assert rows(result)[at_steps_of_training] == [None]
    assert "steps of training" not in result["conclusion"]
