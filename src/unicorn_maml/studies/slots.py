"""What a head knows before adaptation, and whether its slots differ.

A linear softmax head sees nothing of what all slots have in common. So the norm of the slots' mean
says nothing about a method; their spread does. The meta-gradient of a vector that all slots share
is zero, and only weight decay moves it: UNICORN-MAML equals a head that starts from zero.
"""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unicorn_maml.data.batches import TaskLoader
from unicorn_maml.evaluation.meta_test import MetaTest
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.scoring import predict
from unicorn_maml.progress import OnProgress
from unicorn_maml.settings import SlotsSettings
from unicorn_maml.studies.frame import (
    adapting,
    batches,
    interval_cell,
    labels,
    run_tests,
    study_result,
    tests_of,
    values_of,
)
from unicorn_maml.training.meta_step import add_meta_gradient

__all__ = ["head_numbers", "meta_gradient_norm", "run"]

_GRADIENT_TASKS = 8  # in a batch


def run(settings: SlotsSettings, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Count predictions by slot before adaptation; measure the head and its meta-gradient."""
    still, moving = tests_of(settings, inner_steps=0), tests_of(settings, split="base")
    for test in still:
        test.measure = partial(_shares, adapting(test), test.loader)
    run_tests(settings, still, on_progress)
    names = labels(still)
    data: dict[str, dict[str, Any]] = {}
    for label, test, trained in zip(names, still, moving, strict=True):
        shares = values_of(test)
        data[label] = {
            "shares": [interval_cell(column) for column in shares.T],
            **head_numbers(adapting(test)),
            "meta_gradient_norm": meta_gradient_norm(trained, test.tasks),
            "history": _history(Path(test.record["checkpoint"])),
        }
    return study_result(
        settings,
        still,
        title="The slots before adaptation",
        conclusion=" ".join(_sentence(label, found) for label, found in data.items()),
        columns=names,
        rows=[
            (
                f"query images in slot {slot} before adaptation (%)",
                [
                    "tie" if found["spread"] == 0 else found["shares"][slot]
                    for found in data.values()
                ],
            )
            for slot in range(still[0].record["way"])
        ]
        + [
            (text, [f"{found[name]:.3g}" for found in data.values()])
            for name, text in (
                ("mean_norm", "norm of the slots' mean"),
                ("spread", "root mean square distance of the slots from their mean"),
                ("meta_gradient_norm", "norm of the head's meta-gradient"),
            )
        ],
        data=data,
    )


def _shares(
    method: MAML, loader: TaskLoader, numbers: Sequence[int]
) -> Iterator[NDArray[np.float64]]:
    """Share of the query images that each slot gets, in percent (t, N)."""
    for tasks in batches(method, loader, numbers):
        winners = predict(method, tasks).argmax(-1)
        slots = torch.arange(tasks.way, device=winners.device)
        shares = (winners.unsqueeze(-1) == slots).double().mean(1) * 100
        yield shares.cpu().numpy()


def head_numbers(method: MAML) -> dict[str, float]:
    """The norm of the mean of the head's slots, and how far they are from it."""
    weight = method.head.get_parameter("weight").detach().double()
    mean = weight.mean(0)
    distances = (weight - mean).norm(dim=1)
    return {"mean_norm": float(mean.norm()), "spread": float(distances.square().mean().sqrt())}


def meta_gradient_norm(test: MetaTest, tasks: int) -> float:
    """Norm of the mean meta-gradient of the head's weights over tasks, as in the training."""
    method = adapting(test)
    weight = method.head.get_parameter("weight")
    mean = torch.zeros_like(weight)
    for start in range(0, tasks, _GRADIENT_TASKS):
        part = test.loader.load(range(start, min(start + _GRADIENT_TASKS, tasks)))
        method.zero_grad()
        with torch.enable_grad():
            add_meta_gradient(method, part, temperature=test.training["temperature"])
        assert weight.grad is not None
        mean += weight.grad * (len(part) / tasks)  # the last part may be smaller
    method.zero_grad()
    method.eval()
    return float(mean.norm())


def _history(checkpoint: Path) -> dict[str, list[float]]:
    """Norms of the head and of its meta-gradient by epoch, where the run's log has them."""
    log = checkpoint.parent / "log.jsonl"
    found: dict[str, list[float]] = {"epoch": [], "head_norm": [], "head_gradient_norm": []}
    if checkpoint.is_dir() and log.is_file():  # those that come with the package have none
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                entry = json.loads(line)
                values = [float(entry[name]) for name in found]
            except (ValueError, TypeError, KeyError):  # an older log, or one cut off
                continue
            for name, value in zip(found, values, strict=True):
                found[name].append(value)
    return found


def _sentence(label: str, found: dict[str, Any]) -> str:
    shares = [cell["mean"] for cell in found["shares"]]
    winner = int(np.argmax(shares))
    before = f"slot {winner} gets {shares[winner]:.1f}% of the query images"
    if found["spread"] == 0:  # equal slots give equal logits, of which the first one counts
        before = "all slots tie, as with a head of zeros"
    return (
        f"{label}: before adaptation {before}; the slots are {found['spread']:.3g} from their "
        f"mean, whose norm is {found['mean_norm']:.3g}; the head's meta-gradient has norm "
        f"{found['meta_gradient_norm']:.2g}."
    )
