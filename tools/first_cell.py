"""The first code cell of every chapter, and the book's public address: one text, one place."""

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent

TEMPLATE = """\
import importlib.util, subprocess, sys

if importlib.util.find_spec("decoder_only") is None:  # on Colab or Kaggle, say
    package = "git+{url}"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", package], check=True)
    importlib.invalidate_caches()"""

# Folded in the rendered page, where nothing needs to be installed.
METADATA = {
    "tags": ["hide-input"],
    "mystnb": {"code_prompt_show": "Set-up: installs the package where it is missing"},
}


def repository_url(root: Path = ROOT) -> str:
    return yaml.safe_load((root / "_config.yml").read_text())["repository"]["url"]


def source(root: Path = ROOT) -> str:
    return TEMPLATE.format(url=repository_url(root))


if __name__ == "__main__":
    print(source())
