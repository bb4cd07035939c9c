"""Refuse a value that cannot work, in the same words everywhere: its name, itself, what would work.

    d_model=0 must be a whole number, at least 1 and at most 2147483647

A value is checked once, where it enters; what is inside trusts it. Chapter 8.
"""

import operator
import reprlib
import sys
from collections.abc import Iterable
from numbers import Integral, Number, Real
from typing import Any, Literal, get_args, get_origin, get_type_hints

# Of a long list or text only the beginning and the end are looked at.
_shortened = reprlib.Repr()
_shortened.maxstring = _shortened.maxlong = _shortened.maxother = 200

_HOLDS = {
    "above": operator.gt,
    "at_least": operator.ge,
    "below": operator.lt,
    "at_most": operator.le,
}


def check_number(
    name: str, value: object, *, whole: bool = False, optional: bool = False, **bounds
) -> None:
    """Refuse what is not a finite number, of Python or NumPy, within bounds.

    Args:
        name: what the reader calls it: a field, an argument, an option.
        value: what was given.
        whole: only whole numbers are fine.
        optional: None is fine, too.
        bounds: any of `above`, `at_least`, `below` and `at_most`, each with a number.

    Raises:
        ValueError: with the name, the value, and what would work.
    """
    if optional and value is None:
        return
    number = _plain(value)
    fits = isinstance(number, Integral if whole else Real)
    fits = fits and not isinstance(number, bool)
    # A whole number may be larger than any float.
    fits = fits and (whole or abs(number) <= sys.float_info.max)
    if not (fits and all(_HOLDS[word](number, x) for word, x in bounds.items())):
        words = [f"{word.replace('_', ' ')} {x}" for word, x in bounds.items()]
        rule = "a whole number" if whole else "a finite number"
        rule += ", " * bool(words) + " and ".join(words) + ", or None" * optional
        raise ValueError(f"{name}={_shortened.repr(value)} must be {rule}")


def check_whole(name: str, value: object, **settings) -> None:
    """Refuse what is not a whole number within bounds; see `check_number`."""
    check_number(name, value, whole=True, **settings)


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
            check_choice(name, getattr(settings, name), get_args(kind) or (True, False))


def to_plain_values(settings: object) -> None:
    """Turn numbers of NumPy in the fields of a frozen dataclass into Python's, lists into tuples.

    JSON can hold the numbers then, and what it holds comes back equal.
    """
    for name, value in vars(settings).items():
        object.__setattr__(settings, name, _plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return tuple(map(_plain, value))
    is_of_numpy = isinstance(value, Number) and hasattr(value, "item")
    return value.item() if is_of_numpy else value
