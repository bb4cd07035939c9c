"""The pictures of codes show the shares and the probabilities that they were given."""

import matplotlib.pyplot as plt
import pytest
from matplotlib.patches import Rectangle

from decoder_only_book.pictures.coding import beside, shares

FIRST = (["sat", "ran", "the", "."], [1 / 2, 1 / 4, 1 / 8, 1 / 8], 1)
SECOND = ([".", "sat"], [1 / 2, 1 / 2], 0)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_shares_multiply_and_bits_add_up():
    (axes,) = shares([FIRST, SECOND]).axes
    said = [text.get_text() for text in axes.texts]
    assert {"1/4, 2 bits", "1/8, 3 bits"} <= set(said)
    boxes = [each for each in axes.patches if isinstance(each, Rectangle)][1:]
    widths = [box.get_width() for box in boxes]
    assert widths[0] == pytest.approx(2 * widths[1]) == pytest.approx(4 * widths[2])


def test_shares_must_fill_the_line():
    with pytest.raises(ValueError, match="sum to one"):
        shares([(["a", "b"], [0.5, 0.6], 0)])


def test_each_model_has_a_panel_with_the_truth_in_it():
    truth = [0.5, 0.5, 0.0]
    models = {"even": [1 / 3, 1 / 3, 1 / 3], "narrow": [1.0, 0.0, 0.0]}
    for axes, (name, model) in zip(
        beside(truth, models, ["a", "b", "c"]).axes, models.items(), strict=True
    ):
        assert axes.get_title("left") == name
        heights = [bar.get_height() for bar in axes.patches]
        assert heights == [*truth, *model]
