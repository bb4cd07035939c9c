"""Pictures of who reads whom: three families of transformers, and what a masked model is asked.

    families()                     decoder, encoder, encoder-decoder: their masks and their work
    fates(200)                     which of so many tokens are targets, and what is seen of them
    shown(200, 2, 8)               the visible targets that show one word, right and wrong
    two_words(rows, columns, ...)  tables of the probabilities of two words, side by side
    directions(points, query)      sentences as arrows of length one
    cross_shapes(3, 5)             the arrays of cross-attention and their sizes
    masked_sentence(words, seen)   a sentence, what a masked model sees of it, and its targets

Used by chapter 11.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from decoder_only_book import plots

__all__ = [
    "cross_shapes",
    "directions",
    "families",
    "fates",
    "masked_sentence",
    "shown",
    "two_words",
]

_CELL = 0.23
_SOURCE, _TARGET = ["Bobby", "likes", "plums", "▢"], ["◁", "Bobby", "mag"]


def families() -> Figure:
    """Draw the masks of the three families; a filled cell is a pair that may be read.

    Returns:
        A figure, as wide as a phone.
    """
    axes = plots.page(4.8, 4.95)
    heads = {"decoder": 4.4, "encoder": 3.2, "encoder-decoder": 1.75}
    jobs = {
        "decoder": "writes",
        "encoder": "reads",
        "encoder-decoder": "reads, then writes",
    }
    for name, y in heads.items():
        axes.text(0.05, y, name, fontsize=11, weight="bold", va="center_baseline")
        axes.text(0.05, y - 0.22, jobs[name], fontsize=10, va="center_baseline")
    triangle, whole = np.tril(np.ones((3, 3))), np.ones((4, 4))
    whole[:, 3] = 0
    _grid(axes, (2.35, 3.75), triangle, _TARGET, _TARGET, plots.BLUE)
    _grid(axes, (2.35, 2.3), whole, _SOURCE, _SOURCE, plots.GREEN)
    _grid(axes, (0.62, 0.05), whole, _SOURCE, _SOURCE, plots.GREEN)
    _grid(axes, (2.35, 0.28), whole[:3], _TARGET, _SOURCE, plots.ORANGE)
    _grid(axes, (3.9, 0.28), triangle, ["", "", ""], _TARGET, plots.BLUE)
    look = {"color": plots.INK, "linewidth": 1.3}
    plots.arrow(axes, (1.58, 0.62), (1.82, 0.62), **look)
    plots.arrow(axes, (3.85, 0.62), (3.33, 0.62), **look)
    return axes.figure


def _grid(
    axes: Axes,
    corner: tuple[float, float],
    mask: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    colour: str,
) -> None:
    """A mask with the asking words at its left, and the words that are read above."""
    n, m = mask.shape
    for i in range(n):
        y = corner[1] + _CELL * (n - 1 - i)
        word = {"ha": "right", "va": "center_baseline", "fontsize": 9.2}
        axes.text(corner[0] - 0.06, y + _CELL / 2, rows[i], **word)
        for j in range(m):
            shade = colour if mask[i, j] else None
            plots.box(axes, (corner[0] + _CELL * j, y), (_CELL, _CELL), shade, 0.65)
    top = corner[1] + _CELL * n + 0.04
    for j in range(m):
        place = corner[0] + _CELL * (j + 0.35), top
        look = {"rotation": 40, "rotation_mode": "anchor", "fontsize": 9.2}
        axes.text(*place, columns[j], ha="left", va="bottom", **look)


def fates(
    n: int, *, rate: float = 0.15, shares: tuple[float, float] = (0.8, 0.1)
) -> Figure:
    """Draw tokens as squares: which are targets, and what a masked model sees of them.

    Args:
        n: how many tokens, a multiple of 20.
        rate: the share that is a target.
        shares: of the targets, those that are hidden, and those that are exchanged.

    Returns:
        A figure, as wide as a phone.

    Raises:
        ValueError: the squares do not fill their rows.
    """
    if n % 20 or n < 20:
        raise ValueError(f"{n=} must be a multiple of 20")
    targets = round(rate * n)
    hidden, changed = (round(share * targets) for share in shares)
    kinds = ["masked"] * hidden + ["random"] * changed
    kinds += ["kept"] * (targets - len(kinds)) + ["no target"] * (n - targets)
    order = np.random.default_rng(3).permutation(n)
    looks = {
        "masked": (plots.INK, 0.85),
        "random": (plots.VERMILLION, 0.9),
        "kept": (plots.BLUE, 0.9),
        "no target": (None, 0.0),
    }
    height = 0.23 * n // 20 + 0.75
    axes = plots.page(4.8, height)
    for place, index in enumerate(order):
        corner = 0.1 + 0.23 * (place % 20), 0.1 + 0.23 * (place // 20)
        plots.box(axes, corner, (0.19, 0.19), *looks[kinds[index]])
    for column, (name, look) in enumerate(looks.items()):
        x = 0.1 + 1.13 * column
        plots.box(axes, (x, height - 0.33), (0.19, 0.19), *look)
        text = f"{name}: {kinds.count(name)}"
        axes.text(x + 0.23, height - 0.23, text, fontsize=9.2, va="center_baseline")
    return axes.figure


def shown(kept: int, lucky: int, wrong: int, *, columns: int = 30) -> Figure:
    """Draw the visible targets that show one word, as squares.

    Args:
        kept: how many show it because it was kept, and so are right.
        lucky: how many drew it at random where it was right.
        wrong: how many drew it at random where it was not.
        columns: squares in a row.

    Returns:
        A figure, as wide as a phone.
    """
    looks = {
        f"kept: {kept}, right": (plots.BLUE, 0.9),
        f"random: {lucky}, right": (plots.VERMILLION, 0.9),
        f"random: {wrong}, wrong": (plots.VERMILLION, 0.25),
    }
    counts = kept, lucky, wrong
    cell = 4.6 / columns
    height = cell * -(-sum(counts) // columns) + 0.6
    axes = plots.page(4.8, height)
    start = 0
    for number, ((kind, (colour, alpha)), count) in enumerate(
        zip(looks.items(), counts, strict=True)
    ):
        row, column = np.divmod(np.arange(start, start + count), columns)
        start += count
        x, y = 0.1 + cell * (column + 0.4), height - 0.5 - cell * (row + 0.5)
        # One collection for each kind: its squares are stored once and repeated.
        look = {"marker": "s", "s": (57 * cell) ** 2, "color": colour, "alpha": alpha}
        axes.scatter(x, y, linewidths=0, **look)
        left = 0.1 + 1.55 * number
        plots.box(axes, (left, height - 0.3), (0.15, 0.15), colour, alpha)
        text = {"fontsize": 9.2, "va": "center_baseline"}
        axes.text(left + 0.22, height - 0.22, kind, **text)
    return axes.figure


def two_words(
    firsts: Sequence[str], seconds: Sequence[str], tables: Mapping[str, ArrayLike]
) -> Figure:
    """Tables of what is said of two words, side by side; a row for each first word.

    Args:
        firsts, seconds: the words.
        tables: what is said of each pair, by the titles of the tables.

    Returns:
        A figure, as wide as a phone.
    """
    with plots.style():
        figure, panels = plt.subplots(1, len(tables), figsize=(4.8, 2.1), squeeze=False)
        for axes, (title, table) in zip(panels[0], tables.items(), strict=True):
            names = {"row_labels": firsts, "col_labels": seconds}
            plots.heatmap(table, limits=(0, 1), decimals=2, ax=axes, **names)
            axes.set_title(title, loc="center", fontsize=10)
            axes.set_xticklabels(seconds, rotation=0)
            if axes is not panels[0][0]:
                axes.set_yticklabels([])
    return figure


def directions(points: Mapping[str, tuple[float, float]], query: str) -> Figure:
    """Draw sentences as arrows from one point, the query's in another colour.

    Args:
        points: the sentences' vectors, of length one.
        query: which of them asks.

    Returns:
        A figure, as wide as a phone.
    """
    axes = plots.page(4.8, 2.6)
    for name, (x, y) in points.items():
        colour = plots.VERMILLION if name == query else plots.BLUE
        end = 0.3 + 2.1 * x, 0.2 + 2.1 * y
        look = {"color": colour, "linewidth": 2, "mutation_scale": 13}
        plots.arrow(axes, (0.3, 0.2), end, **look)
        axes.text(end[0] + 0.08, end[1], name, fontsize=10.5, va="center_baseline")
    return axes.figure


def cross_shapes(n_target: int, n_source: int) -> Figure:
    """Draw the arrays of one head of cross-attention, from two texts to one result.

    Args:
        n_target: S, at most 6.
        n_source: T, at most 6.

    Returns:
        A figure, as wide as a phone.

    Raises:
        ValueError: a text is too long for the picture.
    """
    if not (1 <= n_target <= 6 and 1 <= n_source <= 6):
        raise ValueError(f"{n_target=} and {n_source=} must be from 1 to 6")
    axes = plots.page(4.8, 2.6)
    cell, width = 0.19, 3  # components of a head
    arrays = {
        "$q$  (s, k)": (0.1, 1.65, n_target, width, plots.BLUE),
        "$k$  (t, k)": (0.1, 0.1, n_source, width, plots.GREEN),
        "$v$  (t, k)": (2.75, 0.1, n_source, width, plots.GREEN),
        "$w$  (s, t)": (1.55, 1.65, n_target, n_source, plots.ORANGE),
        "$o$  (s, k)": (3.95, 1.65, n_target, width, plots.BLUE),
    }
    for name, (x, y, rows, columns, colour) in arrays.items():
        for i in range(rows):
            for j in range(columns):
                corner = x + cell * j, y + cell * i
                plots.box(axes, corner, (cell, cell), colour, 0.55)
        axes.text(x, y + cell * rows + 0.1, name, fontsize=10.5)
    look = {"color": plots.INK, "linewidth": 1.3}
    level = 1.65 + cell * n_target / 2
    right = 1.55 + cell * n_source
    plots.arrow(axes, (0.75, level), (1.47, level), **look)
    plots.arrow(axes, (0.75, 0.8), (1.47, 1.6), **look)
    plots.arrow(axes, (right + 0.08, level), (3.87, level), **look)
    plots.arrow(axes, (3.4, 0.8), (3.87, 1.6), **look)
    return axes.figure


def masked_sentence(words: Sequence[str], seen: Sequence[str]) -> Figure:
    """Draw a sentence, what a masked model sees of it, and what it must answer.

    Args:
        words: of the sentence.
        seen: what is in their places; "" where a word is no target. The colours are those of
            `fates`: masked where it is "▒", kept where it is the word, and else random.

    Returns:
        A figure, as wide as a phone: one line up to eight words, else two.

    Raises:
        ValueError: there are not as many of one as of the other.
    """
    if len(words) != len(seen):
        raise ValueError(f"{len(seen)=} must be {len(words)}, as words")
    n_lines = 1 if len(words) <= 8 else 2
    axes = plots.page(4.8, 1.3 * n_lines)
    length = -(-len(words) // n_lines)
    size = 3.95 / length, 0.3
    text = {"ha": "center", "va": "center_baseline", "fontsize": 9.5}
    for row in range(n_lines):
        top = 1.3 * (n_lines - row) - 0.35
        lines = {"text": top, "seen": top - 0.38, "target": top - 0.76}
        for name, y in lines.items():
            axes.text(0.05, y + 0.15, name, va="center_baseline", fontsize=9.5)
        for column in range(length):
            place = row * length + column
            if place >= len(words):
                break
            word, found = words[place], seen[place]
            colour = plots.INK if found == "▒" else plots.VERMILLION
            colour = plots.BLUE if found == word else colour
            boxes = {"text": (word, None), "seen": (found or word, found and colour)}
            boxes["target"] = (word if found else "", found and colour)
            x = 0.77 + size[0] * column
            for name, (said, shade) in boxes.items():
                plots.box(axes, (x, lines[name]), size, shade or None, 0.3)
                middle = x + size[0] / 2, lines[name] + 0.15
                axes.text(*middle, said, **text)
    return axes.figure
