"""Workbooks: a notebook for each chapter with its exercises, what they need to be read, and checks.

They are made from the lessons by `tools/workbooks.py` and kept here, because an installed package
has no lessons, and because Colab opens a notebook from a repository. Nobody edits them: a test
compares each with what the tool makes.
"""

from pathlib import Path

__all__ = ["FOLDER", "stored", "workbook"]

FOLDER = Path(__file__).parent
"""Where they are."""


def stored() -> dict[str, Path]:
    """The workbooks by the number of their chapter, such as "03"."""
    return {path.name[:2]: path for path in sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))}


def workbook(number: str, /, out: Path | None = None) -> None:
    """Write a chapter's workbook, a notebook with exercises that check themselves.

    Args:
        number: of the chapter, such as 03.
        out: the file to write; by default workbook_03.ipynb, say, in the working folder. A file
            that exists is never replaced.

    Raises:
        ValueError: the chapter has no workbook, or the file exists.
    """
    found = stored().get(number.zfill(2))
    if found is None:
        known = ", ".join(stored())
        raise ValueError(f"chapter {number!r} has no workbook; choose one of {known}")
    path = out or Path(f"workbook_{found.name[:2]}.ipynb")
    try:
        with path.open("xb") as file:
            file.write(found.read_bytes())
    except FileExistsError:
        raise ValueError(f"{path} exists; name another file with --out") from None
    print(
        f"Open {path} in Jupyter. Checks that pass are noted in progress.json beside it."
    )
