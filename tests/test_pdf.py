"""The printed book: a part of it is printed and joined as `make pdf` does it, and then read.

Skipped, with the reason, where there is no Chromium.
"""

import bisect
from pathlib import Path
from statistics import median

import browser as browsers
import pytest

if reason := browsers.missing():
    pytest.skip(reason, allow_module_level=True)

import joined
import measure_pdf
import numpy as np
import pdf
import pikepdf
import pypdfium2

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ("book/index", None),
    ("book/00_overview", "Start"),
    ("book/03_attention", "The model"),
    ("book/notation", "Reference"),
]
TOP, BOTTOM = measure_pdf.MARGINS


@pytest.fixture(scope="module")
def said() -> dict:
    return pdf.settings()


@pytest.fixture(scope="module")
def chromium():
    with browsers.started() as running:
        yield running


@pytest.fixture(scope="module")
def file(chromium, site, said, tmp_path_factory) -> Path:
    """Four pages of the book, printed."""
    path = tmp_path_factory.mktemp("printed") / "book.pdf"
    joined.save(pdf.book(chromium, site, PAGES, said), path)
    return path


@pytest.fixture(scope="module")
def found(file, site, said) -> measure_pdf.Measured:
    secrets = (str(ROOT), str(site), str(Path.home()))
    return measure_pdf.measured(file, said["base"], secrets)


@pytest.fixture(scope="module")
def whole(file):
    with pikepdf.open(file) as opened:
        yield opened


@pytest.fixture(scope="module")
def drawn(file):
    with pypdfium2.PdfDocument(file) as opened:
        yield opened


def strips(page) -> tuple[str, str]:
    """What stands in the margins above and below the text."""
    text, height = page.get_textpage(), page.get_height()
    head = text.get_text_bounded(bottom=height - TOP)
    return head.strip(), text.get_text_bounded(top=BOTTOM).strip()


def front(drawn) -> int:
    """How many pages the cover and the contents take."""
    return next(i for i in range(len(drawn)) if drawn.get_page_label(i) == "1")


def test_pages_go_on_counting_and_name_their_chapter(drawn):
    chapters = {
        place: title
        for _, title, place in measure_pdf.listed(drawn)
        if title in {pdf.OPENING, "The whole model, once", "3. Attention", "Notation"}
    }
    assert len(chapters) == len(PAGES)
    name = ""
    for index in range(front(drawn), len(drawn)):
        head, number = strips(drawn[index])
        assert number == drawn.get_page_label(index) == str(index - front(drawn) + 1)
        assert head == ("" if index in chapters else name), index
        name = chapters.get(index, name)
    assert strips(drawn[0]) == ("", "")
    assert strips(drawn[1])[1] == drawn.get_page_label(1) == "ii"


def lefts(page) -> tuple[float, float]:
    """Where the running head begins, and the text below it, in points."""
    text, height = page.get_textpage(), page.get_height()
    boxes = [text.get_rect(i) for i in range(text.count_rects())]
    head = [left for left, bottom, _, _ in boxes if bottom > height - TOP]
    return min(head), min(
        left for left, bottom, _, top in boxes if BOTTOM < top < height - TOP
    )


def test_paper_is_of_one_size_and_text_begins_below_its_head(drawn):
    sizes = {drawn.get_page_size(index) for index in range(len(drawn))}
    assert len({(round(width), round(height)) for width, height in sizes}) == 1, sizes
    begins = [
        lefts(drawn[index])
        for index in range(front(drawn), len(drawn))
        if strips(drawn[index])[0]
    ]
    assert len(begins) > 10
    # Some pages hold nothing but an exercise, which is set in.
    assert median(abs(head - text) for head, text in begins) < 2, begins


def test_the_contents_say_a_page_and_lead_to_it(drawn, whole):
    places = pikepdf.NameTree(whole.Root.Names.Dests)
    numbers = {page.objgen: index for index, page in enumerate(whole.pages)}
    rows = []
    for index in range(1, front(drawn)):
        text = drawn[index].get_textpage()
        for link in whole.pages[index].get("/Annots", []):
            left, bottom, _, top = map(float, link.Rect)
            row = text.get_text_bounded(left, bottom, top=top).strip()
            there = numbers[places[str(link.Dest)][0].objgen]
            label = drawn.get_page_label(there)
            assert row.endswith(label), row
            title = measure_pdf.squeezed(row.removesuffix(label))
            onto = measure_pdf.squeezed(drawn[there].get_textpage().get_text_range())
            assert title in onto or title == measure_pdf.squeezed(pdf.OPENING), row
            rows.append(title)
    assert len(rows) > 30
    assert {"Threewaysin", "Notation"} <= set(rows)


def test_the_cover_names_the_book(drawn, said):
    text = " ".join(drawn[0].get_textpage().get_text_range().split())
    for field in ("title", "subtitle", "author", "edition", "licence"):
        assert said[field] in text


def test_the_outline_leads_from_parts_to_chapters_to_sections(drawn):
    rows = measure_pdf.listed(drawn)
    assert all(place is not None for _, _, place in rows)
    levels = {title: level for level, title, _ in rows}
    assert levels[pdf.OPENING] == levels["The model"] == 0
    assert levels["3. Attention"] == 1
    assert levels["3.1. The question"] == 2
    assert max(levels.values()) == 3


def test_the_file_says_what_it_is(whole, found, said):
    assert found.tagged
    assert found.language == "en"
    assert str(whole.docinfo["/Title"]) == said["title"]
    assert str(whole.docinfo["/Author"]) == said["author"]


def test_tags_belong_to_the_pages_that_show_them(whole):
    """Each part brings its own tree, whose numbers are moved; a slip would mix pages."""
    root = whole.Root.StructTreeRoot
    parents = dict(pikepdf.NumberTree(root.ParentTree).items())
    assert len(root.K.K) == len(PAGES) + 1
    place = {page.objgen: index for index, page in enumerate(whole.pages)}
    named = pikepdf.NameTree(whole.Root.Names.Dests)
    begins = [place[named[name][0].objgen] for name, _ in PAGES]
    numbers = []
    for index, page in enumerate(whole.pages):
        number = int(page.StructParents)
        begun = [place[tag.Pg.objgen] for tag in parents[number] if "/Pg" in tag]
        # What goes on overleaf belongs to one of its pages, and always to the same part.
        assert begun.count(index) > len(begun) / 2
        parts = {bisect.bisect(begins, page) for page in [index, *begun]}
        assert len(parts) == 1
        numbers.append(number)
        for link in page.get("/Annots", []):
            assert parents[int(link.StructParent)].S == "/Link"
            numbers.append(int(link.StructParent))
    assert len(set(numbers)) == len(numbers)
    kinds = {str(thing.get("/S")) for thing in whole.objects if is_tag(thing)}
    assert {"/H1", "/H2", "/P", "/Link", "/Table", "/TH", "/Figure"} <= kinds
    ids = pikepdf.NameTree(root.IDTree)
    heads = [
        str(head)
        for thing in whole.objects
        if is_tag(thing)
        for attribute in thing.get("/A", [])
        for head in attribute.get("/Headers", [])
    ]
    assert heads
    assert set(heads) <= set(ids)


def is_tag(thing) -> bool:
    return isinstance(thing, pikepdf.Dictionary) and thing.get("/Type") == "/StructElem"


def test_links_stay_in_the_book_or_lead_to_the_web(found):
    assert set(found.links) <= {"inside", "published", "web"}
    assert found.links["inside"] > 60
    assert not found.dead
    assert not found.told


def test_pages_are_filled(found):
    assert not found.boxes
    assert not found.headings_last
    assert len(found.blank) <= found.pages / 10, found.blank


def test_folds_are_open_and_nothing_waits_for_a_click(drawn):
    text = "".join(page.get_textpage().get_text_range() for page in drawn)
    said = " ".join(text.split())
    assert "Solution 3.3" in said
    assert "def across_positions" in said  # within that solution
    for label in ("Show ", "Hide the", "Set-up", "Enlarge", "⋯"):
        assert label not in said


def test_paper_is_white_from_either_theme(chromium, site, said, drawn):
    """A chapter from the dark theme is, page by page, that of the book, which is printed light."""
    places = {title: place for _, title, place in measure_pdf.listed(drawn)}
    first, end = places["The whole model, once"], places["3. Attention"]
    with pdf.published(chromium, site, said["base"], color_scheme="dark") as page:
        address = f"{said['base']}/book/00_overview.html"
        data, _ = pdf.printed(page, address, after=first - front(drawn))
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    with pypdfium2.PdfDocument(data) as dark:
        assert len(dark) == end - first > 3
        for number, printed in enumerate(dark):
            shown = pixels(printed)
            assert shown.mean() > 200
            assert np.abs(shown - pixels(drawn[first + number])).max() <= 8


def pixels(page) -> np.ndarray:
    """Means of squares of two points: the edge of a line may fall on either side of a pixel."""
    fine = page.render(scale=3).to_numpy().astype(int)
    height, width = (size // 6 for size in fine.shape[:2])
    squares = fine[: 6 * height, : 6 * width].reshape(height, 6, width, 6, -1)
    return squares.mean(axis=(1, 3))


BAD = """<!doctype html><title>Bad</title><style>
@page { size: A4; margin: 18mm 16mm 20mm; }
p, h2 { break-inside: avoid; margin: 0; }
div { background: #f6f7f9; border-left: 3px solid #0b62a8; height: 200mm; }
</style><h1>Begins</h1><p><a href="file:///volumes/reader/book.html#a">a file</a></p>
<p style="break-after: page">Most of this page is blank.</p>
<p style="height: 40mm">Then comes a box with nothing in it.</p><div></div>
<p style="break-before: page; height: 230mm">Last of all</p><h2>A lonely heading</h2>"""


def test_the_measure_finds_what_is_wrong(chromium, tmp_path):
    path = tmp_path / "bad.pdf"
    page = chromium.new_page()
    page.set_content(BAD)
    options = dict.fromkeys(["print_background", "tagged", "outline"], True)
    page.pdf(path=path, prefer_css_page_size=True, **options)
    page.close()
    bad = measure_pdf.measured(path, secrets=("/volumes/reader",))
    assert bad.pages == 3
    assert bad.blank == [1]
    assert list(bad.boxes) == [2]
    assert bad.headings_last == ["3: A lonely heading"]
    assert bad.links == {"file": 1}
    assert len(bad.told) == 2  # by its scheme, and by its path


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://book.test/a", None),
        ("https://book.test/b/", "book/index"),
        ("https://book.test/b/book/index.html#how", "book/index#how"),
        ("https://book.test/b/book/03_attention.html", "book/03_attention"),
        ("https://book.test/b/search.html", None),
        ("https://book.test/bb/book/index.html", None),
    ],
)
def test_what_leads_into_the_book(address, name):
    names = ["book/index", "book/03_attention"]
    assert joined.place(address, names, "https://book.test/b") == name


def test_a_link_to_no_place_is_refused(tmp_path, said):
    part = pikepdf.new()
    part.add_blank_page()
    link = pikepdf.Dictionary(Type=pikepdf.Name.Annot, Subtype=pikepdf.Name.Link)
    link.Dest = pikepdf.Name("/nowhere")
    part.pages[0].Annots = pikepdf.Array([link])
    parents = pikepdf.NumberTree.new(part)
    part.Root.StructTreeRoot = part.make_indirect(
        pikepdf.Dictionary(
            ParentTree=parents.obj, ParentTreeNextKey=0, K=pikepdf.Dictionary()
        )
    )
    page = pdf.Part("book/index", part, [])
    empty = pikepdf.new()
    empty.add_blank_page()
    empty.Root.StructTreeRoot = empty.make_indirect(
        empty.copy_foreign(part.Root.StructTreeRoot)
    )
    with pytest.raises(ValueError, match="book/index#nowhere"):
        joined.joined(empty, [page], said)


def test_a_setting_that_is_missing_is_named(tmp_path):
    text = (ROOT / "_config.yml").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("subtitle:"))
    (tmp_path / "_config.yml").write_text(text.replace(line, ""), encoding="utf-8")
    with pytest.raises(ValueError, match="subtitle=None must be set"):
        pdf.settings(tmp_path)


def test_every_page_of_the_book_is_printed():
    pages = [
        path.stem
        for path in (ROOT / "book").glob("**/[!_]*.*")
        if path.suffix in {".md", ".ipynb"}
    ]
    assert Path(pdf.contents()[0]).name == "index"
    assert sorted(Path(name).name for name in pdf.contents()) == sorted(pages)
