"""What would be computed again for every page or listing, and is the same: here it is done once.

None of it changes a page:

- the formatter of a listing, with a style sheet that no page takes from it, and its lexer;
- the looking for a style of citations in what is installed, for every citation;
- the reading of TeX in the list of papers, for the list and again for what a citation shows;
- Sphinx's index of all words: the book has a search of its own (see find.py).
"""

from functools import cache

import pybtex.plugin
from pybtex.richtext import Text
from sphinx.highlighting import PygmentsBridge


def remembered(function, key):
    """The function, which answers from memory what has the same key. None is no key."""
    known = {}

    def answered(*given, **named):
        place = key(*given, **named)
        if place is None:
            return function(*given, **named)
        if place not in known:
            known[place] = function(*given, **named)
        return known[place]

    return answered


def of_formatter(bridge, **options) -> tuple:
    chosen = options | bridge.formatter_args
    return bridge.formatter, repr(sorted(chosen.items(), key=str))


def of_lexer(_, source, lang, opts=None, force=False, location=None) -> tuple | None:
    if lang == "guess":  # by what the source is
        return None
    return lang, repr(opts or {}), force, source.startswith(">>>")


def prepare(app) -> None:
    if app.builder.format == "html":
        for part in ("load_indexer", "index_page", "dump_search_index"):
            setattr(app.builder, part, lambda *_: None)


def setup(app) -> dict:
    bridge = PygmentsBridge
    bridge.get_formatter = remembered(bridge.get_formatter, of_formatter)
    bridge.get_lexer = remembered(bridge.get_lexer, of_lexer)
    Text.from_latex = cache(Text.from_latex)
    pybtex.plugin._load_entry_point = cache(pybtex.plugin._load_entry_point)
    app.connect("builder-inited", prepare)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
