"""Refuse a value that cannot work, in the same words everywhere: its name, itself, what would work.

    d_model=0 must be a whole number, at least 1 and at most 2147483647

A value is checked once, where it enters; what is inside trusts it. Chapter 8.
"""

import math
import reprlib
from collections.abc import Iterable
from numbers import Integral, Number, Real
from typing import Any, Literal, get_args, get_origin, get_type_hints

# Of a long list or text only the beginning and the end are looked at.
_shortened = reprlib.Repr()
_shortened.maxstring = _shortened.maxlong = _shortened.maxother = 200


def check_whole(
    name: str,
    value: object,
    least: float = -math.inf,
    most: float = math.inf,
    *,
    optional: bool = False,
) -> None:
    """Refuse what is not a whole number, of Python or NumPy, within bounds.

    Args:
        name: what the reader calls it: a field, an argument, an option.
        value: what was given.
        least, most: the bounds, both allowed.
        optional: None is fine, too.

    Raises:
        ValueError: with the name, the value, and what would work.
    """
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not ((is_whole and least <= value <= most) or (value is None and optional)):
        bounds = {"at least": least, "at most": most}
        _refuse(name, value, "a whole number", bounds, optional)


def check_number(
    name: str,
    value: object,
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    below: float = math.inf,
    most: float = math.inf,
    optional: bool = False,
) -> None:
    """Refuse what is not a finite number, of Python or NumPy, within bounds.

    Args:
        name, value, optional: as in `check_whole`.
        above, below: the bounds, themselves not allowed.
        least, most: the bounds, both allowed.

    Raises:
        ValueError: with the name, the value, and what would work.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    try:
        is_finite = is_number and math.isfinite(value)
    except OverflowError:  # a whole number that is larger than any float
        is_finite = False
    is_inside = is_finite and above < value < below and least <= value <= most
    if not (is_inside or (value is None and optional)):
        bounds = {"above": above, "at least": least, "below": below, "at most": most}
        _refuse(name, value, "a finite number", bounds, optional)


def check_choice(name: str, value: object, choices: Iterable[object]) -> None:
    """Refuse what is not one of a few values, and of the same type: 1 is not True.

    Raises:
        ValueError: with the name, the value, and the choices.
    """
    choices = tuple(choices)
    if not any(type(value) is type(each) and value == each for each in choices):
        raise ValueError(f"{name}={_shortened.repr(value)} must be one of {choices}")


def check_choices(settings: object) -> None:
    """Check each field of a dataclass whose annotation is `bool` or lists the choices: `Literal`.

    Raises:
        ValueError: as `check_choice` does.
    """
    for name, kind in get_type_hints(type(settings)).items():
        if kind is bool or get_origin(kind) is Literal:
            choices = get_args(kind) or (True, False)
            check_choice(name, getattr(settings, name), choices)


def as_python_numbers(settings: object) -> None:
    """Turn numbers of NumPy in the fields of a dataclass into Python's, which JSON can hold."""
    for name, value in vars(settings).items():
        object.__setattr__(settings, name, _as_python(value))


def _as_python(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_as_python, value))
    is_of_numpy = isinstance(value, Number) and hasattr(value, "item")
    return value.item() if is_of_numpy else value


def _refuse(
    name: str, value: object, kind: str, bounds: dict[str, float], optional: bool
) -> None:
    words = [f"{word} {x}" for word, x in bounds.items() if math.isfinite(x)]
    words = ", ".join([kind, *words[:1]]) + "".join(f" and {x}" for x in words[1:])
    words += ", or None" * optional
    raise ValueError(f"{name}={_shortened.repr(value)} must be {words}")
