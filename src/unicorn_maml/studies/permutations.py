"""How much the result of a task depends on which class gets which slot.

All permutations of a task start from the same parameters. Their accuracies, sorted for each task
and averaged by position, show what the best and the worst choice would give, if it were known. But
the best of 120 scores on the same query images is partly luck. Three controls say how much: repeats
of one permutation (an inner loop with dropout would differ from itself), the best permutation by
one half of the query images, scored on the other half, and the covariance of the two halves over
the permutations of a task, which is the variance of what they would have on endless queries.
"""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unicorn_maml.evaluation.meta_test import MetaTest
from unicorn_maml.intervals import mean_interval
from unicorn_maml.methods.permutations import (
    MOST_EXACT,
    all_orders,
    permuted_logits,
    sampled_orders,
)
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import OneTaskSettings, PermutationsSettings
from unicorn_maml.studies.frame import (
    adapting,
    few_tasks,
    interval_cell,
    labels,
    study_result,
    tests_of,
)
from unicorn_maml.studies.permuted import measure_permutations, run_permuted, scores_of

__all__ = ["orders_for", "run", "summarize"]

_REPEATED_SHARE, _MOST_REPEATED = 0.1, 20  # of the tasks, solved again and again as they are
_TIMED_PERMUTATIONS = 24
_TIMINGS = 3
_BIN = 2.0  # points, of the histogram


def run(settings: PermutationsSettings, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Solve tasks under all permutations; return what the best, the mean and the worst give."""
    tests = tests_of(settings)
    orders = orders_for(settings, tests[0])
    run_permuted(settings, tests, orders, on_progress)
    data = {}
    for label, test in zip(labels(tests), tests, strict=True):
        found = scores_of(test)
        data[label] = {
            **summarize(found["accuracy"], found["half"], found["other half"]),
            "repeats_best_minus_worst": _repeats(test, orders),
            **_speed(test, orders),
        }
    return study_result(
        settings,
        tests,
        title=f"Accuracy under {len(orders)} label permutations",
        conclusion=_conclusion(data, tests[0].tasks, len(orders)) + few_tasks(tests),
        columns=list(data),
        rows=[(text, [data[label][name] for label in data]) for name, text in _ROWS.items()],
        data=data,
    )


_ROWS = {
    "best": "best permutation of each task (%)",
    "mean": "mean of all permutations (%)",
    "worst": "worst permutation of each task (%)",
    "best_minus_worst": "best minus worst (points)",
    "held_out_best_minus_worst": "best minus worst, chosen on half of the queries (points)",
    "held_out_best_minus_mean": "best minus mean, chosen on half of the queries (points)",
    "deviation": "standard deviation over the permutations of a task (points)",
    "lasting_deviation": "the same without the luck of the queries (points)",
    "repeats_best_minus_worst": "best minus worst of as many repeats of one permutation (points)",
    "adaptations_per_second": "adaptations per second",
    "times_loop": "times as fast as a loop over permutations",
}


def orders_for(settings: PermutationsSettings | OneTaskSettings, test: MetaTest) -> Tensor:
    """The permutations to try."""
    way = test.record["way"]
    if settings.sample:
        return sampled_orders(way, settings.sample, settings.seed)
    return all_orders(way, otherwise=f"say how many to draw, such as --sample {MOST_EXACT}")


def summarize(
    scores: NDArray[np.float64], half: NDArray[np.float64], other: NDArray[np.float64]
) -> dict[str, Any]:
    """Accuracies (tasks, P), of all queries and of two halves -> what a table and a figure show."""
    by_position = [interval_cell(column) for column in -np.sort(-scores, 1).T]
    best, worst, mean = scores.max(1), scores.min(1), scores.mean(1)
    # Each half chooses once and scores once.
    pairs = [(half, other), (other, half)]
    chosen_best = np.mean([_at(score, by.argmax(1)) for by, score in pairs], 0)
    chosen_worst = np.mean([_at(score, by.argmin(1)) for by, score in pairs], 0)
    halves_mean = np.mean([half.mean(1), other.mean(1)], 0)
    deviations = (scores - mean[:, None]).ravel()
    edge = _BIN * (np.ceil(np.abs(deviations).max() / _BIN) + 0.5)
    counts, edges = np.histogram(deviations, np.arange(-edge, edge + _BIN / 2, _BIN))
    return {
        "best": interval_cell(best),
        "mean": interval_cell(mean),
        "worst": interval_cell(worst),
        "best_minus_worst": interval_cell(best - worst),
        "held_out_best_minus_worst": interval_cell(chosen_best - chosen_worst),
        "held_out_best_minus_mean": interval_cell(chosen_best - halves_mean),
        "deviation": _root(_covariance(scores, scores)),
        "lasting_deviation": _root(_covariance(half, other)),
        "by_position": by_position,
        "histogram": {"counts": counts.tolist(), "edges": edges.tolist()},
    }


def _at(scores: NDArray[np.float64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
    return scores[np.arange(len(scores)), columns]


def _covariance(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of two scores (tasks, P) over the permutations of each task."""
    products = (one - one.mean(1, keepdims=True)) * (other - other.mean(1, keepdims=True))
    covariance: NDArray[np.float64] = products.sum(1) / (one.shape[1] - 1)
    return covariance


def _root(variances: NDArray[np.float64]) -> dict[str, float]:
    """The root of a mean variance, and the ends of its interval; below 0 counts as 0."""
    found = mean_interval(variances)
    low, middle, high = np.sqrt(np.maximum(found.mean + found.ci95 * np.array([-1, 0, 1]), 0))
    return {"mean": float(middle), "low": float(low), "high": float(high)}


def _repeats(test: MetaTest, orders: Tensor) -> dict[str, float]:
    """Best minus worst of as many adaptations to the first tasks, all under one permutation."""
    same = orders[:1].expand_as(orders)
    numbers = range(min(_MOST_REPEATED, max(1, round(test.tasks * _REPEATED_SHARE))))
    found = measure_permutations(adapting(test), test.loader, same, numbers)
    scores = np.concatenate(list(found))[:, 0]
    return interval_cell(scores.max(1) - scores.min(1))


def _speed(test: MetaTest, orders: Tensor) -> dict[str, Any]:
    """How fast the study was, and how much faster some permutations are together than in a loop."""
    method, task = adapting(test), test.loader.load([0])
    timed = orders[:_TIMED_PERMUTATIONS]
    together, loop = [], []
    permuted_logits(method, task, timed)  # what is set up only once is not timed
    permuted_logits(method, task, timed[:1])
    for _ in range(_TIMINGS):
        started = time.perf_counter()
        permuted_logits(method, task, timed)
        together.append(time.perf_counter() - started)
        started = time.perf_counter()
        for order in timed:
            permuted_logits(method, task, order[None])
        loop.append(time.perf_counter() - started)
    done = test.tasks_timed * len(orders)
    return {
        "adaptations_per_second": done / test.seconds if test.seconds else None,
        "times_loop": float(np.median(loop) / np.median(together)),
    }


def _conclusion(data: dict[str, Any], tasks: int, orders: int) -> str:
    sentences = []
    for label, found in data.items():
        spread, held_out = found["best_minus_worst"], found["held_out_best_minus_worst"]
        repeats = found["repeats_best_minus_worst"]["mean"]
        text = (
            f"{label}: best minus worst of {orders} permutations {_points(spread)} over {tasks} "
            "tasks"
        )
        if spread["mean"] > 0:
            text += (
                f", {_points(held_out)} where the choice is made on half of the queries and scored "
                f"on the other half; {repeats:.2f} for as many repeats of one permutation; "
                f"standard deviation over permutations {found['deviation']['mean']:.2f} points, "
                f"{_range(found['lasting_deviation'])} without the luck of the queries"
            )
        sentences.append(text + ".")
    return " ".join(sentences)


def _range(cell: dict[str, float]) -> str:
    return f"{cell['mean']:z.2f} ({cell['low']:.2f} to {cell['high']:.2f})"


def _points(cell: dict[str, float]) -> str:
    return f"{cell['mean']:z.2f} ± {cell['ci95']:.2f} points"
