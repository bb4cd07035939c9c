"""Checks under mutation: two right answers pass, and each typical mistake gets its own line.

The answers are in `answers`: right ones as a reader writes them, and edits that spoil the first.
"""

import importlib.util
import math
import time
from pathlib import Path

import pytest
import torch
from rules import of_every

from decoder_only_book import exercises
from decoder_only_book.exercises import EXERCISES, check, framework, hint

FILES = sorted(Path(__file__).with_name("answers").glob("chapter_*.py"))


def _read(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ANSWERS = [_read(path) for path in FILES]
RIGHT = {number: x for each in ANSWERS for number, x in each.RIGHT.items()}
WRONG = {number: x for each in ANSWERS for number, x in each.WRONG.items()}
MENDED = {
    number: x for each in ANSWERS for number, x in getattr(each, "MENDED", {}).items()
}
FINDS = [
    number for number, each in EXERCISES.items() if isinstance(each, framework.Find)
]
every_exercise = of_every(EXERCISES)


@pytest.fixture(autouse=True)
def no_hints_yet(monkeypatch):
    """Another test of this process, a workbook's, may have asked for some."""
    monkeypatch.setattr(exercises, "_hints_given", {})


def function(source: str):
    """What a cell with this source defines last."""
    names = {"torch": torch, "math": math}
    exec(source, names)
    return list(names.values())[-1]


def as_answer(given):
    return function(given) if isinstance(given, str) and "def " in given else given


def spoiled(number: str):
    """Each wrong answer, and words of the line that it must get."""
    for before, *after, words in WRONG[number]:
        if not after:
            yield before, words
            continue
        source = RIGHT[number][0]
        assert before in source, f"no {before!r} to replace"
        yield function(source.replace(before, after[0])), words


@every_exercise
def test_right_answers_written_differently_are_accepted(number):
    assert len(RIGHT[number]) >= 2
    for given in RIGHT[number]:
        verdict = check(number, as_answer(given))
        assert verdict.right, f"{verdict.line}\n{given}"


@every_exercise
def test_wrong_answers_are_refused_each_with_its_own_line(number):
    lines = []
    for answer, words in spoiled(number):
        verdict = check(number, answer)
        assert verdict.right is False, f"accepted: {words}"
        assert words in verdict.line, f"{words!r} is not in {verdict.line!r}"
        assert "\n" not in verdict.line
        lines.append(verdict.line)
    assert len(set(lines)) == len(lines) >= 5


@every_exercise
def test_every_mistake_in_the_table_is_told_from_the_others(number):
    """Two entries that compute the same would hide the second."""
    exercise = EXERCISES[number]
    assert len(exercise.wrong) >= 5
    for sentence, mistaken in exercise.wrong.items():
        line = check(number, mistaken).line
        assert sentence in line, f"{sentence!r} gets {line!r}"


@every_exercise
def test_a_check_is_quick_and_there_are_three_hints(number):
    started = time.perf_counter()
    assert check(number, as_answer(RIGHT[number][0])).right
    assert time.perf_counter() - started < 2
    given = [hint(number).line for _ in range(4)]
    assert len(set(given[:3])) == 3
    assert given[3].partition(": ")[2] == given[2].partition(": ")[2]


@of_every(FINDS)
def test_only_the_faulty_line_is_at_fault(number):
    """Mended there, the code answers an exercise that it did not answer before."""
    exercise = EXERCISES[number]
    like, mended = MENDED[number]
    lines = exercise.code.splitlines()
    innocent = set(range(1, len(lines) + 1)) - {exercise.answer}
    assert set(exercise.wrong.values()) == innocent
    assert check(like, function(exercise.code)).right is False
    lines[exercise.answer - 1] = mended
    assert check(like, function("\n".join(lines))).right


def test_an_unknown_exercise_is_named_with_those_that_exist():
    with pytest.raises(ValueError, match=r"'99\.1' must be one of 1\.1"):
        check("99.1", 0)


def test_not_a_function():
    assert "without brackets" in check("3.2", torch.zeros(2)).line


def test_the_clock_is_put_back_after_a_loop():
    def endless():
        while True:
            pass

    def limited():
        with framework.time_limit(0.05):
            endless()

    with pytest.raises(framework.TooLong):
        limited()
    time.sleep(0.1)  # a clock that still ran would interrupt this
