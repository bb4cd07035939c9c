"""The last hand on a page: few requests, nothing that blocks the first paint, sizes for pictures.

- One style sheet and one deferred script hold what the theme and the extensions bring as twenty
  files. Rules for classes that no page and no script names are left out (they are three quarters).
- The style sheet (23 kB compressed) is within every page: on a slow line a long page would share
  the line with it, and would stay white until both are there.
- The theme's icons are 1.5 MB of script that must be read before anything is painted. The book
  needs a dozen, drawn in its own style sheet.
- The serif is asked for in the head, so that it comes with the page and not after it.
- A picture carries its width and height, so that nothing moves when it comes; it comes when needed.
- A drawing becomes part of the page (see drawings.py).
"""

import json
import re
import struct
from hashlib import sha256
from html import escape, unescape
from itertools import count
from pathlib import Path, PurePosixPath
from posixpath import normpath

import drawings
import live
from bs4 import BeautifulSoup
from sphinx.util.fileutil import copy_asset

STYLES, SCRIPTS = "bundle.css", "bundle.js"
# Icons (see above), folds (see folds.py), the theme's tabs, and Sphinx's search (see find.py);
# the colours of code stand in book.css.
LEFT_OUT = (
    "fontawesome.js",
    "togglebutton.js",
    "togglebutton.css",
    "pygments.css",
    "design-tabs.js",
    "searchtools.js",
    "language_data.js",
    "searchindex.js",
)
# Classes that scripts put together from parts, so that no text holds them whole.
KEPT = re.compile(r"^(tooltip|bs-tooltip|dropdown|show|fade|collaps|modal|active)")

# Names every class of its parts, of which the theme uses few (those of KEPT).
WORDY = "bootstrap.js"
PROPERTY = re.compile(
    r"""(?<![\w-])(--[\w-]+)\s*:(?:"[^"]*"|'[^']*'|\((?:[^()"']|\([^()]*\)|"[^"]*"|'[^']*')*\)|[^;{}"'()])*(?:;|(?=\}))"""
)

LINK = re.compile(r'[ \t]*<link\b[^>]*\brel="stylesheet"[^>]*>\s*')
STYLE = re.compile(
    r'<style id="styles" data-static="(?P<static>[^"]*)">.*?</style>', re.DOTALL
)
SCRIPT = re.compile(
    r"[ \t]*<script\b(?P<attributes>[^>]*)>(?P<code>.*?)</script>\s*", re.DOTALL
)
ADDRESS = re.compile(r'\b(?:src|href)="([^"?#]*)')
AFFIXED = re.compile(
    r"([(\[“‘]*)(<math\b(?:(?!</math>).)*</math>)([)\],.;:!?’”]*)", re.DOTALL
)
IMAGE = re.compile(r"<img\b[^>]*?\s*/?>")
THEME = """<script>
    (function (page) {
      var mode = localStorage.getItem("mode") || "auto";
      var dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
      var theme = localStorage.getItem("theme") || (dark ? "dark" : "light");
      page.mode = mode;
      page.theme = mode !== "auto" ? mode : theme;
      page.scripted = "";
    })(document.documentElement.dataset);
    // The serif comes beside the page, not after it. (From a file no font can be asked for.)
    if (location.protocol !== "file:")
      document.head.append(Object.assign(document.createElement("link"), {
        rel: "preload", as: "font", type: "font/woff2", crossOrigin: "",
        href: "%s/fonts/source-serif-4.woff2",
      }));
  </script>"""

# The page is shown with its serif: text that is set anew while it is read moves. A long page shares
# a slow line with it, so it waits 0.8 seconds at most.
SERIF = """<script>
    (({ dataset }) => {
      const show = () => delete dataset.serif;
      dataset.serif = "coming";
      document.fonts.load('1em "Source Serif 4"').then(show, show);
      setTimeout(show, 800);
    })(document.documentElement);
  </script>"""
BUTTONS = [
    ("fas fa-rocket", "Launch interactive content", "Run"),
    ("fab fa-github", "Source repositories", "Repository"),
]
"""Their icon, what the theme calls them, what the book calls them."""


class Finisher:
    """Takes each page as the template has rendered it, and gives back what is written."""

    def __init__(self, app) -> None:
        self.app = app
        self.out = Path(app.outdir)
        self.lists = Path(app.doctreedir, "bundles.json")
        self.bundles: dict[str, list[str]] = {STYLES: [], SCRIPTS: []}

    def page(self, text: str, context: dict) -> str:
        folder = PurePosixPath(context["pagename"]).parent.as_posix()
        head, end, rest = text.partition("</head>")
        styles = self.addresses(LINK.findall(head), folder)
        scripts = []
        for found in SCRIPT.finditer(text):
            if 'src="' in found["attributes"]:
                scripts += self.addresses([found["attributes"]], folder)
        bundled = [path for path in scripts if not path.endswith(LEFT_OUT)]
        self.collect(STYLES, [path for path in styles if not path.endswith(LEFT_OUT)])
        self.collect(SCRIPTS, bundled)

        head = SCRIPT.sub(in_head, LINK.sub("", head))
        head = re.sub(
            r"<!--.*?-->\s*|[ \t]*<link rel=\"preload\"[^>]*>\s*",
            "",
            head,
            flags=re.DOTALL,
        )
        # The viewport is named three times; the first is Sphinx's own.
        viewport = re.compile(r'\s*<meta name="viewport"[^>]*>')
        head = viewport.sub("", head).replace(
            "<title>",
            '<meta name="viewport" content="width=device-width, initial-scale=1" />\n    <title>',
            1,
        )
        rest = SCRIPT.sub(
            lambda found: "" if 'src="' in found["attributes"] else found[0], rest
        )
        rest = named(rest)
        rest = re.sub(
            r'<table class="table".*?</table>',
            lambda t: table(t[0]),
            rest,
            flags=re.DOTALL,
        )
        rest = AFFIXED.sub(held, rest)
        numbers = count()
        rest = IMAGE.sub(lambda found: self.image(found[0], folder, numbers), rest)
        rest = drawings.captioned(rest)
        # Without scripts the page is light; every rule of colour asks for a theme by name.
        head = re.sub(
            r"<html\b(?![^>]*\bdata-theme=)", '<html data-theme="light"', head, count=1
        )
        root = "../" * len(PurePosixPath(folder).parts)
        head = re.sub(r"\n\s*\n+", "\n", head)
        # At the end, so that they do not come before what is read.
        names = [f"{SCRIPTS}?v={self.version(SCRIPTS)}"]
        if context["pagename"] == "search":
            names += ["sections.js", "find.js"]
        names += live.scripts(rest)
        scripts = "".join(
            f'<script defer src="{root}_static/{name}"></script>\n' for name in names
        )
        rest = rest.replace("</body>", f"{scripts}</body>")
        return f"{head.rstrip()}\n{self.added(root, rest, context)}  {end}{rest}"

    def added(self, root: str, rest: str, context: dict) -> str:
        """What the head of a page loads, and what it says to those who link to it."""
        static = f"{root}_static"
        lines = [
            THEME % static,
            f'<style id="styles" data-static="{static}/"></style>',
            SERIF,
        ]
        said = description(rest)
        title = unescape(re.sub(r"<[^>]+>", "", context.get("title") or ""))
        lines += [
            f'<meta name="description" content="{escape(said)}" />',
            f'<meta property="og:title" content="{escape(title)}" />',
            f'<meta property="og:description" content="{escape(said)}" />',
            '<meta property="og:type" content="article" />',
        ]
        if base := self.app.config.html_baseurl.rstrip("/"):
            lines.append(
                f'<meta property="og:image" content="{base}/_static/card.png" />'
            )
        return "".join(f"  {line}\n" for line in lines)

    def addresses(self, elements: list[str], folder: str) -> list[str]:
        found = (ADDRESS.search(element) for element in elements)
        return [normpath(f"{folder}/{match[1]}") for match in found if match]

    def collect(self, bundle: str, paths: list[str]) -> None:
        known = self.bundles[bundle]
        known += [path for path in paths if path not in known]

    def version(self, bundle: str) -> str:
        """Changes when any of the bundle's files changes, so that no browser keeps an old one."""
        digest = sha256()
        for path in self.bundles[bundle]:
            digest.update(path.encode())
            if (
                self.out / path
            ).is_file():  # some extensions bring theirs at the very end
                digest.update((self.out / path).read_bytes())
        return digest.hexdigest()[:8]

    def image(self, tag: str, folder: str, numbers: count) -> str:
        """The drawing; or the tag with the picture's size, loaded only where it comes into view."""
        address = ADDRESS.search(tag)
        if address and address[1].endswith(".svg"):
            name = PurePosixPath(address[1]).name
            for source, its in self.app.builder.images.items():
                if its == name:
                    text = Path(self.app.srcdir, source).read_text(encoding="utf-8")
                    return drawings.inlined(tag, text, f"d{next(numbers)}")
        tag = tag.removesuffix("/>").removesuffix(">").rstrip()
        if "loading=" not in tag and "logo__image" not in tag:
            tag += ' loading="lazy" decoding="async"'
        size = None
        if address and not re.search(r"\swidth=\"|\sheight=\"", tag):
            name = PurePosixPath(address[1]).name
            sources = [s for s, n in self.app.builder.images.items() if n == name]
            places = [Path(self.app.srcdir, s) for s in sources]
            places.append(self.out / normpath(f"{folder}/{address[1]}"))
            size = next(
                (dimensions(place) for place in places if place.is_file()), None
            )
        if size:
            tag += f' width="{size[0]}" height="{size[1]}"'
        return f"{tag} />"

    def sheet(self, path: str) -> str:
        """The style sheet, after those that it imports, with addresses seen from _static."""
        text = (self.out / path).read_text(encoding="utf-8")
        folder = PurePosixPath(path).parent
        imported = re.findall(r"""@import\s+(?:url\()?["']([^"']+)["']\)?""", text)
        before = [self.sheet(normpath(f"{folder}/{name}")) for name in imported]
        return "\n".join([*before, rebased(text, path)])

    def refresh(self, app, exception) -> None:
        """Copies the book's own styles and scripts: Sphinx does so only if it writes a page."""
        if exception is None and not self.bundles[STYLES]:
            # What extensions bring (by absolute paths) may be templates.
            for entry in map(Path, app.config.html_static_path):
                if not entry.is_absolute():
                    copy_asset(Path(app.confdir, entry), self.out / "_static")

    def finish(self, app, exception) -> None:
        """Writes the bundles, once all pages are there to say what they need."""
        if exception is not None:
            return
        if self.bundles[STYLES]:
            self.lists.write_text(json.dumps(self.bundles))
        else:  # no page was written anew
            self.bundles = json.loads(self.lists.read_text())
        static = self.out / "_static"
        script = ";\n".join(
            re.sub(
                r"^//# sourceMappingURL=.*$",
                "",
                (self.out / path).read_text(),
                flags=re.MULTILINE,
            )
            for path in self.bundles[SCRIPTS]
        )
        (static / SCRIPTS).write_text(script, encoding="utf-8")
        paths = [*self.out.rglob("*.html")]
        pages = [STYLE.sub("", path.read_text()) for path in paths]
        own = [p for p in self.bundles[SCRIPTS] if not p.endswith(WORDY)]
        words = set(
            re.findall(r"[\w-]+", " ".join((self.out / p).read_text() for p in own))
        )
        for page in pages:
            for found in re.findall(r'\bclass="([^"]*)"', page):
                words.update(found.split())
        rules = []
        for path in self.bundles[STYLES]:
            text = self.sheet(path)
            rules.append(text if path.endswith("book.css") else pruned(text, words))
        rules.append(drawings.sheet(pages, static))
        sheet = without_unused("\n".join(rules), [script, *pages])
        (static / STYLES).write_text(sheet, encoding="utf-8")
        for path in paths:
            text = path.read_text()
            if (styled := STYLE.sub(lambda found: style(found, sheet), text)) != text:
                path.write_text(styled, encoding="utf-8")


def style(found: re.Match, sheet: str) -> str:
    """The style sheet within a page, which can then be painted as soon as it begins to come."""
    static = found["static"]
    rules = re.sub(r'url\("(?!data:|#)', f'url("{static}', sheet)
    return f'<style id="styles" data-static="{static}">{rules}</style>'


def held(found: re.Match) -> str:
    """A formula and the signs that touch it, which no line may begin or end without it."""
    before, _, after = found.groups()
    return f'<span class="held">{found[0]}</span>' if before or after else found[0]


def in_head(found: re.Match) -> str:
    """Scripts of the head: those with an address are bundled, few of the others are needed."""
    return found[0] if "application/" in found["attributes"] else ""


def named(body: str) -> str:
    """Names for those who hear the page: each control is called what it shows, solutions are told
    apart by their exercise, and a corner of a table without a word is no heading."""
    body = re.sub(r'<summary aria-label="[^"]*">', "<summary>", body)
    body = re.sub(
        r'(<button class="btn search-button-field[^>]*?) title="Search" aria-label="Search"',
        r"\1",
        body,
    )
    body = body.replace(
        '<span class="search-button__kbd-shortcut">',
        '<span class="search-button__kbd-shortcut" aria-hidden="true">',
    )
    body = re.sub(
        r'<th class="head([^"]*)">\s*(<p>\s*</p>)?\s*</th>',
        r'<td class="head\1"></td>',
        body,
    )
    body = re.sub(r"<th(\s[^>]*)?>\s*</th>", r"<td\1></td>", body)
    body = body.replace(
        '<div id="pst-primary-sidebar"',
        '<div id="pst-primary-sidebar" role="region" aria-label="The book"',
    )
    # Two buttons say in words what their icons mean.
    for icon, called, name in BUTTONS:
        body = re.sub(
            rf'(<button[^>]*?) aria-label="{called}">(\s*<i class="{icon}"></i>)',
            rf'\1 aria-label="{name}">\2<span class="button-name">{name}</span>',
            body,
        )
    # A workbook is kept, not shown.
    body = re.sub(
        r'target="_blank"(\s+class="btn btn-sm btn-workbook.*?)<span class="btn__text-container">',
        r'download aria-label="Workbook"\1<span class="button-name">',
        body,
        flags=re.DOTALL,
    )
    number = ""

    def solution(found: re.Match) -> str:
        nonlocal number
        if found["exercise"]:
            number = found["exercise"]
            return found[0]
        return f"{found['opening']}Solution {number}</summary>"

    return re.sub(
        r'caption-number">Exercise (?P<exercise>[\d.]+)|'
        r'(?P<opening><summary class="admonition-title">)Solution</summary>',
        solution,
        body,
    )


NUMBER = re.compile(r"[<>]?[-−+]?\d[\d,.]*%?( ?(±|\+-) ?<?[\d,.]+)?")


def table(html: str) -> str:
    """A table of a Markdown page: what must not break says so, and sentences can be stacked.

    Short names of rows, numbers and short pieces of code keep to one line. A table with
    sentences in its cells can be stacked on a phone: each cell knows its column.
    """
    soup = BeautifulSoup(html, "html.parser")
    head = soup.select("thead :is(th, td)")
    rows = [row.find_all(["th", "td"]) for row in soup.select("tbody tr")]
    longest = max((len(row[0].get_text().strip()) for row in rows if row), default=0)
    for row in rows:
        for column, cell in enumerate(row):
            number = NUMBER.fullmatch(cell.get_text().strip())
            if number or (column == 0 and longest <= 30):
                cell["class"] = [*cell.get("class", []), "unbroken"]
    for code in soup.select("tbody code"):
        if len(code.get_text()) <= 20:
            code["class"] = [*code.get("class", []), "unbroken"]
    cells = soup.select("tbody td")
    if len(head) < 3 or max((len(cell.get_text()) for cell in cells), default=0) < 60:
        return str(soup)
    soup.table["class"] = ["table", "stack"]
    for row in soup.select("tbody tr"):
        for name, cell in zip(head, row.find_all("td"), strict=False):
            label = name.get_text(" ", strip=True)
            if label and cell.get_text(strip=True):
                cell["data-label"] = label
    return str(soup)


def description(body: str) -> str:
    """The first paragraph of the article, as one line of at most 200 characters."""
    article = body.partition('<article class="bd-article">')[2]
    for paragraph in re.findall(r"<p>(.*?)</p>", article, re.DOTALL):
        said = unescape(re.sub(r"<[^>]+>", "", paragraph))
        said = " ".join(said.split())
        if len(said) > 60:
            return said if len(said) <= 200 else f"{said[:200].rpartition(' ')[0]} …"
    return "Decoder-only transformers, from raw text to scaling laws, in chapters that run."


def dimensions(path: Path) -> tuple[int, int] | None:
    """Width and height of a PNG, read from its first bytes."""
    start = path.read_bytes()[:24]
    if start[:8] != b"\x89PNG\r\n\x1a\n":
        return None
    return struct.unpack(">II", start[16:24])


def rebased(css: str, path: str) -> str:
    """The style sheet with its addresses seen from ``_static`` instead of from its own folder."""
    folder = PurePosixPath(path).parent

    def moved(found: re.Match) -> str:
        address = found[1].strip("'\"")
        if re.match(r"[a-z]+:|#|/", address):
            return found[0]
        return f'url("{normpath(f"{folder}/{address}").removeprefix("_static/")}")'

    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    return re.sub(r"url\(([^)]*)\)", moved, css)


def blocks(css: str) -> list[tuple[str, str | None]]:
    """The style sheet as (prelude, content) of each rule; content is None for a bare statement."""
    found, start, depth, opened, quote = [], 0, 0, 0, ""
    position = 0
    while position < len(css):
        letter = css[position]
        if quote:
            if letter == "\\":
                position += 1
            elif letter == quote:
                quote = ""
        elif letter in "'\"":
            quote = letter
        elif letter == "\\":
            position += 1
        elif letter == "{":
            if depth == 0:
                opened = position
            depth += 1
        elif letter == "}":
            depth -= 1
            if depth == 0:
                found.append((css[start:opened].strip(), css[opened + 1 : position]))
                start = position + 1
        elif letter == ";" and depth == 0:
            found.append((css[start:position].strip(), None))
            start = position + 1
        position += 1
    return found


def pruned(css: str, words: set[str]) -> str:
    """The rules that can apply where only ``words`` occur as classes."""
    kept = []
    for prelude, content in blocks(css):
        if content is None:
            if not prelude.startswith(("@charset", "@import")):
                kept.append(f"{prelude};")
        elif prelude.startswith(("@media", "@supports", "@layer")):
            if inner := pruned(content, words):
                kept.append(f"{prelude}{{{inner}}}")
        elif prelude.startswith("@font-face"):
            if "Font Awesome" not in content and "FontAwesome" not in content:
                kept.append(f"{prelude}{{{content}}}")
        elif prelude.startswith("@"):
            kept.append(f"{prelude}{{{content}}}")
        else:
            selectors = [s for s in split(prelude) if applies(s, words)]
            if selectors:
                kept.append(f"{','.join(selectors)}{{{content.strip()}}}")
    return "\n".join(kept)


def without_unused(css: str, others: list[str]) -> str:
    """The style sheet without custom properties and animations that nothing refers to."""
    named = set(re.findall(r"[\"'`](--[\w-]+)", " ".join(others)))
    named |= {name for text in others for name in re.findall(r"var\((--[\w-]+)", text)}
    before = None
    while before != css:
        before = css
        used = named | set(re.findall(r"var\(\s*(--[\w-]+)", css))
        css = PROPERTY.sub(
            lambda found, used=used: found[0] if found[1] in used else "", css
        )
    names = set(re.findall(r"[\w-]+", re.sub(r"@keyframes\s+[\w-]+", "", css)))
    kept = [
        (prelude, content)
        for prelude, content in blocks(css)
        if not prelude.startswith("@keyframes") or prelude.split()[-1] in names
    ]
    return "\n".join(
        f"{prelude};" if content is None else f"{prelude}{{{content.strip()}}}"
        for prelude, content in kept
        if content is None or content.strip()
    )


def split(selectors: str) -> list[str]:
    """The parts between commas that stand in no bracket."""
    parts, depth = [""], 0
    for letter in selectors:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def applies(selector: str, words: set[str]) -> bool:
    """Whether every class of the selector occurs; what stands in brackets does not count."""
    previous = None
    while previous != selector:
        previous, selector = selector, re.sub(r"\([^()]*\)|\[[^\]]*\]", "", selector)
    classes = [
        name.replace("\\", "") for name in re.findall(r"\.((?:[\w-]|\\.)+)", selector)
    ]
    if any(re.match(r"fa([bsrl]|-|$)", name) for name in classes):
        return False
    return all(name in words or KEPT.match(name) for name in classes)


def prepare(app) -> None:
    if app.builder.format != "html":
        return
    finisher = Finisher(app)
    templates = app.builder.templates
    render = templates.render

    def rendered(name: str, context: dict) -> str:
        text = render(name, context)
        return finisher.page(text, context) if "</head>" in text else text

    templates.render = rendered
    app.connect("build-finished", finisher.refresh, priority=100)
    app.connect("build-finished", finisher.finish, priority=900)


def setup(app) -> dict:
    app.connect("builder-inited", prepare, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": False}
