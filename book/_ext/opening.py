"""What the opening page has that no other page has, as five directives.

- ``map``: the architecture as a picture whose parts lead to their chapters (book/figures/map.svg).
- ``opening``: a story by the stored model, with its first wrong letter marked. It reads
  book/figures/opening.json, which tools/figures.py writes.
- ``route``: chapters by number, as one way through the book, with the minutes that they take.
- ``chapters``: all chapters, what a reader builds in each (book/chapters.yml), and minutes.
- ``edition``: version, date, authors, repository, PDF and licences.

A chapter's name is the heading of its page, here as in the contents; its colour is that of its part
in the diagram of the architecture.
"""

import json
import re
from html import escape
from pathlib import Path, PurePosixPath

import minutes
import yaml
from bs4 import BeautifulSoup
from docutils import nodes
from folds import folded
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.i18n import format_date

logger = logging.getLogger(__name__)

AFTER = 150
"""Characters shown after the wrong one."""
CHAPTER = re.compile(r"(\d\d)_\w+")


class Opening(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        file = Path(self.env.srcdir, "book", "figures", "opening.json")
        self.env.note_dependency(str(file))
        story = json.loads(file.read_text(encoding="utf-8"))
        read, found = story["read"], story["found"]
        letter, after = found[0], found[1 : AFTER + 1]
        if len(found) > AFTER + 1:
            after = f"{after.rpartition(' ')[0]} …"
        text = nodes.paragraph("", read, classes=["story-text"])
        text += nodes.inline("", letter, classes=["wrong-letter"])
        text += nodes.inline("", after, classes=["story-after"])

        said = nodes.paragraph(classes=["story-caption"])
        said += nodes.Text(
            "The small model that comes with this book wrote this story. "
            f"Its first {len(read)} characters follow the rules of the language. "
            "No story of the language has the marked letter there. The rules allow only "
        )
        for position, (words, probability) in enumerate(story["expected"]):
            said += nodes.Text(", or " if position else "")
            said += nodes.emphasis("", words)
            if probability < 0.999:
                said += nodes.Text(f" ({100 * probability:.0f}%)")
        said += nodes.Text(".")
        repeat = nodes.literal_block("", story["command"], language="sh")
        box = nodes.container("", text, said, classes=["story"])
        box += folded("Write this story yourself", repeat, classes=["story-command"])
        return [box]


class placeholder(nodes.General, nodes.Element):
    """Stands where a directive's result comes when all pages have been read."""


class Later(SphinxDirective):
    """A directive whose result needs the titles and the minutes of other pages."""

    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        for name in ("book/chapters.yml", "book/figures/map.svg", "tests/seconds.json"):
            self.env.note_dependency(str(Path(self.env.srcdir, name)))
        argument = self.arguments[0] if self.arguments else ""
        return [placeholder(makes=self.name, argument=argument)]


class Book:
    """The chapters as ``_toc.yml`` orders them, seen from one page."""

    def __init__(self, app, docname: str) -> None:
        self.app, self.env, self.docname = app, app.env, docname
        root = Path(app.srcdir)
        toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
        self.parts = {
            part["caption"]: [
                chapter["file"]
                for chapter in part["chapters"]
                if is_chapter(chapter["file"])
            ]
            for part in toc["parts"]
        }
        self.chapters = [name for files in self.parts.values() for name in files]
        self.built = yaml.safe_load((root / "book" / "chapters.yml").read_text())
        for name in self.chapters:
            if PurePosixPath(name).name not in self.built:
                stem = PurePosixPath(name).name
                logger.warning("book/chapters.yml: say what is built in %s", stem)

    def find(self, name: str) -> str | None:
        """The page of a chapter named by its number or its stem."""
        for page in self.chapters:
            stem = PurePosixPath(page).name
            if stem == name or (name.isdigit() and int(stem[:2]) == int(name)):
                return page
        logger.warning("%s: no chapter %r is in _toc.yml", self.docname, name)
        return None

    def address(self, page: str) -> str:
        return self.app.builder.get_relative_uri(self.docname, page)

    def title(self, page: str) -> str:
        return self.env.titles[page].astext()

    def link(self, page: str) -> str:
        return anchor("internal", self.address(page), escape(self.title(page)))

    # ------------------------------------------------------------ the directives

    def map(self, argument: str) -> str:
        """The picture, with its links filled in."""
        drawn = Path(self.app.srcdir, "book", "figures", "map.svg")
        soup = BeautifulSoup(drawn.read_text(encoding="utf-8"), "html.parser")
        svg = soup.svg
        svg["aria-label"] = "The architecture. Each part leads to its chapter."
        for part in svg.find_all("a"):
            page = self.find(part.attrs.pop("data-chapter"))
            if page is None:
                continue
            words = part.find("text", class_="map-name").get_text()
            part["href"] = self.address(page)
            part["class"] = "map-part"
            part["aria-label"] = f"{words}: chapter {number(page)}, {self.title(page)}"
            tip = soup.new_tag("title")
            tip.string = f"Chapter {number(page)}: {self.title(page)}"
            part.insert(0, tip)
        caption = "From text, at the bottom, to the next token. Each part leads to its chapter."
        drawing = re.sub(r">\s+<", "><", str(svg))
        return (
            f'<figure class="map">{drawing}<figcaption>{caption}</figcaption></figure>'
        )

    def route(self, argument: str) -> str:
        pages = [page for name in argument.split() if (page := self.find(name))]
        hours = sum(minutes.to_read(self.env, page) for page in pages) / 60
        items = "".join(
            f'<li><span class="number">{number(page)}</span> {self.link(page)}</li>'
            for page in pages
        )
        return (
            f'<ul class="route">{items}</ul>'
            f'<p class="route-time">About {max(1, round(hours))} '
            f"hour{'s' * (round(hours) > 1)} to read</p>"
        )

    def row(self, page: str) -> str:
        run = minutes.to_run(self.env, page)
        return (
            f'<tr><td class="number">{number(page)}</td>'
            f'<td>{self.link(page)}<span class="built">'
            f"{escape(self.built.get(PurePosixPath(page).name, ''))}</span></td>"
            f'<td class="time">{minutes.to_read(self.env, page)}</td>'
            f'<td class="time">{"–" if run is None else run}</td></tr>'
        )

    def chapters_table(self, argument: str) -> str:
        rows = [
            f'<tr class="part"><th colspan="4" scope="rowgroup">{escape(caption)}</th></tr>'
            + "".join(map(self.row, pages))
            for caption, pages in self.parts.items()
            if pages
        ]
        heads = (
            '<tr><td></td><th scope="col">Chapter, and what you build in it</th>'
            '<th scope="col" class="time">Read, min</th>'
            '<th scope="col" class="time">Run, min</th></tr>'
        )
        body = "".join(f"<tbody>{row}</tbody>" for row in rows)
        return (
            f'<table class="chapter-list"><thead>{heads}</thead>{body}</table>'
            f'<p id="minutes" class="rule">{minutes.RULE}</p>'
        )

    def edition(self, argument: str) -> str:
        from decoder_only import __version__

        config = self.app.config
        url = config.html_theme_options.get("repository_url", "")
        pages = config.html_baseurl.rstrip("/")
        day = format_date("%d %B %Y", language="en").lstrip("0")
        items = [f"Version {escape(__version__)}, {day}", escape(config.author)]
        # A copy that nobody has published has no address yet: _config.yml names a placeholder.
        if "/OWNER" in url:
            items.append("no public repository yet")
        else:
            items.append(anchor("external", url, "Repository"))
        if "/OWNER" in pages:
            items.append("PDF: <code>make pdf</code>")
        else:
            items.append(anchor("external", f"{pages}/book.pdf", "PDF"))
        return f'<p class="edition">{" · ".join(items)}</p>'


def anchor(kind: str, address: str, html: str) -> str:
    return f'<a class="reference {kind}" href="{escape(address)}">{html}</a>'


def is_chapter(file: str) -> bool:
    path = PurePosixPath(file)
    return bool(CHAPTER.fullmatch(path.name)) and path.parent.name == "book"


def number(page: str) -> int:
    return int(PurePosixPath(page).name[:2])


MADE = {
    "map": Book.map,
    "route": Book.route,
    "chapters": Book.chapters_table,
    "edition": Book.edition,
}


def fill(app, doctree: nodes.document, docname: str) -> None:
    places = list(doctree.findall(placeholder))
    book = Book(app, docname) if places else None
    for place in places:
        html = MADE[place["makes"]](book, place["argument"])
        place.parent.replace(place, nodes.raw("", html, format="html"))


def setup(app) -> dict:
    app.add_node(placeholder)
    app.add_directive("opening", Opening)
    for name in MADE:
        app.add_directive(name, Later)
    app.connect("doctree-resolved", fill)
    return {"version": "2", "parallel_read_safe": True, "parallel_write_safe": True}
