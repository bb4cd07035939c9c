"""Figures in one style.

Every figure of the book is drawn here or under the style that is set here: colours that readers
with any colour vision can tell apart, type that is legible on a phone, a white background that
stays white in a dark notebook and turns dark with the page in the book. Functions return what they
drew and never show it.

    plots.use_style()                                  once, at the top of a notebook
    plots.loss_curves({"training": (steps, losses)}, floor=entropy)
    plots.heatmap(weights, row_labels=tokens, col_labels=tokens)

Used by every chapter.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.image import AxesImage
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from decoder_only.base.checks import require

__all__ = ["arrow", "box", "heatmap", "loss_curves", "page", "style", "use_style"]

# The hues of Okabe and Ito, "Color universal design" (2008), without yellow; shades at which every
# line has a contrast of 3 with a light page and with a dark one, and no two look alike on either.
BLUE = "#105A9B"
ORANGE = "#CE8203"
GREEN = "#13A574"
VERMILLION = "#B43A00"
PURPLE = "#BD7EBB"
SKY = "#5790FD"
INK, GREY, MIST = "#1F2933", "#5C6672", "#9AA2AD"

# One hue that only darkens, for weights and probabilities; two hues around white, for signs.
WEIGHTS = LinearSegmentedColormap.from_list(
    "weights", ["#FFFFFF", "#D6E8F5", "#7FB8DE", "#2A7FB8", "#08436E"]
)
SIGNED = LinearSegmentedColormap.from_list(
    "signed", ["#9C3D00", "#E58A4E", "#FFFFFF", "#5BA3D0", "#0A4A78"], N=257
)

# Inches. The book's column is about seven hundred pixels wide, a phone's about half of that.
WIDTH = 6.4

_STYLE = {
    "figure.figsize": (WIDTH, 3.6),
    "figure.dpi": 132,
    "figure.constrained_layout.use": True,
    "savefig.dpi": "figure",
    "font.family": "sans-serif",
    # Matplotlib ships this family, so a figure is the same on every machine.
    "font.sans-serif": ["DejaVu Sans"],
    "mathtext.fontset": "stix",
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.prop_cycle": mpl.cycler(color=[BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY]),
    "grid.color": "#E3E6EA",
    "lines.linewidth": 2.0,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 10.5,
    **dict.fromkeys(("axes.grid", "axes.axisbelow"), True),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
    **dict.fromkeys(("axes.linewidth", "grid.linewidth"), 0.8),
    **dict.fromkeys(("font.size", "axes.labelsize"), 11),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), 10),
    **dict.fromkeys(
        ("figure.facecolor", "savefig.facecolor", "axes.facecolor"), "white"
    ),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), MIST),
    **dict.fromkeys(("text.color", "axes.labelcolor"), INK),
    **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor"), INK),
}


def use_style() -> None:
    """Make the book's style the default for every figure that this process draws from now on."""
    mpl.rcParams.update(_STYLE)


@contextmanager
def style() -> Iterator[None]:
    """Draw in the book's style inside a `with` block, and leave the defaults as they were."""
    with mpl.rc_context(_STYLE):
        yield


def loss_curves(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    floor: float | None = None,
    faint: Collection[str] = (),
    ax: Axes | None = None,
) -> Axes:
    """Plot losses as they fall, and how far the last one is from the best that is possible.

    Args:
        curves: for each name, optimizer steps and the losses at them, in nats per token.
        floor: the entropy of the language; drawn as a line, with the gap that the last curve
            leaves.
        faint: curves to draw thin and pale, such as a noisy training loss.
        ax: axes to draw on; by default those of a new figure.

    Returns:
        The axes.

    Raises:
        ValueError: there are no curves, a curve is empty or has more steps than losses or fewer,
            or `faint` names an unknown curve.
    """
    require("curves", curves, len, "at least one name with its steps and losses")
    points = {name: tuple(map(_array, pair)) for name, pair in curves.items()}
    for name, (steps, losses) in points.items():
        shapes, wanted = (
            (steps.shape, losses.shape),
            "twice the same (n,), n at least 1",
        )
        even = steps.shape == losses.shape and steps.ndim == 1 and steps.size
        require(f"the shapes of curve {name!r}", shapes, lambda _, e=even: e, wanted)
    wanted = f"some of {', '.join(points)}"
    require("faint", faint, lambda names: {*names} <= {*points}, wanted)
    with style():
        ax = plt.subplots()[1] if ax is None else ax
        for name, (steps, losses) in points.items():
            quiet = {"linewidth": 1.0, "color": "#B4BBC4"} if name in faint else {}
            marker = {"marker": "o", "markersize": 3.5} if steps.size <= 40 else {}
            ax.plot(steps, losses, label=name, **quiet, **marker)
        if floor is not None:
            _draw_floor(ax, floor, steps[-1], losses[-1])
        ax.set(xlabel="optimizer step", ylabel="loss (nats per token)")
        ax.legend()
    return ax


def _draw_floor(ax: Axes, floor: float, step: float, loss: float) -> None:
    """Draw the floor, and the gap above it at the end of a curve."""
    ax.axhline(floor, color=INK, linewidth=1.3, linestyle=(0, (5, 3)))
    bottom, top = ax.get_ylim()
    # Room for both numbers below the floor, where no curve stays for long.
    ax.set_ylim(min(bottom, floor - 0.14 * (top - floor)), top)
    below = {"textcoords": "offset points", "ha": "right", "va": "top"}
    below["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    said = f"floor {floor:.3f}, gap {loss - floor:.3f}"
    ax.annotate(said, (step, floor), (0, -6), fontsize=10.5, **below)
    if loss - floor > 0.04 * (top - floor):
        arrow = {"arrowstyle": "<->", "color": INK, "mutation_scale": 7}
        arrow |= {"shrinkA": 0, "shrinkB": 0}
        ax.annotate("", (step, floor), (step, loss), arrowprops=arrow)


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
    values = _array(matrix)
    shape = values.shape
    require("matrix.shape", shape, lambda s: len(s) == 2 and min(s), "rows and columns")
    rows, columns = shape
    for name, labels, size in (("row", row_labels, rows), ("col", col_labels, columns)):
        wanted = f"{size} labels for a matrix of shape {shape}"
        count = size if labels is None else len(labels)
        require(f"the number of {name}_labels", count, size.__eq__, wanted)
    if limits is None:
        largest = float(np.abs(values[np.isfinite(values)]).max(initial=0)) or 1.0
        limits = (-largest if signed else 0.0, largest)
    with style():
        ax = plt.subplots()[1] if ax is None else ax
        colours = (SIGNED if signed else WEIGHTS).with_extremes(bad="#ECEEF1")
        low, high = limits
        image = ax.imshow(values, colours, vmin=low, vmax=high, interpolation="nearest")
        ax.grid(False)
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
        ax.set(xlabel=x_label, ylabel=y_label, title=title)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(8, integer=True))
        if row_labels is not None:
            ax.set_yticks(range(rows), map(_token, row_labels), parse_math=False)
        if col_labels is not None:
            shown = [_token(label) for label in col_labels]
            turn = 90 if max(map(len, shown)) > 2 else 0
            ax.set_xticks(range(columns), shown, parse_math=False, rotation=turn)
        if decimals is not None:
            _write_values(image, values, decimals)
        if colour_label is not None:
            look = {"label": colour_label, "shrink": 0.85, "aspect": 25}
            bar = ax.figure.colorbar(image, ax=ax, **look)
            bar.outline.set_visible(False)
            bar.ax.tick_params(length=0)
    return ax


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
            look = {"color": "white" if shade < 0.55 else INK, "fontsize": 9.5}
            said = f"{value:.{decimals}f}".replace("-", "−")
            image.axes.text(column, row, said, ha="center", va="center", **look)


def _array(values: ArrayLike) -> np.ndarray:
    """Convert numbers, or a tensor of any device and precision, to an array of floats."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double()
    return np.asarray(values, dtype=float)


def _token(label: str) -> str:
    """Make a token's white space visible, and leave the words of other labels alone."""
    text = str(label)
    stripped = text.lstrip(" ")
    dots = "·" * (len(text) - len(stripped))
    return dots + stripped.replace("\n", "↵").replace("\t", "⇥")
