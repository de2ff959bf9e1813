"""Configuration files: YAML or JSON with the names of options."""

import difflib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

from unicorn_maml.errors import UsageError

__all__ = ["read_configuration"]


def read_configuration(file: Path, names: Collection[str]) -> dict[str, Any]:
    """Read the values of options; `names` are those that there are."""
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"Cannot read the configuration {file}: {error.strerror}.") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a date that is none, say
        raise UsageError(f"{file} is neither YAML nor JSON; see `--help` for its keys.") from error
    if not isinstance(values, dict):
        raise UsageError(f"{file} must hold `name: value` lines, such as `way: 5`.")
    known = {str(key).replace("-", "_"): value for key, value in values.items()}
    for key in known:
        if key not in names:
            nearest = difflib.get_close_matches(key, names, n=1, cutoff=0.0)[0]
            raise UsageError(f"{file} has an unknown key {key!r}; did you mean {nearest!r}?")
    return known
