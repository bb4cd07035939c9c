"""Widgets in a real browser: what they compute is what the package computes, and all can play.

Skipped, with the reason, where there is no Chromium or no Playwright. A page of this test holds all
widgets; where they stand in the book, and what that page loads, is read from the lessons.
"""

import importlib
import math
import re
import sys
from itertools import permutations
from pathlib import Path

import browser as browsers
import nbformat
import notebooks
import pytest
import torch
from torch import Tensor

from decoder_only.analysis import planning
from decoder_only.analysis.laws import PUBLISHED
from decoder_only.base.hardware import DEVICES
from decoder_only.model import counting
from decoder_only.model.attention import attend_explicitly
from decoder_only.model.embeddings import rotary, rotations, sinusoids
from decoder_only.model.lm_head import next_token_loss
from decoder_only.model.normalization import layer_norm, rms_norm
from decoder_only.model.presets import PRESETS
from decoder_only.tokenization.merges import learn_merges, spell
from decoder_only.tokenization.pretokens import count_pretokens, pretokenize
from decoder_only.training.optimizers import Muon
from decoder_only.variants.parallelism import pipeline

if reason := browsers.missing():
    pytest.skip(reason, allow_module_level=True)

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "book" / "_static" / "live" / "widgets"
NAMES = sorted(path.stem for path in FOLDER.glob("*.js") if path.stem != "kit")
DIRECTIVE = re.compile(r"^```\{live\} ([\w-]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def placed(path: Path) -> list[tuple[str, str]]:
    """The widgets of a notebook, and what each asks."""
    cells = nbformat.read(path, as_version=4).cells
    texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
    return DIRECTIVE.findall("\n\n".join(texts))


LESSONS = {path.stem: placed(path) for path in notebooks.lessons()}
PHONE = {"width": 390, "height": 844}
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def extension():
    sys.path.insert(0, str(ROOT / "book" / "_ext"))
    try:
        return importlib.import_module("live")
    finally:
        sys.path.pop(0)


def html() -> str:
    """All widgets in a page with the book's own style sheet and nothing of the theme's."""
    live = extension()
    places = "".join(live.place(name, f"What does {name} do?") for name in NAMES)
    scripts = "".join(
        f'<script defer src="{(FOLDER / name).as_uri()}.js"></script>'
        for name in ["kit", *NAMES]
    )
    style = (ROOT / "book/_static/book.css").read_text(encoding="utf-8")
    style = re.sub(r"@font-face \{.*?\}", "", style, flags=re.DOTALL)
    return (
        f'<!doctype html><html lang="en" data-theme="light"><head><title>Widgets</title>'
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<style>{style} *{{box-sizing: border-box}} body{{margin: 0; padding: 1rem; "
        "background: var(--pst-color-background); color: var(--pst-color-text-base)}</style>"
        '</head><body><main class="bd-main"><article class="bd-article"><section>'
        f"<h1>Widgets</h1>{places}</section></article></main>{scripts}</body></html>"
    )


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    file = tmp_path_factory.mktemp("widgets") / "widgets.html"
    file.write_text(html(), encoding="utf-8")
    return file.as_uri()


@pytest.fixture(scope="module")
def chromium():
    with browsers.started() as running:
        yield running


@pytest.fixture(scope="module")
def page(chromium, address):
    """A phone with all widgets, from a file; the tests share it, and try it in their order."""
    opened = chromium.new_page(viewport=PHONE, reduced_motion="reduce")
    opened.wrong, opened.asked = [], []
    opened.on("pageerror", lambda error: opened.wrong.append(str(error)))
    opened.on("console", lambda line: opened.wrong.append(line.text))
    opened.on("request", lambda request: opened.asked.append(request.url))
    opened.goto(address)
    started(opened)
    return opened


def started(page) -> None:
    page.wait_for_selector("figure.live[data-playing]")
    playing = page.locator("figure.live[data-playing]").count()
    assert playing == len(NAMES), page.wrong


def computed(page, name: str, function: str, *arguments: object):
    return page.evaluate(
        "([name, f, given]) => Live.compute[name][f](...given)",
        [name, function, list(arguments)],
    )


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def assert_close(found: object, expected: Tensor, **tolerance: float) -> None:
    torch.testing.assert_close(
        torch.as_tensor(found, dtype=torch.float64),
        expected.detach().double(),
        **(tolerance or CLOSE),
    )


# ---------------------------------------------------------------- parity with the package


@pytest.mark.parametrize("seen", [4, 3])
def test_attention_is_that_of_the_package(page, seen):
    query, keys, values = normal(2, seed=1), normal(4, 2, seed=2), normal(4, 2, seed=3)
    mask = [t < seen for t in range(4)]
    sizes = [query.tolist(), keys.tolist(), values.tolist(), 1.7, mask]
    found = computed(page, "attention", "attend", *sizes)
    expected = attend_explicitly(
        query[None, None, None],
        keys[None, None],
        values[None, None],
        mask=torch.tensor(mask)[None],
        causal=False,
        scale=1.7,
    )
    assert_close(found["output"], expected[0, 0, 0])
    assert math.isclose(sum(found["weights"]), 1)


@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize("rule", ["descent", "momentum", "adam", "muon"])
def test_steps_in_the_valley_are_those_of_the_optimizers(page, rule, noise):
    n_steps, rate = 30, 0.13
    noises = noise * normal(2 * n_steps, seed=4)
    path = computed(
        page, "valley", "walk", rule, [-4, 1], rate, n_steps, noises.tolist()
    )
    diagonal = torch.eye(2, dtype=torch.bool)
    matrix = torch.diag(torch.tensor([-4.0, 1.0], dtype=torch.float64)).requires_grad_()
    optimizer = {
        "descent": lambda: torch.optim.SGD([matrix], lr=rate),
        "momentum": lambda: torch.optim.SGD([matrix], lr=rate, momentum=0.9),
        "adam": lambda: torch.optim.AdamW(
            [matrix], lr=rate, betas=(0.9, 0.95), weight_decay=0
        ),
        "muon": lambda: Muon([matrix], learning_rate=rate),
    }[rule]()
    curvature = torch.tensor([0.02, 2.5], dtype=torch.float64)
    expected = [matrix.detach()[diagonal].clone()]
    for step in range(n_steps):
        gradient = curvature * expected[-1] + noises[2 * step : 2 * step + 2]
        matrix.grad = torch.diag(gradient)
        optimizer.step()
        expected.append(matrix.detach()[diagonal].clone())
    assert_close(path, torch.stack(expected), rtol=1e-6, atol=1e-7)
    assert torch.equal(matrix[~diagonal], torch.zeros(2, dtype=torch.float64))


def test_loss_and_gradient_at_a_temperature_are_those_of_the_package(page):
    logits = normal(4, seed=5).requires_grad_()
    for temperature in (0.3, 1.0, 2.5):
        for came in range(4):
            given = [logits.tolist(), temperature, came]
            scaled = (logits / temperature)[None, None]
            loss = next_token_loss(scaled, torch.tensor([[came]]))
            (gradient,) = torch.autograd.grad(loss, logits)
            assert_close(
                computed(page, "temperature", "loss", *given),
                loss,
                rtol=1e-6,
                atol=1e-7,
            )
            found = computed(page, "temperature", "gradient", *given)
            assert_close(found, gradient, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("base", [10, 10_000])
def test_positions_turn_and_are_added_as_in_the_package(page, base):
    x, positions = normal(8, seed=6), torch.tensor([0, 3, 41])
    options = {"base": float(base), "dtype": torch.float64}
    rotation = rotations(positions, head_dim=8, **options)
    turned = rotary(x.expand(1, 1, 3, 8), rotation)[0, 0]
    added = x + sinusoids(positions, d_model=8, **options)
    for n, position in enumerate(positions.tolist()):
        given = [x.tolist(), position, base]
        assert_close(computed(page, "turning", "turned", *given), turned[n])
        assert_close(computed(page, "turning", "added", *given), added[n])
    vectors = [x.tolist(), normal(8, seed=7).tolist()]
    scores = [
        computed(page, "turning", "score", "turned", *vectors, 5 + by, 2 + by, base)
        for by in (0, 30)
    ]
    assert math.isclose(*scores, rel_tol=1e-9)


@pytest.mark.parametrize(
    ("n_stages", "n_micro_batches"), [(4, 8), (3, 1), (1, 4), (8, 5)]
)
def test_the_pipeline_runs_as_that_of_the_package(page, n_stages, n_micro_batches):
    orders = {"gpipe": pipeline.gpipe, "alternating": pipeline.one_forward_one_backward}
    for name, order in orders.items():
        tasks = order(n_stages, n_micro_batches)
        found = computed(page, "bubble", name, n_stages, n_micro_batches)
        # Without interleaving each stage has one chunk, which the widget does not name.
        assert found == [[[t.kind, t.micro_batch] for t in stage] for stage in tasks]
        times = computed(page, "bubble", "simulate", found, 1, 2.5)
        expected = pipeline.simulate(tasks, backward=2.5)
        for stage, its in zip(times, expected, strict=True):
            spans = {(kind, m, 0): (begin, end) for kind, m, begin, end in stage}
            assert spans == its
        share = (n_stages - 1) / (n_micro_batches + n_stages - 1)
        assert math.isclose(
            computed(page, "bubble", "bubble", times), share, abs_tol=1e-12
        )
        held = [computed(page, "bubble", "held", stage) for stage in found]
        ahead = [min(n_stages - p, n_micro_batches) for p in range(n_stages)]
        assert held == ([n_micro_batches] * n_stages if name == "gpipe" else ahead)


def test_norms_are_those_of_the_package(page):
    x = 3 + normal(3, seed=8)
    ones = torch.ones(3, dtype=torch.float64)
    assert_close(computed(page, "norm", "layer", x.tolist()), layer_norm(x, ones))
    assert_close(computed(page, "norm", "rms", x.tolist()), rms_norm(x, ones))


TEXTS = [
    "a black cat sat back; a black bat sat back; the blackberry sat flat",
    "mississippi",
    "aaaa aaa aa",
    "Zoë's  café 1234 – naïve!\n\n it's 99% 🙂🙂 ",
    "",
]


@pytest.mark.parametrize("text", TEXTS)
def test_merges_are_those_of_the_package(page, text):
    assert computed(page, "merges", "words", text) == list(pretokenize(text))
    counts = {spell(word): n for word, n in count_pretokens([text]).items()}
    expected = learn_merges(counts, 40)
    found = computed(page, "merges", "learn", text, 40)["merges"]
    assert [tuple(merge[:2]) for merge in found] == expected


@pytest.mark.parametrize("name", ["llama2-7b", "gpt2-small"])
def test_cache_bytes_are_those_of_the_package(page, name):
    config = PRESETS[name]
    sizes = {
        "blocks": config.n_layers,
        "groups": config.kv_heads,
        "width": config.head_width,
        "length": 1_000,
        "texts": 3,
    }
    found = computed(page, "shared", "cacheBytes", sizes)
    assert found == counting.cache_bytes(config, 3, 1_000)


def test_the_budget_is_split_as_the_plan_splits_it(page):
    law = PUBLISHED["besiroglu2024"]
    peaks = page.evaluate("Live.compute.budget.DEVICES")
    assert peaks == {name: DEVICES[name].flops for name in peaks}
    for name, hours in (("A100", 24), ("H100", 6)):
        plan = planning.plan_training(law, DEVICES[name], hours=hours)
        flops = computed(page, "budget", "operations", peaks[name], 1, hours, 0.4)
        assert math.isclose(flops, plan.flops, rel_tol=1e-9)
        split = computed(page, "budget", "split", flops)
        assert_close(split, torch.tensor(law.best_split(flops), dtype=torch.float64))
        loss = computed(page, "budget", "loss", *split)
        assert math.isclose(loss, law.loss(*split), rel_tol=1e-12)
        # The plan's shape is round, and it counts attention besides 6 N: less text, a higher loss.
        planned = computed(page, "budget", "loss", plan.n_parameters, plan.tokens)
        assert math.isclose(planned, plan.loss, rel_tol=1e-12)
        assert loss < plan.loss


def test_a_unit_is_a_key_a_relu_and_a_value(page):
    for n, seed in enumerate((9, 10, 11, 12)):
        x, key, value = normal(3, 2, seed=seed)
        offset = n / 2 - 1
        found = computed(
            page, "unit", "unit", x.tolist(), key.tolist(), offset, value.tolist()
        )
        assert_close(found["added"], torch.relu(x @ key + offset) * value)


def test_the_mistakes_are_those_of_the_laboratory(page):
    """The numbers are written by tools/widget_mistakes.py; here they are computed again."""
    import widget_mistakes

    found = page.evaluate("Live.compute.mistake.FOUND")
    assert found == widget_mistakes.found()
    assert list(found) == list(widget_mistakes.NAMES)
    order = page.evaluate("Live.compute.mistake.ORDER")
    assert sorted(order) == sorted(found) != order

    # What the checks must say of some, whatever the numbers are.
    right, above = found["no mistake"], sum(1 << t for t in range(16))
    triangle = [(2 << s) - 1 for s in range(16)]
    rows = {
        name: [int(row, 16) for row in each["map"].split()]
        for name, each in found.items()
    }
    assert rows["no mistake"] == triangle
    assert rows["no mask"] == [above] * 16
    assert [name for name, each in found.items() if not each["places"]] == [
        "no positions"
    ]
    assert [name for name, each in found.items() if not each["apart"]] == [
        "norm over the batch"
    ]
    for losses in right["losses"]:
        assert losses[0] == pytest.approx(math.log(1024), abs=0.1)


def test_each_mistake_but_one_is_told_from_the_others(page):
    judged = page.evaluate(
        """() => {
          const { ORDER, judged, apart } = Live.compute.mistake;
          return ORDER.flatMap((truth) => ORDER.map((guess) =>
            [guess, truth, ...judged(guess, truth), apart(guess, truth)]));
        }"""
    )
    alike = {
        (guess, truth)
        for guess, truth, *_, told in judged
        if not told and guess != truth
    }
    assert alike == set(permutations(["no mistake", "scores over K"]))
    for guess, truth, is_right, words, _ in judged:
        assert is_right == (guess == truth)
        opens = (
            "Right: " if is_right else r"(No\. Look at|No, this model|There is one: )"
        )
        assert re.match(opens, words)
        assert words.endswith(".")


# ---------------------------------------------------------------- everybody can play


def theme(page, name: str) -> None:
    page.evaluate("(name) => (document.documentElement.dataset.theme = name)", name)


def test_axe_finds_nothing(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    # From a file no style sheet can be asked for again; no rule that runs needs it.
    only = {"resultTypes": ["violations"], "preload": False}
    rules = only | {"rules": {"color-contrast": {"enabled": False}}}
    found = axe.run(page, options=rules).response["violations"]
    colours = only | {"runOnly": ["color-contrast"]}
    for name in ("dark", "light"):
        theme(
            page, name
        )  # changes colours alone; to words in drawings the next test sees
        found += page.evaluate(
            """async (options) =>
              (await axe.run({ exclude: [['svg']] }, options)).violations""",
            colours,
        )
    assert not [f"{fault['id']}: {fault['nodes'][0]['html'][:200]}" for fault in found]


COLOURS = """() => {
  const faint = [];
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const known = {};
  const read = (colour) => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const parts = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((x) => x / 255)
      .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const light = (colour) => (known[colour] ??= read(colour));
  const paper = getComputedStyle(document.body).backgroundColor;
  const ground = light(paper);
  for (const text of document.querySelectorAll('.live-drawing text')) {
    const { fill } = getComputedStyle(text);
    const [a, b] = [light(fill), ground].sort((x, y) => y - x);
    const inside = text.previousSibling && text.previousSibling.tagName === 'rect' &&
      fill === paper;
    if (!inside && (a + 0.05) / (b + 0.05) < 4.5) faint.push(text.textContent);
    if (inside) {
      const box = light(getComputedStyle(text.previousSibling).fill);
      const [c, d] = [box, ground].sort((x, y) => y - x);
      if ((c + 0.05) / (d + 0.05) < 4.5) faint.push(`within a box: ${text.textContent}`);
    }
  }
  return faint;
}"""
SIZES = """() => {
  const small = [], narrow = [];
  for (const text of document.querySelectorAll('.live-drawing text')) {
    const view = text.ownerSVGElement;
    const scale = view.getBoundingClientRect().width / view.viewBox.baseVal.width;
    if (scale * parseFloat(getComputedStyle(text).fontSize) < 9) small.push(text.textContent);
  }
  const targets = document.querySelectorAll(
    '.live-target, .live-slider input, .live-options label, .live-text');
  for (const target of targets) {
    const { width, height } = target.getBoundingClientRect();
    if (Math.min(width, height) < 43.9) narrow.push(`${target.className} ${width} x ${height}`);
  }
  const beyond = [...document.querySelectorAll('figure.live *')]
    .filter((part) => part.getBoundingClientRect().right > innerWidth + 0.5)
    .filter((part) => !part.closest('clipPath, [clip-path]') && !part.querySelector('[clip-path]'))
    .map((part) => `${part.tagName}.${part.getAttribute('class')}`);
  const wide = document.documentElement.scrollWidth - innerWidth;
  return { small, narrow, beyond, wide: Math.max(0, wide) };
}"""


def test_all_fits_a_phone_can_be_read_and_touched(page):
    for ends in ("as it is", "min", "max"):  # then all sliders at both ends
        page.evaluate(
            """(end) => document.querySelectorAll('.live-slider input').forEach((range) => {
              if (!range[end]) return;
              range.value = range[end];
              range.dispatchEvent(new Event('input'));
            })""",
            ends,
        )
        assert page.evaluate(SIZES) == {
            "small": [],
            "narrow": [],
            "beyond": [],
            "wide": 0,
        }
        for name in ("dark", "light"):  # a theme changes colours and no sizes
            theme(page, name)
            assert page.evaluate(COLOURS) == []
    page.reload()  # as it was
    started(page)


def spoken(page, name: str) -> str:
    return page.locator(f"figure[data-widget={name}] .live-said").text_content()


# The figure's content stays in the page, where it is compared; what a control says of itself is no
# answer.
STOP = """(places) => {
  const shows = () => {
    const copy = document.querySelector(places).cloneNode(true);
    copy.querySelectorAll('.live-said, .live-slider, .live-choice, .live-handle, .live-text')
      .forEach((part) => part.remove());
    return copy.innerHTML;
  };
  const here = document.activeElement;
  const before = globalThis.shown;
  globalThis.shown = shows();
  const seen = here.querySelector('.live-target') ||
    (here.type === 'radio' ? here.nextSibling : here);
  const style = seen && getComputedStyle(seen);
  return {
    inside: Boolean(here.closest(places)), kind: here.type || 'point', checked: here.checked,
    moved: before !== globalThis.shown,
    ring: Boolean(style) && (style.outlineStyle === 'solid' || style.stroke !== 'none'),
  };
}"""


@pytest.mark.parametrize("name", NAMES)
def test_the_keyboard_reaches_and_moves_everything(page, name):
    """By Tab alone, and each stop changes the figure by an arrow key and says what changed."""
    places = f"figure[data-widget={name}]"
    stops = page.evaluate(
        """([name, places]) => {
          if (name === 'attention') // a masked token moves nothing, as it should
            document.querySelector(`${places} [value=seen]`).click();
          document.activeElement.blur();
          const before = document.createElement('button');
          before.className = 'before';
          document.querySelector(places).before(before);
          before.focus();
          return new Set([...document.querySelectorAll(
            `${places} :is(input, textarea, [tabindex])`)].map((x) => x.name || x)).size;
        }""",
        [name, places],
    )
    reached = 0
    for _ in range(stops):
        page.keyboard.press("Tab")
        here = page.evaluate(STOP, places)
        if not here["inside"]:
            break
        reached += 1
        kind = here["kind"]
        page.keyboard.press("z" if kind == "textarea" else "ArrowRight")
        after = page.evaluate(STOP, places)
        if not after["moved"] and kind == "range":
            page.keyboard.press("ArrowLeft")  # it was at its end
            after = page.evaluate(STOP, places)
        assert after["ring"], f"no sign of the focus on {kind}"
        if kind != "radio":
            assert after["moved"], f"{kind} moved nothing"
        else:
            assert after["checked"]
    assert reached == stops
    page.evaluate("document.querySelectorAll('.before').forEach((x) => x.remove())")
    page.wait_for_function(
        "(places) => document.querySelector(`${places} .live-said`).textContent.length > 10",
        arg=places,
        polling=20,
    )
    assert re.search(r"\d", spoken(page, name))
    assert not page.wrong


def test_a_point_is_dragged(page):
    point = page.locator("figure[data-widget=attention] .live-handle").last
    before = point.get_attribute("aria-valuetext")
    point.scroll_into_view_if_needed()
    box = point.locator(".live-target").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 60, y + 40, steps=3)
    page.mouse.up()
    assert point.get_attribute("aria-valuetext") != before


SET = """([name, label, to]) => {
  const figure = document.querySelector(`figure[data-widget=${name}]`);
  const range = [...figure.querySelectorAll('input[type=range]')]
    .find((x) => x.labels[0].textContent.startsWith(label));
  range.value = to;
  range.dispatchEvent(new Event('input', { bubbles: true }));
  return figure.querySelector('.live-number').textContent;
}"""


def test_the_words_fit_the_numbers(page):
    page.reload()
    started(page)
    equal = page.evaluate(SET, ["attention", "scores are", 0])
    assert equal == "0.33 for each token that is seen: the output is their mean"
    assert "largest weight, on “" in page.evaluate(SET, ["attention", "scores are", 1])
    assert "descent after 1 step; its" in page.evaluate(SET, ["valley", "steps", 1])
    assert "descent after 80 steps; its" in page.evaluate(SET, ["valley", "steps", 80])
    off = page.evaluate(SET, ["valley", "rate", 0.3])
    assert off.startswith("flew off descent after 80 steps; its rate is above 2 / λ")
    assert "a distance of −3:" in page.evaluate(SET, ["turning", "position s", 0])


def test_without_scripts_and_on_paper(chromium, address, page):
    context = chromium.new_context(viewport=PHONE, java_script_enabled=False)
    plain = context.new_page()
    plain.goto(address)
    for name in NAMES:
        figure = plain.locator(f"figure[data-widget={name}]")
        assert figure.locator(".live-static").is_visible()
        assert len(figure.locator(".live-static").inner_text()) > 40
    plain.emulate_media(media="print")
    assert not plain.locator("figure.live").first.is_visible()
    context.close()
    assert not page.locator(".live-static").first.is_visible()
    assert [url for url in page.asked if not url.startswith("file:")] == []


# ---------------------------------------------------------------- where they stand


def test_each_widget_asks_one_short_question_in_one_lesson():
    names = [name for found in LESSONS.values() for name, _ in found]
    assert len(names) == len(set(names))
    assert len(names) >= 8
    assert set(names) <= set(NAMES)
    for stem, found in LESSONS.items():
        assert len(found) <= 1, f"{stem}: one at most, among three scripts of a page"
        for _, question in found:
            assert question.strip().endswith("?")
            assert len(question.split()) <= 25


def test_scripts_are_small_and_only_where_a_widget_stands():
    live = extension()
    assert live.scripts("<p>no widget</p>") == []
    for found in LESSONS.values():
        names = [name for name, _ in found]
        page = "".join(live.place(name, "So?") for name in names)
        asked = [each.partition("?")[0] for each in live.scripts(page)]
        needed = ["kit", *names] if names else []
        assert asked == [f"live/widgets/{name}.js" for name in needed]
        files = [ROOT / "book/_static" / each for each in asked]
        assert sum(file.stat().st_size for file in files) <= live.MOST
    for file in FOLDER.glob("*.js"):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"\b(fetch|XMLHttpRequest|import)\b\s*\(", text), file.name
