"""The picture of a training step: what happens to a few weights, a row for each thing computed.

    update_steps({"weight $w$": w, "gradient $g$": g, "weight after": after}, kept=("weight $w$",))

Used by chapter 9.
"""

from collections.abc import Collection, Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from decoder_only_book import plots

__all__ = ["update_steps"]

_CELL, _ROW, _LEFT = 0.28, 0.38, 1.36


def update_steps(
    rows: Mapping[str, ArrayLike],
    *,
    said: Mapping[str, str] | None = None,
    kept: Collection[str] = (),
) -> Figure:
    """Draw rows of numbers, one number a weight, in the order in which a step computes them.

    Blue is above zero, orange below; a row's deepest colour is its largest number, which is
    printed after it, since gradients, their squares and steps differ by orders of magnitude.

    Args:
        rows: (n) numbers for each name.
        said: for some names, how the row follows from those above.
        kept: names of rows that stay in memory for the next step; a bar marks them.

    Returns:
        A figure, about as wide as the page.

    Raises:
        ValueError: rows of different lengths, or a name that is not among them.
    """
    values = {name: np.asarray(row, dtype=float) for name, row in rows.items()}
    shapes = {row.shape for row in values.values()}
    if len(shapes) != 1:
        raise ValueError(f"rows of {shapes=} must be of one length")
    said = said or {}
    if unknown := {*said, *kept} - {*values}:
        raise ValueError(f"name={min(unknown)!r} must be one of {list(values)}")
    height = _ROW * len(values) + 0.15
    axes = plots.page(plots.WIDTH, height)
    for number, (name, row) in enumerate(values.items()):
        y = height - _ROW * (number + 1)
        middle = {"y": y + _CELL / 2, "va": "center_baseline"}
        if name in kept:
            bar = {"facecolor": plots.BLUE, "edgecolor": "none"}
            axes.add_patch(Rectangle((0.02, y), 0.06, _CELL, **bar))
        axes.text(0.15, s=name, **middle)
        largest = np.abs(row).max()
        for column, value in enumerate(row):
            shade = plots.SIGNED(0.5 + 0.5 * value / (largest or 1.0))
            look = {"facecolor": shade, "edgecolor": plots.MIST, "linewidth": 0.8}
            corner = _LEFT + column * _CELL, y
            axes.add_patch(Rectangle(corner, _CELL, _CELL, **look))
        at = _LEFT + len(row) * _CELL + 0.08
        axes.text(at, s=f"{largest:.0e}", color=plots.GREY, **middle)
        axes.text(at + 0.54, s=said.get(name, ""), **middle)
    return axes.figure
