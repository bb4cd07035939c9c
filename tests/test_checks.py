"""A value that cannot work is refused in one line: its name, itself, and what would work."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest
from ladder import unchecked

from decoder_only.base import checks
from decoder_only.training import TrainConfig


@pytest.mark.parametrize(
    ("bounds", "fine", "wrong", "wanted"),
    [
        ({}, [-(2**70), 0], [1.0, True, None, "1", [1], np.bool_(1)], "a whole number"),
        ({"at_least": 1}, [1, 2**70, np.int8(1)], [0], "a whole number, at least 1"),
        (
            {"at_least": 1, "at_most": 3},
            [1, 3],
            [0, 4, 2**70],
            "a whole number, at least 1 and at most 3",
        ),
        (
            {"at_least": 1, "optional": True},
            [None, 1],
            [0, False],
            "a whole number, at least 1, or None",
        ),
    ],
)
def test_whole_numbers_within_bounds_pass(bounds, fine, wrong, wanted):
    for value in fine:
        checks.whole("x", value, **bounds)
    for value in wrong:
        message = f"^{re.escape(f'x={value!r} must be {wanted}')}$"
        with unchecked(), pytest.raises(ValueError, match=message):
            checks.whole("x", value, **bounds)


@pytest.mark.parametrize(
    ("bounds", "fine", "wrong", "wanted"),
    [
        (
            {},
            [-1, 0.5, np.float32(1)],
            [float("nan"), -1e999, True, None, "1", 1j, np.array([1.0, 2.0])],
            "a finite number",
        ),
        ({"above": 0}, [1e-300, 1], [0, -1], "a finite number, above 0"),
        (
            {"at_least": 0, "below": 1},
            [0, 0.5],
            [-0.1, 1],
            "a finite number, at least 0 and below 1",
        ),
        (
            {"above": 0, "at_most": 1, "optional": True},
            [None, 1],
            [0, 1.5],
            "a finite number, above 0 and at most 1, or None",
        ),
    ],
)
def test_finite_numbers_within_bounds_pass(bounds, fine, wrong, wanted):
    for value in fine:
        checks.number("x", value, **bounds)
    for value in wrong:
        message = f"^{re.escape(f'x={value!r} must be {wanted}')}$"
        with unchecked(), pytest.raises(ValueError, match=message):
            checks.number("x", value, **bounds)


def test_a_number_beyond_all_floats_is_refused_like_any_other():
    with pytest.raises(ValueError, match=r"^x=1000.* must be a finite number$"):
        checks.number("x", 10**400)


def test_a_choice_is_of_the_type_of_those_that_are_listed():
    checks.choice("x", "a", ["a", "b"])
    for value in ("c", None, ["a"], 1):
        message = re.escape(f"x={value!r} must be one of ('a', 'b')")
        with pytest.raises(ValueError, match=message):
            checks.choice("x", value, ["a", "b"])
    with pytest.raises(ValueError, match="x=1 must be one of"):
        checks.choice("x", 1, (True, False))


def test_fields_that_list_their_choices_are_held_to_them():
    @dataclass
    class Settings:
        switch: bool = True
        word: Literal["a", "b"] = "a"
        other: int | None = None

    checks.choices(Settings(other="anything"))
    with pytest.raises(ValueError, match=r"^switch=1 must be one of \(True, False\)$"):
        checks.choices(Settings(switch=1))
    with pytest.raises(ValueError, match=r"^word='c' must be one of \('a', 'b'\)$"):
        checks.choices(Settings(word="c"))


def test_numbers_of_numpy_become_pythons():
    @dataclass(frozen=True)
    class Settings:
        size: int
        rate: float
        sizes: Sequence[int | None]

    settings = Settings(np.int64(3), np.float32(0.5), [np.int16(1), None])
    checks.to_plain_values(settings)
    assert repr(settings.__dict__) == "{'size': 3, 'rate': 0.5, 'sizes': (1, None)}"
    rate = TrainConfig(learning_rate=np.logspace(-4, -2, 5)[2]).learning_rate
    assert (rate, type(rate)) == (1e-3, float)


def test_of_a_long_list_only_the_beginning_is_shown():
    class Entry:
        n_shown = 0

        def __repr__(self) -> str:
            Entry.n_shown += 1
            return "entry"

    with pytest.raises(ValueError, match=r"x=\[entry, entry, .* must be a whole"):
        checks.whole("x", [Entry() for _ in range(1000)])
    assert Entry.n_shown <= 30
