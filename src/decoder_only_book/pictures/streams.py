"""The picture of the residual stream: what parts add, and what a norm in its way does to it.

    streams()

Used by chapter 5.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from decoder_only_book import plots

__all__ = ["streams"]

_COLOURS = (plots.EMBEDDING, "#4A5560", "#606B77", "#77828E", "#8B95A0")


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
    chip = {"boxstyle": "round,pad=0.25", "edgecolor": plots.MIST, "facecolor": "white"}
    middle = {"ha": "center", "va": "center"}
    axes.text(x + 0.28, y, f"part {x + 1:g}", bbox=chip, **middle)
    norm = {"facecolor": "#F2F2E0", "edgecolor": plots.NORM}
    if is_post:
        size = 0.1, written + 0.3
        axes.add_patch(Rectangle((x + 0.65, -0.15), *size, zorder=4, **norm))
        axes.text(x + 0.7, -0.25, "norm", **(middle | {"va": "top"}))
    else:
        axes.text(x + 0.1, y - 0.8, "norm", bbox=chip | norm, **middle)
