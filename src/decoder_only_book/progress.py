"""What a reader has passed, in `progress.json` in the working folder. Workbooks import from here.

    check("3.2", attend)    as in `exercises`; an answer that passes is kept
    hint("3.2")             as in `exercises`
    own("3.2")              the function that passed, in this notebook or in another beside it

The file keeps the source of each function, so that a later workbook can use it. It is code of the
folder's owner, as the notebooks beside it are: run neither from a stranger.
"""

import inspect
import json
import math
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional as F

from decoder_only.base.files import write_atomically
from decoder_only_book import exercises
from decoder_only_book.exercises import EXERCISES, hint
from decoder_only_book.exercises.framework import Verdict

__all__ = ["FILE", "check", "hint", "own", "passed", "progress"]

FILE = "progress.json"

_functions: dict[str, Callable] = {}


def check(number: str, answer: object) -> Verdict:
    """Judge an answer as `exercises.check` does, and keep one that passes.

    Where the folder cannot be written, a line says so, and the verdict is the same.
    """
    verdict = exercises.check(number, answer)
    if verdict.right:
        if callable(answer):
            _functions[number] = answer
        try:
            kept = passed() | {number: _source(answer)}
            places = {n: [int(part) for part in n.split(".")] for n in kept}
            kept = {n: kept[n] for n in sorted(kept, key=places.get)}
            content = json.dumps(kept, indent=1) + "\n"
            write_atomically(Path.cwd() / FILE, content.encode())
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            print(f"This is not noted in {FILE}: {reason}.")
    return verdict


def own(number: str) -> Callable:
    """The reader's function where one has passed its check, or else the book's; prints which.

    Raises:
        ValueError: no function is asked for in this exercise, or there is none of this number.
    """
    exercise = EXERCISES.get(number)
    if not hasattr(exercise, "reference"):
        raise ValueError(
            f"exercise {number!r} must be one in which a function is written"
        )
    function = _functions.get(number) or _restored(number)
    chapter = int(number.partition(".")[0])
    whose = (
        "yours" if function else f"the book's, until yours passes in workbook {chapter}"
    )
    print(f"{number} {exercise.title}: {whose}")
    return function or exercise.reference


def passed(folder: Path | None = None) -> dict[str, str]:
    """The numbers that have passed, each with the source of its function, or "" for a number.

    Args:
        folder: where the file is; the working folder by default.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is damaged.
    """
    path = (folder or Path.cwd()) / FILE
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    is_whole = isinstance(found, dict) and all(
        isinstance(x, str) for x in found.values()
    )
    if not is_whole:
        raise ValueError(f"{FILE} is damaged; delete it to begin anew")
    return found


def progress(folder: Path | None = None) -> None:
    """Show by chapter which exercises have passed.

    Args:
        folder: where `progress.json` is; the working folder by default.
    """
    done = passed(folder)
    if not done:
        print(
            f"Nothing has passed yet; {FILE} appears beside a workbook with the first check."
        )
    for chapter in sorted({int(number.partition(".")[0]) for number in EXERCISES}):
        numbers = [n for n in EXERCISES if n.partition(".")[0] == str(chapter)]
        right = [n for n in numbers if n in done]
        said = f"{len(right)} of {len(numbers)} passed"
        left = [n for n in numbers if n not in done]
        rest = f"; to do: {' '.join(left)}" if right and left else ""
        print(f"Chapter {chapter:2}   {said}{rest}")


def _source(answer: object) -> str:
    """A function's source, after that of the reader's other functions which it calls.

    Nothing for a number, or where Python has not kept the source.
    """
    if not callable(answer):
        return ""
    sources: dict[Callable, str] = {}

    def gather(function: Callable) -> None:
        if function in sources:
            return
        sources[function] = ""  # a function may call itself
        text = textwrap.dedent(inspect.getsource(function))
        known = getattr(function, "__globals__", {})
        for name in re.findall(r"[A-Za-z_]\w*", text):
            other = known.get(name)
            if inspect.isfunction(other) and other.__globals__ is known:
                gather(other)
        del sources[function]
        sources[function] = text

    try:
        gather(answer)
    except (OSError, TypeError):
        return ""
    return "\n".join(sources.values())


def _restored(number: str) -> Callable | None:
    """The function kept in the file, if it still passes without the notebook it was written in."""
    try:
        kept = passed()
    except (OSError, ValueError) as error:
        print(error)
        return None
    if number not in kept:
        return None
    found = re.findall(r"^(?:def|class) (\w+)", kept[number], re.MULTILINE)
    names = {"math": math, "torch": torch, "F": F}
    try:
        if not found:
            raise ValueError("it is no def")
        exec(kept[number], names)
        function = names[found[-1]]  # those that it calls come before it
        verdict = exercises.check(number, function)
        if verdict.right:
            return function
        reason = verdict.line
    except (
        Exception
    ) as error:  # it needs what another cell of that notebook defined, say
        reason = f"{type(error).__name__}: {error}."
    print(f"{number}: what {FILE} keeps does not work by itself. {reason}")
    return None
