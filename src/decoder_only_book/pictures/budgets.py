"""Pictures of what training costs and what it buys: a roofline, valleys of equal budgets.

    roofline(peak, bandwidth, works)        the most that a device does, by operations for each byte
    valleys(law, budgets, sizes)            the loss by size, a curve for each budget

Used by chapter 10.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy import ndarray

from decoder_only.analysis.laws import JointLaw
from decoder_only_book import plots

__all__ = ["roofline", "valleys"]

_WIDTH = 5.0
_COLOURS = (plots.BLUE, plots.ORANGE, plots.GREEN, plots.PURPLE, plots.SKY)


def roofline(
    peak: int | float,
    bandwidth: int | float,
    works: Mapping[str, int | float],
    *,
    axes: Axes | None = None,
) -> Axes:
    """Draw a device's roofline, and where kinds of work meet it.

    Args:
        peak: operations per second.
        bandwidth: bytes per second between memory and arithmetic.
        works: operations for each byte moved, by the name of the work.
        axes: where to draw; a new figure by default.

    Raises:
        ValueError: a peak, a bandwidth or an intensity that is not above 0.

    Source: Williams et al. (2009).
    """
    if min([peak, bandwidth, *works.values()]) <= 0:
        raise ValueError("peak, bandwidth and intensities must be above 0")
    axes = axes or plt.subplots(figsize=(_WIDTH, 3.0))[1]
    ridge = peak / bandwidth
    ends = [ridge, *works.values()]
    low, high = min(ends) / 3, max(ends) * 3
    x = np.array([low, ridge, high])
    axes.plot(x, np.minimum(peak, bandwidth * x), color=plots.INK)
    axes.axvline(ridge, color=plots.GREY, linewidth=1, linestyle=":")
    for side, name in (("right", "memory-bound "), ("left", " compute-bound")):
        place = {"ha": side, "va": "bottom", "transform": axes.get_xaxis_transform()}
        axes.text(ridge, 1.02, name, color=plots.GREY, **place)
    for (name, intensity), marker in zip(
        works.items(), "osD^v" * len(works), strict=False
    ):
        reached = min(peak, bandwidth * intensity)
        axes.plot(intensity, reached, marker, label=name, markersize=7)
    axes.set(xscale="log", yscale="log", xlim=(low, high))
    axes.set(
        xlabel="intensity (operations per byte)",
        ylabel="attainable operations per second",
    )
    axes.minorticks_off()
    axes.legend(loc="lower right")
    return axes


def valleys(
    law: JointLaw,
    budgets: Sequence[int | float],
    sizes: ndarray,
    *,
    operations: int | float = 6,
    axes: Axes | None = None,
) -> Axes:
    """Draw the loss of models of many sizes that cost the same, and mark the lowest point.

    Args:
        law: gives the loss of N parameters after M tokens.
        budgets: C, a curve for each.
        sizes: N.
        operations: for each parameter and token, 6 in training.
        axes: where to draw; a new figure by default.

    Raises:
        ValueError: a budget whose lowest point is an end of the sizes, where no valley is seen.
    """
    axes = axes or plt.subplots(figsize=(_WIDTH, 3.0))[1]
    lowest = []
    for budget, colour in zip(budgets, _COLOURS, strict=False):
        losses = law.loss(sizes, budget / (operations * sizes))
        place = int(np.argmin(losses))
        if place in (0, len(sizes) - 1):
            raise ValueError(
                f"the best size for {budget=:g} is not inside of the sizes"
            )
        lowest.append((sizes[place], losses[place]))
        axes.plot(sizes, losses, color=colour, label=f"{budget:g}")
    axes.plot(*zip(*lowest, strict=True), "o--", color=plots.INK, linewidth=1)
    axes.set(xscale="log", xlabel="parameters $N$", ylabel="loss")
    axes.legend(title="budget $C$")
    return axes
