"""Tables of runs: what has been made is kept, whatever becomes of the process that made it."""

import csv
import functools
import io
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

__all__ = ["SECONDS", "Row", "Table", "number", "words"]

SECONDS = "processor_seconds"
"""The column of the frame's own: what a run took."""

Cell = str | int | float | None
Row = dict[str, Cell]


@dataclass
class Table:
    """A CSV file with the runs of a trial, one row or several for each.

    Attributes:
        path: the file, which need not be there yet.
        run: the dataclass of what sets a run apart.
        found: the dataclass of what is measured of it.
        digits: to which measured numbers are rounded; None leaves them.
    """

    path: Path
    run: type[Any]
    found: type[Any]
    digits: int | None

    def rows(self) -> list[Row]:
        """All rows, numbers as numbers and an empty cell as None.

        Raises:
            ValueError: the file has other columns than the trial, or a damaged line.
        """
        if not self.path.exists():
            return []
        told = self.path.stat()
        return _rows(self.path, self.run, self.found, told.st_size, told.st_mtime_ns)

    def of(self, run: Any) -> list[Row]:
        """What came of a run; nothing before it is made."""
        return [row for row in self.rows() if asdict(run).items() <= row.items()]

    def where(self, conditions: Iterable[str]) -> list[Row]:
        """The rows that meet all conditions, each like "seed=1".

        Raises:
            ValueError: no row does.
        """
        wanted, rows = {*conditions}, self.rows()
        found = [row for row in rows if wanted <= {words({x: row[x]}) for x in row}]
        if not found:
            columns = ", ".join(rows[0]) if rows else "none yet"
            raise ValueError(
                f"no row of {self.path.name} has {' and '.join(sorted(wanted))}; "
                f"--rows alone shows them all; the columns: {columns}"
            )
        return found

    def runs(self, rows: Iterable[Row]) -> list[Any]:
        """The runs that some rows are of."""
        names = [field.name for field in fields(self.run)]
        made = (self.run(**{name: row[name] for name in names}) for row in rows)
        return list(dict.fromkeys(made))

    def checked(self, run: Any, found: list[Any], seconds: float) -> list[Row]:
        """The rows of a run, rounded; the last has how many processor seconds it took.

        Raises:
            TypeError: something is no instance of `found`, or nothing was found.
            ValueError: a value cannot be kept in a table.
        """
        if not found or any(type(each) is not self.found for each in found):
            raise TypeError(
                f"{run} gave {found!r}, where {self.found.__name__} belongs"
            )
        rows = []
        for each in found:
            values = asdict(each)
            for name, value in values.items():
                if not isinstance(value, Cell):
                    raise ValueError(
                        f"{name}={value!r} of {run} must be a number, text or None"
                    )
                if isinstance(value, float) and self.digits is not None:
                    values[name] = round(value, self.digits)
            rows.append({**asdict(run), **values})
            rows[-1].setdefault(
                SECONDS, round(seconds, 1) if each is found[-1] else 0.0
            )
        return rows

    def keep(self, rows: list[Row]) -> None:
        """Add the rows of a run, in a single write: all of them, or none."""
        text, lines = io.StringIO(newline=""), _lines(self.path)
        columns = lines[0] if lines else [*rows[0]]
        table = csv.DictWriter(text, columns, extrasaction="ignore")
        if not lines:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            table.writeheader()
        table.writerows(rows)
        with self.path.open("ab", buffering=0) as file:
            file.write(text.getvalue().encode())


@functools.lru_cache(maxsize=1)  # a search reads the same rows again and again
def _rows(path: Path, run: type, found: type, *_size_and_time: int) -> list[Row]:
    columns, *lines = _lines(path) or [[]]
    known = {x.name: x.type for x in (*fields(run), *fields(found))}
    if columns and (odd := {*known} - {SECONDS} ^ {*columns} - {SECONDS}):
        raise ValueError(
            f"{path.name} and its trial differ in {', '.join(sorted(odd))}; move the "
            "file away, or go back to the revision that the .json file beside it names"
        )
    reads = [str if known.get(x) in (str, str | None) else number for x in columns]
    rows = []
    for i, line in enumerate(lines, 2):
        try:
            cells = [read(x) for read, x in zip(reads, line, strict=True)]
        except ValueError as error:
            raise ValueError(
                f"line {i} of {path.name} is damaged ({error}); delete all lines of its "
                "run, and it is made again"
            ) from None
        rows.append(dict(zip(columns, cells, strict=True)))
    return rows


def _lines(path: Path) -> list[list[str]]:
    """The cells of a table, those with the names of its columns first."""
    text = path.read_bytes().decode() if path.exists() else ""
    if text and not text.endswith("\n"):
        raise ValueError(
            f"the last line of {path.name} has no end; delete all lines of its run, and "
            "it is made again"
        )
    return list(csv.reader(io.StringIO(text, newline="")))


def number(cell: str) -> Cell:
    """What a cell that holds no text says: a number, a truth value, or nothing."""
    known = {"": None, "True": True, "False": False}
    if cell in known:
        return known[cell]
    return int(cell) if cell.lstrip("-").isdigit() else float(cell)


def words(row: Mapping[str, Cell]) -> str:
    """A row, or a part of it, in one line."""
    return " ".join(f"{name}={'' if x is None else x}" for name, x in row.items())
