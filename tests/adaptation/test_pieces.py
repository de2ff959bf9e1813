"""Batches of tasks, piece by piece."""

import _thread
import signal
import threading
import time

import pytest
import torch

from tasks import MLP, random_tasks
from unicorn_maml.adaptation import pieces
from unicorn_maml.adaptation.network import task_network
from unicorn_maml.adaptation.pieces import run_in_pieces, worker_number, workers_of
from unicorn_maml.errors import DivergedError
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.scoring import predict
from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.models.heads import PerSlotHead
from unicorn_maml.settings import AdaptationSettings
from unicorn_maml.training.meta_step import add_meta_gradient

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def one_by_one(function, tasks: int, device: torch.device) -> list:
    return run_in_pieces(lambda piece: function(piece.start), tasks, 1, device)


@pytest.fixture(autouse=True)
def _two_threads():
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def make(backbone: str = "convnet4", **settings) -> MAML:
    torch.manual_seed(0)
    network = MLP() if backbone == "mlp" else ConvNet4(channels=2, size=16, width=4)
    chosen = AdaptationSettings(**{"inner_steps": 2, "inner_lr": 0.1, **settings})
    return MAML(network.double(), PerSlotHead(network.feature_width, 3).double(), chosen)


def test_results_have_the_order_of_the_pieces_whichever_is_done_first():
    def slow_first(piece: int) -> int:
        time.sleep(0.02 * (4 - piece))
        return piece

    assert one_by_one(slow_first, 5, CPU) == [0, 1, 2, 3, 4]


def test_cores_are_shared_out_and_the_piece_left_over_has_all_of_them():
    def threads(_: int) -> tuple[int, bool]:
        time.sleep(0.01)  # so that one worker does not take all
        return torch.get_num_threads(), threading.current_thread() is threading.main_thread()

    assert one_by_one(threads, 5, CPU) == [(1, False)] * 4 + [(2, True)]
    assert one_by_one(threads, 1, CPU) == [(2, True)]


def test_a_worker_takes_pieces_of_its_own_one_by_one_under_its_own_number():
    torch.set_num_threads(4)  # two for each worker, which might share them out again
    both = threading.Barrier(2)

    def outer(_: int) -> tuple[int, set[int]]:
        both.wait(timeout=60)  # so that one worker does not take all
        inner = one_by_one(lambda _: (worker_number(), threading.current_thread().name), 4, CPU)
        assert {name for _, name in inner} == {threading.current_thread().name}
        return worker_number(), {number for number, _ in inner}

    found = one_by_one(outer, 2, CPU)
    assert sorted(found) == [(0, {0}), (1, {1})]


def test_threads_are_set_afterwards_as_they_were_before():
    one_by_one(lambda piece: piece, 2, CPU)
    assert torch.get_num_threads() == 2
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert seen == [2]


@pytest.mark.parametrize(
    ("tasks", "at_once", "threads", "sizes"),
    [
        (16, 8, 2, [8, 8]),
        (16, 8, 1, [8, 8]),
        (4, 8, 2, [2, 2]),  # every core has something to do
        (20, 8, 2, [5, 5, 5, 5]),
        (3, 1, 2, [1, 1, 1]),
        (1, 8, 2, [1]),
    ],
)
def test_a_batch_is_cut_into_equal_pieces_for_all_cores(tasks, at_once, threads, sizes):
    torch.set_num_threads(threads)
    found = run_in_pieces(lambda piece: piece, tasks, at_once, CPU)
    assert [piece.stop - piece.start for piece in found] == sizes
    assert [row for piece in found for row in range(tasks)[piece]] == list(range(tasks))


def test_a_gpu_takes_one_piece_after_the_other():
    assert workers_of(GPU) == 1
    here = one_by_one(lambda _: threading.current_thread(), 3, GPU)
    assert set(here) == {threading.main_thread()}


@pytest.mark.parametrize("enabled", [True, False])
def test_workers_record_gradients_if_the_caller_does(enabled):
    with torch.set_grad_enabled(enabled):
        assert one_by_one(lambda _: torch.is_grad_enabled(), 2, CPU) == [enabled] * 2


def test_no_two_workers_share_a_network():
    backbone, both = ConvNet4(size=16, width=4), threading.Barrier(2)

    def network(_: int) -> tuple[int, int]:
        both.wait(timeout=60)
        return worker_number(), id(task_network(backbone, 1))

    (first, one), (second, other) = one_by_one(network, 2, CPU)
    assert {first, second} == {0, 1}
    assert one != other


def test_an_error_in_a_piece_ends_the_batch_in_the_calling_thread():
    done, before = [], threading.active_count()

    def fail(piece: int) -> None:
        if piece == 0:
            raise DivergedError("no longer finite")
        time.sleep(0.05)
        done.append(piece)

    with pytest.raises(DivergedError, match=r"^no longer finite$"):
        one_by_one(fail, 100, CPU)
    assert len(done) < 99
    assert threading.active_count() == before
    assert torch.get_num_threads() == 2


@pytest.fixture
def interruptible():
    """Tests that run in the background inherit a SIGINT that is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_batch_and_leaves_no_thread_behind():
    done, before = [], threading.active_count()

    def interrupt(piece: int) -> None:
        time.sleep(0.05)
        if piece == 2:
            _thread.interrupt_main()
        done.append(piece)

    with pytest.raises(KeyboardInterrupt):
        one_by_one(interrupt, 100, CPU)
    assert len(done) < 99
    assert threading.active_count() == before
    assert torch.get_num_threads() == 2


def test_a_diverging_task_on_any_core_is_named_in_one_sentence():
    with pytest.raises(DivergedError, match="try a smaller --inner-lr"):
        predict(make(inner_lr=1e200, inner_steps=4), random_tasks(4))


@pytest.mark.parametrize("backbone", ["convnet4", "mlp"])
@pytest.mark.parametrize("order", [1, 2])
def test_the_number_of_threads_makes_no_difference(backbone, order):
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        method, tasks = make(backbone, order=order), random_tasks(5)
        step = add_meta_gradient(method, tasks, temperature=0.5)
        gradients = [value.grad for value in method.parameters()]
        results.append([predict(method, tasks), step.loss, *gradients, *step.statistics.values()])
    for other in results[1:]:
        for ours, theirs in zip(results[0], other, strict=True):
            torch.testing.assert_close(ours, theirs)


def test_a_run_repeats_itself_exactly():
    def run() -> list[torch.Tensor]:
        method, tasks = make().float(), random_tasks(7)
        for field in ("support_images", "query_images"):
            object.__setattr__(tasks, field, getattr(tasks, field).float())
        step = add_meta_gradient(method, tasks, temperature=0.5)
        return [step.loss, predict(method, tasks), *(value.grad for value in method.parameters())]

    first = run()
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(first, run(), strict=True))


def test_a_gpu_that_is_full_takes_half_as_many_tasks_and_remembers(caplog, monkeypatch):
    monkeypatch.setattr(pieces, "_learned", {})
    sizes = []

    def fits_three(piece):
        sizes.append(piece.stop - piece.start)
        if sizes[-1] > 3:
            raise torch.OutOfMemoryError("full")
        return piece

    found = run_in_pieces(fits_three, 20, 16, GPU)
    assert [row for piece in found for row in range(20)[piece]] == list(range(20))
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
