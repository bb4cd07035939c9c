"""Pictures of what flows through a model, drawn from its numbers.

    loss_steps(words, logits, came)     logits, their exponentials, probabilities, one surprise
    shapes(config, 8)                   the size of every array on the way from ids to logits
    caches(7, window=4)                 a cache that grows, and a ring that is overwritten

Used by chapters 7, 8 and 16.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from decoder_only.model.config import GPTConfig
from decoder_only_book import plots

__all__ = ["caches", "loss_steps", "shapes"]

# Inches: a slot of a cache, and the bar of a certain word.
_CELL, _BAR = 0.31, 0.85


def loss_steps(words: Sequence[str], logits: ArrayLike, came: int) -> Figure:
    """From the logits of one position to its loss, a row for each word.

    Args:
        words: what the logits stand for.
        logits: (v), one for each word.
        came: the index of the word that came next.

    Returns:
        A figure, about as wide as the page.

    Raises:
        ValueError: another number of words than of logits, or no such word.
    """
    logits = np.asarray(logits, dtype=float)
    if logits.shape != (len(words),):
        raise ValueError(
            f"words={len(words)} must be as many as logits, {logits.shape}"
        )
    if came not in range(len(words)):
        raise ValueError(f"{came=} must be the index of a word")
    nats = np.logaddexp.reduce(logits) - logits
    with np.errstate(over="ignore"):
        powers, p = np.exp(logits), np.exp(-nats)
    axes, top = plots.page(plots.WIDTH, 0.5 * len(words) + 1.35), 0.5 * len(words) + 0.5
    places = {"word": 0.05, "logit $y$": 0.72, "$e^y$": 1.45, "softmax $p$": 2.05}
    for title, x in (places | {"surprise $-\\log p$": 3.72}).items():
        axes.text(x, top + 0.35, title, color=plots.GREY)
    for row, word in enumerate(words):
        height = top - 0.5 * (row + 1) + 0.25
        colour = plots.VERMILLION if row == came else plots.BLUE
        logit = f"{logits[row]:.2f}".replace("-", "−")
        cells = [word, logit, _short(powers[row], 1), _short(p[row], 3)]
        for text, x in zip(cells, places.values(), strict=True):
            weight = "bold" if row == came else "normal"
            axes.text(x, height, text, va="center_baseline", fontweight=weight)
        corner = places["softmax $p$"] + 0.5, height - 0.11
        axes.add_patch(Rectangle(corner, _BAR * p[row], 0.22, color=colour))
        if row == came:
            start = corner[0] + _BAR * p[row] + 0.05
            plots.arrow(axes, (start, height), (3.68, height), color=colour)
            bits = f"{_short(nats[row] / np.log(2), 2)} bits"
            axes.text(3.72, height, bits, va="center_baseline", fontweight="bold")
            axes.text(3.72, height - 0.3, f"({nats[row]:.2f} nats)")
    y = top - 0.5 * len(words) - 0.05
    axes.plot((places["$e^y$"] - 0.1, 3.4), (y + 0.15, y + 0.15), color=plots.MIST)
    axes.text(places["$e^y$"], y - 0.12, _short(powers.sum(), 1), va="center_baseline")
    axes.text(places["softmax $p$"], y - 0.12, "1", va="center_baseline")
    axes.text(
        places["logit $y$"], y - 0.12, "sum", va="center_baseline", color=plots.GREY
    )
    return axes.figure


def _short(number: float, places: int) -> str:
    """At most so many places, and no zeros at the end."""
    return f"{number:.{places}f}".rstrip("0").rstrip(".")


def shapes(config: GPTConfig, length: int) -> Figure:
    """Every array on the way from token ids to logits, to scale: wide as its last letter's size.

    Args:
        config: the model.
        length: S, positions of the one sequence.

    Returns:
        A figure, about as wide as the page. Widths are on a scale of square roots.
    """
    c = config
    sizes = {"s": length, "d": c.d_model, "h": c.n_heads, "k": c.head_width}
    sizes |= {"t": length, "f": c.mlp_width, "v": c.vocab_size}
    rows = [
        ("token ids", "s", plots.MIST),
        ("stream, from the embedding", "s d", plots.STREAM),
        ("queries, keys, values", "h s k", plots.ATTENTION),
        ("attention weights", "h s t", plots.ATTENTION),
        ("stream, with what attention adds", "s d", plots.STREAM),
        ("hidden units of the MLP", "s f", plots.MLP),
        ("stream, with what the MLP adds", "s d", plots.STREAM),
        ("logits", "s v", plots.HEAD),
    ]
    pitch, left, most = 0.54, 0.36, 4.2
    axes = plots.page(plots.WIDTH, pitch * len(rows) + 0.1)
    unit = most / max(sizes.values()) ** 0.5
    for row, (name, letters, colour) in enumerate(rows):
        y, names = pitch * row + 0.1, letters.split()
        sheets = 3 if names[0] == "h" else 1
        width = unit * (sizes[names[-1]] if len(names) > 1 else 1) ** 0.5
        for sheet in reversed(range(sheets)):
            corner = left + 0.06 * sheet, y + 0.04 * sheet
            look = {"facecolor": colour, "edgecolor": "white", "linewidth": 0.8}
            axes.add_patch(Rectangle(corner, max(width, 0.07), 0.16, **look))
        size = " × ".join(str(sizes[letter]) for letter in names)
        level = {"y": y + 0.34, "va": "center_baseline"}
        axes.text(left, s=name, **level)
        text = f"$({', '.join(names)})$  {size}"
        axes.text(plots.WIDTH - 0.1, s=text, ha="right", color=plots.GREY, **level)
    bottom, top = pitch * 2 + 0.06, pitch * 7 - 0.02
    axes.plot((0.3, 0.23, 0.23, 0.3), (bottom, bottom, top, top), color=plots.MIST)
    look = {"rotation": 90, "va": "center", "color": plots.GREY, "ha": "right"}
    axes.text(0.19, (bottom + top) / 2, f"block, × {c.n_layers}", **look)
    return axes.figure


def caches(steps: int, *, window: int) -> Figure:
    """What a cache holds after each token: without a window it grows, with one it is a ring.

    Args:
        steps: tokens that come, a row for each.
        window: W, slots of the ring.

    Returns:
        A figure, about as wide as the page.

    Raises:
        ValueError: a window that never fills.
    """
    if window not in range(1, steps):
        raise ValueError(f"{window=} must be from 1 to {steps - 1}")
    left, right = 0.66, 0.66 + _CELL * steps + 0.5
    axes = plots.page(right + _CELL * window + 0.2, _CELL * 1.18 * steps + 0.95)
    top = _CELL * 1.18 * steps + 0.1
    axes.text(left, top + 0.4, "no window: all are kept", fontsize=10)
    axes.text(right, top + 0.4, f"a ring of $W = {window}$", fontsize=10)
    axes.text(0.05, top + 0.1, "token", color=plots.GREY)
    for slot in range(window):
        x = right + _CELL * (slot + 0.5)
        axes.text(x, top + 0.1, str(slot), color=plots.GREY, ha="center")
    for s in range(steps):
        y = top - _CELL * 1.18 * (s + 1)
        axes.text(0.3, y + _CELL / 2, str(s), va="center_baseline", ha="center")
        for slot in range(steps):
            position = slot if slot <= s else None
            _slot(axes, left + _CELL * slot, y, position, is_new=slot == s)
        for slot in range(window):
            newest = s - (s - slot) % window
            position = newest if newest >= 0 else None
            _slot(axes, right + _CELL * slot, y, position, is_new=newest == s)
    return axes.figure


def _slot(
    axes: Axes, x: float, y: float, position: int | None, *, is_new: bool
) -> None:
    """A slot of a cache, with the position whose key and value it holds; None if it is empty."""
    colour = plots.VERMILLION if is_new else "#C9DFF0"
    fill = "none" if position is None else colour
    look = {"facecolor": fill, "edgecolor": plots.MIST, "linewidth": 0.8}
    axes.add_patch(Rectangle((x, y), _CELL, _CELL, **look))
    if position is not None:
        ink = {"color": "white", "fontweight": "bold"} if is_new else {}
        centre = x + _CELL / 2, y + _CELL / 2
        axes.text(*centre, str(position), ha="center", va="center_baseline", **ink)
