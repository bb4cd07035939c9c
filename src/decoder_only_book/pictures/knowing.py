"""Pictures of what a model knows: bits of a fact, an urn of facts, and when to refuse.

    fact_bits(chances)                   bars: bits that are known, and bits that are left to tell
    urn_of_facts(counts)                 facts in an urn, and how often each of them was drawn
    refusing(confidences, right, t)      answers on an axis of confidence, and a threshold

Used by chapter 15.
"""

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Circle

from decoder_only_book import plots

__all__ = ["fact_bits", "refusing", "urn_of_facts"]

_WIDTH = 4.8
_BALL = 0.13


def fact_bits(chances: Mapping[str, float], n_values: int) -> Figure:
    """Draw how many bits of a fact are known, and how many are left to tell.

    Args:
        chances: for each state of a model, the probability that it gives to the true value.
        n_values: how many values there are; a guess gives each the same.

    Returns:
        A figure, as wide as a phone.

    Raises:
        ValueError: a probability is not above 0 and at most 1.
    """
    if not all(0 < q <= 1 for q in chances.values()):
        raise ValueError(f"{chances=} must be above 0 and at most 1")
    whole = math.log2(n_values)
    known = {name: whole + math.log2(q) for name, q in chances.items()}
    low = min(0.0, *known.values())
    unit, zero = 2.4 / (whole - low), 1.3
    zero -= low * unit
    height = 0.42 * len(chances) + 0.5
    axes = plots.page(_WIDTH, height)
    middle = {"va": "center_baseline"}
    for row, (name, bits) in enumerate(known.items()):
        y = height - 0.3 - 0.42 * row
        axes.text(0.05, y, name, **middle)
        colour = plots.BLUE if bits >= 0 else plots.VERMILLION
        start = zero + min(0.0, bits) * unit
        plots.box(axes, (zero, y - 0.13), (whole * unit, 0.26), plots.MIST, 0.35)
        if bits:
            plots.box(axes, (start, y - 0.13), (abs(bits) * unit, 0.26), colour, 0.8)
        said = f"{bits:+.1f} bits" if bits else "0 bits"
        axes.text(zero + whole * unit + 0.1, y, said, color=plots.INK, **middle)
    axes.plot([zero, zero], [0.25, height - 0.1], color=plots.INK, lw=1)
    for x, text in ((zero, "a guess"), (zero + whole * unit, "the whole fact")):
        axes.text(x, 0.12, text, ha="center", color=plots.GREY, **middle)
    return axes.figure


def urn_of_facts(counts: Mapping[str, int]) -> Figure:
    """Draw facts and how often each was drawn: a disc for each draw, a ring for none.

    Args:
        counts: how often each fact was told.

    Returns:
        A figure, as wide as a phone. Facts told once are orange, those never told are rings.
    """
    tallest = max(1, *counts.values())
    height = 0.75 + 0.32 * tallest
    axes = plots.page(_WIDTH, height)
    width = _WIDTH / len(counts)
    for column, (name, n) in enumerate(counts.items()):
        x = width * (column + 0.5)
        colour = plots.ORANGE if n == 1 else plots.BLUE
        for k in range(n):
            disc = Circle(
                (x, 0.62 + 0.32 * k), _BALL, facecolor=colour, edgecolor="none"
            )
            axes.add_patch(disc)
        if not n:
            ring = Circle(
                (x, 0.62), _BALL, facecolor="none", edgecolor=plots.INK, ls=":", lw=1.3
            )
            axes.add_patch(ring)
        axes.text(x, 0.32, name, ha="center", va="center_baseline")
        axes.text(x, 0.1, f"{n}", ha="center", va="center_baseline", color=plots.GREY)
    axes.plot([0.05, _WIDTH - 0.05], [0.45, 0.45], color=plots.INK, lw=1)
    return axes.figure


def refusing(
    confidences: Sequence[float], right: Sequence[bool], threshold: float
) -> Figure:
    """Draw answers on an axis of confidence, with a threshold below which a model refuses.

    Args:
        confidences: the probability that the model gives to each of its answers.
        right: whether the answer is right.
        threshold: answers with less confidence are not given.

    Returns:
        A figure, as wide as a phone. Right answers are blue discs, wrong ones vermillion crosses.

    Raises:
        ValueError: there are not as many answers as confidences.
    """
    if len(confidences) != len(right):
        raise ValueError(f"{len(confidences)=} must be {len(right)=}")
    axes, left, wide = plots.page(_WIDTH, 2.0), 0.35, _WIDTH - 0.7
    at = left + wide * threshold
    plots.box(axes, (left, 0.5), (at - left, 1.0), plots.MIST, 0.5)
    axes.plot([left, left + wide], [0.5, 0.5], color=plots.INK, lw=1)
    axes.plot([at, at], [0.4, 1.6], color=plots.INK, lw=1.5)
    stacked: dict[float, int] = {}
    for confidence, is_right in zip(confidences, right, strict=True):
        level = stacked.get(confidence, 0)
        stacked[confidence] = level + 1
        x, y = left + wide * confidence, 0.64 + 0.17 * level
        look = {"marker": "o", "color": plots.BLUE}
        if not is_right:
            look = {"marker": "X", "color": plots.VERMILLION}
        axes.plot([x], [y], ms=7, mec="none", ls="", **look)
    for share in (0, 0.25, 0.5, 0.75, 1):
        x = left + wide * share
        axes.text(x, 0.32, f"{share:g}", ha="center", va="center_baseline")
    middle = {"ha": "center", "va": "center_baseline"}
    axes.text(_WIDTH / 2, 0.1, "confidence", color=plots.GREY, **middle)
    axes.text((left + at) / 2, 1.75, "refuses", **middle)
    axes.text((at + left + wide) / 2, 1.75, "answers", **middle)
    return axes.figure
