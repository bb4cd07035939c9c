"""The picture of a merge: two neighbours become one box, row by row.

    merging({"low": [["l", "o", "w"], ["lo", "w"], ["low"]]}, ["letters", "lo", "low"])

Used by chapter 1.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from decoder_only_book import plots

__all__ = ["merging"]

_MARGIN, _ROW, _GAP = 0.07, 0.32, 1.0


def merging(
    spellings: Mapping[str, Sequence[Sequence[str]]], labels: Sequence[str]
) -> Figure:
    """Draw words as they are spelled before and after every merge.

    A token stands where its letters stand and is as wide as they are together; the boxes that a
    row brings are in colour.

    Args:
        spellings: for each word its tokens, row by row, from single letters on.
        labels: what happened in each row.

    Raises:
        ValueError: a word has more rows than there are labels, or fewer, or a row spells another
            word.
    """
    for word, rows in spellings.items():
        if len(rows) != len(labels):
            raise ValueError(
                f"the number of rows of {word!r}={len(rows)} must be {len(labels)}, as of labels"
            )
        letters = "".join(rows[0])
        for tokens in rows:
            if "".join(tokens) != letters:
                raise ValueError(f"{tokens=} must spell {letters}")
    with plots.style():
        size = (plots.WIDTH, _ROW * len(labels) + 0.1)
        figure, axes = plt.subplots(figsize=size)
        left = 0.0
        for rows in spellings.values():
            known: set[tuple[float, int]] = set()
            for row, tokens in enumerate(rows):
                spans, x = set(), left
                for token in tokens:
                    span = x, len(token)
                    _box(axes, *span, row, token, lit=row > 0 and span not in known)
                    spans.add(span)
                    x += len(token)
                known = spans
            left = x + _GAP
        axes.set(xlim=(-0.1, left - _GAP + 0.1), ylim=(len(labels) - 0.45, -0.55))
        axes.set_yticks(range(len(labels)), labels, parse_math=False)
        axes.set_xticks([])
        axes.tick_params(length=0, labelsize=10)
        axes.grid(False)
        axes.spines[:].set_visible(False)
    return figure


def _box(axes: plt.Axes, x: float, width: int, row: int, text: str, lit: bool) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (x + 2 * _MARGIN, row - 0.5 + 2 * _MARGIN),
            width - 4 * _MARGIN,
            1 - 4 * _MARGIN,
            boxstyle=f"round,pad={_MARGIN}",
            facecolor="#CFE3F1" if lit else "#F1F3F5",
            edgecolor=plots.BLUE if lit else plots.MIST,
            linewidth=1.3 if lit else 0.8,
        )
    )
    look = {"ha": "center", "va": "center", "fontsize": 10, "parse_math": False}
    axes.text(x + width / 2, row + 0.03, text, color=plots.INK, **look)
