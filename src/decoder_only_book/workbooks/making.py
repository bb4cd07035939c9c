"""How a workbook is made from a lesson and its exercises.

The reading is found by a rule. `SECTIONS` names headings of the lesson for an exercise. Of each
section a workbook has the first paragraph, every formula with the paragraph before it, and the
takeaway. Sentences that point to figures, tables or other pages are left out. So is all code, since
it may be the solution.
"""

import re
from collections.abc import Iterator
from typing import Any

from decoder_only_book.exercises import EXERCISES
from decoder_only_book.exercises.framework import Exercise
from decoder_only_book.workbooks.ending import ENDING

__all__ = ["SECTIONS", "code_cell", "made", "numbers_of"]

SECTIONS: dict[str, tuple[str, ...]] = {
    "1.1": ("Mississippi on paper",),
    "1.2": ("The most frequent pair saves most",),
    "1.4": ("From characters to bytes",),
    "2.1": ("A look-up is a matrix product",),
    "2.2": ("From adding to turning",),
    "2.3": ("A row for each position",),
    "3.1": ("Softmax",),
    "3.2": ("Query, key and value", "The causal mask"),
    "3.5": ("Why the square root",),
    "4.1": ("What a head does", "Split, attend, join"),
    "4.3": ("Shared keys and values",),
    "5.1": ("LayerNorm",),
    "5.2": ("RMSNorm",),
    "5.4": ("The residual stream",),
    "6.1": ("Two matrices and an activation", "A gate"),
    "6.2": ("A memory of keys and values",),
    "6.4": ("How wide",),
    "6.5": ("Many MLPs, few at work",),
    "7.1": ("The loss of a text",),
    "7.3": ("A surprise of two bits is a code of two bits",),
    "7.4": ("Three units for one number",),
    "9.1": ("From descent to Adam", "Weight decay"),
    "9.2": ("Warm-up and schedules",),
    "9.3": ("The longest step that works",),
    "9.4": ("Long gradients, large batches",),
    "9.5": ("Where the bytes go",),
    "12.1": ("LoRA: a change made of thin matrices",),
    "12.2": ("DPO: preferences without a reward model",),
    "12.3": ("Instruction tuning: a loss on answers alone",),
    "13.1": ("A sum around a ring",),
    "13.2": ("One batch on two devices",),
    "13.3": ("The depth: a pipeline",),
    "13.4": ("The price of a sum",),
    "13.5": ("The state: ZeRO",),
    "15.1": ("What was never told",),
    "15.2": ("Ten predictions",),
    "15.3": ("Bits of a fact",),
    "16.1": ("Temperature",),
    "16.2": ("Top-k, top-p and min-p",),
    "16.4": ("The likeliest text",),
    "16.5": ("A draft and a judge",),
    "8.1": ("Four lines",),
}
"""What to read before an exercise; others need no more than those before them."""

SETUP = """\
import math

import torch
from torch.nn import functional as F

from decoder_only_book.progress import check, hint"""

HOW = """\
This workbook has the exercises of that chapter that check themselves. Replace the dots in each one,
run the cell, and run the check below it. A check says what is wrong. Run a hint's cell again for
the next of three hints. What passes is noted in `progress.json` in this folder. Workbook 8 puts the
functions that you have written together, and a trained model writes a story with them."""


def numbers_of(chapter: int) -> list[str]:
    """The numbers of a chapter's exercises, in order."""
    numbers = [n for n in EXERCISES if n.partition(".")[0] == str(chapter)]
    return sorted(numbers, key=lambda number: int(number.partition(".")[2]))


def made(lesson: dict[str, Any], chapter: int) -> dict[str, Any]:
    """The workbook of a chapter, as a notebook's content.

    Args:
        lesson: the content of the chapter's notebook.
        chapter: its number.

    Raises:
        ValueError: a heading that `SECTIONS` names is not in the lesson.
    """
    title = _source(lesson["cells"][0]).splitlines()[0].removeprefix("# ")
    setup = next(cell for cell in lesson["cells"] if cell["cell_type"] == "code")
    cells = [
        _markdown(f"# Workbook {chapter}: {title}\n\n{_opening(lesson)}\n\n{HOW}"),
        code_cell(_source(setup)),
        code_cell(SETUP),
    ]
    shown: set[str] = set()
    for number in numbers_of(chapter):
        wanted = [name for name in SECTIONS.get(number, ()) if name not in shown]
        cells += [_markdown(reading(lesson, heading, shown)) for heading in wanted]
        cells += _exercise(number, EXERCISES[number])
    cells += [
        _markdown(text) if kind == "markdown" else code_cell(text)
        for kind, text in ENDING.get(chapter, ())
    ]
    for place, cell in enumerate(cells):
        cell["id"] = f"cell-{place:02d}"
    kept = {name: lesson[name] for name in ("metadata", "nbformat", "nbformat_minor")}
    return {"cells": cells} | kept


def _exercise(number: str, exercise: Exercise) -> list[dict[str, Any]]:
    """The task, a cell to fill in, the check and the hints."""
    stub = getattr(exercise, "stub", "") or f"answer_{number.replace('.', '_')} = ..."
    names = re.findall(r"^(?:(?:def|class) (\w+)|(\w+) =)", stub, re.MULTILINE)
    answer = "".join(names[-1])
    task = f"### Exercise {number}: {exercise.title}\n\n{exercise.task}"
    lines = getattr(exercise, "code", "").splitlines()
    if lines:
        numbered = [f"{place:2}  {line}" for place, line in enumerate(lines, start=1)]
        task += "\n\n" + "\n".join(["```", *numbered, "```"])
    return [
        _markdown(task),
        code_cell(stub),
        code_cell(f'check("{number}", {answer})'),
        code_cell(f'hint("{number}")'),
    ]


def reading(lesson: dict[str, Any], heading: str, shown: set[str]) -> str:
    """What a workbook has of a section; headings and takeaways are noted in `shown`."""
    blocks, takeaway = _section(lesson, heading)
    kept = []
    for place, block in enumerate(blocks):
        before = blocks[place - 1] if place else ""
        is_first = place == 0
        is_formula = block.startswith("$$")
        follows = is_first_list = False
        if place:
            # The sentence goes on after its formula, or the list after its colon.
            follows = before.startswith("$$") and block[0].islower()
            is_first_list = place == 1 and before.endswith(":") and block[0] in "-|"
        if is_formula and before not in kept and place:
            kept.append(before)
        if is_first or is_formula or follows or is_first_list:
            kept.append(block)
    parts = [f"## {heading}"]
    for place, block in enumerate(kept):
        after = kept[place + 1] if place + 1 < len(kept) else ""
        parts.append(plain(block, leads_on=after.startswith(("$$", "- ", "|"))))
    if takeaway and takeaway not in shown:
        parts.append("> " + plain(takeaway, leads_on=False))
    shown.update({heading, takeaway})
    return "\n\n".join(part for part in parts if part.strip("> "))


def _section(lesson: dict[str, Any], heading: str) -> tuple[list[str], str]:
    """The blocks of a section, "" where code is, and the takeaway of the part that it is in."""
    blocks: list[str] = []
    is_in, takeaway = False, ""
    for block in _blocks(lesson):
        title = re.fullmatch(r"(#+) (.*)", block)
        if title and is_in:
            is_in = False
        if title and title[2] == heading:
            is_in, blocks, takeaway = True, [], "wanted"
        elif title and title[1] == "##" and takeaway == "wanted":
            takeaway = ""  # the part ended without one
        elif block.startswith("> **Takeaway.**") and takeaway == "wanted":
            takeaway = re.sub(r"\n> ?", "\n", block.removeprefix("> "))
        elif is_in and not title:
            blocks.append(block or "(code)")
    if not blocks:
        raise ValueError(f"{heading=} must be a heading of the lesson")
    return [block for block in blocks if block != "(code)"], takeaway.replace(
        "wanted", ""
    )


def _blocks(lesson: dict[str, Any]) -> Iterator[str]:
    """Paragraphs, headings, lists and formulas in order; "" for a cell of code."""
    for cell in lesson["cells"]:
        if cell["cell_type"] != "markdown":
            yield ""
            continue
        text = re.sub(r"(?ms)^(```|:::).*?^\1$", "", _source(cell))
        for block in re.split(r"\n\s*\n", text):
            if block.strip():
                yield block.strip()


def _opening(lesson: dict[str, Any]) -> str:
    """The lesson's opening, which says what the chapter is about."""
    opening = re.split(r"\n\s*\n", _source(lesson["cells"][0]))
    return plain(opening[1], leads_on=False)


def plain(text: str, *, leads_on: bool) -> str:
    """Text without what only the built book can show.

    Args:
        text: a block of a lesson.
        leads_on: whether what its last colon announces follows in the workbook.
    """
    if text.startswith("$$"):
        return re.sub(r"\$\$ \([\w-]+\)$", "$$", text)
    text = re.sub(r"\{(?:doc|ref)\}`([^`<]+?) <(?!ex-|fig-)[^`]*>`", r"\1", text)
    text = re.sub(r"\s*\{cite(?::p)?\}`[^`]*`", "", text)
    text = re.sub(
        r"\{cite:t\}`([a-z]+)(\d{4})\w*`",
        lambda found: f"{found[1].capitalize()} ({found[2]})",
        text,
    )
    if text.startswith(("- ", "|")):
        return text
    sentences = re.split(r"(?<=[.?!:])\s+(?=[A-Z$*“`{])", " ".join(text.split()))
    kept = [sentence for sentence in sentences if not re.search(r"\{\w+\}`", sentence)]
    if kept and kept[-1].endswith(":") and not leads_on:
        announcement = kept.pop()
        if len(announcement.split()) >= 10:  # it says more than what comes next
            kept.append(f"{announcement[:-1]}.")
    return " ".join(kept)


def code_cell(source: str) -> dict[str, Any]:
    """A cell of code that has not been run."""
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": source.splitlines(keepends=True),
    }


def _markdown(source: str) -> dict[str, Any]:
    lines = source.splitlines(keepends=True)
    return {"cell_type": "markdown", "metadata": {}, "source": lines}


def _source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])
