"""Figures in one style, and the one diagram of the architecture.

Every figure of the book is drawn here or under the style that is set here: colours that readers
with any colour vision can tell apart, type that is legible on a phone, a white background that
stays white in a dark notebook and turns dark with the page in the book. Functions return what they
drew and never show it.

    plots.use_style()                                  once, at the top of a notebook
    plots.architecture(lit="attention")                the diagram, with one part in colour
    plots.loss_curves({"training": (steps, losses)}, floor=entropy)
    plots.heatmap(weights, row_labels=tokens, col_labels=tokens)
    plots.bars(tokens, probabilities)

Used by every chapter.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "INK",
    "ORANGE",
    "PARTS",
    "PURPLE",
    "SIGNED",
    "SKY",
    "VERMILLION",
    "WEIGHTS",
    "WIDTH",
    "architecture",
    "bars",
    "heatmap",
    "loss_curves",
    "style",
    "use_style",
]

# Okabe and Ito, "Color universal design" (2008), without its yellow, which is too pale for lines.
BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
VERMILLION = "#D55E00"
PURPLE = "#CC79A7"
SKY = "#56B4E9"
INK = "#1F2933"
GREY = "#5C6672"
_HAIRLINE = "#C5CAD1"

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
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "savefig.dpi": "figure",
    "savefig.facecolor": "white",
    "font.family": "sans-serif",
    # Matplotlib ships this family, so a figure is the same on every machine.
    "font.sans-serif": ["DejaVu Sans"],
    "mathtext.fontset": "stix",
    "font.size": 11,
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 11,
    "axes.labelcolor": INK,
    "axes.facecolor": "white",
    "axes.edgecolor": "#9AA2AD",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": mpl.cycler(color=[BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY]),
    "grid.color": "#E3E6EA",
    "grid.linewidth": 0.8,
    "lines.linewidth": 2.0,
    "lines.solid_capstyle": "round",
    "text.color": INK,
    "xtick.color": "#9AA2AD",
    "ytick.color": "#9AA2AD",
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.frameon": False,
    "legend.fontsize": 10.5,
    "image.cmap": "viridis",
}


def use_style() -> None:
    """Make the book's style the default for every figure that this process draws from now on."""
    mpl.rcParams.update(_STYLE)


@contextmanager
def style() -> Iterator[None]:
    """Draw in the book's style inside a ``with`` block, and leave the defaults as they were."""
    with mpl.rc_context(_STYLE):
        yield


# ------------------------------------------------------------------------------------ the diagram

# The parts of the architecture, each with its colour.
PARTS: dict[str, str] = {
    "tokenization": ORANGE,
    "embeddings": PURPLE,
    "attention": BLUE,
    "multihead": SKY,
    "normalization": "#999933",
    "mlp": GREEN,
    "lm_head": VERMILLION,
    "model": "#332288",
    "training": "#882255",
    "scaling": "#7A4B12",
}

# The chapter on the whole model lights what it is assembled from.
_ASSEMBLED = ("embeddings", "attention", "multihead", "normalization", "mlp", "lm_head")

# Inches, from the bottom left. All floors share their left and right edges, and the residual
# stream is one straight line.
_SIZE = (5.0, 7.5)
_LEFT, _RIGHT, _STREAM = 0.62, 4.42, 1.12
_BRANCH_LEFT, _BRANCH_RIGHT = 1.72, 4.28
_BLOCK = (2.00, 5.36)
_PADDING = 0.14


def architecture(lit: str | Collection[str] | None = None) -> Figure:
    """Draw the decoder-only transformer from text to next-token probabilities.

    The diagram is the same in every chapter; only what is in colour changes. Arrays are labelled
    with the book's letters: batch b, position s, residual stream d, MLP f, vocabulary v.

    Args:
        lit: the part, or parts, of ``PARTS`` to draw in colour, with the rest in grey; None draws
            everything in colour. "model" lights all that the model is assembled from.

    Returns:
        A figure 5 inches wide and 7.5 high, best shown about 480 pixels wide.

    Raises:
        ValueError: a name is not in ``PARTS``.
    """
    names = (
        tuple(PARTS) if lit is None else (lit,) if isinstance(lit, str) else tuple(lit)
    )
    for name in names:
        if name not in PARTS:
            raise ValueError(
                f"lit has no part {name!r}; the parts are {', '.join(PARTS)}"
            )
    if "model" in names:
        names += _ASSEMBLED
    with style():
        drawing = _Drawing(frozenset(names))
        _draw_input(drawing)
        _draw_block(drawing)
        _draw_output(drawing)
        _draw_margins(drawing)
    return drawing.figure


class _Drawing:
    """Primitives that know whether their part is lit. Each artist's gid names its part."""

    def __init__(self, lit: frozenset[str]):
        self.lit = lit
        self.figure = plt.figure(figsize=_SIZE, layout="none")
        self.axes = self.figure.add_axes(
            (0, 0, 1, 1), xlim=(0, _SIZE[0]), ylim=(0, _SIZE[1])
        )
        self.axes.set_axis_off()
        # Notebooks crop a figure to what is drawn: this keeps every version the same size.
        self.axes.add_patch(
            Rectangle((0, 0), *_SIZE, facecolor="white", edgecolor="none")
        )

    def colour(self, part: str) -> str:
        return PARTS[part] if part in self.lit else _HAIRLINE

    def tint(self, part: str, strength: float) -> tuple[float, ...]:
        """Mix the part's colour, or a quiet grey, into white."""
        colour = PARTS[part] if part in self.lit else "#9AA2AD"
        return tuple(1 - strength * (1 - np.array(to_rgb(colour))))

    def box(
        self,
        part: str,
        left: float,
        bottom: float,
        right: float,
        top: float,
        *,
        strength: float = 0.15,
        width: float = 1.3,
        radius: float = 0.07,
        zorder: float = 2.0,
    ) -> None:
        outline = FancyBboxPatch(
            (left + radius, bottom + radius),
            right - left - 2 * radius,
            top - bottom - 2 * radius,
            boxstyle=f"round,pad={radius}",
            facecolor=self.tint(part, strength if part in self.lit else strength * 0.6),
            edgecolor=self.colour(part),
            linewidth=width,
            zorder=zorder,
            gid=part,
        )
        self.axes.add_patch(outline)

    def label(self, part: str, x: float, y: float, text: str, **style: Any) -> None:
        # Text is centred on its line, not on its descenders, so that a row of labels is level.
        style = {"fontsize": 10.5, "va": "center_baseline", "zorder": 6} | style
        colour = INK if part in self.lit else GREY
        self.axes.text(x, y, text, color=colour, gid=part, **style)

    def chip(
        self, part: str, left: float, right: float, y: float, text: str, **style: Any
    ) -> None:
        """Draw a small borderless box around one word."""
        half = 0.135
        corners = (left, y - half, right, y + half)
        self.box(part, *corners, strength=0.42, width=0.0, radius=0.04, zorder=5.0)
        self.label(
            part, (left + right) / 2, y, text, fontsize=9.5, ha="center", **style
        )

    def line(
        self, part: str, xs: Sequence[float], ys: Sequence[float], **style: Any
    ) -> None:
        style = {"linewidth": 1.3, "zorder": 3} | style
        self.axes.plot(xs, ys, color=self.colour(part), gid=part, **style)

    def arrow(
        self,
        part: str,
        start: tuple[float, float],
        end: tuple[float, float],
        size: float = 9.0,
    ) -> None:
        head = FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=size,
            linewidth=1.3,
            color=self.colour(part),
            shrinkA=0,
            shrinkB=0,
            zorder=4,
            gid=part,
        )
        self.axes.add_patch(head)

    def matrix(self, part: str, left: float, bottom: float, values: np.ndarray) -> None:
        """Draw a small matrix as cells, those that are masked (nan) as outlines."""
        cell = 0.1
        for (row, column), value in np.ndenumerate(values):
            masked = np.isnan(value)
            square = Rectangle(
                (left + column * cell, bottom + (len(values) - 1 - row) * cell),
                0.84 * cell,
                0.84 * cell,
                facecolor="none" if masked else self.tint(part, value),
                edgecolor=self.tint(part, 0.4) if masked else "none",
                linewidth=0.5,
                zorder=6,
                gid=part,
            )
            self.axes.add_patch(square)


def _draw_input(drawing: _Drawing) -> None:
    """Draw the way from text to the start of the residual stream."""
    edge = _RIGHT - _PADDING
    drawing.arrow("tokenization", (_STREAM, 0.14), (_STREAM, 0.42))
    drawing.label(
        "tokenization",
        _STREAM + 0.12,
        0.26,
        "“Once upon a time”",
        family="DejaVu Serif",
    )
    drawing.box("tokenization", _LEFT, 0.42, _RIGHT, 0.90)
    drawing.label("tokenization", _LEFT + _PADDING, 0.66, "Tokenization", weight="bold")
    right = edge
    for token in ("·time", "·a", "·upon", "Once"):
        left = right - 0.10 - 0.082 * len(token)
        drawing.chip(
            "tokenization", left, right, 0.66, token, family="DejaVu Sans Mono"
        )
        right = left - 0.05
    drawing.arrow("tokenization", (_STREAM, 0.90), (_STREAM, 1.20))
    drawing.label("tokenization", _STREAM + 0.12, 1.04, r"token ids $(b,\, s)$")

    drawing.box("embeddings", _LEFT, 1.20, _RIGHT, 1.68)
    drawing.label("embeddings", _LEFT + _PADDING, 1.44, "Embeddings", weight="bold")
    drawing.chip("embeddings", edge - 1.62, edge - 0.96, 1.44, "token")
    drawing.label("embeddings", edge - 0.84, 1.44, "+", ha="center")
    drawing.chip("embeddings", edge - 0.72, edge, 1.44, "position")


def _draw_block(drawing: _Drawing) -> None:
    """Draw the stack of blocks, with the residual stream straight through it."""
    bottom, top = _BLOCK
    for behind in (0.10, 0.05, 0.0):
        corners = (_LEFT + behind, bottom + behind, _RIGHT + behind, top + behind)
        drawing.box("model", *corners, strength=0.035, width=1.1, zorder=1.5 - behind)
    drawing.line(
        "model", (_STREAM, _STREAM), (1.68, 5.62), linewidth=5, solid_capstyle="butt"
    )
    drawing.label("model", _STREAM + 0.14, 1.83, r"$(b,\, s,\, d)$")
    middle = (bottom + top) / 2
    drawing.label(
        "model", 0.87, middle, "residual stream", ha="center", va="center", rotation=90
    )
    title = {"ha": "right", "weight": "bold"}
    drawing.label("model", _BRANCH_RIGHT, 5.19, r"Block $\times\, L$", **title)

    _draw_sublayer(drawing, norm=2.14, bottom=2.58, output=3.84)
    _draw_attention(drawing, bottom=2.58, top=4.02)
    _draw_sublayer(drawing, norm=4.18, bottom=4.62, output=4.82)
    drawing.box("mlp", _BRANCH_LEFT, 4.62, _BRANCH_RIGHT, 5.02)
    drawing.label("mlp", _BRANCH_LEFT + _PADDING, 4.82, "MLP", weight="bold")
    drawing.label("mlp", _BRANCH_RIGHT - _PADDING, 4.82, r"$d \to f \to d$", ha="right")


def _draw_sublayer(
    drawing: _Drawing, *, norm: float, bottom: float, output: float
) -> None:
    """Draw the branch that reads the stream through a norm and adds its output back to it."""
    centre = (_BRANCH_LEFT + _BRANCH_RIGHT) / 2
    drawing.arrow("model", (_STREAM, norm + 0.14), (_BRANCH_LEFT, norm + 0.14))
    drawing.box("normalization", _BRANCH_LEFT, norm, _BRANCH_RIGHT, norm + 0.28)
    drawing.label(
        "normalization", _BRANCH_LEFT + _PADDING, norm + 0.14, "Norm", weight="bold"
    )
    drawing.arrow("model", (centre, norm + 0.28), (centre, bottom))
    radius, arm = 0.1, 0.055
    drawing.arrow("model", (_BRANCH_LEFT, output), (_STREAM + radius, output))
    circle = Circle(
        (_STREAM, output),
        radius,
        facecolor="white",
        edgecolor=drawing.colour("model"),
        linewidth=1.6,
        zorder=5,
        gid="model",
    )
    drawing.axes.add_patch(circle)
    cross = {"linewidth": 1.6, "zorder": 6}
    drawing.line("model", (_STREAM - arm, _STREAM + arm), (output, output), **cross)
    drawing.line("model", (_STREAM, _STREAM), (output - arm, output + arm), **cross)


def _draw_attention(drawing: _Drawing, *, bottom: float, top: float) -> None:
    """Draw multi-head attention, with one head's scores and causally masked weights inside."""
    left, right = _BRANCH_LEFT + _PADDING, _BRANCH_RIGHT - _PADDING
    drawing.box("multihead", _BRANCH_LEFT, bottom, _BRANCH_RIGHT, top)
    drawing.label("multihead", left, top - 0.18, "Multi-head attention", weight="bold")
    drawing.label("multihead", right, top - 0.18, r"$\times\, H$", ha="right")
    width, gap = (right - left - 0.16) / 3, 0.08
    for index, word in enumerate(("query", "key", "value")):
        start = left + index * (width + gap)
        drawing.chip("multihead", start, start + width, bottom + 0.235, word)

    card = bottom + 0.46
    for behind in (0.09, 0.045, 0.0):
        corners = (
            left + behind,
            card + behind,
            right - 0.09 + behind,
            card + 0.52 + behind,
        )
        drawing.box(
            "attention",
            *corners,
            strength=0.13,
            width=1.1,
            radius=0.04,
            zorder=4 - behind,
        )
    drawing.label("attention", left + 0.10, card + 0.26, "Attention", weight="bold")
    scores = 0.9 - 0.15 * np.array(
        [[0, 3, 1, 4], [2, 0, 4, 1], [3, 1, 2, 5], [1, 4, 0, 2]]
    )
    weights = np.where(np.tri(4, dtype=bool), scores, np.nan)
    drawing.matrix("attention", left + 1.14, card + 0.068, scores)
    drawing.arrow(
        "attention", (left + 1.55, card + 0.26), (left + 1.73, card + 0.26), size=7.0
    )
    drawing.matrix("attention", left + 1.75, card + 0.068, weights)


def _draw_output(drawing: _Drawing) -> None:
    """Draw the way from the residual stream to next-token probabilities."""
    drawing.box("normalization", _LEFT, 5.62, _RIGHT, 5.92)
    drawing.label("normalization", _LEFT + _PADDING, 5.77, "Final norm", weight="bold")
    drawing.arrow("model", (_STREAM, 5.92), (_STREAM, 6.08))
    drawing.box("lm_head", _LEFT, 6.08, _RIGHT, 6.50)
    drawing.label("lm_head", _LEFT + _PADDING, 6.29, "LM head", weight="bold")
    drawing.label("lm_head", _RIGHT - _PADDING, 6.29, r"$d \to v$", ha="right")
    drawing.arrow("lm_head", (_STREAM, 6.50), (_STREAM, 6.82))
    drawing.label("lm_head", _STREAM + 0.12, 6.64, r"logits $(b,\, s,\, v)$")
    drawing.label("lm_head", _LEFT + _PADDING, 6.96, "next-token probabilities")
    step, width, base = 0.165, 0.115, 6.82
    heights = np.array([0.05, 0.09, 0.42, 0.13, 0.06, 0.22, 0.04, 0.10, 0.03])
    start = _RIGHT - _PADDING - step * (len(heights) - 1) - width
    for index, height in enumerate(heights):
        bar = Rectangle(
            (start + index * step, base),
            width,
            height,
            facecolor=drawing.colour("lm_head"),
            edgecolor="none",
            zorder=3,
            gid="lm_head",
        )
        drawing.axes.add_patch(bar)
    best = start + step * int(heights.argmax()) + width / 2
    token = {"ha": "center", "fontsize": 9.5, "family": "DejaVu Sans Mono"}
    drawing.label("lm_head", best, base + heights.max() + 0.10, "·there", **token)


def _draw_margins(drawing: _Drawing) -> None:
    """Draw training, which sends gradients back, on the left, and scaling on the right."""
    x = 0.24
    drawing.label("training", x, 6.96, "loss", ha="center", weight="bold")
    drawing.arrow("training", (_LEFT + _PADDING - 0.05, 6.96), (0.46, 6.96), size=8.0)
    drawing.line("training", (x, x), (6.84, 1.44), dashes=(4, 2))
    for y in (6.29, 5.77, 3.63, 1.44):
        drawing.arrow("training", (x, y), (_LEFT, y), size=8.0)
    backed = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 2}}
    turned = {"rotation": 90, "ha": "center", "va": "center"}
    drawing.label("training", x, 4.75, "training: gradients", **turned, **backed)

    x = 4.68
    for y in _BLOCK:
        drawing.line("scaling", (x - 0.06, x + 0.06), (y, y))
    drawing.line("scaling", (x, x), _BLOCK)
    drawing.label(
        "scaling",
        x + 0.17,
        sum(_BLOCK) / 2,
        "scaling: deeper, wider, more text",
        **turned,
    )


# ------------------------------------------------------------------------------------- the charts


def loss_curves(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    floor: float | None = None,
    measure: str | None = None,
    faint: Collection[str] = (),
    x_label: str = "optimizer step",
    y_label: str = "loss (nats per token)",
    ax: Axes | None = None,
) -> Axes:
    """Plot losses as they fall, and how far the last one is from the best that is possible.

    Args:
        curves: for each name, the steps (or tokens) and the losses at them.
        floor: the entropy of the language, in the unit of the losses; drawn as a line.
        measure: the curve whose last loss is compared with the floor; by default the last one.
        faint: curves to draw thin and pale, such as a noisy training loss.
        x_label: what the steps are, with their unit.
        y_label: what the losses are, with their unit.
        ax: axes to draw on; by default those of a new figure.

    Returns:
        The axes.

    Raises:
        ValueError: there are no curves, a curve is empty or has more steps than losses or fewer,
            or ``measure`` or ``faint`` names an unknown curve.
    """
    if not curves:
        raise ValueError(
            "curves is empty; give at least one name with its steps and losses"
        )
    points = {name: tuple(map(_array, pair)) for name, pair in curves.items()}
    for name, (steps, losses) in points.items():
        if steps.shape != losses.shape or steps.ndim != 1 or not steps.size:
            raise ValueError(
                f"curve {name!r} has steps of shape {steps.shape} and losses of shape "
                f"{losses.shape}; both must be lists of the same length, at least 1"
            )
    measure = list(points)[-1] if measure is None else measure
    for name in (measure, *faint):
        if name not in points:
            raise ValueError(
                f"there is no curve {name!r}; the curves are {', '.join(points)}"
            )
    with style():
        ax = _axes(ax)
        for name, (steps, losses) in points.items():
            quiet = {"linewidth": 1.0, "color": "#B4BBC4"} if name in faint else {}
            marker = {"marker": "o", "markersize": 3.5} if steps.size <= 40 else {}
            ax.plot(steps, losses, label=name, **quiet, **marker)
        if floor is not None:
            _draw_floor(ax, floor, *(values[-1] for values in points[measure]))
        ax.set(xlabel=x_label, ylabel=y_label)
        ax.legend()
    return ax


def _draw_floor(ax: Axes, floor: float, step: float, loss: float) -> None:
    """Draw the floor, and the gap above it at the end of a curve."""
    ax.axhline(floor, color=INK, linewidth=1.3, linestyle=(0, (5, 3)))
    bottom, top = ax.get_ylim()
    # Room for both numbers below the floor, where no curve stays for long.
    ax.set_ylim(min(bottom, floor - 0.14 * (top - floor)), top)
    backed = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    ax.annotate(
        f"floor {floor:.3f}, gap {loss - floor:.3f}",
        (step, floor),
        (0, -6),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=10.5,
        bbox=backed,
    )
    if loss - floor > 0.04 * (top - floor):
        arrow = {
            "arrowstyle": "<->",
            "color": INK,
            "shrinkA": 0,
            "shrinkB": 0,
            "mutation_scale": 7,
        }
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
    if values.ndim != 2 or not values.size:
        raise ValueError(
            f"matrix has shape {values.shape}; it must have rows and columns"
        )
    rows, columns = values.shape
    for name, labels, size in (("row", row_labels, rows), ("col", col_labels, columns)):
        if labels is not None and len(labels) != size:
            raise ValueError(
                f"{len(labels)} {name}_labels for a matrix of shape {values.shape}"
            )
    finite = values[np.isfinite(values)]
    if limits is None:
        largest = float(np.abs(finite).max(initial=0)) or 1.0
        limits = (-largest if signed else 0.0, largest)
    with style():
        if ax is None:
            width = min(WIDTH, 1.8 + 0.42 * columns)
            height = np.clip((width - 1.0) * rows / columns + 0.9, 1.4, 6.6)
            ax = _axes(None, (width, height))
        colours = (SIGNED if signed else WEIGHTS).with_extremes(bad="#ECEEF1")
        image = ax.imshow(
            values,
            cmap=colours,
            vmin=limits[0],
            vmax=limits[1],
            interpolation="nearest",
        )
        ax.grid(False)
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
        ax.set(xlabel=x_label, ylabel=y_label, title=title)
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        ax.yaxis.set_major_locator(MaxNLocator(8, integer=True))
        if row_labels is not None:
            ax.set_yticks(range(rows), map(_token, row_labels), parse_math=False)
        if col_labels is not None:
            shown = [_token(label) for label in col_labels]
            turn = 90 if max(map(len, shown)) > 2 else 0
            ax.set_xticks(range(columns), shown, parse_math=False, rotation=turn)
        if decimals is not None:
            _write_values(image, values, decimals)
        if colour_label is not None:
            bar = ax.figure.colorbar(
                image, ax=ax, label=colour_label, shrink=0.85, aspect=25
            )
            bar.outline.set_visible(False)
            bar.ax.tick_params(length=0)
    return ax


def _write_values(image: AxesImage, values: np.ndarray, decimals: int) -> None:
    """Write each value in its cell, light on dark cells and dark on light ones."""
    for (row, column), value in np.ndenumerate(values):
        if not np.isfinite(value):
            continue
        lightness = np.dot(image.cmap(image.norm(value))[:3], (0.299, 0.587, 0.114))
        image.axes.text(
            column,
            row,
            f"{value:.{decimals}f}".replace("-", "−"),
            color="white" if lightness < 0.55 else INK,
            ha="center",
            va="center",
            fontsize=9.5,
        )


def bars(
    labels: Sequence[str],
    values: ArrayLike,
    *,
    x_label: str,
    highlight: Collection[str] = (),
    decimals: int = 2,
    ax: Axes | None = None,
) -> Axes:
    """Plot one number for each label as horizontal bars, the first on top.

    Args:
        labels: what each bar is; a token's leading spaces show as dots.
        values: one number for each label.
        x_label: what the numbers are, with their unit.
        highlight: labels whose bars stand out.
        decimals: decimals of the number at the end of each bar.
        ax: axes to draw on; by default those of a new figure.

    Returns:
        The axes.

    Raises:
        ValueError: there are no labels, or more or fewer values than labels, or ``highlight``
            names an unknown label.
    """
    numbers = _array(values)
    if not len(labels) or numbers.shape != (len(labels),):
        raise ValueError(f"values has shape {numbers.shape}, for {len(labels)} labels")
    for label in highlight:
        if label not in labels:
            raise ValueError(f"there is no label {label!r} to highlight")
    with style():
        ax = _axes(ax, (WIDTH, 0.75 + 0.32 * len(labels)))
        colours = [VERMILLION if label in highlight else BLUE for label in labels]
        drawn = ax.barh(range(len(labels)), numbers, height=0.68, color=colours)
        ax.bar_label(drawn, fmt=f"{{:.{decimals}f}}", padding=4, fontsize=10)
        ax.set_yticks(range(len(labels)), map(_token, labels), parse_math=False)
        ax.tick_params(axis="y", length=0)
        ax.grid(False, axis="y")
        ax.spines["left"].set_visible(False)
        ax.invert_yaxis()
        ax.margins(x=0.1)
        ax.set_xlabel(x_label)
    return ax


def _array(values: ArrayLike) -> np.ndarray:
    """Convert numbers, or a tensor of any device and precision, to an array of floats."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double()
    return np.asarray(values, dtype=float)


def _axes(ax: Axes | None, size: tuple[float, float] | None = None) -> Axes:
    return plt.subplots(figsize=size)[1] if ax is None else ax


def _token(label: str) -> str:
    """Make a token's white space visible, and leave the words of other labels alone."""
    text = str(label)
    stripped = text.lstrip(" ")
    return "·" * (len(text) - len(stripped)) + stripped.replace("\n", "↵").replace(
        "\t", "⇥"
    )
