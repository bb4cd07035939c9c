"""Measures the labels of the book's figures as a browser shows them, on a phone and on a desktop.

    python tools/labels.py            of the book that `make book` built
    python tools/labels.py FOLDER     of the pages under FOLDER

For every figure: the smallest label in CSS pixels, and what it says. In a formula the letters
count, and not their indices.
"""

import sys
from pathlib import Path

import browser

ROOT = Path(__file__).resolve().parent.parent
WINDOWS = {390: 9.0, 1440: 11.0}
"""Widths of windows, and how many pixels a label has at least there."""

MEASURE = """() => [...document.querySelectorAll('.bd-article figure svg.drawing')]
  .filter((drawing) => drawing.getClientRects().length)
  .map((drawing) => {
    const labels = [...drawing.querySelectorAll('text')].map((text) => {
      const matrix = text.getScreenCTM();
      const parts = [text, ...text.querySelectorAll('tspan')]
        .filter((part) => [...part.childNodes].some((node) => node.nodeType === 3));
      const sizes = parts.map((part) => parseFloat(getComputedStyle(part).fontSize));
      return [Math.max(...sizes) * Math.hypot(matrix.a, matrix.b), text.textContent];
    }).filter(([size]) => isFinite(size));
    const [size, text] = labels.sort((a, b) => a[0] - b[0])[0] || [Infinity, ''];
    const box = drawing.getBoundingClientRect();
    return [drawing.closest('figure').id, size, text, box.width, box.height];
  })"""


def measured(page) -> list[tuple[str, float, str, float, float]]:
    """For each figure of the page: its id, its smallest label and what it says, width, height."""
    page.evaluate(
        "document.querySelectorAll('details').forEach((d) => (d.open = true))"
    )
    page.evaluate("document.fonts.ready")
    return [tuple(row) for row in page.evaluate(MEASURE)]


def main() -> None:
    if reason := browser.missing():
        sys.exit(f"decoder-only: {reason}")
    site = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "_build" / "html"
    pages = sorted((site / "book").rglob("*.html"))
    if not pages:
        sys.exit(f"decoder-only: no pages in {site}; run make book")
    with browser.started() as running:
        for width, least in WINDOWS.items():
            tab = running.new_page(viewport={"width": width, "height": 900})
            for path in pages:
                tab.goto(path.resolve().as_uri())
                for name, size, text, *box in measured(tab):
                    mark = "" if size >= least else f"  under {least:g}"
                    shape = f"{box[0]:.0f} x {box[1]:.0f}"
                    print(
                        f"{width:5} {name:34} {size:5.1f} {shape:>9}  {text!r:.40}{mark}"
                    )


if __name__ == "__main__":
    main()
