"""Pictures of what an MLP does at one position.

    unit(n, key, value, offset=-1)        one hidden unit: what it reads, what it writes
    unit(n, key, value, gate=gate)        the same with a gate
    routed(scores, weights, outputs)      experts: two chosen, weighed and summed

Used by chapter 6.
"""

import math

import matplotlib.pyplot as plt
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from decoder_only_book import plots

__all__ = ["routed", "unit"]

_CELL = 0.56
_TINT = "#CDEBDF"  # of the colour of the MLP
# Inches: where the columns of the picture of experts begin.
_ROUTE = (0.15, 0.95, 1.85, 3.6)
_WAY = {"color": plots.GREY, "zorder": 3}


def unit(
    n: Float[Tensor, "d"],
    key: Float[Tensor, "_"],
    value: Float[Tensor, "_"],
    *,
    gate: Float[Tensor, "_"] | None = None,
    offset: float = 0.0,
) -> Figure:
    """Draw one unit of an MLP: its key met by the stream, an activation, its value written.

    Args:
        n: the MLP's input, the norm's output, at one position.
        key: the unit's row of the matrix `up`.
        value: its column of the matrix `down`.
        gate: its row of the matrix `gate`, for a gated unit, which SiLU opens; without one, the
            unit is opened by its own key, through ReLU.
        offset: what a plain unit adds to the product of n and its key.

    Raises:
        ValueError: the vectors differ in length.
    """
    others = {"key": key, "value": value, "gate": n if gate is None else gate}
    for name, vector in others.items():
        if len(vector) != len(n):
            raise ValueError(f"{name}={len(vector)} numbers must be {len(n)}, as of n")
    with plots.style():
        figure, axes = plt.subplots(figsize=(plots.WIDTH, 2.3))
        n_at = _column(axes, 0.0, n, "$n$", lit=False)
        if gate is None:
            activation, end = _relu(axes, n, key, offset)
        else:
            activation, end = _silu(axes, n, key, gate)
        plots.arrow(axes, (n_at[1], 0.0), (1.42 if gate is None else 1.02, 0.0), **_WAY)
        value_at = _column(axes, 7.15, value, "value")
        plots.arrow(axes, end, (value_at[0], 0.0), **_WAY)
        out_at = _column(axes, 8.75, activation * value, "added")
        plots.arrow(axes, (value_at[1], 0.0), (out_at[0], 0.0), **_WAY)
        height = len(n) * _CELL / 2
        axes.set(xlim=(-0.1, 9.65), ylim=(-height - 0.15, height + 0.55))
        axes.set_axis_off()
    return figure


def _relu(
    axes: Axes, n: Tensor, key: Tensor, offset: float
) -> tuple[float, tuple[float, float]]:
    """The activation of a plain unit, and the point where its drawing ends."""
    product = float(n @ key)
    signal = product + offset
    activation = max(signal, 0.0)
    key_at = _column(axes, 1.5, key, "key")
    added = f"{product:g} {offset:+g} = " if offset else ""
    met = _chip(axes, 3.55, 0.0, 0.9 if offset else 0.62, f"$u = {added}{signal:g}$")
    text = rf"$\mathrm{{relu}}(u) = {activation:g}$"
    opened = _chip(axes, 5.62, 0.0, 1.0, text)
    plots.arrow(axes, (key_at[1], 0.0), met[0], **_WAY)
    plots.arrow(axes, met[1], opened[0], **_WAY)
    return activation, opened[1]


def _silu(
    axes: Axes, n: Tensor, key: Tensor, gate: Tensor
) -> tuple[float, tuple[float, float]]:
    """The activation of a gated unit, and the point where its drawing ends."""
    signal, score = float(n @ key), float(n @ gate)
    activation = score / (1 + math.exp(-score)) * signal
    _column(axes, 1.1, gate, "gate")
    key_at = _column(axes, 2.0, key, "key")
    text = rf"$\mathrm{{silu}}(g),\; g = {score:g}$"
    first = _chip(axes, 4.02, 0.62, 1.02, text)
    second = _chip(axes, 4.02, -0.62, 0.62, f"$u = {signal:g}$")
    opened = _chip(axes, 6.15, 0.0, 0.68, f"product\n{activation:.3g}")
    for chip in (first, second):
        plots.arrow(axes, (key_at[1], chip[2]), chip[0], **_WAY)
        plots.arrow(axes, chip[1], opened[0], **_WAY)
    return activation, opened[1]


def routed(
    scores: Float[Tensor, "_"],
    weights: Float[Tensor, "_"],
    outputs: Float[Tensor, "_ d"],
) -> Figure:
    """Draw experts one above the other: a router's scores, the chosen ones, and their sum.

    Args:
        scores: of each expert.
        weights: of each expert, zero for one that is not chosen.
        outputs: what each expert returns; read of the chosen ones alone.
    """
    height = 0.62 * len(scores) + 1.45
    axes = plots.page(plots.WIDTH, height)
    for x, name in zip(_ROUTE, ("expert", "score", "weight", "returns"), strict=True):
        axes.text(x, height - 0.35, name, color=plots.GREY)
    largest = float(outputs.abs().max())
    for e, (score, weight) in enumerate(zip(scores, weights, strict=True)):
        y = height - 0.95 - 0.62 * e
        chosen = bool(weight > 0)
        colour = plots.INK if chosen else plots.GREY
        number = f"{float(score):.2f}".replace("-", "−")
        for x, text in zip(_ROUTE, (str(e), number), strict=False):
            axes.text(x, y, text, color=colour, va="center_baseline")
        if not chosen:
            axes.text(_ROUTE[2], y, "not run", color=colour, va="center_baseline")
            continue
        look = {"facecolor": plots.MLP, "edgecolor": "none"}
        axes.add_patch(Rectangle((_ROUTE[2], y - 0.11), weight, 0.22, **look))
        text = f"{float(weight):.2f}"
        axes.text(_ROUTE[2] + weight + 0.08, y, text, va="center_baseline")
        _numbers(axes, y, outputs[e], largest)
    y = height - 0.95 - 0.62 * len(scores)
    text = "weighted sum, added to the stream"
    axes.text(_ROUTE[3] - 0.2, y, text, ha="right", va="center_baseline")
    _numbers(axes, y, weights @ outputs, largest)
    return axes.figure


def _numbers(axes: Axes, y: float, vector: Tensor, largest: float) -> None:
    """A vector as a row of cells, the stronger tinted the larger."""
    for i, number in enumerate(vector.tolist()):
        corner = _ROUTE[3] + 0.5 * i, y - 0.19
        plots.box(axes, corner, (0.5, 0.38), plots.MLP, 0.45 * abs(number) / largest)
        middle = corner[0] + 0.25, y
        text = f"{number:g}".replace("-", "−")
        axes.text(*middle, text, ha="center", va="center_baseline")


def _column(
    axes: Axes, left: float, vector: Tensor, name: str, *, lit: bool = True
) -> tuple[float, float]:
    """A vector as cells, the first on top; returns its two edges."""
    top = len(vector) * _CELL / 2
    width = 1.36 * _CELL
    for row, number in enumerate(vector.tolist()):
        corner = left, top - (row + 1) * _CELL
        look = {"facecolor": _TINT if lit else "#F1F3F5", "edgecolor": "white"}
        axes.add_patch(Rectangle(corner, width, _CELL, linewidth=1.5, **look))
        middle = corner[0] + width / 2, corner[1] + _CELL / 2
        text = f"{number:.3g}".replace("-", "−")
        axes.text(*middle, text, ha="center", va="center", fontsize=9.2)
    axes.text(left + width / 2, top + 0.1, name, ha="center", va="bottom")
    return left - 0.08, left + width + 0.08


def _chip(
    axes: Axes, x: float, y: float, half: float, text: str
) -> tuple[tuple[float, float], tuple[float, float], float]:
    """A box around words, so wide; returns where arrows come in and go out, and its height."""
    look = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": plots.MIST}
    axes.text(x, y, text, ha="center", va="center", bbox=look, zorder=4)
    return (x - half, y), (x + half, y), y
