"""What the chapters call to show things: source code, tokens, tables of results.

Each function returns a small object that can be displayed: as Markdown or HTML in
Jupyter, Colab and the built book, as plain text in a terminal. Let the call be the last
line of its cell. Nothing here prints, and equal arguments give equal output to the last
character, so that a stored output can be compared with a fresh one strictly.

Used by every chapter.
"""

import ast
import html
import importlib.util
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any, SupportsIndex

from decoder_only_book.tables import Measured, Table, show_table

__all__ = [
    "Measured",
    "Source",
    "Table",
    "Tokens",
    "install_if_missing",
    "show_source",
    "show_table",
    "show_tokens",
]

_PACKAGES = ("decoder_only", "decoder_only_book")
_SOURCE = Path(__file__).resolve().parents[1]


def install_if_missing(name: str) -> None:
    """Installs a library that a comparison needs and the package does not; Colab has most.

    Raises:
        ImportError: it is not there, and could not be installed.
    """
    if importlib.util.find_spec(name) is not None:
        return
    command = [sys.executable, "-m", "pip", "install", "-q", name]
    if subprocess.run(command, check=False).returncode:
        raise ImportError(f"this cell needs {name}: run pip install {name}")
    importlib.invalidate_caches()


# ------------------------------------------------------------------------------- source


@dataclass(frozen=True)
class Listing:
    """The source of one object, and which of its lines stay in sight.

    Attributes:
        name: the object's name.
        file: its file, relative to the repository.
        code: its source, dedented.
        kept: for each line of the code, whether it stays in sight; empty where all do.
    """

    name: str
    file: str
    code: str
    kept: tuple[bool, ...] = ()

    def pieces(self) -> list[tuple[bool, str]]:
        """The code cut where what is in sight begins and ends, piece by piece."""
        pieces: list[tuple[bool, str]] = []
        lines = self.code.splitlines(keepends=True)
        for line, seen in zip(lines, self.kept or (True,) * len(lines), strict=True):
            if pieces and pieces[-1][0] == seen:
                pieces[-1] = seen, pieces[-1][1] + line
            else:
                pieces.append((seen, line))
        return pieces


@dataclass(frozen=True)
class Source:
    """Source code of the package, as Markdown that a page highlights in its colours.

    Attributes:
        listings: what is shown, one object after the other.
    """

    listings: tuple[Listing, ...]

    def _repr_markdown_(self) -> str:
        parts = []
        for listing in self.listings:
            # A fence must be longer than any run of backticks that it encloses.
            runs = re.findall(r"`{3,}", listing.code)
            fence = "`" * (max(map(len, runs), default=2) + 1)
            parts.append(f"`{listing.name}`, from `{listing.file}`\n")
            for seen, code in listing.pieces():
                block = f"{fence}python\n{code}{fence}\n"
                if not seen:
                    # A <details> opens in place, without any script. The blank lines
                    # let what is within be read as Markdown.
                    said = f"<summary>{_skipped(code)}</summary>"
                    block = f"<details>{said}\n\n{block}\n</details>\n"
                parts.append(block)
        return "\n".join(parts)

    def __repr__(self) -> str:
        shown = []
        for listing in self.listings:
            shown.append(f"# {listing.name}, from {listing.file}\n")
            for seen, code in listing.pieces():
                margin = re.match(r"\s*", code)[0].rpartition("\n")[2]
                shown.append(code if seen else f"{margin}# {_skipped(code)}\n")
            shown.append("\n")
        return "".join(shown[:-1])


def _skipped(code: str) -> str:
    """What stands in the place of lines that are folded."""
    return f"⋯ {len(code.splitlines())} lines"


def show_source(
    *objects: Any,
    docstring: bool = True,
    signature: bool = True,
    keep: Sequence[str] | None = None,
) -> Source:
    """Show the code that runs: the source of functions, classes or modules, unedited.

    Line numbers are left out, because they would change with every edit above.

    With `keep` only the lines that matter stay in sight: the first of each object, to
    the end of its signature, and those that `keep` names by what they say. All others
    are folded to a line "⋯ 12 lines" that opens in place. A name is a piece of the
    code, `"softmax"`, and keeps each statement in which it occurs, or the head of one
    that has a body, such as `for layer in layers:`. Two pieces with ` … ` between them
    keep everything from the first to the next occurrence of the second:
    `"scores = … return"`. Two lines or fewer are not worth a fold and stay.

    Args:
        objects: any of the package's functions, classes, methods or modules.
        docstring: False leaves the docstrings out, with the blank lines that follow
            them, and nothing else. A body that is only a docstring keeps it.
        signature: False folds the signatures, too, where `keep` folds what is not named.
        keep: what to keep in sight; each must occur in at least one of the objects.

    Returns:
        An object that a notebook shows as highlighted Python, dedented to the left
        margin.

    Raises:
        ValueError: an object is none of these, such as an instance, a built-in, or what
            another package holds; or what is to be kept is in none of them.
    """
    if isinstance(keep, str):
        raise ValueError(f"{keep=} must be a list of pieces of code, as in {[keep]}")
    listings = [_listing(thing, docstring) for thing in objects]
    if keep is not None:
        found = [{name: _lines_named(x.code, name) for name in keep} for x in listings]
        for name in keep:
            if not any(lines[name] for lines in found):
                names = ", ".join(listing.name for listing in listings)
                raise ValueError(
                    f"keep={name!r} is in no line of {names}; name what is there now"
                )
        listings = [
            _folded(listing, set().union(*lines.values()), signature)
            for listing, lines in zip(listings, found, strict=True)
        ]
    return Source(tuple(listings))


def _listing(thing: Any, docstring: bool) -> Listing:
    """An object's source, all in sight."""
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
    # Files have one layout in the repository, another where the package is installed.
    return Listing(name, f"src/{file.as_posix()}", code.rstrip("\n") + "\n")


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


def _lines_named(code: str, name: str) -> set[int]:
    """The lines, counted from 0, that a piece of code names, if it occurs."""
    lines = code.splitlines()
    first, _, last = name.partition(" … ")
    said = {
        number
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for number in range(node.lineno - 1, node.end_lineno)
    }  # a docstring names what the code does
    found = set()
    for number, line in enumerate(lines):
        if first not in line or number in said:
            continue
        if not last:
            found.add(number)
            continue
        after = range(number + 1, len(lines))
        end = next((other for other in after if last in lines[other]), None)
        if end is not None:
            found.update(range(number, end + 1))
    return found


def _folded(listing: Listing, wanted: set[int], signature: bool = True) -> Listing:
    """The listing with the wanted statements in sight, and its signature if it is wanted."""
    n_lines = len(listing.code.splitlines())
    tree = ast.parse(listing.code)
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    # A module begins with its docstring.
    if signature and not isinstance(tree.body[0], ast.Expr):
        wanted = wanted | {_extent(tree.body[0])[0]}
    kept = set(wanted)
    for first, last in map(_extent, statements):
        if wanted & {*range(first, last)}:
            kept.update(range(first, last))
    # A fold of one or two lines hides less than it takes.
    gap: list[int] = []
    for number in range(n_lines + 1):
        if number < n_lines and number not in kept:
            gap.append(number)
        else:
            kept.update(gap if len(gap) <= 2 else ())
            gap = []
    return Listing(
        listing.name,
        listing.file,
        listing.code,
        tuple(number in kept for number in range(n_lines)),
    )


def _extent(statement: ast.stmt) -> tuple[int, int]:
    """First line, and the line after the last; of one that has a body, of its head."""
    first = min(
        [
            statement.lineno,
            *(x.lineno for x in getattr(statement, "decorator_list", ())),
        ]
    )
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if body else statement.end_lineno
    return first - 1, max(last, first)


# ------------------------------------------------------------------------------- tokens

# The palette of `plots`, without its black: backgrounds at a quarter of full strength
# let the page's own text and background through, so that one HTML reads in both themes.
_TINTS = (
    "16,90,155",
    "206,130,3",
    "19,165,116",
    "189,126,187",
    "87,144,253",
    "180,58,0",
)
_MARK = '<span style="opacity:.55">{}</span>'
# A dot after a true space, so that copied text is the text.
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
        # Bytes that are not UTF-8 become lone surrogates here, shown as \xNN below.
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

    A space is dotted, a newline shows as ↵ and breaks the line, a tab as ⇥, and
    anything else that has no shape, such as half of a character, as its escape.

    Args:
        pieces: the tokens' texts, whose concatenation is the text; bytes where a token
            may hold part of a character (`token_bytes` of a tokenizer).
        ids: their ids, shown beneath; as many as there are pieces.

    Returns:
        An object that a notebook shows as tinted text, a terminal as text with bars.

    Raises:
        ValueError: pieces is a single string, or ids and pieces differ in number.
    """
    if isinstance(pieces, str | bytes):
        raise ValueError(f"{pieces=} must be a list of tokens' texts")
    pieces, ids = tuple(pieces), None if ids is None else tuple(map(index, ids))
    if ids is not None and len(ids) != len(pieces):
        raise ValueError(
            f"the number of ids={len(ids)} must be {len(pieces)}, as of pieces"
        )
    return Tokens(pieces, ids)
