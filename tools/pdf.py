"""Prints the built book as one file, book.pdf, with Chromium's own printing; offline.

    make pdf

Each page is printed by itself, in the order of the contents, and goes on counting where the page
before it ended. Chromium reads it from this folder but believes that it stands at the book's
published address, so no path of this machine gets into the file. Cover and contents come last,
when the number of every page is known. tools/joined.py makes one document of the parts.
"""

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import browser
import build
import yaml

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "book.pdf"
# The opening page's heading is the book's title, which stands on the cover already.
OPENING = "About this book"

SETTLED = """async () => {
  const images = [...document.images];
  images.forEach((image) => (image.loading = "eager"));
  document.querySelectorAll("details:not(.hide, .rest)").forEach((fold) => (fold.open = true));
  await document.fonts.ready;
  await Promise.all(images.map((image) => image.decode().catch(() => null)));

  // Chromium keeps the places to which links of the same page lead. Others lead here too.
  const article = document.querySelector(".bd-article");
  const links = document.body.appendChild(document.createElement("nav"));
  links.hidden = true;
  for (const part of article.querySelectorAll("[id]:not(svg, math, svg *, math *)")) {
    links.appendChild(document.createElement("a")).href = "#" + encodeURIComponent(part.id);
  }
  return [...article.querySelectorAll("section > :is(h1, h2, h3)")].map((heading) => {
    const copy = heading.cloneNode(true);
    copy.querySelectorAll(".headerlink").forEach((link) => link.remove());
    const html = copy.innerHTML;
    copy.querySelectorAll("math").forEach((formula) => formula.replaceWith(formula.dataset.tex));
    return {
      level: Number(heading.tagName[1]), id: heading.parentElement.id, html,
      text: copy.textContent.replace(/\\s+/g, " ").trim(),
    };
  });
}"""
HEAD = """
@page { size: A4; @top-left { content: %s; } }
@page :first { @top-left { content: none; } }
html { counter-reset: page %d; }
"""


@dataclass(frozen=True)
class Heading:
    """A heading of a page: its rank (1 to 3), the id of its section, as HTML and as text."""

    level: int
    id: str
    html: str
    text: str


@dataclass
class Part:
    """One page of the book, printed.

    Attributes:
        name: the page's path in the book without its ending, such as ``book/03_attention``.
        pdf: the printed pages.
        headings: the first is the page's title.
        caption: the name of the part of the book that begins here, if one does.
    """

    name: str
    pdf: "pikepdf.Pdf"
    headings: list[Heading]
    caption: str | None = None

    def page_of(self, heading: Heading) -> int:
        """The page of this part, from 0, on which the heading stands."""
        place = self.pdf.Root.Dests[f"/{heading.id}"]
        return [page.objgen for page in self.pdf.pages].index(place[0].objgen)


def contents(root: Path = ROOT) -> list[str]:
    """The pages in the order of the contents, such as ``book/03_attention``."""
    return [name for name, _ in captioned(root)]


def captioned(root: Path) -> list[tuple[str, str | None]]:
    """The pages; with the first of each part of the book, the part's name."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    pages = [(toc["root"], None)]
    for part in toc["parts"]:
        names = [chapter["file"] for chapter in part["chapters"]]
        pages += zip(names, [part["caption"], *[None] * len(names)], strict=False)
    return pages


def settings(root: Path = ROOT) -> dict:
    """What the cover says, and the published address as ``base``.

    Version and day apart, it comes out of _config.yml.

    Raises:
        ValueError: a field is missing.
    """
    path = build.config(root, root)
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    found = {name: config.get(name) for name in ("title", "subtitle", "author")}
    found["year"] = config.get("copyright")
    html = config.get("html") or {}
    found["licence"], found["base"] = html.get("extra_footer"), html.get("baseurl")
    named = {
        "year": "copyright",
        "licence": "html.extra_footer",
        "base": "html.baseurl",
    }
    for field, value in found.items():
        if not value:
            field = named.get(field, field)
            raise ValueError(
                f"_config.yml: {field}={value!r} must be set to print the book"
            )
    host = urlsplit(found["base"])  # browsers write the name of a host in small letters
    found["base"] = host._replace(netloc=host.netloc.lower()).geturl().rstrip("/")
    return found | {"edition": edition()}


def edition() -> str:
    """The version and the day, as on the opening page."""
    from sphinx.util.i18n import format_date

    from decoder_only import __version__

    day = format_date("%d %B %Y", language="en").lstrip("0")
    return f"Version {__version__}, {day}"


@contextmanager
def published(chromium, site: Path, base: str, **options) -> Iterator:
    """A browser's page that finds the folder ``site`` at ``base``, and nothing else anywhere."""
    context = chromium.new_context(**options)

    def answer(route) -> None:
        address = route.request.url.partition("?")[0].partition("#")[0]
        file = site / unquote(address.removeprefix(base)).lstrip("/")
        if address.startswith(f"{base}/") and file.is_file():
            route.fulfill(path=file)
        else:
            route.abort()

    context.route("**/*", answer)
    try:
        yield context.new_page()
    finally:
        context.close()


def printed(page, address: str, after: int = 0) -> tuple[bytes, list[Heading]]:
    """One page of the book as PDF, and its headings.

    Args:
        page: of a browser.
        address: what the page is to open.
        after: how many pages of the book come before.
    """
    page.goto(address, wait_until="load")
    headings = [Heading(**found) for found in page.evaluate(SETTLED)]
    if address.endswith("/index.html"):
        headings[0] = Heading(1, headings[0].id, OPENING, OPENING)
        page.locator(".bd-article h1").evaluate(
            "(h, s) => (h.textContent = s)", OPENING
        )
    title = json.dumps(headings[0].text, ensure_ascii=False)
    page.add_style_tag(content=HEAD % (title, after))
    return paper(page), headings


def paper(page) -> bytes:
    return page.pdf(prefer_css_page_size=True, print_background=True, tagged=True)


def front(page, base: str, parts: list[Part], said: dict) -> bytes:
    """The cover, and the contents with the number of each page."""
    page.goto(f"{base}/{parts[0].name}.html", wait_until="load")
    sheet = page.locator("style#styles").text_content()
    own = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
    # Chromium drops a link to the page's own address that leads nowhere on it.
    page.evaluate("history.replaceState(null, '', 'front.html')")
    page.set_content(
        f'<!doctype html><html lang="en" data-theme="light"><head><title>{escape(said["title"])}'
        f"</title><style>{sheet}</style><style>{own}</style></head><body>"
        f'<article class="bd-article">{cover(said)}{listed(base, parts)}</article>'
        "</body></html>",
        wait_until="load",
    )
    page.evaluate("() => document.fonts.ready")
    return paper(page)


def cover(said: dict) -> str:
    return (
        '<section class="cover"><img src="../_static/favicon.svg" alt="">'
        f"<h1>{escape(said['title'])}</h1>"
        f'<p class="cover-subtitle">{escape(said["subtitle"])}</p>'
        f'<p class="cover-author">{escape(said["author"])}</p>'
        f'<p class="cover-edition">{escape(said["edition"])}</p>'
        f'<p class="cover-licence">© {escape(str(said["year"]))} {escape(said["author"])}. '
        f"{escape(said['licence'])}</p></section>"
    )


def listed(base: str, parts: list[Part]) -> str:
    """The contents: parts of the book, chapters, and their sections."""
    rows, before = [], 0
    for part in parts:
        if part.caption:
            rows.append(f'<li class="contents-part">{escape(part.caption)}</li>')
        for heading in part.headings:
            if heading.level > 2:
                continue
            address = f"{base}/{part.name}.html"
            if heading is not part.headings[0]:
                address += f"#{heading.id}"
            number = before + part.page_of(heading) + 1
            link = f'<a href="{escape(address)}">{heading.html}</a>'
            rows.append(
                f'<li class="contents-{heading.level}"><span>{link}</span>'
                f"<span>{number}</span></li>"
            )
        before += len(part.pdf.pages)
    listing = f"<ol>{''.join(rows)}</ol>"
    return f'<section class="contents"><h1>Contents</h1>{listing}</section>'


def book(
    chromium, site: Path, pages: list[tuple[str, str | None]], said: dict
) -> "pikepdf.Pdf":
    """The pages of the built book in the folder ``site``, printed by a browser and joined."""
    import joined
    import pikepdf

    parts, before = [], 0
    with published(chromium, site, said["base"], color_scheme="light") as page:
        for name, caption in pages:
            data, headings = printed(page, f"{said['base']}/{name}.html", before)
            parts.append(Part(name, pikepdf.open(io.BytesIO(data)), headings, caption))
            before += len(parts[-1].pdf.pages)
        first = pikepdf.open(io.BytesIO(front(page, said["base"], parts, said)))
    return joined.joined(first, parts, said)


def main() -> None:
    if reason := missing():
        sys.exit(f"decoder-only: {reason}")
    import joined

    with browser.started() as chromium:
        made = book(chromium, ROOT / "_build" / "html", captioned(ROOT), settings())
    joined.save(made, OUTPUT)
    print(f"The book is in {OUTPUT.name}: {len(made.pages)} pages.")


def missing() -> str | None:
    if reason := browser.missing():
        return reason
    try:
        import pikepdf  # noqa: F401
    except ImportError:
        return "the Python package pikepdf is missing; it comes with requirements.txt"
    return None


if __name__ == "__main__":
    main()
