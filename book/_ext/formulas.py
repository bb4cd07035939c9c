r"""Sets the formulas while the book is built: TeX becomes MathML, which browsers draw themselves.

No script is sent for them, nothing moves when they come, and a screen reader reads them as is.
The package ``math-core`` converts; it refuses a command that it does not know, and then the build
fails. What it cannot do and the book needs is done here on the tree that it returns:

- ``\\[4pt]`` puts the rows of a table apart;
- a sign at the edge of a column of ``aligned`` stands between two things, although it is the first
  or the last of its cell, and keeps the space of a sign that does;
- words are identifiers: around ``<mtext>``, which counts as space, ``=`` would lose its own;
- a prime is marked for the style sheet, which takes the glyph that the font has for it.

Each formula carries its TeX in ``data-tex``: book.js copies that instead of loose letters.
"""

import re
from xml.etree import ElementTree

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

logger = logging.getLogger(__name__)
converter = LatexToMathML(fancy_error=False)

MARK = "\ue000"  # of private use: no formula has it
APART = re.compile(r"\\\\\s*\[\s*(\d*\.?\d+(?:pt|em|ex))\s*\]")
NUMBERED = re.compile(r"\\begin\{(?:align|alignat|equation|flalign|gather|multline)\}")
SIGNS = frozenset(
    "+−±∓=≠≈≤≥<>≪≫∼∝←→⇒⇔∈⊂⋅×∣"
)  # between two things: TeX's binary operators and relations


class FormulaError(ValueError):
    """A formula that cannot be set; the message says why, and what would work."""


def mathml(tex: str, *, display: bool) -> str:
    """Converts one formula from TeX to a ``<math>`` element.

    Raises ``FormulaError`` for unknown commands, and for what would be set without a part of it.
    """
    tex = tex.strip()
    if NUMBERED.search(tex):
        raise FormulaError(
            "environments that number their lines are not used in this book; "
            "write $$ ... $$ (label) around \\begin{aligned}"
        )
    if "\\\\" in outside_environments(tex):
        raise FormulaError(
            r"a line is broken by \\ outside of any environment; "
            r"write \begin{aligned} ... \end{aligned} around the lines"
        )
    marked = APART.sub(lambda found: rf"\text{{{MARK}{found[1]}}}\\", tex)
    try:
        markup = converter.convert_with_local_state(marked, displaystyle=display)
    except LatexError as error:
        raise FormulaError(str(error)) from None
    math = ElementTree.fromstring(markup.replace("&ApplyFunction;", "\u2061"))
    for table in math.iter("mtable"):
        for row in table:
            put_apart(row)
            keep_space(row)
    for words in math.iter("mtext"):
        if words.text and words.text.strip():
            words.tag = "mi"
            words.set("mathvariant", "normal")
    for sign in math.iter("mo"):
        if sign.text and set(sign.text) == {"′"}:
            sign.set("class", "prime")
    math.set("data-tex", " ".join(tex.split()))
    return ElementTree.tostring(math, encoding="unicode")


def outside_environments(tex: str) -> str:
    """The formula without what stands between ``\\begin`` and ``\\end``."""
    inner = re.compile(r"\\begin\{(\w+\*?)\}(?:(?!\\begin).)*?\\end\{\1\}", re.DOTALL)
    while inner.search(tex):
        tex = inner.sub("", tex)
    return tex


def put_apart(row: ElementTree.Element) -> None:
    """Turns the mark that stands for ``\\\\[4pt]`` into a length for the style sheet."""
    cell = row[-1] if len(row) else None
    if cell is None or not len(cell):
        return
    last = cell[-1]
    if last.tag == "mtext" and (last.text or "").startswith(MARK):
        row.set("style", f"--apart: {last.text.removeprefix(MARK)}")
        cell.remove(last)


def keep_space(row: ElementTree.Element) -> None:
    """In TeX an empty atom stands at the edge between the two columns of ``aligned``."""
    for cell in row:
        aligned = cell.get("style", "")
        marks = [part for part in cell if part.tag != "mspace"]
        if "text-align: left" in aligned:
            edge = marks[:1]
        elif "text-align: right" in aligned:
            edge = [part for part in marks if len(part) or part.text][-1:]
        else:
            continue
        for sign in edge:
            if sign.tag == "mo" and sign.text in SIGNS:
                sign.set("form", "infix")


def set_formula(self, node: nodes.Element, *, display: bool) -> str:
    """The formula as markup; where it cannot be set, its TeX and a warning, which fails a build."""
    tex = node.astext()
    try:
        return mathml(tex, display=display)
    except FormulaError as error:
        logger.warning("formula %r: %s", tex, error, location=node, type="formula")
        return f"<code>{self.encode(tex)}</code>"


def visit_inline(self, node: nodes.math) -> None:
    self.body.append(set_formula(self, node, display=False))
    raise nodes.SkipNode


def visit_block(self, node: nodes.math_block) -> None:
    """The formula in a box that scrolls when it is too wide, and beside it its number."""
    self.body.append(self.starttag(node, "div", CLASS="math notranslate nohighlight"))
    formula = set_formula(self, node, display=True)
    self.body.append(f'<div class="formula">{formula}</div>')
    if node["number"]:
        number = get_node_equation_number(self, node)
        self.body.append(f'<span class="eqno">({number})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app) -> dict:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
