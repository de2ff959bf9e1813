"""The published class lists, shipped with the package, so that a user needs only the images."""

import json
from functools import cache
from importlib import resources

__all__ = ["cifar100_superclasses", "published_splits"]


def published_splits(data_set: str) -> dict[str, str]:
    """Return the split of every class of a data set. FC100's entries are superclasses."""
    return {name: split for split, names in _read(data_set).items() for name in names}


def cifar100_superclasses() -> dict[str, str]:
    """Return the superclass of every class of CIFAR-100."""
    table = _read("cifar-100-superclasses")
    return {name: superclass for superclass, names in table.items() for name in names}


@cache
def _read(name: str) -> dict[str, list[str]]:
    file = resources.files("unicorn_maml.data") / "splits" / f"{name}.json"
    table: dict[str, list[str]] = json.loads(file.read_text(encoding="utf-8"))
    return table
