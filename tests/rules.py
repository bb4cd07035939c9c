"""A rule that holds for many pages or modules is one test, which lists all that break it."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest


def of_every(things: Iterable[str | Path]) -> Callable:
    """Makes one test of a rule: a function that takes one of the things, and asserts.

    The rule is tried on all of them, whatever the first ones do; the message names each one that
    breaks it, and how.
    """
    things = list(things)

    def one_test(rule: Callable) -> Callable:
        # Not functools.wraps: pytest would follow it, and ask for the rule's parameter.
        def test() -> None:
            assert things, "a rule of nothing would always hold"
            broken = []
            for thing in things:
                name = thing.stem if isinstance(thing, Path) else thing
                try:
                    rule(thing)
                except AssertionError as error:
                    broken.append(f"{name}: {error}")
                except (Exception, pytest.fail.Exception) as error:
                    broken.append(f"{name}: {type(error).__name__}: {error}")
            assert not broken, "\n\n".join(broken)

        test.__name__, test.__doc__ = rule.__name__, rule.__doc__
        return test

    return one_test
