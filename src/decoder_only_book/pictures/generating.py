"""Pictures of how a text is written, token by token.

    filtered(rows, {"top-k": kept})     which tokens a filter keeps, in several distributions
    branches(tree, columns)             texts of two words as a tree, with numbers for each text
    work(5)                             what is computed at each step, without and with a cache
    padded(prompts)                     prompts of several lengths, which end together
    judged(draft, target, words)        what a target accepts of a draft, and what it adds

Used by chapter 16.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from decoder_only_book import plots

__all__ = ["branches", "filtered", "judged", "padded", "work"]

_PHONE = 4.8
_NEW, _KEPT = plots.VERMILLION, "#C9DFF0"
_MIDDLE = {"ha": "center", "va": "center_baseline"}

Tree = Mapping[str, tuple[float, Mapping[str, float]]]


def filtered(rows: Mapping[str, ArrayLike], kept: Mapping[str, ArrayLike]) -> Figure:
    """Draw several distributions, and in each the tokens that each filter keeps.

    Args:
        rows: by name, the probabilities of the tokens.
        kept: for each filter, by its name, which tokens it keeps: (row, v).

    Returns:
        A figure, as wide as a phone. Bars of a row are in proportion to its largest.

    Raises:
        ValueError: a filter that was not asked about every token of every row.
    """
    shapes = {name: np.shape(mask) for name, mask in kept.items()}
    wanted = (len(rows), len(next(iter(rows.values()))))
    if any(shape != wanted for shape in shapes.values()):
        raise ValueError(f"{shapes=} must be {wanted}")
    left, pitch = 0.92, 1.0
    step = (_PHONE - left) / len(kept)
    axes = plots.page(_PHONE, pitch * len(rows) + 0.42)
    for column, (name, masks) in enumerate(kept.items()):
        x, top = left + step * column, pitch * len(rows)
        axes.text(x + step / 2 - 0.06, top + 0.2, name, fontsize=10, **_MIDDLE)
        for row, (label, chances) in enumerate(rows.items()):
            y = top - pitch * (row + 1) + 0.16
            if column == 0:
                axes.text(0.02, y + 0.3, label, va="center_baseline", fontsize=10)
            _bars(axes, (x, y), step - 0.2, np.asarray(chances), np.asarray(masks)[row])
    return axes.figure


def _bars(
    axes: Axes,
    corner: tuple[float, float],
    width: float,
    chances: np.ndarray,
    mask: np.ndarray,
) -> None:
    """One distribution, with what is kept filled."""
    slot = width / len(chances)
    for i, (chance, stays) in enumerate(zip(chances, mask, strict=True)):
        look = {"facecolor": plots.BLUE if stays else "none", "linewidth": 1}
        look["edgecolor"] = plots.BLUE if stays else plots.MIST
        height = max(0.68 * chance / chances.max(), 0.03)
        place = corner[0] + i * slot, corner[1]
        axes.add_patch(Rectangle(place, slot * 0.72, height, **look))
    ends = (corner[0] - 0.03, corner[0] + width)
    axes.plot(ends, (corner[1],) * 2, color=plots.MIST, linewidth=1)


def branches(
    tree: Tree,
    columns: Mapping[str, Sequence[str]],
    *,
    lit: Collection[str] = (),
    forbidden: Collection[str] = (),
) -> Figure:
    """Draw texts of two words as a tree, a row for each text.

    Args:
        tree: for each first word its probability, and those of the words that may follow it.
        columns: by title, what is written at the right of each text.
        lit: texts whose branches are coloured, such as "a x".
        forbidden: texts that may not be written; their last branch is dashed.

    Returns:
        A figure, as wide as a phone.

    Raises:
        ValueError: a column that has not one entry for each text.
    """
    texts = [f"{one} {two}" for one, (_, after) in tree.items() for two in after]
    for title, column in columns.items():
        if len(column) != len(texts):
            raise ValueError(f"{title!r} has {len(column)} entries for {len(texts)}")
    pitch = 0.42
    top = pitch * len(texts) + 0.06
    axes = plots.page(_PHONE, top + 0.36)
    places = np.linspace(2.75, _PHONE - 0.35, max(len(columns), 2))
    for x, title in zip(places, columns, strict=False):
        axes.text(x, top + 0.16, title, color=plots.GREY, fontsize=10, **_MIDDLE)
    root, done = (0.1, top - pitch * len(texts) / 2), 0
    for first, (chance, after) in tree.items():
        y = top - pitch * (done + len(after) / 2)
        begun = any(f"{first} {two}" in lit for two in after)
        _branch(axes, root, (0.78, y), f"{chance:g}", is_lit=begun)
        axes.text(0.98, y, first, fontsize=10.5, **_MIDDLE)
        for row, (second, next_chance) in enumerate(after.items()):
            text, end = f"{first} {second}", top - pitch * (done + row + 0.5)
            look = {"is_lit": text in lit, "dashed": text in forbidden}
            _branch(axes, (1.2, y), (1.98, end), f"{next_chance:g}", **look)
            weight = "bold" if text in lit else "normal"
            ink = plots.GREY if text in forbidden else plots.INK
            word = {"fontweight": weight, "color": ink, "va": "center_baseline"}
            axes.text(2.04, end, second, fontsize=10.5, **word)
            for x, column in zip(places, columns.values(), strict=False):
                said = column[done + row]
                look = {"color": ink, "fontweight": weight}
                axes.text(x, end, said, fontsize=10.5, **_MIDDLE, **look)
        done += len(after)
    return axes.figure


def _branch(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    chance: str,
    *,
    is_lit: bool = False,
    dashed: bool = False,
) -> None:
    """A line with a probability on it."""
    colour = _NEW if is_lit else plots.MIST
    style = (0, (3, 2)) if dashed else "-"
    width = 2.0 if is_lit else 1.2
    axes.plot((start[0], end[0]), (start[1], end[1]), color=colour, lw=width, ls=style)
    middle = (
        start[0] + 0.55 * (end[0] - start[0]),
        start[1] + 0.55 * (end[1] - start[1]),
    )
    back = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    axes.text(*middle, chance, fontsize=9.6, bbox=back, **_MIDDLE)


def work(steps: int) -> Figure:
    """Draw which positions are computed at each step, without a cache and with one.

    Args:
        steps: tokens that come, a row for each.

    Returns:
        A figure, as wide as a phone.

    Raises:
        ValueError: no steps, or more than there is room for.
    """
    if steps not in range(1, 9):
        raise ValueError(f"{steps=} must be from 1 to 8")
    cell, rights = 0.27, (0.62, 2.95)
    top = cell * 1.2 * steps + 0.12
    axes = plots.page(_PHONE, top + 0.62)
    for left, cached in zip(rights, (False, True), strict=True):
        count = steps if cached else steps * (steps + 1) // 2
        title = f"{'with' if cached else 'without'} a cache: {count}"
        axes.text(left, top + 0.42, title, fontsize=10.5, va="center_baseline")
        for s in range(steps):
            y = top - cell * 1.2 * (s + 1)
            for t in range(s + 1):
                is_new = not cached or t == s
                look = {"facecolor": _NEW if is_new else _KEPT, "linewidth": 0.8}
                corner = left + cell * t, y
                axes.add_patch(Rectangle(corner, cell, cell, edgecolor="white", **look))
    for s in range(steps):
        y = top - cell * 1.2 * (s + 0.5) - cell * 0.1
        axes.text(0.04, y, f"step {s + 1}", fontsize=9.6, va="center_baseline")
    axes.text(rights[0], top + 0.14, "positions", color=plots.GREY, fontsize=9.6)
    return axes.figure


def padded(prompts: Sequence[Sequence[str]]) -> Figure:
    """Draw prompts of several lengths as rows that end together, with the positions of tokens.

    Args:
        prompts: the tokens of each.

    Returns:
        A figure, as wide as a phone.

    Raises:
        ValueError: a prompt without a token.
    """
    if not all(prompts):
        raise ValueError(f"{prompts=} must have a token each")
    length = max(map(len, prompts))
    cell, high = (_PHONE - 0.75) / length, 0.34
    axes = plots.page(_PHONE, 0.78 * len(prompts) + 0.1)
    for row, prompt in enumerate(prompts):
        y = 0.78 * (len(prompts) - row - 1) + 0.34
        axes.text(0.02, y + high / 2, f"row {row}", fontsize=10, va="center_baseline")
        axes.text(
            0.02,
            y - 0.13,
            "position",
            color=plots.GREY,
            fontsize=9.2,
            va="center_baseline",
        )
        for s in range(length):
            skipped = length - len(prompt)
            is_real = s >= skipped
            x = 0.72 + cell * s
            colour = plots.BLUE if is_real else None
            plots.box(axes, (x, y), (cell * 0.94, high), colour, 0.25)
            said = prompt[s - skipped] if is_real else "–"
            ink = plots.INK if is_real else plots.GREY
            centre = x + cell * 0.47
            axes.text(centre, y + high / 2, said, fontsize=10, color=ink, **_MIDDLE)
            if is_real:
                place = str(s - skipped)
                axes.text(centre, y - 0.13, place, fontsize=9.6, **_MIDDLE)
    return axes.figure


def judged(draft: ArrayLike, target: ArrayLike, words: Sequence[str]) -> Figure:
    """Draw a draft's distribution beside the target's, and what both have in common.

    Args:
        draft, target: a probability for each word.
        words: what can come.

    Returns:
        A figure, as wide as a phone.

    Raises:
        ValueError: not as many probabilities as words.
    """
    draft, target = np.asarray(draft, float), np.asarray(target, float)
    if not draft.shape == target.shape == (len(words),):
        raise ValueError(f"{draft.shape=}, {target.shape=} must be ({len(words)},)")
    step, high, left = (_PHONE - 0.4) / len(words), 1.35, 0.2
    axes = plots.page(_PHONE, high + 1.0)
    scale = high / max(draft.max(), target.max())
    for i, word in enumerate(words):
        x = left + step * i
        common = min(draft[i], target[i])
        for by, whole, extra in (
            (0.0, draft[i], plots.MIST),
            (0.46, target[i], plots.ORANGE),
        ):
            place, width = x + step * (0.06 + by), step * 0.4
            bars = ((0, common, plots.BLUE), (common, whole - common, extra))
            for start, size, colour in bars:
                corner = place, 0.34 + start * scale
                look = {"facecolor": colour, "edgecolor": "white", "linewidth": 0.8}
                axes.add_patch(Rectangle(corner, width, size * scale, **look))
            said = f"{whole:.2f}"
            above = 0.34 + whole * scale + 0.1
            axes.text(place + width / 2, above, said, fontsize=9.6, **_MIDDLE)
        axes.text(x + step * 0.49, 0.14, word, fontsize=10.5, **_MIDDLE)
    axes.plot((left, _PHONE - 0.2), (0.34, 0.34), color=plots.MIST, linewidth=1)
    labels = {
        "accepted": plots.BLUE,
        "rejected": plots.MIST,
        "drawn instead": plots.ORANGE,
    }
    for i, (label, colour) in enumerate(labels.items()):
        x = left + 1.4 * i
        look = {"facecolor": colour, "edgecolor": "none"}
        axes.add_patch(Rectangle((x, high + 0.76), 0.2, 0.14, **look))
        axes.text(x + 0.27, high + 0.83, label, fontsize=10, va="center_baseline")
    return axes.figure
