"""Which notebooks the book has: lessons, in `book`, and laboratories, in `book/lab`.

A chapter's laboratory has the name of its lesson. A page of its own has no number: it is neither.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def lessons(root: Path = ROOT) -> list[Path]:
    """The chapters, by number."""
    return sorted((root / "book").glob("[0-9][0-9]_*.ipynb"))


def laboratories(root: Path = ROOT) -> list[Path]:
    """The chapters' laboratories, by number."""
    return sorted((root / "book" / "lab").glob("[0-9][0-9]_*.ipynb"))


def others(root: Path = ROOT) -> list[Path]:
    """Pages of their own, without a number and without a laboratory."""
    paths = [root / "book" / "gpu.ipynb"]
    return [path for path in paths if path.is_file()]


def every(root: Path = ROOT) -> list[Path]:
    """All of them, lessons first."""
    return [*lessons(root), *laboratories(root), *others(root)]


def workbooks(root: Path = ROOT) -> list[Path]:
    """What `tools/workbooks.py` makes from the lessons; no pages of the book."""
    folder = root / "src" / "decoder_only_book" / "workbooks"
    return sorted(folder.glob("[0-9][0-9]_*.ipynb"))


def name(path: Path) -> str:
    """What a page of the book is called in its table of contents, such as lab/03_attention."""
    path = path.with_suffix("")
    return path.as_posix().rpartition("/book/")[2]
