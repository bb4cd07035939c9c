"""Pictures of the residual stream: where a norm is, and what it does to what parts add.

    wirings()    one part in pre-norm, post-norm and a sandwich
    streams()    four parts in pre-norm and in post-norm, to the scale of variance

Used by chapter 5.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from decoder_only_book import plots

__all__ = ["streams", "wirings"]

_COLOURS = (plots.EMBEDDING, "#4A5560", "#606B77", "#77828E", "#8B95A0")


_STACKS = {
    "pre-norm": ("norm", "part"),
    "post-norm": ("part",),
    "sandwich": ("norm", "part", "norm"),
}


def wirings() -> Figure:
    """Draw how one part reads the stream and adds to it, in three wirings."""
    axes = plots.page(4.8, 2.8)
    with plots.style():
        for column, (title, stack) in enumerate(_STACKS.items()):
            x = 0.42 + 1.6 * column
            axes.text(x - 0.32, 2.55, title, fontweight="bold")
            top = {"color": plots.STREAM, "linewidth": 2.5}
            plots.arrow(axes, (x, 0.05), (x, 2.45), **top)
            axes.plot((x, x + 0.68), (0.25, 0.25), color=plots.INK, lw=1.2)
            axes.plot((x + 0.68,) * 2, (0.25, 1.78), color=plots.INK, lw=1.2)
            plots.arrow(axes, (x + 0.68, 1.78), (x + 0.12, 1.78), color=plots.INK)
            _chip(axes, x, 1.78, "+")
            for row, name in enumerate(stack):
                _chip(axes, x + 0.68, 1.0 + 0.46 * (row - (len(stack) - 1) / 2), name)
            if title == "post-norm":
                _chip(axes, x, 2.16, "norm")
    return axes.figure


def _chip(axes: Axes, x: float, y: float, text: str) -> None:
    """A word in a box of its own, in the colour of norms for a norm."""
    look = {"boxstyle": "round,pad=0.25", "edgecolor": plots.MIST, "facecolor": "white"}
    if text == "norm":
        look |= {"facecolor": "#F2F2E0", "edgecolor": plots.NORM}
    axes.text(x, y, text, bbox=look, ha="center", va="center", zorder=5)


def streams(n_parts: int = 4, variance: float = 1.0) -> Figure:
    """Draw the stream through some parts, with the norm before each part and after each sum.

    The height is the stream's variance, a band for the embedding and for what each part has
    added. Parts add vectors that are uncorrelated with all before them.

    Args:
        n_parts: how many parts add to the stream, at most 4.
        variance: of what each part adds, where the embedding's is one.

    Raises:
        ValueError: more parts than there are colours, or none; a variance that is not positive.
    """
    most = len(_COLOURS) - 1
    if not 1 <= n_parts <= most:
        raise ValueError(f"{n_parts=} must be between 1 and {most}")
    if not variance > 0:
        raise ValueError(f"{variance=} must be above 0")
    tops = 1 + n_parts * variance, 1 + variance
    with plots.style():
        heights = {"height_ratios": [tops[0] + 1.25, tops[1] + 1.95]}
        figure, panels = plt.subplots(2, 1, figsize=(plots.WIDTH, 5.0), **heights)
        for axes, top, is_post in zip(panels, tops, (False, True), strict=True):
            _draw(axes, n_parts, variance, top, is_post)
        panels[0].set_title("pre-norm")
        panels[1].set_title("post-norm")
    return figure


def _draw(axes: Axes, n_parts: int, variance: float, top: float, is_post: bool) -> None:
    bands, xs = [np.eye(n_parts + 1)[0]], [-0.45]
    for part in range(n_parts):
        written = bands[-1] + variance * np.eye(n_parts + 1)[part + 1]
        passed = written / written.sum() if is_post else written
        bands += [bands[-1], written, written, passed]
        xs += [part + at for at in (0.42, 0.52, 0.66, 0.74)]
        read = float(bands[-4].sum())
        _part(axes, float(part), read, float(written.sum()), top + 0.85, is_post)
    bands.append(bands[-1])
    xs.append(n_parts + 0.1)
    axes.stackplot(xs, np.transpose(bands), colors=_COLOURS, edgecolor="white", lw=0.8)
    axes.text(-0.4, 0.5, "embedding", va="center")
    fraction = bands[-1][0] / bands[-1].sum()
    text = f"embedding:\n{fraction:.0%} of the\nvariance"
    beside = max(float(bands[-1][0]) / 2, 0.3)  # of its band, not of the whole stream
    axes.text(n_parts + 0.15, beside, text, va="center")
    axes.set(xlim=(-0.5, n_parts + 1.0), ylim=(-0.75 if is_post else -0.05, top + 1.2))
    axes.set_axis_off()


def _part(
    axes: Axes, x: float, read: float, written: float, y: float, is_post: bool
) -> None:
    """A part that reads the stream and writes to it, with its norm."""
    plots.arrow(axes, (x + 0.1, read), (x + 0.1, y - 0.3), color=plots.INK)
    plots.arrow(axes, (x + 0.47, y - 0.3), (x + 0.47, written), color=plots.INK)
    _chip(axes, x + 0.28, y, f"part {x + 1:g}")
    if is_post:
        look = {"facecolor": "#F2F2E0", "edgecolor": plots.NORM, "zorder": 4}
        axes.add_patch(Rectangle((x + 0.65, -0.15), 0.1, written + 0.3, **look))
        axes.text(x + 0.7, -0.25, "norm", ha="center", va="top")
    else:
        _chip(axes, x + 0.1, y - 0.8, "norm")
