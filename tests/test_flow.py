"""The pictures of what flows through a model say what the arrays hold."""

import math

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from decoder_only.model.config import GPTConfig
from decoder_only_book.pictures import flow

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _no_figure_stays():
    yield
    plt.close("all")


def texts(figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_the_loss_is_the_surprise_at_the_word_that_came():
    logits = [2 * math.log(2), math.log(2), 0, 0]
    said = texts(flow.loss_steps(["sat", "ran", "the", "."], logits, 1))
    assert {"0.5", "0.25", "2 bits", "(1.39 nats)", "8"} <= set(said)
    assert "3 bits" in texts(flow.loss_steps(["sat", "ran", "the", "."], logits, 3))


def test_logits_may_be_larger_than_any_power():
    said = texts(flow.loss_steps(["a", "b"], [800.0, 1.0], 0))
    assert {"0 bits", "(0.00 nats)", "inf"} <= set(said)
    assert not any("nan" in word for word in said)
    assert "(799.00 nats)" in texts(flow.loss_steps(["a", "b"], [800.0, 1.0], 1))


def test_numbers_that_are_not_round_stay_clear_of_the_bars():
    figure = flow.loss_steps(["a", "b", "c"], [0.31, 2.123456, -1.7], 1)
    (axes,) = figure.axes
    figure.canvas.draw()
    boxes = [
        patch for patch in axes.patches if isinstance(patch, mpl.patches.Rectangle)
    ]
    bars = [box for box in boxes if box.get_height() == pytest.approx(0.22)]
    left = min(bar.get_window_extent().x0 for bar in bars)
    right = max(bar.get_window_extent().x1 for bar in bars)
    extents = {text.get_text(): text.get_window_extent() for text in axes.texts}
    assert max(extents[share].x1 for share in ("0.138", "0.844", "0.018")) < left
    assert right < extents["0.24 bits"].x0


def test_shapes_are_those_of_the_model():
    config = GPTConfig(
        vocab_size=300, context_length=16, d_model=32, n_layers=3, n_heads=4
    )
    said = " ".join(texts(flow.shapes(config, 7)))
    for sizes in ("7 × 32", "4 × 7 × 8", "4 × 7 × 7", "7 × 128", "7 × 300", "× 3"):
        assert sizes in said


def test_a_ring_writes_over_the_position_that_left_the_window():
    figure = flow.caches(5, window=3)
    right = max(text.get_position()[0] for text in figure.axes[0].texts) - 1.0
    last = sorted(
        (text.get_position(), text.get_text())
        for text in figure.axes[0].texts
        if text.get_position()[0] > right and text.get_text().isdigit()
    )
    bottom = min(y for (_, y), _ in last)
    assert [word for (_, y), word in last if y == bottom] == ["3", "4", "2"]


@pytest.mark.parametrize(
    ("draw", "named"),
    [
        (lambda: flow.loss_steps(["a"], [1.0, 2.0], 0), "words"),
        (lambda: flow.loss_steps(["a"], [1.0], 1), "came"),
        (lambda: flow.caches(3, window=3), "window"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, named):
    with pytest.raises(ValueError, match=named):
        draw()
