"""The study of label permutations: what it measures, and how it sums that up."""

import numpy as np
import pytest

from studying import TASKS, accuracy, ask, check
from unicorn_maml.errors import UsageError
from unicorn_maml.methods.permutations import permuted_logits
from unicorn_maml.settings import PermutationsSettings
from unicorn_maml.studies import permutations as permutations_study


def test_permutations_matter_to_maml_and_not_to_unicorn(trained, tmp_path):
    settings = ask(PermutationsSettings, tmp_path, trained["maml"], trained["unicorn"])
    result = permutations_study.run(settings)
    check(result)
    maml, unicorn = result["data"]["MAML"], result["data"]["UNICORN-MAML"]
    assert maml["best_minus_worst"]["mean"] > 0
    assert unicorn["best_minus_worst"] == {"mean": 0, "ci95": 0}
    for found in (maml, unicorn):
        assert found["repeats_best_minus_worst"]["mean"] == 0, "dropout rests: repeats are equal"
        assert len(found["by_position"]) == 6
        assert found["by_position"][0] == found["best"]
        assert found["by_position"][-1] == found["worst"]
        assert sum(found["histogram"]["counts"]) == 6 * TASKS
        assert found["times_loop"] > 0
    assert unicorn["mean"]["mean"] == pytest.approx(accuracy(trained["unicorn"]))


def test_the_code_that_is_timed_is_the_code_of_the_study(trained, tmp_path, monkeypatch):
    asked = []

    def watched(method, tasks, orders):
        asked.append(len(orders))
        return permuted_logits(method, tasks, orders)

    monkeypatch.setattr(permutations_study, "permuted_logits", watched)
    permutations_study.run(ask(PermutationsSettings, tmp_path, trained["maml"], tasks=1))
    measured, repeated = [6], [6]
    assert asked == [*measured, *repeated, 6, 1, *(3 * [6, 1, 1, 1, 1, 1, 1])]


def test_the_lasting_deviation_is_that_of_permutations_without_the_luck_of_their_queries():
    random = np.random.default_rng(0)
    tasks, permutations, lasting, luck = 500, 120, 2.0, 4.0
    true = random.normal(50, 8, (tasks, 1)) + random.normal(0, lasting, (tasks, permutations))
    halves = true[:, None] + random.normal(0, luck, (tasks, 2, permutations))
    found = permutations_study.summarize(np.concatenate([halves.mean(1)[:, None], halves], 1))
    expected = {"deviation": (lasting**2 + luck**2 / 2) ** 0.5, "lasting_deviation": lasting}
    for name, value in expected.items():
        assert found[name]["low"] < value < found[name]["high"]
        assert found[name]["low"] < found[name]["mean"] < found[name]["high"]
        assert found[name]["high"] - found[name]["low"] < 0.2
    one, other = halves[0]
    alone = permutations_study.summarize(np.stack([halves[0].mean(0), one, other])[None])
    assert alone["lasting_deviation"]["mean"] == pytest.approx(np.cov(one, other)[0, 1] ** 0.5)


def test_luck_alone_leaves_no_lasting_deviation():
    halves = np.random.default_rng(1).normal(50, 4, (500, 2, 120))
    found = permutations_study.summarize(np.concatenate([halves.mean(1)[:, None], halves], 1))
    assert found["lasting_deviation"]["mean"] < 0.5 < 2.5 < found["deviation"]["mean"]
    assert found["lasting_deviation"]["low"] == 0


def test_the_held_out_spread_is_chosen_on_one_half_and_scored_on_the_other():
    random = np.random.default_rng(0)
    halves = random.uniform(0, 100, (5, 2, 4))
    found = permutations_study.summarize(np.concatenate([halves.mean(1)[:, None], halves], 1))
    spreads, over_mean = [], []
    for half, other in halves:
        forth = other[half.argmax()] - other[half.argmin()]
        back = half[other.argmax()] - half[other.argmin()]
        spreads.append((forth + back) / 2)
        over_mean.append(
            (other[half.argmax()] - other.mean() + half[other.argmax()] - half.mean()) / 2
        )
    assert found["held_out_best_minus_worst"]["mean"] == pytest.approx(np.mean(spreads))
    assert found["held_out_best_minus_mean"]["mean"] == pytest.approx(np.mean(over_mean))


def test_pure_noise_has_a_large_spread_but_none_that_holds_out():
    random = np.random.default_rng(0)
    halves = random.normal(60, 5, (2000, 2, 120))
    found = permutations_study.summarize(np.concatenate([halves.mean(1)[:, None], halves], 1))
    assert found["best_minus_worst"]["mean"] > 15
    held_out = found["held_out_best_minus_worst"]
    assert abs(held_out["mean"]) < 2 * held_out["ci95"] < 1


def test_a_sample_of_permutations_can_be_drawn_and_too_many_must_be(trained, tmp_path):
    result = permutations_study.run(
        ask(PermutationsSettings, tmp_path, trained["maml"], sample=4, tasks=2)
    )
    assert len(result["data"]["MAML"]["by_position"]) == 4
    settings = ask(PermutationsSettings, tmp_path / "b", trained["unicorn"], way=6)
    with pytest.raises(UsageError, match=r"720 permutations.*--sample 120"):
        permutations_study.run(settings)
