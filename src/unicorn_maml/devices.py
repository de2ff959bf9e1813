"""Where to compute, and with what."""

import importlib.util
import os
import platform
import shutil
import time

import torch

from unicorn_maml import __version__
from unicorn_maml.errors import UsageError
from unicorn_maml.settings import Precision

__all__ = [
    "can_compile",
    "choose_device",
    "describe_device",
    "matrix_teraflops",
    "require_compiler",
    "versions",
]


def choose_device(name: str) -> torch.device:
    """`auto` takes a GPU if there is one; anything else is what PyTorch calls a device."""
    # Shapes repeat thousands of times here, so that looking for the fastest convolution pays.
    torch.backends.cudnn.benchmark = True
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"Unknown device {name!r}; choose auto, cpu, cuda or cuda:N.") from None
    if device.type not in ("cpu", "cuda"):
        raise UsageError(f"Device {name!r} is not supported; choose auto, cpu, cuda or cuda:N.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(f"Device {name!r} is not there; choose --device cpu.")
    return device


def can_compile(device: torch.device) -> bool:
    """Whether networks can be compiled for this device: a GPU, with Triton and a C compiler."""
    compilers = (os.environ.get("CC"), "cc", "gcc", "clang")
    return (
        device.type == "cuda"
        and importlib.util.find_spec("triton") is not None
        and any(shutil.which(name) for name in compilers if name)
    )


def require_compiler(device: torch.device) -> None:
    """Refuse --compile where there is nothing to compile with."""
    if not can_compile(device):
        raise UsageError(
            "--compile needs a GPU, the package triton and a C compiler, which are not all here; "
            "leave it out, or add --no-compile where a configuration file turns it on."
        )


def describe_device(device: torch.device) -> str:
    """Return the card's name, or how many threads compute on the CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {torch.get_num_threads()} threads"


def matrix_teraflops(device: torch.device, precision: Precision) -> float:
    """Measure the device's rate in products of large matrices, in TFLOP/s."""
    side = 8192 if device.type == "cuda" else 1024
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    best = float("inf")
    for _ in range(4):
        started = time.perf_counter()
        product = a @ b
        product[0, 0].item()  # waits for the device
        best = min(best, time.perf_counter() - started)
    return 2 * side**3 / best / 1e12


def versions() -> dict[str, str]:
    """Return the versions that a result was made with."""
    return {
        "unicorn_maml": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
