"""The pictures of generation show what they were given."""

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from decoder_only_book import plots
from decoder_only_book.pictures import generating

TREE = {"a": (0.5, {"x": 0.1, "y": 0.9}), "b": (0.5, {"x": 1.0})}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def filled(figure, colour):
    boxes = [p for p in figure.axes[0].patches if isinstance(p, Rectangle)]
    return [box for box in boxes if to_hex(box.get_facecolor()) == colour.lower()]


def test_what_a_filter_keeps_is_filled():
    rows = {"sure": [0.8, 0.1, 0.1], "open": [0.4, 0.3, 0.3]}
    kept = {"one": [[1, 0, 0]] * 2, "all": [[1, 1, 1]] * 2}
    figure = generating.filtered(rows, kept)
    assert {"sure", "open", "one", "all"} <= set(texts(figure))
    assert len(filled(figure, plots.BLUE)) == 2 + 6


def test_a_tree_has_a_row_for_each_text():
    columns = {"model": ["0.05", "0.45", "0.5"]}
    shown = texts(generating.branches(TREE, columns, lit={"a x"}, forbidden={"a y"}))
    for text in ("0.5", "0.1", "0.9", "1", "0.05", "0.45", "model"):
        assert text in shown
    assert shown.count("x") == 2


@pytest.mark.parametrize("n", [1, 5, 8])
def test_work_is_counted_as_it_is_drawn(n):
    figure = generating.work(n)
    assert f"without a cache: {n * (n + 1) // 2}" in texts(figure)
    assert f"with a cache: {n}" in texts(figure)
    assert len(filled(figure, plots.VERMILLION)) == n * (n + 1) // 2 + n


def test_positions_begin_at_the_first_token():
    shown = texts(generating.padded([["A", "B", "C"], ["D"]]))
    assert shown.count("0") == 2
    assert shown.count("–") == 2
    assert "2" in shown


def test_the_common_part_is_accepted():
    figure = generating.judged([0.5, 0.5, 0], [0.25, 0.5, 0.25], ["a", "b", "c"])
    common = filled(figure, plots.BLUE)[:-1]  # without the legend's
    heights = [box.get_height() for box in common]
    assert heights[0] == pytest.approx(heights[2] / 2)
    assert heights[4] == heights[5] == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: generating.filtered({"a": [1.0]}, {"k": [[1, 0]]}), "shapes"),
        (lambda: generating.branches(TREE, {"p": ["1"]}), "1 entries for 3"),
        (lambda: generating.work(9), "steps=9 must be from 1 to 8"),
        (lambda: generating.padded([["a"], []]), "must have a token each"),
        (lambda: generating.judged([1], [1], ["a", "b"]), r"must be \(2,\)"),
    ],
)
def test_what_cannot_be_drawn_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()
