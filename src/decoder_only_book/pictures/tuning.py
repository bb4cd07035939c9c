"""Pictures of fine-tuning: which tokens the loss counts, and numbers of a few answers side by side.

    answer_loss(pieces, probabilities)      an instruction, its answer, and the loss of each token
    conversation(turns)                     a chat template, with the tokens whose loss counts
    answers_beside(answers, panels)         bars for the same answers, a panel for each of several

Used by chapter 12.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from decoder_only_book import plots

__all__ = ["answer_loss", "answers_beside", "conversation"]

_WIDTH = 5.0
_NAMES = 0.95  # inches, for the names of the rows


def answer_loss(pieces: Sequence[str], probabilities: Sequence[float | None]) -> Figure:
    """Draw a text token by token, and the loss of those tokens that count.

    Args:
        pieces: the tokens of an instruction and of its answer.
        probabilities: what the model gives each of them, None for a token that does not count.

    Returns:
        A figure, as wide as a phone.

    Raises:
        ValueError: another number of probabilities than of tokens, or none that counts.
    """
    if len(pieces) != len(probabilities):
        raise ValueError(f"{len(pieces)=} must be {len(probabilities)=}")
    counted = [p for p in probabilities if p is not None]
    if not counted:
        raise ValueError(f"{probabilities=} must have one that counts")
    axes = plots.page(_WIDTH, 2.2)
    for y, name in ((1.6, "token"), (1.05, "probability"), (0.6, "loss")):
        axes.text(0.05, y, name, color=plots.GREY, va="center_baseline")
    width = (_WIDTH - _NAMES - 0.05) / len(pieces)
    middle = {"ha": "center", "va": "center_baseline"}
    for place, (piece, p) in enumerate(zip(pieces, probabilities, strict=True)):
        x, is_counted = _NAMES + width * place, p is not None
        colour = plots.BLUE if is_counted else plots.MIST
        strength = 0.2 if is_counted else 0.35
        plots.box(axes, (x + 0.02, 1.42), (width - 0.04, 0.36), colour, strength)
        axes.text(x + width / 2, 1.6, piece, parse_math=False, **middle)
        said = (f"{p:g}", f"{-np.log(p):.2f}") if is_counted else ("–", "–")
        for y, text in zip((1.05, 0.6), said, strict=True):
            shade = plots.INK if is_counted else plots.GREY
            axes.text(x + width / 2, y, text, color=shade, **middle)
    first = next(i for i, p in enumerate(probabilities) if p is not None)
    for start, end, name in (
        (0, first, "instruction: read, not scored"),
        (first, len(pieces), "answer"),
    ):
        x = _NAMES + width * (start + end) / 2
        axes.text(x, 2.0, name, color=plots.GREY, **middle)
    losses = " + ".join(f"{-np.log(p):.2f}" for p in counted)
    mean = -np.mean(np.log(counted))
    axes.text(
        _WIDTH - 0.05,
        0.17,
        f"mean: ({losses}) / {len(counted)} = {mean:.2f}",
        ha="right",
        va="center_baseline",
        fontweight="bold",
    )
    return axes.figure


def conversation(turns: Sequence[Sequence[tuple[str, str]]]) -> Figure:
    """Draw a conversation in a chat template, and colour the tokens whose loss counts.

    Args:
        turns: a row for each question with its answer: who speaks, and what is said. What the
            "assistant" says counts, with the end of its turn.

    Returns:
        A figure, as wide as a phone.
    """
    axes = plots.page(_WIDTH, 0.55 * len(turns) + 0.1)
    marks = sum(3 for _ in turns[0])
    width = (_WIDTH - 0.1) / marks
    for row, line in enumerate(turns):
        y = 0.55 * (len(turns) - row) - 0.45
        cells = [
            (piece, speaker == "assistant" and place > 0)
            for speaker, said in line
            for place, piece in enumerate((f"<{speaker}>", said, "<end>"))
        ]
        for place, (piece, counts) in enumerate(cells):
            x = 0.05 + width * place
            colour, strength = (plots.BLUE, 0.2) if counts else (plots.MIST, 0.35)
            plots.box(axes, (x + 0.02, y), (width - 0.04, 0.4), colour, strength)
            look = {"ha": "center", "va": "center_baseline", "fontsize": 9.3}
            axes.text(x + width / 2, y + 0.2, piece, parse_math=False, **look)
    return axes.figure


def answers_beside(answers: Sequence[str], panels: Mapping[str, ArrayLike]) -> Figure:
    """Draw a bar for each answer, in a panel for each of several sets of numbers.

    All panels have one scale. Bars below zero have another colour than those above.

    Args:
        answers: the names of the bars.
        panels: numbers, one for each answer, by the title of their panel.

    Returns:
        A figure, as wide as a phone.

    Raises:
        ValueError: another number of numbers than of answers.
    """
    rows = {title: np.asarray(numbers, float) for title, numbers in panels.items()}
    for title, numbers in rows.items():
        if numbers.shape != (len(answers),):
            raise ValueError(f"{title}: {numbers.shape} must be ({len(answers)},)")
    every = np.concatenate([[0.0], *rows.values()])
    low, high = every.min(), every.max()
    tall, bottom = 1.25, 0.55 if low == 0 else 0.8
    axes = plots.page(_WIDTH, bottom + tall + 0.6)
    zero = bottom - tall * low / (high - low)
    scale = tall / (high - low)
    width = _WIDTH / len(rows)
    for place, (title, numbers) in enumerate(rows.items()):
        _panel(axes, width * place, width, zero, scale * numbers)
        middle = {"ha": "center", "va": "center_baseline"}
        x = width * (place + 0.5)
        axes.text(x, bottom + tall + 0.42, title, color=plots.GREY, **middle)
        step = (width - 0.3) / len(answers)
        for i, (name, number) in enumerate(zip(answers, numbers, strict=True)):
            x = width * place + 0.15 + step * (i + 0.5)
            above = number >= 0
            y = zero + scale * number + (0.13 if above else -0.13)
            said = f"{number:.2f}".replace("-", "−")
            axes.text(x, y, said, fontsize=9.5, **middle)
            axes.text(x, 0.2, name, fontsize=9.5, **middle)
    return axes.figure


def _panel(axes: Axes, x: float, width: float, zero: float, sizes: np.ndarray) -> None:
    """The bars of one panel over a line at zero."""
    step = (width - 0.3) / len(sizes)
    axes.plot((x + 0.15, x + width - 0.15), (zero, zero), color=plots.MIST, zorder=0)
    for i, size in enumerate(sizes):
        colour = plots.BLUE if size >= 0 else plots.VERMILLION
        corner = x + 0.15 + step * (i + 0.2), zero
        axes.add_patch(Rectangle(corner, 0.6 * step, size, color=colour))
