"""python benchmarks/profile_inner_loop.py [--shot 5] [--inner-steps 20] [--no-compile]

Where the time of one task goes on a GPU, by kind of kernel: adaptation and query prediction of
UNICORN-MAML with ResNet-12, one task at a time, so that no two kernels share the card.
"""

import argparse
import re
from collections import defaultdict

import torch
from rich.console import Console
from rich.table import Table
from torch.profiler import ProfilerActivity, profile

from unicorn_maml.benchmarking.rows import Row
from unicorn_maml.benchmarking.work import build_model, random_tasks
from unicorn_maml.cli.failures import failing_in_a_sentence
from unicorn_maml.devices import choose_device, describe_device
from unicorn_maml.methods.scoring import predict
from unicorn_maml.settings import AdaptationSettings

_CALLS = 5
_KINDS = {
    "convolution, forward": r"fprop|implicit_convolve",
    "convolution, backward to maps": r"dgrad",
    "convolution, backward to weights": r"wgrad",
    "matrix product (1x1 convolution, head)": r"gemm|cutlass|nvjet",
    "layout and precision": r"nchwToNhwc|nhwcToNchw|nchwAddPadding|copy|Memcpy|convert|Memset",
    "fused by the compiler": r"^triton_",
    "normalisation": r"batch_norm|bn_|norm",
    "pooling": r"pool",
    "update of the weights": r"multi_tensor|foreach",
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shot", type=int, default=5, help="support images per class")
    parser.add_argument("--inner-steps", type=int, default=20, help="steps of the inner loop")
    parser.add_argument("--no-compile", action="store_true", help="kernels of the libraries alone")
    parser.add_argument("--names", type=int, default=0, help="print so many kernels by name")
    arguments = parser.parse_args()
    device = choose_device("cuda")
    row = Row(
        backbone="resnet12",
        method="unicorn",
        shot=arguments.shot,
        inner_steps=arguments.inner_steps,
    )
    adaptation = AdaptationSettings(
        inner_steps=row.inner_steps,
        inner_lr=0.01,
        precision="bfloat16",
        compile=not arguments.no_compile,
    )
    method, tasks = build_model(row, adaptation, device), random_tasks(row, 1, device)
    for _ in range(3):
        predict(method, tasks)
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(_CALLS):
        predict(method, tasks)
    end.record()
    torch.cuda.synchronize()
    wall = begin.elapsed_time(end) / _CALLS
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        for _ in range(_CALLS):
            predict(method, tasks)
        torch.cuda.synchronize()
    milliseconds: dict[str, float] = defaultdict(float)
    launches: dict[str, float] = defaultdict(float)
    kernels = recorded.key_averages()
    for kernel in kernels:
        kind = next((k for k, names in _KINDS.items() if re.search(names, kernel.key)), "other")
        milliseconds[kind] += kernel.self_device_time_total / 1000 / _CALLS
        launches[kind] += kernel.count / _CALLS
    busy = sum(milliseconds.values())
    title = (
        f"One task, {row.shot}-shot, {row.inner_steps} steps, bfloat16, "
        f"{'not ' if arguments.no_compile else ''}compiled, {describe_device(device)}: "
        f"{wall:.2f} ms, kernels {busy:.2f} ms"
    )
    table = Table("kernels", "ms", "share", "launches", title=title)
    for kind in sorted(milliseconds, key=lambda name: -milliseconds[name]):
        share = milliseconds[kind] / busy
        table.add_row(kind, f"{milliseconds[kind]:.2f}", f"{share:.0%}", f"{launches[kind]:.0f}")
    console = Console(highlight=False, width=150)
    console.print(table)
    for kernel in sorted(kernels, key=lambda k: -k.self_device_time_total)[: arguments.names]:
        time = kernel.self_device_time_total / 1000 / _CALLS
        console.print(f"{time:8.3f} ms {kernel.count / _CALLS:7.1f}  {kernel.key[:120]}")


if __name__ == "__main__":
    with failing_in_a_sentence():
        main()
