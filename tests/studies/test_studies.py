"""Every study on small networks: what it returns, and against what it is checked."""

import json
import shutil
from dataclasses import fields
from fractions import Fraction
from itertools import permutations
from math import factorial
from pathlib import Path

import numpy as np
import pytest

from conftest import make_store
from unicorn_maml.errors import UsageError
from unicorn_maml.evaluation.results import evaluate
from unicorn_maml.evaluation.unfinished import unfinished_file
from unicorn_maml.methods.permutations import permuted_logits
from unicorn_maml.settings import (
    AverageSettings,
    ChanceSettings,
    EnsembleSettings,
    EvaluateSettings,
    FreezeSettings,
    HeatmapSettings,
    OneTaskSettings,
    PermutationsSettings,
    PoliciesSettings,
    SelectionSettings,
    ShotsSettings,
    SlotsSettings,
    StepsSettings,
    TransferSettings,
)
from unicorn_maml.studies import (
    average,
    chance,
    ensemble,
    frame,
    freeze,
    heatmap,
    one_task,
    policies,
    selection,
    shots,
    slots,
    steps,
    transfer,
)
from unicorn_maml.studies import (
    permutations as permutations_study,
)
from unicorn_maml.training.meta_step import add_meta_gradient

TASKS = 6


def ask(kind: type, out: Path, *checkpoints: Path, **settings):
    named = {field.name for field in fields(kind)}
    options = {"tasks": TASKS, "query": 4, "device": "cpu", "out": out, **settings}
    return kind(checkpoints=list(checkpoints), **{k: v for k, v in options.items() if k in named})


def accuracy(checkpoint: Path, **settings) -> float:
    """What `evaluate` says about the same tasks."""
    asked = EvaluateSettings(checkpoint=checkpoint, tasks=TASKS, query=4, device="cpu", **settings)
    return evaluate(asked)["accuracy"]


def check(result: dict) -> None:
    """What holds for every study."""
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["command"].startswith(f"unicorn-maml study {result['study']}")
    assert result["conclusion"].endswith(".")
    width = len(result["table"]["columns"])
    assert all(len(row["cells"]) == width for row in result["table"]["rows"])
    assert {"settings", "versions", "title", "tests"} <= result.keys()


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


def test_selection_compares_rules_that_evaluate_offers_too(trained, tmp_path):
    result = selection.run(ask(SelectionSettings, tmp_path, trained["maml"]))
    check(result)
    found = result["data"]["MAML"]
    assert found["as given"]["accuracy"]["mean"] == pytest.approx(accuracy(trained["maml"]))
    for when in ("initial", "updated"):
        for by in ("accuracy", "loss"):
            remedied = accuracy(trained["maml"], remedy=f"{when}-{by}")
            cell = found[f"by {when} support {by}"]
            assert cell["accuracy"]["mean"] == pytest.approx(remedied)
            difference = remedied - found["as given"]["accuracy"]["mean"]
            assert cell["gain"]["mean"] == pytest.approx(difference)


def test_ensembles_are_those_that_evaluate_offers_too(trained, tmp_path):
    result = ensemble.run(ask(EnsembleSettings, tmp_path, trained["maml"]))
    check(result)
    found = result["data"]["MAML"]
    for choice, remedy in (
        ("one permutation", None),
        ("3 rotations", "rotations"),
        ("all 6 permutations", "ensemble"),
    ):
        expected = accuracy(trained["maml"], remedy=remedy)
        assert found[choice]["accuracy"]["mean"] == pytest.approx(expected)


def test_the_mean_of_the_slots_gives_what_zeros_give(trained, tmp_path):
    result = average.run(ask(AverageSettings, tmp_path, trained["maml"]))
    check(result)
    found = result["data"]["MAML"]
    assert found["learned slots"]["accuracy"]["mean"] == pytest.approx(accuracy(trained["maml"]))
    assert found["mean of the slots"]["accuracy"] == found["zeros"]["accuracy"]


@pytest.mark.parametrize(
    ("study", "kind"),
    [(selection, SelectionSettings), (ensemble, EnsembleSettings), (average, AverageSettings)],
)
def test_a_remedy_for_slots_that_start_alike_is_refused(trained, tmp_path, study, kind):
    with pytest.raises(UsageError, match=r"one vector for all slots.*nothing to mend"):
        study.run(ask(kind, tmp_path, trained["unicorn"]))
    with pytest.raises(UsageError, match="start alike"):
        accuracy(trained["unicorn"], remedy="ensemble")
    with pytest.raises(UsageError, match="start alike"):
        accuracy(trained["maml"], head="average", remedy="ensemble")


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


def test_shots_and_transfer_test_what_they_say(trained, small_store, tmp_path):
    both = trained["maml"], trained["unicorn"]
    result = shots.run(ask(ShotsSettings, tmp_path / "a", *both, shots="2,1"))
    check(result)
    found = result["data"]["UNICORN-MAML"]
    assert found["shots"] == [1, 2]
    expected = accuracy(trained["unicorn"], shot=2)
    assert found["accuracy"][1]["mean"] == pytest.approx(expected)
    away = make_store(tmp_path / "away", smallest=9)
    result = transfer.run(ask(TransferSettings, tmp_path / "b", *both, to=str(away.folder)))
    check(result)
    for label, checkpoint in zip(("MAML", "UNICORN-MAML"), both, strict=True):
        own, other = (cell["accuracy"]["mean"] for cell in result["data"][label].values())
        assert own == pytest.approx(accuracy(checkpoint))
        assert other == pytest.approx(accuracy(checkpoint, store=str(away.folder)))
    with pytest.raises(UsageError, match="is the store that the networks are at home on"):
        transfer.run(ask(TransferSettings, tmp_path / "d", *both, to=str(small_store.folder)))
    with pytest.raises(UsageError, match="takes 16x16 images with 1 channels, but the store has"):
        transfer.run(ask(TransferSettings, tmp_path / "c", *both, to="glyphs"))


def test_a_leak_is_measured_or_refused_never_ignored(trained, tmp_path):
    result = shots.run(ask(ShotsSettings, tmp_path / "a", trained["maml"], shots="1", leak=True))
    leaking = accuracy(trained["maml"], leak=True)
    assert result["data"]["MAML"]["accuracy"][0]["mean"] == pytest.approx(leaking)
    for study, kind in (
        (permutations_study, PermutationsSettings),
        (one_task, OneTaskSettings),
        (selection, SelectionSettings),
        (ensemble, EnsembleSettings),
        (steps, StepsSettings),
        (freeze, FreezeSettings),
        (slots, SlotsSettings),
    ):
        with pytest.raises(UsageError, match=f"The study {kind.study} measures every task by"):
            study.run(ask(kind, tmp_path / "b", trained["maml"], leak=True))
    with pytest.raises(UsageError, match=r"--leak is for methods .* with --normalization mixed"):
        policies.run(ask(PoliciesSettings, tmp_path / "b", trained["maml"], leak=True))


def test_policies_have_differences_to_the_policy_of_the_training(trained, tmp_path):
    result = policies.run(ask(PoliciesSettings, tmp_path, trained["maml"]))
    check(result)
    found = result["data"]["MAML"]
    for policy, cell in found.items():
        expected = accuracy(trained["maml"], normalization=policy)
        assert cell["accuracy"]["mean"] == pytest.approx(expected)
    assert found["mixed"]["trained"]
    assert found["mixed"]["gain"] == {"mean": 0, "ci95": 0}


def test_slots_show_a_shared_vector_without_spread_or_gradient(trained, tmp_path):
    result = slots.run(ask(SlotsSettings, tmp_path, trained["maml"], trained["unicorn"]))
    check(result)
    maml, unicorn = result["data"]["MAML"], result["data"]["UNICORN-MAML"]
    assert unicorn["spread"] == 0 < maml["spread"]
    assert unicorn["meta_gradient_norm"] < 1e-5 < maml["meta_gradient_norm"]
    for found in (maml, unicorn):
        assert sum(cell["mean"] for cell in found["shares"]) == pytest.approx(100)
        assert found["history"]["epoch"] == [1, 2], "the run's log has the norms of every epoch"
    assert max(unicorn["history"]["head_gradient_norm"]) < 1e-5


def test_slots_that_start_alike_tie_and_none_of_them_wins(trained, tmp_path):
    result = slots.run(ask(SlotsSettings, tmp_path, trained["maml"], trained["unicorn"]))
    of_maml, of_unicorn = result["conclusion"].split("UNICORN-MAML: ")
    assert "% of the query images" in of_maml
    assert of_unicorn.startswith("before adaptation all slots tie, as with a head of zeros;")
    for row in result["table"]["rows"][:3]:
        assert row["cells"][1] == "tie"
        assert "mean" in row["cells"][0]


def test_the_meta_gradient_is_the_mean_over_all_tasks_at_the_temperature_of_training(
    trained, tmp_path
):
    asked = ask(SlotsSettings, tmp_path, trained["maml"], split="base")
    (test,) = frame.tests_of(asked)
    assert test.training["temperature"] == 0.5
    add_meta_gradient(test.method, test.loader.load(range(9)), temperature=0.5)
    expected = float(test.method.head.weight.grad.norm())
    assert slots.meta_gradient_norm(test, 9) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("way", [2, 3, 4, 5, 6])
def test_fixed_points_are_counted_as_by_trying_all_permutations(way):
    tried = [sum(place == i for i, place in enumerate(p)) for p in permutations(range(way))]
    counts = chance.fixed_point_counts(way)
    assert counts == [tried.count(kept) for kept in range(way + 1)]


@pytest.mark.parametrize("way", [5, 7, 20, 100])
def test_the_mean_over_permutations_is_exactly_one_class(way):
    counts = chance.fixed_point_counts(way)
    assert sum(counts) == factorial(way)
    assert Fraction(sum(kept * count for kept, count in enumerate(counts)), factorial(way)) == 1


def test_chance_tells_the_counts_of_five_ways():
    result = chance.run(ChanceSettings(way=5))
    check(result)
    assert "1, 0, 10, 20, 45, 44 keep" in result["conclusion"]
    check(chance.run(ChanceSettings(way=30)))


def test_every_cell_of_a_heat_map_is_a_run_that_is_not_repeated(trained, tmp_path, monkeypatch):
    settings = HeatmapSettings(
        recipe=trained["unicorn"],
        steps="2,3",  # one step moves the head of UNICORN-MAML alone, which cannot diverge
        rates="0.01,1e30",
        budget=0.5,
        tasks=4,
        out=tmp_path,
        device="cpu",
    )
    with pytest.raises(UsageError, match="need"):  # 15 queries are too many for the small store
        heatmap.run(settings)
    settings = HeatmapSettings(**{**vars(settings), "query": 3})
    result = heatmap.run(settings)
    check(result)
    assert (tmp_path / "cells" / "2-steps-rate-0.01" / "best").is_dir()
    cells = result["data"]["cells"]
    assert [cell.get("diverged", False) for cell in cells] == [False, True, False, True]
    assert result["data"]["best"]["inner_lr"] == 0.01
    for cell in (cells[0], cells[2]):
        run = json.loads((Path(cell["test"]["checkpoint"]).parent / "result.json").read_text())
        assert cell["validation_accuracy"] == run["validation_accuracy"]
    assert "chosen by validation accuracy" in result["conclusion"]
    assert "50% of the recipe's epochs" in result["conclusion"]
    more_tasks = heatmap.run(HeatmapSettings(**{**vars(settings), "tasks": 5}))["data"]["cells"]
    assert [cell.get("diverged", False) for cell in more_tasks] == [False, True, False, True]
    assert more_tasks[0]["test"]["tasks"] == 5
    result = heatmap.run(settings)
    with pytest.raises(UsageError, match="has --epochs 1, not 2"):
        heatmap.run(HeatmapSettings(**{**vars(settings), "budget": 1.0}))
    monkeypatch.setattr(heatmap, "meta_train", None)
    assert heatmap.run(settings)["data"] == result["data"]


@pytest.mark.parametrize("validated", [True, False])
def test_the_cell_of_a_heat_map_is_chosen_by_validation_where_there_is_any(
    trained, tmp_path, monkeypatch, validated
):
    lucky = {"inner_steps": 1, "inner_lr": 0.1, "accuracy": 70.0, "ci95": 1.0, "test": {}}
    chosen = {"inner_steps": 9, "inner_lr": 0.1, "accuracy": 60.0, "ci95": 1.0, "test": {}}
    if validated:
        lucky["validation_accuracy"], chosen["validation_accuracy"] = 50.0, 65.0
    monkeypatch.setattr(heatmap, "_run_all", lambda *_: [lucky, chosen])
    settings = HeatmapSettings(
        recipe=trained["maml"], steps="1,9", rates="0.1", out=tmp_path, device="cpu"
    )
    result = heatmap.run(settings)
    check(result)
    if validated:
        assert result["data"]["best"] == chosen
        assert (
            "best with 9 inner steps at 0.1, 60.00 ± 1.00% on 200 novel tasks (70.00 ± 1.00% with "
            "the best of at most 5 steps), chosen by validation accuracy;"
        ) in result["conclusion"]
    else:
        assert result["data"]["best"] == lucky
        assert "on 200 novel tasks, chosen on these tasks;" in result["conclusion"]


def test_cells_can_run_in_processes(trained, tmp_path):
    shared = {"recipe": trained["maml"], "steps": "1", "rates": "0.01,0.1", "tasks": 3}
    shared |= {"query": 3, "device": "cpu", "budget": 0.5}
    alone = heatmap.run(HeatmapSettings(**shared, out=tmp_path / "a"))
    together = heatmap.run(HeatmapSettings(**shared, out=tmp_path / "b", workers=2))

    def scores(result: dict) -> list[float]:
        return [cell["accuracy"] for cell in result["data"]["cells"]]

    assert scores(alone) == pytest.approx(scores(together))


def test_an_interrupted_study_goes_on_where_it_stopped(trained, tmp_path, monkeypatch):
    whole = permutations_study.run(ask(PermutationsSettings, tmp_path / "a", trained["maml"]))
    measure = permutations_study.measure_permutations
    seen = []

    def stop(method, loader, orders, numbers):
        for rows in measure(method, loader, orders, numbers):
            seen.append(len(rows))
            if len(seen) == 3:
                raise KeyboardInterrupt
            yield rows

    out = tmp_path / "b"
    monkeypatch.setattr(permutations_study, "measure_permutations", stop)
    with pytest.raises(KeyboardInterrupt):
        permutations_study.run(ask(PermutationsSettings, out, trained["maml"]))
    assert unfinished_file(out / "study.json").is_file()
    monkeypatch.setattr(permutations_study, "measure_permutations", measure)
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
    with pytest.raises(UsageError, match="interrupted work had study selection, not ensemble"):
        ensemble.run(ask(EnsembleSettings, tmp_path, trained["maml"], resume=True))


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


def test_a_backbone_that_adapts_nothing_is_refused(tmp_path):
    shipped = Path("miniimagenet-convnet4-pretrained")
    for study, kind in ((steps, StepsSettings), (policies, PoliciesSettings)):
        with pytest.raises(UsageError, match="is a pre-trained backbone, which adapts nothing"):
            study.run(ask(kind, tmp_path, shipped, store="glyphs-84x3"))
