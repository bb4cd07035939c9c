"""The notebooks as files: executed, complete, and in the form that every chapter has.

nbval proves that stored outputs are fresh. It passes a cell that was never executed, and says
nothing about form; that is done here.
"""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import first_cell
import nbformat
import pytest
import report
import yaml
from bs4 import BeautifulSoup
from rules import of_every

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "book").glob("*.ipynb"))
CHAPTERS = [path for path in NOTEBOOKS if re.match(r"(?!00)\d\d_", path.name)]

HEADINGS = [
    "The question",
    "By hand",
    "Derive",
    "The package's version",
    "Parity",
    "Look",
    "Claims on trial",
    "What we built",
    "Exercises",
]
FENCED = re.compile(r"^(`{3,})[^\n]*\n.*?^\1`*\s*$", re.MULTILINE | re.DOTALL)
EXERCISE = re.compile(
    r"^:{3,}\{exercise\}[ ]*(.*)\n(?:.*\n)*?:label:\s*(\S+)", re.MULTILINE
)
SOLUTION = re.compile(
    r"^:{3,}\{solution-start\}[ ]+(\S+)\n:class: dropdown$", re.MULTILINE
)
SOLUTION_END = re.compile(r"^:{3,}\{solution-end\}", re.MULTILINE)

every_notebook = of_every(NOTEBOOKS)
every_chapter = of_every(CHAPTERS)


@cache
def cells(path: Path) -> list:
    return nbformat.read(path, as_version=4).cells


def code_cells(path: Path) -> list:
    return [cell for cell in cells(path) if cell.cell_type == "code"]


def prose(path: Path) -> str:
    """All Markdown of the notebook, without fenced code."""
    texts = [cell.source for cell in cells(path) if cell.cell_type == "markdown"]
    return FENCED.sub("", "\n\n".join(texts))


def lines(cell) -> int:
    return sum(bool(line.strip()) for line in cell.source.splitlines())


def solutions(path: Path) -> dict[str, list]:
    """The code cells of each exercise's folded solution, by the exercise's label."""
    found: dict[str, list] = {}
    current = None
    for cell in cells(path):
        if cell.cell_type == "code":
            if current:
                found[current].append(cell)
            continue
        # A cell may end one solution and start the next.
        marks = [(match.start(), match[1]) for match in SOLUTION.finditer(cell.source)]
        marks += [(match.start(), None) for match in SOLUTION_END.finditer(cell.source)]
        for _, current in sorted(marks):
            if current:
                found[current] = []
    return found


def texts(cell) -> list[str]:
    """What the cell reports, as a reader reads it: printed text, plain text, the text of HTML.

    Markdown is left out: it is the package's own source, from ``show_source``.
    """
    shown = []
    for output in cell.outputs:
        data = output.get("data", {})
        if output.output_type == "stream":
            shown.append(output.text)
        elif "text/html" in data:
            shown.append(BeautifulSoup(data["text/html"], "html.parser").get_text(" "))
        elif not {"image/svg+xml", "text/markdown"} & set(data):
            shown.append(data.get("text/plain", ""))
    return shown


def images(cell) -> list:
    return [o for o in cell.outputs if "image/svg+xml" in o.get("data", {})]


def test_table_of_contents_lists_every_page_and_no_other():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    listed = [toc["root"]]
    listed += [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    pages = [*(ROOT / "book").glob("*.md"), *NOTEBOOKS]
    there = [path.relative_to(ROOT).with_suffix("").as_posix() for path in pages]
    assert Counter(listed) == Counter(there)
    numbered = [name for name in listed if re.search(r"/\d\d_", name)]
    assert numbered == sorted(numbered)


@every_notebook
def test_every_code_cell_was_executed_in_order(path):
    assert [cell.execution_count for cell in code_cells(path)] == list(
        range(1, len(code_cells(path)) + 1)
    ), "run make execute"


@every_notebook
def test_no_error_and_nothing_on_stderr(path):
    for cell in code_cells(path):
        for output in cell.outputs:
            assert output.output_type != "error", cell.source
            assert output.get("name") != "stderr", f"{cell.source}\n\n{output.text}"


@every_notebook
def test_metadata_does_not_depend_on_the_machine(path):
    metadata = nbformat.read(path, as_version=4).metadata
    assert metadata.kernelspec.name == "python3"
    assert "version" not in metadata.language_info, "run make execute"
    assert set(metadata) == {"kernelspec", "language_info"}


@every_notebook
def test_first_code_cell_installs_the_package_where_it_is_missing(path):
    cell = code_cells(path)[0]
    assert cell.source == first_cell.source(), (
        "run make repository URL=... or copy the cell"
    )
    assert dict(cell.metadata) == first_cell.METADATA


@every_notebook
def test_figures_have_alt_text_caption_and_name(path):
    names = []
    for cell in code_cells(path):
        if not images(cell):
            continue
        shown = cell.metadata.get("mystnb", {})
        alt = shown.get("image", {}).get("alt", "")
        caption = shown.get("figure", {}).get("caption", "")
        name = shown.get("figure", {}).get("name", "")
        assert len(alt) >= 20, f"say what is seen:\n{cell.source}"
        assert len(caption) >= 20, f"say what it means:\n{cell.source}"
        assert alt != caption, f"alt text and caption do different work:\n{cell.source}"
        assert name.startswith("fig-"), cell.source
        assert len(images(cell)) == 1, f"one figure a cell:\n{cell.source}"
        names.append(name)
    assert len(set(names)) == len(names)


@every_notebook
def test_figures_are_stored_as_small_svg_and_in_no_other_form(path):
    for cell in code_cells(path):
        for output in cell.outputs:
            forms = {
                form for form in output.get("data", {}) if form.startswith("image/")
            }
            assert forms <= {"image/svg+xml"}, cell.source
        for output in images(cell):
            assert len(output.data["image/svg+xml"].encode()) < 75_000, cell.source


@every_notebook
def test_what_is_not_compared_is_rare_and_asserted(path):
    executed = code_cells(path)
    unchecked = [cell for cell in executed if report.exempt(cell)]
    assert 10 * len(unchecked) <= len(executed), "at most one code cell in ten"
    for cell, following in zip(executed, [*executed[1:], None], strict=True):
        if report.exempt(cell):
            assert following is not None, cell.source
            assert re.search(r"\bassert", following.source), (
                f"assert what holds:\n{cell.source}"
            )
            assert not report.exempt(following), following.source


@every_notebook
def test_outputs_are_aggregates_and_hold_anywhere(path):
    for cell in code_cells(path):
        for text in texts(cell):
            assert not re.search(r"\b(tensor|array)\(", text), text
            assert not re.search(r" at 0x[0-9a-f]+|<Figure size|ipykernel_", text), text
            assert not re.search(
                r"(?<![\w.])/(home|root|tmp|usr|var|opt|Users|content)/", text
            )
            assert not re.search(r"\d\.\d{4,}", text), (
                f"three decimals at most:\n{text}"
            )


@every_notebook
def test_nothing_names_a_machine(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w./])/(home|root|tmp|Users|content)/\w", text)


@every_notebook
def test_one_title_and_no_formula_in_a_heading(path):
    headings = re.findall(r"^(#{1,6})\s+(.*)$", prose(path), re.MULTILINE)
    assert [mark for mark, _ in headings].count("#") == 1
    assert headings[0][0] == "#"
    for _, words in headings:
        assert "$" not in words, f"the side bar cannot show a formula: {words}"


@every_chapter
def test_anatomy(path):
    headings = re.findall(
        r"^##[ \t]+(.*)$", prose(path).replace("’", "'"), re.MULTILINE
    )
    assert [heading.partition(":")[0].strip() for heading in headings] == HEADINGS


@every_chapter
def test_the_question_shows_the_place_in_the_architecture(path):
    section = None
    for cell in cells(path):
        for heading in re.findall(r"^##[ \t]+(.*)$", cell.source, re.MULTILINE):
            section = heading if cell.cell_type == "markdown" else section
        if cell.cell_type == "code" and "architecture(" in cell.source and images(cell):
            assert section == HEADINGS[0]
            return
    pytest.fail("no code cell draws architecture(lit=...)")


@every_chapter
def test_exercises_have_stars_and_folded_executed_solutions(path):
    exercises = {label: title for title, label in EXERCISE.findall(prose(path))}
    solved = solutions(path)
    assert len(exercises) >= 5
    assert list(solved) == list(exercises), (
        "each exercise has its solution, in the same order"
    )
    for label, title in exercises.items():
        assert re.match(r"★{1,3} \S", title), (
            f"{label}: the title begins with its difficulty"
        )
        assert solved[label], f"{label}: the solution holds no code cell"
        assert all(cell.execution_count for cell in solved[label])
    assert prose(path).count("{solution-end}") == len(solved)


@every_chapter
def test_a_claim_is_tried(path):
    section = re.split(r"^## ", prose(path), flags=re.MULTILINE)[
        HEADINGS.index("Claims on trial") + 1
    ]
    assert re.search(r"^:{3,}\{claim\}", section, re.MULTILINE), (
        "{claim} in Claims on trial"
    )


@every_chapter
def test_cells_are_short_and_prose_carries_them(path):
    everything = code_cells(path)
    solving = {cell.id for found in solutions(path).values() for cell in found}
    body = [cell for cell in everything if cell.id not in solving]
    assert 25 <= len(body) <= 40, f"{len(body)} code cells, without solutions"
    for cell in everything:
        assert lines(cell) <= 40, cell.source
    words = len(
        re.findall(r"[^\W\d_]{2,}|\b[aAI]\b", re.sub(r"\$+[^$]*\$+", " ", prose(path)))
    )
    code = sum(lines(cell) for cell in everything)
    assert words >= 5 * code, f"{words} words for {code} lines of code"


@every_notebook
def test_no_caption_names_what_the_dark_theme_turns_over(path):
    """There black is drawn white, and what was the darkest is the lightest; hues stay."""
    shade = r"(?i)\b(black|white|(dark|light|pale|bright)(e?r|e?st)?)\b(?! space)"
    for cell in code_cells(path):
        shown = cell.metadata.get("mystnb", {})
        for kind, key in (("figure", "caption"), ("image", "alt")):
            # A quoted word is what is said and not how it looks.
            said = re.sub(r"“[^”]*”|`[^`]*`", "", shown.get(kind, {}).get(key, ""))
            assert not re.search(shade, said), (
                f"in the dark theme this is false: {said}"
            )
