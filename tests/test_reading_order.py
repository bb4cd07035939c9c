"""The page that lists the modules in reading order, in step with the package.

The page decides the order; the rest of its tables follows from the package, and
`python tests/test_reading_order.py` writes it anew.
"""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest
from test_package import MODULES, PACKAGE, imported, sources

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "book" / "reading_order.md"
ORDER = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def lines_of_code(text: str) -> int:
    """Lines that hold code: no blank ones, no comments, no docstrings."""
    code = set()
    for token in tokenize.tokenize(io.BytesIO(text.encode()).readline):
        if token.type not in SILENT:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            said = node.body[0]
            code.difference_update(range(said.lineno, said.end_lineno + 1))
    return len(code)


def size(module: str) -> int:
    return sum(lines_of_code(path.read_text("utf-8")) for path in sources(module))


def row(module: str) -> str:
    """A module's line in the table; its docstring says what it holds and names its chapter."""
    folder = PACKAGE / module / "__init__.py"
    main = folder if folder.is_file() else PACKAGE / f"{module}.py"
    docstring = ast.get_docstring(ast.parse(main.read_text("utf-8")))
    sentence = docstring.partition("\n")[0]
    number = re.search(r"Chapter (\d+)", docstring)
    chapter = number[1] if number else "–"
    for page in (ROOT / "book").glob(f"{chapter:0>2}_*.ipynb"):
        chapter = f"{{doc}}`{chapter} <{page.stem}>`"
    return f"| `{module}` | {sentence} | {chapter} | {size(module)} |"


def rewritten(page: str) -> str:
    """The page as it should be: each table's rows, and their sum in its last one."""
    lines, total = [], 0
    for line in page.splitlines():
        if found := re.match(r"\| `(\w+)` \|", line):
            total += size(found[1])
            line = row(found[1])
        elif line.startswith("| **Together**"):
            line, total = f"| **Together** | | | {total} |", 0
        lines.append(line)
    return "\n".join(lines) + "\n"


def test_the_page_is_in_step_with_the_package():
    page = PAGE.read_text(encoding="utf-8")
    assert page == rewritten(page), "run python tests/test_reading_order.py"


def test_every_module_is_listed_once():
    assert sorted(ORDER) == MODULES, "give the module a row on the page"


@pytest.mark.parametrize("module", ORDER)
def test_what_a_module_imports_stands_above_it(module):
    for name in imported(module):
        top, _, rest = name.partition(".")
        other = rest.partition(".")[0]
        if top == "decoder_only" and other in MODULES and other != module:
            assert ORDER.index(other) < ORDER.index(module), f"{other} comes later"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", 0),
        ('"""Module."""\n\nx = 1  # one\n', 1),
        ("# a comment\n\n\nx = [\n    1,\n\n    # inside\n    2,\n]\n", 4),
        ('def f():\n    """Said.\n\n    More.\n    """\n    return """a\n\nb"""\n', 4),
    ],
    ids=["nothing", "docstring", "brackets", "strings"],
)
def test_lines_of_code_by_hand(text, lines):
    assert lines_of_code(text) == lines


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
