"""The book as a browser gets it: built from nothing with every warning an error, then read.

Broken links, missing alternative texts, anything that a page would fetch from another host.
"""

import gc
import gzip
import json
import math
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit
from xml.etree import ElementTree

import build
import nbformat
import notebooks
import pytest
import yaml
from bs4 import BeautifulSoup, Tag
from docutils import nodes
from fontTools.ttLib import TTFont

from decoder_only.stories import StoryLanguage
from decoder_only_book.pictures.architecture import PARTS

ROOT = Path(__file__).resolve().parent.parent

# What a page loads by itself: (element, attribute). Links of <a> wait for a click.
LOADED = [
    ("script", "src"),
    ("link", "href"),
    ("img", "src"),
    ("img", "srcset"),
    ("source", "src"),
    ("source", "srcset"),
    ("video", "src"),
    ("audio", "src"),
    ("iframe", "src"),
    ("embed", "src"),
    ("object", "data"),
    ("use", "href"),
]
LEFT_OVER = re.compile(
    r":::|\{[a-z][\w:-]*\}\s*`|^\{[a-z-]+\}|\?\?\?|\[@\w+\]|%s", re.MULTILINE
)


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, BeautifulSoup]:
    gc.disable()  # nothing is thrown away, of two million parts
    found = {
        path: read(path)
        for path in sorted(site.rglob("*.html"))
        if "_static" not in path.parts
    }
    gc.enable()
    return found


@cache
def read(path: Path) -> BeautifulSoup:
    """A page without the colours of its code and what is in its drawings: most of its elements."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"<pre\b.*?</pre>", plain_code, text, flags=re.DOTALL)
    soup = BeautifulSoup(DRAWING.sub(r"\1</svg>", text), "html.parser")
    soup.tags = defaultdict(list)  # by name, in their order: a search takes its time
    for tag in soup.descendants:
        if isinstance(tag, Tag):
            soup.tags[tag.name].append(tag)
    return soup


def every(soup: BeautifulSoup) -> Iterator[Tag]:
    return chain.from_iterable(soup.tags.values())


def of_class(soup: BeautifulSoup, name: str) -> list[Tag]:
    return [tag for tag in every(soup) if name in tag.get("class", ())]


def article_of(soup: BeautifulSoup) -> Tag | None:
    return next(iter(soup.tags["article"]), None)


DRAWING = re.compile(r'(<svg class="drawing\b[^>]*>).*?</svg>', re.DOTALL)


def drawings_of(path: Path) -> list[ElementTree.Element]:
    text = path.read_text(encoding="utf-8")
    return [ElementTree.fromstring(found[0]) for found in DRAWING.finditer(text)]


def plain_code(code: re.Match) -> str:
    return re.sub(r"</?span\b[^>]*>", "", code[0])


@cache
def anchors(path: Path) -> frozenset[str]:
    named = every(read(path))
    return frozenset(tag.get(name) for tag in named for name in ("id", "name"))


def is_foreign(address: str) -> bool:
    return bool(urlsplit(address).netloc)


def wrong_with(address: str, page: Path) -> str | None:
    """What is wrong with a link to a file of the book, if anything is."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return None
    target = (
        Path(urljoin(f"{page.as_posix()}", unquote(parts.path))) if parts.path else page
    )
    if not target.is_file():
        return f"{page.name}: {address} leads nowhere"
    if not parts.fragment or target.suffix != ".html":
        return None
    if unquote(parts.fragment) in anchors(target):
        return None
    return f"{page.name}: {address} names no place in {target.name}"


def test_every_page_is_built(pages, site):
    names = {path.relative_to(site).as_posix() for path in pages}
    for source in [*(ROOT / "book").glob("*.md"), *notebooks.every()]:
        assert f"book/{notebooks.name(source)}.html" in names


def test_a_second_build_writes_no_page(site):
    """And in every file stands what stood there."""

    def files() -> dict[Path, tuple[int, bytes]]:
        found = (path for path in site.rglob("*") if path.is_file())
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}

    before = files()
    assert build.build(site.parents[1]) is None
    after = files()
    assert after.keys() == before.keys()
    assert not [path for path in after if after[path][1] != before[path][1]]
    pages = (path for path in after if path.parent.name in ("book", "lab"))
    assert not {path.stem for path in pages if after[path] != before[path]}


def test_no_link_is_broken(pages):
    broken = []
    for path, soup in pages.items():
        links = {
            tag[name]
            for tag in every(soup)
            for name in ("href", "src")
            if name in tag.attrs
        }
        broken += [wrong_with(link, path) for link in links - {"#"}]
    assert not [link for link in broken if link]


def test_nothing_is_loaded_from_another_host(pages):
    foreign = []
    for path, soup in pages.items():
        for element, attribute in LOADED:
            for tag in soup.tags[element]:
                if "canonical" in tag.get("rel", []):
                    continue
                if is_foreign(tag.get(attribute, "")):
                    foreign.append(f"{path.name}: {element} {tag[attribute]}")
        for tag in soup.tags["script"]:
            if "src" not in tag.attrs:
                foreign += [
                    f"{path.name}: {found}"
                    for found in re.findall(r"https?://\S+", tag.text)
                ]
        for tag in every(soup):
            styles = tag.get("style", "")
            foreign += re.findall(r"url\(['\"]?https?:[^)]*", styles)
    assert not foreign


def test_style_sheets_load_local_files_only(site):
    for path in site.rglob("*.css"):
        text = re.sub(
            r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL
        )
        addresses = re.findall(r"url\(\s*['\"]?([^'\")]+)", text)
        addresses += re.findall(r"@import\s+['\"]([^'\"]+)", text)
        for address in addresses:
            if address.startswith(("data:", "#")):
                continue
            assert not is_foreign(address), f"{path.name}: {address}"
            assert (path.parent / urlsplit(address).path).is_file(), (
                f"{path.name}: {address}"
            )


def test_images_have_alternative_texts(pages):
    for path, soup in pages.items():
        for image in soup.tags["img"]:
            alt = image.get("alt", "").strip()
            if "logo__image" in image.get("class", ()):
                continue  # an ornament beside the title
            assert alt, f"{path.name}: {image}"
            assert not re.fullmatch(r"\S+\.(png|svg|jpe?g)", alt), (
                f"{path.name}: alt={alt}"
            )
            assert not re.fullmatch(r"[0-9a-f]{16,}", Path(alt).stem), (
                f"{path.name}: alt={alt}"
            )


def test_drawings_are_part_of_the_page_and_have_names(pages, site):
    sheet = (site / "_static/bundle.css").read_text(encoding="utf-8")
    count = 0
    for path, soup in pages.items():
        assert not soup.select("article img[src$='.svg']"), path.name
        drawings = drawings_of(path)
        assert len(drawings) == len(of_class(soup, "drawing")), path.name
        names = [tag["id"] for tag in every(soup) if "id" in tag.attrs]
        for drawing in drawings:
            count += 1
            assert drawing.get("role") == "img"
            assert len(label := drawing.get("aria-label")) >= 20, (
                f"{path.name}: {label}"
            )
            values = [value for tag in drawing.iter() for value in tag.attrib.values()]
            own = [tag.get("id") for tag in drawing.iter() if "id" in tag.attrib]
            referred = re.findall(r"url\(#([\w-]+)", " ".join(values))
            for tag in drawing.iter():
                for name in ("href", "src"):
                    link = tag.get(name, "#")
                    assert link.startswith(("#", "data:image/png;")), path.name
                    referred += [link[1:]] if link[1:] and link[0] == "#" else []
            assert {*referred} <= {*own}, path.name
            names += own
            said = " ".join([*drawing.itertext(), *values])
            assert not re.search(r"https?:|%s|\?\?\?|:::", said), path.name
        assert len(names) == len(set(names)), path.name
        written = path.read_text(encoding="utf-8")
        for colour in {*re.findall(r"var\((--c\w{6}),", written)}:
            assert f"{colour}:#" in sheet, f"{path.name}: {colour}"
    assert count > 100


def test_chapters_are_light(pages, site):
    """What comes over the line before a page is scrolled; its pictures are within it."""
    static = site / "_static"
    shared = [static / "bundle.js", static / "previews.js"]
    shared += sorted((static / "fonts").glob("*.woff2"))
    assert len(shared) == 5  # serif, italic, formulas
    besides = sum(len(gzip.compress(path.read_bytes())) for path in shared)
    for path in pages:
        own = len(gzip.compress(path.read_bytes()))
        assert own + besides < 500_000, path.name


def test_every_formula_is_set_and_no_script_is_sent_for_it(pages, site):
    number = 0
    for path, soup in pages.items():
        number += len(soup.tags["math"])
        for box in of_class(soup, "math"):
            (formula,) = box.find_all("math")
            assert formula["display"] == "block", f"{box}"
            assert formula.parent["class"] == ["formula"], f"{box}"
        for formula in soup.tags["math"]:
            assert formula.get_text(strip=True), f"{path.name}: {formula}"
            assert formula["data-tex"], f"{path.name}: {formula}"
        assert "mathjax" not in str(soup.head).lower(), path.name
    assert number > 1000
    assert not list(site.rglob("*mathjax*"))


def test_links_to_equations_lead_to_their_numbers(pages):
    """A link that says (3.2) leads to the formula beside which (3.2) stands."""
    given: dict[str, str] = {}
    linked = 0
    for path, soup in pages.items():
        for box in soup.select("div.math[id]"):
            number = box.select_one(".eqno").find(string=True).strip()
            assert re.fullmatch(r"\(L?\d+(\.\d+)?\)", number), f"{path.name}: {number}"
            assert number not in given.values(), f"{path.name}: {number}"
            given[f"{path.name}#{box['id']}"] = number
    for path, soup in pages.items():
        for link in soup.tags["a"]:
            is_to_one = "#equation-" in link.get("href", "")
            if not is_to_one or "headerlink" in link.get("class", []):
                continue
            page, _, anchor = link["href"].rpartition("#")
            name = Path(page).name or path.name
            assert given[f"{name}#{anchor}"] == link.get_text(strip=True), f"{link}"
            linked += 1
    assert len(given) > 30
    assert linked > 30


def test_the_font_has_every_sign_of_every_formula(pages):
    """Else a browser takes it from whatever font it finds. tools/math_font.py adds it."""
    font = TTFont(ROOT / "book/_static/fonts/stix-two-math.woff2")
    assert font["MATH"].table.MathVariants.VertGlyphCount > 20
    known = set(font.getBestCmap()) | {0xFE00}  # says which of two forms of a letter
    missing = {}
    for path, soup in pages.items():
        signs = {x: x for math in soup.tags["math"] for x in math.get_text()}
        for letter in soup.tags["mi"]:
            if "mathvariant" not in letter.attrs:
                signs[italic(letter.get_text())] = letter.get_text()
        for sign in "".join(signs.keys() - {"\n"}):
            if ord(sign) not in known:
                missing[sign] = path.name
    assert not missing


def italic(name: str) -> str:
    """The character as which a browser draws a variable of one letter."""
    greek = "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡϴΣΤΥΦΧΨΩ∇αβγδεζηθικλμνξοπρςστυφχψω∂ϵϑϰϕϱϖ"
    if len(name) != 1 or name == "h":
        return name.replace("h", "ℎ") if len(name) == 1 else name
    if name.isascii() and name.isalpha():
        start = 0x1D434 + (
            ord(name) - ord("A") if name.isupper() else 26 + ord(name) - 97
        )
        return chr(start)
    return chr(0x1D6E2 + greek.index(name)) if name in greek else name


def test_fonts_are_files_with_their_licence(pages, site):
    """In the style sheet they would keep every page white until they are there."""
    style = (site / "_static/bundle.css").read_text(encoding="utf-8")
    assert "base64" not in style
    files = set(re.findall(r"fonts/([\w.-]+\.woff2)", style))
    assert files == {path.name for path in (site / "_static/fonts").glob("*.woff2")}
    licences = [path.read_text() for path in (site / "_static/fonts").glob("*.txt")]
    for name in files:
        assert sum(name in licence for licence in licences) == 1, name
    for path, soup in pages.items():
        scripts = " ".join(map(str, soup.select("head script")))
        asked = set(re.findall(r"fonts/([\w.-]+\.woff2)", scripts))
        if article_of(soup):
            assert asked == {"source-serif-4.woff2"}, path.name


def test_without_scripts_a_page_has_the_light_theme(pages, site):
    for path, soup in pages.items():
        if path != site / "index.html":  # leads on to book/index.html
            assert soup.html["data-theme"] == "light", path.name


def test_no_markup_is_left_over(pages):
    for path, soup in pages.items():
        article = article_of(soup)
        if article is None:
            continue
        code = soup.tags["pre"] + soup.tags["code"]
        inside = {id(text) for tag in code for text in tag.strings}
        text = "".join(text for text in article.strings if id(text) not in inside)
        found = LEFT_OVER.search(text)
        assert not found, f"{path.name}: {text[max(0, found.start() - 80) :][:160]}"
        for kind in ("xref", "problematic", "system-message"):
            for tag in of_class(soup, kind):
                if tag.name == "span" or kind != "xref":
                    assert tag.find_parent("a"), f"{path.name}: {tag}"


def test_identifiers_are_unique_in_a_page(pages):
    for path, soup in pages.items():
        article = article_of(soup)
        ids = [tag["id"] for tag in every(soup) if article and "id" in tag.attrs]
        assert len(ids) == len(set(ids)), (
            f"{path.name}: {sorted(i for i in ids if ids.count(i) > 1)}"
        )


def test_every_claim_is_listed(pages, site):
    listed = {
        link["href"].rpartition("#")[2]
        for link in pages[site / "book/claims.html"].select(".claims-list a[href]")
    }
    stated = {box["id"] for soup in pages.values() for box in of_class(soup, "claim")}
    assert listed == stated


def test_pages_run_no_script_that_fails(pages):
    """Thebe's settings, inserted twice, raise in the console; the book has no use for them."""
    for path, soup in pages.items():
        scripts = " ".join(map(str, soup.tags["script"])).lower()
        assert "thebe" not in scripts, path.name


def source_of(page: Path, site: Path) -> Path:
    """Where the notebook of a page is, if it has one."""
    return ROOT / page.relative_to(site).with_suffix(".ipynb")


def test_chapters_open_in_colab(pages, site):
    for path, soup in pages.items():
        notebook = source_of(path, site)
        if notebook.is_file():
            links = [
                a["href"]
                for a in soup.select("a[href^='https://colab.research.google.com/']")
            ]
            assert any(
                link.endswith(f"/blob/main/{notebook.relative_to(ROOT)}")
                for link in links
            ), path.name


def test_pages_are_light(pages, site):
    """What must be there before anything is painted, and how often a page asks for it."""
    assert (site / "_static/bundle.css").stat().st_size < 160_000
    for path, soup in pages.items():
        if path == site / "index.html":  # leads on to book/index.html
            continue
        styles = soup.select("link[rel=stylesheet], style#styles")
        scripts = [script for script in soup.tags["script"] if "src" in script.attrs]
        assert [style.name for style in styles] == ["style"], path.name
        assert len(scripts) <= 3, f"{path.name}: {scripts}"
        for script in scripts:
            assert script.has_attr("defer") or script.has_attr("async"), script


def test_pictures_keep_their_place_and_come_when_needed(pages):
    for path, soup in pages.items():
        for image in soup.select("article img"):
            assert image.get("loading") == "lazy", f"{path.name}: {image}"
            assert image.has_attr("width"), f"{path.name}: {image}"
            assert image.has_attr("height"), f"{path.name}: {image}"


def test_pages_say_what_they_are(pages):
    said = []
    for path, soup in pages.items():
        if path.parent.name in {"book", "lab"}:
            description = soup.select_one("meta[name=description]")["content"]
            assert len(soup.select("meta[name=viewport]")) == 1, path.name
            said.append(description)
            assert 60 < len(description) <= 202, f"{path.name}: {description}"
    assert len(said) == len(set(said))


def test_chapters_begin_with_their_question(pages, site):
    """Set-up is folded, and what show_source prints stands without its call."""
    for path, soup in pages.items():
        if not source_of(path, site).is_file():
            continue
        article = article_of(soup)
        shown = [x for x in article.select("pre") if not x.find_parent("details")]
        if question := article.find(id="the-question"):
            before = {id(tag) for tag in question.find_all_previous("pre")}
            early = [x for x in shown if id(x) in before]
            assert not early, f"{path.name}: code before the question"
        for code in shown:
            if code.find_parent("div", class_="cell_input"):
                said = code.get_text().strip()
                assert not said.startswith("show_source("), path.name


def test_folds_have_names_of_their_own(pages):
    for path, soup in pages.items():
        names = [
            fold.get_text(strip=True)
            for fold in soup.tags["summary"]
            if "solution" in fold.parent.get("class", ())
        ]
        assert len(names) == len(set(names)), f"{path.name}: {names}"
        assert not [
            fold for fold in soup.tags["summary"] if fold.has_attr("aria-label")
        ]
        assert not of_class(soup, "toggle-button")


def test_figures_come_before_the_code_that_draws_them(pages):
    n_figures = 0
    for path, soup in pages.items():
        for figure in soup.select("div.cell > div.cell_output figure:has(svg.drawing)"):
            box = figure.find_parent("div", class_="cell")
            for fold in box.select(":scope > details.hide"):
                n_figures += 1
                assert not fold.find_next_sibling("div"), f"{path.name}: {figure['id']}"
    assert n_figures > 50


def test_named_tables_are_numbered_by_chapter(pages):
    for path, soup in pages.items():
        folder = "book/lab" if path.parent.name == "lab" else "book"
        notebook = ROOT / folder / f"{path.stem}.ipynb"
        if not notebook.is_file():
            continue
        stored = set(re.findall(r'id=\\"(tab-[\w-]+)', notebook.read_text("utf-8")))
        boxes = soup.select("figure.table-figure")
        assert {box["id"] for box in boxes} == stored, path.name
        letter = "L" if path.parent.name == "lab" else ""
        number = path.stem[:2]  # the page of the GPU has none
        chapter = f"{letter}{int(number)}" if number.isdigit() else "G"
        said = [box.select_one(".caption-number").get_text() for box in boxes]
        assert said == [f"Table {chapter}.{i + 1} " for i in range(len(said))]


def test_no_table_is_too_wide_to_read(pages):
    for path, soup in pages.items():
        for table in soup.tags["table"]:
            n_columns = len(table.select("thead tr:first-child > *"))
            assert n_columns <= 6, f"{path.name}: {table.select_one('thead')}"


def test_what_must_not_break_says_so(pages, site):
    """The axes of the notation are the one thing that its page is for."""
    code = pages[site / "book/notation.html"].select("table code.unbroken")
    assert {"b h s k", "b h s t", "b s d"} <= {axes.get_text() for axes in code}
    lines = pages[site / "book/reading_order.html"].select("tbody td:last-child")
    assert lines
    for cell in lines:
        assert "unbroken" in cell["class"], cell


def test_a_condition_is_a_sentence_with_its_name(pages):
    n_notes = 0
    for path, soup in pages.items():
        for note in of_class(soup, "claim-note"):
            if not note.find_parent(class_=["claim", "claims-list"]):
                continue
            label = note.select_one(".label")
            if path.stem == "rows":
                continue
            n_notes += 1
            said = note.get_text()
            assert said.startswith(f"{label.get_text()} ")
            rest = said.removeprefix(f"{label.get_text()} ")
            assert not rest[0].islower(), f"{path.name}: {said}"
            assert rest[-1] in ".!?)", f"{path.name}: {said}"
    assert n_notes > 40


# ---------------------------------------------------------------- the documents, row by row

OPEN: set[int] = set()
"""Rows that wait for chapters to come."""


def all_rows() -> list[dict]:
    parts = yaml.safe_load((ROOT / "book" / "rows.yml").read_text(encoding="utf-8"))
    return [row for rows in parts.values() for row in rows]


def executed_under(notebook: Path) -> dict[str, int]:
    """For the anchor of each heading: how many cells stand under it, and were executed."""
    counts: dict[str, int] = {}
    anchor = ""
    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.cell_type == "markdown":
            for heading in re.findall(r"^#{1,4} +(.+)$", cell.source, re.MULTILINE):
                words = re.sub(r"[^\w]+", "-", heading.lower()).strip("-")
                anchor = words.replace("_", "-")
        elif cell.execution_count:
            counts[anchor] = counts.get(anchor, 0) + 1
    return counts


def test_every_row_of_the_documents_is_executed():
    rows = all_rows()
    assert [row["row"] for row in rows] == list(range(1, 72))
    assert {row["row"] for row in rows if "in" not in row} == OPEN
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        assert set(row) == {"row", "from", "says", "in" if "in" in row else "open"}, row
        if "in" not in row:
            continue
        chapter, _, anchor = row["in"].partition("#")
        if chapter not in counts:
            counts[chapter] = executed_under(ROOT / "book" / f"{chapter}.ipynb")
        assert counts[chapter].get(anchor), (
            f"row {row['row']}: no cell runs in {row['in']}"
        )


def test_the_page_of_rows_shows_where_each_leads(pages, site):
    page = pages[site / "book" / "rows.html"]
    items = page.select(".rows-list > li")
    assert len(items) == len(all_rows()) == 71
    for row, item in zip(all_rows(), items, strict=True):
        verdicts = {pill.get_text() for pill in item.select(".verdict")}
        assert verdicts, item
        assert (verdicts == {"Open"}) == (row["row"] in OPEN), item
        assert bool(item.select_one("a[href*='#']")) == (row["row"] not in OPEN)
    tried = {
        int(box["id"].split("-")[1])
        for soup in pages.values()
        for box in of_class(soup, "claim")
    }
    built = {
        row["row"]
        for row, item in zip(all_rows(), items, strict=True)
        if item.select_one(".verdict-built")
    }
    assert built == set(range(1, 72)) - tried - OPEN


def test_claims_stand_under_the_headings_of_their_chapters(pages, site):
    headings = pages[site / "book/claims.html"].select("article h2 a.reference")
    assert len(headings) >= 10
    for heading in headings:
        assert re.search(r"\d\d_\w+\.html$", heading["href"])


# ---------------------------------------------------------------- bibliography

CITED = re.compile(r"\{cite(?::[a-z]+)?\}`([^`]+)`")


def test_citations_and_entries_match_both_ways():
    entries = re.findall(
        r"^@\w+\{([^,]+),", (ROOT / "book/references.bib").read_text(), re.MULTILINE
    )
    assert len(entries) == len(set(entries))
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "book").glob("*.md")]
    for path in notebooks.every():
        texts += [
            cell.source
            for cell in nbformat.read(path, as_version=4).cells
            if cell.cell_type == "markdown"
        ]
    cited = {
        key.strip()
        for text in texts
        for keys in CITED.findall(text)
        for key in keys.split(",")
    }
    assert cited - set(entries) == set(), "cited and not in references.bib"
    assert set(entries) - cited == set(), "in references.bib and cited nowhere"


def test_papers_on_arxiv_are_linked(pages, site):
    page = pages[site / "book" / "bibliography.html"]
    assert len(page.select("a[href^='https://arxiv.org/abs/']")) >= 20
    for entry in page.select("div.citation"):
        text = BeautifulSoup(str(entry), "html.parser")
        for link in text.select("a"):
            link.decompose()
        assert "arXiv:" not in text.get_text(), entry.get_text()


def test_the_opening_page_pulls(pages, site):
    """A way in, and a story whose wrong letter is marked, before anything else is explained."""
    article = pages[site / "book" / "index.html"].select_one("article")
    start = article.select_one("a.start")
    assert start["href"].startswith("story_machine.html")
    before_story = article.get_text().partition(start.get_text())[0]
    assert len(before_story.split()) < 80
    letter = article.select_one(".story .wrong-letter").get_text()
    assert len(letter) == 1
    story = json.loads((ROOT / "book/figures/opening.json").read_text(encoding="utf-8"))
    shown = article.select_one(".story-text").get_text()
    shown = shown.translate(str.maketrans("“”‘’", "\"\"''"))
    assert shown.startswith(story["read"] + letter)
    assert story["command"] in article.select_one(".story details").get_text()
    assert (ROOT / re.search(r"--run (\S+)", story["command"])[1]).is_dir()
    image = pages[site / "book" / "index.html"].select_one("meta[property='og:image']")[
        "content"
    ]
    assert (site / "_static" / Path(image).name).is_file()


def test_the_opening_page_says_who_made_it_when_and_where_it_is(pages, site):
    article = pages[site / "book" / "index.html"].select_one("article")
    edition = article.select_one(".first-screen .edition")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    said = edition.get_text(" ", strip=True)
    assert said.startswith(f"Version {version}, ")
    assert re.search(r"\d{1,2} [A-Z][a-z]+ 20\d\d", said)
    assert settings()["author"] in said
    assert "PDF" in said
    assert "epository" in said
    assert not [link for link in edition.select("a") if "OWNER" in link["href"]]


def settings() -> dict:
    return yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))


def chapters() -> list[str]:
    """The stems of the chapters, in the order of the contents."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    files = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    return [Path(file).name for file in files if re.match(r"book/\d\d_", file)]


def title(page: BeautifulSoup) -> str:
    """The page's heading, without its number and the sign of its link."""
    heading = BeautifulSoup(str(page.select_one("article h1")), "html.parser")
    for part in heading.select(".section-number, .headerlink"):
        part.decompose()
    return heading.get_text(strip=True)


def test_each_part_of_the_map_leads_to_its_chapter(pages, site):
    article = pages[site / "book" / "index.html"].select_one("article")
    links = article.select("figure.map svg a[href]")
    leads = {link["href"].partition(".")[0] for link in links}
    assert leads == set(chapters()[1:11]), "one link for each of chapters 1 to 10"
    assert len(links) == len(PARTS) == len(leads)
    colours = {link["style"].removeprefix("--part: ") for link in links}
    assert colours == set(PARTS.values())
    for link in links:
        page = pages[site / "book" / link["href"]]
        called, words = link["aria-label"], link.select_one(".map-name").get_text()
        assert called.startswith(words), "who speaks to the page says what is seen"
        assert called.endswith(title(page))


def test_the_list_of_chapters_agrees_with_the_contents(pages, site):
    built = yaml.safe_load((ROOT / "book/chapters.yml").read_text(encoding="utf-8"))
    assert list(built) == chapters()
    page = pages[site / "book" / "index.html"]
    rows = [row for row in page.select(".chapter-list tr") if row.select("td.number")]
    beside = page.select("#pst-primary-sidebar .bd-toc-item a")
    names = {
        link["href"]: re.sub(r"^\d+\. ", "", link.get_text(strip=True))
        for link in beside
    }
    measured = json.loads((ROOT / "tests/seconds.json").read_text())
    for stem, row in zip(chapters(), rows, strict=True):
        link = row.select_one("a")
        assert link["href"] == f"{stem}.html"
        assert link.get_text() == names[link["href"]]
        assert link.get_text() == title(pages[site / "book" / f"{stem}.html"])
        assert row.select_one(".number").get_text() == str(int(stem[:2]))
        assert row.select_one(".built").get_text() == built[stem]
        read, run = (int(cell.get_text()) for cell in row.select(".time"))
        assert read > 5
        assert run == math.ceil(measured[f"book/{stem}.ipynb"] / 60)


def test_every_page_says_how_long_it_takes(pages, site):
    rows = pages[site / "book" / "index.html"].select(".chapter-list tr:has(td.number)")
    listed = {
        row.a["href"]: [t.get_text() for t in row.select(".time")] for row in rows
    }
    assert pages[site / "book" / "index.html"].select_one("#minutes") is not None
    measured = json.loads((ROOT / "tests/seconds.json").read_text())
    for path, page in pages.items():
        if path.parent.name != "book" or path.stem in {"index", "bibliography"}:
            continue
        line = page.select_one("article h1").find_next_sibling()
        assert line.get("class") == ["minutes"], path.name
        assert line.a["href"].endswith("index.html#minutes")
        said = re.fullmatch(
            r"(\d+) minutes? to read(?:, (\d+) to run)?", line.get_text()
        )
        assert said, f"{path.name}: {line.get_text()}"
        seconds = measured.get(f"book/{path.stem}.ipynb")  # a page beside the chapters
        run = None if seconds is None else str(math.ceil(seconds / 60))
        assert list(said.groups()) == listed.get(path.name, [said[1], run])


def test_minutes_count_what_stands_open(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    import minutes

    prose = nodes.paragraph("", "word " * 300)
    code = nodes.literal_block("", "line\n\n" * 20)
    solution = nodes.admonition("", prose.deepcopy(), classes=["dropdown"])
    page = nodes.section("", prose, code, solution)
    assert minutes.count(page) == (300, 20)
    assert minutes.minutes_of(page) == 300 / 200 + 20 * 3 / 60
    assert [minutes.rounded(m) for m in (0.2, 2.4, 12.6, 33.0)] == [1, 2, 13, 35]
    assert minutes.said(1, None) == "1 minute to read"
    assert minutes.said(35, 2) == "35 minutes to read, 2 to run"


def test_what_is_done_once_is_told_apart_by_its_key(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    import once

    done = []
    answer = once.remembered(lambda x: done.append(x) or len(done), lambda x: x or None)
    assert [answer(x) for x in (1, 2, 1, 0, 0)] == [1, 2, 1, 3, 4]
    keys = {
        once.of_lexer(None, source, lang, opts, force)
        for source in ("1", ">>> 1")
        for lang in ("python", "sh")
        for opts in (None, {"stripnl": False})
        for force in (False, True)
    }
    assert len(keys) == 16
    assert once.of_lexer(None, "1", "guess") is None


# ---------------------------------------------------------------- finding one's way


def of_script(path: Path) -> dict:
    """What a script of data holds: name by name, as JSON."""
    text = path.read_text(encoding="utf-8")
    return {
        name: json.loads(value)
        for name, value in re.findall(r"^window\.(\w+) = (.*);$", text, re.MULTILINE)
    }


def test_every_word_of_the_trade_leads_to_a_section(site):
    found = of_script(site / "_static" / "sections.js")
    words = yaml.safe_load((ROOT / "book/terms.yml").read_text(encoding="utf-8"))
    sections = {section["url"] for section in found["BOOK_SECTIONS"]}
    lost = {
        place
        for place in words
        if f"book/{place.replace('#', '.html#')}" not in sections
    }
    assert not lost, f"no such section: {lost}"
    listed = [word for some in words.values() for word in some]
    assert len(listed) == len({word.lower() for word in listed}), "each word once"
    assert set(found["BOOK_TERMS"]) == set(listed)


def test_previews_of_other_pages_lead_to_what_they_show(pages, site):
    previews = of_script(site / "_static" / "previews.js")["BOOK_PREVIEWS"]
    assert len(previews) > 100
    assert (site / "_static" / "previews.js").stat().st_size < 150_000
    for address, shown in previews.items():
        assert not wrong_with(f"../{address}", site / "book" / "index.html")
        assert shown["title"] or shown["text"], address
        assert len(shown["text"]) < 320, address  # a verdict, and 280 letters
        if "image" in shown:
            assert (site / shown["image"]).is_file(), address


def test_contents_of_a_page_show_its_sections_first(pages, site):
    contents = pages[site / "book/14_interpretation.html"].select_one("nav.page-toc")
    assert contents.select("ul ul")
    assert not contents.select("ul ul.visible")


def test_the_opening_story_leaves_the_language_where_it_says():
    story = json.loads((ROOT / "book/figures/opening.json").read_text(encoding="utf-8"))
    verdict = StoryLanguage().explain(story["read"] + story["found"])
    assert not verdict.in_language
    assert verdict.at == len(story["read"])
    assert [words for words, _ in verdict.expected[:3]] == [
        words for words, _ in story["expected"]
    ]
