"""What the package consists of, read from its source: layers, modules, what they import, lines.

    python tools/layout.py     writes the table of README.md, book/reading_order.md and
                               book/forward_pass.md anew

A folder is a layer, and imports only from layers before it. Within a layer no module imports one
that imports it. So both pages follow from the source, and no order is kept by hand.
"""

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
PACKAGE, BOOK = SOURCE / "decoder_only", SOURCE / "decoder_only_book"
README, PAGE = ROOT / "README.md", ROOT / "book" / "reading_order.md"

LAYERS = (
    "decoder_only.base",
    "decoder_only.tokenization",
    "decoder_only.model",
    "decoder_only.stories",
    "decoder_only.data",
    "decoder_only.generation",
    "decoder_only.training",
    "decoder_only.hub",
    "decoder_only.analysis",
    "decoder_only.variants",
    "decoder_only.recipes",
    "decoder_only.plots",
    "decoder_only.cli",
    "decoder_only_book",
)
"""Every folder or file at the top of the package, each importing only from those before it."""

AS_ONE = ("decoder_only.tokenization", "decoder_only.stories", "decoder_only.cli")
"""Folders that are read as one module; of the others each file is one."""

_SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    """The dotted name of a file, or of the folder whose `__init__.py` it is."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


@cache
def modules() -> tuple[str, ...]:
    """Every module by its dotted name, such as `decoder_only.model.attention`."""
    names = {name_of(path) for path in SOURCE.glob("decoder_only*/**/*.py")}
    inside = {n for n in names for one in AS_ONE if n.startswith(f"{one}.")}
    folders = {n for n in names if is_folder(n) and n not in AS_ONE}
    return tuple(sorted(names - inside - folders - {"decoder_only.__main__"}))


def is_folder(module: str) -> bool:
    return SOURCE.joinpath(*module.split(".")).is_dir()


def layer(module: str) -> str:
    """The layer that a module belongs to."""
    return next(
        each for each in LAYERS if module == each or module.startswith(f"{each}.")
    )


def sources(module: str) -> list[Path]:
    """The files of a module, which may be a folder; the one with its docstring comes first."""
    path = SOURCE.joinpath(*module.split("."))
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


@cache
def trees(module: str) -> tuple[ast.Module, ...]:
    return tuple(
        ast.parse(path.read_text(encoding="utf-8")) for path in sources(module)
    )


@cache
def imported(module: str) -> set[str]:
    """Everything that a module imports, anywhere in it, by absolute name."""
    found = set()
    for tree in trees(module):
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{module}: import by absolute names"
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@cache
def needs(module: str) -> frozenset[str]:
    """The modules of the package that a module imports; of a folder's names, the whole folder."""
    found = set()
    for name in imported(module):
        if not name.startswith(("decoder_only.", "decoder_only_book.")):
            continue
        parts = name.split(".")
        # The longest beginning of the name that is a module or a folder.
        ends = [".".join(parts[:end]) for end in range(len(parts), 1, -1)]
        whole = next((e for e in ends if e in modules() or is_folder(e)), None)
        if whole is not None:
            found |= {m for m in modules() if m == whole or m.startswith(f"{whole}.")}
    return frozenset(found - {module})


@cache
def depth(module: str, above: tuple[str, ...] = ()) -> int:
    """How many modules of its own layer a module rests on, one upon the other.

    Raises:
        ValueError: modules import one another in a circle.
    """
    if module in above:
        circle = " imports ".join([*above[above.index(module) :], module])
        raise ValueError(f"modules import one another in a circle: {circle}")
    below = [each for each in needs(module) if layer(each) == layer(module)]
    return max((depth(each, (*above, module)) + 1 for each in below), default=0)


def in_reading_order() -> list[str]:
    """Every module after those that it imports."""
    return sorted(modules(), key=lambda m: (LAYERS.index(layer(m)), depth(m), m))


@cache
def lines_of_code(text: str) -> int:
    """Lines that hold code: no blank ones, no comments, no docstrings."""
    code = set()
    for token in tokenize.tokenize(io.BytesIO(text.encode()).readline):
        if token.type not in _SILENT:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None:
            said = node.body[0]
            code.difference_update(range(said.lineno, said.end_lineno + 1))
    return len(code)


def size(module: str) -> int:
    return sum(lines_of_code(path.read_text("utf-8")) for path in sources(module))


def docstring(module: str) -> str:
    path = SOURCE.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""


def first_line(module: str) -> str:
    return docstring(module).partition("\n")[0]


def chapter_number(module: str) -> str | None:
    """The chapter that a module's docstring names last."""
    named = re.findall(r"Chapter (\d+)", docstring(module))
    return named[-1] if named else None


# ------------------------------------------------------------------------------- what is derived


def short(module: str) -> str:
    """A module's name as readers see it: without the package's."""
    return module.removeprefix("decoder_only.")


def readme_rows() -> list[str]:
    """The README's table: a row for each layer, from the ground up."""
    rows = []
    for each in LAYERS:
        n_lines = sum(size(m) for m in modules() if layer(m) == each)
        rows.append(f"| `{short(each)}` | {first_line(each)} | {n_lines:,} |")
    return rows


def page_row(module: str) -> str:
    """A module's line on the page of reading order."""
    number = chapter_number(module) or "–"
    for page in (ROOT / "book").glob(f"{number:0>2}_*.ipynb"):
        number = f"{{doc}}`{number} <{page.stem}>`"
    return f"| `{short(module)}` | {first_line(module)} | {number} | {size(module)} |"


HEAD = """# The code in reading order

The package `decoder_only` can be read like a text, from the first module to the last.
Its folders are layers. Each imports only from modules that stand above it, so nothing is used
before it has been read.
The sentence beside a name begins the module's docstring, which goes on to the equation; the
chapter derives it.
A reader with half an hour takes `model.attention`, `model.multihead`, `model.block` and
`model.gpt`.

Lines are lines of code: blank ones, comments and docstrings do not count.
This page is made from the source, and a test compares them.
"""


def page() -> str:
    """The page of reading order as it should be."""
    parts = [HEAD]
    for each in LAYERS:
        own = [m for m in in_reading_order() if layer(m) == each]
        rows = [page_row(module) for module in own]
        if len(own) > 1:
            rows.append(f"| **Together** | | | {sum(map(size, own))} |")
        table = "\n".join(
            ["| Module | What it holds | Ch. | Lines |", "|:--|:--|:--|--:|", *rows]
        )
        said = f"\n{first_line(each)}\n" if len(own) > 1 else ""
        parts.append(f"## `{short(each)}`\n{said}\n{table}\n")
    return "\n".join(parts)


def rewritten_readme(text: str) -> str:
    """The README with its table of layers as it should be."""
    head = ["| Layer | What it holds | Lines of code |", "|---|---|--:|"]
    table = "\n".join([*head, *readme_rows()])
    return re.sub(r"\| Layer \|.*?(?=\n\n)", lambda _: table, text, flags=re.DOTALL)


def main() -> None:
    README.write_text(rewritten_readme(README.read_text("utf-8")), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    import forward_pass  # which reads the source by this module

    forward_pass.PAGE.write_text(forward_pass.page(), encoding="utf-8")


if __name__ == "__main__":
    main()
