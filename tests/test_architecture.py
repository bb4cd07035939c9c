"""The diagram: one drawing in which only colour changes, legible in every version."""

from itertools import combinations

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Patch
from matplotlib.text import Text

from decoder_only_book.pictures.architecture import PARTS, architecture

mpl.use("Agg")

WAYS = (None, (), *PARTS, ("attention", "mlp"))
every_way = pytest.mark.parametrize("lit", WAYS, ids=str)


@pytest.fixture(autouse=True)
def _no_figure_and_no_setting_stays():
    with mpl.rc_context():
        yield
    plt.close("all")


def named(figure, kind=object):
    """The diagram's artists that belong to a part."""
    return [
        a for a in figure.axes[0].get_children() if a.get_gid() and isinstance(a, kind)
    ]


def colours(artist) -> set[tuple[float, ...]]:
    """The colours in which an artist is drawn."""
    if isinstance(artist, Text | Line2D):
        return {to_rgba(artist.get_color())}
    found = {to_rgba(artist.get_edgecolor())} if artist.get_linewidth() else set()
    return {c for c in found | {to_rgba(artist.get_facecolor())} if c[3] > 0}


def greyness(colour) -> float:
    """How far a colour is from grey: zero for grey, one for a pure hue."""
    return max(colour[:3]) - min(colour[:3])


@every_way
def test_only_what_is_lit_is_in_colour(lit):
    figure = architecture(lit)
    on = set(PARTS) if lit is None else {lit} if isinstance(lit, str) else set(lit)
    if "model" in on:
        on |= {
            "embeddings",
            "attention",
            "multihead",
            "normalization",
            "mlp",
            "lm_head",
        }
    shown = named(figure)
    assert {artist.get_gid() for artist in shown} == set(PARTS)
    for part, colour in PARTS.items():
        drawn = {c for a in shown if a.get_gid() == part for c in colours(a)}
        assert (to_rgba(colour) in drawn) == (part in on), part
        if part not in on:
            assert max(map(greyness, drawn)) < 0.1, part


@every_way
def test_text_is_inside_the_figure_and_meets_nothing(lit):
    figure = architecture(lit)
    renderer = figure.canvas.get_renderer()
    labels = {a.get_text(): a.get_window_extent(renderer) for a in named(figure, Text)}
    width, height = figure.bbox.size
    for text, box in labels.items():
        assert box.x0 > 0, text
        assert box.x1 < width, text
        assert box.y0 > 0, text
        assert box.y1 < height, text
    texts = [(a.get_text(), a.get_window_extent(renderer)) for a in named(figure, Text)]
    for (one, box), (other, its) in combinations(texts, 2):
        assert not box.overlaps(its), (one, other)
    for outline in named(figure, FancyBboxPatch):
        if lit is not None and outline.get_gid() == "multihead":
            continue  # the strip's cards are behind the box that has the text
        frame = outline.get_window_extent(renderer)
        for text, box in texts:
            inside = frame.x0 < box.x0 and box.x1 < frame.x1
            inside = inside and frame.y0 < box.y0 and box.y1 < frame.y1
            assert inside or not box.overlaps(frame), (text, outline.get_gid())


def test_nothing_but_colour_changes():
    one, other = architecture("attention"), architecture("mlp")
    here = [(a.get_gid(), a.get_window_extent().bounds) for a in named(one, Patch)]
    there = [(a.get_gid(), a.get_window_extent().bounds) for a in named(other, Patch)]
    assert here == there
    assert [a.get_text() for a in named(one, Text)] == [
        a.get_text() for a in named(other, Text)
    ]


def test_a_drawn_token_comes_back_where_gradients_did():
    figure = architecture(lit="lm_head", again=True)
    said = {text.get_text() for text in named(figure, Text)}
    assert "draw a token, append it, go on" in said
    assert not {artist.get_gid() for artist in named(figure)} & {"training"}
    plain = {text.get_text() for text in named(architecture("lm_head"), Text)}
    assert plain - said == {"loss", "training: gradients"}


def test_the_residual_stream_is_one_straight_line():
    lines = named(architecture(), Line2D)
    (stream,) = [line for line in lines if line.get_linewidth() == 5]
    assert len(set(stream.get_xdata())) == 1


def test_masked_cells_are_those_above_the_diagonal():
    figure = architecture()
    cells = [
        p for p in named(figure, mpl.patches.Rectangle) if p.get_gid() == "attention"
    ]
    masked = [p for p in cells if p.get_facecolor()[3] == 0]
    assert (len(cells), len(masked)) == (32, 6)
    left, bottom = (
        min(p.get_x() for p in cells[16:]),
        min(p.get_y() for p in cells[16:]),
    )
    for cell in masked:
        column = round((cell.get_x() - left) / 0.1)
        row = 3 - round((cell.get_y() - bottom) / 0.1)
        assert column > row


def test_an_unknown_part_is_named_with_those_that_exist():
    with pytest.raises(
        ValueError, match="no part 'head'; the parts are tokenization, embeddings"
    ):
        architecture(lit=("mlp", "head"))
    assert plt.get_fignums() == []
