"""Batches of tasks, piece by piece."""

import threading
from itertools import chain

import pytest
import torch

from tasks import random_tasks
from unicorn_maml.adaptation import pieces
from unicorn_maml.adaptation.pieces import run_in_pieces
from unicorn_maml.errors import DivergedError
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.scoring import predict
from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.models.heads import PerSlotHead
from unicorn_maml.settings import AdaptationSettings
from unicorn_maml.training.meta_step import add_meta_gradient

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def parts(found: list[slice]) -> list[list[int]]:
    return [list(range(piece.start, piece.stop)) for piece in found]


@pytest.mark.usefixtures("two_threads")
def test_pieces_come_back_in_order_and_hold_every_task_once():
    for tasks in (1, 2, 5, 8, 33):
        for at_once in (1, 3, 8):
            found = parts(run_in_pieces(lambda piece: piece, tasks, at_once, CPU))
            assert list(chain(*found)) == list(range(tasks))
            assert max(len(part) for part in found) <= at_once


@pytest.mark.usefixtures("two_threads")
def test_two_cores_take_different_pieces_at_the_same_time():
    meeting = threading.Barrier(2, timeout=10)  # broken unless both arrive
    run_in_pieces(lambda _: meeting.wait(), 2, 1, CPU)
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_workers_inherit_whether_gradients_are_wanted():
    for wanted in (True, False):
        with torch.set_grad_enabled(wanted):
            seen = run_in_pieces(lambda _: torch.is_grad_enabled(), 2, 1, CPU)
        assert seen == [wanted] * 2


@pytest.mark.usefixtures("two_threads")
def test_an_error_in_a_worker_reaches_the_caller():
    def fail(piece):
        raise DivergedError(f"task {piece.start}")

    with pytest.raises(DivergedError, match="task 0"):
        run_in_pieces(fail, 4, 1, CPU)
    assert torch.get_num_threads() == 2


def test_results_do_not_depend_on_how_many_cores_there_are():
    torch.manual_seed(0)
    tasks = random_tasks(5)
    backbone = ConvNet4(channels=2, size=16, width=4).double()
    method = MAML(backbone, PerSlotHead(4, 3).double(), AdaptationSettings(inner_steps=2))
    results, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            method.zero_grad()
            step = add_meta_gradient(method, tasks, temperature=0.5)
            gradients = [value.grad.clone() for value in method.parameters()]
            values = [step.loss, step.accuracy, *step.statistics.values()]
            results.append([*values, *gradients, predict(method, tasks)])
    finally:
        torch.set_num_threads(before)
    for first, second in zip(*results, strict=True):
        torch.testing.assert_close(first, second)


def test_a_gpu_that_is_full_takes_half_as_many_tasks_and_remembers(caplog, monkeypatch):
    monkeypatch.setattr(pieces, "_learned", {})
    sizes = []

    def fits_three(piece):
        sizes.append(piece.stop - piece.start)
        if sizes[-1] > 3:
            raise torch.OutOfMemoryError("full")
        return piece

    found = parts(run_in_pieces(fits_three, 20, 16, GPU))
    assert list(chain(*found)) == list(range(20))
    assert sizes[:4] == [16, 8, 4, 2]
    assert "going on with 2 tasks at once" in caplog.text
    sizes.clear()
    run_in_pieces(fits_three, 20, 16, GPU)
    assert max(sizes) == 2


def test_a_gpu_on_which_one_task_does_not_fit_says_so():
    def full(_):
        raise torch.OutOfMemoryError("full")

    with pytest.raises(torch.OutOfMemoryError):
        run_in_pieces(full, 4, 4, GPU)
