"""A picture of a language model at work: it weighs the next token, and one is drawn.

    next_token(pieces, words, probabilities, drawn=...)    from a text to its next token

Used by chapter 0.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from decoder_only_book import plots

__all__ = ["next_token"]

_WIDTH, _ROW = 5.0, 0.34
# Inches from the left: text so far, the model, words, and bars; a bar of a certain word.
_TEXT, _MODEL, _WORDS, _BARS = 0.05, 1.45, 2.85, 3.72
_BAR = 0.72


def next_token(
    pieces: Sequence[str], words: Sequence[str], probabilities: ArrayLike, *, drawn: int
) -> Figure:
    """Draw a text, the model that reads it, and a bar for each word that may come next.

    Bars are drawn in proportion to the largest of them. An arrow leads from the drawn word back
    to the text, which it joins.

    Args:
        pieces: the tokens of the text so far.
        words: some of the tokens that may come next.
        probabilities: one for each of these words.
        drawn: the index of the word that was drawn.

    Returns:
        A figure, as wide as a phone.

    Raises:
        ValueError: another number of probabilities than of words, or no such word.
    """
    probabilities = np.asarray(probabilities, float)
    if probabilities.shape != (len(words),):
        raise ValueError(
            f"words={len(words)} must be as many as {probabilities.shape=}"
        )
    if drawn not in range(len(words)):
        raise ValueError(f"{drawn=} must be the index of a word")
    height = _ROW * max(len(words), len(pieces) + 1) + 0.85
    top = height - 0.45
    axes = plots.page(_WIDTH, height)
    for x, title in ((_TEXT, "text so far"), (_WORDS, "next token, probability")):
        axes.text(x, height - 0.22, title, color=plots.GREY)
    for row, piece in enumerate([*pieces, words[drawn]]):
        _token(axes, top - _ROW * (row + 1), piece, is_new=row == len(pieces))
    for row, word in enumerate(words):
        _word(axes, top - _ROW * (row + 0.5), word, probabilities, row, row == drawn)
    middle = top - _ROW * len(words) / 2
    plots.box(axes, (_MODEL, middle - 0.5), (1.05, 1.0), plots.SKY, 0.25)
    axes.text(_MODEL + 0.525, middle, "transformer", ha="center", va="center_baseline")
    plots.arrow(axes, (_TEXT + 0.95, middle), (_MODEL - 0.04, middle))
    plots.arrow(axes, (_MODEL + 1.09, middle), (_WORDS - 0.06, middle))
    _way_back(axes, top - _ROW * (drawn + 0.5), top - _ROW * (len(pieces) + 0.55))
    return axes.figure


def _token(axes: Axes, bottom: float, piece: str, *, is_new: bool) -> None:
    """A token of the text; the new one is outlined."""
    colour = plots.VERMILLION if is_new else plots.MIST
    look = {"facecolor": "none", "edgecolor": colour, "linewidth": 1.2}
    axes.add_patch(Rectangle((_TEXT, bottom + 0.04), 0.88, _ROW - 0.08, **look))
    place = {"ha": "center", "va": "center_baseline", "parse_math": False}
    axes.text(_TEXT + 0.44, bottom + _ROW / 2, piece.strip(), **place)


def _word(
    axes: Axes, y: float, word: str, probabilities: np.ndarray, row: int, is_drawn: bool
) -> None:
    """A word that may come next, its bar, and its probability."""
    colour = plots.VERMILLION if is_drawn else plots.BLUE
    weight = "bold" if is_drawn else "normal"
    look = {"va": "center_baseline", "fontweight": weight, "parse_math": False}
    axes.text(_WORDS, y, word.strip(), **look)
    length = _BAR * probabilities[row] / probabilities.max()
    axes.add_patch(Rectangle((_BARS, y - 0.09), length, 0.18, color=colour))
    axes.text(_BARS + length + 0.05, y, f"{probabilities[row]:.2f}", **look)


def _way_back(axes: Axes, start: float, end: float) -> None:
    """A line from the drawn word around the model, and up or down to its place in the text."""
    right, low = _WIDTH - 0.04, 0.2
    look = {"color": plots.VERMILLION, "linewidth": 1.2}
    axes.plot((_BARS + _BAR + 0.42, right, right), (start, start, low), **look)
    axes.plot((right, _TEXT + 0.44), (low, low), **look)
    plots.arrow(axes, (_TEXT + 0.44, low), (_TEXT + 0.44, end - 0.17), **look)
    said = "draw one, append it, ask again"
    axes.text(_MODEL, low + 0.05, said, color=plots.VERMILLION, va="bottom")
