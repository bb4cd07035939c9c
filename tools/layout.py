"""What the package consists of, read from its source: modules, what they import, floors, lines.

    python tools/layout.py     writes the tables of README.md and book/reading_order.md anew,
                               and book/forward_pass.md

A module may import only what does not import it, directly or not. Its floor follows from that: 0 if
it imports nothing of the package, and else one more than the highest that it imports. So no number
is kept by hand.
"""

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "decoder_only"
README, PAGE = ROOT / "README.md", ROOT / "book" / "reading_order.md"

WINGS = ("engine", "show")
"""Folders whose files are modules of their own; any other folder is one module."""

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


def modules() -> list[str]:
    """Every module by its dotted name within the package, such as `model` or `engine.files`."""
    found = [path.stem for path in PACKAGE.glob("[a-z]*.py")]
    for folder in PACKAGE.glob("[a-z]*/__init__.py"):
        name = folder.parent.name
        if name in WINGS:
            found += [f"{name}.{path.stem}" for path in folder.parent.glob("[a-z]*.py")]
        else:
            found.append(name)
    return sorted(found)


def sources(module: str) -> list[Path]:
    """The files of a module, which may be a folder; the one with its docstring comes first."""
    path = PACKAGE.joinpath(*module.split("."))
    single = path.with_name(f"{path.name}.py")
    return [single] if single.is_file() else sorted(path.rglob("*.py"))


@cache
def trees(module: str) -> tuple[ast.Module, ...]:
    return tuple(
        ast.parse(path.read_text(encoding="utf-8")) for path in sources(module)
    )


def imported(module: str) -> set[str]:
    """Everything that a module imports, anywhere in it, by absolute name."""
    found = set()
    for path, tree in zip(sources(module), trees(module), strict=True):
        package = ["decoder_only", *path.relative_to(PACKAGE).parts[:-1]]
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                name = ".".join([*base, *([node.module] if node.module else [])])
                found |= {f"{name}.{alias.name}" for alias in node.names}
    return found


@cache
def needs(module: str) -> frozenset[str]:
    """The modules of the package that a module imports."""
    known = set(modules())
    found = set()
    for name in imported(module):
        parts = name.split(".")
        if parts[0] == "decoder_only":
            # The longest beginning of the name that is a module.
            ends = [".".join(parts[1:end]) for end in range(len(parts), 1, -1)]
            found |= set([each for each in ends if each in known][:1])
            if len(parts) == 2 and parts[1] in ("GPT", "GPTConfig"):
                found.add("model")
    return frozenset(found - {module})


@cache
def floor(module: str, above: tuple[str, ...] = ()) -> int:
    """The floor on which a module stands.

    Raises:
        ValueError: modules import one another in a circle.
    """
    if module in above:
        circle = " imports ".join([*above[above.index(module) :], module])
        raise ValueError(f"modules import one another in a circle: {circle}")
    return max((floor(each, (*above, module)) + 1 for each in needs(module)), default=0)


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
    return ast.get_docstring(trees(module)[0]) or ""


def chapter_number(module: str) -> str | None:
    """The chapter that a module's docstring names last."""
    named = re.findall(r"Chapter (\d+)", docstring(module))
    return named[-1] if named else None


# ------------------------------------------------------------------------------- what is derived


def readme_rows() -> list[str]:
    """The README's table: a row for each module, from the ground up."""
    placed = sorted((floor(module), module) for module in modules())
    return [
        f"| {number} | `{module}` | {docstring(module).partition(chr(10))[0]} |"
        for number, module in placed
    ]


def page_row(module: str) -> str:
    """A module's line on the page of reading order."""
    number = chapter_number(module) or "–"
    for page in (ROOT / "book").glob(f"{number:0>2}_*.ipynb"):
        number = f"{{doc}}`{number} <{page.stem}>`"
    sentence = docstring(module).partition("\n")[0]
    return f"| `{module}` | {sentence} | {number} | {size(module)} |"


def rewritten_page(page: str) -> str:
    """The page of reading order as it should be: the page decides the order, and no more."""
    lines, total = [], 0
    for line in page.splitlines():
        if found := re.match(r"\| `([\w.]+)` \|", line):
            total += size(found[1])
            line = page_row(found[1])
        elif line.startswith("| **Together**"):
            line, total = f"| **Together** | | | {total} |", 0
        lines.append(line)
    return "\n".join(lines) + "\n"


def rewritten_readme(text: str) -> str:
    """The README with its table of modules as it should be."""
    table = "\n".join(
        ["| Floor | Module | What it holds |", "|---|---|---|", *readme_rows()]
    )
    return re.sub(r"\| Floor \|.*?(?=\n\n)", lambda _: table, text, flags=re.DOTALL)


def main() -> None:
    for path, rewrite in ((README, rewritten_readme), (PAGE, rewritten_page)):
        path.write_text(rewrite(path.read_text("utf-8")), encoding="utf-8")
    import forward_pass  # which reads the source by this module

    forward_pass.PAGE.write_text(forward_pass.page(), encoding="utf-8")


if __name__ == "__main__":
    main()
