"""Exercises that check themselves.

    check("3.2", attend)    says that the answer is right, or what is wrong with it
    hint("3.2")             the next of three hints

A check never shows the solution. It compares what an answer computes with what the right function
computes, and with what several typical mistakes compute: one that is recognised is named.
"""

from decoder_only_book.exercises import (
    chapter_01,
    chapter_02,
    chapter_03,
    chapter_04,
    chapter_05,
    chapter_06,
    chapter_07,
    chapter_08,
    chapter_09,
    chapter_12,
    chapter_13,
    chapter_15,
    chapter_16,
)
from decoder_only_book.exercises.framework import Exercise, Verdict

__all__ = ["EXERCISES", "check", "hint"]

_CHAPTERS = [
    chapter_01,
    chapter_02,
    chapter_03,
    chapter_04,
    chapter_05,
    chapter_06,
    chapter_07,
    chapter_08,
    chapter_09,
    chapter_12,
    chapter_13,
    chapter_15,
    chapter_16,
]
EXERCISES: dict[str, Exercise] = {
    number: exercise
    for chapter in _CHAPTERS
    for number, exercise in chapter.EXERCISES.items()
}
"""Every exercise, by its number."""

_hints_given: dict[str, int] = {}


def check(number: str, answer: object) -> Verdict:
    """Say whether an answer is right, or what is wrong with it.

    Args:
        number: of the exercise, such as "3.2".
        answer: a function where one is to be written, a number where one is to be predicted.

    Raises:
        ValueError: there is no such exercise.
    """
    return _exercise(number).judge(answer)


def hint(number: str) -> Verdict:
    """The next hint: three for each exercise, each a step further; the last one repeats."""
    hints = _exercise(number).hints
    place = min(_hints_given.get(number, 0), len(hints) - 1)
    _hints_given[number] = place + 1
    return Verdict(None, f"Hint {place + 1} of {len(hints)}: {hints[place]}")


def _exercise(number: str) -> Exercise:
    if number not in EXERCISES:
        known = ", ".join(EXERCISES)
        raise ValueError(f"exercise {number!r} must be one of {known}")
    return EXERCISES[number]
