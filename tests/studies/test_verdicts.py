"""What studies conclude from paired differences."""

import numpy as np
import pytest

from unicorn_maml.intervals import Interval
from unicorn_maml.studies.choices import verdict
from unicorn_maml.studies.policies import describe
from unicorn_maml.studies.verdicts import clear_side


def conclude(*gains: tuple[float, float], tasks: int = 400) -> str:
    """What is said of choices whose gains have exactly these means and deviations."""
    signs = np.resize([1.0, -1.0], tasks)
    columns = [np.full(tasks, 50.0), *(50 + mean + spread * signs for mean, spread in gains)]
    names = ["as given", *(f"rule {number}" for number in range(1, len(columns)))]
    return verdict(np.stack(columns, 1), names, "selection")


@pytest.mark.parametrize(("among", "limit"), [(1, 1.96), (2, 2.241), (4, 2.498), (10, 2.807)])
def test_the_limit_is_that_of_bonferroni(among, limit):
    def side(deviations: float) -> int:
        return clear_side(Interval(mean=deviations, ci95=1.96), among)

    assert [side(limit + 0.001), side(-limit - 0.001)] == [1, -1]
    assert [side(limit - 0.001), side(-limit + 0.001), side(0)] == [0, 0, 0]


def test_no_difference_without_any_deviation_is_not_clear():
    assert clear_side(Interval(0, 0), among=2) == 0


def test_pure_noise_is_seldom_called_clear_however_many_choices_there_are():
    noise = np.random.default_rng(0).normal(size=(2000, 4))  # in standard errors
    alarms = [any(clear_side(Interval(x, 1.96), among=4) for x in row) for row in noise]
    assert 0.03 < np.mean(alarms) < 0.06
    alone = [any(clear_side(Interval(x, 1.96), among=1) for x in row) for row in noise]
    assert np.mean(alone) > 0.15, "what the best of four would be at the limit of one"


def test_the_best_of_several_choices_must_be_better_than_the_best_of_luck():
    # 2.2 standard errors: beyond the limit of one choice, not of four.
    best, others = (2.2, 20.0), [(0.0, 20.0)] * 3
    assert conclude(best) == (
        "selection helps: rule 1 gives +2.20 ± 1.96 points over as given (50.00 ± 0.00%), 400 tasks"
    )
    assert conclude(best, *others).startswith("selection makes no clear difference: rule 1 gives")
    assert conclude((2.6, 20.0), *others).startswith("selection helps: rule 1 gives +2.60")


def test_choices_that_clearly_hurt_are_named():
    assert conclude((-5, 20.0), (0.5, 20.0), (-9, 20.0)) == (
        "selection does not clearly help: rule 2 gives +0.50 ± 1.96 points over as given "
        "(50.00 ± 0.00%), 400 tasks; clearly worse: rule 1 (-5.00 ± 1.96), rule 3 (-9.00 ± 1.96)"
    )
    assert conclude((-5, 20.0), (-9, 20.0)).startswith("selection hurts: rule 1 gives -5.00")
    found = conclude((5, 20.0), (-9, 20.0))
    assert found.startswith("selection helps: rule 1 gives +5.00")
    assert found.endswith("; clearly worse: rule 2 (-9.00 ± 1.96)")


def test_a_clear_gain_comes_before_a_larger_one_that_is_not():
    assert conclude((3, 60.0), (2.5, 10.0)).startswith("selection helps: rule 2 gives +2.50")


def test_few_tasks_get_no_verdict():
    assert conclude((50, 0.1), tasks=29) == (
        "29 tasks are too few to say whether selection helps, take at least 30; in them, rule 1 "
        "gives +50.00 ± 0.04 points over as given (50.00 ± 0.00%)"
    )
    assert conclude((50, 0.1), tasks=30).startswith("selection helps")


def policies(**gains: float) -> dict:
    """A network trained with `mixed`; the gains of other policies have an interval of 1 point."""
    cells = {
        policy: {"gain": {"mean": gain, "ci95": 1.0}, "diverged": 0, "trained": False}
        for policy, gain in gains.items()
    }
    trained = {"accuracy": {"mean": 60.0, "ci95": 2.0}, "diverged": 0, "trained": True}
    return {**cells, "mixed": trained}


def test_policies_are_told_apart_from_that_of_training_by_paired_differences():
    assert describe("MAML", policies(batch=3.0, support=1.1, frozen=-5.0), 100) == (
        "MAML, 60.00 ± 2.00% with `mixed`, as trained: `batch` +3.00 ± 1.00 points, `frozen` "
        "-5.00 ± 1.00 points on the same tasks; cannot be told apart from it: `support` "
        "(+1.10 ± 1.00)."
    )


def test_policies_of_few_tasks_are_not_told_apart():
    found = policies(batch=3.0, frozen=-5.0)
    found["frozen"]["diverged"] = 2
    assert describe("MAML", found, 29) == (
        "MAML, 60.00 ± 2.00% with `mixed`, as trained: 29 tasks are too few to tell policies "
        "apart, take at least 30: `batch` (+3.00 ± 1.00), `frozen` (-5.00 ± 1.00); 2 tasks "
        "diverged with `frozen`."
    )
