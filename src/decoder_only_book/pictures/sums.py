"""Pictures of sums over devices: numbers that go round a ring, and the routes that a sum can take.

    sum_beats(states, total)    what each device holds, beat by beat
    routes()                    eight devices in two machines: a ring, a tree, a hierarchy

Used by chapter 13.
"""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from decoder_only_book import plots

__all__ = ["routes", "sum_beats"]

_WIDTH, _LEFT, _ROW, _TOP = 5.0, 0.86, 0.5, 0.4
_TEXT = {"ha": "center", "va": "center_baseline", "fontsize": 10}

State = Sequence[Sequence[int]]


def sum_beats(states: Sequence[State], total: Sequence[int]) -> Figure:
    """Draw what devices hold before and after each round of messages.

    What came in the last round is orange, and a finished sum is blue.

    Args:
        states: `states[beat][p][c]` is what device p holds of column c.
        total: of each column the sum over all devices.

    Returns:
        A figure, as wide as a phone.

    Raises:
        ValueError: not as many columns as devices in some state.
    """
    n = len(total)
    for state in states:
        if len(state) != n or any(len(row) != n for row in state):
            raise ValueError(f"{state=} must have {n} devices with {n} numbers each")
    height = _TOP + _ROW * len(states) + 0.05
    axes, column = plots.page(_WIDTH, height), (_WIDTH - _LEFT) / n
    for p in range(n):
        axes.text(_LEFT + (p + 0.5) * column, height - 0.17, f"device {p}", **_TEXT)
    for beat, state in enumerate(states):
        y = height - _TOP - _ROW * (beat + 1) + 0.1
        name = f"round {beat}" if beat else "at first"
        axes.text(0.02, y + 0.18, name, **_TEXT | {"ha": "left"})
        before = states[beat - 1] if beat else state
        for p, row in enumerate(state):
            cell = (column - 0.14) / n
            for c, value in enumerate(row):
                colour = plots.BLUE if value == total[c] else None
                colour = plots.ORANGE if value != before[p][c] else colour
                corner = _LEFT + p * column + 0.07 + c * cell, y
                plots.box(axes, corner, (cell, 0.36), colour, 0.4)
                look = _TEXT | {"fontsize": 9.6}
                axes.text(corner[0] + cell / 2, y + 0.18, str(value), **look)
    return axes.figure


def routes() -> Figure:
    """Draw how a sum over two machines of four devices travels, in three ways.

    Lines between the machines, which are slow, are red.
    """
    axes = plots.page(_WIDTH, 3.25)
    for row, (name, lines) in enumerate(_ROUTES.items()):
        y = 2.62 - 1.08 * row
        axes.text(0.02, y, name, **_TEXT | {"ha": "left"})
        for machine in (0, 1):
            corner = 0.98 + 2.02 * machine, y - 0.42
            plots.box(axes, corner, (1.86, 0.84), plots.MIST, 0.25)
            if row == 0:
                middle = corner[0] + 0.93, y + 0.53
                axes.text(*middle, f"machine {machine}", **_TEXT)
        for a, b, bend in lines:
            _line(axes, y, a, b, bend)
        for p in range(8):
            look = {"facecolor": "white", "edgecolor": plots.INK, "zorder": 3}
            axes.add_patch(Circle((_place(p), y), 0.12, **look))
            look = _TEXT | {"fontsize": 9.2, "zorder": 4}
            axes.text(_place(p), y, str(p), **look)
    return axes.figure


_RING = [(p, p + 1, 0.0) for p in range(7)] + [(0, 7, -0.16)]
_TREE = [(p, p + 1, 0.0) for p in (0, 2, 4, 6)]
_TREE += [(0, 2, -0.5), (4, 6, -0.5), (0, 4, 0.22)]
_EACH = [(p, p + 1, 0.0) for p in (0, 1, 2, 4, 5, 6)] + [(0, 3, -0.3), (4, 7, -0.3)]
_ROUTES = {
    "ring": _RING,
    "tree": _TREE,
    "by machine": _EACH + [(p, p + 4, 0.2) for p in range(4)],
}


def _place(p: int) -> float:
    return 1.2 + 0.47 * p + 0.14 * (p // 4)


def _line(axes: Axes, y: float, a: int, b: int, bend: float) -> None:
    crosses = a // 4 != b // 4
    look = {"arrowstyle": "-", "connectionstyle": f"arc3,rad={bend}"}
    look |= {"color": plots.VERMILLION if crosses else plots.GREY, "linewidth": 1.4}
    plots.arrow(axes, (_place(a), y), (_place(b), y), **look)
