"""What the book's extensions make of a cell: seen on a book of one small chapter."""

import base64
import sys
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

from decoder_only_book import tables
from decoder_only_book.notebook import show_source, show_table

EXTENSIONS = Path(__file__).resolve().parent.parent / "book" / "_ext"
PICTURE = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
        "0000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
    )
).decode()
TABLE = show_table(
    [["a", 1.5], ["<b>", 2]],
    ["row", "loss & <more>"],
    caption="Losses of `a < b` at $K < 4$ & more.",
    name="tab-small-losses",
)
LONG = show_source(tables.show_table)
FOLDED = show_source(tables.show_table, keep=["values = "])
SHORT = show_source(tables._plain)


def result(**data):
    data = {kind.replace("_", "/"): said for kind, said in data.items()}
    return new_output("execute_result", data=data, execution_count=1)


def cell(source, *outputs, **metadata):
    return new_code_cell(
        source, outputs=[*outputs], execution_count=1, metadata=metadata
    )


def chapter():
    figure = {"caption": "What is drawn.", "name": "fig-small"}
    language = {"name": "python", "pygments_lexer": "ipython3"}
    return new_notebook(
        metadata={"language_info": language},
        cells=[
            new_markdown_cell("# One\n\nSee {numref}`tab-small-losses`."),
            cell("t", result(text_html=TABLE._repr_html_(), text_plain=repr(TABLE))),
            cell(
                "show_source(a)",
                *(result(text_markdown=x._repr_markdown_()) for x in (LONG, SHORT)),
            ),
            cell("show_source(b)", result(text_markdown=FOLDED._repr_markdown_())),
            cell(
                "draw()",
                result(image_png=PICTURE),
                tags=["hide-input"],
                mystnb={"figure": figure, "code_prompt_show": "Show the code"},
            ),
        ],
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The chapter as a page; Sphinx must not complain."""
    root = tmp_path_factory.mktemp("small")
    nbformat.write(chapter(), root / "index.ipynb")
    (root / "conf.py").write_text(
        'extensions = ["myst_nb", "folds", "numbered_tables"]\n'
        'myst_enable_extensions = ["dollarmath"]\n'
        'nb_execution_mode = "off"\n'
        'numfig = True\nnumfig_format = {"table": "Table %s", "figure": "Figure %s"}\n'
    )
    return BeautifulSoup(built(root).read_text("utf-8"), "html.parser")


def built(root: Path) -> Path:
    """The page that Sphinx makes of a folder, of which it must not complain."""
    sys.path.insert(0, str(EXTENSIONS))
    try:
        places = root, root, root / "out", root / "trees"
        with docutils_namespace():
            Sphinx(*places, "html", status=None, warningiserror=True).build()
    finally:
        sys.path.remove(str(EXTENSIONS))
    return root / "out/index.html"


def test_a_table_with_a_name_has_a_number_and_links_lead_to_it(page):
    box = page.select_one("div.cell_output figure.table-figure#tab-small-losses")
    caption = box.select_one("figcaption")
    assert caption.get_text() == "Table 1 Losses of a < b at \\(K < 4\\) & more.¶"
    assert caption.select_one(".caption-number").get_text() == "Table 1 "
    assert caption.select_one("code").get_text() == "a < b"
    assert caption.select_one(".math")
    assert caption.find_next_sibling().select_one("table.dataframe tbody tr")
    assert len(page.select("#tab-small-losses")) == 1
    assert not box.select("table caption"), "the caption stands once"
    link = page.select_one("p > a.internal[href='#tab-small-losses']")
    assert link.get_text() == "Table 1"
    assert [c.get_text() for c in box.select("th")] == ["row", "loss & <more>"]


def test_a_long_listing_shows_its_beginning_and_a_button_for_all(page):
    """The code is one piece, whatever is shown of it."""
    (button,) = page.select("details.rest")
    code = button.find_previous_sibling()
    assert code.get_text().strip() == LONG.listings[0].code.strip()
    n_lines = len(LONG.listings[0].code.splitlines())
    assert n_lines > 25
    assert button.select_one("summary .all").get_text() == f"Show all {n_lines} lines"
    assert not button.has_attr("open")
    following = button.find_next_sibling()
    assert following.name == "p", "the next object has its name"


def test_a_listing_that_names_what_matters_is_one_box_with_its_folds(page):
    (box,) = page.select("div.listing")
    pieces = FOLDED.listings[0].pieces()
    shown = [child for child in box.children if child.name]
    assert len(shown) == len(pieces)
    for child, (seen, code) in zip(shown, pieces, strict=True):
        assert (child.name == "details") == (not seen)
        assert child.select_one("pre").get_text().strip("\n") == code.strip("\n")
        if not seen:
            said = child.select_one("summary").get_text()
            assert said == f"⋯ {len(code.splitlines())} lines"
    assert not box.find_next_sibling("details"), "and no button beside"


def test_the_call_that_shows_a_source_is_left_out(page):
    assert "show_source(" not in page.select_one("div.body").get_text()


def test_a_figure_comes_before_the_code_that_draws_it(page):
    box = page.select_one("#fig-small").find_parent("div", class_="cell")
    first, second = (child for child in box.children if child.name)
    assert first.select_one("figcaption .caption-number").get_text() == "Figure 1 "
    assert second.name == "details"
    assert second.select_one("pre").get_text().strip() == "draw()"


def test_a_change_of_the_style_sheet_alone_reaches_the_page(tmp_path):
    """Sphinx writes no page and copies nothing then; the page holds its styles."""
    (tmp_path / "conf.py").write_text(
        'extensions = ["finish"]\nhtml_static_path = ["_static"]\nhtml_css_files = ["book.css"]\n'
    )
    (tmp_path / "index.rst").write_text("One\n===\n")
    sheet = tmp_path / "_static" / "book.css"
    sheet.parent.mkdir()
    sheet.write_text("h1 { color: teal; }")
    assert "color: teal" in built(tmp_path).read_text("utf-8")
    sheet.write_text("h1 { color: navy; }")
    after = built(tmp_path).read_text("utf-8")
    assert "color: navy" in after
    assert "color: teal" not in after
