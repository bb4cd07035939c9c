"""Pictures of where attention looks, from an average among its vectors to weights over a text.

    averages_inside(vectors, averages)     points of a plane, and the averages between them
    roles(words, asks, found_as, gives)    what each word asks, is found by, and hands over
    tiles()                                all weights at once, or a tile at a time
    weights_over_text(pieces, weights)     a text, tinted where the weights are
    kinds_over_text(pieces, kinds)         a text, word by word in the colour of its kind

Used by chapter 3.
"""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle
from matplotlib.textpath import TextPath
from numpy.typing import ArrayLike

from decoder_only_book import plots

__all__ = ["averages_inside", "kinds_over_text", "roles", "tiles", "weights_over_text"]

_WIDTH = 5.0
_POINTS = 10.0
_LINE, _KIND_LINE = 0.34, 0.27
_KINDS = (plots.BLUE, plots.ORANGE, plots.GREEN, plots.PURPLE, plots.SKY)


def averages_inside(vectors: ArrayLike, averages: ArrayLike) -> Figure:
    """Draw vectors of a plane, and their averages inside the polygon that they span.

    Args:
        vectors: (t, 2), the corners, in an order that goes round the polygon.
        averages: (s, 2), an average for each.

    Returns:
        A figure.

    Raises:
        ValueError: there are not as many averages as vectors, or they are not of a plane.
    """
    vectors, averages = np.asarray(vectors, float), np.asarray(averages, float)
    shapes = vectors.shape, averages.shape
    if vectors.shape != (len(vectors), 2) or averages.shape != vectors.shape:
        raise ValueError(f"{shapes=} must be (t, 2) and (t, 2)")
    with plots.style():
        figure, axes = plt.subplots(figsize=(_WIDTH, 3.2))
    look = {"facecolor": plots.SKY, "alpha": 0.15, "edgecolor": "none"}
    axes.add_patch(Polygon(vectors, **look))
    for index, (vector, average) in enumerate(zip(vectors, averages, strict=True)):
        plots.arrow(axes, tuple(vector), tuple(average), shrinkA=7, shrinkB=7)
        axes.plot(*vector, "o", color=plots.INK)
        axes.plot(*average, "o", color=plots.BLUE, markersize=9)
        away = vector - vectors.mean(0)
        text = {"textcoords": "offset points", "ha": "center", "va": "center"}
        offset = tuple(24 * away / (np.linalg.norm(away) or 1.0))
        name = f"$z_{index} = ({vector[0]:g}, {vector[1]:g})$"
        axes.annotate(name, tuple(vector), offset, **text)
    axes.set(xlabel="first component", ylabel="second component", aspect="equal")
    axes.margins(0.3, 0.22)
    return figure


def roles(
    words: Sequence[str],
    asks: Sequence[str],
    found_as: Sequence[str],
    gives: Sequence[str],
) -> Figure:
    """Draw the three roles of three words: the last one's query finds the key of the middle one.

    Args:
        words: three of them.
        asks, found_as, gives: what each one's query, key and value say; "" for nothing.

    Returns:
        A figure, as wide as a phone.

    Raises:
        ValueError: there are not three of each.
    """
    numbers = [len(words), len(asks), len(found_as), len(gives)]
    if numbers != [3] * 4:
        raise ValueError(f"{numbers=} of words and roles must be 3 each")
    rows = {"query": (2.0, asks), "key": (1.35, found_as), "value": (0.7, gives)}
    colours = {"query": plots.BLUE, "key": plots.GREEN, "value": plots.ORANGE}
    size, left, step = (1.2, 0.4), 0.68, 1.46
    axes = plots.page(_WIDTH, 2.95)
    middle = {"va": "center_baseline", "ha": "center", "fontsize": 10.5}
    for column, word in enumerate(words):
        centre = left + step * column + size[0] / 2
        axes.text(centre, 2.7, word, **middle | {"fontsize": 12, "style": "italic"})
    for name, (y, said) in rows.items():
        axes.text(0.02, y + 0.2, name, va="center_baseline", fontsize=10.5)
        for column, text in enumerate(said):
            corner = left + step * column, y
            plots.box(axes, corner, size, colours[name] if text else None, 0.22)
            axes.text(corner[0] + size[0] / 2, y + 0.2, text, **middle)
    look = {"color": plots.INK, "linewidth": 1.5, "mutation_scale": 12}
    ends = left + step + size[0], left + 2 * step
    plots.arrow(axes, (ends[1], 2.1), (ends[0] + 0.03, 1.65), **look)
    plots.arrow(axes, (ends[0], 0.8), (ends[1] - 0.02, 0.3), **look)
    plots.box(axes, (ends[1], 0.05), size, colours["value"], 0.45)
    axes.text(ends[1] + size[0] / 2, 0.25, gives[1], **middle)
    axes.text(0.02, 0.25, "output", va="center_baseline", fontsize=10.5)
    return axes.figure


def tiles() -> Figure:
    """Draw how a fused kernel walks through the weights that the explicit path keeps.

    Returns:
        A figure, as wide as a phone.
    """
    axes = plots.page(_WIDTH, 2.75)
    n, cell, bottom = 8, 0.24, 0.42
    for left, title in ((0.1, "explicit: all at once"), (2.55, "fused: tile by tile")):
        axes.text(left, 2.52, title, fontsize=10.5, weight="bold")
        for s in range(n):
            for t in range(s + 1):
                corner = left + cell * t, bottom + cell * (n - 1 - s)
                shade = 0.6 if left < 1 else 0.0
                plots.box(axes, corner, (cell, cell), plots.BLUE, shade)
    left, size = 2.55, (2 * cell, 2 * cell)
    y = bottom + cell * 2
    for column, shade in enumerate((0.2, 0.7)):
        plots.box(axes, (left + 2 * cell * column, y), size, plots.ORANGE, shade)
    look = {"color": plots.INK, "linewidth": 1.5, "mutation_scale": 11}
    plots.arrow(axes, (left + cell, y + cell), (left + 2.6 * cell, y + cell), **look)
    for row, text in enumerate(("maximum", "sum", "output")):
        place = left + 4.3 * cell, bottom + cell * n - 0.14 - 0.2 * row
        axes.text(*place, text, fontsize=10, va="center_baseline")
    axes.text(0.1, 0.13, "keeps every weight", fontsize=10, color=plots.GREY)
    axes.text(left, 0.13, "carries three things a row", fontsize=10, color=plots.GREY)
    return axes.figure


def weights_over_text(pieces: Sequence[str], weights: ArrayLike) -> Figure:
    """Lay one row of attention weights over the text that it looks at.

    The last token is the one that asks. A weight of a twentieth or more is written out.

    Args:
        pieces: the tokens' texts, whose concatenation is the text.
        weights: (t), a weight from 0 to 1 for each token.

    Returns:
        A figure, as wide as a phone.

    Raises:
        ValueError: there are not as many weights as pieces, or a weight is not from 0 to 1.
    """
    weights = np.asarray(weights, float)
    if weights.shape != (len(pieces),):
        raise ValueError(f"{weights.shape=} must be ({len(pieces)},), as of pieces")
    if not ((weights >= 0) & (weights <= 1)).all():
        raise ValueError(f"the largest of weights={weights.max():g} must be 0 to 1")
    places, n_lines = _lay_out(pieces)
    height = _LINE * n_lines + 0.28
    axes = plots.page(_WIDTH, height)
    for index, (piece, (x, line, width)) in enumerate(zip(pieces, places, strict=True)):
        y = height - 0.2 - _LINE * (line + 1)
        lead = _width(" ") * (len(piece) - len(piece.lstrip(" ")))
        asks = index == len(pieces) - 1
        _tint(axes, (x + lead - 0.02, y), width - lead + 0.04, weights[index], asks)
        text = {"fontsize": _POINTS, "va": "baseline", "parse_math": False}
        axes.text(x + lead, y + 0.07, piece.strip(" "), **text)
        if weights[index] >= 0.05:
            said = {
                "ha": "center",
                "va": "bottom",
                "fontsize": 9.4,
                "color": plots.BLUE,
            }
            middle = x + (width + lead) / 2
            axes.text(middle, y + 0.215, f"{weights[index]:.2f}", **said)
    return axes.figure


def kinds_over_text(pieces: Sequence[str], kinds: Sequence[str | None]) -> Figure:
    """Colour a text by what kind each of its tokens is of.

    Args:
        pieces: the tokens' texts, whose concatenation is the text.
        kinds: a name for each, or None for a token that stays plain; at most 5 names.

    Returns:
        A figure, as wide as a phone, with a legend below the text.

    Raises:
        ValueError: there are not as many kinds as pieces, or more names than colours.
    """
    lengths, names = (len(pieces), len(kinds)), [*dict.fromkeys(filter(None, kinds))]
    if lengths[0] != lengths[1] or not 1 <= len(names) <= len(_KINDS):
        raise ValueError(
            f"{lengths=} must be equal, and {names=} 1 to {len(_KINDS)} of them"
        )
    colours = dict(zip(names, _KINDS, strict=False))
    places, n_lines = _lay_out(pieces)
    per_row = 3
    height = _KIND_LINE * n_lines + 0.26 * -(-len(names) // per_row) + 0.2
    axes = plots.page(_WIDTH, height)
    for piece, kind, (x, line, width) in zip(pieces, kinds, places, strict=True):
        y = height - 0.1 - _KIND_LINE * (line + 1)
        lead = _width(" ") * (len(piece) - len(piece.lstrip(" ")))
        if kind is not None:
            look = {"facecolor": colours[kind], "alpha": 0.4, "edgecolor": "none"}
            axes.add_patch(Rectangle((x + lead, y), width - lead, 0.22, **look))
        text = {"fontsize": _POINTS, "va": "baseline", "parse_math": False}
        axes.text(x + lead, y + 0.07, piece.strip(" "), **text)
    for index, name in enumerate(names):
        row, column = divmod(index, per_row)
        x = 0.04 + column * (_WIDTH - 0.1) / per_row
        y = height - 0.3 - _KIND_LINE * n_lines - 0.26 * row
        plots.box(axes, (x, y - 0.08), (0.22, 0.16), colours[name], 0.4)
        axes.text(x + 0.28, y, name, va="center_baseline", fontsize=9.6)
    return axes.figure


def _width(text: str) -> float:
    """How wide a text is, in inches; the space at its end counts."""
    if not text:
        return 0.0
    with plots.style():
        path = [TextPath((0, 0), each, size=_POINTS) for each in (f"{text}|", "|")]
    return (path[0].get_extents().x1 - path[1].get_extents().x1) / 72


def _lay_out(pieces: Sequence[str]) -> tuple[list[tuple[float, int, float]], int]:
    """Where each token stands: from the left, on which line, how wide; a word is not cut."""
    words: list[list[str]] = []
    for piece in pieces:
        if not words or piece.startswith(" "):
            words.append([])
        words[-1].append(piece)
    places, x, line = [], 0.04, 0
    for word in words:
        if x + _width("".join(word)) > _WIDTH - 0.08:
            # The space before the first word of a line hangs over its edge.
            x, line = 0.04 - _width(" "), line + 1
        for piece in word:
            places.append((x, line, _width(piece)))
            x += _width(piece)
    return places, line + 1


def _tint(
    axes: Axes, corner: tuple[float, float], width: float, weight: float, asks: bool
) -> None:
    """The ground of a token: tinted by its weight, outlined if it is the one that asks."""
    look = {"facecolor": plots.SKY, "alpha": float(weight) * 0.75, "edgecolor": "none"}
    axes.add_patch(Rectangle(corner, width, 0.22, **look))
    if asks:
        edge = {"facecolor": "none", "edgecolor": plots.VERMILLION, "linewidth": 1.6}
        axes.add_patch(Rectangle(corner, width, 0.22, **edge))
