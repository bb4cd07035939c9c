"""The pictures of fine-tuning show which tokens count, and bars in one scale."""

import matplotlib.pyplot as plt
import pytest
from matplotlib.patches import Rectangle

from decoder_only_book import plots
from decoder_only_book.pictures.tuning import answer_loss, answers_beside, conversation


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_a_token_of_the_instruction_has_no_loss():
    (axes,) = answer_loss(["Q", ":", "yes", "end"], [None, None, 0.5, 0.25]).axes
    said = [text.get_text() for text in axes.texts]
    assert said.count("–") == 4
    assert {"0.69", "1.39", "mean: (0.69 + 1.39) / 2 = 1.04"} <= {*said}


def test_what_the_assistant_says_counts_with_its_end():
    (axes,) = conversation([[("user", "Q"), ("assistant", "A")]]).axes
    blue = plt.matplotlib.colors.to_rgba(plots.BLUE, 0.2)
    boxes = [p for p in axes.patches if type(p) is Rectangle]
    assert sum(box.get_facecolor() == blue for box in boxes) == 2
    said = [text.get_text() for text in axes.texts]
    assert said == ["<user>", "Q", "<end>", "<assistant>", "A", "<end>"]


def test_bars_have_one_scale_and_two_colours():
    panels = {"before": [0.5, 0.25], "push": [-0.25, 0.125]}
    (axes,) = answers_beside(["yes", "no"], panels).axes
    bars = [p for p in axes.patches if type(p) is Rectangle][1:]
    heights = [bar.get_height() / bars[0].get_height() for bar in bars]
    assert heights == pytest.approx([1, 0.5, -0.5, 0.25])
    shades = [plt.matplotlib.colors.to_hex(bar.get_facecolor()) for bar in bars]
    assert shades[2] == plots.VERMILLION.lower() != shades[0] == shades[3]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: answer_loss(["a"], [0.5, 0.5]), "must be"),
        (lambda: answer_loss(["a"], [None]), "one that counts"),
        (lambda: answers_beside(["a"], {"p": [0.5, 0.5]}), "must be"),
    ],
)
def test_what_does_not_fit_is_refused(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()
