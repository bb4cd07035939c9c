"""The picture of where a position enters: in the stream, at the query and key, or at their score.

    placing()

Used by chapter 2.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from decoder_only_book import plots

__all__ = ["placing"]

# What each way brings in, from bottom to top of its column: after the tokens, after the
# projections, after the product.
_WAYS = {
    "added\nrows, waves": (("$+\\,P_s$", "$+\\,P_t$"), None, None),
    "turned\nrotary": (None, ("turn $s$", "turn $t$"), None),
    "biased\nALiBi, T5": (None, None, "$+\\,b(s-t)$"),
}
_LEFT, _RIGHT, _MIDDLE = 0.5, 1.5, 1.0
# Arrows end where the boxes do.
_WAY = {"color": plots.GREY, "zorder": 3, "shrinkA": 13, "shrinkB": 14}


def placing() -> Figure:
    """Draw the way of two tokens to their score three times, position encodings in colour."""
    with plots.style():
        figure, panels = plt.subplots(1, 3, figsize=(plots.WIDTH, 3.9))
        for axes, (title, brought) in zip(panels, _WAYS.items(), strict=True):
            axes.set_title(title, loc="center")
            axes.set(xlim=(0, 2), ylim=(-0.35, 5.35))
            axes.set_axis_off()
            _draw(axes, *brought)
    return figure


def _draw(
    axes: Axes,
    added: tuple[str, str] | None,
    turned: tuple[str, str] | None,
    bias: str | None,
) -> None:
    score = _chip(axes, _MIDDLE, 4, "$q_s \\cdot k_t$", lit=False)
    for side, x in enumerate((_LEFT, _RIGHT)):
        at = "st"[side]
        way = [_chip(axes, x, 0, f"$e_{at}$", lit=False)]
        if added:
            way.append(_chip(axes, x, 1, added[side]))
        way.append(_chip(axes, x, 2, f"${'qk'[side]}_{at}$", lit=False))
        if turned:
            way.append(_chip(axes, x, 3, turned[side]))
        for start, end in pairwise(way):
            plots.arrow(axes, start, end, **_WAY)
        plots.arrow(axes, way[-1], score, **_WAY)
    if bias:
        plots.arrow(axes, score, _chip(axes, _MIDDLE, 5, bias), **_WAY)


def _chip(
    axes: Axes, x: float, y: int, text: str, *, lit: bool = True
) -> tuple[float, float]:
    """A box around a word; returns where it stands."""
    look = {
        "boxstyle": "round,pad=0.3",
        "facecolor": "#CFE3F1" if lit else "#F1F3F5",
        "edgecolor": plots.BLUE if lit else plots.MIST,
        "linewidth": 1.3 if lit else 0.8,
    }
    middle = {"ha": "center", "va": "center", "fontsize": 10, "color": plots.INK}
    axes.text(x, y, text, bbox=look, zorder=4, **middle)
    return x, float(y)
