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
# Inches: positions, hidden units, one device.
_TALL, _LONG, _ROW = 0.72, 0.88, 1.16


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
    width, height = plots.WIDTH, n_devices * _ROW + 1.15
    axes = plots.page(width, height)
    bottom, top = 0.55, 0.55 + n_devices * _ROW
    for x, at, side, forward, backward in (
        (0.58, 0.02, "left", "copy", "all-reduce"),
        (4.25, plots.WIDTH - 0.02, "right", "all-reduce", "copy"),
    ):
        bar = {"facecolor": plots.INK, "edgecolor": "none", "alpha": 0.8}
        axes.add_patch(Rectangle((x, bottom), 0.08, n_devices * _ROW - 0.1, **bar))
        _write(axes, at, top + 0.22, f"forward: {forward}", ha=side)
        _write(axes, at, 0.33, f"backward: {backward}", ha=side)
    centre = (bottom + top - 0.1) / 2
    for x, name, arrow in ((0.03, "$x$", (0.36, 0.57)), (4.55, "$y$", (4.34, 4.54))):
        plots.box(axes, (x, centre - _TALL / 2), (0.32, _TALL), plots.GREY, 0.25)
        _write(axes, x + 0.16, centre, name)
        plots.arrow(axes, (arrow[0], centre), (arrow[1], centre))
    for p in range(n_devices):
        _device(axes, p, n_devices, top - (p + 1) * _ROW + 0.1)
    return axes.figure


def _device(axes: Axes, p: int, n: int, y: float) -> None:
    colour, middle, slab = _COLOURS[p], y + 0.46, _LONG / n
    low = middle - _TALL / 2
    axes.text(0.74, y + 1.0, f"device {p}", fontsize=9.2, color=plots.GREY, va="top")
    # What a device holds of a matrix is filled; the rest of it is an outline.
    plots.box(axes, (0.8, middle - 0.18), (_LONG, 0.36))
    plots.box(axes, (0.8 + p * slab, middle - 0.18), (slab, 0.36), colour, 0.55)
    _write(axes, 0.8 + _LONG / 2, middle - 0.34, r"$W^{up}$ by columns", fontsize=9.2)
    plots.arrow(axes, (0.8 + _LONG + 0.04, middle), (1.95, middle))
    plots.box(axes, (2.0, low), (slab, _TALL), colour, 0.3)
    _write(axes, 2.0 + slab / 2, middle, f"$h_{p}$")
    plots.arrow(axes, (2.04 + slab, middle), (2.62, middle))
    plots.box(axes, (2.67, middle - _LONG / 2), (0.36, _LONG))
    slot = middle + _LONG / 2 - (p + 1) * slab
    plots.box(axes, (2.67, slot), (0.36, slab), colour, 0.55)
    _write(axes, 3.08, middle, "$W^{down}$\nby rows", fontsize=9.2, ha="left")
    plots.arrow(axes, (3.56, middle), (3.74, middle))
    plots.box(axes, (3.78, low), (0.3, _TALL), colour, 0.3)
    _write(axes, 3.93, middle, f"$y_{p}$")
    plots.arrow(axes, (4.1, middle), (4.24, middle))


def _write(axes: Axes, x: float, y: float, text: str, **look: object) -> None:
    axes.text(
        x, y, text, **{"ha": "center", "va": "center_baseline", "fontsize": 10, **look}
    )
