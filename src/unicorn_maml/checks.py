"""Checks of settings: each refuses with one sentence that names the option."""

from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from unicorn_maml.errors import UsageError
from unicorn_maml.names import option_name

__all__ = ["check_numbers", "check_positive", "check_shares", "check_types", "require"]


def check_types(settings: Any) -> None:
    """Refuse values of a wrong type or choice, as a file may hold them; paths may be strings."""
    hints = get_type_hints(type(settings))
    for name in (field.name for field in fields(settings)):
        value = getattr(settings, name)
        choices = _choices(hints[name])
        if Path in choices and isinstance(value, str):
            object.__setattr__(settings, name, Path(value))
        elif not any(_is_one(value, choice) for choice in choices):
            wanted = " or ".join(
                choice.__name__ if isinstance(choice, type) else repr(choice) for choice in choices
            )
            raise UsageError(f"{option_name(name)} must be {wanted}, not {value!r}.")


def _choices(hint: Any) -> list[Any]:
    """The types, literal values and None that a hint allows."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    if get_origin(hint) in (Union, UnionType):
        return [choice for part in get_args(hint) for choice in _choices(part)]
    return [get_origin(hint) or hint]


def _is_one(value: Any, choice: Any) -> bool:
    if not isinstance(choice, type):
        return type(value) is type(choice) and bool(value == choice)
    if choice is float:
        return type(value) in (int, float)
    return isinstance(value, choice) and not (choice is int and isinstance(value, bool))


def require(condition: bool, sentence: str) -> None:
    """Refuse with this sentence unless the condition holds."""
    if not condition:
        raise UsageError(sentence)


def check_numbers(settings: Any, *, at_least: dict[str, float]) -> None:
    """Refuse numbers below their smallest sensible value; `None` means "take the default"."""
    for name, smallest in at_least.items():
        value = getattr(settings, name)
        require(
            value is None or smallest <= value,
            f"{option_name(name)} must be at least {smallest}, not {value}.",
        )
        require(
            value is None or value < 2**62,
            f"{option_name(name)} must be below {2**62}, not {value}.",
        )


def check_positive(settings: Any, *names: str) -> None:
    """Refuse numbers that are not positive and finite; `None` means "take the default"."""
    for name in names:
        value = getattr(settings, name)
        require(
            value is None or 0 < value < float("inf"),
            f"{option_name(name)} must be a positive number such as 0.1, not {value}.",
        )


def check_shares(settings: Any, *names: str, zero: bool = True, one: bool = False) -> None:
    """Refuse numbers that are not in 0..1; `zero` and `one` say whether these two are allowed."""
    for name in names:
        value = getattr(settings, name)
        inside = 0 < value < 1 or (zero and value == 0) or (one and value == 1)
        low, high = "at least" if zero else "above", "at most" if one else "below"
        require(inside, f"{option_name(name)} must be {low} 0 and {high} 1, not {value}.")
