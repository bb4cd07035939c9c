"""The pictures of the mechanism show the numbers that they were given."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

from decoder_only_book import plots
from decoder_only_book.pictures.mechanism import (
    attention_steps,
    heads_beside,
    heads_steps,
    shared_keys,
    stream_steps,
)

QUERY, KEY = np.array([2.0, 0.0]), np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 1.0]])
VALUE = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_scores_weights_and_output_are_written_out():
    shown = texts(attention_steps(QUERY, KEY, VALUE))
    # 2 / sqrt(2) and its negative; e^1.414 and so on over their sum; the mean of the values.
    for text in ("1.41", "0.00", "−1.41", "0.77", "0.19", "0.05"):
        assert text in shown
    assert shown[-3:-1] == ["1.0", "0.2"]


def test_positions_may_have_names():
    shown = texts(attention_steps(QUERY, KEY, VALUE, labels=["a", "b", "c"]))
    assert {"a", "b", "c"} <= set(shown)


@pytest.mark.parametrize("n_heads", [2, 3, 4])
def test_every_head_is_drawn(n_heads):
    shown = texts(heads_steps(n_heads))
    assert sum(text.startswith("head ") for text in shown) == n_heads


def test_heads_side_by_side_show_weights_outputs_and_both_joined():
    weights, outputs = [[0.75, 0.25], [0.4, 0.6]], [[0.1, 0.2], [0.3, 0.45]]
    shown = texts(
        heads_beside(["a", "b"], ["x?", "y?"], weights, outputs, names=["m", "n"])
    )
    assert {"head 0: x?", "head 1: y?", "a", "b"} <= set(shown)
    assert {"0.75", "0.25", "0.40", "0.60"} <= set(shown)
    for output in ("0.10", "0.20", "0.30", "0.45"):
        assert shown.count(output) == 2, "as it is, and joined"


@pytest.mark.parametrize("n_groups", [4, 2, 1])
def test_every_head_of_queries_reads_one_of_keys(n_groups):
    (axes,) = shared_keys(4, (n_groups,)).axes
    ends = {round(line.get_xdata()[1], 6) for line in axes.lines}
    assert len(axes.lines) == 4
    assert len(ends) == n_groups


def framed(figure):
    edges = [patch.get_edgecolor() for patch in figure.axes[0].patches]
    return sum(to_hex(edge).upper() == plots.VERMILLION for edge in edges)


def test_the_stream_is_shown_after_each_part_and_what_differs_is_framed():
    stream = {"embedding": [[1, 0], [-1, 0]], "attention": [[1, 0.5], [-1, 0]]}
    figure = stream_steps(["0 1", "1 1"], stream, ["1", "0"])
    assert {"0 1", "1 1", "attention", "0.5", "next"} <= set(texts(figure))
    assert framed(figure) == 0
    right = stream | {"attention": [[1, 0.5], [-1, -1]]}
    assert framed(stream_steps(["a", "b"], stream, ["", ""], expected=right)) == 1


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"shapes=.* must be \(2, d\)"):
        stream_steps(["a", "b"], {"embedding": [[1, 0]]}, ["", ""])
    with pytest.raises(ValueError, match=r"shapes=.* must be .*\(t, k\)"):
        attention_steps(QUERY, KEY[:, :1], VALUE)
    with pytest.raises(ValueError, match=r"shapes=.* must be .*heads"):
        heads_beside(["a"], ["x?", "y?"], [[1.0], [1.0]], [[1.0]], names=["m"])
    with pytest.raises(ValueError, match=r"groups=.* must be divisors"):
        shared_keys(4, (3,))
    with pytest.raises(ValueError, match=r"n_heads=5 must be .*2, 3 or 4"):
        heads_steps(5)
