"""Figures as SVG whose text is text: drawn alike everywhere, and once more for a narrow screen.

    svg(figure)        the text of the file

A figure with several columns is drawn twice. The file shows the wide drawing; the narrow one is
hidden in it, as an `<svg>` of the class `narrow`, and the built book shows the one that fits.
Coordinates are rounded to a hundredth of a point, and names are numbered, so that the same figure
is the same file on every machine. Used by every chapter.
"""

import io
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.gridspec import GridSpec
from matplotlib.lines import Line2D
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from PIL import Image

from decoder_only.plots import WIDE, WIDTH

__all__ = ["svg"]

_SVG = "{http://www.w3.org/2000/svg}"
_PNG = "data:image/png;base64,"
_LINK = "{http://www.w3.org/1999/xlink}href"
# More marks than this are stored as pixels; as shapes they would take more room than the rest.
_MANY = 1_500
_DOTS_PER_INCH = 144
_FONTS = "'DejaVu Sans',Verdana,sans-serif"
_ROOT = f"stroke-linejoin:round;stroke-linecap:butt;font-family:{_FONTS}"


def svg(figure: Figure) -> str:
    """Draw a figure as the text of an SVG file, wide, and narrow too if it has several columns.

    Args:
        figure: it is left as it was.

    Returns:
        One `<svg>` element. Its size is in points.
    """
    panels = _panels(figure)
    n_columns = max((axes.get_gridspec().ncols for axes in panels), default=1)
    with _as_pixels(figure):
        if n_columns == 1:
            return _written(_drawn(figure, "p"))
        wide = WIDE * figure.get_figwidth() / WIDTH
        with _sized(figure, wide, figure.get_figheight()):
            root = _drawn(figure, "p")
        with _narrow(figure, panels) as is_column:
            inner = _drawn(figure, "n")
    inner.set("class", "narrow column" if is_column else "narrow")
    inner.set("display", "none")
    root.append(inner)
    return _written(root)


# --------------------------------------------------------------------------------- the narrow one


def _panels(figure: Figure) -> list[Axes]:
    """The axes of the figure's grid with a frame; those of a drawing keep their places."""
    framed = [a for a in figure.axes if a.axison or a.name == "3d"]
    return [a for a in framed if a.get_subplotspec() is not None]


@contextmanager
def _sized(figure: Figure, width: float, height: float) -> Iterator[None]:
    size = figure.get_size_inches().copy()
    figure.set_size_inches(width, height)
    try:
        yield
    finally:
        figure.set_size_inches(size)


@contextmanager
def _narrow(figure: Figure, panels: list[Axes]) -> Iterator[bool]:
    """Put two or three columns one below the other, and four in two rows.

    Panels without a scale read well in a row of any width, and keep it.

    Yields whether the panels are now in one column.
    """
    height, places = figure.get_figheight(), {}
    shapes = {(a.get_gridspec().nrows, a.get_gridspec().ncols) for a in panels}
    (n_rows, n), *others = shapes
    before = {axes: axes.get_subplotspec() for axes in panels}
    have_scales = any(len(axes.get_xticks()) for axes in panels)
    if n_rows == 1 and n <= 4 and have_scales and not others:
        n_columns = 2 if n == 4 else 1
        grid = GridSpec(n // n_columns, n_columns, figure=figure)
        places = {axes: grid[before[axes].num1] for axes in panels}
        height *= 0.92 * n / n_columns
    with _sized(figure, figure.get_figwidth(), height), _said_by_each(places):
        for axes, place in places.items():
            axes.set_subplotspec(place)
        try:
            yield bool(places) and n <= 3
        finally:
            for axes in places:
                axes.set_subplotspec(before[axes])


@contextmanager
def _said_by_each(places: dict[Axes, object]) -> Iterator[None]:
    """What a row of panels says once, at its left end, each panel says that now begins a row."""
    beginning = [a for a, place in places.items() if not place.colspan.start]
    first, *others = beginning or [None]
    undo = []
    for axes in others:
        axis, own = axes.yaxis, axes.yaxis.get_tick_params()
        is_twin = axes.get_subplotspec() == first.get_subplotspec()
        if is_twin or axes.name == "3d":
            continue
        if not axes.get_ylabel() and axis.get_label_position() == "left":
            undo.append((axes.set_ylabel, axes.get_ylabel()))
            axes.set_ylabel(first.get_ylabel(), fontsize=first.yaxis.label.get_size())
        shared = axes.get_shared_y_axes().joined(axes, first)
        same = axes.get_ylim() == first.get_ylim()
        if shared and not own.get("labelleft", True):
            undo.append((lambda on, a=axes: a.tick_params(labelleft=on), False))
            axes.tick_params(labelleft=True)
        elif not len(axes.get_yticks()) and len(first.get_yticks()) and same:
            labels = [label.get_text() for label in first.get_yticklabels()]
            undo.append((axes.set_yticks, []))
            axes.set_yticks(first.get_yticks(), labels, parse_math=False)
            axes.tick_params(
                axis="y", labelsize=first.yaxis.get_ticklabels()[0].get_size()
            )
    try:
        yield
    finally:
        for restore, value in undo:
            restore(value)


@contextmanager
def _as_pixels(figure: Figure) -> Iterator[None]:
    """Artists of very many marks become pictures inside the drawing."""
    many = [
        artist for artist in figure.findobj(_is_dense) if not artist.get_rasterized()
    ]
    for artist in many:
        artist.set_rasterized(True)
    try:
        yield
    finally:
        for artist in many:
            artist.set_rasterized(None)


def _is_dense(artist: Artist) -> bool:
    if isinstance(artist, PathCollection):
        return len(artist.get_offsets()) > _MANY
    has_marks = isinstance(artist, Line2D) and artist.get_marker() not in (
        "None",
        "",
        None,
    )
    return has_marks and len(artist.get_xdata()) > _MANY


# ------------------------------------------------------------------------------------- the writing


def _drawn(figure: Figure, prefix: str) -> ElementTree.Element:
    """The figure as matplotlib draws it, without what nobody needs; names begin with a prefix."""
    file = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(
            file,
            format="svg",
            dpi=_DOTS_PER_INCH,
            bbox_inches="tight",
            pad_inches=0.03,
            metadata={"Date": None},
        )
    root = ElementTree.fromstring(file.getvalue())
    _tidy(root)
    _renumber(root, prefix)
    _unwrap(root)
    root.attrib.pop("version", None)
    root.set("style", _ROOT)
    return root


def _tidy(element: ElementTree.Element) -> None:
    """Round numbers, shorten styles, and leave out groups that say nothing."""
    for child in list(element):
        if child.tag.endswith("metadata") or child.tag == f"{_SVG}style":
            element.remove(child)
            continue
        _tidy(child)
        if child.tag == f"{_SVG}defs" and not len(child):
            element.remove(child)
    element.text = (element.text or "").strip(" \n") or (
        " " if _is_space(element) else None
    )
    element.tail = None
    if element.tag == f"{_SVG}text":
        _in_reading_order(element)
    elif element.tag == f"{_SVG}g":
        _outline_signs(element)
    if _LINK in element.attrib:
        link = element.attrib.pop(_LINK)
        is_image = link.startswith(_PNG)
        element.set("href", _small(link) if is_image else link)
    if element.get("id", "").startswith("image"):
        del element.attrib["id"]
    for name in ("d", "x", "y", "width", "height", "transform", "viewBox"):
        if name in element.attrib:
            element.set(name, _rounded(element.get(name), name))
    if re.fullmatch(r"rotate\(-?0 [-\d. ]+\)", element.get("transform", "")):
        del element.attrib["transform"]
    if "style" in element.attrib:
        element.set("style", _short_style(element.get("style")))
        if not element.get("style"):
            del element.attrib["style"]
    _share_style(element)


def _small(link: str) -> str:
    """A picture of few colours as numbers of colours, which takes a third of the room."""
    pixels = np.asarray(Image.open(io.BytesIO(b64decode(link.removeprefix(_PNG)))))
    # One number for the four bytes of a pixel: sorting these is much faster than sorting rows.
    words = np.ascontiguousarray(pixels).view(">u4").ravel()
    words, numbers = np.unique(words, return_inverse=True)
    if len(words) > 256:
        return link.replace("\n", "")
    colours = words.view(np.uint8).reshape(-1, 4)
    image = Image.fromarray(numbers.reshape(pixels.shape[:2]).astype(np.uint8), "P")
    image.putpalette(colours[:, :3].tobytes())
    opacity = (
        {} if colours[:, 3].min() == 255 else {"transparency": colours[:, 3].tobytes()}
    )
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True, **opacity)
    return _PNG + b64encode(file.getvalue()).decode()


def _is_space(element: ElementTree.Element) -> bool:
    return element.tag == f"{_SVG}tspan" and element.text == " "


def _in_reading_order(text: ElementTree.Element) -> None:
    """A formula comes as single glyphs, sorted by font; a reader searches for words."""
    glyphs = sorted(text, key=lambda glyph: float(glyph.get("x", "0").split()[0]))
    for glyph in glyphs:
        text.remove(glyph)
    last = None
    for glyph in glyphs:
        alike = last is not None and all(
            last.get(name) == glyph.get(name) for name in ("y", "style")
        )
        if alike and last.text and glyph.text:
            last.text += glyph.text
            last.set("x", f"{last.get('x')} {glyph.get('x')}")
        else:
            text.append(glyph)
            last = glyph


def _outline_signs(group: ElementTree.Element) -> None:
    """Roots and large brackets come from fonts of their own; they become shapes.

    A prime is a zero of such a font, and becomes the sign that it is.
    """
    for text in group.findall(f"{_SVG}text"):
        for glyph in list(text):
            found = re.search(r"font-family:'(STIX\w+|cm\w+)'", glyph.get("style", ""))
            if not found:
                continue
            style = glyph.get("style").replace(f";{found[0]}", "")
            if (found[1], glyph.text) == ("cmsy10", "0"):
                glyph.text = "′"
                glyph.set("style", style)
                continue
            size = float(re.search(r"font-size:([\d.]+)px", style)[1])
            place = float(glyph.get("x")), -float(glyph.get("y"))
            outline = TextPath(place, glyph.text, size, prop=FontProperties(found[1]))
            vertices = outline.vertices * (1, -1)
            d = _path(vertices, outline.codes)
            ElementTree.SubElement(group, f"{_SVG}path", {"d": d})
            text.remove(glyph)


def _path(vertices: np.ndarray, codes: np.ndarray) -> str:
    """A path as an SVG says it."""
    path, said = Path(vertices, codes), []
    for points, code in path.iter_segments(simplify=False):
        numbers = " ".join(f"{number:.2f}" for number in points)
        said.append("z" if code == Path.CLOSEPOLY else f"{' MLQC'[code]}{numbers}")
    return "".join(said)


def _rounded(numbers: str, name: str) -> str:
    """The numbers of an attribute with two decimals; four where they are factors."""
    places = 4 if name == "transform" else 2

    def short(found: re.Match) -> str:
        text = f"{float(found[0]):.{places}f}".rstrip("0").rstrip(".")
        return "0" if text == "-0" else text

    numbers = " ".join(re.sub(r"-?\d+\.\d+(e-?\d+)?", short, numbers).split())
    return re.sub(r" ?([MLCQz]) ?", r"\1", numbers) if name == "d" else numbers


def _short_style(style: str) -> str:
    """The style without spaces, and without the book's font, which the file names once."""
    kept = []
    for rule in filter(None, style.split(";")):
        name, value = (part.strip() for part in rule.split(":", 1))
        if name == "font-family" and value in (
            "'DejaVu Sans'",
            "'DejaVu Sans', sans-serif",
        ):
            continue
        if (name, value) != ("text-anchor", "start"):
            value = re.sub(r"-?\d+\.\d+", lambda n: f"{float(n[0]):.3g}", value)
            kept.append(f"{name}:{value}")
    return ";".join(kept)


def _share_style(group: ElementTree.Element) -> None:
    """A style that all children of a group have is said by the group."""
    styles = {child.get("style") for child in group}
    is_one = len(group) > 1 and len(styles) == 1 and None not in styles
    if is_one and group.tag == f"{_SVG}g" and "style" not in group.attrib:
        group.set("style", styles.pop())
        for child in group:
            del child.attrib["style"]


def _renumber(root: ElementTree.Element, prefix: str) -> None:
    """Number the names that something refers to, and leave out the others."""
    everything = list(root.iter())
    said = {v for e in everything for v in e.attrib.values() if "#" in v}
    used = {
        name for value in said for name in re.findall(r"#([pm][0-9a-f]{10})\b", value)
    }
    names = {element.attrib.pop("id", None): element for element in everything}
    numbers = {
        name: f"{prefix}{i}" for i, name in enumerate(n for n in names if n in used)
    }
    for name, number in numbers.items():
        names[name].set("id", number)
    for element in everything:
        for key, value in element.attrib.items():
            if "#" in value:
                new = re.sub(
                    r"(?<=#)[pm][0-9a-f]{10}\b", lambda n: numbers[n[0]], value
                )
                element.set(key, new)


def _written(root: ElementTree.Element) -> str:
    ElementTree.register_namespace("", _SVG.strip("{}"))
    return ElementTree.tostring(root, encoding="unicode")


def _unwrap(element: ElementTree.Element) -> None:
    children = list(element)
    for child in children:
        _unwrap(child)
    flat: list[ElementTree.Element] = []
    for child in children:
        bare = child.tag == f"{_SVG}g" and not child.attrib
        flat += list(child) if bare else [child]
    element[:] = flat
