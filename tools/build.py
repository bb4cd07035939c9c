"""Renders the book with Jupyter Book. Any warning of Sphinx fails the build, and is shown."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def build(output: Path = ROOT) -> str | None:
    """Builds into ``output/_build/html``; returns nothing, or what Sphinx complained of."""
    jupyter_book = [
        sys.executable,
        "-c",
        "from jupyter_book.cli.main import main; main()",
    ]
    done = subprocess.run(
        [
            *jupyter_book,
            "build",
            ROOT,
            "-W",
            "-n",
            "--keep-going",
            "-q",
            "--path-output",
            output,
        ],
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        return None
    # Pages that were read with a warning would pass unread the next time.
    shutil.rmtree(output / "_build" / ".doctrees", ignore_errors=True)
    complaints = done.stderr.partition("Traceback (most recent call last)")[0].strip()
    return re.sub(r"\x1b\[[0-9;]*m", "", complaints or done.stderr + done.stdout)


if __name__ == "__main__":
    complaints = build()
    if complaints:
        print(complaints, file=sys.stderr)
        sys.exit(
            "decoder-only: the book was not built; what Sphinx complained of stands above."
        )
