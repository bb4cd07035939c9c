"""What settings allow is read from their annotations, and what they do not is refused by name."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import pytest
from ladder import unchecked

from decoder_only.base.checks import Rule, check_fields, require
from decoder_only.training import TrainConfig

Count = Annotated[int, Rule(lambda x: x > 0, "above 0")]


@dataclass
class Settings:
    """One field of each kind."""

    whole: Count = 1
    maybe: Count | None = None
    number: Annotated[float, Rule(lambda x: x < 2, "below 2")] = 1.0
    switch: bool = True
    word: Literal["a", "b"] = "a"
    several: Sequence[Count | None] = (1, None)


def test_a_number_beyond_all_floats_is_refused_like_any_other():
    with pytest.raises(ValueError, match=r"number=1000.* cannot work: it must be"):
        check_fields(Settings(number=10**400))


@pytest.mark.parametrize(
    ("field", "fine"),
    [
        ("whole", [1, 2**70]),
        ("maybe", [None, 3]),
        ("number", [-1, 0.5]),
        ("switch", [False]),
        ("word", ["b"]),
        ("several", [(2,), (None, 1)]),
    ],
)
def test_what_an_annotation_allows_passes(field, fine):
    for value in fine:
        check_fields(Settings(**{field: value}))


@pytest.mark.parametrize(
    ("field", "wrong", "wanted"),
    [
        ("whole", [0, 1.0, True, None, "1", [1]], "a whole number above 0"),
        ("maybe", [0, "x", False], "a whole number above 0, or None"),
        ("number", [2, float("nan"), "1", True, -1e999], "a finite number below 2"),
        ("switch", [1, None, "yes"], "True or False"),
        ("word", ["c", None, ["a"]], "one of ('a', 'b')"),
        ("several", [(), (0,), (True,), 5, "ab", [1]], "a tuple, each entry a whole"),
    ],
)
def test_everything_else_is_refused_by_name(field, wrong, wanted):
    for value in wrong:
        message = re.escape(f"{field}={value!r} cannot work: it must be {wanted}")
        with unchecked(), pytest.raises(ValueError, match=message):
            check_fields(Settings(**{field: value}))


def test_a_comparison_that_a_type_does_not_know_counts_as_no():
    with pytest.raises(ValueError, match=r"^x='a' cannot work: it must be above 0$"):
        require("x", "a", lambda x: x > 0, "above 0")


def test_numbers_of_numpy_become_pythons():
    @dataclass(frozen=True)
    class Settings:
        size: int
        rate: float
        sizes: Sequence[int | None]

    settings = Settings(np.int64(3), np.float32(0.5), (np.int16(1), None))
    with unchecked():
        check_fields(settings)
    assert repr(settings.__dict__) == "{'size': 3, 'rate': 0.5, 'sizes': (1, None)}"
    assert TrainConfig(learning_rate=np.logspace(-4, -2, 5)[2]).learning_rate == 1e-3
    for wrong in (np.float64("nan"), np.bool_(True), np.array([1.0, 2.0])):
        with unchecked(), pytest.raises(ValueError, match=r"rate=.* a finite number"):
            check_fields(Settings(1, wrong, (1,)))


def test_of_a_long_list_only_the_beginning_is_shown():
    class Entry:
        n_shown = 0

        def __repr__(self) -> str:
            Entry.n_shown += 1
            return "entry"

    with pytest.raises(ValueError, match=r"x=\[entry, entry, .* it must be none"):
        require("x", [Entry() for _ in range(1000)], lambda x: not x, "none")
    assert Entry.n_shown <= 30
