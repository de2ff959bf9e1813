"""python benchmarks/libraries.py [--size 84] [--repeats 3] [--device cuda]

Our engine beside other libraries that run inner loops: adaptation and query prediction, 5-way
1-shot, 75 queries, float32. All adapt the same network from the same values to the same tasks,
normalise by batch statistics, and are called in turn, in one process; medians are shown. Each
library is used as its documentation shows, with first-order gradients. Libraries that are not
installed are named and left out.
"""

import argparse
import copy
import importlib
from collections.abc import Callable

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from unicorn_maml.benchmarking import plain_loop
from unicorn_maml.benchmarking.rows import Row
from unicorn_maml.benchmarking.timing import measure_in_turn
from unicorn_maml.benchmarking.work import build_model, random_tasks
from unicorn_maml.cli.failures import failing_in_a_sentence
from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.devices import choose_device, describe_device
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.scoring import predict
from unicorn_maml.processes import keep_freed_memory
from unicorn_maml.settings import AdaptationSettings

# From support images, their labels and query images of one task to query logits.
Solve = Callable[[Tensor, Tensor, Tensor], Tensor]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--size", type=int, help="side of the images (default: 84, on a CPU 28)")
    parser.add_argument("--tasks", type=int, help="our tasks at once (default: 32, on a CPU 8)")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    arguments = parser.parse_args()
    keep_freed_memory()
    device = choose_device(arguments.device)
    on_a_gpu = device.type == "cuda"
    size = arguments.size or (84 if on_a_gpu else 28)
    tasks = arguments.tasks or (32 if on_a_gpu else 8)
    console = Console(highlight=False)
    installed = []
    for name, (_, advice) in LIBRARIES.items():
        try:
            importlib.import_module(name)
            installed.append(name)
        except ImportError as error:
            console.print(f"{name} is left out ({error}); {advice}.", soft_wrap=True)
    for row in (
        Row(backbone="convnet4", method="maml", inner_steps=10, size=size),
        Row(backbone="resnet12", method="maml", inner_steps=5, size=size),
    ):
        console.print(compare(row, installed, tasks, arguments.repeats, device))
    console.print(f"{describe_device(device)}, float32, torch {torch.__version__}")


def compare(
    row: Row, libraries: list[str], count: int, repeats: int, device: torch.device
) -> Table:
    """Time one network in all libraries."""
    settings = AdaptationSettings(inner_steps=row.inner_steps, inner_lr=0.01, normalization="batch")
    method = build_model(row, settings, device)
    tasks = random_tasks(row, count, device)
    few = tasks[:2]  # all but ours take one task after the other, so two tell as much as many
    calls: dict[str, Callable[[], Tensor]] = {
        "unicorn-maml": lambda: predict(method, tasks),
        "plain loop": lambda: plain_loop.predict(method, few),
    }
    for name in libraries:
        solve = LIBRARIES[name][0](ordinary_module(method), method.adaptation)
        calls[name] = lambda solve=solve: solve_each(solve, few)
    measured = measure_in_turn(list(calls.values()), repeats=repeats, device=device)
    costs = dict(zip(calls, measured, strict=True))
    plain = costs["plain loop"]
    expected = plain.returned.argmax(-1)
    title = f"{row.backbone}, {row.size}x{row.size}x{row.channels}, {row.inner_steps} steps"
    table = Table("", "ms per task", "over plain loop", "same answers", title=title)
    for name, cost in costs.items():
        logits = cost.returned
        speed = len(logits) / cost.seconds
        same = (logits.argmax(-1)[: len(few)] == expected).double().mean().item()
        ratio = speed * plain.seconds / len(few)
        table.add_row(name, f"{1000 / speed:.1f}", f"{ratio:.2f}x", f"{100 * same:.1f}%")
    return table


def ordinary_module(method: MAML) -> nn.Module:
    """A copy of the method's network as one module; batch statistics normalise, dropout rests."""
    head = nn.Linear(1, 1)
    head.weight, head.bias = method.head.weight, method.head.bias
    module = copy.deepcopy(nn.Sequential(method.backbone, head))
    for layer in module.modules():
        layer.training = isinstance(layer, nn.BatchNorm2d)
    return module


def solve_each(solve: Solve, tasks: TaskBatch) -> Tensor:
    """Solve task by task."""
    parts = zip(tasks.support_images, tasks.support_labels, tasks.query_images, strict=True)
    return torch.stack([solve(*part) for part in parts])


def with_learn2learn(module: nn.Module, settings: AdaptationSettings) -> Solve:
    """Adapt clones."""
    from learn2learn import algorithms

    learner = algorithms.MAML(module, lr=settings.inner_lr, first_order=True)

    def solve(support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        clone = learner.clone()
        for _ in range(settings.inner_steps):
            clone.adapt(F.cross_entropy(clone(support), labels))
        with torch.no_grad():
            return clone(query)

    return solve


def with_higher(module: nn.Module, settings: AdaptationSettings) -> Solve:
    """Adapt functional copies of module and optimiser."""
    import higher

    optimizer = torch.optim.SGD(module.parameters(), lr=settings.inner_lr)

    def solve(support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        with higher.innerloop_ctx(
            module, optimizer, copy_initial_weights=False, track_higher_grads=False
        ) as (functional, inner):
            for _ in range(settings.inner_steps):
                inner.step(F.cross_entropy(functional(support), labels))
            with torch.no_grad():
                return functional(query)

    return solve


def with_torchopt(module: nn.Module, settings: AdaptationSettings) -> Solve:
    """Adapt the module itself, and put its state back.

    The optimiser always asks for the graph of second order; `stop_gradient` lets go of it.
    """
    import torchopt

    optimizer = torchopt.MetaSGD(module, lr=settings.inner_lr)
    start = torchopt.extract_state_dict(module), torchopt.extract_state_dict(optimizer)

    def solve(support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        for _ in range(settings.inner_steps):
            optimizer.step(F.cross_entropy(module(support), labels))
            torchopt.stop_gradient(module)
        with torch.no_grad():
            logits: Tensor = module(query)
        torchopt.recover_state_dict(module, start[0])
        torchopt.recover_state_dict(optimizer, start[1])
        return logits

    return solve


LIBRARIES: dict[str, tuple[Callable[[nn.Module, AdaptationSettings], Solve], str]] = {
    "learn2learn": (
        with_learn2learn,
        "pip cannot build its 0.2.0 for Python 3.11 or newer: unpack the source, install cython, "
        "run `python setup.py build_ext --inplace` there and add the folder to PYTHONPATH",
    ),
    "higher": (with_higher, "pip install higher"),
    "torchopt": (with_torchopt, "pip install torchopt"),
}


if __name__ == "__main__":
    with failing_in_a_sentence():
        main()
