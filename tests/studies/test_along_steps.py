"""The studies that follow the inner steps: steps, freeze and one-task."""

import numpy as np
import pytest

from studying import TASKS, accuracy, ask, check
from unicorn_maml.settings import FreezeSettings, OneTaskSettings, StepsSettings
from unicorn_maml.studies import freeze, one_task, steps


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
    gains = {row["label"]: row["cells"][0] for row in result["table"]["rows"]}
    gain = gains["adapted minus frozen, both after the steps of training (points)"]
    means = [found[part]["query"][2]["mean"] for part in ("backbone adapted", "backbone frozen")]
    assert gain["mean"] == pytest.approx(means[0] - means[1])
    said = f"frozen), chosen on these tasks, and by {gain['mean']:+.2f} ± {gain['ci95']:.2f} after"
    assert f"{said} the 2 steps of training." in result["conclusion"]
