"""What chapters show is exactly what is there: source code, tokens, numbers."""

import ast
import importlib
import inspect
import io
import re
import textwrap
import tokenize
from functools import cache, wraps
from html.parser import HTMLParser
from pathlib import Path
from types import FunctionType
from typing import ClassVar

import layout
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rules import of_every

from decoder_only.model.attention import attend
from decoder_only_book import notebook
from decoder_only_book.notebook import show_source, show_table, show_tokens

MODULES = layout.modules()
every_module = of_every(MODULES)


def _is_public(name, thing, module):
    return not name.startswith("_") and (
        getattr(thing, "__module__", None) == module.__name__
    )


def objects_of(module):
    """The public functions and classes of a module, and the methods of the classes."""
    module = importlib.import_module(module)
    own = [n for n, x in vars(module).items() if _is_public(n, x, module)]
    for name in getattr(module, "__all__", own):
        thing = inspect.unwrap(getattr(module, name))
        if not isinstance(thing, FunctionType | type):
            continue
        yield thing
        for method in vars(thing).values() if isinstance(thing, type) else ():
            method = inspect.unwrap(method)
            # Dataclasses and named tuples bring along methods that nobody wrote here.
            if isinstance(method, FunctionType) and Path(
                method.__code__.co_filename
            ).is_relative_to(layout.SOURCE):
                yield method


def code_of(source):
    ((_, _, code),) = source.listings
    return code


def without_docstrings(code):
    tree = ast.parse(code)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and len(body) > 1 and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                del body[0]
    return ast.dump(tree)


def comments(code):
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


# ------------------------------------------------------------------------------------------ source


@cache
def shown(thing):
    return code_of(show_source(thing))


@every_module
def test_source_is_exactly_what_runs(module):
    for thing in objects_of(module):
        assert shown(thing) == textwrap.dedent(inspect.getsource(thing))
        assert not shown(thing)[0].isspace()


@every_module
def test_without_docstrings_all_else_stays(module):
    for thing in objects_of(module):
        short = code_of(show_source(thing, docstring=False))
        assert without_docstrings(short) == without_docstrings(shown(thing))
        assert comments(short) == comments(shown(thing))
        for node in ast.walk(ast.parse(short)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and len(node.body) > 1:
                assert ast.get_docstring(node) is None


def test_the_objects_of_a_module_are_found():
    assert inspect.unwrap(show_source) in objects_of("decoder_only_book.notebook")
    assert inspect.unwrap(notebook.Table.__repr__) in objects_of(
        "decoder_only_book.notebook"
    )


def test_the_type_checked_package_is_shown_without_its_checks():
    # The tests import modules with arrays through jaxtyping's hook, which wraps every function.
    assert hasattr(attend, "__wrapped__")
    assert code_of(show_source(attend)).startswith("def attend(")


def test_markdown_names_the_object_and_its_file():
    text = show_source(notebook.Table.__repr__, show_table)._repr_markdown_()
    assert text.startswith(
        "`Table.__repr__`, from `src/decoder_only_book/notebook.py`\n\n```python\ndef "
    )
    assert "`show_table`, from `src/decoder_only_book/notebook.py`" in text
    assert text.count("```") == 4


def test_plain_text_names_them_too():
    text = repr(show_source(show_table))
    assert text.startswith(
        "# show_table, from src/decoder_only_book/notebook.py\ndef show_table("
    )


def test_a_fence_is_longer_than_any_in_the_source():
    source = notebook.Source(
        (("name", "file", 'def f():\n    """\n    ````\n    """\n'),)
    )
    assert source._repr_markdown_().count("`````") == 2


def test_modules_have_source():
    module = importlib.import_module("decoder_only_book.notebook")
    assert code_of(show_source(module)) == inspect.getsource(module)


@pytest.mark.parametrize(
    ("code", "short"),
    [
        (
            'def f():\n    """A."""\n\n    return 1  # b\n',
            "def f():\n    return 1  # b\n",
        ),
        ('def f():\n    """A."""\n', 'def f():\n    """A."""\n'),
        (
            'class C:\n    """A.\n\n    b\n    """\n\n    x = """y"""\n',
            'class C:\n    x = """y"""\n',
        ),
        ('def f():\n    "é"\n    return "é"\n', 'def f():\n    return "é"\n'),
    ],
)
def test_docstrings_by_example(code, short):
    assert notebook._without_docstrings(code) == short


@pytest.mark.parametrize(
    "thing", [len, 3, "attend", None, show_tokens(["a"]), torch.nn.Linear, torch]
)
def test_what_is_not_the_packages_source_is_refused(thing):
    wanted = "must be a function, class, method or module of decoder_only"
    with pytest.raises(ValueError, match=wanted):
        show_source(thing)


def test_a_decorated_function_shows_its_own_code():
    @wraps(show_table)
    def outer(*args):
        return show_table(*args)

    assert show_source(outer) == show_source(show_table)


# ------------------------------------------------------------------------------------------ tokens


class Reader(HTMLParser):
    """Reads the text of tokens back from their HTML."""

    MARKS: ClassVar = {"↵": "\n", "⇥": "\t"}

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.styles, self.text, self.ids, self.boxes, self.breaks = [], "", [], 0, 0
        self.feed(page)
        self.close()
        assert not self.styles, "every tag is closed"

    def handle_starttag(self, tag, attributes):
        if tag == "br":
            self.breaks += 1
            return
        self.styles.append(dict(attributes)["style"])
        self.boxes += "inline-block" in self.styles[-1]

    def handle_endtag(self, tag):
        self.styles.pop()

    def handle_data(self, data):
        style = self.styles[-1]
        if "display:block" in style:
            self.ids.append(int(data))
        elif style.startswith("opacity"):
            if data in self.MARKS:
                self.text += self.MARKS[data]
            else:
                escape, code = data[:2], int(data[2:], 16)
                self.text += chr(
                    code + 0xDC00 if escape == "\\x" and code >= 0x80 else code
                )
        else:
            self.text += data


pieces = st.lists(st.text(max_size=8) | st.binary(max_size=6), max_size=12)


@given(pieces)
def test_tokens_lose_nothing_in_html(pieces):
    whole = "".join(
        piece.decode("utf-8", "surrogateescape") if isinstance(piece, bytes) else piece
        for piece in pieces
    )
    page = Reader(show_tokens(pieces)._repr_html_())
    assert page.text == whole
    assert page.boxes == len(pieces)
    assert page.ids == []


@given(st.lists(st.text(max_size=8), max_size=12))
def test_ids_stand_beneath_their_tokens(pieces):
    ids = [7 * index for index in range(len(pieces))]
    page = Reader(show_tokens(pieces, ids)._repr_html_())
    assert page.ids == ids
    assert page.text == "".join(pieces)


def test_html_is_escaped_and_lines_break():
    shown = show_tokens(["<script>", "&amp;", "a\n", " b"])._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "&amp;amp;" in shown
    assert Reader(shown).breaks == 1


def test_neighbours_differ_and_backgrounds_let_the_page_through():
    tints = notebook._TINTS
    assert len(set(tints)) == len(tints) == 6
    shown = show_tokens(["a", "b"])._repr_html_()
    assert f"rgba({tints[0]},.26)" in shown
    assert f"rgba({tints[1]},.26)" in shown
    assert re.findall(r"[\w-]*color|#", shown) == []


def test_tokens_in_a_terminal():
    shown = show_tokens(["Once", " upon", "\n", b"\xe2\x82"], [1, 2, 3, 4])
    assert repr(shown) == "Once│ upon│↵│\\xe2\\x82\n1 2 3 4"
    assert repr(show_tokens([])) == ""


def test_ids_may_be_a_tensor():
    assert show_tokens(["a", "b"], torch.tensor([3, 4])).ids == (3, 4)


def test_bad_tokens_are_refused():
    with pytest.raises(ValueError, match="must be a list of tokens' texts"):
        show_tokens("Once upon")
    with pytest.raises(ValueError, match="number of ids=1 must be 2"):
        show_tokens(["a", "b"], [1])


# ------------------------------------------------------------------------------------------ tables


def test_a_table_writes_numbers_briefly_and_truly():
    rows = [
        ["small", 124439808, 0.12345, True, None],
        ["<b>", np.int64(7), 2.4e-7, False, torch.tensor(1.5)],
        ["none", -3, -0.0, "?", float("inf")],
    ]
    table = show_table(rows, ["model", "parameters", "loss", "done", "gap"])
    assert table.rows == (
        ("small", "124,439,808", "0.123", "yes", "–"),
        ("<b>", "7", "2e-07", "no", "1.500"),
        ("none", "-3", "0.000", "?", "inf"),
    )
    assert table.numeric == (False, True, True, False, True)
    shown = table._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert shown.count("text-align:right") == 3 * 4
    assert repr(table).splitlines()[0] == "model   parameters   loss  done    gap"
    assert len({len(line) for line in repr(table).splitlines()}) == 1


def test_decimals_by_column():
    table = show_table([[99.5, 0.25]], ["share", "loss"], decimals={"share": 0})
    assert table.rows == (("100", "0.250"),)


def test_a_number_that_would_round_to_zero_is_not_written_as_zero():
    assert show_table([[0.4]], ["x"], decimals=0).rows == (("0.4",),)
    assert show_table([[-0.0004]], ["x"]).rows == (("-4e-04",),)


def test_an_empty_table_has_its_header():
    assert repr(show_table([], ["a", "bb"])) == "a  bb\n─  ──"


def test_bad_tables_are_refused():
    with pytest.raises(ValueError, match=r"row=\[3\] must be 2 cells"):
        show_table([[1, 2], [3]], ["a", "b"])
    with pytest.raises(ValueError, match=r"'a': 4}.*must be 0, 1, 2 or 3"):
        show_table([[1]], ["a"], decimals=4)
    with pytest.raises(ValueError, match=r"'b': 1}.*must be for some of \('a',\)"):
        show_table([[1]], ["a"], decimals={"b": 1})
