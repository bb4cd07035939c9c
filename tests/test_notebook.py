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
from unittest import mock

import layout
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rules import of_every

from decoder_only.model.attention import attend
from decoder_only_book import notebook, tables
from decoder_only_book.notebook import Measured, show_source, show_table, show_tokens

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


@pytest.fixture(autouse=True, scope="module")
def read_once():
    """Four tests read the source of every object, and Python looks for it in all of its file."""
    with mock.patch.object(inspect, "getsource", cache(inspect.getsource)):
        yield


def code_of(source):
    (listing,) = source.listings
    return listing.code


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
        if "." in thing.__qualname__:
            continue  # a method stands in its class
        short = code_of(show_source(thing, docstring=False))
        assert without_docstrings(short) == without_docstrings(shown(thing))
        assert comments(short) == comments(shown(thing))
        for node in ast.walk(ast.parse(short)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and len(node.body) > 1:
                assert ast.get_docstring(node) is None


def test_the_objects_of_a_module_are_found():
    assert inspect.unwrap(show_source) in objects_of("decoder_only_book.notebook")
    assert inspect.unwrap(tables.Table.__repr__) in objects_of(
        "decoder_only_book.notebook"
    )


def test_the_type_checked_package_is_shown_without_its_checks():
    # The tests import modules with arrays through jaxtyping's hook, which wraps every function.
    assert hasattr(attend, "__wrapped__")
    assert code_of(show_source(attend)).startswith("def attend(")


def test_markdown_names_the_object_and_its_file():
    text = show_source(tables.Table.__repr__, show_table)._repr_markdown_()
    assert text.startswith(
        "`Table.__repr__`, from `src/decoder_only_book/tables.py`\n\n```python\ndef "
    )
    assert "`show_table`, from `src/decoder_only_book/tables.py`" in text
    assert text.count("```") == 4


def test_plain_text_names_them_too():
    text = repr(show_source(show_table))
    assert text.startswith(
        "# show_table, from src/decoder_only_book/tables.py\ndef show_table("
    )


def test_a_fence_is_longer_than_any_in_the_source():
    source = notebook.Source(
        (notebook.Listing("name", "file", 'def f():\n    """\n    ````\n    """\n'),)
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


def in_sight(source):
    """What a folded listing shows, and how many lines each fold hides."""
    (listing,) = source.listings
    return [code if seen else len(code.splitlines()) for seen, code in listing.pieces()]


def test_what_matters_stays_in_sight_and_the_rest_is_folded_not_lost():
    source = show_source(show_table, keep=["values = "])
    signature, first, kept, second = in_sight(source)
    assert signature.startswith("def show_table(\n")
    assert signature.endswith(") -> Table:\n")
    assert kept == "    values = [list(map(_plain, row)) for row in rows]\n"
    assert first > 40
    assert second > 10


def test_a_signature_can_be_folded_with_the_rest():
    first, kept, second = in_sight(
        show_source(show_table, signature=False, keep=["values = "])
    )
    assert first > 45
    assert kept.startswith("    values = ")
    assert second > 10


CODE = """\
@wraps
def f(
    x,
):
    '''Says what y is.

    x: a number.
    '''
    y = x
    a = 1
    b = 2
    for z in y:
        y = g(
            y,
            z,
        )
        c = 3
        d = 4
        e = 5
    if a:
        b = 1
        c = 2
    return y
"""


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        # The signature with its decorator; two lines between are not folded.
        (["return y"], [4, -18, 1]),
        (["a = 1"], [4, -5, 1, -13]),
        (["y = x", "for z"], [4, -4, 4, -11]),
        # A statement is kept whole; one with a body, to where the body begins.
        (["z,"], [4, -8, 4, -7]),
        (["for z"], [4, -7, 1, -11]),
        # From the first to the second; what stands between, too.
        (["y = g( … e = 5"], [4, -8, 7, -4]),
        (["y = x … for z", "return"], [4, -4, 4, -10, 1]),
    ],
)
def test_statements_are_kept_whole(names, shown):
    listing = notebook.Listing("f", "file", CODE)
    wanted = set().union(*(notebook._lines_named(CODE, name) for name in names))
    assert wanted
    pieces = notebook._folded(listing, wanted).pieces()
    assert "".join(code for _, code in pieces) == CODE
    found = [len(code.splitlines()) * (1 if seen else -1) for seen, code in pieces]
    assert found == shown


def test_decorators_belong_to_the_signature():
    first, *_ = in_sight(show_source(tables.Table, keep=["name: str"]))
    assert first.startswith("@dataclass(frozen=True)\nclass Table:\n")


def test_what_a_docstring_says_names_no_code():
    assert "scrolled" in show_table.__doc__
    with pytest.raises(ValueError, match="keep='scrolled' is in no line of show_table"):
        show_source(show_table, keep=["scrolled"])


def test_a_line_to_keep_that_is_gone_is_refused():
    wanted = "keep='went_away' is in no line of show_table, show_tokens; name what is"
    with pytest.raises(ValueError, match=wanted):
        show_source(show_table, show_tokens, keep=["return Table", "went_away"])
    with pytest.raises(ValueError, match=r"must be a list of pieces.*\['return'\]"):
        show_source(show_table, keep="return")
    with pytest.raises(ValueError, match="values = … no such end' is in no line"):
        show_source(show_table, keep=["values = … no such end"])


def test_folds_open_without_a_script_and_read_as_text():
    source = show_source(show_table, keep=["values = "])
    text = source._repr_markdown_()
    assert text.count("<details><summary>⋯ ") == text.count("\n</details>\n") == 2
    # Markdown is read within the fold because blank lines stand around it.
    assert "</summary>\n\n```python\n" in text
    assert "```\n\n</details>\n" in text
    n_lines = sum(int(n) for n in re.findall(r"⋯ (\d+) lines", text))
    shown = repr(source).splitlines()
    assert sum(line.lstrip().startswith("# ⋯") for line in shown) == 2
    # Name, what is in sight, and a line for each fold.
    assert len(shown) == 1 + len(code_of(source).splitlines()) - n_lines + 2


@every_module
def test_any_source_can_be_folded_and_no_line_is_lost(module):
    for thing in objects_of(module):
        name = shown(thing).splitlines()[0].strip()
        source = show_source(thing, keep=[name])
        (listing,) = source.listings
        assert "".join(code for _, code in listing.pieces()) == shown(thing)
        assert listing.pieces()[0][0], "the signature is in sight"


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


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [
        (0.0123, 2, "0.012"),
        (174604, 2, "170,000"),
        (9.99, 2, "10"),
        (0.00041, 2, "4.1e-04"),
        (0.0041, 2, "4.1e-03"),
        (-12.44, 3, "-12.4"),
        (0, 2, "0"),
        (0.96, 1, "1"),
        ("none", 2, "none"),
        (None, 2, "–"),
    ],
)
def test_significant_digits_by_column(number, digits, text):
    table = show_table([["a", number]], ["row", "x"], digits={"x": digits})
    assert table.rows == (("a", text),)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.3141, 0.0712, "0.314 ± 0.071"),
        (1.606, 0.2051, "1.61 ± 0.21"),
        (0.5, 0.0299, "0.500 ± 0.030"),
        (0.5, 0.0996, "0.50 ± 0.10"),
        (3.2, 0.96, "3.20 ± 0.96"),
        (100.2, 9.96, "100 ± 10"),
        (12345.6, 123, "12,350 ± 120"),
        (-2.516, 0.0003, "-2.516 ± <0.001"),
        (-0.0001, 0.0003, "0.000 ± <0.001"),
        (0.25, 0, "0.250 ± 0"),
        (2.8661, None, "2.866"),
        (float("inf"), 1.0, "inf"),
    ],
)
def test_the_digits_of_a_value_follow_its_error(value, error, text):
    assert str(Measured(value, error)) == text
    assert show_table([["a", Measured(value, error)]], ["x", "y"]).rows[0][1] == text


def test_the_columns_decimals_bound_those_of_a_measured_number():
    row = ["a", Measured(0.314, 0.0123), Measured(0.314, 0.003)]
    table = show_table([row], ["x", "y", "z"], decimals=2)
    assert table.rows == (("a", "0.31 ± 0.01", "0.31 ± <0.01"),)


def test_a_mean_has_its_standard_error():
    draws = torch.tensor([1.0, 2.0, 4.0])
    mean = Measured.mean(draws)
    assert mean.value == pytest.approx(draws.mean().item())
    assert mean.error == pytest.approx(draws.std().item() / 3**0.5)
    assert Measured.mean(np.array([2.5])) == Measured(2.5, None)
    for bad in ([], [1.0, float("nan")]):
        with pytest.raises(ValueError, match="must be at least one number, all finite"):
            Measured.mean(bad)
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"error={bad} must be at least 0"):
            Measured(1.0, bad)


def cells_of(table, tag="td"):
    """The style and the text of each cell, as a browser reads them."""
    found = re.findall(rf'<{tag} style="([^"]*)">([^<]*)<', table._repr_html_())
    return {text: style for style, text in found}


def test_numbers_and_names_of_rows_are_not_broken():
    rows = [["layer 4, head 3", Measured(1.04, 0.2), "9%", "0.44 to 0.48", "a b c"]]
    header = ["heads", "loss", "share", "between", "said"]
    styles = cells_of(show_table(rows, header))
    unbroken = {text for text, style in styles.items() if "white-space:nowrap" in style}
    assert unbroken == {"layer 4, head 3", "1.04 ± 0.20", "9%", "0.44 to 0.48"}
    right = {text for text, style in styles.items() if "text-align:right" in style}
    assert right == {"1.04 ± 0.20", "9%", "0.44 to 0.48"}
    # A column of numbers stays one where a word stands for a number.
    rows = [["a", "0.44 (0.02–0.48)"], ["b", "known"]]
    assert "nowrap" in cells_of(show_table(rows, ["x", "y"]))["known"]
    assert (
        "nowrap" not in cells_of(show_table([["a", "about 7"]], ["x", "y"]))["about 7"]
    )
    # A name as long as a sentence may break, in a column that keeps its width.
    (style,) = cells_of(show_table([["a long name of a row " * 2]], ["x"])).values()
    assert "nowrap" not in style
    assert "min-width" in style


def test_a_caption_is_shown_wherever_the_table_is():
    said = "Loss of `attend` at $K < 4$, in nats."
    table = show_table([["a", 1]], ["x", "y"], caption=said, name="tab-attention-loss")
    assert repr(table).startswith(f"{said}\n\nx  y\n")
    shown = table._repr_html_()
    assert '<table class="dataframe" id="tab-attention-loss">\n<caption ' in shown
    assert ">Loss of <code>attend</code> at $K &lt; 4$, in nats.</caption>" in shown
    assert shown == table._repr_html_()
    assert "caption" not in show_table([["a", 1]], ["x", "y"])._repr_html_()


def test_a_number_that_would_round_to_zero_is_not_written_as_zero():
    assert show_table([[0.4]], ["x"], decimals=0).rows == (("0.4",),)
    assert show_table([[-0.0004]], ["x"]).rows == (("-4e-04",),)


def test_an_empty_table_has_its_header():
    assert repr(show_table([], ["a", "bb"])) == "a  bb\n─  ──"


def test_bad_tables_are_refused():
    with pytest.raises(ValueError, match=r"row=\[3\] must be 2 cells"):
        show_table([[1, 2], [3]], ["a", "b"])
    with pytest.raises(ValueError, match=r"'a': 4} must each be one of 0, 1, 2, 3"):
        show_table([[1]], ["a"], decimals=4)
    with pytest.raises(ValueError, match=r"'b': 1}.*must be for some of \('a',\)"):
        show_table([[1]], ["a"], decimals={"b": 1})
    with pytest.raises(
        ValueError, match=r"digits={'a': 5} must each be one of 1, 2, 3, 4"
    ):
        show_table([[1]], ["a"], digits={"a": 5})
    with pytest.raises(ValueError, match=r"digits={'b': 1} must be for some of"):
        show_table([[1]], ["a"], digits={"b": 1})
    with pytest.raises(
        ValueError, match=r"columns \['a'\] must be in one of decimals and"
    ):
        show_table([[1]], ["a"], digits={"a": 1}, decimals={"a": 1})
    with pytest.raises(
        ValueError, match=r"header=\('a', 'a'\) must be names that differ"
    ):
        show_table([[1, 2]], ["a", "a"])


def test_more_columns_than_can_be_read_are_refused_with_a_way_out():
    show_table([range(6)], "abcdef")
    wanted = (
        "7 columns .* at most 6: .*with Measured, make the columns rows, or show two"
    )
    with pytest.raises(ValueError, match=wanted):
        show_table([range(7)], "abcdefg")


@pytest.mark.parametrize(
    ("said", "name", "wanted"),
    [
        ("Losses.", "", "must come together"),
        ("", "tab-losses", "must come together"),
        ("Losses.", "losses", "name='losses' must be like tab-heads"),
        ("Losses.", "tab-Losses", "must be like tab-heads"),
        ("As {eq}`eq-a` says.", "tab-a", "must be text, `code` and"),
        ("See [there](a.md).", "tab-a", "must be text, `code` and"),
    ],
)
def test_captions_that_a_notebook_could_not_show_are_refused(said, name, wanted):
    with pytest.raises(ValueError, match=re.escape(wanted)):
        show_table([["a", 1]], ["x", "y"], caption=said, name=name)


def test_a_library_is_installed_only_where_it_is_missing(monkeypatch):
    asked = []

    def run(command, check):
        asked.append(command[1:])
        return mock.Mock(returncode=command[-1] == "nowhere")

    monkeypatch.setattr(notebook.subprocess, "run", run)
    notebook.install_if_missing("torch")
    assert not asked
    notebook.install_if_missing("no_such_library")
    assert asked == [["-m", "pip", "install", "-q", "no_such_library"]]
    with pytest.raises(ImportError, match="this cell needs nowhere: run pip install"):
        notebook.install_if_missing("nowhere")
