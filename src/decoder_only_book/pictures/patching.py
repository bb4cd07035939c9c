"""Pictures of interventions: what is read from the stream, written to it, and pasted into a run.

    paths(["head 3", "MLP"], lit=[(0, 1)])         parts that read the stream and write to it
    pasted_run(words, other_words, (1, 2))         two runs, and a vector of one put in the other

Used by chapters that ask what a part is for.
"""

from collections.abc import Collection, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from decoder_only_book import plots

__all__ = ["pasted_run", "paths"]

# Inches: the picture, a part, and where the stream is.
_WIDTH, _PART, _STREAM_AT = 5.0, (0.78, 0.4), 0.55
_LEFT, _ROW = 0.78, 0.3
_TEXT = {"ha": "center", "va": "center_baseline", "fontsize": 10}


def paths(
    parts: Sequence[str], *, lit: Collection[tuple[int, int]] = (), end: str = "logits"
) -> Figure:
    """Draw the stream as a line, and above it the parts that read from it and write to it.

    Args:
        parts: their names, in the order in which they read; at most 4.
        lit: pairs (writer, reader) whose path is drawn in colour. A reader that is the number of
            parts is the end of the stream.
        end: what reads the stream at its end.

    Returns:
        A figure, as wide as a phone.

    Raises:
        ValueError: too many parts, or a path that does not lead forward between two of them.
    """
    n_parts = len(parts)
    if not 1 <= n_parts <= 4:
        raise ValueError(f"{n_parts=} must be from 1 to 4")
    if wrong := [pair for pair in lit if not 0 <= pair[0] < pair[1] <= n_parts]:
        raise ValueError(f"lit={wrong[0]} must be (writer, reader), the writer first")
    axes = plots.page(_WIDTH, 1.75)
    step = (_WIDTH - 1.5) / n_parts
    start, stop = 0.72, _WIDTH - 0.72
    plots.arrow(axes, (start, _STREAM_AT), (stop, _STREAM_AT), linewidth=3.2)
    axes.text(0.36, _STREAM_AT, "stream", **_TEXT)
    axes.text(_WIDTH - 0.36, _STREAM_AT, end, **_TEXT)
    places = [0.78 + (part + 0.5) * step for part in range(n_parts)]
    for name, middle in zip(parts, places, strict=True):
        _part(axes, name, middle)
    small = _TEXT | {"fontsize": 9.5, "color": plots.GREY}
    y = _STREAM_AT + 0.34
    axes.text(places[0] - 0.33, y, "reads", **small | {"ha": "right"})
    axes.text(places[-1] + 0.33, y, "adds", **small | {"ha": "left"})
    for writer, reader in lit:
        at = places[reader] - 0.27 if reader < n_parts else stop
        ends = (places[writer] + 0.27, _STREAM_AT), (at, _STREAM_AT)
        plots.arrow(axes, *ends, color=plots.VERMILLION, linewidth=3.2)
    return axes.figure


def _part(axes: Axes, name: str, middle: float) -> None:
    """A part that reads on its left and writes, by a sum, on its right."""
    width, height = _PART
    bottom = _STREAM_AT + 0.62
    plots.box(axes, (middle - width / 2, bottom), _PART, plots.SKY, 0.3)
    axes.text(middle, bottom + height / 2, name, **_TEXT)
    for shift, ends in ((-0.27, (_STREAM_AT, bottom)), (0.27, (bottom, _STREAM_AT))):
        x = middle + shift
        plots.arrow(axes, (x, ends[0]), (x, ends[1]))


def pasted_run(
    words: Sequence[str],
    other_words: Sequence[str],
    place: tuple[int, int],
    *,
    n_layers: int = 4,
) -> Figure:
    """Draw two runs as grids of vectors, one for each layer and position, and paste one of them.

    What is pasted keeps its colour in the second run. All that it can change there is tinted: the
    same position and the later ones, in the layers above.

    Args:
        words: of the run that gives a vector.
        other_words: of the run that receives it; as many.
        place: (layer, position) of the vector.
        n_layers: rows of each grid.

    Returns:
        A figure, as wide as a phone.

    Raises:
        ValueError: the runs differ in length or have more than 7 words, or the place is in neither.
    """
    lengths = len(words), len(other_words)
    if lengths[0] != lengths[1] or not 1 <= lengths[0] <= 7:
        raise ValueError(f"{lengths=} must be equal, and at most 7")
    layer, position = place
    if not (0 <= layer < n_layers and 0 <= position < lengths[0]):
        raise ValueError(f"{place=} must be below ({n_layers}, {lengths[0]})")
    tall = _ROW * n_layers + 0.62
    axes = plots.page(_WIDTH, 2 * tall + 0.1)
    column = (_WIDTH - _LEFT - 0.1) / lengths[0]
    _grid(axes, words, tall + 0.1, n_layers, plots.BLUE, "run A")
    _grid(axes, other_words, 0.0, n_layers, plots.ORANGE, "run B")
    x = _LEFT + position * column
    for row in range(layer + 1, n_layers):
        for reached in range(position, lengths[0]):
            _cell(axes, reached, row, lengths[0], 0.0, plots.BLUE, 0.28)
    _cell(axes, position, layer, lengths[0], 0.0, plots.BLUE, 0.8)
    outline = {"facecolor": "none", "edgecolor": plots.VERMILLION, "linewidth": 1.8}
    ys = [base + 0.38 + layer * _ROW for base in (tall + 0.1, 0.0)]
    for y in ys:
        axes.add_patch(Rectangle((x + 0.02, y), column - 0.04, _ROW - 0.04, **outline))
    arrow = {"color": plots.VERMILLION, "linewidth": 1.8}
    middle = x + column / 2
    # From under the word, which the arrow would strike out.
    plots.arrow(axes, (middle, tall + 0.17), (middle, ys[1] + _ROW - 0.02), **arrow)
    return axes.figure


def _grid(
    axes: Axes, words: Sequence[str], base: float, n_layers: int, colour: str, name: str
) -> None:
    for row in range(n_layers):
        y = base + 0.38 + row * _ROW + _ROW / 2
        axes.text(_LEFT - 0.08, y, f"layer {row}", **_TEXT | {"ha": "right"})
        for column in range(len(words)):
            strength = 0.8 if colour == plots.BLUE else 0.35
            _cell(axes, column, row, len(words), base, colour, strength)
    width = (_WIDTH - _LEFT - 0.1) / len(words)
    for column, word in enumerate(words):
        axes.text(_LEFT + (column + 0.5) * width, base + 0.2, word, **_TEXT)
    axes.text(0.05, base + 0.2, name, **_TEXT | {"ha": "left", "color": plots.GREY})


def _cell(
    axes: Axes,
    column: int,
    row: int,
    n: int,
    base: float,
    colour: str,
    strength: float,
) -> None:
    width = (_WIDTH - _LEFT - 0.1) / n
    corner = _LEFT + column * width + 0.02, base + 0.38 + row * _ROW
    plots.box(axes, corner, (width - 0.04, _ROW - 0.04), colour, strength)
