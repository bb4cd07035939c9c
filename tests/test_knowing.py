"""The pictures of knowledge show bits, draws and thresholds in their places."""

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Circle

from decoder_only_book import plots
from decoder_only_book.pictures.knowing import fact_bits, refusing, urn_of_facts


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_a_guess_knows_nothing_and_a_sure_mistake_less():
    (axes,) = fact_bits({"guess": 1 / 4, "sure": 1, "wrong": 1 / 16}, 4).axes
    said = [text.get_text() for text in axes.texts]
    assert {"0 bits", "+2.0 bits", "-2.0 bits"} <= {*said}


def test_an_urn_has_a_disc_for_each_draw_and_a_ring_for_none():
    (axes,) = urn_of_facts({"Ada": 2, "Bo": 1, "Cy": 0}).axes
    balls = [p for p in axes.patches if isinstance(p, Circle)]
    filled = [to_hex(p.get_facecolor()) for p in balls if p.get_facecolor()[3]]
    assert filled == [*2 * [plots.BLUE.lower()], plots.ORANGE.lower()]
    assert len(balls) == 4


def test_answers_stand_at_their_confidence_and_equal_ones_are_stacked():
    (axes,) = refusing([0.5, 0.5, 0.9], [True, False, True], 0.6).axes
    points = [x for x in axes.lines if x.get_marker() in ("o", "X")]
    places = [(x.get_xdata()[0], x.get_ydata()[0]) for x in points]
    assert places[0][0] == places[1][0] < places[2][0]
    assert places[0][1] < places[1][1]
    assert [x.get_marker() for x in points] == ["o", "X", "o"]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: fact_bits({"a": 0.0}, 4), "above 0"),
        (lambda: refusing([0.5], [], 0.5), "must be"),
    ],
)
def test_what_does_not_fit_is_refused(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()
