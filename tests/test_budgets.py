"""Pictures of budgets: a roof with its ridge, and valleys."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from decoder_only.analysis.laws import JointLaw
from decoder_only_book.pictures.budgets import roofline, valleys


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


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
