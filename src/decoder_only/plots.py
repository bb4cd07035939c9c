"""Figures in one style.

Every figure of the book is drawn here or under the style that is set here: colours that readers
with any colour vision can tell apart, type that is legible on a phone, a white background that
stays white in a dark notebook and turns dark with the page in the book. Functions return what they
drew and never show it.

    plots.use_style()                                  once, at the top of a notebook
    plots.loss_curves({"training": (steps, losses)}, floor=entropy)

Used by every chapter.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

__all__ = ["loss_curves", "style", "use_style"]

# The hues of Okabe and Ito, "Color universal design" (2008), without yellow; shades at which every
# line has a contrast of 3 with a light page and with a dark one, and no two look alike on either.
BLUE = "#105A9B"
ORANGE = "#CE8203"
GREEN = "#13A574"
VERMILLION = "#B43A00"
PURPLE = "#BD7EBB"
SKY = "#5790FD"
INK, GREY, MIST = "#1F2933", "#5C6672", "#88919C"

# Inches. On a phone a point is a pixel, and this is all its width; on a larger screen a point is
# one and a half, and the wider one, for panels side by side, is the book's column.
WIDTH, WIDE = 4.9, 6.7

_STYLE = {
    "figure.figsize": (WIDTH, 3.0),
    "figure.dpi": 150,
    "figure.constrained_layout.use": True,
    "savefig.dpi": "figure",
    "font.family": "sans-serif",
    # Matplotlib ships this family, so a figure is the same on every machine.
    "font.sans-serif": ["DejaVu Sans"],
    "mathtext.fontset": "dejavusans",
    # An image keeps its own pixels, whatever its size on the page.
    "image.interpolation": "none",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.prop_cycle": mpl.cycler(color=[BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY]),
    "grid.color": "#E3E6EA",
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    **dict.fromkeys(("axes.grid", "axes.axisbelow"), True),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
    **dict.fromkeys(("axes.linewidth", "grid.linewidth"), 0.7),
    **dict.fromkeys(("font.size", "axes.labelsize"), 10),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), 9.5),
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
    if not curves:
        raise ValueError("curves={} must have one name at least, with steps and losses")
    points = {name: tuple(map(numeric_array, pair)) for name, pair in curves.items()}
    for name, (steps, losses) in points.items():
        if steps.shape != losses.shape or steps.ndim != 1 or not steps.size:
            raise ValueError(
                f"the shapes of curve {name!r}={(steps.shape, losses.shape)} must be twice the "
                "same (n,), n at least 1"
            )
    if not {*faint} <= {*points}:
        raise ValueError(f"faint={faint!r:.200} must be some of {', '.join(points)}")
    with style():
        ax = plt.subplots()[1] if ax is None else ax
        for name, (steps, losses) in points.items():
            quiet = {"linewidth": 0.8, "color": MIST} if name in faint else {}
            marker = {"marker": "o", "markersize": 3.5} if steps.size <= 40 else {}
            ax.plot(steps, losses, label=name, **quiet, **marker)
        if floor is not None:
            _draw_floor(ax, floor, steps[-1], losses[-1])
        ax.set(xlabel="optimizer step", ylabel="loss (nats per token)")
        ax.legend()
    return ax


def _draw_floor(ax: Axes, floor: float, step: float, loss: float) -> None:
    """Draw the floor, and the gap above it at the end of a curve."""
    ax.axhline(floor, color=INK, linewidth=1.0, linestyle=(0, (5, 3)))
    bottom, top = ax.get_ylim()
    # Room for both numbers below the floor, where no curve stays for long.
    ax.set_ylim(min(bottom, floor - 0.14 * (top - floor)), top)
    below = {"textcoords": "offset points", "ha": "right", "va": "top"}
    below["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    label = f"floor {floor:.3f}, gap {loss - floor:.3f}"
    ax.annotate(label, (step, floor), (0, -5), fontsize=9.5, **below)
    if loss - floor > 0.04 * (top - floor):
        arrow = {"arrowstyle": "<->", "color": INK, "mutation_scale": 7}
        arrow |= {"shrinkA": 0, "shrinkB": 0}
        ax.annotate("", (step, floor), (step, loss), arrowprops=arrow)


def numeric_array(values: ArrayLike) -> np.ndarray:
    """Convert numbers, or a tensor of any device and precision, to an array of floats."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double()
    return np.asarray(values, dtype=float)
