"""Figures in the book's style: heatmaps, boxes, arrows, over the style of `decoder_only.plots`.

    plots.heatmap(weights, row_labels=tokens, col_labels=tokens)

Used by every chapter.
"""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.image import AxesImage
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from decoder_only import plots
from decoder_only.plots import (
    BLUE,
    GREEN,
    GREY,
    INK,
    MIST,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    WIDTH,
    loss_curves,
    numeric_array,
    style,
)
from decoder_only_book.shown import show_as_svg

__all__ = [
    "ATTENTION",
    "BLUE",
    "EMBEDDING",
    "GREEN",
    "GREY",
    "HEAD",
    "INK",
    "MIST",
    "MLP",
    "MODEL",
    "NORM",
    "ORANGE",
    "PURPLE",
    "SIGNED",
    "SKY",
    "STREAM",
    "TRUTH",
    "VERMILLION",
    "WEIGHTS",
    "WIDTH",
    "arrow",
    "box",
    "heatmap",
    "loss_curves",
    "numeric_array",
    "page",
    "style",
    "use_style",
]


# One colour for one thing, through the whole book.
ATTENTION, MLP, NORM, STREAM = BLUE, GREEN, "#8C8C26", "#332288"
EMBEDDING, HEAD = PURPLE, VERMILLION
# What a model says, and what the language says.
MODEL, TRUTH = SKY, INK

# One hue that only darkens, for weights and probabilities; two hues around white, for signs.
WEIGHTS = LinearSegmentedColormap.from_list(
    "weights", ["#FFFFFF", "#D6E8F5", "#7FB8DE", "#2A7FB8", "#08436E"]
)


SIGNED = LinearSegmentedColormap.from_list(
    "signed", ["#9C3D00", "#E58A4E", "#FFFFFF", "#5BA3D0", "#0A4A78"], N=257
)


def use_style() -> None:
    """Make the book's style the default, and let the notebook show and store figures as SVG."""
    plots.use_style()
    show_as_svg()


def heatmap(
    matrix: ArrayLike,
    *,
    row_labels: Sequence[str] | None = None,
    col_labels: Sequence[str] | None = None,
    x_label: str = "",
    y_label: str = "",
    title: str = "",
    colour_label: str | None = None,
    signed: bool = False,
    limits: tuple[float, float] | None = None,
    decimals: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot a matrix as shades: attention weights, counts of pairs, similarities.

    White is zero. Entries that are nan, such as masked ones, are left blank in grey.

    Args:
        matrix: rows and columns, the first row on top.
        row_labels, col_labels: a label for each; a token's leading spaces show as dots.
        x_label, y_label: what the columns and the rows are.
        title: a short title.
        colour_label: what the shades mean; given, it draws a colour bar.
        signed: use two hues, blue above zero and orange below.
        limits: the values at both ends of the colours; by default 0 and the largest, or, signed,
            the largest magnitude on both sides.
        decimals: write each value in its cell, with so many decimals.
        ax: axes to draw on; by default those of a new figure.

    Returns:
        The axes.

    Raises:
        ValueError: the matrix is not two-dimensional or is empty, or labels do not fit its shape.
    """
    values = numeric_array(matrix)
    if values.ndim != 2 or not values.size:
        raise ValueError(f"matrix.shape={values.shape} must be rows and columns")
    _check_labels("row_labels", row_labels, len(values))
    _check_labels("col_labels", col_labels, values.shape[1])
    if limits is None:
        largest = float(np.abs(values[np.isfinite(values)]).max(initial=0)) or 1.0
        limits = (-largest if signed else 0.0, largest)
    with style():
        ax = plt.subplots()[1] if ax is None else ax
        colours = (SIGNED if signed else WEIGHTS).with_extremes(bad="#ECEEF1")
        image = ax.imshow(values, colours, interpolation="none", clim=limits)
        ax.grid(False)
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
        ax.set(xlabel=x_label, ylabel=y_label, title=title)
        _write_labels(ax, row_labels, col_labels)
        if decimals is not None:
            _write_values(image, values, decimals)
        if colour_label is not None:
            look = {"label": colour_label, "shrink": 0.85, "aspect": 25}
            bar = ax.figure.colorbar(image, ax=ax, **look)
            bar.outline.set_visible(False)
            bar.ax.tick_params(length=0)
    return ax


def _check_labels(name: str, labels: Sequence[str] | None, size: int) -> None:
    if labels is not None and len(labels) != size:
        raise ValueError(f"the number of {name}={len(labels)} must be {size}, as cells")


def _write_labels(
    ax: Axes, row_labels: Sequence[str] | None, col_labels: Sequence[str] | None
) -> None:
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(8, integer=True))
    if row_labels is not None:
        rows = [_token(label) for label in row_labels]
        ax.set_yticks(range(len(rows)), rows, parse_math=False)
    if col_labels is not None:
        columns = [_token(label) for label in col_labels]
        turn = 90 if max(map(len, columns)) > 2 else 0
        ax.set_xticks(range(len(columns)), columns, parse_math=False, rotation=turn)


def page(width: float, height: float) -> Axes:
    """Axes for a drawing, in inches: no frame, and white to their edges, lest they are cropped."""
    with style():
        figure = plt.figure(figsize=(width, height), layout="none")
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(0, height))
    axes.set_axis_off()
    axes.add_patch(Rectangle((0, 0), width, height, facecolor="white", zorder=-1))
    return axes


def arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], **look: object
) -> None:
    """An arrow in a drawing; `look` is of matplotlib's `FancyArrowPatch`."""
    plain = {"arrowstyle": "-|>", "mutation_scale": 10, "color": MIST}
    plain |= {"shrinkA": 0, "shrinkB": 0, "linewidth": 1.2}
    axes.add_patch(FancyArrowPatch(start, end, **plain | look))


def box(
    axes: Axes,
    corner: tuple[float, float],
    size: tuple[float, float],
    colour: str | None = None,
    strength: float = 1.0,
) -> None:
    """A box in a drawing: white, outlined, and shaded by a colour's strength between 0 and 1."""
    looks = [{"facecolor": "white"}]
    if colour is not None:
        looks.append({"facecolor": colour, "alpha": strength})
    looks.append({"facecolor": "none", "edgecolor": MIST, "linewidth": 0.8})
    for look in looks:
        axes.add_patch(Rectangle(corner, *size, **{"edgecolor": "none"} | look))


def _write_values(image: AxesImage, values: np.ndarray, decimals: int) -> None:
    """Write each value in its cell, light on dark cells and dark on light ones."""
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            shade = np.dot(image.cmap(image.norm(value))[:3], (0.299, 0.587, 0.114))
            look = {"color": "white" if shade < 0.55 else INK, "fontsize": 9}
            text = f"{value:.{decimals}f}".replace("-", "−")
            image.axes.text(column, row, text, ha="center", va="center", **look)


def _token(label: str) -> str:
    """Make a token's white space visible, and leave the words of other labels alone."""
    text = str(label)
    stripped = text.lstrip(" ")
    dots = "·" * (len(text) - len(stripped))
    return dots + stripped.replace("\n", "↵").replace("\t", "⇥")
