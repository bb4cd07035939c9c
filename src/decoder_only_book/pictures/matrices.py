"""The picture of a change of low rank: two thin matrices, their product, and the sum.

    low_rank(weight, up, down)

Used by chapter 12.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from decoder_only_book import plots

__all__ = ["low_rank"]

_LIMIT = 3.0  # the number that has the deepest colour
_GAP = 0.42  # inches, for an operator


def low_rank(weight: ArrayLike, up: ArrayLike, down: ArrayLike) -> Figure:
    """Draw `up` times `down`, and what they add to a weight; all to one scale, with their sizes.

    Args:
        weight: (f, d), the frozen matrix.
        up, down: (f, r) and (r, d).

    Returns:
        A figure, about as wide as a phone. Blue is above zero, orange below.

    Raises:
        ValueError: the shapes do not fit each other.
    """
    weight, up, down = (plots.numeric_array(part) for part in (weight, up, down))
    shapes = weight.shape, up.shape, down.shape
    if up.ndim != 2 or weight.shape != (*up.shape[:1], *down.shape[1:]):
        raise ValueError(f"{shapes=} must be (f, d), (f, r), (r, d)")
    if up.shape[1] != len(down):
        raise ValueError(f"{shapes=} must be (f, d), (f, r), (r, d)")
    cell = (plots.WIDTH - 2 * _GAP - 0.1) / (3 * weight.shape[1])
    height = cell * len(weight) + 0.62
    axes = plots.page(plots.WIDTH, 2 * height)
    limits = axes.axis()
    product = {"$U$": up, "×": down, "=": up @ down}
    names = ["$U$", "$A$", "$U A$"]
    _line(axes, product, names, cell, height + height / 2)
    total = {"$W$": weight, "+": up @ down, "=": weight + up @ down}
    _line(axes, total, ["$W$", "$U A$", "$W + U A$"], cell, height / 2)
    axes.axis(limits)  # images set their own
    axes.set_aspect("auto")
    return axes.figure


def _line(
    axes: Axes, parts: dict[str, np.ndarray], names: list[str], cell: float, y: float
) -> None:
    """Matrices from left to right, centred on a line, each after its operator."""
    widths = [cell * part.shape[1] for part in parts.values()]
    x = (plots.WIDTH - sum(widths) - _GAP * (len(parts) - 1)) / 2
    middle = {"ha": "center", "va": "center_baseline"}
    for (operator, part), name, width in zip(parts.items(), names, widths, strict=True):
        if operator != names[0]:
            axes.text(x + _GAP / 2, y, operator, fontsize=13, **middle)
            x += _GAP
        half = cell * len(part) / 2
        look = {"cmap": plots.SIGNED, "clim": (-_LIMIT, _LIMIT), "zorder": 2}
        axes.imshow(part, extent=(x, x + width, y - half, y + half), **look)
        edge = {"facecolor": "none", "edgecolor": plots.MIST, "linewidth": 0.8}
        corner = x, y - half
        axes.add_patch(Rectangle(corner, width, 2 * half, zorder=3, **edge))
        axes.text(x + width / 2, y + half + 0.15, name, **middle)
        size = f"{len(part)} × {part.shape[1]}"
        axes.text(x + width / 2, y - half - 0.15, size, color=plots.GREY, **middle)
        x += width
