"""The picture of several devices shows each of them, and where all must talk."""

import matplotlib.pyplot as plt
import pytest

from decoder_only_book.pictures.devices import divided_part


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.mark.parametrize("n", [2, 3, 4])
def test_every_device_holds_its_share_of_both_matrices(n):
    (axes,) = divided_part(n).axes
    shown = [text.get_text() for text in axes.texts]
    assert [text for text in shown if "device" in text] == [
        f"device {p}" for p in range(n)
    ]
    assert sorted(text for text in shown if "ward" in text) == [
        "backward: all-reduce",
        "backward: copy",
        "forward: all-reduce",
        "forward: copy",
    ]
    filled = [p for p in axes.patches if p.get_alpha() == 0.55]
    areas = {round(p.get_width() * p.get_height() * n, 6) for p in filled}
    assert len(filled) == 2 * n
    assert len(areas) == 1, "a share of each matrix"


def test_a_number_that_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match=r"n_devices=5 must be .*2, 3 or 4"):
        divided_part(5)
