"""Tables of runs, a row for each: what has been made is not made again."""

import csv
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

__all__ = ["append", "key", "read"]


def read(path: Path) -> list[dict[str, str]]:
    """The rows that stand in a table; none if there is no file yet."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def key(row: dict[str, object], point: type[Any]) -> tuple[str, ...]:
    """What sets a run apart: the fields of the dataclass `point`, as a table has them."""
    values = (row[field.name] for field in fields(point))
    return tuple("" if value is None else str(value) for value in values)


def append(path: Path, row: Any) -> None:
    """Add a row, a dataclass, to a table; the first brings the names of the columns."""
    is_new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(row)])
        if is_new:
            writer.writeheader()
        writer.writerow(asdict(row))
