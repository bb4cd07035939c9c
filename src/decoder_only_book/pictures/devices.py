"""The picture of one part on several devices: columns, then rows, then a sum.

    divided_part(2)    x W_up, the nonlinearity, and its rows of W_down, once for each device

Used by chapter 13.
"""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from decoder_only_book import plots

__all__ = ["divided_part"]

_COLOURS = (plots.BLUE, plots.ORANGE, plots.GREEN, plots.PURPLE)
_TALL, _LONG, _ROW = 0.78, 1.04, 1.2  # inches: positions, hidden units, one device


def divided_part(n_devices: int) -> Figure:
    """An MLP whose hidden units are divided: what each device holds, and where all communicate.

    Args:
        n_devices: P, from 2 to 4.

    Returns:
        A figure, about as wide as the page.

    Raises:
        ValueError: more devices than can be told apart, or a single one.
    """
    if n_devices not in (2, 3, 4):
        raise ValueError(f"{n_devices=} must be 2, 3 or 4")
    width, height = 6.9, n_devices * _ROW + 1.15
    axes = plots.page(width, height)
    bottom, top = 0.55, 0.55 + n_devices * _ROW
    for x, forward, backward in (
        (0.95, "copy", "all-reduce"),
        (5.75, "all-reduce", "copy"),
    ):
        bar = {"facecolor": plots.INK, "edgecolor": "none", "alpha": 0.8}
        axes.add_patch(Rectangle((x, bottom), 0.09, n_devices * _ROW - 0.1, **bar))
        middle = x + 0.045
        _write(axes, middle, top + 0.22, f"forward: {forward}", fontsize=10.5)
        _write(axes, middle, 0.33, f"backward: {backward}", fontsize=10.5)
    centre = (bottom + top - 0.1) / 2
    for x, name, arrow in ((0.2, "$x$", (0.62, 0.93)), (6.35, "$y$", (5.86, 6.32))):
        plots.box(axes, (x, centre - _TALL / 2), (0.4, _TALL), plots.GREY, 0.25)
        _write(axes, x + 0.2, centre, name)
        plots.arrow(axes, (arrow[0], centre), (arrow[1], centre))
    for p in range(n_devices):
        _device(axes, p, n_devices, top - (p + 1) * _ROW + 0.1)
    return axes.figure


def _device(axes: Axes, p: int, n: int, y: float) -> None:
    colour, middle, slab = _COLOURS[p], y + 0.46, _LONG / n
    low = middle - _TALL / 2
    axes.text(1.14, y + 1.0, f"device {p}", fontsize=9.5, color=plots.GREY, va="top")
    # What a device holds of a matrix is filled; the rest of it is an outline.
    plots.box(axes, (1.2, middle - 0.2), (_LONG, 0.4))
    plots.box(axes, (1.2 + p * slab, middle - 0.2), (slab, 0.4), colour, 0.55)
    _write(axes, 1.2 + _LONG / 2, middle - 0.34, r"$W^{up}$ by columns", fontsize=9)
    plots.arrow(axes, (2.3, middle), (2.62, middle))
    plots.box(axes, (2.7, low), (slab, _TALL), colour, 0.3)
    _write(axes, 2.7 + slab / 2, middle, f"$h_{p}$")
    plots.arrow(axes, (2.78 + slab, middle), (3.55, middle))
    plots.box(axes, (3.65, middle - _LONG / 2), (0.4, _LONG))
    slot = middle + _LONG / 2 - (p + 1) * slab
    plots.box(axes, (3.65, slot), (0.4, slab), colour, 0.55)
    _write(axes, 4.12, middle, "$W^{down}$\nby rows", fontsize=9, ha="left")
    plots.arrow(axes, (4.78, middle), (5.02, middle))
    plots.box(axes, (5.1, low), (0.4, _TALL), colour, 0.3)
    _write(axes, 5.3, middle, f"$y_{p}$")
    plots.arrow(axes, (5.53, middle), (5.73, middle))


def _write(axes: Axes, x: float, y: float, text: str, **look: object) -> None:
    axes.text(
        x, y, text, **{"ha": "center", "va": "center_baseline", "fontsize": 12, **look}
    )
