"""python benchmarks/adaptation.py [--size 84] [--width 64] [--steps 10] [--json FILE]

Our engine against a plain loop over tasks, side by side in one run: adaptation plus query
prediction per task, and a meta-training step with several tasks. The plain loop is what a careful
user writes with torch alone: `functional_call`, `autograd.grad`, one task after the other, default
memory layout. The two are timed in turn, repeatedly, so that a noisy machine disturbs both alike;
medians are shown. Both run in one process, with the memory settings of the command line.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.func import functional_call

from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.devices import describe_device
from unicorn_maml.memory import keep_freed_memory
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.scoring import predict
from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.models.heads import ZeroHead
from unicorn_maml.models.resnet12 import ResNet12
from unicorn_maml.settings import AdaptationSettings
from unicorn_maml.training.meta_step import add_meta_gradient

WAY = 5


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--backbone", choices=["convnet4", "resnet12"], default="convnet4")
    parser.add_argument("--size", type=int, default=84, help="side of the images")
    parser.add_argument("--channels", type=int, default=3)
    parser.add_argument("--width", type=int, default=64, help="channels of ConvNet-4")
    parser.add_argument("--shot", type=int, default=1)
    parser.add_argument("--query", type=int, default=15, help="query images per class")
    parser.add_argument("--steps", type=int, default=10, help="inner steps")
    parser.add_argument("--tasks", type=int, default=4, help="tasks of a batch")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    keep_freed_memory()
    torch.manual_seed(0)
    backbone = (
        ResNet12(channels=arguments.channels, size=arguments.size)
        if arguments.backbone == "resnet12"
        else ConvNet4(channels=arguments.channels, size=arguments.size, width=arguments.width)
    ).to(device)
    settings = AdaptationSettings(
        inner_steps=arguments.steps,
        inner_lr=0.01,
        normalization="batch",
        precision=arguments.precision,
    )
    method = MAML(backbone, ZeroHead(backbone.feature_width).to(device), settings)
    tasks = random_tasks(arguments, device)
    ours, loop = predict(method, tasks), loop_predict(method, tasks)
    agreement = (ours.argmax(-1) == loop.argmax(-1)).float().mean().item()

    rows = {
        "adaptation + query prediction": (
            lambda: predict(method, tasks),
            lambda: loop_predict(method, tasks),
        ),
        f"meta-training step, {len(tasks)} tasks": (
            lambda: add_meta_gradient(method, tasks, temperature=0.5),
            lambda: loop_meta_gradient(method, tasks),
        ),
    }
    results = {}
    for name, (engine, plain) in rows.items():
        engine_ms, plain_ms = side_by_side(engine, plain, arguments.repeats, len(tasks), device)
        results[name] = {"engine_ms": engine_ms, "plain_loop_ms": plain_ms}
    print_table(results, arguments, device, agreement)
    if arguments.json:
        options = {name: str(value) for name, value in vars(arguments).items()}
        arguments.json.write_text(
            json.dumps({"options": options, "ms_per_task": results}, indent=1)
        )


def random_tasks(arguments: argparse.Namespace, device: torch.device) -> TaskBatch:
    """Random images: speed does not depend on what they show."""
    shape = (arguments.channels, arguments.size, arguments.size)
    labels = torch.arange(WAY, device=device)
    count = arguments.tasks

    def images(per_class: int) -> Tensor:
        return torch.randn(count, WAY * per_class, *shape, device=device)

    return TaskBatch(
        images(arguments.shot),
        labels.repeat(count, arguments.shot),
        images(arguments.query),
        labels.repeat(count, arguments.query),
        WAY,
    )


def adapt_one(
    method: MAML, images: Tensor, labels: Tensor
) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """The inner loop of one task, with torch alone."""
    backbone, settings = method.backbone.eval(), method.adaptation
    for module in backbone.modules():  # batch statistics, without dropout: as the engine does
        module.training = isinstance(module, torch.nn.BatchNorm2d)
    parameters = {
        name: value.detach().requires_grad_() for name, value in backbone.named_parameters()
    }
    weight, bias = (value.detach().clone().requires_grad_() for value in method.head(WAY))
    for _ in range(settings.inner_steps):
        logits = F.linear(functional_call(backbone, parameters, (images,)), weight, bias)
        loss = F.cross_entropy(logits, labels)
        gradients = torch.autograd.grad(loss, [*parameters.values(), weight, bias])
        values = [
            (value - settings.inner_lr * gradient).detach().requires_grad_()
            for value, gradient in zip([*parameters.values(), weight, bias], gradients, strict=True)
        ]
        parameters = dict(zip(parameters, values[:-2], strict=True))
        weight, bias = values[-2:]
    return parameters, weight, bias


def loop_predict(method: MAML, tasks: TaskBatch) -> Tensor:
    """Adapt and predict task by task."""
    predictions = []
    for number in range(len(tasks)):
        parameters, weight, bias = adapt_one(
            method, tasks.support_images[number], tasks.support_labels[number]
        )
        with torch.no_grad():
            query = tasks.query_images[number]
            features = functional_call(method.backbone, parameters, (query,))
            predictions.append(F.linear(features, weight, bias))
    return torch.stack(predictions)


def loop_meta_gradient(method: MAML, tasks: TaskBatch) -> None:
    """First-order meta-gradients task by task."""
    for number in range(len(tasks)):
        parameters, weight, bias = adapt_one(
            method, tasks.support_images[number], tasks.support_labels[number]
        )
        features = functional_call(method.backbone, parameters, (tasks.query_images[number],))
        loss = F.cross_entropy(F.linear(features, weight, bias) / 0.5, tasks.query_labels[number])
        gradients = torch.autograd.grad(loss, list(parameters.values()))
        for value, gradient in zip(method.backbone.parameters(), gradients, strict=True):
            scaled = gradient / len(tasks)
            value.grad = scaled if value.grad is None else value.grad + scaled


def side_by_side(
    first: Callable[[], object],
    second: Callable[[], object],
    repeats: int,
    tasks: int,
    device: torch.device,
) -> tuple[float, float]:
    """Median milliseconds per task of two functions, called in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats + 1):
        for function, measured in zip((first, second), times, strict=True):
            synchronize(device)
            start = time.perf_counter()
            function()
            synchronize(device)
            measured.append((time.perf_counter() - start) * 1000 / tasks)
    # The first call of each warms up.
    return statistics.median(times[0][1:]), statistics.median(times[1][1:])


def synchronize(device: torch.device) -> None:
    """Wait for a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def print_table(
    results: dict[str, dict[str, float]],
    arguments: argparse.Namespace,
    device: torch.device,
    agreement: float,
) -> None:
    """Print the measurements, ratios and settings."""
    table = Table("ms per task", "engine", "plain loop", "ratio", title=describe_device(device))
    for name, row in results.items():
        ratio = row["plain_loop_ms"] / row["engine_ms"]
        cells = (f"{row['engine_ms']:.1f}", f"{row['plain_loop_ms']:.1f}", f"{ratio:.2f}x")
        table.add_row(name, *cells)
    console = Console()
    console.print(table)
    console.print(
        f"{arguments.backbone}, {arguments.size}x{arguments.size}x{arguments.channels}, "
        f"{WAY}-way {arguments.shot}-shot, {arguments.query * WAY} queries, {arguments.steps} "
        f"steps, {arguments.precision}, torch {torch.__version__}; predictions agree on "
        f"{100 * agreement:.1f}% of the queries."
    )


if __name__ == "__main__":
    main()
