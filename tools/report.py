"""Counts how much of the book is compared: code cells whose stored output nbval checks strictly."""

import sys
from pathlib import Path

import nbformat
import notebooks

EXEMPT = {"nbval-ignore-output", "nbval-skip", "raises-exception"}


def code_cells(path: Path) -> list:
    return [
        cell
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code"
    ]


def exempt(cell) -> bool:
    """True when nbval does not compare what the cell puts out."""
    return bool(EXEMPT & set(cell.metadata.get("tags", []))) or "NBVAL_" in cell.source


def shares(paths: list[Path]) -> list[tuple[str, int, int]]:
    """For each notebook: its name, its code cells, and those that are compared strictly."""
    rows = []
    for path in paths:
        cells = code_cells(path)
        strict = sum(not exempt(cell) for cell in cells)
        rows.append((notebooks.name(path), len(cells), strict))
    return rows


def line(name: str, cells: int, strict: int) -> str:
    share = f"({strict / max(cells, 1):.1%})"
    return (
        f"{name:<20} {strict:>4} of {cells:>4} code cells are compared strictly {share}"
    )


def main() -> None:
    rows = shares(notebooks.every())
    if not rows:
        sys.exit("There are no notebooks yet.")
    for row in rows:
        print(line(*row))
    print(line("all", sum(row[1] for row in rows), sum(row[2] for row in rows)))


if __name__ == "__main__":
    main()
