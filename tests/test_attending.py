"""The pictures of attention show the numbers that they were given, each word at its place."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import Rectangle

from decoder_only_book.pictures.attending import (
    averages_inside,
    roles,
    tiles,
    weights_over_text,
)

VECTORS = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
AVERAGES = np.array([[0.8, 0.6], [0.75, 0.75], [0.6, 0.8]])
PIECES = [*("word" if i == 0 else " word" for i in range(40)), "s", " end"]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def weights(**named: float) -> np.ndarray:
    """Nothing but what is named, by the place of the token."""
    row = np.zeros(len(PIECES))
    for name, weight in named.items():
        row[int(name.removeprefix("at"))] = weight
    return row


def test_vectors_and_averages_stand_where_they_are():
    (axes,) = averages_inside(VECTORS, AVERAGES).axes
    points = [tuple(np.ravel(line.get_xydata())) for line in axes.lines]
    for vector in (*VECTORS, *AVERAGES):
        assert tuple(vector) in points
    names = [text.get_text() for text in axes.texts]
    assert "$z_0 = (1, 0)$" in names
    assert sum(name.startswith("$z") for name in names) == 3


def test_roles_say_what_they_are_given():
    asks, keys, values = ["", "", "which?"], ["a person", "a plant", ""], ["x", "y", ""]
    (axes,) = roles(["one", "two", "three"], asks, keys, values).axes
    shown = [text.get_text() for text in axes.texts]
    for text in ("one", "two", "three", "which?", "a person", "a plant", "x"):
        assert shown.count(text) == 1
    assert shown.count("y") == 2, "the value that is found is the output"


def test_tiles_are_fewer_than_the_weights():
    (axes,) = tiles().axes
    shaded = [box.get_facecolor() for box in axes.patches if box.get_alpha()]
    assert len(set(shaded)) >= 2
    assert {"maximum", "sum", "output"} <= {text.get_text() for text in axes.texts}


def test_a_text_is_laid_out_line_by_line_and_no_word_is_cut():
    (axes,) = weights_over_text(PIECES, weights()).axes
    words = [text for text in axes.texts if text.get_text()]
    assert [text.get_text() for text in words] == [each.strip() for each in PIECES]
    places = [text.get_position() for text in words]
    assert len({y for _, y in places}) > 1
    assert all(0 <= x < axes.get_xlim()[1] for x, _ in places)
    assert places[40][1] == places[39][1], "the end of a word stays on its line"
    assert places[40][0] > places[39][0]


def test_weights_tint_their_tokens_and_large_ones_are_written():
    (axes,) = weights_over_text(PIECES, weights(at3=0.9, at7=0.02)).axes
    written = [text.get_text() for text in axes.texts]
    assert "0.90" in written
    assert "0.02" not in written
    boxes = [box for box in axes.patches if isinstance(box, Rectangle)]
    tints = sorted(box.get_alpha() or 0 for box in boxes)
    assert tints[-1] > 10 * tints[-2] > 0
    outlined = [box for box in boxes if box.get_linewidth() > 1.5]
    assert len(outlined) == 1, "the token that asks"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: averages_inside(VECTORS, AVERAGES[:2]), r"shapes=.* must be \(t, 2\)"),
        (lambda: averages_inside(AVERAGES[:, :1], AVERAGES), r"shapes=.* must be"),
        (lambda: roles(["a"], [""], [""], [""]), r"numbers=\[1, 1, 1, 1\] of words"),
        (lambda: weights_over_text(["a"], [0.5, 0.5]), r"weights.shape=\(2,\) must be"),
        (lambda: weights_over_text(["a"], [1.5]), r"largest of weights=1.5 must be 0"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
