"""The picture of a hidden unit says what its numbers are."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
import torch

from decoder_only_book.pictures.units import routed, unit

mpl.use("Agg")
N, KEY = torch.tensor([1.0, -1, 2, 0]), torch.tensor([0.5, -1, 0.5, 1])
VALUE, GATE = torch.tensor([0, 1, -0.5, 2]), torch.tensor([1.0, 0, 1, -1])


@pytest.fixture(autouse=True)
def _no_figure_stays():
    yield
    plt.close("all")


def texts(axes) -> str:
    return " ".join(text.get_text() for text in axes.texts).replace("\n", " ")


def test_a_unit_adds_its_value_as_far_as_it_opens():
    (axes,) = unit(N, KEY, VALUE).axes
    assert {"2.5", "−1.25", "5"} <= set(texts(axes).split())
    (axes,) = unit(N, -KEY, VALUE).axes
    assert "(u) = 0$" in texts(axes)


def test_an_offset_is_added_before_the_activation():
    (axes,) = unit(N, KEY, VALUE, offset=-2.0).axes
    assert "u = 2.5 -2 = 0.5" in texts(axes)
    assert "(u) = 0.5$" in texts(axes)


def test_a_gated_unit_multiplies_what_opens_with_what_passes():
    (axes,) = unit(N, KEY, VALUE, gate=GATE).axes
    weight = 2.5 * torch.nn.functional.silu(torch.tensor(3.0)).item()
    assert f"product {weight:.3g}" in texts(axes)
    assert f"{2 * weight:.3g}" in texts(axes)


@pytest.mark.parametrize("short", ["key", "value", "gate"])
def test_what_cannot_be_drawn_is_refused(short):
    vectors = {"n": N, "key": KEY, "value": VALUE, "gate": GATE}
    vectors[short] = vectors[short][:3]
    with pytest.raises(ValueError, match=short):
        unit(**vectors)


def test_experts_that_are_not_chosen_are_not_run():
    scores, weights = torch.tensor([1.0, 2, -1]), torch.tensor([0.25, 0.75, 0])
    outputs = torch.tensor([[4.0, 0], [0, 4], [7, 7]])
    (axes,) = routed(scores, weights, outputs).axes
    assert {"0.25", "0.75", "−1.00", "1", "3"} <= set(texts(axes).split())
    assert texts(axes).count("not run") == 1
    assert "7" not in texts(axes).split()
