"""The first code cell of every chapter, and the book's public address: one text, one place.

python tools/first_cell.py     writes the cell into every notebook
"""

import json
import re
from pathlib import Path

import notebooks

ROOT = Path(__file__).resolve().parent.parent

PLACEHOLDER = "https://github.com/OWNER/decoder-only"
"""The address of a copy that has not been given its own."""

TEMPLATE = """\
import importlib.util, subprocess, sys

if importlib.util.find_spec("decoder_only") is None:  # on Colab or Kaggle, say
    url = "<url>"
    if "/OWNER/" in url:
        class Placeholder(Exception):
            def _render_traceback_(self):  # Jupyter shows the one line, and no traceback
                return [str(self)]
        raise Placeholder(f"{url} is a placeholder: write your copy's address in its place")
    command = [sys.executable, "-m", "pip", "install", "-q", f"git+{url}"]
    subprocess.run(command, check=True)
    importlib.invalidate_caches()"""

# Folded in the rendered page, where nothing needs to be installed.
METADATA = {
    "tags": ["hide-input"],
    "mystnb": {"code_prompt_show": "Set-up: installs the package where it is missing"},
}


def repository_url(root: Path = ROOT) -> str:
    """What _config.yml names, read without a package, since a fresh fork has none."""
    text = (root / "_config.yml").read_text(encoding="utf-8")
    return re.search(r"^repository:\n(?: +.*\n)*? +url: *(\S+)", text, re.MULTILINE)[1]


def source(root: Path = ROOT) -> str:
    return TEMPLATE.replace("<url>", repository_url(root))


def main() -> None:
    for path in notebooks.every():
        notebook = json.loads(path.read_text(encoding="utf-8"))
        first = next(c for c in notebook["cells"] if c["cell_type"] == "code")
        first["source"] = source().splitlines(keepends=True)
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
