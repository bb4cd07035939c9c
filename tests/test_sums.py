"""The pictures of sums: every number in its place, and what has come or is done in its colour."""

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_rgb

from decoder_only_book import plots
from decoder_only_book.pictures.sums import routes, sum_beats


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_numbers_of_all_devices_are_written_beat_by_beat():
    states = [[[1, 2], [10, 20]], [[1, 22], [11, 20]], [[11, 22], [11, 22]]]
    (axes,) = sum_beats(states, [11, 22]).axes
    shown = [text.get_text() for text in axes.texts]
    assert shown[:2] == ["device 0", "device 1"]
    assert [text for text in shown if "r" in text] == ["at first", "round 1", "round 2"]
    numbers = [int(text) for text in shown if text.isdigit()]
    assert numbers == [x for state in states for row in state for x in row]
    hues = [to_rgb(patch.get_facecolor()) for patch in axes.patches]
    assert hues.count(to_rgb(plots.ORANGE)) == 4, "two came in each round"
    assert hues.count(to_rgb(plots.BLUE)) == 2, "the sums that were there before"


def test_states_that_are_not_square_are_refused():
    with pytest.raises(ValueError, match="must have 2 devices with 2 numbers each"):
        sum_beats([[[1, 2]]], [1, 2])


def test_three_routes_join_eight_devices():
    (axes,) = routes().axes
    shown = [text.get_text() for text in axes.texts]
    assert [text for text in shown if text.isdigit()] == 3 * [*map(str, range(8))]
    assert {"ring", "tree", "by machine", "machine 0", "machine 1"} <= set(shown)
    lines = [patch for patch in axes.patches if hasattr(patch, "get_arrowstyle")]
    crossing = [to_rgb(line.get_edgecolor()) for line in lines]
    assert crossing.count(to_rgb(plots.VERMILLION)) == 2 + 1 + 4
    assert len(lines) == 8 + 7 + 12
