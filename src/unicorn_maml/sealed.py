"""Tensors and descriptions on disk, sealed by checksums: nothing is unpickled, and a changed byte
is refused before it is parsed.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from unicorn_maml.errors import NONSENSE, FileError
from unicorn_maml.files import read_json, write_json

__all__ = ["UNFIT", "read_sealed", "read_tensors", "reason_of", "write_sealed", "write_tensors"]

UNFIT = (*NONSENSE, RuntimeError)  # what a description and its tensors cause


def reason_of(error: Exception) -> str:
    """Return the first line of what an error says, or what it is."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def write_sealed(path: Path, description: dict[str, Any]) -> None:
    """Write a description as JSON, with its checksum."""
    write_json(path, {**description, "checksum": _checksum(description)})


def read_sealed(path: Path) -> dict[str, Any]:
    """Read a description; FileError if it is not as it was written."""
    try:
        description = read_json(path)
        known = isinstance(description, dict) and "format" in description
    except OSError as error:
        raise FileError(f"Cannot read {path} ({error.strerror}); check the file.") from error
    except (ValueError, RecursionError):
        known = False
    if not known:
        raise FileError(f"{path} is damaged or of another program; use an unchanged copy.")
    checksum = description.pop("checksum", None)
    if checksum != _checksum(description):
        raise _changed(path)
    return dict(description)


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> str:
    """Write tensors and return the SHA-256 of the file."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content = safetensors.torch.save(contiguous)
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(content).hexdigest()


def read_tensors(path: Path, sha256: str | None) -> dict[str, Tensor]:
    """Read tensors from a file that must have this SHA-256."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise FileError(f"{path.parent} lacks {path.name}; use a complete folder.") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise _changed(path)
    try:
        return safetensors.torch.load(content)
    except SafetensorError as error:
        raise FileError(f"{path} is not a safetensors file ({error}).") from error


def _checksum(description: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()


def _changed(path: Path) -> FileError:
    return FileError(
        f"{path} has changed since it was written (its checksum differs); use an unchanged copy."
    )
