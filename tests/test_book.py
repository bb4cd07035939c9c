"""The notebooks as files: executed, complete, and in the form that every chapter has.

nbval proves that stored outputs are fresh. It passes a cell that was never executed, and says
nothing about form; that is done here.

A chapter is a lesson, short and plain, and its trials are in its laboratory.
"""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from statistics import mean, median

import first_cell
import nbformat
import notebooks
import pytest
import report
import yaml
from bs4 import BeautifulSoup
from rules import of_every

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = notebooks.every()
LABORATORIES = notebooks.laboratories()
TRIED_IN_LABORATORIES = {path.name for path in LABORATORIES}
CHAPTERS = [path for path in notebooks.lessons() if not path.name.startswith("00")]
LESSONS = [path for path in CHAPTERS if path.name in TRIED_IN_LABORATORIES]

HEADINGS = [
    "The question",
    "By hand",
    "Derive",
    "The package's version",
    "Parity",
    "Look",
    "What the documents say",
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
every_lesson = of_every(LESSONS)
every_laboratory = of_every(LABORATORIES)


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
    assert set(NOTEBOOKS) == set((ROOT / "book").glob("**/[!.]*.ipynb")), "misnamed"
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


@of_every(NOTEBOOKS)
def test_tables_have_caption_and_name_and_errors_beside_their_numbers(path):
    names = []
    for cell in code_cells(path):
        for output in cell.outputs:
            shown = BeautifulSoup(output.get("data", {}).get("text/html", ""), "lxml")
            for table in shown.select("table.dataframe"):
                assert table.caption, f"say what it shows, with units:\n{cell.source}"
                assert len(table.caption.get_text()) >= 20, cell.source
                header = [column.get_text() for column in table.select("thead th")]
                assert not {"error", "std. error", "std"} & {*header}, f"±: {header}"
                names.append(table["id"])
    assert len(set(names)) == len(names)


@every_notebook
def test_every_table_is_shown(path):
    """A notebook shows the value of a cell's last line, and of no other."""
    for cell in code_cells(path):
        made = [
            isinstance(line, ast.Expr)
            and isinstance(line.value, ast.Call)
            and getattr(line.value.func, "id", "") == "show_table"
            for line in ast.parse(cell.source).body
        ]
        assert not any(made[:-1]), f"the table is made and not shown:\n{cell.source}"


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


@every_laboratory
def test_a_claim_is_tried(path):
    assert re.search(r"^:{3,}\{claim\}", prose(path), re.MULTILINE), "no {claim}"


@every_lesson
def test_a_lesson_leaves_the_trials_to_its_laboratory(path):
    assert "{claim}" not in prose(path)


# ---------------------------------------------------------------------------------------- lessons

N_WORDS = 3_000
N_VISIBLE_CELLS = 30
N_VISIBLE_LINES, TYPICAL_LINES = 15, 6
N_LISTED_LINES = 30
WORDS_OF_A_SENTENCE, MEAN_WORDS = 35, 20
TWO_SCREENS = 1_800  # pixels

MATH = re.compile(r"\$\$.*?\$\$(?:[ ]*\([\w-]+\))?", re.DOTALL)
ROLE = re.compile(r"\{[\w:]+\}`([^`<]*?)(?:\s*<[^>`]*>)?`")
STARTS = r"(?=[“\"(*]*[A-Z])"
ENDS = re.compile(rf"(?<=[.!?])\s+{STARTS}|(?<=[.!?][”\")*])\s+{STARTS}")


def as_read(text: str) -> str:
    """Markdown in paragraphs of plain words: a formula and a piece of code are an X."""
    text = re.sub(r"^:{3,}.*$|^:\w+:.*$|^#+ .*$|^\|.*$", "\n", text, flags=re.MULTILINE)
    text = MATH.sub("\n\n", re.sub(r"^\(lab-[\w-]+\)=$", "", text, flags=re.MULTILINE))
    text = re.sub(r"\s*\{cite\}`[^`]*`", "", text)
    text = re.sub(r"\{(?:numref|eq)\}`[^`]*`", "Figure", text)
    text = ROLE.sub(r"\1", text).replace("**", "")
    text = re.sub(r"\$[^$]+\$|`[^`]*`", "X", text)
    text = re.sub(r"^> ?", "", text, flags=re.MULTILINE)
    return re.sub(r"^(?:- |\d\. )", "\n", text, flags=re.MULTILINE)


def n_words(text: str) -> int:
    return len(re.findall(r"[^\W\d_]{2,}|\b[aAI]\b", as_read(text)))


def only_shows_source(cell) -> bool:
    """Whether the page shows what the cell puts out, and not its call."""
    body = ast.parse(cell.source).body
    return all(
        isinstance(line, ast.Expr) and "show_source(" in ast.unparse(line)
        for line in body
    )


def is_set_up(cell) -> bool:
    """A cell of imports, which the page folds."""
    body = ast.parse(cell.source).body
    imports = [line for line in body if isinstance(line, ast.Import | ast.ImportFrom)]
    return len(imports) >= 3 and 3 * len(imports) >= 2 * len(body)


def visible_cells(path: Path) -> list:
    """The code that a reader of the page sees without opening a fold."""
    folded = {cell.id for found in solutions(path).values() for cell in found}
    return [
        cell
        for cell in code_cells(path)
        if cell.id not in folded
        and "hide-input" not in cell.metadata.get("tags", [])
        and not only_shows_source(cell)
        and not is_set_up(cell)
    ]


def listings(cell) -> list[str]:
    """The package's code that a cell shows."""
    shown = [o["data"].get("text/markdown", "") for o in cell.outputs if "data" in o]
    return re.findall(r"^`{3,}python\n(.*?)^`{3,}", "\n".join(shown), re.M | re.S)


def sentences(text: str) -> list[str]:
    """The sentences of Markdown, without headings, tables, formulas on lines of their own."""
    paragraphs = re.split(r"\n\s*\n", as_read(text))
    found = [part for each in paragraphs for part in ENDS.split(" ".join(each.split()))]
    return [each for each in found if n_words(each)]


def section_of(path: Path, heading: str) -> str:
    parts = re.split(r"^## ", prose(path), flags=re.MULTILINE)[1:]
    return next(part for part in parts if part.startswith(heading))


@every_lesson
def test_a_lesson_is_half_an_hour(path):
    words = n_words(prose(path))
    assert words <= N_WORDS, f"{words} words"
    assert len(visible_cells(path)) <= N_VISIBLE_CELLS


@every_lesson
def test_a_lesson_takes_one_step_a_cell(path):
    sizes = [lines(cell) for cell in visible_cells(path)]
    assert max(sizes) <= N_VISIBLE_LINES, f"a cell of {max(sizes)} lines"
    assert median(sizes) <= TYPICAL_LINES, f"typically {median(sizes)} lines"


@every_lesson
def test_a_lesson_shows_source_in_pieces_and_says_what_to_look_at(path):
    everything = cells(path)
    shown = [
        place
        for place, cell in enumerate(everything)
        if cell.cell_type == "code" and listings(cell)
    ]
    assert shown, "the package's version is shown from its source"
    for place in shown:
        pieces = listings(everything[place])
        size = sum(len(code.splitlines()) for code in pieces)
        assert size <= N_LISTED_LINES, f"a listing of {size} lines"
        following = everything[place + 1]
        assert following.cell_type == "markdown", "say what to look at"
        assert len(sentences(following.source)) >= 2, following.source


@every_lesson
def test_each_section_of_a_lesson_closes_with_its_takeaway(path):
    for heading in HEADINGS[: HEADINGS.index("What we built")]:
        last = re.split(r"\n\s*\n", section_of(path, heading).strip())[-1]
        assert last.startswith("> **Takeaway.** "), f"{heading} ends on: {last}"


@every_lesson
def test_sentences_of_a_lesson_are_short(path):
    found = sentences(prose(path))
    long = [each for each in found if n_words(each) > WORDS_OF_A_SENTENCE]
    assert not long, "\n".join(long)
    assert mean(map(n_words, found)) <= MEAN_WORDS
    double = [each for each in found if ";" in each and "(" in each]
    assert not double, "a semicolon and a parenthesis:\n" + "\n".join(double)


def height(cell, visible: bool) -> int:
    """Of a cell on a page 1,440 pixels wide, roughly; of its picture, nothing."""
    if cell.cell_type == "markdown":
        text = FENCED.sub("", cell.source)
        words = len(MATH.sub(" ", text).split())
        headings = len(re.findall(r"^#+ ", text, re.MULTILINE))
        rows = len(re.findall(r"^\|", text, re.MULTILINE))
        blocks = len(re.split(r"\n\s*\n", text))
        return (
            5 * words // 2
            + 60 * headings
            + 30 * rows
            + 18 * blocks
            + 60 * len(MATH.findall(text))
        )
    shown = sum(len(text.splitlines()) for text in [*texts(cell), *listings(cell)])
    return 45 + 19 * shown + (19 * lines(cell) + 30 if visible else 0)


@every_lesson
def test_a_lesson_has_a_picture_every_two_screens(path):
    """Until the exercises; read from the sources, since not every machine has a browser."""
    seen = {cell.id for cell in visible_cells(path)}
    since, gaps = 0, []
    for cell in cells(path):
        if re.search(r"^## What we built", cell.source, re.MULTILINE):
            break
        if cell.cell_type == "code" and images(cell):
            gaps.append(since)
            since = 0
        else:
            since += height(cell, cell.id in seen)
    assert max([*gaps, since]) <= TWO_SCREENS, f"pixels between pictures: {gaps, since}"


@every_lesson
def test_experiments_of_a_lesson_have_their_shape(path):
    experiments = re.split(r"^### ", section_of(path, "Look"), flags=re.MULTILINE)[1:]
    assert 2 <= len(experiments) <= 5
    for each in experiments:
        marks = [each.find(f"**{mark}**") for mark in ("We ask", "We expect", "We see")]
        assert -1 < marks[0] < marks[1] < marks[2], each.splitlines()[0]
        fold = re.search(
            r"^:::\{admonition\} How this was run\n:class: dropdown\n(.*?)^:::",
            each,
            re.M | re.S,
        )
        assert fold, f"How this was run: {each.splitlines()[0]}"
        assert "<lab-" in fold[1], "a link to the laboratory"


@every_lesson
def test_what_the_documents_say_leads_to_trials(path):
    section = section_of(path, "What the documents say")
    assert section.count("<lab-") >= 3
    assert not re.search(r"\b(?:post|guide|notes) [A-Z]\b", prose(path)), "by its name"


# ----------------------------------------------------------------------------------- laboratories

FRAME = [
    "Question.",
    "What would count against it.",
    "Design.",
    "Result.",
    "Answer.",
    "Limits.",
]


@every_laboratory
def test_a_laboratory_opens_with_its_questions_and_their_answers(path):
    first, *experiments = re.split(r"^## ", prose(path), flags=re.MULTILINE)[1:]
    assert first.startswith("Questions and answers\n")
    asked = re.findall(r"^- (.+(?:\n  .+)*)", first, re.MULTILINE)
    labels = [re.search(r"\{ref\}`[^`]+<(lab-[\w-]+)>`", each)[1] for each in asked]
    places = re.findall(r"^\((lab-[\w-]+)\)=\n## ", prose(path), re.MULTILINE)
    assert labels == places, "a question for each section, in order"
    assert len(experiments) == len(labels)
    for each in asked:
        assert "?" in each, each
        assert each.rstrip().endswith("."), each


@every_laboratory
def test_experiments_of_a_laboratory_are_in_the_frame(path):
    for each in re.split(r"^## ", prose(path), flags=re.MULTILINE)[2:]:
        title = each.splitlines()[0]
        marks = re.findall(r"^\*\*([^*]+)\*\*", each, re.MULTILINE)
        assert [mark for mark in marks if mark in FRAME] == FRAME, title
        design = each.partition("**Design.**")[2].partition("**Result.**")[0]
        assert re.search(r"^\|.*\|\n\|[-:| ]+\|\n\|", design, re.MULTILINE), (
            f"{title}: a table of the design"
        )


@every_laboratory
def test_a_laboratory_has_a_result_for_each_experiment(path):
    section, ran = None, Counter()
    for cell in cells(path):
        if cell.cell_type == "code":
            ran[section] += 1
        else:
            found = re.findall(r"^## (.+)$", cell.source, re.MULTILINE)
            section = found[-1] if found else section
            ran[section] += 0
    silent = [
        name for name, n in ran.items() if not n and name != "Questions and answers"
    ]
    assert not silent, f"no cell runs in {silent}"
    for cell in code_cells(path):
        assert lines(cell) <= 40, cell.source


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
