"""The one diagram of the architecture: whole, and as the strip that begins each chapter.

    architecture()                   the whole diagram, in colour
    architecture(lit="attention")    the strip, with one part in colour and the rest in grey
    architecture(lit="lm_head", again=True)    with the way back of a token that was drawn

Used by every chapter.
"""

from collections.abc import Collection
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, Rectangle

from decoder_only_book import plots
from decoder_only_book.plots import GREY, INK, MIST

__all__ = ["PARTS", "architecture"]

PARTS: dict[str, str] = {
    "tokenization": plots.ORANGE,
    "embeddings": plots.EMBEDDING,
    "attention": plots.ATTENTION,
    "multihead": plots.SKY,
    "normalization": plots.NORM,
    "mlp": plots.MLP,
    "lm_head": plots.HEAD,
    "model": plots.STREAM,
    "training": "#882255",
    "scaling": "#7A4B12",
}
"""The parts of the architecture, each with its colour."""

# The chapter on the whole model lights what it is assembled from.
_ASSEMBLED = ("embeddings", "attention", "multihead", "normalization", "mlp", "lm_head")

# Inches, from the bottom left. All floors share their left and right edges, and the residual
# stream is one straight line.
_SIZE, _STRIP = (4.9, 7.5), (4.9, 2.12)
_LEFT, _RIGHT, _STREAM = 0.60, 4.36, 1.10
_BRANCH_LEFT, _BRANCH_RIGHT = 1.70, 4.22
_BLOCK = (2.00, 5.36)
_PADDING = 0.14


def architecture(
    lit: str | Collection[str] | None = None, *, again: bool = False
) -> Figure:
    """Draw the decoder-only transformer from text to next-token probabilities.

    Arrays are labelled with the book's letters: batch b, position s, residual stream d, MLP f,
    vocabulary v.

    Args:
        lit: None for the whole diagram, from bottom to top. The part, or parts, of `PARTS` to
            draw in colour, with the rest in grey, for the strip, from left to right. "model"
            lights all that the model is assembled from.
        again: of the strip, draw how a token comes back into the text, lit as the head is, instead
            of how gradients come back.

    Returns:
        A figure 4.9 inches wide.

    Raises:
        ValueError: a name is not in `PARTS`.
    """
    names = set(PARTS if lit is None else [lit] if isinstance(lit, str) else lit)
    if unknown := names - set(PARTS):
        parts = ", ".join(PARTS)
        raise ValueError(f"lit has no part {min(unknown)!r}; the parts are {parts}")
    if "model" in names:
        names |= set(_ASSEMBLED)
    with plots.style():
        drawing = _Drawing(names, _SIZE if lit is None else _STRIP)
        if lit is None:
            _draw_input(drawing)
            _draw_block(drawing)
            _draw_output(drawing)
            _draw_margins(drawing)
        else:
            _draw_strip(drawing)
            (_draw_way_back if again else _draw_gradients)(drawing)
    return drawing.axes.figure


class _Drawing:
    """Primitives that know whether their part is lit. Each artist's gid names its part."""

    def __init__(self, lit: set[str], size: tuple[float, float]) -> None:
        self.lit = lit
        self.axes = plots.page(*size)

    def colour(self, part: str) -> str:
        return PARTS[part] if part in self.lit else MIST

    def tint(self, part: str, strength: float) -> tuple[float, ...]:
        """Mix the part's colour, or a quiet grey, into white."""
        colour = PARTS[part] if part in self.lit else MIST
        return tuple(1 - strength * (1 - np.array(to_rgb(colour))))

    def box(self, part: str, *corners: float, strength: float = 0.15, **look: Any):
        """Left, bottom, right, top."""
        left, bottom, right, top = corners
        radius = look.pop("radius", 0.07)
        look = {"linewidth": 1.3, "zorder": 2.0, "gid": part} | look
        look["facecolor"] = self.tint(part, strength * (1 if part in self.lit else 0.6))
        look |= {"edgecolor": self.colour(part), "boxstyle": f"round,pad={radius}"}
        size = right - left - 2 * radius, top - bottom - 2 * radius
        self.axes.add_patch(
            FancyBboxPatch((left + radius, bottom + radius), *size, **look)
        )

    def label(self, part: str, x: float, y: float, text: str, **look: Any) -> None:
        # Text is centred on its line, not on its descenders, so that a row of labels is level.
        look = {"fontsize": 10, "va": "center_baseline", "zorder": 6} | look
        colour = INK if part in self.lit else GREY
        self.axes.text(x, y, text, color=colour, gid=part, **look)

    def chip(
        self, part: str, left: float, right: float, y: float, text: str, **look: Any
    ):
        """A small borderless box around one word."""
        plain = {"strength": 0.42, "linewidth": 0.0, "radius": 0.04, "zorder": 5.0}
        self.box(part, left, y - 0.135, right, y + 0.135, **plain)
        self.label(part, (left + right) / 2, y, text, fontsize=9.2, ha="center", **look)

    def line(
        self, part: str, xs: tuple[float, ...], ys: tuple[float, ...], **look: Any
    ):
        look = {"linewidth": 1.3, "zorder": 3} | look
        self.axes.plot(xs, ys, color=self.colour(part), gid=part, **look)

    def arrow(self, part: str, start: tuple, end: tuple, size: float = 9.0) -> None:
        look = {"mutation_scale": size, "linewidth": 1.3, "zorder": 4, "gid": part}
        plots.arrow(self.axes, start, end, color=self.colour(part), **look)

    def matrix(self, part: str, left: float, bottom: float, values: np.ndarray) -> None:
        """A small matrix as cells, those that are masked (nan) as outlines."""
        for (row, column), value in np.ndenumerate(values):
            look = {"facecolor": "none", "edgecolor": self.tint(part, 0.4)}
            if not np.isnan(value):
                look = {"facecolor": self.tint(part, value), "edgecolor": "none"}
            corner = left + column * 0.1, bottom + (len(values) - 1 - row) * 0.1
            look |= {"linewidth": 0.5, "zorder": 6, "gid": part}
            self.axes.add_patch(Rectangle(corner, 0.084, 0.084, **look))


def _draw_input(drawing: _Drawing) -> None:
    """The way from text to the start of the residual stream."""
    part, edge, x = "tokenization", _RIGHT - _PADDING, _LEFT + _PADDING
    drawing.arrow(part, (_STREAM, 0.14), (_STREAM, 0.42))
    drawing.label(part, _STREAM + 0.12, 0.26, "“Once upon a time”", style="italic")
    drawing.box(part, _LEFT, 0.42, _RIGHT, 0.90)
    drawing.label(part, x, 0.66, "Tokenization", weight="bold")
    right = edge
    for token in ("·time", "·a", "·upon", "Once"):
        left = right - 0.10 - 0.082 * len(token)
        drawing.chip(part, left, right, 0.66, token, family="DejaVu Sans Mono")
        right = left - 0.05
    drawing.arrow(part, (_STREAM, 0.90), (_STREAM, 1.20))
    drawing.label(part, _STREAM + 0.12, 1.04, r"token ids $(b,\, s)$")

    drawing.box("embeddings", _LEFT, 1.20, _RIGHT, 1.68)
    drawing.label("embeddings", x, 1.44, "Embeddings", weight="bold")
    drawing.chip("embeddings", edge - 1.62, edge - 0.96, 1.44, "token")
    drawing.label("embeddings", edge - 0.84, 1.44, "+", ha="center")
    drawing.chip("embeddings", edge - 0.72, edge, 1.44, "position")


def _draw_block(drawing: _Drawing) -> None:
    """The stack of blocks, with the residual stream straight through it."""
    bottom, top = _BLOCK
    for by in (0.10, 0.05, 0.0):
        corners = (_LEFT + by, bottom + by, _RIGHT + by, top + by)
        drawing.box("model", *corners, strength=0.035, linewidth=1.1, zorder=1.5 - by)
    stream = {"linewidth": 5, "solid_capstyle": "butt"}
    drawing.line("model", (_STREAM, _STREAM), (1.68, 5.62), **stream)
    drawing.label("model", _STREAM + 0.14, 1.83, r"$(b,\, s,\, d)$")
    turned = {"ha": "center", "va": "center", "rotation": 90}
    drawing.label("model", 0.87, (bottom + top) / 2, "residual stream", **turned)
    title = {"ha": "right", "weight": "bold"}
    drawing.label("model", _BRANCH_RIGHT, 5.19, r"Block $\times\, L$", **title)

    _draw_sublayer(drawing, norm=2.14, bottom=2.58, output=3.84)
    _draw_attention(drawing, bottom=2.58, top=4.02)
    _draw_sublayer(drawing, norm=4.18, bottom=4.62, output=4.82)
    drawing.box("mlp", _BRANCH_LEFT, 4.62, _BRANCH_RIGHT, 5.02)
    drawing.label("mlp", _BRANCH_LEFT + _PADDING, 4.82, "MLP", weight="bold")
    drawing.label("mlp", _BRANCH_RIGHT - _PADDING, 4.82, r"$d \to f \to d$", ha="right")


def _draw_sublayer(
    drawing: _Drawing, norm: float, bottom: float, output: float
) -> None:
    """The branch that reads the stream through a norm and adds its output back to it."""
    centre, y, part = (_BRANCH_LEFT + _BRANCH_RIGHT) / 2, norm + 0.14, "normalization"
    drawing.arrow("model", (_STREAM, y), (_BRANCH_LEFT, y))
    drawing.box(part, _BRANCH_LEFT, norm, _BRANCH_RIGHT, norm + 0.28)
    drawing.label(part, _BRANCH_LEFT + _PADDING, y, "Norm", weight="bold")
    drawing.arrow("model", (centre, norm + 0.28), (centre, bottom))
    radius, arm = 0.1, 0.055
    drawing.arrow("model", (_BRANCH_LEFT, output), (_STREAM + radius, output))
    look = {"facecolor": "white", "edgecolor": drawing.colour("model"), "gid": "model"}
    circle = Circle((_STREAM, output), radius, linewidth=1.6, zorder=5, **look)
    drawing.axes.add_patch(circle)
    cross = {"linewidth": 1.6, "zorder": 6}
    drawing.line("model", (_STREAM - arm, _STREAM + arm), (output, output), **cross)
    drawing.line("model", (_STREAM, _STREAM), (output - arm, output + arm), **cross)


def _draw_attention(drawing: _Drawing, bottom: float, top: float) -> None:
    """Multi-head attention, with one head's scores and causally masked weights inside."""
    left, right = _BRANCH_LEFT + _PADDING, _BRANCH_RIGHT - _PADDING
    drawing.box("multihead", _BRANCH_LEFT, bottom, _BRANCH_RIGHT, top)
    drawing.label("multihead", left, top - 0.18, "Multi-head attention", weight="bold")
    drawing.label("multihead", right, top - 0.18, r"$\times\, H$", ha="right")
    width, gap = (right - left - 0.16) / 3, 0.08
    for index, word in enumerate(("query", "key", "value")):
        start = left + index * (width + gap)
        drawing.chip("multihead", start, start + width, bottom + 0.235, word)

    part, card = "attention", bottom + 0.46
    for by in (0.09, 0.045, 0.0):
        corners = (left + by, card + by, right - 0.09 + by, card + 0.52 + by)
        look = {"linewidth": 1.1, "radius": 0.04, "zorder": 4 - by}
        drawing.box(part, *corners, strength=0.13, **look)
    drawing.label(part, left + 0.10, card + 0.26, "Attention", weight="bold")
    ranks = [[0, 3, 1, 4], [2, 0, 4, 1], [3, 1, 2, 5], [1, 4, 0, 2]]
    scores = 0.9 - 0.15 * np.array(ranks)
    weights = np.where(np.tri(4, dtype=bool), scores, np.nan)
    drawing.matrix(part, left + 1.14, card + 0.068, scores)
    drawing.arrow(
        part, (left + 1.55, card + 0.26), (left + 1.73, card + 0.26), size=7.0
    )
    drawing.matrix(part, left + 1.75, card + 0.068, weights)


def _draw_output(drawing: _Drawing) -> None:
    """The way from the residual stream to next-token probabilities."""
    left, right, part = _LEFT + _PADDING, _RIGHT - _PADDING, "lm_head"
    drawing.box("normalization", _LEFT, 5.62, _RIGHT, 5.92)
    drawing.label("normalization", left, 5.77, "Final norm", weight="bold")
    drawing.arrow("model", (_STREAM, 5.92), (_STREAM, 6.08))
    drawing.box(part, _LEFT, 6.08, _RIGHT, 6.50)
    drawing.label(part, left, 6.29, "LM head", weight="bold")
    drawing.label(part, right, 6.29, r"$d \to v$", ha="right")
    drawing.arrow(part, (_STREAM, 6.50), (_STREAM, 6.82))
    drawing.label(part, _STREAM + 0.12, 6.64, r"logits $(b,\, s,\, v)$")
    drawing.label(part, left, 6.96, "next-token probabilities")
    step, width, base = 0.165, 0.115, 6.82
    heights = np.array([0.05, 0.09, 0.42, 0.13, 0.06, 0.22, 0.04, 0.10, 0.03])
    start = right - step * (len(heights) - 1) - width
    look = {"facecolor": drawing.colour(part), "edgecolor": "none", "gid": part}
    for index, height in enumerate(heights):
        corner = start + index * step, base
        drawing.axes.add_patch(Rectangle(corner, width, height, zorder=3, **look))
    best = start + step * int(heights.argmax()) + width / 2
    token = {"ha": "center", "fontsize": 9.2, "family": "DejaVu Sans Mono"}
    drawing.label(part, best, base + heights.max() + 0.10, "·there", **token)


def _draw_margins(drawing: _Drawing) -> None:
    """Training, which sends gradients back, on the left, and scaling on the right."""
    x = 0.24
    drawing.label("training", x, 6.96, "loss", ha="center", weight="bold")
    drawing.arrow("training", (_LEFT + _PADDING - 0.05, 6.96), (0.46, 6.96), size=8.0)
    drawing.line("training", (x, x), (6.84, 1.44), dashes=(4, 2))
    for y in (6.29, 5.77, 3.63, 1.44):
        drawing.arrow("training", (x, y), (_LEFT, y), size=8.0)
    backed = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 2}}
    turned = {"rotation": 90, "ha": "center", "va": "center"}
    drawing.label("training", x, 4.75, "training: gradients", **turned, **backed)

    x, text = 4.58, "scaling: deeper, wider, more text"
    for y in _BLOCK:
        drawing.line("scaling", (x - 0.06, x + 0.06), (y, y))
    drawing.line("scaling", (x, x), _BLOCK)
    drawing.label("scaling", x + 0.17, sum(_BLOCK) / 2, text, **turned)


# The strip: the stream is a line from left to right; what comes before it stands at its left end
# and what follows at its right.
_LINE, _UP = 0.60, 1.36


def _draw_strip(drawing: _Drawing) -> None:
    """The same parts in the same order, in a strip of two floors."""
    left, right = (0.03, 0.99), (4.02, 4.87)
    _box(drawing, "tokenization", *left, _UP, "Tokenization")
    drawing.arrow("tokenization", (0.51, _UP - 0.17), (0.51, _LINE + 0.17))
    drawing.line("model", (left[1], 3.84), (_LINE, _LINE), linewidth=3.5)
    drawing.arrow("model", (3.8, _LINE), (right[0] + 0.01, _LINE), size=11)
    _box(drawing, "embeddings", *left, _LINE, "Embeddings")
    _box(drawing, "normalization", *right, _LINE, "Norm")
    drawing.arrow("lm_head", (4.44, _LINE + 0.17), (4.44, _UP - 0.17))
    _box(drawing, "lm_head", *right, _UP, "LM head")

    drawing.box(
        "model", 1.18, 0.34, 3.84, 1.76, strength=0.035, linewidth=1.1, zorder=1
    )
    drawing.label(
        "model", 1.26, 1.62, r"Block $\times\, L$", weight="bold", fontsize=9.2
    )
    for norm, width, part, text in (
        (1.24, 0.75, "attention", "Attention"),
        (2.72, 0.44, "mlp", "MLP"),
    ):
        start, end = norm + 0.60, norm + 0.60 + width
        read, written = norm + 0.25, (start + end) / 2
        drawing.arrow("model", (read, _LINE), (read, 1.03), size=8)
        _box(drawing, "normalization", norm, norm + 0.50, 1.2, "Norm")
        drawing.arrow("model", (norm + 0.50, 1.2), (start + 0.01, 1.2), size=7)
        if part == "attention":  # as many heads, drawn as a stack
            for by in (0.12, 0.06):
                corners = (start + by, 1.03 + by, end + by, 1.37 + by)
                drawing.box(
                    "multihead", *corners, strength=0.5, radius=0.05, zorder=1.9 - by
                )
            drawing.label("multihead", end + 0.10, 1.62, r"$\times\, H$", ha="right")
        _box(drawing, part, start, end, 1.2, text)
        drawing.arrow("model", (written, 1.03), (written, _LINE + 0.08), size=8)
        look = {"facecolor": "white", "edgecolor": drawing.colour("model")}
        look |= {"gid": "model", "linewidth": 1.3, "zorder": 5}
        drawing.axes.add_patch(Circle((written, _LINE), 0.08, **look))
        arm, cross = 0.045, {"linewidth": 1.3, "zorder": 6}
        drawing.line("model", (written - arm, written + arm), (_LINE, _LINE), **cross)
        drawing.line("model", (written, written), (_LINE - arm, _LINE + arm), **cross)

    for x in (1.18, 3.84):
        drawing.line("scaling", (x, x), (0.19, 0.27))
    drawing.line("scaling", (1.18, 3.84), (0.23, 0.23))
    text = "scaling: deeper, wider, more text"
    drawing.label("scaling", 2.5, 0.08, text, ha="center", fontsize=9.2)


def _draw_gradients(drawing: _Drawing) -> None:
    """From the loss at the right end of the strip back to all parts."""
    top, left = 1.96, 0.99
    drawing.label(
        "training", 4.44, top, "loss", ha="center", weight="bold", fontsize=9.2
    )
    drawing.arrow("training", (4.44, _UP + 0.17), (4.44, top - 0.09), size=7)
    drawing.line("training", (4.22, 1.09), (top, top), dashes=(4, 2))
    drawing.line("training", (1.09, 1.09), (top, _LINE + 0.1), dashes=(4, 2))
    for start, end in (
        ((1.10, _LINE + 0.1), (left, _LINE + 0.1)),
        ((1.5, top), (1.5, 1.76)),
        ((3.55, top), (3.55, 1.76)),
    ):
        drawing.arrow("training", start, end, size=7)
    backed = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 2}}
    middle = {"ha": "center", "fontsize": 9.2}
    drawing.label("training", 2.5, top, "training: gradients", **middle, **backed)


def _draw_way_back(drawing: _Drawing) -> None:
    """From the head around the block to the text."""
    top, part = 1.96, "lm_head"
    drawing.line(part, (4.44, 4.44, 0.51), (_UP + 0.17, top, top))
    drawing.arrow(part, (0.51, top), (0.51, _UP + 0.18), size=9)
    backed = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 2}}
    said = "draw a token, append it, go on"
    drawing.label(part, 2.5, top, said, ha="center", fontsize=9.2, **backed)


def _box(
    drawing: _Drawing, part: str, left: float, right: float, y: float, text: str
) -> None:
    """A box of the strip around its name."""
    drawing.box(part, left, y - 0.17, right, y + 0.17, radius=0.05)
    look = {"ha": "center", "weight": "bold", "fontsize": 9.2}
    drawing.label(part, (left + right) / 2, y, text, **look)
