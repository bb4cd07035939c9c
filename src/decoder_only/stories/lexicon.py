"""The words and the tales of the stories, read from `lexicon.toml` and `tales.txt`."""

import tomllib
from importlib.resources import files


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


_READ = tomllib.loads(_text("lexicon.toml"))
WORDS = {
    **{name: text.split() for name, text in _READ["words"].items()},
    **{
        name: " ".join(text.split()).split(", ")
        for name, text in _READ["phrases"].items()
    },
    **_READ["tables"],
}
"""Lists of words and phrases, and tables of what belongs to a word, by name."""

TALES = _text("tales.txt")
"""All rules of the grammar, in its notation."""
