"""Workbooks: filled in they pass, unfilled they say what to do, and they are what the tool makes.

The solutions are those of `answers`, as a reader would write them.
"""

import importlib.util
import json
import linecache
import math
import subprocess
import sys
from itertools import count
from pathlib import Path

import nbformat
import pytest
import torch
import workbooks as tool
from rules import of_every

from decoder_only.cli import main
from decoder_only_book import progress
from decoder_only_book.exercises import EXERCISES
from decoder_only_book.exercises.framework import Verdict
from decoder_only_book.workbooks import making, stored

ANSWERS = sorted(Path(__file__).with_name("answers").glob("chapter_*.py"))
ATTEND = EXERCISES["3.2"].reference
_numbers = count()


def right_answers() -> dict[str, object]:
    found = {}
    for path in ANSWERS:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found |= {number: answers[0] for number, answers in module.RIGHT.items()}
    return found


def sources(path: Path) -> list[str]:
    """Cells of code, without the one that installs the package; a story is cut short."""
    cells = nbformat.read(path, as_version=4).cells
    cells = [cell.source for cell in cells if cell.cell_type == "code"]
    return [source.replace("len(ids) < 200", "len(ids) < 30") for source in cells[1:]]


def filled(cells: list[str]) -> list[str]:
    """The cells with right answers in the place of the stubs."""
    answers, cells = right_answers(), list(cells)
    for place, source in enumerate(cells):
        if source.startswith("check("):
            number = source.split('"')[1]
            answer = answers[number]
            if not (isinstance(answer, str) and "def " in answer):
                answer = cells[place - 1].replace("...", repr(answer))
            cells[place - 1] = answer
    return cells


def executed(cells: list[str], names: dict) -> list[Verdict]:
    """Run cells as a kernel does, whose functions have a source; what checks say."""
    verdicts = []
    for source in cells:
        file = f"<cell {next(_numbers)}>"
        linecache.cache[file] = (len(source), None, source.splitlines(True), file)
        if source.startswith(("check(", "hint(")):
            said = eval(compile(source, file, "eval"), names)
            assert isinstance(said, Verdict)
            verdicts += [said] * source.startswith("check(")
        else:
            exec(compile(source, file, "exec"), names)
    return verdicts


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """A folder and a memory in which nothing has passed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "_functions", {})


def exercises_of(path: Path) -> list[str]:
    return making.numbers_of(int(path.name[:2]))


@of_every(stored().values())
def test_a_workbook_with_right_answers_passes_every_check(path):
    Path(progress.FILE).unlink(missing_ok=True)
    cells = filled(sources(path))
    if path.name.startswith("08"):
        cells = cells[: 1 + 3 * len(exercises_of(path))]  # the story has its own tests
    verdicts = executed(cells, {})
    assert len(verdicts) == len(exercises_of(path)) > 0
    assert [v.line for v in verdicts if not v.right] == []
    assert [*progress.passed()] == exercises_of(path)


@of_every(stored().values())
def test_a_workbook_as_it_comes_says_what_to_do(path):
    cells = sources(path)
    end = max(place for place, source in enumerate(cells) if "hint(" in source)
    verdicts = executed(cells[: end + 1], {})
    assert len(verdicts) == len(exercises_of(path))
    for verdict in verdicts:
        assert verdict.right is False
        helpful = ("returns nothing", "in the place of the dots")
        assert any(words in verdict.line for words in helpful), verdict.line
    assert not Path(progress.FILE).exists()


@of_every(stored().values())
def test_a_workbook_is_a_valid_notebook_without_solutions(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    ids = [cell.id for cell in notebook.cells]
    assert len(ids) == len(set(ids))
    text = path.read_text(encoding="utf-8")
    assert "`{" not in text
    assert "{numref}" not in text
    assert "```python" not in text
    for number in exercises_of(path):
        answer = str(right_answers()[number])
        assert "def " not in answer or answer.strip() not in text


def test_workbooks_are_those_that_the_tool_makes(tmp_path):
    assert tool.stale() == [], "run make workbooks"
    for path in stored().values():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert tool.stale(tmp_path) == []
    first = next(iter(tmp_path.glob("*.ipynb")))
    first.write_text(first.read_text(encoding="utf-8") + " ")
    assert tool.stale(tmp_path) == [first.name]


def test_every_chapter_with_exercises_has_a_workbook():
    chapters = {int(number.partition(".")[0]) for number in EXERCISES}
    assert {int(number) for number in stored()} == chapters
    assert making.SECTIONS.keys() <= EXERCISES.keys()


def test_a_heading_that_a_lesson_does_not_have_is_refused():
    lesson = {"cells": [{"cell_type": "markdown", "source": ["# One\n"]}]}
    with pytest.raises(ValueError, match="heading='Two' must be a heading"):
        making.reading(lesson, "Two", set())


def test_reading_has_no_code_and_nothing_that_only_the_book_shows():
    text = (
        "First, see {numref}`fig-x`. Then {cite:t}`vaswani2017` said {doc}`so <03_x>`."
    )
    assert making.plain(text, leads_on=False) == "Then Vaswani (2017) said so."
    assert making.plain("One. Then:", leads_on=False) == "One."
    assert making.plain("$$\nx\n$$ (eq-x)", leads_on=False) == "$$\nx\n$$"


# ------------------------------------------------------------------------------------- the story


def test_parts_from_several_workbooks_write_a_story(capsys):
    for number in ("01", "02", "03", "04", "05", "06", "07"):
        executed(filled(sources(stored()[number])), {})
    progress._functions.clear()  # another kernel
    names = {}
    executed(filled(sources(stored()["08"])), names)
    out = capsys.readouterr().out
    for number in (
        "1.1",
        "2.1",
        "2.2",
        "3.2",
        "4.1",
        "4.2",
        "5.2",
        "5.6",
        "6.6",
        "7.1",
        "8.1",
        "8.2",
    ):
        assert f"{number} {EXERCISES[number].title}: yours" in out
    assert "Ivo had one radish seed. She put it into the ground" in out
    assert "largest difference from the package: 0.000" in out
    assert names["encode"]("Once there was a") == names["tokenizer"].encode(
        "Once there was a"
    )


def test_a_wrong_part_changes_the_story(capsys):
    """The comparison with the package can fail."""
    cells = filled(sources(stored()["08"]))
    place = next(i for i, source in enumerate(cells) if "own(" in source)
    cells.insert(place + 1, "attend = lambda query, key, value, sees: value")
    executed(cells, {})
    out = capsys.readouterr().out
    assert (
        "3.2 attention with a mask: the book's, until yours passes in workbook 3" in out
    )
    assert "difference from the package: 0.000" not in out


def test_a_function_is_kept_with_the_readers_own_that_it_calls(capsys):
    cells = [
        "def softmax(x):\n    return x.softmax(dim=1)",
        "def scored(query, key, sees):\n    scores = query @ key.T / math.sqrt(len(key.T))\n"
        "    return softmax(scores.masked_fill(~sees, -math.inf))",
        "def attend(query, key, value, sees):\n    return scored(query, key, sees) @ value",
        'check("3.2", attend)',
    ]
    names = {"check": progress.check, "math": math}
    executed(cells, names)
    progress._functions.clear()
    assert progress.own("3.2") is not ATTEND
    assert "yours" in capsys.readouterr().out


def test_a_function_that_needs_another_cell_is_not_taken(capsys):
    source = "def attend(query, key, value, sees):\n    return helper(query)\n"
    Path(progress.FILE).write_text(json.dumps({"3.2": source}))
    assert progress.own("3.2") is ATTEND
    assert "does not work by itself" in capsys.readouterr().out
    for source in (
        "def attend(:",
        "attend = lambda query, key, value, sees: value",
        "",
    ):
        Path(progress.FILE).write_text(json.dumps({"3.2": source}))
        assert progress.own("3.2") is ATTEND
        assert "does not work by itself" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"'3\.3' must be one in which a function"):
        progress.own("3.3")


# -------------------------------------------------------------------------------------- progress


def test_what_passes_is_noted_and_shown(capsys):
    assert progress.check("3.3", 0.8).right
    assert not progress.check("3.4", 15).right
    assert progress.passed() == {"3.3": ""}
    assert main(["progress"]) == 0
    out = capsys.readouterr().out
    n_all = len(making.numbers_of(3))
    assert f"Chapter  3   1 of {n_all} passed; to do: 3.1 3.2 3.4" in out
    assert f"Chapter  1   0 of {len(making.numbers_of(1))} passed\n" in out


def test_no_progress_yet(capsys):
    assert main(["progress"]) == 0
    assert "Nothing has passed yet" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_fails_no_check(monkeypatch, capsys):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(progress, "write_atomically", refuse)
    assert progress.check("3.3", 0.8).right
    said = capsys.readouterr().out
    assert said == "This is not noted in progress.json: Permission denied.\n"
    assert progress.check("3.2", ATTEND).right
    assert progress.own("3.2") is ATTEND  # remembered all the same


def test_a_damaged_file_is_left_alone(capsys):
    for content in ("{", "[1]", '{"3.2": 5}'):
        Path(progress.FILE).write_text(content)
        assert progress.check("3.3", 0.8).right
        assert "progress.json is damaged; delete it" in capsys.readouterr().out
        assert Path(progress.FILE).read_text() == content
        assert main(["progress"]) == 1
        assert "damaged" in capsys.readouterr().err


# --------------------------------------------------------------------------------------- command


def test_the_command_writes_a_workbook_and_replaces_none(capsys):
    assert main(["workbook", "3"]) == 0
    written = Path("workbook_03.ipynb")
    assert written.read_bytes() == stored()["03"].read_bytes()
    assert main(["workbook", "03"]) == 1
    assert "workbook_03.ipynb exists" in capsys.readouterr().err
    assert main(["workbook", "03", "--out", "other.ipynb"]) == 0
    assert Path("other.ipynb").exists()


def test_a_chapter_without_a_workbook_is_refused_with_those_that_have_one(capsys):
    assert main(["workbook", "99"]) == 1
    known = ", ".join(stored())
    said = f"chapter '99' has no workbook; choose one of {known}"
    assert said in capsys.readouterr().err


def test_a_workbook_is_written_without_pytorch():
    code = "import sys; from decoder_only_book import workbooks; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_the_verdict_is_that_of_the_exercises():
    wrong = progress.check("3.2", lambda query, key, value, sees: torch.zeros(()))
    assert "has the shape" in wrong.line
