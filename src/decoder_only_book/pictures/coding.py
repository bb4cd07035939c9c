"""Pictures of what a probability costs: shares of a line, and the code words that point at them.

    shares([(words, probabilities, came), ...])     a text, word by word, as a share of a line
    beside(truth, models, words)                    what comes, beside what each model expects

Used by chapter 7.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle
from numpy.typing import ArrayLike

from decoder_only_book import plots

__all__ = ["beside", "shares"]

_LEFT, _LONG, _HIGH, _PITCH = 0.1, 4.28, 0.4, 0.95

Step = tuple[Sequence[str], Sequence[float], int]


def shares(steps: Sequence[Step]) -> Figure:
    """Draw a text as a share of a line: a row for each word, which magnifies the last one's share.

    Args:
        steps: for each word of the text the words that could come, their probabilities, and the
            index of the one that came.

    Returns:
        A figure, about as wide as the page.

    Raises:
        ValueError: probabilities that are not as many as the words, or do not sum to one.
    """
    height = _PITCH * (len(steps) - 1) + _HIGH + 0.2
    axes = plots.page(_LEFT + _LONG + 1.0, height)
    bits = 0.0
    for row, (words, chances, came) in enumerate(steps):
        if len(words) != len(chances) or abs(sum(chances) - 1) > 1e-6:
            raise ValueError(f"{chances=} of {words=} must be as many, and sum to one")
        y = height - 0.1 - _HIGH - _PITCH * row
        ends = _LEFT + _LONG * np.cumsum([0, *chances])
        _line(axes, y, words, ends, came)
        bits -= np.log2(chances[came])
        told = f"1/{2**bits:.0f}, {bits:.0f} bits"
        axes.text(_LEFT + _LONG + 0.1, y + _HIGH / 2, told, va="center_baseline")
        if row < len(steps) - 1:
            below = y - _PITCH + _HIGH
            corners = [(ends[came], y), (ends[came + 1], y)]
            corners += [(_LEFT + _LONG, below), (_LEFT, below)]
            axes.add_patch(Polygon(corners, color=plots.HEAD, alpha=0.12, linewidth=0))
    return axes.figure


def _line(
    axes: Axes, y: float, words: Sequence[str], ends: np.ndarray, came: int
) -> None:
    """One row: every word on its share of the line."""
    for place, word in enumerate(words):
        left, width = ends[place], ends[place + 1] - ends[place]
        lit = place == came
        look = {"facecolor": plots.HEAD if lit else "white", "edgecolor": plots.GREY}
        axes.add_patch(Rectangle((left, y), width, _HIGH, **look))
        has_room = width > 0.1 * len(word)
        look = {"va": "center_baseline", "fontweight": "bold" if lit else "normal"}
        if has_room:
            look |= {"ha": "center", "color": "white" if lit else plots.INK}
            axes.text(left + width / 2, y + _HIGH / 2, word, **look)
        elif lit:
            axes.text(left + width + 0.05, y + _HIGH / 2, word, **look)


def beside(
    truth: ArrayLike, models: Mapping[str, ArrayLike], words: Sequence[str]
) -> Figure:
    """Draw what comes beside what each model expects: a panel for each model.

    Args:
        truth: the probability of each word.
        models: by name, the probabilities that each model gives.
        words: what could come.
    """
    with plots.style():
        figure, panels = plt.subplots(1, len(models), figsize=(5, 2.2), sharey=True)
        place = np.arange(len(words))
        for axes, (name, model) in zip(np.ravel(panels), models.items(), strict=True):
            axes.bar(place - 0.2, truth, 0.38, color=plots.TRUTH, label="truth")
            axes.bar(place + 0.2, model, 0.38, color=plots.MODEL, label="model")
            axes.set_xticks(place, words)
            axes.set(title=name, ylim=(0, 1.05))
            axes.grid(False, axis="x")
        np.ravel(panels)[0].set_ylabel("probability")
        np.ravel(panels)[0].legend(loc="upper right", borderpad=0, handlelength=1)
    return figure
