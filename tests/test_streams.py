"""The pictures of the residual stream say where norms are, and how much is left."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from decoder_only_book.pictures.streams import streams, wirings

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _no_figure_stays():
    yield
    plt.close("all")


def texts(axes) -> str:
    return " ".join(text.get_text() for text in axes.texts).replace("\n", " ")


def test_the_embedding_keeps_its_variance_before_a_norm_and_loses_it_after_one():
    pre, post = streams(n_parts=3, variance=1.0).axes
    assert "25% of the variance" in texts(pre)
    assert "12% of the variance" in texts(post)
    assert texts(pre).count("norm") == texts(post).count("norm") == 3


@pytest.mark.parametrize("settings", [{"n_parts": 5}, {"variance": 0.0}])
def test_what_cannot_be_drawn_is_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        streams(**settings)


def test_what_is_said_of_the_embedding_is_beside_its_band():
    for axes in streams().axes:
        (said,) = (t for t in axes.texts if "variance" in t.get_text())
        assert 0 < said.get_position()[1] <= 0.5


def test_three_wirings_have_one_norm_one_and_two():
    (axes,) = wirings().axes
    written = [text.get_text() for text in axes.texts]
    assert written.count("norm") == 1 + 1 + 2
    assert written.count("part") == written.count("+") == 3
    norm = next(text for text in axes.texts if text.get_text() == "norm")
    part = next(text for text in axes.texts if text.get_text() == "part")
    assert norm.get_position()[1] < part.get_position()[1], "pre-norm comes first"
