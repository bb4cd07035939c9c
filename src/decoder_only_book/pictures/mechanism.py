"""Pictures of what a part does to its arrays, drawn from the arrays themselves.

    attention_steps(query, key, value)    one query: scores, weights, weighted mean
    heads_steps(4)                        the stream split into heads, attended, joined
    heads_beside(words, ...)              what some heads find in the same words, and joined
    shared_keys(4, (4, 2, 1))             which heads of queries share keys and values
    stream_steps(rows, stream, next)      what each part leaves in the stream, and what comes of it

A cell is a number: the stronger its blue the larger, the stronger its orange the further below
zero. Used by chapters 3, 4 and 8.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from decoder_only_book import plots

__all__ = [
    "attention_steps",
    "heads_beside",
    "heads_steps",
    "shared_keys",
    "stream_steps",
]

# Inches: a number's cell, one of a vector that is split, and where keys and values begin.
_CELL, _SLOT = 0.34, 0.26
_KEY_AT, _VALUE_AT, _BAR = 0.78, 4.08, 0.75
_PHONE, _WIDE = 4.8, 0.58  # a picture as wide as a phone, a cell with two decimals
_HEADS = (plots.ATTENTION, plots.ORANGE, plots.GREEN, plots.PURPLE)
_ROWS = {
    "stream": (4.55, r"stream $z_{sd}$"),
    "split": (3.35, r"split: $q, k, v$"),
    "attend": (1.95, r"attend: $w_{hst}$"),
    "join": (0.95, r"join: $o_{s(hk)}$"),
    "out": (0.10, r"project: $z'_{sd}$"),
}


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
    shapes, n_keys = (query.shape, key.shape, value.shape), len(key)
    if key.shape != (n_keys, *query.shape) or value.shape != (
        n_keys,
        *value.shape[1:2],
    ):
        raise ValueError(f"{shapes=} must be (k), (t, k), (t, k)")
    scores = key @ query / math.sqrt(len(query))
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    labels = [f"$t = {t}$" for t in range(n_keys)] if labels is None else labels
    largest = max(np.abs(part).max() for part in (query, key, value))

    score_at = _KEY_AT + _CELL * len(query) + 0.46
    width, height = _VALUE_AT + _CELL * value.shape[1] + 0.1, 0.62 * n_keys + 1.75
    axes = plots.page(width, height)
    _write_heads(axes, height - 0.82, score_at)
    _cells(axes, _KEY_AT, height - 0.46, query, largest)
    axes.text(0.05, height - 0.29, "query $q$", va="center_baseline")
    for t in range(n_keys):
        y = height - 0.95 - 0.62 * (t + 1) + 0.14
        middle = y + _CELL / 2
        axes.text(0.05, middle, labels[t], va="center_baseline")
        _cells(axes, _KEY_AT, y, key[t], largest)
        _cells(axes, _VALUE_AT, y, value[t], largest)
        _score_and_weight(axes, score_at, middle, scores[t], weights[t])
        end = _KEY_AT + _CELL * len(query), middle
        plots.arrow(axes, end, (score_at - 0.06, middle))
    y = height - 0.95 - 0.62 * n_keys - 0.5
    axes.plot((_VALUE_AT, width - 0.1), (y + 0.5, y + 0.5), color=plots.MIST, lw=1.2)
    _cells(axes, _VALUE_AT, y, weights @ value, largest)
    text = "weighted mean of the values: output $o$"
    axes.text(_VALUE_AT - 0.15, y + 0.17, text, ha="right", va="center_baseline")
    return axes.figure


def _write_heads(axes: Axes, y: float, score_at: float) -> None:
    """The names of the columns."""
    heads = {"position": 0.05, "key $k_t$": _KEY_AT, "score": score_at}
    heads |= {"value $v_t$": _VALUE_AT, "weight $w_t$": score_at + 0.62}
    for text, x in heads.items():
        axes.text(x, y, text, color=plots.GREY)


def _score_and_weight(
    axes: Axes, x: float, y: float, score: float, weight: float
) -> None:
    """The score of one key, and its weight as a bar."""
    text = {"va": "center_baseline"}
    axes.text(x, y, f"{score:.2f}".replace("-", "−"), **text)
    bar = {"height": 0.22, "facecolor": plots.ATTENTION, "edgecolor": "none"}
    axes.add_patch(Rectangle((x + 0.62, y - 0.11), width=_BAR * weight, **bar))
    axes.text(x + 0.68 + _BAR * weight, y, f"{weight:.2f}", **text)


def heads_steps(n_heads: int) -> Figure:
    """A vector of the stream is split among the heads; each attends alone; they are joined.

    Args:
        n_heads: H, from 2 to 4.

    Returns:
        A figure, about as wide as the page.

    Raises:
        ValueError: more heads than can be told apart, or a single one.
    """
    if n_heads not in (2, 3, 4):
        raise ValueError(f"{n_heads=} must be 2, 3 or 4")
    head_width, gap, left = 3 * _SLOT, 0.16, 1.13
    axes = plots.page(left + n_heads * (head_width + gap), 4.95)
    for y, text in _ROWS.values():
        axes.text(0.02, y + _SLOT / 2, text, va="center_baseline")
    start = left + (n_heads - 1) * gap / 2  # of the stream, and of the joined heads
    for name in ("stream", "out"):
        _vector(axes, start, _ROWS[name][0], 3 * n_heads, plots.GREY, 0.25)
    middle = start + n_heads * head_width / 2
    rng = np.random.default_rng(0)
    for h in range(n_heads):
        x, joined = left + h * (head_width + gap), start + h * head_width
        centre = x + head_width / 2
        for i, shade in enumerate((0.3, 0.55, 0.8)):
            y = _ROWS["split"][0] + 0.13 * (1 - i)
            _vector(axes, x + 0.05 * i, y, 3, _HEADS[h], shade)
        plots.arrow(axes, (middle, 4.5), (centre, 3.93))
        plots.arrow(axes, (centre, 3.16), (centre, 2.84))
        _triangle(axes, x + 0.04, 2.58, _HEADS[h], rng.uniform(0.1, 1.0, (4, 4)))
        plots.arrow(axes, (centre, 1.98), (joined + head_width / 2, 1.35))
        _vector(axes, joined, _ROWS["join"][0], 3, _HEADS[h], 0.6)
        axes.text(centre + 0.08, 2.93, f"head {h}", fontsize=9.2)
    plots.arrow(axes, (middle, 0.92), (middle, 0.5))
    axes.text(middle + 0.1, 0.7, "$W^o$", va="center_baseline")
    return axes.figure


def heads_beside(
    words: Sequence[str],
    questions: Sequence[str],
    weights: ArrayLike,
    outputs: ArrayLike,
    *,
    names: Sequence[str],
) -> Figure:
    """What each of some heads looks at in the same words, what it finds, and all of it joined.

    Args:
        words: one for each position.
        questions: what the query of each head asks.
        weights: (h, t), of the last position.
        outputs: (h, k), what each head returns.
        names: what the components of an output stand for.

    Returns:
        A figure, as wide as a phone.

    Raises:
        ValueError: the shapes do not fit each other, or there are not two or three heads.
    """
    weights, outputs = np.asarray(weights, float), np.asarray(outputs, float)
    n_heads, shapes = len(questions), (weights.shape, outputs.shape)
    wanted = (n_heads, len(words)), (n_heads, len(names))
    if shapes != wanted or n_heads not in (2, 3):
        raise ValueError(f"{shapes=} must be {wanted}, of two or three heads")
    axes = plots.page(_PHONE, 2.02 + 0.36 * len(words))
    text = {"va": "center_baseline", "fontsize": 10.5}
    heights = [1.76 + 0.36 * t for t in reversed(range(len(words)))]
    for y, word in zip(heights, words, strict=True):
        axes.text(0.02, y, word, style="italic", **text)
    step, size = (_PHONE - 0.78) / n_heads, _WIDE * len(names)
    start = 0.78 + (n_heads - 1) * (step - size) / 2  # of the joined outputs
    for h, question in enumerate(questions):
        x, joined = 0.78 + step * h, start + size * h
        axes.text(x, heights[0] + 0.36, f"head {h}: {question}", **text)
        for y, weight in zip(heights, weights[h], strict=True):
            width = (step - 0.7) * weight
            plots.box(axes, (x, y - 0.11), (width, 0.22), _HEADS[h], 0.6)
            axes.text(x + width + 0.06, y, f"{weight:.2f}", **text)
        _named(axes, (x, 0.98), outputs[h], names, _HEADS[h])
        _named(axes, (joined, 0.08), outputs[h], (), _HEADS[h])
        plots.arrow(axes, (x + size / 2, 0.94), (joined + size / 2, 0.46))
    axes.text(0.02, 1.15, "output", **text)
    axes.text(0.02, 0.25, "joined", **text)
    return axes.figure


def _named(
    axes: Axes,
    corner: tuple[float, float],
    values: np.ndarray,
    names: Sequence[str],
    colour: str,
) -> None:
    """Numbers in cells, with what they stand for above."""
    middle = {"va": "center_baseline", "ha": "center", "fontsize": 10.5}
    for i, value in enumerate(values):
        x = corner[0] + _WIDE * i
        plots.box(axes, (x, corner[1]), (_WIDE, 0.34), colour, 0.15 + 0.5 * value)
        axes.text(x + _WIDE / 2, corner[1] + 0.17, f"{value:.2f}", **middle)
        if names:
            axes.text(x + _WIDE / 2, corner[1] + 0.46, names[i], **middle)


def shared_keys(n_heads: int, groups: Sequence[int]) -> Figure:
    """Which heads of queries read which heads of keys and values, a panel for each number of them.

    Args:
        n_heads: H, heads of queries.
        groups: numbers of heads of keys and values, divisors of H.

    Returns:
        A figure, as wide as a phone.

    Raises:
        ValueError: heads that cannot be shared evenly.
    """
    if any(n_heads % n for n in groups):
        raise ValueError(f"{groups=} must be divisors of {n_heads=}")
    axes, step = plots.page(_PHONE, 1.9), (_PHONE - 0.9) / len(groups)
    cell = (step - 0.2) / n_heads
    for y, text in ((1.24, "queries"), (0.4, "keys and\nvalues")):
        axes.text(0.02, y, text, va="center", fontsize=10.5)
    for panel, n in enumerate(groups):
        left = 0.9 + step * panel
        middle = left + cell * n_heads / 2
        text = {"ha": "center", "fontsize": 10.5}
        axes.text(middle, 1.62, f"$G = {n}$", **text)
        for h in range(n_heads):
            group = h * n // n_heads
            at = left + cell * (n_heads * (group + 0.5) / n - 0.1)
            x = left + cell * h
            plots.box(axes, (x, 1.1), (cell * 0.8, 0.28), plots.BLUE, 0.45)
            ends = (x + cell * 0.4, at), (1.1, 0.56)
            axes.plot(*ends, color=plots.GREY, linewidth=1)
        for g in range(n):
            at = left + cell * (n_heads * (g + 0.5) / n - 0.1)
            corner = at - cell * 0.4, 0.28
            plots.box(axes, corner, (cell * 0.8, 0.28), plots.ORANGE, 0.5)
    return axes.figure


def stream_steps(
    rows: Sequence[str],
    stream: Mapping[str, ArrayLike],
    written: Sequence[str],
    *,
    expected: Mapping[str, ArrayLike] | None = None,
) -> Figure:
    """The residual stream after each part, a row for each input, and what the model writes next.

    Args:
        rows: what each row begins with.
        stream: for each part, by its name, the stream that it leaves: (row, d).
        written: what comes next in each row.
        expected: the same as `stream`, of a model that is right; cells that differ are framed.

    Returns:
        A figure, about as wide as the page.

    Raises:
        ValueError: not every part has a vector for each row.
    """
    stream = {part: np.asarray(found, dtype=float) for part, found in stream.items()}
    shapes = {part: found.shape for part, found in stream.items()}
    if any(len(shape) != 2 or shape[0] != len(rows) for shape in shapes.values()):
        raise ValueError(f"{shapes=} must be ({len(rows)}, d)")
    expected = stream if expected is None else expected
    step = _CELL * max(shape[1] for shape in shapes.values()) + 0.36
    left, top = 0.62, 0.5 * len(rows) + 0.1
    end = left + step * len(stream)
    axes = plots.page(end + 0.44, top + 0.42)
    heads = {"input": 0.05, "next": end}
    heads |= {part: left + step * i for i, part in enumerate(stream)}
    for text, x in heads.items():
        axes.text(x, top + 0.16, text, color=plots.GREY)
    largest = max(np.abs(found).max() for found in stream.values())
    for row, (begun, comes) in enumerate(zip(rows, written, strict=True)):
        y = top - 0.5 * (row + 1) + 0.1
        level = {"y": y + _CELL / 2, "va": "center_baseline"}
        axes.text(0.05, s=begun, **level)
        axes.text(end + 0.08, s=comes, weight="bold", **level)
        for part, found in stream.items():
            x = heads[part]
            plots.arrow(axes, (x - 0.3, level["y"]), (x - 0.06, level["y"]))
            _cells(axes, x, y, found[row], largest)
            right = np.asarray(expected[part])[row]
            for i in np.flatnonzero(~np.isclose(found[row], right)):
                look = {"facecolor": "none", "edgecolor": plots.VERMILLION, "lw": 2.2}
                axes.add_patch(Rectangle((x + _CELL * i, y), _CELL, _CELL, **look))
    return axes.figure


def _vector(
    axes: Axes, x: float, y: float, size: int, colour: str, strength: float
) -> None:
    """So many cells side by side, without numbers."""
    for i in range(size):
        plots.box(axes, (x + i * _SLOT, y), (_SLOT, _SLOT), colour, strength)


def _triangle(axes: Axes, x: float, y: float, colour: str, weights: np.ndarray) -> None:
    """Causal attention weights as shaded cells."""
    for (s, t), weight in np.ndenumerate(weights):
        look = {"facecolor": colour, "alpha": weight, "edgecolor": "none"}
        if t <= s:
            corner = x + t * 0.18, y - s * 0.18
            axes.add_patch(Rectangle(corner, 0.16, 0.16, **look))


def _cells(axes: Axes, x: float, y: float, values: np.ndarray, largest: float) -> None:
    """A vector, a cell for each component, with its value in it."""
    for i, value in enumerate(values):
        corner = x + i * _CELL, y
        shade = plots.SIGNED(0.5 + 0.35 * value / (largest or 1.0))
        look = {"facecolor": shade, "edgecolor": plots.MIST, "linewidth": 0.8}
        axes.add_patch(Rectangle(corner, _CELL, _CELL, **look))
        centre = corner[0] + _CELL / 2, y + _CELL / 2
        middle = {"ha": "center", "va": "center_baseline", "fontsize": 9.6}
        axes.text(*centre, f"{value:.1f}".replace("-", "−"), **middle)
