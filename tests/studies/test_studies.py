"""Every study on small networks: what it returns, and against what it is checked."""

import json
from fractions import Fraction
from itertools import permutations
from math import factorial
from pathlib import Path

import numpy as np
import pytest
import torch

from conftest import make_store
from studying import ROUGH, TASKS, accuracy, ask, check, interval, per_task, printed, rows
from tasks import small_maml
from unicorn_maml.errors import UsageError
from unicorn_maml.settings import (
    AverageSettings,
    ChanceSettings,
    EnsembleSettings,
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
from unicorn_maml.training import checkpoint
from unicorn_maml.training.meta_step import add_meta_gradient


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
    for label, network in zip(("MAML", "UNICORN-MAML"), both, strict=True):
        own, other = (cell["accuracy"]["mean"] for cell in result["data"][label].values())
        assert own == pytest.approx(accuracy(network))
        assert other == pytest.approx(accuracy(network, store=str(away.folder)))
    with pytest.raises(UsageError, match="is the store that the networks are at home on"):
        transfer.run(ask(TransferSettings, tmp_path / "d", *both, to=str(small_store.folder)))
    with pytest.raises(UsageError, match="takes 16x16 images with 1 channels, but the store has"):
        transfer.run(ask(TransferSettings, tmp_path / "c", *both, to="glyphs"))


def test_shots_compare_networks_on_the_same_tasks_at_the_most_shots(trained, tmp_path):
    networks = [trained["maml"] / "best", trained["unicorn"], trained["maml"] / "last"]
    result = shots.run(ask(ShotsSettings, tmp_path, *networks, shots="1,2"))
    best, unicorn, last = names = result["table"]["columns"]
    one, two = ([per_task(each, shot=shot) for each in networks] for shot in (1, 2))
    said = [
        f"{name}: {interval(at_one)}% at 1 and {interval(at_two)}% at 2 shots."
        for name, at_one, at_two in zip(names, one, two, strict=True)
    ]
    gains = [interval(two[number] - two[0], "+") for number in (1, 2)]
    said += [
        f"{unicorn} minus {best} at 2 shots, same tasks: {gains[0]} points.",
        f"{last} minus {best} at 2 shots, same tasks: {gains[1]} points.",
    ]
    assert result["conclusion"] == " ".join(said) + ROUGH
    for shot, scores in ((1, one), (2, two)):
        cells = rows(result)[f"{shot}-shot (%)"]
        assert list(map(printed, cells)) == list(map(interval, scores))


def test_transfer_compares_networks_on_the_same_tasks_of_the_other_store(trained, tmp_path):
    networks = [trained["maml"] / "best", trained["unicorn"], trained["maml"] / "last"]
    to = str(make_store(tmp_path / "away", smallest=9).folder)
    result = transfer.run(ask(TransferSettings, tmp_path / "a", *networks, to=to))
    best, unicorn, last = names = result["table"]["columns"]
    home, away = ([per_task(each, store=store) for each in networks] for store in (None, to))
    said = [
        f"{name}: {interval(at_home)}% on small and {interval(elsewhere)}% on away."
        for name, at_home, elsewhere in zip(names, home, away, strict=True)
    ]
    gains = [interval(away[number] - away[0], "+") for number in (1, 2)]
    said += [
        f"{unicorn} minus {best} on away, same tasks: {gains[0]} points.",
        f"{last} minus {best} on away, same tasks: {gains[1]} points.",
    ]
    assert result["conclusion"] == " ".join(said) + ROUGH
    for place, scores in (("small", home), ("away", away)):
        cells = rows(result)[f"{place} (%)"]
        assert list(map(printed, cells)) == list(map(interval, scores))


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
        assert found["history"]["epoch"] == [1, 2], "the run's log has the norms of every epoch"
    assert max(unicorn["history"]["head_gradient_norm"]) < 1e-5


def test_a_network_that_comes_with_the_package_is_recorded_by_its_name_alone(
    trained, small_store, tmp_path, monkeypatch
):
    monkeypatch.setattr(checkpoint, "_SHIPPED", tmp_path / "shipped")
    checkpoint.export_checkpoint(trained["maml"], tmp_path / "shipped" / "small-maml")
    monkeypatch.chdir(trained["maml"])  # a run, whose log is of another network
    settings = ask(SlotsSettings, tmp_path, Path("small-maml"), store=str(small_store.folder))
    result = slots.run(settings)
    assert result["tests"][0]["checkpoint"] == "small-maml"
    assert result["data"]["MAML"]["history"]["epoch"] == []


def test_the_spread_of_slots_is_their_root_mean_square_distance_from_their_mean():
    method = small_maml()
    with torch.no_grad():
        method.head.weight[:] = torch.tensor([[6.0, 3, 0, 0], [0, 3, 0, 0], [0, 3, 0, 0]])
    # The mean is (2, 3, 0, 0); the distances from it are 4, 2 and 2.
    expected = {"mean_norm": 13**0.5, "spread": 8**0.5}
    assert slots.head_numbers(method) == pytest.approx(expected)


def test_the_share_of_a_slot_is_that_of_the_query_images_for_which_its_logit_is_largest(
    trained, tmp_path
):
    asked = ask(SlotsSettings, tmp_path, trained["maml"], normalization="batch")
    result = slots.run(asked)
    (test,) = frame.tests_of(asked)
    backbone, head = test.method.backbone.train(), test.method.head  # by the moments of a batch
    tasks, shares = test.loader.load(range(TASKS)), np.zeros((TASKS, 3))
    with torch.no_grad():
        for number, images in enumerate(tasks.query_images):
            logits = backbone(images) @ head.weight.T + head.bias
            for row in logits.tolist():
                shares[number, row.index(max(row))] += 100 / len(logits)
    assert len(np.unique(shares.round(6))) > 3
    expected = [interval(column) for column in shares.T]
    assert list(map(printed, result["data"]["MAML"]["shares"])) == expected
    names = [f"query images in slot {slot} before adaptation (%)" for slot in range(3)]
    assert [printed(rows(result)[name][0]) for name in names] == expected
    winner = shares.mean(0).argmax()
    said = f"slot {winner} gets {shares.mean(0)[winner]:.1f}% of the query images"
    assert f"MAML: before adaptation {said};" in result["conclusion"]


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


def test_a_backbone_that_adapts_nothing_is_refused(tmp_path):
    shipped = Path("miniimagenet-convnet4-pretrained")
    for study, kind in ((steps, StepsSettings), (policies, PoliciesSettings)):
        with pytest.raises(UsageError, match="is a pre-trained backbone, which adapts nothing"):
            study.run(ask(kind, tmp_path, shipped, store="glyphs-84x3"))
