"""Makes the workbooks from the lessons and the exercises of the package.

python tools/workbooks.py            writes those that the package installs
python tools/workbooks.py --check    changes nothing; says which are not what would be made
"""

import argparse
import json
import sys
from pathlib import Path

import notebooks

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "src" / "decoder_only_book" / "workbooks"


def texts(root: Path = ROOT) -> dict[str, str]:
    """What each workbook should hold, by its file's name; chapters without exercises have none."""
    from decoder_only_book.workbooks.making import made, numbers_of

    found = {}
    for path in notebooks.lessons(root):
        chapter = int(path.name[:2])
        if numbers_of(chapter):
            lesson = json.loads(path.read_text(encoding="utf-8"))
            workbook = made(lesson, chapter)
            found[path.name] = json.dumps(workbook, indent=1, ensure_ascii=False) + "\n"
    return found


def stale(folder: Path = FOLDER) -> list[str]:
    """The names of workbooks that are missing, too many, or not what would be made now."""
    wanted = texts()
    there = {p.name: p.read_text(encoding="utf-8") for p in folder.glob("*.ipynb")}
    names = sorted(wanted.keys() | there.keys())
    return [name for name in names if wanted.get(name) != there.get(name)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        if names := stale():
            sys.exit(f"run make workbooks: {', '.join(names)}")
        return
    wanted = texts()
    for path in FOLDER.glob("*.ipynb"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    print(f"{len(wanted)} workbooks are in {FOLDER.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
