"""python benchmarks/precision.py STORE [--backbone NAME] [--tasks 1000] [--shots 1 5]

What bfloat16 costs: accuracies of bfloat16 and of float32 on the same real tasks, for the paper's
inner loops, with the paired difference. TF32, which PyTorch allows in convolutions by default, is
off unless --tf32 is given, so that float32 is float32.
"""

import argparse
import time
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from unicorn_maml.benchmarking.rows import Row
from unicorn_maml.benchmarking.work import build_model
from unicorn_maml.cli.failures import failing_in_a_sentence
from unicorn_maml.data.batches import TaskLoader
from unicorn_maml.data.sources import open_store
from unicorn_maml.data.tasks import TaskSampler
from unicorn_maml.devices import can_compile, choose_device, describe_device
from unicorn_maml.intervals import mean_interval
from unicorn_maml.methods.scoring import iterate_accuracies
from unicorn_maml.models.build import build_backbone
from unicorn_maml.processes import keep_freed_memory
from unicorn_maml.settings import AdaptationSettings, MethodName, Precision
from unicorn_maml.training.checkpoint import load_backbone, load_checkpoint

# Method, shots, steps, rate: the paper's with ResNet-12 on MiniImageNet.
_LOOPS: list[tuple[MethodName, int, int, float]] = [
    ("unicorn", 1, 5, 0.1),
    ("maml", 1, 15, 0.05),
    ("unicorn", 5, 20, 0.1),
    ("maml", 5, 20, 0.1),
]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("store", help="store folder")
    parser.add_argument(
        "--backbone", default="miniimagenet-resnet12-pretrained", help="pre-trained checkpoint"
    )
    parser.add_argument("--tasks", type=int, default=1000, help="novel tasks for each row")
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 5], help="rows to measure")
    parser.add_argument("--tf32", action="store_true", help="allow TF32, as PyTorch does")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    arguments = parser.parse_args()
    keep_freed_memory()
    torch.backends.cudnn.allow_tf32 = arguments.tf32
    device = choose_device(arguments.device)
    checkpoint = load_checkpoint(arguments.backbone)
    store = open_store(arguments.store)
    # One network for all rows, because compiled code belongs to a network.
    spec = replace(checkpoint.spec.features, size=store.size, channels=store.channels)
    backbone = build_backbone(spec)
    load_backbone(checkpoint.folder, backbone, spec)
    backbone.to(device)
    print(
        f"{checkpoint.folder.name}, {arguments.tasks} novel tasks, mixed, "
        f"{describe_device(device)}{', TF32' if arguments.tf32 else ''}"
    )
    for method, shot, steps, rate in _LOOPS:
        if shot not in arguments.shots:
            continue
        row = Row(backbone=spec.backbone, method=method, shot=shot, inner_steps=steps)
        sampler = TaskSampler(store, "novel", way=5, shot=shot, query=15, seed=0)
        loader = TaskLoader(
            sampler,
            pixel_mean=checkpoint.pixel_mean,
            pixel_std=checkpoint.pixel_std,
            device=device,
        )
        wide, wide_seconds = _scores(backbone, row, rate, "float32", loader, arguments.tasks)
        low, low_seconds = _scores(backbone, row, rate, "bfloat16", loader, arguments.tasks)
        gain = mean_interval(low - wide)
        print(
            f"{method} {shot}-shot, {steps} steps: float32 {mean_interval(wide)} "
            f"({wide_seconds:.0f} s), bfloat16 {mean_interval(low)} ({low_seconds:.0f} s), "
            f"difference {gain.mean:+.3f} ± {gain.ci95:.3f}; "
            f"{np.mean(low == wide):.1%} of tasks have the same accuracy",
            flush=True,
        )


def _scores(
    backbone: nn.Module,
    row: Row,
    rate: float,
    precision: Precision,
    loader: TaskLoader,
    tasks: int,
) -> tuple[NDArray[np.float64], float]:
    """Accuracies of all tasks, and the seconds that they took."""
    adaptation = AdaptationSettings(
        inner_steps=row.inner_steps,
        inner_lr=rate,
        precision=precision,
        compile=can_compile(loader.device),
    )
    torch.manual_seed(0)  # of a per-slot head, which is as it would be before meta-training
    method = build_model(row, adaptation, loader.device)
    method.backbone = backbone
    started = time.perf_counter()
    scores = np.concatenate(list(iterate_accuracies(method, loader, range(tasks))))
    return scores, time.perf_counter() - started


if __name__ == "__main__":
    with failing_in_a_sentence():
        main()
