"""Renders the book with Jupyter Book. Any warning of Sphinx fails the build, and is shown.

Where _config.yml still names the placeholder address, the pages link to the address that the clone
came from, if that is on GitHub; no file of the repository is changed.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import first_cell
import repository

ROOT = Path(__file__).resolve().parent.parent


def build(output: Path = ROOT) -> str | None:
    """Builds into ``output/_build/html``; returns nothing, or what Sphinx complained of."""
    # What is not needed is mostly freed at once; looking through all that is takes a tenth of the
    # time, however often it is done, and finds next to nothing.
    seldom = "import gc; gc.set_threshold(50_000, 10, 100); "
    jupyter_book = f"{seldom}from jupyter_book.cli.main import main; main()"
    options = ["-W", "-n", "--keep-going", "-q"]
    places = ["--config", config(output), "--path-output", output]
    done = subprocess.run(
        [sys.executable, "-c", jupyter_book, "build", ROOT, *options, *places],
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        return None
    # Pages that were read with a warning would pass unread the next time.
    shutil.rmtree(output / "_build" / ".doctrees", ignore_errors=True)
    complaints = done.stderr.partition("Traceback (most recent call last)")[0].strip()
    return re.sub(r"\x1b\[[0-9;]*m", "", complaints or done.stderr + done.stdout)


def config(output: Path, root: Path = ROOT) -> Path:
    """_config.yml, or a copy of it that names the clone's own address."""
    address = repository.address_of_book(root)
    if address == first_cell.repository_url(root):
        return root / "_config.yml"
    copy = output / "_build" / "_config.yml"
    copy.parent.mkdir(parents=True, exist_ok=True)
    text = (root / "_config.yml").read_text(encoding="utf-8")
    text = text.replace(first_cell.PLACEHOLDER, address)
    # Extensions are looked for beside the settings; everything else, beside the book.
    text = text.replace("book/_ext", str(root / "book" / "_ext"))
    copy.write_text(text, encoding="utf-8")
    return copy


if __name__ == "__main__":
    print(
        "Rendering the pages: a minute or two the first time, then what has changed.",
        flush=True,
    )
    complaints = build()
    if complaints:
        print(complaints, file=sys.stderr)
        sys.exit(
            "decoder-only: the book was not built; what Sphinx complained of stands above."
        )
