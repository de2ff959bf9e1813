"""The study of label permutations: what it measures, and how it sums that up."""

from dataclasses import replace

import numpy as np
import pytest

from studying import ROUGH, TASKS, accuracy, ask, check, interval, printed, rows
from unicorn_maml.errors import FileError, UsageError
from unicorn_maml.methods.permutations import all_orders, permuted_logits
from unicorn_maml.methods.scoring import predict
from unicorn_maml.settings import EnsembleSettings, PermutationsSettings, SelectionSettings
from unicorn_maml.studies import ensemble, frame, permuted, selection
from unicorn_maml.studies import permutations as permutations_study
from unicorn_maml.training.checkpoint import export_checkpoint

SPEEDS = ("adaptations_per_second", "times_loop")


def made_up(tasks: int, permutations: int = 6, seed: int = 0) -> np.ndarray:
    """What is measured, (tasks, 8, permutations): accuracies of halves and their mean, and more."""
    random = np.random.default_rng(seed)
    true = random.uniform(40, 60, (tasks, 1, 1)) + random.normal(0, 9, (tasks, 1, permutations))
    halves = true + random.normal(0, 3, (tasks, 2, permutations))
    others = random.uniform(0, 100, (tasks, 5, permutations))
    return np.concatenate([halves.mean(1, keepdims=True), halves, others], 1)


def summarize(accuracies: np.ndarray) -> dict:
    """What the study makes of accuracies (tasks, 3 or more, permutations)."""
    return permutations_study.summarize(*accuracies.swapaxes(0, 1)[:3])


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
    assert unicorn["mean"]["mean"] == pytest.approx(accuracy(trained["unicorn"]))


def test_the_code_that_is_timed_is_the_code_of_the_study(trained, tmp_path, monkeypatch):
    asked = []

    def watched(method, tasks, orders, **options):
        asked.append(len(orders))
        return permuted_logits(method, tasks, orders, **options)

    for room in (permuted, permutations_study):
        monkeypatch.setattr(room, "permuted_logits", watched)
    permutations_study.run(ask(PermutationsSettings, tmp_path, trained["maml"], tasks=1))
    measured, repeated = [6], [6]
    assert asked == [*measured, *repeated, 6, 1, *(3 * [6, 1, 1, 1, 1, 1, 1])]


def test_the_lasting_deviation_is_that_of_permutations_without_the_luck_of_their_queries():
    random = np.random.default_rng(0)
    tasks, permutations, lasting, luck = 500, 120, 2.0, 4.0
    true = random.normal(50, 8, (tasks, 1)) + random.normal(0, lasting, (tasks, permutations))
    halves = true[:, None] + random.normal(0, luck, (tasks, 2, permutations))
    found = summarize(np.concatenate([halves.mean(1)[:, None], halves], 1))
    expected = {"deviation": (lasting**2 + luck**2 / 2) ** 0.5, "lasting_deviation": lasting}
    for name, value in expected.items():
        assert found[name]["low"] < value < found[name]["high"]
        assert found[name]["high"] - found[name]["low"] < 0.2
    one, other = halves[0]
    alone = summarize(np.stack([halves[0].mean(0), one, other])[None])
    assert alone["lasting_deviation"]["mean"] == pytest.approx(np.cov(one, other)[0, 1] ** 0.5)


def test_a_deviation_is_the_root_of_a_mean_variance_and_so_are_the_ends_of_its_interval():
    accuracies = made_up(tasks=40)
    found = summarize(accuracies)
    variances = {"deviation": [], "lasting_deviation": []}
    for scores, half, other, *_ in accuracies:
        variances["deviation"].append(np.var(scores, ddof=1))
        variances["lasting_deviation"].append(np.cov(half, other)[0, 1])
    for name, values in variances.items():
        mean, reach = np.mean(values), 1.96 * np.std(values) / 40**0.5
        ends = {"mean": mean**0.5, "low": (mean - reach) ** 0.5, "high": (mean + reach) ** 0.5}
        assert found[name] == pytest.approx(ends)


def test_the_histogram_counts_deviations_from_the_mean_of_a_task_in_bins_of_two_points():
    accuracies = made_up(tasks=40)
    found = summarize(accuracies)["histogram"]
    deviations = [score - np.mean(scores) for scores, *_ in accuracies for score in scores]
    places = [round(deviation / 2) for deviation in deviations]  # 0 is the bin from -1 to 1
    furthest = (len(found["counts"]) - 1) // 2
    assert found["edges"] == [2 * place - 1 for place in range(-furthest, furthest + 2)]
    assert found["counts"] == [places.count(p) for p in range(-furthest, furthest + 1)]
    assert sum(found["counts"]) == 40 * 6


@pytest.mark.parametrize("query", [4, 5])
def test_accuracies_are_those_of_relabelled_tasks_on_every_second_query_image(
    trained, tmp_path, query
):
    (test,) = frame.tests_of(ask(PermutationsSettings, tmp_path, trained["maml"], query=query))
    orders = all_orders(3)
    found = permuted.measure_permutations(test.method, test.loader, orders, range(TASKS))
    found = np.concatenate(list(found))
    tasks = test.loader.load(range(TASKS))
    for column, order in enumerate(orders):
        relabelled = replace(
            tasks,
            support_labels=order[tasks.support_labels],
            query_labels=order[tasks.query_labels],
        )
        right = (predict(test.method, relabelled).argmax(-1) == relabelled.query_labels).numpy()
        for task in range(TASKS):
            by_class = [right[task, tasks.query_labels[task] == each] for each in range(3)]
            halves = [np.mean([row[first::2] for row in by_class]) for first in (0, 1)]
            expected = [100 * share for share in (right[task].mean(), *halves)]
            assert found[task, :3, column] == pytest.approx(expected)
    assert (found[:, 1] != found[:, 2]).any()


@pytest.mark.parametrize(("tasks", "repeated"), [(4, 1), (36, 4), (400, 20)])
def test_a_tenth_of_the_tasks_is_repeated_but_at_most_twenty(
    trained, tmp_path, monkeypatch, tasks, repeated
):
    rows_of = {"permutations": made_up(tasks), "repeats": made_up(tasks, seed=1)}
    asked = []

    def measure(_method, _loader, orders, numbers):
        same = len(orders.unique(dim=0)) == 1
        assert orders.shape == (6, 3)
        asked.append((same, list(numbers)))
        yield rows_of["repeats" if same else "permutations"][list(numbers)]

    for room in (permuted, permutations_study):
        monkeypatch.setattr(room, "measure_permutations", measure)
    monkeypatch.setattr(permutations_study, "_speed", lambda *_: dict.fromkeys(SPEEDS))
    settings = ask(PermutationsSettings, tmp_path, trained["maml"], tasks=tasks)
    result = permutations_study.run(settings)
    check(result)
    assert asked == [(False, list(range(tasks))), (True, list(range(repeated)))]
    scores = rows_of["repeats"][:repeated, 0]
    (cell,) = rows(result)["best minus worst of as many repeats of one permutation (points)"]
    assert printed(cell) == interval(scores.max(1) - scores.min(1))


def test_the_conclusion_says_what_the_table_shows(trained, tmp_path, monkeypatch):
    accuracies = made_up(TASKS)

    def measure(_method, _loader, _orders, numbers):
        yield accuracies[list(numbers)]

    for room in (permuted, permutations_study):
        monkeypatch.setattr(room, "measure_permutations", measure)
    result = permutations_study.run(ask(PermutationsSettings, tmp_path, trained["maml"]))
    scores = accuracies[:, 0]
    cells = {label: row[0] for label, row in rows(result).items()}
    spread = "best minus worst (points)"
    assert printed(cells["best permutation of each task (%)"]) == interval(scores.max(1))
    assert printed(cells["mean of all permutations (%)"]) == interval(scores.mean(1))
    assert printed(cells["worst permutation of each task (%)"]) == interval(scores.min(1))
    assert printed(cells[spread]) == interval(scores.max(1) - scores.min(1))
    held_out = cells["best minus worst, chosen on half of the queries (points)"]
    repeats = cells["best minus worst of as many repeats of one permutation (points)"]
    deviation = cells["standard deviation over the permutations of a task (points)"]
    lasting = cells["the same without the luck of the queries (points)"]
    assert result["conclusion"] == (
        f"MAML: best minus worst of 6 permutations {printed(cells[spread])} points over 6 tasks, "
        f"{printed(held_out)} points where the choice is made on half of the queries and scored on "
        f"the other half; {repeats['mean']:.2f} for as many repeats of one permutation; standard "
        f"deviation over permutations {deviation['mean']:.2f} points, {lasting['mean']:.2f} "
        f"({lasting['low']:.2f} to {lasting['high']:.2f}) without the luck of the queries.{ROUGH}"
    )


def test_speeds_are_those_of_a_clock(trained, tmp_path, monkeypatch):
    together, alone = 0.25, 0.75  # seconds that an adaptation takes
    now = 0.0

    def timed(method, tasks, orders, **options):
        nonlocal now
        now += len(tasks) * len(orders) * (alone if len(orders) == 1 else together)
        return permuted_logits(method, tasks, orders, **options)

    monkeypatch.setattr("time.perf_counter", lambda: now)
    for room in (permuted, permutations_study):
        monkeypatch.setattr(room, "permuted_logits", timed)
    result = permutations_study.run(ask(PermutationsSettings, tmp_path, trained["maml"], tasks=2))
    found = result["data"]["MAML"]
    assert found["adaptations_per_second"] == pytest.approx(1 / together)
    assert found["times_loop"] == pytest.approx(alone / together)
    assert rows(result)["adaptations per second"] == [found["adaptations_per_second"]]
    assert rows(result)["times as fast as a loop over permutations"] == [found["times_loop"]]


def test_luck_alone_leaves_no_lasting_deviation():
    halves = np.random.default_rng(1).normal(50, 4, (500, 2, 120))
    found = summarize(np.concatenate([halves.mean(1)[:, None], halves], 1))
    assert found["lasting_deviation"]["mean"] < 0.5 < 2.5 < found["deviation"]["mean"]
    assert found["lasting_deviation"]["low"] == 0


def test_the_held_out_spread_is_chosen_on_one_half_and_scored_on_the_other():
    random = np.random.default_rng(0)
    halves = random.uniform(0, 100, (5, 2, 4))
    found = summarize(np.concatenate([halves.mean(1)[:, None], halves], 1))
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
    found = summarize(np.concatenate([halves.mean(1)[:, None], halves], 1))
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


@pytest.fixture
def rounded(trained, tmp_path):
    """Another network: MAML's with weights in 8 bits."""
    export_checkpoint(trained["maml"], tmp_path / "rounded")
    return tmp_path / "rounded"


STUDIES = {
    "permutations": (permutations_study, PermutationsSettings),
    "selection": (selection, SelectionSettings),
    "ensemble": (ensemble, EnsembleSettings),
}


@pytest.mark.parametrize("first", STUDIES)
def test_what_one_study_of_permutations_has_measured_serves_the_others(
    trained, rounded, small_store, tmp_path, monkeypatch, first
):
    room, kind = STUDIES[first]
    room.run(ask(kind, tmp_path / "first", trained["maml"], rounded))
    asked = {"store": str(small_store.folder), "tasks": TASKS + 2}
    expected = {
        name: room.run(ask(kind, tmp_path / name, rounded, **asked))["data"]
        for name, (room, kind) in STUDIES.items()
    }
    measure, adapted_to = permuted.measure_permutations, []

    def watched(method, loader, orders, numbers):
        adapted_to.append(list(numbers))
        yield from measure(method, loader, orders, numbers)

    monkeypatch.setattr(permuted, "measure_permutations", watched)
    for name, (room, kind) in STUDIES.items():
        # One of the two networks, and more tasks: only those that are new are adapted to.
        settings = ask(kind, tmp_path / f"{name}-again", rounded, **asked)
        result = room.run(replace(settings, measured=tmp_path / "first"))
        assert "--measured" not in result["command"]
        for data in (result["data"], expected[name]):
            for each in data.values():
                for speed in SPEEDS:
                    each.pop(speed, None)
        assert result["data"] == expected[name]
    assert adapted_to == 3 * [[TASKS, TASKS + 1]]


def test_fewer_tasks_than_were_measured_can_be_taken_over(trained, tmp_path):
    ensemble.run(ask(EnsembleSettings, tmp_path / "first", trained["maml"]))
    asked = {"tasks": 4, "measured": tmp_path / "first"}
    result = selection.run(ask(SelectionSettings, tmp_path / "second", trained["maml"], **asked))
    alone = selection.run(ask(SelectionSettings, tmp_path / "third", trained["maml"], tasks=4))
    assert result["data"] == alone["data"]
    assert result["tests"][0]["tasks"] == 4


@pytest.mark.parametrize(
    ("first", "what"),
    [
        ({"seed": 1}, "another seed"),
        ({"sample": 6}, "another sample"),
        ({}, "is of another network than is asked for here"),
    ],
)
def test_what_was_measured_of_something_else_is_refused(
    trained, rounded, small_store, tmp_path, first, what
):
    network = trained["maml"] if first else rounded
    asked = {"store": str(small_store.folder), **first}
    permutations_study.run(ask(PermutationsSettings, tmp_path / "first", network, **asked))
    settings = ask(
        SelectionSettings, tmp_path / "second", trained["maml"], measured=tmp_path / "first"
    )
    with pytest.raises(UsageError, match=what):
        selection.run(settings)
    file = tmp_path / "first" / "measured.json"
    file.write_text(file.read_text().replace("1", "2", 1))
    with pytest.raises(FileError, match="is damaged"):
        selection.run(settings)
    file.unlink()
    with pytest.raises(UsageError, match=r"holds no measured\.json; with --measured name"):
        selection.run(settings)
