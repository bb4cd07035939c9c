"""What the chapters call to show things: source code, tokens, tables of results.

Each function returns a small object that can be displayed: as Markdown or HTML in Jupyter, Colab
and the built book, as plain text in a terminal. Let the call be the last line of
its cell. Nothing here prints, and equal arguments give equal output to the last character, so that
a stored output can be compared with a fresh one strictly.

Used by every chapter.
"""

import ast
import html
import inspect
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any, SupportsIndex

__all__ = ["Source", "Table", "Tokens", "show_source", "show_table", "show_tokens"]

_PACKAGES = ("decoder_only", "decoder_only_book")
_SOURCE = Path(__file__).resolve().parents[1]


# ------------------------------------------------------------------------------------------ source


@dataclass(frozen=True)
class Source:
    """Source code of the package, as Markdown that a page highlights in its own colours.

    Attributes:
        listings: for each object its name, its file relative to the repository, and its code.
    """

    listings: tuple[tuple[str, str, str], ...]

    def _repr_markdown_(self) -> str:
        parts = []
        for name, file, code in self.listings:
            # A fence must be longer than any run of backticks that it encloses.
            longest = max((len(run) for run in re.findall(r"`{3,}", code)), default=2)
            fence = "`" * (longest + 1)
            parts.append(f"`{name}`, from `{file}`\n\n{fence}python\n{code}{fence}\n")
        return "\n".join(parts)

    def __repr__(self) -> str:
        return "\n".join(
            f"# {name}, from {file}\n{code}" for name, file, code in self.listings
        )


def show_source(*objects: Any, docstring: bool = True) -> Source:
    """Show the code that runs: the source of functions, classes, methods or modules, unedited.

    Line numbers are left out, because they would change with every edit above.

    Args:
        objects: any of the package's functions, classes, methods or modules.
        docstring: False leaves the docstrings out, with the blank lines that follow them, and
            nothing else. A body that is only a docstring keeps it.

    Returns:
        An object that a notebook shows as highlighted Python, dedented to the left margin.

    Raises:
        ValueError: an object is none of these, such as an instance, a built-in, or what another
            package holds.
    """
    return Source(tuple(_listing(thing, docstring) for thing in objects))


def _listing(thing: Any, docstring: bool) -> tuple[str, str, str]:
    """Return an object's name, its file relative to the repository, and its code."""
    thing = inspect.unwrap(thing)
    is_module = isinstance(thing, ModuleType)
    module = thing.__name__ if is_module else getattr(thing, "__module__", None)
    kinds = FunctionType | MethodType | type | ModuleType
    if not isinstance(thing, kinds) or str(module).partition(".")[0] not in _PACKAGES:
        what = "a function, class, method or module of decoder_only"
        raise ValueError(f"an object to show={thing!r:.200} must be {what}")
    name = thing.__name__ if is_module else thing.__qualname__
    file = Path(inspect.getsourcefile(thing)).resolve().relative_to(_SOURCE)
    code = textwrap.dedent(inspect.getsource(thing))
    if not docstring:
        code = _without_docstrings(code)
    # Files have one layout in the repository and another where the package is installed.
    return name, f"src/{file.as_posix()}", code.rstrip("\n") + "\n"


def _without_docstrings(code: str) -> str:
    """Drop every docstring, and the blank lines after it."""
    lines = code.splitlines(keepends=True)
    drop: set[int] = set()
    for node in ast.walk(ast.parse(code)):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if not documented or ast.get_docstring(node) is None or len(node.body) == 1:
            continue
        first, last = node.body[0].lineno - 1, node.body[0].end_lineno - 1
        while last + 1 < len(lines) and not lines[last + 1].strip():
            last += 1
        drop.update(range(first, last + 1))
    return "".join(line for number, line in enumerate(lines) if number not in drop)


# ------------------------------------------------------------------------------------------ tokens

# The palette of `plots`, without its black: backgrounds at a quarter of full strength
# let the page's own text and background through, so that one HTML reads in light and dark.
_TINTS = (
    "16,90,155",
    "206,130,3",
    "19,165,116",
    "189,126,187",
    "87,144,253",
    "180,58,0",
)
_MARK = '<span style="opacity:.55">{}</span>'
# A dot behind a true space, so that copied text is the text.
_SPACE = (
    '<span style="background:radial-gradient(circle at 50% 55%,'
    'rgba(128,128,128,.95) 1.3px,transparent 1.8px)"> </span>'
)


@dataclass(frozen=True)
class Tokens:
    """A text cut into tokens, as HTML with one tinted box for each.

    Attributes:
        pieces: the text of each token, bytes for one that is not whole characters.
        ids: the tokens' ids, or None to show none.
    """

    pieces: tuple[str | bytes, ...]
    ids: tuple[int, ...] | None = None

    def _repr_html_(self) -> str:
        boxes = []
        for position, piece in enumerate(self.pieces):
            text = _visible(piece, _MARK, _SPACE)
            below = ""
            if self.ids is not None:
                below = (
                    '<span style="display:block;font-size:.7em;line-height:1.3;opacity:.7;'
                    f'text-align:center">{self.ids[position]}</span>'
                )
            tint = _TINTS[position % len(_TINTS)]
            boxes.append(
                '<span style="display:inline-block;vertical-align:top;margin:1px;padding:0 2px;'
                f'border-radius:3px;background:rgba({tint},.26)">{text}{below}</span>'
            )
            newline = b"\n" if isinstance(piece, bytes) else "\n"
            if newline in piece:
                boxes.append("<br>")
        return (
            '<div class="tokens" style="font-family:monospace;line-height:1.6;'
            f'white-space:pre-wrap;overflow-wrap:anywhere">{"".join(boxes)}</div>'
        )

    def __repr__(self) -> str:
        text = "│".join(
            _visible(piece, "{}", " ", escape=False) for piece in self.pieces
        )
        return text if self.ids is None else f"{text}\n{' '.join(map(str, self.ids))}"


def _visible(piece: str | bytes, mark: str, space: str, *, escape: bool = True) -> str:
    """Write a token so that every character of it can be seen."""
    if isinstance(piece, bytes):
        # Bytes that are not UTF-8 become lone surrogates here, and are shown as \xNN below.
        piece = piece.decode("utf-8", errors="surrogateescape")
    shown = []
    for character in piece:
        code = ord(character)
        if character == " ":
            shown.append(space)
        elif character.isprintable():
            shown.append(html.escape(character) if escape else character)
        elif character in "\n\t":
            shown.append(mark.format("↵" if character == "\n" else "⇥"))
        elif 0xDC80 <= code <= 0xDCFF:
            shown.append(mark.format(f"\\x{code - 0xDC00:02x}"))
        else:
            escaped = f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}"
            shown.append(mark.format(escaped))
    return "".join(shown)


def show_tokens(
    pieces: Iterable[str | bytes], ids: Iterable[SupportsIndex] | None = None
) -> Tokens:
    """Show where a text was cut: each token in its own tint, in reading order.

    A space is dotted, a newline shows as ↵ and breaks the line, a tab as ⇥, and anything else
    that has no shape, such as half of a character, as its escape.

    Args:
        pieces: the tokens' texts, whose concatenation is the text; bytes where a token may hold
            part of a character (`token_bytes` of a tokenizer).
        ids: their ids, shown beneath; as many as there are pieces.

    Returns:
        An object that a notebook shows as tinted text, and a terminal as text with bars.

    Raises:
        ValueError: pieces is a single string, or there are more or fewer ids than pieces.
    """
    if isinstance(pieces, str | bytes):
        raise ValueError(f"{pieces=} must be a list of tokens' texts")
    pieces, ids = tuple(pieces), None if ids is None else tuple(map(index, ids))
    if ids is not None and len(ids) != len(pieces):
        raise ValueError(
            f"the number of ids={len(ids)} must be {len(pieces)}, as of pieces"
        )
    return Tokens(pieces, ids)


# ------------------------------------------------------------------------------------------ tables


@dataclass(frozen=True)
class Table:
    """A table of results, with every cell already written out.

    Attributes:
        header: the columns' names.
        rows: the cells' texts.
        numeric: for each column, whether it holds numbers and is set to the right.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]

    def _repr_html_(self) -> str:
        def line(tag: str, cells: tuple[str, ...]) -> str:
            written = []
            for cell, numeric in zip(cells, self.numeric, strict=True):
                side = "right" if numeric else "left"
                style = f"text-align:{side};padding:.25em .75em;font-variant-numeric:tabular-nums"
                written.append(f'<{tag} style="{style}">{html.escape(cell)}</{tag}>')
            return f"<tr>{''.join(written)}</tr>"

        body = "\n".join(line("td", row) for row in self.rows)
        # The class is the one by which Jupyter and the book's theme know a table of data.
        return (
            '<div style="overflow-x:auto"><table class="dataframe">\n'
            f"<thead>{line('th', self.header)}</thead>\n<tbody>\n{body}\n</tbody></table></div>"
        )

    def __repr__(self) -> str:
        lines = [self.header, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        written = [
            "  ".join(
                cell.rjust(width) if numeric else cell.ljust(width)
                for cell, width, numeric in zip(line, widths, self.numeric, strict=True)
            ).rstrip()
            for line in lines
        ]
        written.insert(1, "  ".join("─" * width for width in widths))
        return "\n".join(written)


def show_table(
    rows: Iterable[Iterable[Any]],
    header: Sequence[str],
    *,
    decimals: int | Mapping[str, int] = 3,
) -> Table:
    """Show results in rows and columns, numbers to the right and with few decimals.

    Integers are grouped in thousands. A number that is not zero but would print as zero is written
    with one significant digit instead: more would not be the same on every processor. None shows
    as a dash.

    Args:
        rows: the cells: text, numbers, one-element arrays or tensors, bool, None.
        header: the columns' names, as many as each row has cells.
        decimals: decimals of numbers that are not integers, 0 to 3; a mapping sets it by column
            name, and columns not in it have 3.

    Returns:
        An object that a notebook shows as a table.

    Raises:
        ValueError: a row is longer or shorter than the header, decimals is not in 0 to 3, or it
            names an unknown column.
    """
    header = tuple(map(str, header))
    if not isinstance(decimals, Mapping):
        decimals = dict.fromkeys(header, decimals)
    if not {*decimals} <= {*header}:
        raise ValueError(f"{decimals=} must be for some of {header}")
    if not {*decimals.values()} <= {0, 1, 2, 3}:
        raise ValueError(f"{decimals=} must be 0, 1, 2 or 3")
    places = [decimals.get(name, 3) for name in header]
    values = [list(map(_plain, row)) for row in rows]
    for row in values:
        if len(row) != len(header):
            raise ValueError(f"a {row=} must be {len(header)} cells, as of the header")
    columns = zip(*values, strict=True) if values else [()] * len(header)
    numeric = tuple(any(map(_is_number, column)) for column in columns)
    written = tuple(tuple(map(_written, row, places)) for row in values)
    return Table(header, written, numeric)


def _plain(cell: Any) -> Any:
    """A number of Python for an array or tensor of one element."""
    return cell.item() if hasattr(cell, "item") else cell


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _written(cell: Any, decimals: int) -> str:
    """Write one cell of a table."""
    if cell is None or isinstance(cell, bool):
        return {None: "–", True: "yes", False: "no"}[cell]
    if not _is_number(cell) or not math.isfinite(cell):
        return str(cell)
    if isinstance(cell, int):
        return f"{cell:,}"
    text = f"{cell:,.{decimals}f}"
    if float(text.replace(",", "")) == 0:
        one_digit = ".1g" if abs(cell) > 0.00095 else ".0e"  # 0.001, and 9e-04
        return f"{cell:{one_digit}}" if cell else f"{0:.{decimals}f}"
    return text
