"""How an exercise judges an answer.

All kinds know the right answer and a table of typical wrong ones, each with the sentence that
a reader who gave it needs. An answer that is neither gets a general line: the wrong type or
shape, the exception that was raised, or the first case that differs.
"""

import contextlib
import copy
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

SECONDS = 2.0
"""How long a reader's function may take for all cases of a check."""


@dataclass(frozen=True)
class Verdict:
    """One line for the reader.

    Attributes:
        right: whether the answer is right; None for a hint.
        line: what is said.
    """

    right: bool | None
    line: str

    def __repr__(self) -> str:
        return self.line


class TooLong(Exception):
    """A reader's function did not come to an end."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Interrupt what runs within, where the system can: in the main thread, not on Windows."""
    is_main = threading.current_thread() is threading.main_thread()
    if not (is_main and hasattr(signal, "setitimer")):
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def same(found: Any, wanted: Any) -> bool:
    """Whether two results are equal, up to rounding; a list and a tuple may be."""
    if isinstance(wanted, Tensor):
        if not isinstance(found, Tensor) or found.shape != wanted.shape:
            return False
        tolerance = {"rtol": 1e-4, "atol": 1e-5, "equal_nan": True}
        return torch.allclose(found.detach().double(), wanted.double(), **tolerance)
    if isinstance(wanted, list | tuple):
        if not isinstance(found, list | tuple) or len(found) != len(wanted):
            return False
        return all(same(one, other) for one, other in zip(found, wanted, strict=True))
    if isinstance(wanted, dict):
        return isinstance(found, dict) and dict(found) == wanted
    if isinstance(wanted, float):
        try:
            return abs(float(found) - wanted) <= 1e-4 * max(1.0, abs(wanted))
        except (TypeError, ValueError):
            return False
    return type(found) is type(wanted) and found == wanted


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """What all kinds have.

    Attributes:
        title: a few words.
        task: what the reader is to do.
        hints: three, each a step further.
    """

    title: str
    task: str
    hints: tuple[str, str, str]

    def judge(self, answer: object) -> Verdict:
        """Say that the answer is right, or what is wrong with it."""
        if answer is ...:
            return Verdict(False, "Not yet: write a number in the place of the dots.")
        problem = self.problem(answer)
        if problem is None:
            return Verdict(True, f"Right: {self.title}.")
        return Verdict(False, f"Not yet: {problem}.")

    def problem(self, answer: object) -> str | None:
        """What is wrong with the answer; None where nothing is."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Write(Exercise):
    """A function is to be written.

    Attributes:
        stub: its first lines, for the reader.
        reference: the right function.
        cases: arguments for which it is called; the name of a case is part of a sentence.
        wrong: for each sentence a function that makes that mistake.
    """

    stub: str
    reference: Callable
    cases: dict[str, tuple]
    wrong: dict[str, Callable]

    def problem(self, answer: object) -> str | None:
        if not callable(answer):
            kind = type(answer).__name__
            return f"give the function itself, without brackets; this is a {kind}"
        outputs = {}
        try:
            with time_limit(SECONDS):
                for name, arguments in self.cases.items():
                    given = copy.deepcopy(arguments)
                    outputs[name] = copy.deepcopy(answer(*given))
                    if not same(given, arguments):
                        return "your function changes what it was given; work on a copy"
        except TooLong:
            return f"your function ran for {SECONDS:.0f} seconds without an end"
        except Exception as error:
            return raised(error)
        wanted = {name: self.reference(*case) for name, case in self.cases.items()}
        if all(same(outputs[name], wanted[name]) for name in wanted):
            return None
        for sentence, mistaken in self.wrong.items():
            theirs = {name: mistaken(*case) for name, case in self.cases.items()}
            if all(same(outputs[name], theirs[name]) for name in theirs):
                return sentence
        return difference(outputs, wanted)


@dataclass(frozen=True, kw_only=True)
class Predict(Exercise):
    """A number is to be given before a run.

    Attributes:
        answer: the right one.
        wrong: for each sentence a number that shows this mistake.
    """

    answer: float
    wrong: dict[str, float]

    def problem(self, answer: object) -> str | None:
        try:
            number = float(answer)
        except (TypeError, ValueError, RuntimeError):
            return f"a number is asked for; this is a {type(answer).__name__}"
        if same(number, float(self.answer)):
            return None
        for sentence, mistaken in self.wrong.items():
            if same(number, float(mistaken)):
                return sentence
        if number != number:
            return "nan is not a number; look for a division of zero by zero"
        return "too large" if number > self.answer else "too small"


@dataclass(frozen=True, kw_only=True)
class Find(Exercise):
    """A mistake is to be found in given code: the number of its line.

    Attributes:
        code: the lines, counted from 1; one of them is at fault.
        answer: its number.
        wrong: for each innocent line the sentence that says why, before its number.
    """

    code: str
    answer: int
    wrong: dict[str, int]

    def problem(self, answer: object) -> str | None:
        try:
            number = float(answer)
        except (TypeError, ValueError, RuntimeError):
            return (
                f"the number of a line is asked for; this is a {type(answer).__name__}"
            )
        if number == self.answer:
            return None
        for sentence, innocent in self.wrong.items():
            if number == innocent:
                return sentence
        return f"there are lines 1 to {len(self.code.splitlines())}"


def raised(error: Exception) -> str:
    """An exception in one line, with the line of the reader's function that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    line = frames[-1].line if len(frames) > 1 else ""
    for frame in frames[1:]:
        if "site-packages" not in frame.filename:
            line = frame.line or line
    where = f", at `{line}`" if line else ""
    message = (str(error).splitlines() or [""])[0]
    return f"your function raised {type(error).__name__}{where}: {message}".rstrip(": ")


def difference(outputs: dict[str, Any], wanted: dict[str, Any]) -> str:
    """The first case in which results differ, and in what; never the right values."""
    for name, right in wanted.items():
        found = outputs[name]
        if same(found, right):
            continue
        if found is None:
            return "your function returns nothing; end it with a return"
        misfit = _misfit_of_things if isinstance(right, tuple) else _misfit
        wrong_form = misfit(found, right)
        if wrong_form:
            return wrong_form
        if isinstance(found, Tensor) and found.isnan().any():
            return f"with {name}, the result has nan in it"
        passed = [other for other in wanted if same(outputs[other], wanted[other])]
        also = f"; right with {' and '.join(passed)}" if passed else ""
        return f"with {name}, the numbers differ{also}"
    return "the results differ"


def _misfit(found: Any, right: Any, what: str = "the result") -> str | None:
    """In what a result's type or shape is not the one asked for; None where it is."""
    accepted: dict[type, Any] = {list: list | tuple, float: float | int | Tensor}
    if not isinstance(found, accepted.get(type(right), type(right))):
        kinds = type(right).__name__, type(found).__name__
        return f"{what} must be a {kinds[0]}, and it is a {kinds[1]}"
    if isinstance(right, Tensor) and found.shape != right.shape:
        shapes = tuple(found.shape), tuple(right.shape)
        return f"{what} has the shape {shapes[0]} where {shapes[1]} is asked for"
    return None


def _misfit_of_things(found: Any, right: tuple) -> str | None:
    """The same for a function that returns several things."""
    wish = _things(len(right))
    if not isinstance(found, list | tuple):
        return f"the result must be {wish}, and it is a {type(found).__name__}"
    if len(found) != len(right):
        return f"your function returns {_things(len(found))} where {wish} are asked for"
    for number, (part, its_right) in enumerate(zip(found, right, strict=True), start=1):
        misfit = _misfit(part, its_right, f"number {number} of what you return")
        if misfit:
            return misfit
    return None


def _things(n: int) -> str:
    """So many, as a reader counts what is returned with commas."""
    words = ("nothing", "one thing", "two things", "three things", "four things")
    return words[n] if n < len(words) else f"{n} things"
