"""The picture of a training step shows each row on its own scale, and marks what is kept."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from matplotlib.patches import Rectangle

from decoder_only_book import plots
from decoder_only_book.pictures.stepping import update_steps

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _no_figure_stays():
    yield
    plt.close("all")


def draw(**settings):
    rows = {"weight": [0.5, -1.0], "gradient": [2e-4, 0.0], "after": [0.4, -0.9]}
    (axes,) = update_steps(rows, **settings).axes
    return axes


def test_each_row_has_its_own_scale_and_says_its_largest():
    axes = draw()
    assert {"1e+00", "2e-04", "9e-01"} <= {text.get_text() for text in axes.texts}
    patches = [p for p in axes.patches if isinstance(p, Rectangle)][1:]
    colours = [patch.get_facecolor() for patch in patches]
    assert colours[1] == plots.SIGNED(0.0)  # the row's largest, below zero
    assert colours[2] == plots.SIGNED(1.0)  # small, and yet its row's largest
    assert colours[3] == plots.SIGNED(0.5)


def test_what_is_kept_has_a_bar():
    def bars(axes):
        blue = mpl.colors.to_rgba(plots.BLUE)
        return sum(patch.get_facecolor() == blue for patch in axes.patches)

    assert bars(draw()) == 0
    assert bars(draw(kept=("weight", "after"))) == 2


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="one of"):
        draw(kept=("momentum",))
    with pytest.raises(ValueError, match="one length"):
        update_steps({"a": [1.0], "b": [1.0, 2.0]})
