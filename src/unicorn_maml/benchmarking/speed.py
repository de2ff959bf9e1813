"""How fast adaptation, evaluation and meta-training are on this machine."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from unicorn_maml.benchmarking.rows import QUERY, WAY, Row, choose_rows
from unicorn_maml.benchmarking.timing import WARM_UP, measure_in_turn
from unicorn_maml.benchmarking.work import KINDS, build_model, build_work
from unicorn_maml.devices import (
    can_compile,
    choose_device,
    describe_device,
    matrix_teraflops,
    versions,
)
from unicorn_maml.methods.maml import MAML
from unicorn_maml.models.flops import forward_flops, task_flops
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import AdaptationSettings, BenchSettings, Precision, to_json

__all__ = ["measure_speed"]

_INNER_LR = 0.01


def measure_speed(settings: BenchSettings, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Measure every row; return the figures with all that they depend on."""
    device = choose_device(settings.device)
    on_a_gpu = device.type == "cuda"
    precision: Precision = settings.precision or ("bfloat16" if on_a_gpu else "float32")
    tasks = settings.tasks or (64 if on_a_gpu else 8)
    compiled = settings.compile and can_compile(device)
    rows = choose_rows(settings, device)
    calls = len(rows) * len(KINDS) * 2 * (WARM_UP + settings.repeats)
    done = 0

    def on_call() -> None:
        nonlocal done
        done += 1
        if on_progress:
            on_progress(done, calls, {})

    limits = [matrix_teraflops(device, precision)]
    measured = []
    networks: dict[tuple[object, ...], nn.Module] = {}
    for row in rows:
        adaptation = AdaptationSettings(
            inner_steps=row.inner_steps,
            inner_lr=_INNER_LR,
            normalization=settings.normalization,
            precision=precision,
            compile=compiled,
        )
        method = build_model(row, adaptation, device)
        # One network for all rows that have it, because compiled code belongs to a network.
        shape = (row.backbone, row.size, row.channels, row.width)
        method.backbone = networks.setdefault(shape, method.backbone)
        measured.append(_measure_row(row, method, tasks, settings, on_call))
        limits.append(matrix_teraflops(device, precision))
    limit = max(limits)  # of a device that is sometimes disturbed
    for figures in measured:
        for kind in KINDS:
            figures[kind]["share_of_matrix_rate"] = figures[kind]["teraflops"] / limit
    return {
        "settings": {**to_json(settings), "precision": precision, "tasks": tasks},
        "way": WAY,
        "query": QUERY,
        "device": describe_device(device),
        "versions": versions(),
        "compiled": compiled,
        "matrix_teraflops": limit,
        "peak_bytes_of": "tensors on the GPU" if on_a_gpu else "the whole process so far",
        "rows": measured,
    }


def _measure_row(
    row: Row, method: MAML, tasks: int, settings: BenchSettings, on_call: Callable[[], None]
) -> dict[str, Any]:
    device = next(method.parameters()).device
    flops = _flops(row, method)
    figures: dict[str, Any] = {**vars(row), "flops_per_task": flops}
    work = build_work(row, method, tasks=tasks, task_batch=settings.task_batch)
    for kind, (engine, loop) in work.items():
        cost, plain = measure_in_turn(
            [engine.call, loop.call], repeats=settings.repeats, device=device, on_call=on_call
        )
        speed, plain_speed = engine.tasks / cost.seconds, loop.tasks / plain.seconds
        figures[kind] = {
            "tasks_per_second": speed,
            "teraflops": speed * flops[kind] / 1e12,
            "peak_bytes": cost.peak_bytes,
            "plain_loop_tasks_per_second": plain_speed,
            "times_plain_loop": speed / plain_speed,
        }
        if kind == "evaluation":
            figures["same_predictions"] = _agreement(cost.returned, plain.returned)
    return figures


def _flops(row: Row, method: MAML) -> dict[str, int]:
    forward = forward_flops(method.backbone, row.channels, row.size)
    return vars(
        task_flops(forward, support=WAY * row.shot, query=WAY * QUERY, steps=row.inner_steps)
    )


def _agreement(logits: Tensor, plain_logits: Tensor) -> float:
    """The share of queries that get the same class; the plain loop may have fewer tasks."""
    same = logits[: len(plain_logits)].argmax(-1) == plain_logits.argmax(-1)
    return float(same.double().mean())
