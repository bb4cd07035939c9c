"""The one way in which a value that cannot work is refused: with its name, itself, and what would.

A refusal is made once, where the value enters; what lies inside trusts it.
"""

from collections.abc import Callable
from typing import Any

__all__ = ["require"]


def require(name: str, value: Any, holds: Callable[[Any], bool], wanted: str) -> None:
    """Refuse a value that does not hold.

    Args:
        name: what the reader calls it: a field, an argument, an option.
        value: what was given.
        holds: whether it can work. A comparison that its type does not know counts as no.
        wanted: what would work, to follow "it must be".

    Raises:
        ValueError: it cannot.
    """
    try:
        fine = holds(value)
    except (TypeError, ValueError):
        fine = False
    if not fine:
        raise ValueError(f"{name}={value!r:.200} cannot work: it must be {wanted}")
