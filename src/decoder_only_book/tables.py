"""Tables of results: what stands in them, and how a notebook and the book show them.

Every cell is written out when the table is made, so that equal arguments give equal
output to the last character. The built book numbers tables that have a caption.

Used by every chapter, by way of `decoder_only_book.notebook`.
"""

import html
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Measured", "Table", "show_table"]

MOST_COLUMNS = 6
"""More cannot be read in ten seconds, nor without scrolling on a laptop."""

_NAME = re.compile(r"tab-[a-z0-9]+(-[a-z0-9]+)*")
_INLINE = re.compile(r"`([^`]+)`")
_ROLE = re.compile(r"\{[\w:]+\}`|\]\(")
_AMOUNT = re.compile(r"[<>]?[-−+]?\d[\d,.]*(e[-+]?\d+)?%?")
_BETWEEN = re.compile(r"(\b(to|of)\b|[\s()±×/,–;])*")
_UNBROKEN = 30  # characters: the name of a row that fits beside a number on a phone


@dataclass(frozen=True)
class Measured:
    """A measured number with its error, such as 0.31 ± 0.07.

    The error is written with two significant digits at most, and the value to the same
    place: further digits would be chance. An error that is too small for the decimals
    allowed is written as a bound, `± <0.001`. No error, as of a single run, leaves the
    value alone.

    Attributes:
        value: what was measured.
        error: its error, at least 0, in the same unit; None if it is not known.
    """

    value: float
    error: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", float(self.value))
        if self.error is not None:
            object.__setattr__(self, "error", float(self.error))
            if not 0 <= self.error < math.inf:
                raise ValueError(
                    f"error={self.error} must be at least 0 and finite, "
                    "or None where it is not known"
                )

    @classmethod
    def mean(cls, draws: Iterable[Any]) -> "Measured":
        """The mean of independent draws, with the standard error of the mean.

        Args:
            draws: numbers, an array or a tensor, such as the losses of several seeds.
                A single one has no error.

        Raises:
            ValueError: there is no draw, or one is not finite.
        """
        draws = [float(draw) for draw in draws]
        if not draws or not all(map(math.isfinite, draws)):
            raise ValueError(f"{draws=} must be at least one number, all finite")
        n = len(draws)
        value = math.fsum(draws) / n
        if n == 1:
            return cls(value)
        squares = math.fsum((draw - value) ** 2 for draw in draws)
        return cls(value, (squares / (n - 1) / n) ** 0.5)

    def written(self, decimals: int = 3) -> str:
        """The number and its error in text, with at most so many decimals."""
        if self.error is None or not math.isfinite(self.value):
            return _written(self.value, decimals)
        if self.error == 0:
            return f"{self.value:,.{decimals}f} ± 0"
        # The power of ten after rounding: 0.0996 is 0.10.
        power = int(f"{self.error:.1e}".partition("e")[2])
        places = min(1 - power, decimals)
        error = f"{round(self.error, places):,.{max(places, 0)}f}"
        if float(error.replace(",", "")) == 0:
            error = f"<{10.0**-places:.{max(places, 0)}f}"
        value = round(self.value, places) or 0.0  # and not -0.0
        return f"{value:,.{max(places, 0)}f} ± {error}"

    def __str__(self) -> str:
        return self.written()


@dataclass(frozen=True)
class Table:
    """A table of results, with every cell already written out.

    Attributes:
        header: the columns' names.
        rows: the cells' texts.
        numeric: for each column, whether it holds numbers and is set to the right.
        caption: what the table shows, or nothing.
        name: the label by which the book's text refers to the table, or nothing.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    caption: str = ""
    name: str = ""

    def _repr_html_(self) -> str:
        firsts = [row[0] for row in self.rows if row]
        short = max(map(len, firsts), default=0) <= _UNBROKEN

        def line(tag: str, cells: tuple[str, ...]) -> str:
            written = []
            for column, cell in enumerate(cells):
                number = self.numeric[column]
                style = (
                    f"text-align:{'right' if number else 'left'};padding:.25em .75em"
                )
                style += ";font-variant-numeric:tabular-nums"
                if column == 0 and not short:
                    style += ";min-width:9em"
                elif tag == "td" and (column == 0 or number):
                    style += ";white-space:nowrap"
                written.append(f'<{tag} style="{style}">{html.escape(cell)}</{tag}>')
            return f"<tr>{''.join(written)}</tr>"

        body = "\n".join(line("td", row) for row in self.rows)
        named = f' id="{self.name}"' if self.name else ""
        caption = ""
        if self.caption:
            said = _INLINE.sub(
                r"<code>\1</code>", html.escape(self.caption, quote=False)
            )
            style = "caption-side:top;text-align:left;padding:.25em 0"
            caption = f'<caption style="{style}">{said}</caption>\n'
        # The class is the one by which Jupyter and the book's theme know such a table.
        return (
            f'<div style="overflow-x:auto"><table class="dataframe"{named}>\n{caption}'
            f"<thead>{line('th', self.header)}</thead>\n"
            f"<tbody>\n{body}\n</tbody></table></div>"
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
        if self.caption:
            written.insert(0, textwrap.fill(self.caption, 88) + "\n")
        return "\n".join(written)


def show_table(
    rows: Iterable[Iterable[Any]],
    header: Sequence[str],
    *,
    caption: str = "",
    name: str = "",
    decimals: int | Mapping[str, int] = 3,
    digits: Mapping[str, int] | None = None,
) -> Table:
    """Show results in rows and columns, numbers to the right and with few digits.

    The first column names the rows; it stays in sight where a table is scrolled. Such a
    name is not broken over lines, unless one of them has more than 30 characters, and a
    number never is. A number with an error is a `Measured`, in one cell.

    Integers are grouped in thousands. A number that is not zero but would print as zero
    is written with one significant digit instead: more would not be the same on every
    processor. None shows as a dash.

    Args:
        rows: the cells: text, numbers, `Measured`, one-element arrays or tensors, bool,
            None.
        header: the columns' names, each its own, as many as each row has cells, at most
            six.
        caption: what the table shows, with its units, in a sentence or two. It stands
            above the table in a notebook and in the built book, where it begins with
            the table's number. `code` and $formulas$ are set; links are not, because a
            notebook would show their markup.
        name: the label, such as `tab-heads`; the text refers to it by
            {numref}`tab-heads`. A caption and a name come together.
        decimals: decimals of numbers that are not integers, 0 to 3, and the most that a
            `Measured` has; a mapping sets it by column name, and columns not in it
            have 3.
        digits: significant digits, 1 to 4, of the numbers in some columns by name, in
            the place of decimals: 0.0123 and 174,604 are 0.012 and 170,000 with two.
            What would take more than three decimals is written as 4.1e-04.

    Returns:
        An object that a notebook shows as a table.

    Raises:
        ValueError: there are more than six columns or two of one name; a row is longer
            or shorter than the header; a caption lacks a name or a name its caption, or
            holds markup that only the built book can read; decimals or digits are out
            of range, name an unknown column, or both name the same.
    """
    header = tuple(map(str, header))
    _check_header(header)
    _check_caption(caption, name)
    if not isinstance(decimals, Mapping):
        decimals = dict.fromkeys(set(header) - set(digits or ()), decimals)
    digits = digits or {}
    for what, given, known in (
        ("decimals", decimals, {0, 1, 2, 3}),
        ("digits", digits, {1, 2, 3, 4}),
    ):
        if not {*given} <= {*header}:
            raise ValueError(f"{what}={given!r} must be for some of {header}")
        if not {*given.values()} <= known:
            said = ", ".join(map(str, sorted(known)))
            raise ValueError(f"{what}={given!r} must each be one of {said}")
    if both := sorted({*decimals} & {*digits}):
        raise ValueError(f"columns {both} must be in one of decimals and digits")
    values = [list(map(_plain, row)) for row in rows]
    for row in values:
        if len(row) != len(header):
            raise ValueError(f"a {row=} must be {len(header)} cells, as of the header")
    written = tuple(
        tuple(
            _significant(cell, digits[name])
            if name in digits
            else _written(cell, decimals.get(name, 3))
            for cell, name in zip(row, header, strict=True)
        )
        for row in values
    )
    columns = [[row[i] for row in values] for i in range(len(header))]
    numeric = tuple(
        any(map(_is_number, column)) or (i > 0 and _is_amounts(column))
        for i, column in enumerate(columns)
    )
    return Table(header, written, numeric, caption, name)


def _check_header(header: tuple[str, ...]) -> None:
    if len(header) > MOST_COLUMNS:
        raise ValueError(
            f"a table of {len(header)} columns {header} must have at most "
            f"{MOST_COLUMNS}: write an error into its number's cell with Measured, "
            "make the columns rows, or show two tables"
        )
    if len(set(header)) < len(header):
        raise ValueError(f"{header=} must be names that differ")


def _check_caption(caption: str, name: str) -> None:
    if bool(caption) != bool(name):
        raise ValueError(
            f"{caption=} and {name=} must come together: a number, and what it counts"
        )
    if name and not _NAME.fullmatch(name):
        raise ValueError(f"{name=} must be like tab-heads: tab-, letters, digits, -")
    if _ROLE.search(caption):
        raise ValueError(
            f"{caption=} must be text, `code` and $formulas$: a notebook would show a "
            "link's or a role's markup; put it into the sentence before the table"
        )


def _plain(cell: Any) -> Any:
    """A number of Python for an array or tensor of one element."""
    return cell.item() if hasattr(cell, "item") else cell


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float | Measured) and not isinstance(cell, bool)


def _is_amounts(column: list[Any]) -> bool:
    """Whether most texts are numbers all the same: 9%, 3 of 20, 0.44 (0.02–0.48)."""
    texts = [cell for cell in column if isinstance(cell, str) and cell]
    amounts = [
        _AMOUNT.search(text) and _BETWEEN.fullmatch(_AMOUNT.sub("", text))
        for text in texts
    ]
    return bool(texts) and 2 * sum(map(bool, amounts)) >= len(texts)


def _written(cell: Any, decimals: int) -> str:
    """Write one cell of a table."""
    if cell is None or isinstance(cell, bool):
        return {None: "–", True: "yes", False: "no"}[cell]
    if isinstance(cell, Measured):
        return cell.written(decimals)
    if not _is_number(cell) or not math.isfinite(cell):
        return str(cell)
    if isinstance(cell, int):
        return f"{cell:,}"
    text = f"{cell:,.{decimals}f}"
    if float(text.replace(",", "")) == 0:
        one_digit = ".1g" if abs(cell) > 0.00095 else ".0e"  # 0.001, and 9e-04
        return f"{cell:{one_digit}}" if cell else f"{0:.{decimals}f}"
    return text


def _significant(cell: Any, digits: int) -> str:
    """Write one cell with so many significant digits; one with an error, by that."""
    if not _is_number(cell) or isinstance(cell, Measured) or not math.isfinite(cell):
        return _written(cell, 3)
    if not cell:
        return "0"
    # The power of ten after rounding: 9.99 with two digits is 10.
    power = int(f"{cell:.{digits - 1}e}".partition("e")[2])
    places = digits - 1 - power
    if places > 3:
        return f"{cell:.{digits - 1}e}"
    return f"{round(cell, places):,.{max(places, 0)}f}"
