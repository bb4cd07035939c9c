"""Pictures of budgets: boxes as wide as their bytes, a roof with its ridge, and valleys."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import Rectangle

from decoder_only.analysis.laws import JointLaw
from decoder_only_book.pictures.budgets import bytes_of_a_weight, roofline, valleys


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_a_box_is_as_wide_as_its_bytes():
    (axes,) = bytes_of_a_weight({"a": {"x": 2, "y": 4}, "b": {"y": 8}}).axes
    boxes = [p for p in axes.patches if type(p) is Rectangle][1:]
    widths = [box.get_width() + 0.04 for box in boxes[::3]]
    assert widths == pytest.approx([1.2, 2.4, 4.8])
    said = [text.get_text() for text in axes.texts]
    assert [each for each in said if "bytes" in each] == ["6 bytes", "8 bytes"]


def test_a_part_has_bytes():
    with pytest.raises(ValueError, match="at least one byte"):
        bytes_of_a_weight({"a": {"x": 0}})


def test_the_roof_is_the_lower_of_two_ceilings():
    axes = roofline(100, 10, {"reads": 2, "computes": 80})
    roof, ridge, reads, computes = axes.lines
    assert roof.get_ydata()[1:] == pytest.approx([100, 100])
    assert roof.get_ydata()[0] == pytest.approx(10 * roof.get_xdata()[0])
    assert ridge.get_xdata()[0] == 10
    assert reads.get_ydata()[0] == 20
    assert computes.get_ydata()[0] == 100
    with pytest.raises(ValueError, match="above 0"):
        roofline(100, 0, {})


def test_the_lowest_point_is_the_best_split():
    law = JointLaw(1, 2, 0.5, 2, 0.5)
    sizes = np.geomspace(0.5, 64, 2001)
    axes = valleys(law, [16, 64], sizes, operations=1)
    marks = axes.lines[-1]
    assert marks.get_xdata() == pytest.approx([4, 8], rel=0.01)
    assert marks.get_ydata() == pytest.approx([3, 1 + 4 / 8**0.5], rel=1e-4)
    with pytest.raises(ValueError, match="not inside"):
        valleys(law, [16], sizes[sizes > 5], operations=1)
