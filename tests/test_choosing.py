"""The picture of the next token shows the text, the words, and their probabilities."""

import matplotlib.pyplot as plt
import pytest
from matplotlib.patches import Rectangle

from decoder_only_book.pictures.choosing import next_token

PIECES, WORDS, PROBABILITIES = (
    ["It", " was"],
    [" hot", " cold", " late"],
    [0.5, 0.3, 0.1],
)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_every_word_has_its_probability_and_a_bar_of_that_length():
    (axes,) = next_token(PIECES, WORDS, PROBABILITIES, drawn=1).axes
    said = [text.get_text() for text in axes.texts]
    assert {"It", "was", "hot", "late", "0.50", "0.30", "0.10"} <= {*said}
    assert said.count("cold") == 2, "among the words, and after the text"
    bars = [p for p in axes.patches if type(p) is Rectangle and p.get_height() == 0.18]
    lengths = [bar.get_width() / bars[0].get_width() for bar in bars]
    assert lengths == pytest.approx([1, 0.6, 0.2])


def test_the_drawn_word_alone_is_bold():
    (axes,) = next_token(PIECES, WORDS, PROBABILITIES, drawn=2).axes
    bold = {text.get_text() for text in axes.texts if text.get_fontweight() == "bold"}
    assert bold == {"late", "0.10"}


@pytest.mark.parametrize(
    ("probabilities", "drawn", "message"),
    [
        ([0.5, 0.5], 0, "must be as many as"),
        (PROBABILITIES, 3, "drawn=3 must be the index"),
    ],
)
def test_what_does_not_fit_is_refused(probabilities, drawn, message):
    with pytest.raises(ValueError, match=message):
        next_token(PIECES, WORDS, probabilities, drawn=drawn)
