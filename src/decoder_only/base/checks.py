"""Refuse a value that cannot work, in the same words everywhere: its name, itself, what would work.

    d_model=0 must be a whole number, at least 1 and at most 2147483647

    checks.whole("d_model", d_model, at_least=1, at_most=2**31 - 1)

A value is checked once, where it enters; what is inside trusts it. Chapter 8.
"""

import functools
import operator
import reprlib
import sys
from collections.abc import Iterable
from numbers import Integral, Number, Real
from typing import Any, Literal, get_args, get_origin, get_type_hints

_type_hints = functools.cache(get_type_hints)

# Of a long list or text only the beginning and the end are looked at.
_shortened = reprlib.Repr()
_shortened.maxstring = _shortened.maxlong = _shortened.maxother = 200

_HOLDS = {
    "above": operator.gt,
    "at_least": operator.ge,
    "below": operator.lt,
    "at_most": operator.le,
}


def number(
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
    x = _plain(value)
    fits = isinstance(x, Integral if whole else Real) and not isinstance(x, bool)
    # A whole number may be larger than any float.
    fits = fits and (whole or abs(x) <= sys.float_info.max)
    if not (fits and all(_HOLDS[word](x, bound) for word, bound in bounds.items())):
        words = [f"{word.replace('_', ' ')} {bounds[word]}" for word in bounds]
        rule = "a whole number" if whole else "a finite number"
        rule += ", " * bool(words) + " and ".join(words) + ", or None" * optional
        raise ValueError(f"{name}={_shortened.repr(value)} must be {rule}")


def whole(name: str, value: object, **settings) -> None:
    """Refuse what is not a whole number within bounds; see `number`."""
    number(name, value, whole=True, **settings)


def choice(name: str, value: object, allowed: Iterable[object]) -> None:
    """Refuse what is not one of a few values, and of the same type: 1 is not True.

    Raises:
        ValueError: with the name, the value, and the allowed values.
    """
    allowed = tuple(allowed)
    if not any(type(value) is type(each) and value == each for each in allowed):
        raise ValueError(f"{name}={_shortened.repr(value)} must be one of {allowed}")


def choices(settings: object) -> None:
    """Check each field of a dataclass whose annotation is `bool` or lists the choices: `Literal`.

    Raises:
        ValueError: as `choice` does.
    """
    for name, kind in _type_hints(type(settings)).items():
        if kind is bool or get_origin(kind) is Literal:
            choice(name, getattr(settings, name), get_args(kind) or (True, False))


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
