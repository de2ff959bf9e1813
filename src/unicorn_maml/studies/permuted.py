"""What the permutations of tasks give: measured once, for three studies.

`permutations`, `selection` and `ensemble` look at the same adaptations, N! for each task. Each of
them keeps what it has measured in its folder, and takes over what another one has kept.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unicorn_maml.data.batches import TaskLoader
from unicorn_maml.errors import UsageError
from unicorn_maml.evaluation.meta_test import MetaTest
from unicorn_maml.evaluation.unfinished import other_setting, read_tests, write_tests
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.permutations import initial_support_logits, permuted_logits
from unicorn_maml.methods.remedies import support_scores
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import PermutedSettings
from unicorn_maml.studies.frame import adapting, batches, run_tests, values_of

__all__ = ["RULES", "measure_permutations", "run_permuted", "scores_of"]

RULES = ("initial-accuracy", "initial-loss", "updated-accuracy", "updated-loss")

# What is measured of each permutation. Accuracies are in percent and of the query images, all of
# them or every second one; scores by the RULES are of the support set, larger is better; `averaged`
# is the accuracy of the averaged predictions of this permutation and all before it.
_MEASURED = ("accuracy", "half", "other half", *RULES, "averaged")

_FILE = "measured.json"
_CALLED = {"weights_sha256": "network", "store_checksum": "store"}


def run_permuted(
    settings: PermutedSettings,
    tests: list[MetaTest],
    orders: Tensor,
    on_progress: OnProgress | None,
) -> None:
    """Run the tests: what they measure of tasks is (8, P), see `scores_of`."""
    for test in tests:
        test.record["permutations"] = len(orders)
        test.record["sample"] = getattr(settings, "sample", None)
        test.record["measured"] = "permutations"
        test.measure = partial(measure_permutations, adapting(test), test.loader, orders)
    if settings.measured and not settings.resume:
        _take_over(settings.measured, tests)
    run_tests(settings, tests, on_progress)
    with suppress(OSError):  # a full disk does not cost the figures
        write_tests(settings.folder / _FILE, tests)


def _take_over(folder: Path, tests: list[MetaTest]) -> None:
    file = folder / _FILE
    if not file.is_file():
        raise UsageError(
            f"{folder} holds no {_FILE}; with --measured name the folder of a finished study "
            "`permutations`, `selection` or `ensemble`."
        )
    kept = read_tests(file)
    for test in tests:
        differences = [other_setting(test.record, earlier["record"]) for earlier in kept]
        if None not in differences:
            what = _CALLED.get(str(differences[0]), differences[0])
            raise UsageError(
                f"What {folder} has measured is of another {what} than is asked for here; leave "
                "--measured out."
            )
        test.per_task = kept[differences.index(None)]["per_task"][: test.tasks]


def scores_of(test: MetaTest) -> dict[str, NDArray[np.float64]]:
    """What was measured, by name, (tasks, P) each."""
    return dict(zip(_MEASURED, values_of(test).swapaxes(0, 1), strict=True))


def measure_permutations(
    method: MAML, loader: TaskLoader, orders: Tensor, numbers: Sequence[int]
) -> Iterator[NDArray[np.float64]]:
    """Rows (t, 8, P) of the tasks with these numbers."""
    for tasks in batches(method, loader, numbers, copies=len(orders)):
        found = permuted_logits(method, tasks, orders, with_support=True)
        assert found.support is not None
        first = initial_support_logits(method, tasks)
        scores = support_scores(first, found.support, tasks.support_labels, orders)
        together = found.query.softmax(-1).cumsum(1)  # means but for a factor
        right = _right(found.query, tasks.query_labels)
        by_image = right.view(*right.shape[:2], -1, tasks.way)  # (t, P, query, way)
        shares = (by_image, by_image[:, :, ::2], by_image[:, :, 1::2])
        rows = [100 * share.mean((-1, -2)) for share in shares]
        rows += [scores[rule].double() for rule in RULES]
        rows.append(100 * _right(together, tasks.query_labels).mean(-1))
        yield torch.stack(rows, 1).cpu().numpy()


def _right(predictions: Tensor, labels: Tensor) -> Tensor:
    """Predictions (t, P, Q, N), labels (t, Q) -> 1 where they agree, else 0, (t, P, Q)."""
    return (predictions.argmax(-1) == labels.unsqueeze(1)).double()
