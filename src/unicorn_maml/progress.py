"""How long work tells how far it is."""

from collections.abc import Callable

__all__ = ["OnProgress"]

# Called with the number done, the number in all, and figures to show.
OnProgress = Callable[[int, int, dict[str, float]], None]
