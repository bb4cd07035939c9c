"""The one way in which a value that cannot work is refused: with its name, itself, and what would.

A refusal is made once, where the value enters; what lies inside trusts it. Settings say in their
annotations what each field allows, and `check_fields` reads it there:

    batch_size: Annotated[int, Rule(lambda x: x > 0, "above 0")]
    windows: Sequence[int | None]
    optimizer: Literal["adamw", "muon"]
"""

import reprlib
import typing
from collections.abc import Callable, Sequence
from math import isfinite
from numbers import Number
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple

# Looks at the beginning of a long list, and not at all of it.
_shortened = reprlib.Repr()
_shortened.maxlevel = _shortened.maxdict = _shortened.maxlist = _shortened.maxtuple = 20
_shortened.maxstring = _shortened.maxlong = _shortened.maxother = 200


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
    except (TypeError, ValueError, ArithmeticError):
        fine = False
    if not fine:
        said = _shortened.repr(value)
        raise ValueError(f"{name}={said:.200} cannot work: it must be {wanted}")


class Rule(NamedTuple):
    """What holds for a value that can work, and how to say so.

    In `Annotated[int, rule]` it narrows the type, which has been looked at before.
    """

    holds: Callable[[Any], bool]
    wanted: str


def check_fields(settings: object) -> None:
    """Refuse a dataclass with a field that its annotation does not allow.

    Numbers of numpy become Python's, which JSON can hold.

    Raises:
        ValueError: with the field, its value, and what would work.
    """
    hints = typing.get_type_hints(type(settings), include_extras=True)
    for name, hint in hints.items():
        object.__setattr__(settings, name, _plain(getattr(settings, name)))
        require(name, getattr(settings, name), *_rule(hint))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    is_of_numpy = isinstance(value, Number) and hasattr(value, "item")
    return value.item() if is_of_numpy else value


def _rule(hint: Any) -> Rule:
    """What an annotation allows."""
    kind, inner = typing.get_origin(hint), typing.get_args(hint)
    if kind is Annotated:
        of_kind, narrower = _rule(inner[0]), inner[1]
        wanted = f"{of_kind.wanted} {narrower.wanted}"
        return Rule(lambda x: of_kind.holds(x) and narrower.holds(x), wanted)
    if kind in (typing.Union, UnionType):
        rules = [_rule(each) for each in inner]
        wanted = ", or ".join(rule.wanted for rule in rules)
        return Rule(lambda x: any(rule.holds(x) for rule in rules), wanted)
    if kind is Literal:
        return Rule(inner.__contains__, f"one of {inner}")
    if kind is Sequence:
        one = _rule(inner[0])
        wanted = f"a tuple, each entry {one.wanted}"
        return Rule(lambda x: type(x) is tuple and x and all(map(one.holds, x)), wanted)
    return _TYPES[hint]


_TYPES = {
    int: Rule(lambda x: isinstance(x, int) and type(x) is not bool, "a whole number"),
    float: Rule(lambda x: type(x) in (int, float) and isfinite(x), "a finite number"),
    bool: Rule(lambda x: type(x) is bool, "True or False"),
    NoneType: Rule(lambda x: x is None, "None"),
}
