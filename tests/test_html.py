"""The book as a browser gets it: built from nothing with every warning an error, then read.

Broken links, missing alternative texts, anything that a page would fetch from another host.
"""

import json
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import nbformat
import notebooks
import pytest
import yaml
from bs4 import BeautifulSoup

from decoder_only.stories import StoryLanguage

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
    return {
        path: read(path)
        for path in sorted(site.rglob("*.html"))
        if "_static" not in path.parts
    }


@cache
def read(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@cache
def anchors(path: Path) -> frozenset[str]:
    soup = read(path)
    return frozenset(
        tag.get(name)
        for name in ("id", "name")
        for tag in soup.find_all(attrs={name: True})
    )


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


def test_no_link_is_broken(pages):
    broken = []
    for path, soup in pages.items():
        links = [tag["href"] for tag in soup.select("a[href], link[href]")]
        links += [tag["src"] for tag in soup.select("[src]")]
        broken += [wrong_with(link, path) for link in links if link != "#"]
    assert not [link for link in broken if link]


def test_nothing_is_loaded_from_another_host(pages):
    foreign = []
    for path, soup in pages.items():
        for element, attribute in LOADED:
            for tag in soup.find_all(element, attrs={attribute: True}):
                if "canonical" in tag.get("rel", []):
                    continue
                if is_foreign(tag[attribute]):
                    foreign.append(f"{path.name}: {element} {tag[attribute]}")
        for tag in soup.find_all("script", src=False):
            foreign += [
                f"{path.name}: {found}"
                for found in re.findall(r"https?://\S+", tag.text)
            ]
        for tag in soup.find_all(style=True):
            foreign += re.findall(r"url\(['\"]?https?:[^)]*", tag["style"])
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
        for image in soup.find_all("img"):
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


def test_formulas_are_set_by_the_local_file(pages, site):
    with_formulas = 0
    for path, soup in pages.items():
        scripts = [tag["src"] for tag in soup.select("script[src]")]
        mathjax = [source for source in scripts if "mathjax" in source]
        if soup.select(".math"):
            with_formulas += 1
            assert len(mathjax) == 1, (
                f"{path.name} has formulas and nothing that sets them"
            )
            assert not is_foreign(mathjax[0])
    if with_formulas:
        assert (site / "_static/mathjax/tex-svg-full.js").stat().st_size > 1_000_000


def test_no_markup_is_left_over(pages):
    for path, soup in pages.items():
        article = soup.select_one("article")
        if article is None:
            continue
        code = article.select("pre, code, .math")
        inside = {id(text) for tag in code for text in tag.strings}
        text = "".join(text for text in article.strings if id(text) not in inside)
        found = LEFT_OVER.search(text)
        assert not found, f"{path.name}: {text[max(0, found.start() - 80) :][:160]}"
        for reference in article.select("span.xref, .problematic, .system-message"):
            assert reference.find_parent("a"), f"{path.name}: {reference}"


def test_identifiers_are_unique_in_a_page(pages):
    for path, soup in pages.items():
        article = soup.select_one("article")
        ids = [tag["id"] for tag in article.find_all(id=True)] if article else []
        assert len(ids) == len(set(ids)), (
            f"{path.name}: {sorted(i for i in ids if ids.count(i) > 1)}"
        )


def test_every_claim_is_listed(pages, site):
    listed = {
        link["href"].rpartition("#")[2]
        for link in pages[site / "book/claims.html"].select(".claims-list a[href]")
    }
    stated = {box["id"] for soup in pages.values() for box in soup.select("div.claim")}
    assert listed == stated


def test_pages_run_no_script_that_fails(pages):
    """Thebe's settings, inserted twice, raise in the console; the book has no use for them."""
    for path, soup in pages.items():
        assert "thebe" not in str(soup.head).lower(), path.name


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
    assert (site / "_static/bundle.css").stat().st_size < 400_000
    for path, soup in pages.items():
        if path == site / "index.html":  # leads on to book/index.html
            continue
        styles = soup.select("link[rel=stylesheet]")
        scripts = soup.select("script[src]")
        assert len(styles) == 1, f"{path.name}: {styles}"
        assert len(scripts) <= 3, f"{path.name}: {scripts}"
        for script in scripts:
            assert script.has_attr("defer") or script.has_attr("async"), script
        has_formulas = bool(soup.select(".math"))
        assert has_formulas == any("mathjax" in tag["src"] for tag in scripts), (
            path.name
        )


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
        article = soup.select_one("article")
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
            for fold in soup.select("details.solution > summary")
        ]
        assert len(names) == len(set(names)), f"{path.name}: {names}"
        assert not soup.select("summary[aria-label]")
        assert not soup.select(".toggle-button")


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
        for box in soup.select("div.claim")
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
    assert start["href"].startswith("00_overview.html")
    before_story = article.get_text().partition(start.get_text())[0]
    assert len(before_story.split()) < 80
    letter = article.select_one(".story .wrong-letter").get_text()
    assert len(letter) == 1
    story = json.loads((ROOT / "book/figures/opening.json").read_text(encoding="utf-8"))
    shown = article.select_one(".story-text").get_text()
    shown = shown.translate(str.maketrans("“”‘’", "\"\"''"))
    assert shown.startswith(story["read"] + letter)
    assert story["command"] in article.select_one(".story-caption").get_text()
    image = pages[site / "book" / "index.html"].select_one("meta[property='og:image']")[
        "content"
    ]
    assert (site / "_static" / Path(image).name).is_file()


def test_the_opening_story_leaves_the_language_where_it_says():
    story = json.loads((ROOT / "book/figures/opening.json").read_text(encoding="utf-8"))
    verdict = StoryLanguage().explain(story["read"] + story["found"])
    assert not verdict.in_language
    assert verdict.at == len(story["read"])
    assert [words for words, _ in verdict.expected[:3]] == [
        words for words, _ in story["expected"]
    ]
