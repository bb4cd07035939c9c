"""Pictures of what a part does to its arrays, drawn from the arrays themselves.

    attention_steps(query, key, value)    one query: scores, weights, weighted mean
    heads_steps(4)                        the stream split into heads, attended, joined

A cell is a number: the stronger its blue the larger, the stronger its orange the further below
zero. Used by chapters 3 and 4.
"""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from decoder_only.base.checks import require
from decoder_only_book import plots

__all__ = ["attention_steps", "heads_steps"]

_CELL = 0.34
_HEADS = (plots.BLUE, plots.ORANGE, plots.GREEN, plots.PURPLE)


def attention_steps(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    *,
    labels: Sequence[str] | None = None,
) -> Figure:
    """One query asks every key; the softmax of the scores says how much of each value it takes.

    Args:
        query: (k), the components of one query.
        key, value: (t, k), a row for each position that it may see.
        labels: what to call the positions; $t = 0$ and so on by default.

    Returns:
        A figure, about as wide as the page.

    Raises:
        ValueError: the shapes do not fit each other.
    """
    query, key, value = (np.asarray(part, dtype=float) for part in (query, key, value))
    n_keys = len(key)
    fits = key.shape == (n_keys, *query.shape) and len(value) == n_keys
    shapes = query.shape, key.shape, value.shape
    require("shapes", shapes, lambda _: fits and value.ndim == 2, "(k), (t, k), (t, k)")
    scores = key @ query / math.sqrt(len(query))
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    labels = [f"$t = {t}$" for t in range(n_keys)] if labels is None else labels
    largest = max(np.abs(part).max() for part in (query, key, value))

    at_key, at_value = 1.0, 4.75
    at_score = at_key + _CELL * len(query) + 0.62
    size = at_value + _CELL * value.shape[1] + 0.1, 0.62 * n_keys + 1.75
    axes = plots.page(*size)
    top = size[1] - 0.95
    heads = (at_key, "key $k_t$"), (at_score, "score"), (at_value, "value $v_t$")
    for x, text in ((0.05, "position"), *heads, (at_score + 0.95, "weight $w_t$")):
        axes.text(x, size[1] - 0.82, text, color=plots.GREY, fontsize=11)
    _cells(axes, at_key, size[1] - 0.46, query, largest)
    axes.text(0.05, size[1] - 0.29, "query $q$", va="center_baseline", fontsize=12)
    for t, (score, weight) in enumerate(zip(scores, weights, strict=True)):
        y = top - 0.62 * (t + 1) + 0.14
        middle = y + _CELL / 2
        axes.text(0.05, middle, labels[t], va="center_baseline", fontsize=12)
        _cells(axes, at_key, y, key[t], largest)
        _cells(axes, at_value, y, value[t], largest)
        shown = f"{score:.2f}".replace("-", "−")
        axes.text(at_score, middle, shown, va="center_baseline", fontsize=12)
        bar = {"height": 0.22, "facecolor": plots.BLUE, "edgecolor": "none"}
        corner = at_score + 0.95, middle - 0.11
        axes.add_patch(Rectangle(corner, width=weight, **bar))
        end = at_score + 1.0 + weight
        axes.text(end, middle, f"{weight:.2f}", va="center_baseline", fontsize=12)
        plots.arrow(
            axes, (at_key + _CELL * len(query), middle), (at_score - 0.06, middle)
        )
    y = top - 0.62 * n_keys - 0.5
    axes.plot((at_value, size[0] - 0.1), (y + 0.5, y + 0.5), color=plots.MIST, lw=1.2)
    _cells(axes, at_value, y, weights @ value, largest)
    said = "weighted mean of the values: output $o$"
    axes.text(at_value - 0.15, y + 0.17, said, ha="right", va="center_baseline")
    return axes.figure


def heads_steps(n_heads: int) -> Figure:
    """A vector of the stream is split among the heads; each attends alone; they are joined.

    Args:
        n_heads: H, from 2 to 4.

    Returns:
        A figure, about as wide as the page.

    Raises:
        ValueError: more heads than can be told apart, or a single one.
    """
    require("n_heads", n_heads, lambda n: n in (2, 3, 4), "2, 3 or 4")
    per_head, gap = 3, 0.5
    wide = per_head * _CELL
    left = 1.35
    width, height = left + n_heads * (wide + gap), 5.1
    axes = plots.page(width, height)
    total = n_heads * per_head * _CELL
    start = left + (n_heads * (wide + gap) - gap - total) / 2
    rng = np.random.default_rng(0)
    rows = {
        "stream": (4.55, r"stream $z_{sd}$"),
        "split": (3.35, r"split: $q, k, v$"),
        "attend": (1.95, r"attend: $w_{hst}$"),
        "join": (0.95, r"join: $o_{s(hk)}$"),
        "out": (0.10, r"project: $z'_{sd}$"),
    }
    for y, text in rows.values():
        axes.text(0.02, y + _CELL / 2, text, va="center_baseline", fontsize=11)
    for name in ("stream", "out"):
        for i in range(n_heads * per_head):
            _cell(axes, start + i * _CELL, rows[name][0], plots.GREY, 0.25)
    middle = start + total / 2
    for h in range(n_heads):
        colour, x = _HEADS[h], left + h * (wide + gap)
        for i, shade in enumerate((0.3, 0.55, 0.8)):
            for k in range(per_head):
                y = rows["split"][0] + 0.13 * (1 - i)
                _cell(axes, x + k * _CELL + 0.05 * i, y, colour, shade)
        plots.arrow(axes, (middle, 4.5), (x + wide / 2, 3.93))
        plots.arrow(axes, (x + wide / 2, 3.16), (x + wide / 2, 2.84))
        triangle = np.tril(rng.uniform(0.1, 1.0, (4, 4)))
        for (s, t), strength in np.ndenumerate(triangle):
            corner = x + 0.17 + t * 0.18, 2.58 - s * 0.18
            look = {"facecolor": colour, "alpha": strength, "edgecolor": "none"}
            if t <= s:
                axes.add_patch(Rectangle(corner, 0.16, 0.16, **look))
        joined = start + h * wide
        plots.arrow(axes, (x + wide / 2, 1.98), (joined + wide / 2, 1.35))
        for k in range(per_head):
            _cell(axes, joined + k * _CELL, rows["join"][0], colour, 0.6)
        axes.text(x + wide / 2 + 0.08, 2.93, f"head {h}", fontsize=11)
    plots.arrow(axes, (middle, 0.92), (middle, 0.5))
    axes.text(middle + 0.1, 0.7, "$W^o$", va="center_baseline", fontsize=11)
    return axes.figure


def _cells(axes: Axes, x: float, y: float, values: np.ndarray, largest: float) -> None:
    """A vector, a cell for each component, with its value in it."""
    for i, value in enumerate(values):
        corner = x + i * _CELL, y
        shade = plots.SIGNED(0.5 + 0.35 * value / (largest or 1.0))
        look = {"facecolor": shade, "edgecolor": plots.MIST, "linewidth": 0.8}
        axes.add_patch(Rectangle(corner, _CELL, _CELL, **look))
        centre = corner[0] + _CELL / 2, y + _CELL / 2
        middle = {"ha": "center", "va": "center_baseline", "fontsize": 9.5}
        axes.text(*centre, f"{value:.1f}".replace("-", "−"), **middle)


def _cell(axes: Axes, x: float, y: float, colour: str, strength: float) -> None:
    plots.box(axes, (x, y), (_CELL, _CELL), colour, strength)
