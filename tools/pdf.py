"""Prints the built book as one file, book.pdf, with Chromium's own printing; offline.

    make pdf

Each page is printed by itself, in the order of the contents, and the parts are joined.
"""

import io
import sys
from pathlib import Path

import browser
import yaml

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "book.pdf"
PAPER = {"format": "A4", "print_background": True, "prefer_css_page_size": False}
SETTLED = """async () => {
  await document.fonts.ready;
  const images = [...document.images];
  images.forEach((image) => (image.loading = "eager"));
  document.querySelectorAll("details.solution").forEach((fold) => (fold.open = true));
  await Promise.all(images.map((image) => image.decode().catch(() => null)));
}"""


def contents(root: Path = ROOT) -> list[str]:
    """The pages in the order of the contents, such as ``book/03_attention``."""
    toc = yaml.safe_load((root / "_toc.yml").read_text())
    return [toc["root"]] + [
        chapter["file"] for part in toc["parts"] for chapter in part["chapters"]
    ]


def printed(page, path: Path) -> bytes:
    """One page of the book as PDF."""
    page.goto(path.resolve().as_uri(), wait_until="load")
    page.evaluate(SETTLED)
    return page.pdf(
        **PAPER,
        margin={"top": "18mm", "bottom": "20mm", "left": "16mm", "right": "16mm"},
    )


def main() -> None:
    if reason := missing():
        sys.exit(f"decoder-only: {reason}")
    from pypdf import PdfWriter

    html = ROOT / "_build" / "html"
    book = PdfWriter()
    with browser.started() as chromium:
        page = chromium.new_page()
        for name in contents():
            title_at = len(book.pages)
            book.append(
                io.BytesIO(printed(page, html / f"{name}.html")), import_outline=False
            )
            book.add_outline_item(
                page.title().rpartition(" — ")[0] or page.title(), title_at
            )
    book.write(OUTPUT)
    print(f"The book is in {OUTPUT.name}: {len(book.pages)} pages.")


def missing() -> str | None:
    if reason := browser.missing():
        return reason
    try:
        import pypdf  # noqa: F401
    except ImportError:
        return "the Python package pypdf is missing; it comes with requirements.txt"
    return None


if __name__ == "__main__":
    main()
