"""The book in a real browser: nothing cut without a sign, reachable by keyboard, quick.

Skipped, with the reason, where there is no Chromium or no Playwright.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import browser as browsers
import labels
import measure_pages
import notebooks
import pytest
import serve

if reason := browsers.missing():
    pytest.skip(reason, allow_module_level=True)

ROOT = Path(__file__).resolve().parent.parent
NAMES = sorted(
    notebooks.name(path) for path in [*(ROOT / "book").glob("*.md"), *notebooks.every()]
)
PHONE = {"width": 390, "height": 844}
FIVE = ["index", "story_machine", "03_attention", "08_model", "claims", "notation"]
SETTLED = """async () => {
  await document.fonts.ready;
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""


# What looks alike is looked at twice: of the thousands of coloured words of code, two for each
# chain of classes from the page down to the word. Formulas go: browsers read MathML by themselves.
FEWER = """() => {
  const seen = {};
  for (const word of document.querySelectorAll('pre span')) {
    let chain = '';
    for (let box = word; box; box = box.parentElement) chain += box.className + '<';
    seen[chain] = (seen[chain] || 0) + 1;
    if (seen[chain] > 2) word.replaceWith(...word.childNodes);
  }
  for (const formula of document.querySelectorAll('math')) {
    const { width, height } = formula.getBoundingClientRect();
    const box = document.createElement('span');
    Object.assign(box.style, {
      display: 'inline-block', width: `${width}px`, height: `${height}px`,
    });
    formula.replaceWith(box);
  }
}"""


@pytest.fixture(scope="module")
def address(site) -> Iterator[str]:
    running = serve.server(site)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()


@pytest.fixture(scope="module")
def chromium():
    with browsers.started() as running:
        yield running


@contextmanager
def phone(chromium) -> Iterator:
    """A phone's page that notes what it asked for and what went wrong."""
    context = chromium.new_context(viewport=PHONE)
    opened = context.new_page()
    opened.asked, opened.wrong = [], []
    opened.on("request", lambda request: opened.asked.append(request.url))
    opened.on("pageerror", lambda error: opened.wrong.append(str(error)))
    opened.on(
        "requestfailed",  # of this page: one that was left is not waited for
        lambda request: (
            opened.wrong.append(request.url) if request.url in opened.asked else None
        ),
    )
    opened.on(
        "response",
        lambda response: (
            opened.wrong.append(response.url) if response.status >= 400 else None
        ),
    )
    yield opened
    context.close()


@pytest.fixture(scope="module")
def tab(chromium):
    """One for the tests that leave nothing behind: it keeps style sheet, script and fonts."""
    with phone(chromium) as opened:
        yield opened


@pytest.fixture(scope="module")
def sizes() -> dict[str, list[tuple]]:
    """What was measured of labels on a page that was open already, so that none is loaded twice."""
    return {}


@pytest.fixture
def page(tab):
    tab.goto("about:blank")
    tab.asked.clear()
    tab.wrong.clear()
    return tab


@pytest.fixture
def fresh_page(chromium):
    """For a test that sets something of the browser."""
    with phone(chromium) as opened:
        yield opened


def settled(page, url: str):
    """Opens the page and waits until its fonts are there."""
    page.goto(url, wait_until="load")
    page.evaluate(SETTLED)
    return page


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_cut_without_a_sign_on_a_phone(page, address, sizes, name):
    settled(page, f"{address}/book/{name}.html")
    page.evaluate(
        "document.querySelectorAll('details').forEach((fold) => (fold.open = true))"
    )
    page.evaluate(SETTLED)
    cut = page.evaluate(
        """() => [...document.querySelectorAll('.bd-article *')]
          .filter((box) => {
            const style = getComputedStyle(box);
            const clips = style.overflowX !== 'visible' && box.clientWidth > 0;
            const hidden = clips && box.scrollWidth > box.clientWidth + 1;
            const signed = style.maskImage !== 'none' && box.tabIndex === 0;
            return hidden && !signed && !box.closest('math');
          })
          .map((box) => `${box.tagName}.${box.className}: ${box.textContent.slice(0, 60)}`)"""
    )
    assert not cut, cut
    beyond = page.evaluate(
        """() => [...document.querySelectorAll('.bd-article math')]
          .filter((formula) => !formula.closest('[data-more]'))
          .filter((formula) => formula.getBoundingClientRect().right > innerWidth)
          .map((formula) => formula.dataset.tex)"""
    )
    assert not beyond, beyond
    wider = page.evaluate(
        "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert wider <= 0, f"the page itself scrolls sideways, by {wider} pixels"
    assert not page.wrong
    assert [url for url in page.asked if not url.startswith((address, "data:"))] == []
    sizes[name] = sizes_of_labels(page)


@pytest.mark.parametrize("name", FIVE)
def test_no_serious_fault_for_those_who_do_not_see_or_use_a_mouse(page, address, name):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    settled(page, f"{address}/book/{name}.html")
    page.evaluate(FEWER)
    for theme in ("light", "dark"):
        page.evaluate(
            "(theme) => (document.documentElement.dataset.theme = theme)", theme
        )
        rules = {"resultTypes": ["violations"]}
        if theme == "dark":  # only the colours differ
            rules["runOnly"] = ["color-contrast"]
        found = axe.run(page, options=rules).response["violations"]
        faults = [
            f"{theme}, {fault['id']}: {fault['nodes'][0]['html'][:200]}"
            for fault in found
            if fault["impact"] in {"serious", "critical"}
        ]
        assert not faults


def test_the_keyboard_stops_at_what_can_be_used_and_shows_where_it_is(page, address):
    settled(page, f"{address}/book/03_attention.html")
    assert page.locator("math").count() > 50
    stops = page.locator(":is(math, .formula)[tabindex]:not([data-more])").count()
    assert stops == 0, "formulas that do not scroll are no stops"

    button = page.locator("button.copybtn").nth(5)
    assert button.evaluate("(button) => getComputedStyle(button).opacity") == "0"
    for _ in range(300):  # on from the beginning of the page, key by key
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('button.copybtn')"):
            break
    button = page.locator("button.copybtn:focus")
    page.wait_for_function(
        "(button) => getComputedStyle(button).opacity === '1'",
        arg=button.element_handle(),
        polling=100,  # a busy machine draws few frames
    )
    assert (
        button.evaluate("(button) => getComputedStyle(button).outlineStyle") == "solid"
    )

    names = page.locator("details.solution > summary").all_text_contents()
    assert len(names) >= 5
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["book/index", "book/03_attention"])
def test_the_first_visit_on_a_slow_line(chromium, address, name):
    """1.6 megabits a second and 150 ms to the server: what Lighthouse calls slow 4G.

    On an idle machine the opening page paints within a second, a chapter within 1.5 s, and is
    complete within three (tools/measure_pages.py); here other tests run beside.
    """
    for _ in range(3):  # a busy machine may miss it once
        seen = measure_pages.visit(
            chromium, f"{address}/{name}.html", PHONE, slowdown=1
        )
        assert seen.loaded < (300_000 if name == "book/index" else 500_000)
        assert seen.shift < 0.05
        if seen.first_paint < 2 and seen.formulas < 3:
            break
    assert seen.first_paint < 2
    assert seen.formulas < 3
    assert seen.typeface == "Source Serif 4"


@pytest.mark.parametrize("name", ["03_attention", "12_finetuning"])
def test_formulas_are_drawn_in_their_own_font(page, address, name):
    settled(page, f"{address}/book/{name}.html")
    line = page.context.new_cdp_session(page)
    line.send("DOM.enable")
    line.send("CSS.enable")
    root = line.send("DOM.getDocument")["root"]["nodeId"]
    found = line.send("DOM.querySelectorAll", {"nodeId": root, "selector": "math"})
    assert len(found["nodeIds"]) > 50
    for node in found["nodeIds"]:
        fonts = line.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]
        drawn = {font["familyName"] for font in fonts}
        assert drawn <= {"STIX Two Math"}, line.send(
            "DOM.getOuterHTML", {"nodeId": node}
        )
    line.detach()


@pytest.mark.parametrize("width", [390, 520, 700, 1280])
def test_a_wide_formula_scrolls_and_its_number_stays(fresh_page, address, width):
    fresh_page.set_viewport_size({"width": width, "height": 900})
    settled(fresh_page, f"{address}/book/11_encoders.html")
    boxes = fresh_page.evaluate(
        """() => [...document.querySelectorAll('div.math:has(.eqno)')].map((box) => {
          const formula = box.querySelector('.formula');
          const number = box.querySelector('.eqno').getBoundingClientRect();
          const place = formula.getBoundingClientRect();
          const prose = box.closest('section').querySelector('p').getBoundingClientRect();
          formula.scrollLeft = 1e6;
          return {
            within: number.right <= document.documentElement.clientWidth &&
              place.right <= document.documentElement.clientWidth,
            apart: place.right <= number.left + 1 || place.bottom <= number.top + 1,
            still: number.left === box.querySelector('.eqno').getBoundingClientRect().left,
            wide: formula.scrollWidth > formula.clientWidth + 1,
            middle: Math.abs(place.left + place.right - prose.left - prose.right) / 2,
          };
        })"""
    )
    assert len(boxes) >= 2
    for box in boxes:
        assert box["within"] and box["apart"] and box["still"], box  # noqa: PT018
        if not box["wide"] and width == 1280:
            assert box["middle"] < 64, "a formula stands in the middle of the prose"
    assert any(box["wide"] for box in boxes) == (width < 700)


def test_a_copied_formula_is_tex(fresh_page, address):
    settled(fresh_page, f"{address}/book/03_attention.html")
    copied = fresh_page.evaluate(
        """() => {
          const formula = document.querySelector('.bd-article p math');
          getSelection().selectAllChildren(formula.closest('p'));
          const event = new ClipboardEvent('copy', {
            bubbles: true, cancelable: true, clipboardData: new DataTransfer(),
          });
          document.dispatchEvent(event);
          return [formula.dataset.tex, event.clipboardData.getData('text/plain')];
        }"""
    )
    assert f"${copied[0]}$" in copied[1]
    assert len(copied[1].splitlines()) == 1


def test_without_scripts_everything_is_readable(chromium, address):
    context = chromium.new_context(viewport=PHONE, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/book/03_attention.html", wait_until="load")

    def colour(selector: str) -> str:
        return page.locator(selector).first.evaluate("(x) => getComputedStyle(x).color")

    assert colour(".bd-article p:not(.minutes) > a.reference") == "rgb(11, 98, 168)"
    assert colour(".bd-article .highlight .k") == "rgb(11, 79, 138)"
    assert colour(".bd-article .highlight .n") == colour(".bd-article pre")
    formula = page.locator("#equation-eq-attention-attend math").bounding_box()
    assert formula["width"] > 50
    assert formula["height"] > 50
    assert "\\frac" not in page.locator("article").text_content()
    context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_paper_is_white_from_either_theme(fresh_page, site, theme):
    fresh_page.emulate_media(color_scheme=theme)
    fresh_page.add_init_script(
        f"localStorage.mode = '{theme}'; localStorage.theme = '{theme}'"
    )
    settled(fresh_page, (site / "book" / "03_attention.html").as_uri())
    assert fresh_page.evaluate("document.documentElement.dataset.theme") == theme
    fresh_page.emulate_media(media="print")
    looks = fresh_page.evaluate(
        """() => {
          const style = (selector) => getComputedStyle(document.querySelector(selector));
          return {
            ground: style('body').backgroundColor,
            text: style('.bd-article p').color,
            code: style('.bd-article div.cell_input pre').color,
            box: style('.bd-article div.cell_input').backgroundColor,
            picture: style('svg.drawing').getPropertyValue('--c1f2933'),
            broken: style('.bd-article div.cell_input').boxDecorationBreak,
            kept: style('.bd-article figure').breakInside,
            bar: style('.bd-sidebar-primary').display,
          };
        }"""
    )

    def light(colour: str) -> float:
        return sum(map(int, re.findall(r"\d+", colour)[:3])) / 765

    assert light(looks["ground"]) == 1
    assert light(looks["box"]) > 0.9
    assert light(looks["text"]) < 0.3
    assert light(looks["code"]) < 0.3
    assert looks["picture"] == "", "a drawing keeps its own colours"
    assert looks["broken"] == "clone"
    assert looks["kept"] == "avoid"
    assert looks["bar"] == "none"


def sizes_of_labels(page) -> list[tuple]:
    """Of the page that is open, in windows of each width: the figure, the smallest, its text."""
    rows = []
    for width, least in sorted(labels.WINDOWS.items()):
        page.set_viewport_size({"width": width, "height": 900})
        rows += [(width, least, *row[:3]) for row in labels.measured(page)]
    page.set_viewport_size(PHONE)
    return rows


def test_every_label_of_a_figure_can_be_read(page, address, sizes):
    for name in [name for name in NAMES if name not in sizes]:
        sizes[name] = sizes_of_labels(settled(page, f"{address}/book/{name}.html"))
    rows = [row for each in sizes.values() for row in each]
    assert len(rows) > 200
    small = [
        f"{figure}: {size:.1f} px at {width}, {text!r}"
        for width, least, figure, size, text in rows
        if size < least - 0.01
    ]
    assert not small, small


def test_labels_are_as_wide_as_they_were_measured(page, site):
    """In the font that came with the page, not in one that the machine happens to have."""
    page.goto((site / "book" / "09_training.html").as_uri())
    page.evaluate("document.fonts.ready")
    widths = page.evaluate(
        """() => [...document.querySelectorAll('svg.drawing text')]
          .filter((text) => text.textContent === 'optimizer step')
          .filter((text) => text.getClientRects().length)
          .map((text) => text.getComputedTextLength() /
            parseFloat(getComputedStyle(text).fontSize))"""
    )
    from matplotlib.textpath import TextPath

    end = TextPath((0, 0), "optimizer step", 100).get_extents().x1
    assert widths
    assert all(abs(width - end / 100) < 0.1 for width in widths)
    loaded = page.evaluate(
        "[...document.fonts].filter((f) => f.family.includes('Figures') && "
        "f.status === 'loaded').length"
    )
    assert loaded >= 2


def test_a_phone_shows_panels_one_below_the_other_and_a_desktop_side_by_side(
    page, site
):
    page.goto((site / "book" / "06_mlp.html").as_uri())
    shapes = {}
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": 844})
        shapes[width] = page.evaluate(
            """() => {
              const figure = document.getElementById('fig-mlp-share');
              const shown = [...figure.querySelectorAll('svg.drawing')]
                .filter((drawing) => drawing.getClientRects().length);
              const said = figure.querySelector('figcaption').innerText;
              return [shown.length, shown[0].clientWidth > shown[0].clientHeight, said];
            }"""
        )
    page.set_viewport_size(PHONE)
    assert shapes[390][:2] == [1, False]
    assert shapes[1440][:2] == [1, True]
    assert "Above:" in shapes[390][2]
    assert "Left:" in shapes[1440][2]


def test_a_figure_opens_by_a_tap_or_by_the_keyboard_and_closes_by_escape(page, site):
    page.goto((site / "book" / "06_mlp.html").as_uri())
    drawing = page.locator("#fig-mlp-share svg.drawing.narrow")
    before = drawing.bounding_box()["width"]
    dialog = page.locator("dialog.enlarged")
    drawing.click(position={"x": 5, "y": 5})
    assert dialog.is_visible()
    assert dialog.locator("svg").bounding_box()["width"] > 1.5 * before
    assert "Figure" in dialog.get_attribute("aria-label")
    page.keyboard.press("Escape")
    assert not dialog.is_visible()

    button = page.locator("#fig-mlp-share button.enlarge")
    assert re.match(r"Enlarge Figure 6\.\d", button.get_attribute("aria-label"))
    button.focus()
    page.keyboard.press("Enter")
    assert dialog.is_visible()
    page.keyboard.press("Escape")
    assert button.evaluate("(button) => button === document.activeElement")
    assert not page.wrong


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figures_need_no_script(chromium, site, theme):
    context = chromium.new_context(
        viewport=PHONE, java_script_enabled=False, color_scheme=theme
    )
    tab = context.new_page()
    tab.goto((site / "book" / "06_mlp.html").as_uri())
    figure = tab.locator("#fig-mlp-share")
    assert figure.locator("svg.drawing.narrow").is_visible()
    assert not figure.locator("svg.drawing.wide").is_visible()
    assert (
        "Shares of GPT-3 models" in figure.locator("svg.drawing.narrow").text_content()
    )
    context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_drawing_has_the_colours_of_the_theme(fresh_page, site, theme):
    fresh_page.emulate_media(color_scheme=theme)
    fresh_page.goto((site / "book" / "03_attention.html").as_uri())
    ink, ground, paper = fresh_page.evaluate(
        """() => {
          const drawing = document.querySelector('svg.drawing');
          const fill = (part) => getComputedStyle(part).fill;
          return [fill(drawing.querySelector('text')), fill(drawing.querySelector('path')),
                  getComputedStyle(document.body).backgroundColor];
        }"""
    )
    assert ground == paper
    light = sum(map(int, re.findall(r"\d+", ink)[:3])) / 765
    assert light < 0.5 if theme == "light" else light > 0.5


def test_from_a_file_the_book_is_the_same(page, site):
    settled(page, (site / "book" / "claims.html").as_uri())
    assert not page.wrong
    loaded = page.evaluate(
        "[...document.fonts].filter((f) => f.status === 'loaded').map((f) => f.family)"
    )
    families = {family.strip('"') for family in loaded}
    assert {"Source Serif 4", "STIX Two Math"} <= families
    assert re.search(r"\d+ claims", page.locator(".claims-summary").text_content())


@pytest.mark.parametrize("where", ["server", "file"])
def test_search_finds_the_section(page, address, site, where):
    root = address if where == "server" else site.as_uri()
    page.goto(f"{root}/search.html?q=causal+mask", wait_until="load")
    found = page.locator(".search-found > li")
    assert found.count() >= 5
    links = found.locator("a").evaluate_all(
        "(links) => links.map((a) => a.getAttribute('href'))"
    )
    assert any(link.startswith("book/03_attention.html#") for link in links[:4]), links[
        :4
    ]
    assert all("#" in link for link in links)
    for quote in found.locator("p").all_text_contents()[:10]:
        assert not re.search(r"\\|\$|Contents|Show the code", quote), quote
    assert found.locator("mark").first.text_content().lower() == "causal mask"

    page.locator("main input[name=q]").fill("zebra xylophone")
    assert "No section" in page.locator(".search-count").text_content()
    page.locator("main input[name=q]").fill("causal mask")
    found.locator("a").first.click()
    page.wait_for_load_state("load")
    assert page.evaluate(
        "document.querySelector(decodeURIComponent(location.hash)) !== null"
    )
    assert not page.wrong


# What a reader types, and where it is taught.
ASKED = {
    "RoPE": "02_embeddings.html#from-adding-to-turning",
    "rope": "02_embeddings.html#from-adding-to-turning",
    "GQA": "04_multihead.html#shared-keys-and-values",
    "multi-query attention": "04_multihead.html#shared-keys-and-values",
    "flash attention": "03_attention.html#the-fused-path",
    "KV cache": "16_generation.html#a-cache-for-three-tokens",
    "kv caches": "16_generation.html#a-cache-for-three-tokens",
    "backpropagation": "09_training.html#a-loop-of-eight-lines",
    "backprop": "09_training.html#a-loop-of-eight-lines",
    "cross-entropy": "07_lm_head.html#the-loss-of-a-text",
    "cross entropy loss": "07_lm_head.html#the-loss-of-a-text",
    "hallucination": "15_knowledge.html#a-calibrated-model-makes-things-up",
    "Hallucinations": "15_knowledge.html#a-calibrated-model-makes-things-up",
    "perplexity": "07_lm_head.html#three-units-for-one-number",
    "RLHF": "12_finetuning.html#reward-models-a-score-from-comparisons",
    "DPO": "12_finetuning.html#dpo-preferences-without-a-reward-model",
    "LoRA": "12_finetuning.html#lora-a-change-made-of-thin-matrices",
    "adapters": "12_finetuning.html#lora-a-change-made-of-thin-matrices",
    "ZeRO": "13_parallelism.html#the-state-zero",
    "FSDP": "13_parallelism.html#the-state-zero",
    "SwiGLU": "06_mlp.html#a-gate",
    "RMSNorm": "05_normalization.html#rmsnorm",
    "muP": "10_scaling.html#wide-and-narrow-the-rate-that-travels",
    "Chinchilla": "10_scaling.html#the-published-laws",
    "scaling laws": "10_scaling.html#the-law-of-the-loss",
    "tokenizer": "01_tokenization.html#the-question",
    "logit lens": "lab/07_lm_head.html#when-does-a-prediction-take-shape",
    "induction heads": "14_interpretation.html#a-circuit-of-two-heads",
}


def test_search_knows_the_words_of_the_trade(page, site):
    page.goto(f"{site.as_uri()}/search.html", wait_until="load")
    field, found = (
        page.locator("main input[name=q]"),
        page.locator(".search-found > li"),
    )
    wrong = {}
    for query, wanted in ASKED.items():
        field.fill(query)
        links = found.locator("a").evaluate_all(
            "(links) => links.map((link) => link.getAttribute('href'))"
        )
        if links[:1] != [f"book/{wanted}"]:
            wrong[query] = links[:1]
    assert not wrong
    field.fill("hallucinations")
    several = found.count()
    field.fill("hallucination")
    assert found.count() == several >= 2
    assert "teaches hallucination" in found.first.text_content()
    assert not page.wrong


def preview_of(page, link):
    """Puts the mouse on the link and waits for what appears."""
    link.scroll_into_view_if_needed()
    page.mouse.move(0, 0)
    link.hover()
    page.locator(".preview").wait_for(state="visible")
    return page.locator(".preview")


@pytest.fixture
def desktop(chromium):
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    opened = context.new_page()
    opened.wrong = []
    opened.on("pageerror", lambda error: opened.wrong.append(str(error)))
    yield opened
    context.close()


def test_links_show_what_they_lead_to(desktop, site):
    """From a file: figures, formulas, sources, and sections of other pages."""
    settled(desktop, (site / "book" / "03_attention.html").as_uri())
    article = desktop.locator("article")
    figure = article.locator("a[href='#fig-attention-architecture']:not(.headerlink)")
    desktop.locator("#parity").scroll_into_view_if_needed()
    figure.first.evaluate(
        "(link) => document.querySelector('#exercises p').append(link)"
    )
    assert preview_of(desktop, figure.first).locator("svg.drawing").count() == 1
    desktop.keyboard.press("Escape")
    assert desktop.locator(".preview").count() == 0

    formulas = article.locator(
        "a[href='#equation-eq-attention-softmax']:not(.headerlink)"
    )
    shown = preview_of(desktop, formulas.last)
    assert shown.locator("mjx-container, math, svg").count() >= 1
    inside = shown.bounding_box()
    assert inside["x"] >= 0
    assert inside["x"] + inside["width"] <= 1280
    assert inside["y"] >= 0
    assert inside["y"] + inside["height"] <= 800
    shown.hover()  # one may go there, and it stays
    desktop.wait_for_timeout(400)
    assert shown.count() == 1
    desktop.mouse.move(2, 2)
    shown.wait_for(state="detached")

    source = article.locator("a[href^='bibliography.html#']").first
    entry = source.get_attribute("title")
    assert preview_of(desktop, source).text_content() == entry
    assert not desktop.wrong

    settled(desktop, (site / "book" / "rows.html").as_uri())
    other = desktop.locator(".rows-list a[href*='#']:not([href*='claim'])").nth(3)
    shown = preview_of(desktop, other)
    assert len(shown.locator(".preview-title").text_content()) > 3
    assert not desktop.wrong


def test_previews_come_with_the_keyboard_and_not_with_a_finger(chromium, address):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    context = chromium.new_context(viewport=PHONE, has_touch=True)
    page = context.new_page()
    settled(page, f"{address}/book/03_attention.html")
    link = page.locator("article a[href^='bibliography.html#']").first
    link.evaluate(
        """(link) => {
          const before = document.createElement('button');
          before.id = 'before';
          link.before(before);
          before.focus();
        }"""
    )
    page.keyboard.press("Tab")
    preview = page.locator(".preview")
    preview.wait_for(state="visible")
    assert link.get_attribute("aria-describedby") == preview.get_attribute("id")
    page.locator("#before").evaluate("(button) => button.remove()")
    page.evaluate(FEWER)
    found = axe.run(page, {"exclude": [["mjx-container"]]}).response["violations"]
    assert not [fault for fault in found if fault["impact"] in {"serious", "critical"}]
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    preview.wait_for(state="visible")
    page.keyboard.press("Escape")
    assert preview.count() == 0
    assert link.get_attribute("aria-describedby") is None

    page.evaluate("document.activeElement.blur()")
    box = link.bounding_box()
    finger = context.new_cdp_session(page)
    points = [{"x": box["x"] + 5, "y": box["y"] + 5}]
    touch = {"type": "touchStart", "touchPoints": points}
    finger.send("Input.dispatchTouchEvent", touch)
    page.wait_for_timeout(400)  # a finger that stays
    assert preview.count() == 0
    finger.send("Input.dispatchTouchEvent", {"type": "touchCancel", "touchPoints": []})
    link.tap()
    page.wait_for_url("**/bibliography.html#*")
    context.close()


@pytest.mark.parametrize("name", ["10_scaling", "11_encoders"])
def test_contents_fit_and_say_where_one_is(desktop, address, name):
    settled(desktop, f"{address}/book/{name}.html")
    contents = desktop.locator(".bd-sidebar-secondary")
    here = contents.locator(".page-toc a[aria-current]")
    assert here.count() == 0
    sections = desktop.locator("article > section > section")
    several = set()
    links = contents.locator(".page-toc ul ul a").evaluate_all(
        "(links) => links.map((link) => link.hash)"
    )
    for link in links[::3]:
        desktop.evaluate(
            "(link) => document.querySelector(link).scrollIntoView()", link
        )
        marked = contents.locator(f"a[aria-current][href='{link}']")
        marked.wait_for(state="visible")
        low = contents.locator("nav a:visible").last.bounding_box()
        assert low["y"] + low["height"] <= 800, "the contents fit beside the page"
        several.add(contents.locator(".progress-place").text_content())
    assert len(several) >= 3
    number = int(name[:2])
    for said in several:
        assert re.fullmatch(rf"{number}\.(\d), \1 of {sections.count()}", said), said
    width = "document.querySelector('.progress-line').getBoundingClientRect().width"
    assert 0 < desktop.evaluate(width) < 1280
    desktop.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    desktop.wait_for_function(f"{width} > 1270")


def test_without_scripts_nothing_is_missing(chromium, address):
    context = chromium.new_context(
        viewport={"width": 1280, "height": 800}, java_script_enabled=False
    )
    page = context.new_page()
    page.goto(f"{address}/book/12_finetuning.html")
    entries = page.locator(".bd-sidebar-secondary .page-toc a")
    assert entries.count() > 20
    assert all(entry.is_visible() for entry in entries.all())
    page.goto(f"{address}/book/index.html")
    assert page.locator("figure.map a").first.is_visible()
    page.locator("figure.map a").first.click()
    assert "01_tokenization" in page.url
    context.close()


def test_the_first_page_of_a_visit_has_a_clean_console(chromium, address):
    for name in ("index", "03_attention"):
        context = chromium.new_context(viewport=PHONE)
        page, said = context.new_page(), []
        page.on(
            "console",
            lambda message, to=said: (
                to.append(message.text)
                if message.type in {"error", "warning"}
                else None
            ),
        )
        page.on("pageerror", lambda error, to=said: to.append(str(error)))
        settled(page, f"{address}/book/{name}.html")
        context.close()
        assert not said


def test_buttons_are_as_large_as_a_finger_and_nothing_covers_the_text(
    chromium, address
):
    context = chromium.new_context(viewport=PHONE, has_touch=True)
    page = context.new_page()
    settled(page, f"{address}/book/03_attention.html")
    buttons = page.locator(".bd-header-article button:visible")
    assert buttons.count() >= 5
    for button in buttons.all():
        box = button.bounding_box()
        assert box["width"] >= 44, button.get_attribute("class")
        assert box["height"] >= 44, button.get_attribute("class")
    page.evaluate("scrollTo(0, 6000)")
    page.wait_for_timeout(300)
    page.evaluate("scrollTo(0, 5000)")
    page.wait_for_timeout(300)
    assert not page.locator("#pst-back-to-top").is_visible()
    page.set_viewport_size({"width": 320, "height": 700})
    wider = (
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert page.evaluate(wider) <= 0
    context.close()


def test_the_map_can_be_read_on_a_phone_and_walked_by_keyboard(page, address):
    settled(page, f"{address}/book/index.html")
    small = page.evaluate(
        """() => [...document.querySelectorAll('.model-map text')].filter((text) => {
          const scale = text.ownerSVGElement.getBoundingClientRect().width / 340;
          return scale * parseFloat(getComputedStyle(text).fontSize) < 9;
        }).map((text) => text.textContent)"""
    )
    assert not small
    page.locator("a.start-other").last.focus()
    walked = []
    for _ in range(12):
        page.keyboard.press("Tab")
        walked.append(
            page.evaluate("document.activeElement.getAttribute('href')") or ""
        )
    at = walked.index("01_tokenization.html")
    numbers = [int(address[:2]) for address in walked[at : at + 10]]
    assert sorted(numbers) == list(range(1, 11))
    page.locator("a.map-part[href='06_mlp.html']").hover()
    page.wait_for_timeout(300)
    assert not page.wrong
    page.locator("a.map-part[href='03_attention.html']").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/03_attention.html")


def test_claims_can_be_narrowed_to_a_verdict(page, address):
    settled(page, f"{address}/book/claims.html")
    visible = page.locator(".claims-list > li:visible")
    everything = visible.count()
    button = page.get_by_role("button", name=re.compile("^False"))
    button.click()
    pills = page.locator(".claims-list > li:visible .verdict")
    assert 0 < visible.count() < everything
    assert set(pills.all_text_contents()) == {"False"}
    assert button.get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name=re.compile("^All")).click()
    assert visible.count() == everything
    heights = page.locator(".verdict:visible").evaluate_all(
        "(pills) => pills.map((pill) => pill.getClientRects().length)"
    )
    assert set(heights) == {1}, "a pill is broken over two lines"


# A line of as many columns as the package has, in the font of the code, and the room for it.
COLUMNS = """() => {
  const code = document.querySelector('section > div.cell > div.cell_input pre');
  const style = getComputedStyle(code);
  const line = document.createElement('span');
  line.textContent = 'x'.repeat(88);
  line.style.cssText = 'position: absolute; visibility: hidden; white-space: pre';
  code.append(line);
  const needed = line.getBoundingClientRect().width;
  line.remove();
  const room = code.clientWidth - parseFloat(style.paddingLeft)
    - parseFloat(style.paddingRight);
  return { needed, room, size: style.fontSize };
}"""


def test_code_of_88_columns_fits_on_a_laptop(chromium, address):
    page = chromium.new_page(viewport={"width": 1280, "height": 800})
    settled(page, f"{address}/book/03_attention.html")
    found = page.evaluate(COLUMNS)
    page.set_viewport_size(PHONE)
    on_phone = page.evaluate(COLUMNS)
    page.close()
    assert found["size"] == "14px"
    assert found["needed"] <= found["room"]
    assert on_phone["size"] == "12.5px"
    assert on_phone["room"] / on_phone["needed"] > 48 / 88


def test_a_fade_is_no_wider_than_what_it_hides(page, address):
    settled(page, f"{address}/book/lab/10_scaling.html")
    fades = page.evaluate(
        """async () => {
          const boxes = [...document.querySelectorAll('.bd-article pre[data-more]')]
            .filter((box) => box.scrollWidth - box.clientWidth > 100).slice(0, 20);
          for (const box of boxes) {
            box.scrollLeft = box.scrollWidth - box.clientWidth - 20;
          }
          await new Promise((done) => setTimeout(done, 300));
          return boxes.map((box) => [...getComputedStyle(box).maskImage
            .matchAll(/([\\d.]+)px/g)].map((found) => parseFloat(found[1])));
        }"""
    )
    assert len(fades) == 20
    for at_the_left, at_the_right in fades:
        assert at_the_left == 56
        assert at_the_right == pytest.approx(20, abs=1)


def test_rows_keep_their_name_in_sight_and_numbers_their_line(page, address):
    settled(page, f"{address}/book/lab/15_knowledge.html")
    moved = page.evaluate(
        """() => [...document.querySelectorAll('.bd-article [data-more]:has(> table)')]
          .map((box) => {
            const name = box.querySelector('tbody tr > :first-child');
            const number = box.querySelector('tbody tr > :last-child');
            const at = (cell) => cell.getBoundingClientRect().left;
            const before = [at(name), at(number)];
            box.scrollLeft = 40;
            return [at(name) - before[0], at(number) - before[1] + box.scrollLeft];
          })"""
    )
    assert len(moved) >= 3
    for name, number in moved:
        assert abs(name) < 1, "the first column stays"
        assert abs(number) < 1, "the others go"
    broken = page.evaluate(
        """() => [...document.querySelectorAll('.bd-article table.dataframe td')]
          .filter((cell) => /^[-−+]?[\\d,.]+(e-?\\d+)?( ± <?[\\d,.]+)?$/
            .test(cell.textContent))
          .filter((cell) => {
            const text = document.createRange();
            text.selectNodeContents(cell);
            return text.getClientRects().length > 1;
          }).map((cell) => cell.textContent)"""
    )
    assert not broken


def test_a_long_listing_opens_in_place_without_a_script(chromium, address, site):
    pages = sorted(site.glob("book/**/*.html"))
    long = [path for path in pages if '<details class="rest">' in path.read_text()]
    if not long:
        pytest.skip("no listing of the book is longer than 25 lines")
    context = chromium.new_context(viewport=PHONE, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/{long[0].relative_to(site)}")
    button = page.locator("details.rest > summary").first
    code = page.locator("details.rest").first.locator("xpath=preceding-sibling::*[1]")
    first = code.bounding_box()["height"]
    button.click()
    everything = code.bounding_box()["height"]
    context.close()
    assert 25 < first / (12.5 * 1.5) < 26, "25 lines and the padding above them"
    assert everything > first


def test_a_condition_stands_apart_from_what_follows(page, address):
    settled(page, f"{address}/book/lab/04_multihead.html")
    gaps = page.evaluate(
        """() => [...document.querySelectorAll('div.claim .claim-note')].map((note) =>
          note.nextElementSibling.getBoundingClientRect().top
          - note.getBoundingClientRect().bottom)"""
    )
    assert gaps
    assert min(gaps) >= 8
