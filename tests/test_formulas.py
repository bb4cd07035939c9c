"""Formulas become MathML when the book is built; what cannot be set fails the build."""

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "book" / "_ext"))

from formulas import FormulaError, mathml  # noqa: E402


def tree(tex: str, *, display: bool = True) -> ElementTree.Element:
    return ElementTree.fromstring(mathml(tex, display=display))


def test_a_formula_is_one_element_that_keeps_its_tex():
    formula = tree(r" \frac{1}{\sqrt{K}} ", display=False)
    assert formula.tag == "math"
    assert formula.get("data-tex") == r"\frac{1}{\sqrt{K}}"
    assert formula.get("display") is None
    assert [part.tag for part in formula.iter()] == [
        "math",
        "mfrac",
        "mn",
        "msqrt",
        "mi",
    ]
    assert tree("x").get("display") == "block"


def test_what_looks_like_markup_is_escaped():
    assert tree("a < b").get("data-tex") == "a < b"
    assert "&lt;" in mathml("a < b", display=False)


def test_rows_are_put_apart():
    rows = list(
        tree(r"\begin{aligned} a &= b \\[4pt] c &= d \\ e &= f \end{aligned}").iter(
            "mtr"
        )
    )
    assert [row.get("style") for row in rows] == ["--apart: 4pt", None, None]
    assert "4pt" not in "".join(rows[0].itertext())


def test_a_sign_at_the_edge_of_a_column_keeps_its_space():
    formula = tree(
        r"\begin{aligned} F = {} & a \\ & + b \\ & \quad - c \\ -d &= (e) \end{aligned}"
    )
    infix = [sign.text for sign in formula.iter("mo") if sign.get("form") == "infix"]
    assert infix == ["=", "+", "−", "="]
    matrix = tree(r"\begin{pmatrix} -a & b \end{pmatrix}")
    assert not [sign for sign in matrix.iter("mo") if sign.get("form")]


def test_words_are_no_space_and_primes_are_marked():
    formula = tree(r"\text{sent} = x_{t'}")
    assert formula[0].tag == "mi"
    assert formula[0].get("mathvariant") == "normal"
    assert [mo.get("class") for mo in formula.iter("mo") if mo.text == "′"] == ["prime"]


@pytest.mark.parametrize(
    ("tex", "reason"),
    [
        (r"\unheard{x}", "Unknown command"),
        (r"a \\ b", r"begin\{aligned\}"),
        (r"\begin{pmatrix} a \\ b \end{pmatrix} \\ c", r"begin\{aligned\}"),
        (r"\begin{align} a &= b \end{align}", "number their lines"),
        (r"\begin{aligned} a", "."),
        ("x^", "."),
    ],
)
def test_what_cannot_be_set_is_refused(tex, reason):
    with pytest.raises(FormulaError, match=reason):
        mathml(tex, display=True)


@pytest.mark.parametrize(("tex", "complaints"), [("x", 0), (r"\unheard", 1)])
def test_a_formula_that_cannot_be_set_is_a_warning(tmp_path, tex, complaints):
    """The book is built with every warning an error."""
    (tmp_path / "conf.py").write_text(
        "extensions = ['formulas']\nhtml_math_renderer = 'mathml'\nhtml_theme = 'basic'\n"
    )
    (tmp_path / "index.rst").write_text(
        f"Page\n====\n\n.. math:: {tex}\n   :label: one\n\nSee :eq:`one`.\n"
    )
    with open(tmp_path / "warnings", "w") as told:
        app = Sphinx(
            tmp_path, tmp_path, tmp_path / "out", tmp_path / "tree", "html",
            status=None, warning=told,
        )  # fmt: skip
        app.build()
    told = (tmp_path / "warnings").read_text()
    assert told.count("WARNING: formula") == complaints
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.count("<math") == 1 - complaints
    assert '<span class="eqno">(1)' in page
    assert 'href="#equation-one">(1)</a>' in page
