"""Measures a printed book: how its pages are filled, where its links lead, what it gives away.

    python tools/measure_pdf.py                # book.pdf
    python tools/measure_pdf.py --pages some.pdf   # and the pages at fault, by number

- blank: the share of pages of which more than a quarter, at the foot, is empty; the last page of a
  chapter is counted by itself.
- empty boxes: pages that end in a tinted box of more than 36 points with nothing in it.
- headings last: headings of the outline with nothing below them on their page.
- links: inside (a place in the file), published (the book's address), web, file (of a machine).
- dead: links inside that lead to no place. told: objects that name a path of this machine.
"""

import argparse
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pikepdf
import pypdfium2

ROOT = Path(__file__).resolve().parent.parent
MARGINS = (18 / 25.4 * 72, 20 / 25.4 * 72)
"""Above and below the text, in points, as in book.css."""
EMPTY = 36
"""Points of a box with nothing in it, at the foot of a page: three lines of code. Where code goes
on overleaf, its box ends with the page and not with the line."""


@dataclass
class Measured:
    """What one file is like. Pages are counted from 1, as a viewer's bar does."""

    pages: int
    megabytes: float
    blank: list[int] = field(default_factory=list)
    blank_ends: list[int] = field(default_factory=list)
    boxes: dict[int, float] = field(default_factory=dict)
    headings_last: list[str] = field(default_factory=list)
    links: Counter = field(default_factory=Counter)
    dead: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    outline: int = 0
    tagged: bool = False
    language: str = ""

    def lines(self, with_pages: bool = False) -> list[str]:
        some = sorted(self.boxes)
        rows = [
            f"pages            {self.pages}, {self.megabytes:.1f} MB",
            f"a quarter blank  {len(self.blank)}, and {len(self.blank_ends)} ends of chapters",
            f"empty boxes      {len(some)}, {sum(self.boxes.values()):.0f} points in all",
            f"headings last    {len(self.headings_last)}",
            "links            "
            + ", ".join(f"{count} {kind}" for kind, count in self.links.most_common()),
            f"dead             {len(self.dead)}",
            f"told             {len(self.told)}",
            f"outline          {self.outline} entries",
            f"tagged           {'yes' if self.tagged else 'no'}, language {self.language or '–'}",
        ]
        if with_pages:
            rows += [
                f"blank: {self.blank}",
                f"boxes: {some}",
                f"headings: {self.headings_last}",
                f"dead: {self.dead}",
                f"told: {self.told}",
            ]
        return rows


def measured(path: Path, base: str = "", secrets: tuple[str, ...] = ()) -> Measured:
    """Measures the file.

    Args:
        path: the PDF.
        base: the book's published address.
        secrets: what no object may hold, such as the folder in which the book was printed.
    """
    with pikepdf.open(path) as pdf, pypdfium2.PdfDocument(path) as drawn:
        found = Measured(len(pdf.pages), path.stat().st_size / 1e6)
        root = pdf.Root
        found.tagged = "/StructTreeRoot" in root and bool(root.MarkInfo.Marked)
        found.language = str(root.get("/Lang", ""))
        links(pdf, base, found)
        tell(pdf, ("file:", *secrets), found)
        headings = listed(drawn)
        found.outline = len(headings)
        begins = {page for level, _, page in headings if level <= 1}
        for index, page in enumerate(drawn):
            number = index + 1
            blank, box = foot(page)
            if blank > 0.25:
                ends = number in begins or number == len(drawn)
                (found.blank_ends if ends else found.blank).append(number)
            if box > EMPTY:
                found.boxes[number] = box
            titles = [title for _, title, there in headings if there == index]
            text = last_line(page) if titles else ""
            last = [title for title in titles if squeezed(title).endswith(text)]
            found.headings_last += [f"{number}: {title}" for title in last if text]
    return found


def squeezed(text: str) -> str:
    return re.sub(r"\W", "", text)


def last_line(page: pypdfium2.PdfPage) -> str:
    """The lowest line of the page's text, squeezed."""
    text = page.get_textpage()
    rects = [text.get_rect(index) for index in range(text.count_rects())]
    rects = [rect for rect in rects if rect[1] > MARGINS[1]]
    if not rects:
        return ""
    _, bottom, _, top = min(rects, key=lambda rect: rect[1])
    return squeezed(text.get_text_bounded(bottom=bottom, top=top))


def listed(drawn: pypdfium2.PdfDocument) -> list[tuple[int, str, int | None]]:
    """The outline: depth, title, and page from 0."""
    rows = []
    for item in drawn.get_toc(max_depth=8):
        place = item.get_dest()
        rows.append((item.level, item.get_title(), place and place.get_index()))
    return rows


def foot(page: pypdfium2.PdfPage) -> tuple[float, float]:
    """The empty share of the page's text at its foot; the points of an empty box there."""
    grey = page.render(scale=1, grayscale=True).to_numpy().squeeze()
    top, bottom = MARGINS
    grey = grey[round(top) : grey.shape[0] - round(bottom)]
    inked = np.flatnonzero((grey < 253).any(axis=1))
    if not inked.size:
        return 1.0, 0.0
    last = inked[-1]
    # Within an empty box there is its tint from side to side, and nothing dark but the sides.
    dark = grey < 150
    filled = (dark & ~dark[max(last - 4, 0)]).any(axis=1)
    tinted = (grey < 253).mean(axis=1) > 0.5
    full = np.flatnonzero((filled | ~tinted)[: last - 1])
    empty = last - full[-1] if full.size else last
    return 1 - (last + 1) / len(grey), float(empty)


def links(pdf: pikepdf.Pdf, base: str, found: Measured) -> None:
    """Counts links by where they lead; notes those that lead nowhere."""
    names = pdf.Root.get("/Names", pikepdf.Dictionary()).get("/Dests")
    known = set(pikepdf.NameTree(names)) if names is not None else set()
    known = {key.removeprefix("/") for key in [*known, *pdf.Root.get("/Dests", {})]}
    for number, page in enumerate(pdf.pages, 1):
        for link in page.get("/Annots", []):
            if link.get("/Subtype") != "/Link":
                continue
            if "/Dest" in link:
                found.links["inside"] += 1
                name = str(link.Dest).removeprefix("/")
                if name not in known:
                    found.dead.append(f"{number}: {name}")
                continue
            address = str(link.A.URI)
            scheme = address.partition(":")[0]
            if base and address.startswith(base):
                found.links["published"] += 1
            else:
                found.links["web" if scheme in ("http", "https") else scheme] += 1


def tell(pdf: pikepdf.Pdf, secrets: tuple[str, ...], found: Measured) -> None:
    """Notes the objects that hold one of the words, compressed or not."""
    for thing in pdf.objects:
        data = thing.unparse(resolved=True)
        if isinstance(thing, pikepdf.Stream):
            try:
                data += thing.read_bytes()
            except pikepdf.PdfError:  # a picture's own compression
                data += thing.read_raw_bytes()
        for secret in secrets:
            if secret.encode() in data:
                found.told.append(f"object {thing.objgen[0]}: {secret}")


def main() -> None:
    import pdf

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, nargs="?", default=ROOT / "book.pdf")
    parser.add_argument("--pages", action="store_true", help="name the pages at fault")
    options = parser.parse_args()
    if not options.file.is_file():
        sys.exit(f"decoder-only: {options.file} is not there; `make pdf` makes one")
    secrets = (str(ROOT), str(Path.home()))
    found = measured(options.file, pdf.settings()["base"], secrets)
    print("\n".join(found.lines(options.pages)))


if __name__ == "__main__":
    main()
