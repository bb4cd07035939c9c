"""How the pages take in the figures: both drawings, names, colours, captions, letters."""

import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from bs4 import BeautifulSoup

from decoder_only_book import plots
from decoder_only_book.vector import svg

mpl.use("Agg")

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "book" / "_ext"))

import drawings


@pytest.fixture
def two_panels():
    with plots.style():
        figure, panels = plt.subplots(1, 2, figsize=(plots.WIDTH, 2.5))
        for axes in panels:
            axes.plot([1, 2], "o-", label="$p$")
    yield svg(figure)
    plt.close("all")


def test_an_image_becomes_two_drawings_with_its_alternative_text(two_panels):
    tag = '<img alt="A &quot;curve&quot; that falls" src="x.svg" />'
    page = drawings.inlined(tag, two_panels, "d0") + drawings.inlined(
        tag, two_panels, "d1"
    )
    soup = BeautifulSoup(page, "html.parser")
    kinds = [" ".join(drawing["class"]) for drawing in soup.select("svg")]
    assert kinds == 2 * ["drawing wide", "drawing narrow column"]
    for drawing in soup.select("svg"):
        assert drawing["aria-label"] == 'A "curve" that falls'
        assert drawing["role"] == "img"
        assert "display" not in drawing.attrs
    names = [tag["id"] for tag in soup.find_all(id=True)]
    assert len(names) == len(set(names)) > 4


def test_colours_are_variables_that_the_sheet_turns_over(two_panels, tmp_path):
    page = drawings.inlined('<img alt="">', two_panels, "d0")
    assert "fill:#" not in page
    assert "stroke:#" not in page
    sheet = drawings.sheet([page], tmp_path)
    assert "--c105a9b:#" in sheet
    assert "--cffffff:#121212;" in sheet
    assert 'html[data-theme="dark"]' in sheet
    assert (tmp_path / "fonts" / "DejaVuSans-figures.woff").stat().st_size < 10_000
    assert (tmp_path / "fonts" / "LICENSE-DejaVu.txt").is_file()


def test_the_letters_of_each_face_are_found():
    page = (
        '<svg class="drawing"><text style="font-weight:700">ab</text><text>c'
        '<tspan style="font-style:oblique">d</tspan></text><text style="font-family:'
        "'Figures Mono'\">e</text></svg><text>no drawing</text>"
    )
    assert drawings.letters_of([page]) == {
        ("Figures", "bold", "normal"): {"a", "b"},
        ("Figures", "normal", "normal"): {"c"},
        ("Figures", "normal", "oblique"): {"d"},
        ("Figures Mono", "normal", "normal"): {"e"},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<text style=\"font-family:'Serif'\">a</text>", "face=.'Serif'"),
        ("<text>\N{CJK UNIFIED IDEOGRAPH-4E00}</text>", "missing=.* DejaVuSans.ttf"),
    ],
)
def test_what_the_page_has_no_font_for_is_an_error(text, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        drawings.sheet([f'<svg class="drawing">{text}</svg>'], tmp_path)


def test_captions_say_above_where_panels_are_one_below_the_other():
    figure = (
        '<figure><svg class="drawing narrow column"></svg><figcaption>Left: one. '
        "Right, two; the right one on the left, at left.</figcaption></figure>"
    )
    soup = BeautifulSoup(drawings.captioned(figure), "html.parser")
    for kind, said in [("narrow", "wide"), ("wide", "narrow")]:
        page = BeautifulSoup(str(soup), "html.parser")
        for other in page.select(f"figcaption .{kind}"):
            other.decompose()
        words = page.figcaption.get_text()
        if said == "wide":
            assert words == "Left: one. Right, two; the right one on the left, at left."
        else:
            assert words == "Above: one. Below, two; the right one above, at left."
    unchanged = figure.replace(" column", "")
    assert drawings.captioned(unchanged) == unchanged
