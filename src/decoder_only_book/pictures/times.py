"""Pictures of devices that work together: what each does over time, and what goes round a ring.

    lanes({"device 0": [(0, 2, "forward"), (3, 5, "backward")]})    a lane for each device
    ring_beats(4)                                                   keys and values go round

Used by chapters 13 and 16.
"""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from decoder_only_book import plots

__all__ = ["lanes", "ring_beats"]

_WIDTH, _LEFT, _LANE = 5.0, 0.82, 0.42
_COLOURS = (plots.BLUE, plots.ORANGE, plots.GREEN, plots.PURPLE, plots.SKY)
_TEXT = {"ha": "center", "va": "center_baseline", "fontsize": 10}


def lanes(
    tasks: Mapping[str, Sequence[tuple[float, float, str]]], *, unit: str = "time"
) -> Figure:
    """Draw what each device does when, a lane for each; an empty stretch is a wait.

    A task of one name has one colour in all lanes. What comes before a colon is the name, so that
    "forward: 2" and "forward: 3" are alike, and what comes after it is written in the box.

    Args:
        tasks: for each device, (start, end, name) of what it does.
        unit: what the axis below counts.

    Returns:
        A figure, as wide as a phone.

    Raises:
        ValueError: a task ends before it starts, two of one device overlap, or there are more kinds
            than colours.
    """
    kinds = list(dict.fromkeys(_kind(t[2]) for lane in tasks.values() for t in lane))
    if len(kinds) > len(_COLOURS):
        raise ValueError(f"{kinds=} must be at most {len(_COLOURS)}")
    for device, lane in tasks.items():
        _check_lane(device, lane)
    stop = max(end for lane in tasks.values() for _, end, _ in lane)
    height = _LANE * len(tasks) + 0.82
    axes, scale = plots.page(_WIDTH, height), (_WIDTH - _LEFT - 0.1) / stop
    for index, (device, lane) in enumerate(tasks.items()):
        y = height - 0.4 - _LANE * (index + 1)
        axes.text(_LEFT - 0.08, y + 0.16, device, **_TEXT | {"ha": "right"})
        idle = {"facecolor": plots.MIST, "alpha": 0.35, "edgecolor": "none"}
        axes.add_patch(Rectangle((_LEFT, y), stop * scale, 0.32, **idle))
        for start, end, name in lane:
            colour = _COLOURS[kinds.index(_kind(name))]
            size = (end - start) * scale, 0.32
            plots.box(axes, (_LEFT + start * scale, y), size, colour, 0.45)
            said = name.partition(":")[2].strip()
            axes.text(_LEFT + (start + end) / 2 * scale, y + 0.16, said, **_TEXT)
    plots.arrow(axes, (_LEFT, 0.3), (_WIDTH - 0.1, 0.3))
    axes.text(_WIDTH - 0.1, 0.13, unit, **_TEXT | {"ha": "right"})
    _legend(axes, kinds, height - 0.17)
    return axes.figure


def _kind(name: str) -> str:
    return name.partition(":")[0].strip()


def _check_lane(device: str, lane: Sequence[tuple[float, float, str]]) -> None:
    free = 0.0
    for start, end, name in sorted(lane):
        if not free <= start < end:
            raise ValueError(
                f"{device}: {name!r} from {start:g} to {end:g} must begin at {free:g} or later, "
                "and end after it begins"
            )
        free = end


def _legend(axes: plots.Axes, kinds: Sequence[str], y: float) -> None:
    step = (_WIDTH - _LEFT) / max(len(kinds), 3)
    for index, kind in enumerate(kinds):
        x = _LEFT + index * step
        plots.box(axes, (x, y - 0.07), (0.22, 0.15), _COLOURS[index], 0.45)
        axes.text(x + 0.28, y, kind, **_TEXT | {"ha": "left"})


def ring_beats(n_devices: int = 4) -> Figure:
    """Draw ring attention beat by beat: queries stay, keys and values move on by one device.

    Under each device, its strip shows which blocks of keys its queries have met. A block from the
    future is passed on unread, as the causal mask hides it.

    Args:
        n_devices: P, from 2 to 4.

    Returns:
        A figure, as wide as a phone.

    Raises:
        ValueError: more devices than can be told apart, or a single one.
    """
    if n_devices not in (2, 3, 4):
        raise ValueError(f"{n_devices=} must be 2, 3 or 4")
    column, row = (_WIDTH - 0.75) / n_devices, 0.98
    height = row * n_devices + 0.42
    axes = plots.page(_WIDTH, height)
    for p in range(n_devices):
        middle = 0.75 + (p + 0.5) * column
        axes.text(middle, height - 0.17, f"device {p}", **_TEXT)
    for beat in range(n_devices):
        top = height - 0.36 - beat * row
        axes.text(0.36, top - 0.27, f"beat {beat + 1}", **_TEXT)
        for p in range(n_devices):
            _station(axes, p, beat, n_devices, (0.75 + p * column, top))
    return axes.figure


def _station(
    axes: plots.Axes, p: int, beat: int, n: int, corner: tuple[float, float]
) -> None:
    """One device in one beat: its queries, the keys that it holds now, and what it has met."""
    x, top = corner
    held = (p - beat) % n
    column = (_WIDTH - 0.75) / n
    side = min(0.42, (column - 0.2) / 2)
    for index, (letter, owner) in enumerate((("q", p), ("kv", held))):
        left = x + 0.06 + index * (side + 0.04)
        unread = index == 1 and held > p
        strength = 0.12 if unread else 0.5
        plots.box(axes, (left, top - 0.48), (side, 0.42), _COLOURS[owner], strength)
        look = _TEXT | {"color": plots.GREY if unread else plots.INK, "fontsize": 9.6}
        axes.text(
            left + side / 2,
            top - 0.27,
            "$" + r"\,".join(f"{x}_{owner}" for x in letter) + "$",
            **look,
        )
    met = {(p - earlier) % n for earlier in range(beat + 1)}
    cell = (2 * side + 0.04) / n
    for block in range(n):
        seen = _COLOURS[block] if block in met and block <= p else None
        place = x + 0.06 + block * cell, top - 0.7
        plots.box(axes, place, (cell, 0.14), seen, 0.6)
    if p < n - 1 and beat < n - 1:
        start = x + 0.1 + 2 * side
        plots.arrow(axes, (start, top - 0.46), (x + column + 0.1 + side, top - 0.95))
