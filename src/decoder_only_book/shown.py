"""How a notebook displays its figures: as SVG, all of them drawn, or most of them laid out only.

    show_as_svg()      in a notebook: from now on figures are displayed and stored as SVG

The checks compare no drawings, and to draw is half of the work of a chapter. They set
DECODER_ONLY_DRAWN=3/8, say: of eight figures in a row number 3 is drawn, counted from 0. The
others are laid out, which runs everything that the code of a chapter gave them, and is where a
figure fails that cannot be drawn. Used by every chapter.
"""

import itertools
import os
import sys
from collections.abc import Callable

from matplotlib.figure import Figure

from decoder_only_book.vector import svg

__all__ = ["show_as_svg"]


def show_as_svg() -> None:
    """Display figures as SVG in the notebook that runs this; elsewhere, do nothing."""
    if "IPython" not in sys.modules:
        return
    shell = sys.modules["IPython"].get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return
    # It chooses its own formats when it is imported, and not again.
    import matplotlib_inline.backend_inline  # noqa: F401

    formatters = shell.display_formatter.formatters
    for formatter in formatters.values():
        formatter.pop(Figure, None)
    drawn = os.environ.get("DECODER_ONLY_DRAWN", "0/1")
    formatters["image/svg+xml"].for_type(
        Figure, _some_drawn(*map(int, drawn.split("/")))
    )


def _some_drawn(number: int, of: int) -> Callable[[Figure], str]:
    """What makes a figure's SVG: whole for one number of so many in a row, else an empty one."""
    numbers = itertools.cycle(range(of))

    def shown(figure: Figure) -> str:
        if next(numbers) == number:
            return svg(figure)
        figure.draw_without_rendering()
        return "<svg/>"

    return shown
