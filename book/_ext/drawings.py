"""Figures as part of the page: their text can be found and selected, and obeys the page's theme.

- The `<img>` of an SVG becomes the drawing itself, with the alternative text as its name. A figure
  that was drawn twice becomes two, of which the style sheet shows the one that fits the window.
- Colours become variables. In the dark theme each is turned over, hues kept, so that white is the
  page's own black.
- Drawings were measured with DejaVu Sans; the page brings the few letters of it that they use.
"""

import re
from collections import defaultdict
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

from fontTools import subset
from fontTools.ttLib import TTFont

SVG = "{http://www.w3.org/2000/svg}"
ROOT = re.compile(
    r'<svg [^>]*?width="([\d.]+)pt" height="[\d.]+pt" viewBox="([^"]*)"[^>]*>'
)
NARROW = re.compile(r'<svg [^>]*?class="(narrow[^"]*)"[^>]*>.*?</svg>', re.DOTALL)
COLOUR = re.compile(r"\b(fill|stroke):#([0-9a-f]{6})\b")
USED = re.compile(r"var\(--c([0-9a-f]{6}),")
DRAWING = re.compile(r'<svg class="drawing\b.*?</svg>', re.DOTALL)
FIGURE = re.compile(r"<figure\b.*?</figure>", re.DOTALL)

# Family in the file, name in the page, and the faces as matplotlib ships them.
FAMILIES = {"DejaVu Sans": "Figures", "DejaVu Sans Mono": "Figures Mono"}
FACES = {
    ("Figures", "normal", "normal"): "DejaVuSans",
    ("Figures", "bold", "normal"): "DejaVuSans-Bold",
    ("Figures", "normal", "oblique"): "DejaVuSans-Oblique",
    ("Figures", "bold", "oblique"): "DejaVuSans-BoldOblique",
    ("Figures Mono", "normal", "normal"): "DejaVuSansMono",
}


def inlined(tag: str, text: str, prefix: str) -> str:
    """The drawing, or both, in the place of an `<img>`.

    Args:
        tag: the `<img>`, whose `alt` names the drawing.
        text: the SVG file.
        prefix: makes names within the drawing the page's own.
    """
    alt = re.search(r'\balt="([^"]*)"', tag)
    label = f' role="img" aria-label="{alt[1]}"' if alt else ' aria-hidden="true"'
    narrow = NARROW.search(text)
    if narrow is None:
        return shown(text, "drawing", label, prefix)
    wide = text.replace(narrow[0], "")
    kind = f"drawing {narrow[1]}"
    return shown(wide, "drawing wide", label, f"{prefix}w") + shown(
        narrow[0], kind, label, f"{prefix}n"
    )


def shown(text: str, kind: str, label: str, prefix: str) -> str:
    root = ROOT.search(text)
    begin = f'<svg class="{kind}"{label} style="--w:{root[1]}" viewBox="{root[2]}">'
    body = text[root.end() :]
    body = re.sub(r'(\bid="|url\(#|\bhref="#)', rf"\1{prefix}", body)
    body = COLOUR.sub(r"\1:var(--c\2,#\2)", body)
    for family, name in FAMILIES.items():
        body = body.replace(f"font-family:'{family}'", f"font-family:'{name}'")
    return f"{begin}{body}"


def captioned(page: str) -> str:
    """Where panels stand one below the other, the caption says above and below, not left, right."""

    def both(found: re.Match) -> str:
        said = found[0]
        other = {"Left": "Above", "Right": "Below", "left": "above", "right": "below"}
        place = other[said.rpartition(" ")[2]]
        return f'<span class="wide">{said}</span><span class="narrow">{place}</span>'

    def figure(found: re.Match) -> str:
        text = found[0]
        if 'class="drawing narrow column"' not in text:
            return text
        drawings, start, caption = text.partition("<figcaption")
        words = r"\b(?:Left|Right)\b(?=:|,| )|\bon the (?:left|right)\b"
        return drawings + start + re.sub(words, both, caption)

    return FIGURE.sub(figure, page)


def in_the_dark(colour: str) -> str:
    """What `invert(0.93) hue-rotate(180deg)` makes of a colour of six hexadecimal digits."""
    red, green, blue = (
        0.93 - 0.86 * int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)
    )
    grey = 2 * (0.213 * red + 0.715 * green + 0.072 * blue)
    turned = (min(max(grey - value, 0), 1) for value in (red, green, blue))
    return "".join(f"{round(255 * value):02x}" for value in turned)


def sheet(pages: list[str], static: Path) -> str:
    """The rules that the drawings of these pages need; writes their fonts beside the sheet."""
    colours = sorted({colour for text in pages for colour in USED.findall(text)})
    dark = "".join(f"--c{colour}:#{in_the_dark(colour)};" for colour in colours)
    rules = [
        f'@media screen{{html[data-theme="dark"]{{{dark}}}}}',
        "@media screen and (prefers-color-scheme:dark)"
        f"{{html:not([data-theme]){{{dark}}}}}",
    ]
    folder = static / "fonts"
    folder.mkdir(parents=True, exist_ok=True)
    source = files("matplotlib") / "mpl-data" / "fonts" / "ttf"
    for face, letters in sorted(letters_of(pages).items()):
        if face not in FACES:
            raise ValueError(f"a drawing's {face=} must be one of {list(FACES)}")
        family, weight, style = face
        name = f"{FACES[face]}-figures.woff"
        if letters_in(folder / name) != letters | {" "}:
            font = subsetted(source / f"{FACES[face]}.ttf", letters)
            (folder / name).write_bytes(font)
        rules.append(
            f'@font-face{{font-family:"{family}";font-weight:{weight};'
            f'font-style:{style};font-display:swap;src:url("fonts/{name}") '
            'format("woff")}'
        )
    licence = (source / "LICENSE_DEJAVU").read_bytes()
    (folder / "LICENSE-DejaVu.txt").write_bytes(licence)
    return "\n".join(rules)


def letters_of(pages: list[str]) -> dict[tuple[str, str, str], set[str]]:
    """The letters that drawings use, by family, weight and style."""
    found = defaultdict(set)
    for text in pages:
        for drawing in DRAWING.findall(text):
            root = ElementTree.fromstring(drawing)
            collect(root, ("Figures", "normal", "normal"), found)
    return found


def collect(element: ElementTree.Element, face: tuple, found: dict) -> None:
    style = element.get("style", "")
    family = re.search(r"font-family:'([^']+)'", style)
    weight = re.search(r"font-weight:(\w+)", style)
    slant = re.search(r"font-style:(\w+)", style)
    face = (
        family[1] if family else face[0],
        ("bold" if weight[1] in ("700", "bold") else "normal") if weight else face[1],
        ("oblique" if slant[1] in ("italic", "oblique") else "normal")
        if slant
        else face[2],
    )
    if element.text and element.tag.endswith(("text", "tspan")):
        found[face] |= set(element.text)
    for child in element:
        collect(child, face, found)


def letters_in(file: Path) -> set[str]:
    """The letters that an earlier build put into a font; none, if it made no such font."""
    return set(map(chr, TTFont(file).getBestCmap())) if file.exists() else set()


def subsetted(file, letters: set[str]) -> bytes:
    """The font with only these letters, for a browser.

    Raises:
        ValueError: the font has no glyph for one of them.
    """
    font = TTFont(BytesIO(file.read_bytes()), recalcTimestamp=False)
    if missing := {c for c in letters if ord(c) not in font.getBestCmap()}:
        raise ValueError(f"letters of drawings {missing=} must be in {file.name}")
    options = subset.Options(flavor="woff", hinting=False, layout_features=["kern"])
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=[ord(letter) for letter in letters | {" "}])
    subsetter.subset(font)
    out = BytesIO()
    subset.save_font(font, out, options)
    return out.getvalue()
