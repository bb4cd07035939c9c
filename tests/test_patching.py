"""The pictures of interventions and of devices at work show what they were given."""

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_hex

from decoder_only_book import plots
from decoder_only_book.pictures.attending import kinds_over_text
from decoder_only_book.pictures.patching import pasted_run, paths
from decoder_only_book.pictures.times import lanes, ring_beats

WORDS = ["one", "radish", "a"]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def arrows(figure, colour):
    found = [patch.get_edgecolor() for patch in figure.axes[0].patches]
    return [to_hex(each) for each in found].count(colour.lower())


def test_each_path_that_is_lit_is_drawn():
    lit = [(0, 1), (0, 2)]
    figure = paths(["head 1", "MLP"], lit=lit)
    assert {"head 1", "MLP", "logits", "stream"} <= set(texts(figure))
    assert arrows(figure, plots.VERMILLION) == len(lit)
    assert arrows(paths(["head 1", "MLP"]), plots.VERMILLION) == 0


@pytest.mark.parametrize("pair", [(1, 1), (1, 0), (0, 3), (-1, 1)])
def test_a_path_leads_forward(pair):
    with pytest.raises(ValueError, match=r"must be \(writer, reader\)"):
        paths(["head 1", "MLP"], lit=[pair])


def test_a_pasted_vector_reaches_later_positions_above_it():
    plain, other = ["one", "radish", "a"], ["one", "turnip", "a"]
    figure = pasted_run(plain, other, (1, 1), n_layers=3)
    assert {"radish", "turnip", "layer 2", "run A", "run B"} <= set(texts(figure))
    alphas = [round(patch.get_alpha() or 0, 2) for patch in figure.axes[0].patches]
    # One layer above and two positions are tinted; the pasted cell is as strong as run A's.
    assert (alphas.count(0.28), alphas.count(0.8)) == (2, 9 + 1)


def test_runs_of_different_length_are_refused():
    with pytest.raises(ValueError, match=r"lengths=\(3, 2\) must be equal"):
        pasted_run(WORDS, WORDS[:2], (0, 0))
    with pytest.raises(ValueError, match=r"place=\(4, 0\) must be below \(4, 3\)"):
        pasted_run(WORDS, WORDS, (4, 0))


def test_a_lane_shows_each_task_and_one_colour_for_each_kind():
    figure = lanes({"device 0": [(0, 1, "forward: 1"), (2, 4, "backward: 1")]})
    shown = texts(figure)
    assert {"device 0", "forward", "backward"} <= set(shown)
    assert shown.count("1") == 2


@pytest.mark.parametrize("tasks", [[(0, 2, "a"), (1, 3, "b")], [(2, 1, "a")]])
def test_tasks_of_a_device_do_not_overlap(tasks):
    with pytest.raises(ValueError, match=r"device 0: .* must begin at"):
        lanes({"device 0": tasks})


def test_in_a_ring_every_query_meets_all_earlier_keys():
    figure = ring_beats(3)
    shown = texts(figure)
    for p in range(3):
        assert shown.count(f"$q_{p}$") == shown.count(rf"$k_{p}\,v_{p}$") == 3
    # Strips: after its last beat, device p has met p + 1 blocks.
    met = [patch.get_alpha() for patch in figure.axes[0].patches].count(0.6)
    assert met == (1 + 1 + 1) + (1 + 2 + 2) + (1 + 2 + 3)
    with pytest.raises(ValueError, match=r"n_devices=5 must be 2, 3 or 4"):
        ring_beats(5)


def test_a_text_in_the_colours_of_its_kinds():
    figure = kinds_over_text(
        ["Talena", " had", " a", " seed"], ["name", None, None, "thing"]
    )
    assert texts(figure)[-2:] == ["name", "thing"]
    with pytest.raises(ValueError, match=r"lengths=\(2, 1\) must be equal"):
        kinds_over_text(["a", "b"], [None])
