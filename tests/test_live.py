"""The story machine in a real browser: the same numbers as in Python, and controls for everybody.

One browser and one page serve all tests: the machine itself, with nothing of the book around it.
"""

import base64
import importlib
import json
import random
import re
import shutil
import sys
import threading
import zlib
from itertools import islice
from pathlib import Path

import browser as browsers
import pytest
import serve
import torch

from decoder_only.analysis.interpretation import attention_maps
from decoder_only.generation import generate
from decoder_only.hub import export
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.recipes import language_of
from decoder_only.stories.exact import NextToken, probabilities
from decoder_only_book import live
from decoder_only_book.stored import load_model

if reason := browsers.missing():
    pytest.skip(reason, allow_module_level=True)

SCRIPTS = Path(__file__).resolve().parent.parent / "book" / "_static" / "live"
STORIES = {"hamlet": 180, "full": 20}
NAMES = pytest.mark.parametrize("name", live.MODELS)
HOSTILE = [
    "",
    " ",
    "\n\n",
    "it's 'LL",
    "  a\t\n ",
    "\ufeffa\x85b\x1c",
    "é́ñ🙂👩‍👩‍👧",
    "<|endoftext|>",
    "a" * 999,
]
LOAD = """([config, text]) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  globalThis.model = new live.Model(config, live.readTensors(bytes.buffer));
}"""
RUN = """(ids) => {
  const state = model.run(model.start(), ids.slice(0, 5));
  for (const id of ids.slice(5)) model.run(state, [id]);
  return ids.map((_, s) => [...model.logits(state, s)]);
}"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The machine, with nothing of the book around it."""
    folder = tmp_path_factory.mktemp("machine")
    for path in (SCRIPTS / "machine.css", *SCRIPTS.glob("*.js")):
        shutil.copy(path, folder)
    live.write(folder / "data")
    sys.path.insert(0, str(SCRIPTS.parents[1] / "_ext"))
    try:
        machine = importlib.import_module("machine")
    finally:
        sys.path.pop(0)
    style = (SCRIPTS.parent / "book.css").read_text(encoding="utf-8")
    style = re.sub(r"@font-face \{.*?\}", "", style, flags=re.DOTALL)
    start = machine.START % ("", list(machine.FILES))
    (folder / "index.html").write_text(
        '<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8">'
        f"<title>Machine</title><style>{style} body {{color: var(--pst-color-text-base); "
        "background: var(--pst-color-background)}</style><main>"
        f'<div id="story-machine" class="machine"><p>A story.</p></div></main>{start}</html>',
        encoding="utf-8",
    )
    server = serve.server(folder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with browsers.started() as running:
        tab = running.new_context(reduced_motion="reduce").new_page()
        tab.folder, tab.wrong = folder, []
        tab.on("pageerror", lambda error: tab.wrong.append(str(error)))
        tab.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        tab.wait_for_function("globalThis.live && live.machine")
        yield tab
    server.shutdown()


@pytest.fixture(scope="module")
def saved():
    return {name: load_model(name) for name in live.MODELS}


@pytest.fixture(scope="module")
def languages(saved):
    return {name: language_of(run.config["data"]) for name, run in saved.items()}


def asked(page, function: str, given: object) -> object:
    """What a function of the page says, as one text: Playwright need not read each number."""
    wrapped = f"(text) => JSON.stringify(({function})(JSON.parse(text)))"
    return json.loads(page.evaluate(wrapped, json.dumps(given)))


def opened(page, name: str) -> None:
    """A stored model, as the machine loads it; once for all tests."""
    page.evaluate(
        """async (name) => {
          const { the, parts, ready } = live.machine;
          globalThis.stored = globalThis.stored || {};
          if (!stored[name]) {
            parts.model.value = the.name = name;
            the.model = null;
            await ready();
            stored[name] = { ...the };
          }
          const { model, tokenizer, language, next } = stored[name];
          Object.assign(globalThis, { model, tokenizer, language, next });
        }""",
        name,
    )


def put(page, model: GPT, weights: bytes) -> None:
    text = base64.b64encode(weights).decode()
    page.evaluate(LOAD, [json.loads(json.dumps(model.config.to_dict())), text])


def compare(page, model: GPT, ids: list[int]) -> None:
    ours = torch.tensor(asked(page, RUN, ids))
    with torch.no_grad():
        torch.testing.assert_close(
            ours, model(torch.tensor([ids]))[0], atol=1e-4, rtol=0
        )


def some_config(rng: random.Random) -> GPTConfig:
    heads = rng.choice([2, 4])
    return GPTConfig(
        vocab_size=rng.randint(20, 60),
        context_length=16,
        d_model=rng.choice([16, 24]),
        n_layers=rng.randint(1, 3),
        n_heads=heads,
        n_kv_heads=rng.choice([None, 1, heads // 2]),
        head_dim=rng.choice([6, 8]),
        d_mlp=rng.choice([None, 20, 33]),
        positions=rng.choice(["learned", "sinusoidal", "rotary", "none"]),
        position_base=rng.choice([100.0, 10_000.0]),
        norm=rng.choice(["layer", "rms"]),
        norm_eps=rng.choice([1e-5, 1e-2]),
        norm_position=rng.choice(["pre", "post"]),
        activation=rng.choice(["relu", "gelu", "gelu_tanh", "squared_relu", "swiglu"]),
        windows=rng.choice([(None,), (3,), (None, 4)]),
        qk_norm=rng.random() < 0.5,
        attention_scale=rng.choice([None, 0.7]),
        bias=rng.random() < 0.5,
        tied=rng.random() < 0.5,
        soft_cap=rng.choice([None, 2.0]),
        base_width=rng.choice([None, 8]),
    )


@pytest.mark.parametrize("seed", range(30))
def test_logits_of_any_settings(page, seed):
    from safetensors.torch import save

    rng = random.Random(seed)
    model = GPT(some_config(rng)).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for x in model.parameters():
            x.add_(torch.randn(x.shape, generator=generator) * 0.3)
    ids = [rng.randrange(model.config.vocab_size) for _ in range(14)]
    put(page, model, save(dict(model.state_dict())))
    compare(page, model, ids)


@NAMES
def test_logits_of_the_stored_models(page, saved, languages, name):
    model, tokenizer = saved[name].model, saved[name].tokenizer
    ids = tokenizer.encode(next(languages[name].stories(split="validation")))[:16]
    opened(page, name)
    compare(page, model, ids)


@pytest.mark.parametrize("family", ["gpt2", "qwen3"])
def test_an_export_runs(page, saved, tmp_path, family):
    sizes = {
        "vocab_size": 1792,
        "context_length": 16,
        "d_model": 16,
        "n_layers": 2,
        "n_heads": 2,
    }
    qwen3 = {"positions": "rotary", "norm": "rms", "bias": False, "qk_norm": True}
    model = GPT(
        GPTConfig(
            **sizes, **({} if family == "gpt2" else qwen3 | {"activation": "swiglu"})
        )
    ).eval()
    export(model, saved["hamlet"].tokenizer, tmp_path / "model")
    about = json.loads((tmp_path / "model" / "config.json").read_text())
    weights = (tmp_path / "model" / "model.safetensors").read_bytes()
    page.evaluate(
        """([about, text]) => {
          const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
          const found = live.fromLibrary(about, live.readTensors(bytes.buffer));
          globalThis.model = new live.Model(...found);
        }""",
        [about, base64.b64encode(weights).decode()],
    )
    ids = list(range(300, 312))
    with torch.no_grad():
        wanted = model(torch.tensor([ids]))[0]
    torch.testing.assert_close(
        torch.tensor(asked(page, RUN, ids)), wanted, atol=1e-4, rtol=0
    )
    words = json.loads(
        (tmp_path / "model" / "tokenizer.json").read_text(encoding="utf-8")
    )
    opened(page, "hamlet")
    text = "Ivo's 12 lamps,\n  and\tmore … é"
    found = page.evaluate(
        "([x, text]) => live.readTokenizer(x).encode(text)", [words, text]
    )
    assert found == saved["hamlet"].tokenizer.encode(text)


@NAMES
def test_tokens_of_five_hundred_texts_each(page, saved, languages, name):
    opened(page, name)
    rng = random.Random(0)
    stories = languages[name].stories(seed=3)
    texts = [*HOSTILE, *islice(stories, 100)]
    pools = [
        "ab '\n\t 1",
        "\x1c\x85\xa0\u2003\ufeff x",
        "éßДж中²Ⅷ٣🙂\u0301\ud7a3\U0001e6c0",
        "'slltvre ",
    ]
    while len(texts) < 500:
        texts.append("".join(rng.choices(rng.choice(pools), k=rng.randint(1, 40))))
    found = asked(page, "(texts) => texts.map((text) => tokenizer.encode(text))", texts)
    assert found == [saved[name].tokenizer.encode(text) for text in texts]
    decoded = "(all) => all.map((ids) => tokenizer.decode(ids))"
    assert asked(page, decoded, found) == texts


@NAMES
def test_the_language_is_exact(page, saved, languages, name):
    opened(page, name)
    tokenizer, language = saved[name].tokenizer, languages[name]
    exact, rng = NextToken(language, tokenizer), random.Random(7)
    stories = language.stories(split="validation", seed=11)
    for text in islice(stories, STORIES[name]):
        ids = tokenizer.encode(text)
        found = asked(page, "(ids) => [...next.along(ids)].map((p) => [...p])", ids)
        wanted = [probabilities(tree) for tree in exact.along(text)]
        assert len(found) == len(wanted)
        for ours, theirs in zip(found, wanted, strict=True):
            assert dict(ours) == pytest.approx(theirs, abs=1e-9, rel=0)
        at = rng.randrange(len(text))
        broken = text[:at] + rng.choice("abcxyz .,Q") + text[at + rng.randrange(2) :]
        told, verdict = (
            page.evaluate("(x) => language.explain(x)", broken),
            language.explain(broken),
        )
        assert (told["at"], told["whole"]) == (verdict.at, verdict.in_language)
        assert dict(told["expected"]) == pytest.approx(
            dict(verdict.expected), abs=1e-9, rel=0
        )


def test_a_seed_repeats(page):
    drawn = """([seed, topP]) => Array.from({ length: 200 }, (_, place) => live.choose(
      new Float32Array([0, 1, 2, 3]), { temperature: 1, topP, seed, place }))"""
    first = page.evaluate(drawn, [5, 1])
    assert page.evaluate(drawn, [5, 1]) == first != page.evaluate(drawn, [6, 1])
    assert set(first) == {0, 1, 2, 3}
    assert set(page.evaluate(drawn, [5, 0.6])) == {3}


def test_a_file_cut_short_is_one_line(page):
    said = """(n) => {
      try { live.readTensors(new ArrayBuffer(n)); } catch (error) { return error.message; }
    }"""
    assert (
        page.evaluate(said, 4)
        == "The file of weights is cut short, or is no safetensors file."
    )


# ---------------------------------------------------------------- what comes, and when


def fresh(page, blocked: str = "nothing"):
    """A page that has loaded no data; it notes what it asks for."""
    tab = page.context.new_page()
    tab.asked = []
    tab.on("request", lambda asks: tab.asked.append(Path(asks.url).stem))
    tab.route(f"**/*{blocked}*", lambda route: route.abort())
    tab.goto(page.url.partition("#")[0])
    tab.wait_for_function("globalThis.live && live.machine")
    assert not any(name.startswith(live.MODELS) for name in tab.asked)
    return tab


def test_weights_come_when_a_model_is_chosen_and_its_language_last(page):
    tab = fresh(page)
    tab.locator("select").select_option("full")
    says(tab, "^The model is here. Press play.$")
    tab.wait_for_function("live.machine.the.language")
    names = [name for name in tab.asked if name.startswith("full-")]
    assert (names[0], names[-1]) == ("full-0", "full-language")
    assert sorted(names) == sorted(x for x in live.scripts() if x.startswith("full-"))
    assert not any(name.startswith("hamlet") for name in tab.asked)
    tab.close()


def test_the_last_choice_holds_while_another_model_comes(page):
    tab = fresh(page)
    tab.evaluate(
        """() => {
          const { model } = live.machine.parts;
          for (const name of ['full', 'hamlet', 'full', 'hamlet']) {
            model.value = name;
            model.dispatchEvent(new Event('change'));
          }
        }"""
    )
    says(tab, "^The model is here. Press play.$")
    tab.wait_for_function("live.machine.the.kept.full")
    press(tab, "Play")
    says(tab, r"^\d+ tokens written\. (A whole story|Leaves)")
    assert tab.evaluate("live.machine.the.name") == "hamlet"
    assert tab.evaluate("live.machine.the.model.config.vocab_size") == 1792
    data = [name for name in tab.asked if name.startswith(live.MODELS)]
    assert len(data) == len(set(data)), "each file once"
    tab.close()


def test_the_first_token_waits_for_no_language(page):
    tab = fresh(page, blocked="-language")
    press(tab, "Play")
    says(tab, r"^\d+ tokens written\. Without its language, the page cannot say")
    press(tab, "Back")  # asks for all, and is told what did not come
    says(tab, "^“the end” is taken back.$")
    tab.close()


def test_a_part_that_did_not_come_is_asked_for_again(page):
    tab = fresh(page, blocked="hamlet-2")
    press(tab, "Play")
    says(tab, "^The file hamlet-2.js could not be loaded.$")
    tab.unroute_all()
    press(tab, "Play")
    says(tab, r"^\d+ tokens written\.")
    tab.close()


def first_bytes(folder: Path, name: str) -> int:
    """What stands between play and the first token, as a server sends it: compressed."""
    files = [
        path for path in folder.glob(f"{name}-*.js") if "language" not in path.stem
    ]
    return sum(
        len(serve.compressed(path, 0)) for path in [*files, folder / "letters.js"]
    )


@NAMES
def test_what_is_loaded_is_small_and_its_size_is_told(page, name):
    data = page.folder / "data"
    size = first_bytes(data, name)
    assert size <= {"hamlet": 0.45e6, "full": 2.85e6}[name]
    size += len(serve.compressed(data / f"{name}-language.js", 0))
    told = page.locator(f"option[value={name}]").text_content()
    assert told.endswith(f", {size / 1e6:.1f} MB")


def test_packed_weights_are_all_there():
    rng = random.Random(0)
    for plain in (rng.randbytes(1000), b"ab" * 500, b""):
        first, second = (
            zlib.decompress(base64.b64decode(text)) for text in live.packed(plain)
        )
        assert (first, second) == (plain[::2], plain[1::2])


def test_scripts_are_small():
    assert sum(path.stat().st_size for path in SCRIPTS.glob("*.js")) <= 80_000


# ---------------------------------------------------------------- everybody can play

NAMED = """(x) => {
  const label = x.getAttribute('aria-label') || (x.labels && x.labels[0] || x).textContent;
  return label.trim().replace(/\\s+/g, ' ');
}"""
STOPS = "a[href], button, input, select, textarea, summary, [tabindex]"
STATE = """() => {
  const { the, parts } = live.machine;
  return {
    model: parts.model.value, ids: the.ids, place: the.place, look: the.look, off: [...the.off],
    seed: parts.seed.value, temperature: parts.temperature.value, topP: parts.topP.value,
    greedy: parts.greedy.checked, verdict: parts.verdict.textContent,
    lists: [parts.expects.textContent, parts.allows.textContent],
  };
}"""


def state(page) -> dict:
    return page.evaluate(STATE)


def reach(page, name: str) -> None:
    """Focus what is called so: a stop of the keyboard, as the first test shows."""
    found = page.evaluate(
        f"""(name) => {{
          const stops = [...document.querySelectorAll({STOPS!r})];
          const found = stops.find((x) => x.checkVisibility() && new RegExp(`^${{name}}`)
            .test(({NAMED})(x)));
          if (found) found.focus();
          return document.activeElement === found;
        }}""",
        name,
    )
    assert found, name


def says(page, pattern: str) -> str:
    """Wait for what a screen reader is told; the place of it has aria-live."""
    page.wait_for_function(
        "(wanted) => new RegExp(wanted).test(live.machine.parts.said.textContent)",
        arg=pattern,
        polling=20,
        timeout=20_000,
    )
    region = page.locator(".said[role=status][aria-live=polite]")
    return region.text_content()


def press(page, name: str, key: str = "Enter") -> None:
    page.evaluate("live.machine.parts.said.textContent = ''")
    reach(page, name)
    page.keyboard.press(key)


@pytest.fixture
def machine(page):
    """The machine with the small model, as a reader finds it."""
    opened(page, "hamlet")
    page.evaluate(
        """async () => {
          const { the, parts, ready } = live.machine;
          parts.model.value = 'hamlet';
          parts.model.dispatchEvent(new Event('change'));
          await ready();
          await new Promise((done) => setTimeout(done));
          Object.assign(the, { seed: 1, temperature: 0.8, topP: 1, greedy: false, look: '' });
          Object.assign(parts.seed, { value: 1 });
          Object.assign(parts.temperature, { value: 0.8 });
          parts.greedy.checked = false;
          parts.heads.querySelector("[value='']").checked = true;
          document.querySelectorAll('details').forEach((fold) => (fold.open = false));
        }"""
    )
    yield page
    assert not page.wrong


def test_tab_stops_at_every_control_and_shows_where_it_is(machine):
    machine.evaluate(
        "document.querySelectorAll('details').forEach((x) => (x.open = true))"
    )
    press(machine, "One token")
    says(machine, "^“")
    stops = (
        machine.evaluate(  # Tab stops at one button of a radio group, the chosen one
            f"""[...document.querySelectorAll({STOPS!r})].filter((x) => x.checkVisibility() &&
          (x.type !== 'radio' || x.checked)).map({NAMED})"""
        )
    )
    assert len(stops) > 45
    met = []
    while len(met) < len(stops):  # on from "One token", and around
        machine.keyboard.press("Tab")
        is_body, name, outline = machine.evaluate(
            f"""() => {{
              const here = document.activeElement;
              return [here === document.body, ({NAMED})(here), getComputedStyle(here).outlineStyle];
            }}"""
        )
        if not is_body:
            met.append(name)
            assert outline == "solid", name
    at = stops.index("One token") + 1
    assert met == stops[at:] + stops[:at]


def test_the_keyboard_writes_and_takes_back(machine, saved):
    press(machine, "Play")
    says(machine, r"^\d+ tokens written\. (A whole story|Leaves)")
    first = state(machine)["ids"]
    assert len(first) > 20

    press(machine, "One token", "Space")
    says(machine, "^The story is over. Go back, or begin a new one.$")
    press(machine, "Back")
    says(machine, "^“the end” is taken back.$")
    press(machine, "One token")
    says(machine, r"^“the end”, surprise \d+\.\d\d bits\. Divergence")
    assert state(machine)["ids"] == first, "the seed and the place decide"

    press(machine, "New story")
    says(machine, "^A new story, with the next seed.$")
    assert write_four(machine) != first[1:5]
    reach(machine, "Seed")
    machine.keyboard.press("Control+A")
    machine.keyboard.type("0")
    press(machine, "New story")
    assert machine.locator("input[type=number]").input_value() == "1"
    assert write_four(machine) == first[1:5]

    reach(machine, "Temperature")
    machine.keyboard.press("ArrowRight")
    assert machine.evaluate("live.machine.the.temperature") == 0.85
    assert machine.locator("output").first.text_content() == "0.85"
    reach(machine, "Top-p")
    machine.keyboard.press("ArrowLeft")
    assert machine.evaluate("live.machine.the.topP") == 0.95

    reach(machine, "greedy")
    machine.keyboard.press("Space")
    press(machine, "New story")
    run, begins = saved["hamlet"], torch.tensor([first[:1]])
    n_allowed = run.tokenizer.vocab_size
    wanted = generate(
        run.model, begins, max_new_tokens=4, temperature=0, n_allowed=n_allowed
    )
    assert write_four(machine) == wanted[0, 1:].tolist()


def write_four(machine) -> list[int]:
    for _ in range(4):
        press(machine, "One token")
        says(machine, "^“")
    return state(machine)["ids"][1:]


def test_the_keyboard_looks_inside_and_a_link_restores_it(machine):
    press(machine, "One token")
    says(machine, "^“")
    press(machine, r".+, \d+(\.\d)?%")  # the first word of the list
    says(machine, "^The story goes on with “")
    press(machine, "One token")
    says(machine, "^“")
    press(machine, "The story, token by token", "ArrowLeft")
    says(
        machine,
        r"^Token 3: “.+”, surprise \d+\.\d\d bits\. Divergence: \d+\.\d\d bits\.$",
    )
    selected = machine.locator("[role=option][aria-selected=true]")
    at = machine.evaluate(
        "document.activeElement.getAttribute('aria-activedescendant')"
    )
    assert selected.get_attribute("id") == at == "token-3"

    press(machine, "Look inside")
    before = state(machine)["lists"][0]
    press(machine, "Head 1 of block 0", "Space")
    says(machine, "^Head 1 of block 0 is off.$")
    assert (
        machine.evaluate("document.activeElement.getAttribute('aria-pressed')")
        == "false"
    )
    without_head = state(machine)["lists"][0]
    press(machine, "MLP of block 3")
    says(machine, "^The MLP of block 3 is off.$")
    assert len({before, without_head, state(machine)["lists"][0]}) == 3
    reach(machine, "None: the colours")
    machine.keyboard.press("ArrowDown")
    says(machine, "^At this place, head 0 of block 0 attends to (the start|“)")
    assert state(machine)["look"] == "0.0"

    reach(machine, "Seed")
    machine.keyboard.press("ArrowUp")
    press(machine, "Copy the link")
    says(machine, "(The link is copied|is the link)")
    link, kept = machine.evaluate("location.hash"), state(machine)
    assert kept["off"] == ["0.1", "3.m"]
    press(machine, "MLP of block 3")
    press(machine, "New story")
    reach(machine, "greedy")
    machine.keyboard.press("Space")
    assert state(machine) != kept
    away = "(link) => location.hash !== link"  # the address changes a little later
    machine.wait_for_function(away, arg=link, polling=20)
    machine.evaluate("(link) => (location.hash = link)", link)
    says(machine, "^The link’s story is here, 3 tokens long")
    assert state(machine) == kept


HEADS = """() => [...document.querySelectorAll('.heads svg')].map((map) => {
  const found = Array(live.machine.the.place).fill(0);
  for (const [, at, top] of map.firstChild.getAttribute('d').matchAll(/M([\\d.]+) 1V([\\d.]+)/g))
    found[at - 0.5] = 1 - top;
  return [map.dataset.head, found];
})"""
SHADES = """() => [...document.querySelectorAll('.token:not(.caret)')]
  .map((token) => Number(token.style.getPropertyValue('--strength')))"""


def test_attention_of_each_head_is_shown_and_told(machine, saved):
    model, tokenizer = saved["hamlet"].model, saved["hamlet"].tokenizer
    press(machine, "Play")
    says(machine, r"^\d+ tokens written\.")
    ids = state(machine)["ids"]
    press(machine, "The story, token by token", "Home")
    for _ in range(11):
        machine.keyboard.press("ArrowRight")
    assert state(machine)["place"] == 12
    wanted = attention_maps(model, torch.tensor([ids]))[0, :, :, 11, :12]
    press(machine, "Look inside")
    machine.wait_for_selector(".heads svg[viewBox='0 0 12 1']", state="attached")
    found = {name: torch.tensor(row).float() for name, row in machine.evaluate(HEADS)}
    assert len(found) == model.config.n_layers * model.config.n_heads
    reach(machine, "None: the colours")
    for name, row in found.items():
        layer, head = map(int, name.split("."))
        weights = wanted[layer, head]
        torch.testing.assert_close(row, weights, atol=5e-3, rtol=0)
        machine.keyboard.press("ArrowDown")
        top = int(weights.argmax())
        token = tokenizer.decode([ids[top]]).replace(" ", "␣")
        token = f"“{token}” (token {top})" if top else "the start"
        share = f"{100 * weights[top]:.{int(weights[top] < 0.1)}f}%"
        share = re.escape(f"{token} {share}")
        says(
            machine, f"^At this place, head {head} of block {layer} attends to {share}"
        )
        shades = torch.tensor(machine.evaluate(SHADES))
        assert len(shades) == len(ids), "the start is shown, too"
        torch.testing.assert_close(shades[:12] ** 2, weights, atol=2e-3, rtol=0)
        assert not shades[12:].any()
    machine.keyboard.press("ArrowDown")  # around
    says(machine, "^The colours show the surprise again.$")
    assert machine.evaluate(SHADES)[0] != 0
    press(machine, "The story, token by token", "ArrowRight")
    says(machine, "bits.$")


def test_a_phone_shows_the_story_beside_what_is_inside(machine):
    press(machine, "One token")
    says(machine, "^“")
    press(machine, "Look inside")
    size = machine.viewport_size
    machine.set_viewport_size({"width": 390, "height": 844})
    try:
        machine.locator(".machine table").scroll_into_view_if_needed()
        machine.locator("[value='3.3']").scroll_into_view_if_needed()
        story = machine.locator(".machine-story").bounding_box()
        assert 0 <= story["y"] < 100
        assert story["height"] < 300
        for map_ in machine.locator(".map").all():
            box = map_.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
            assert min(box["height"], box["width"]) >= 24
    finally:
        machine.set_viewport_size(size)


def test_axe_finds_nothing(machine):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    press(machine, "One token")
    says(machine, "^“")
    machine.evaluate(
        "document.querySelectorAll('details').forEach((x) => (x.open = true))"
    )
    reach(machine, "None: the colours")
    machine.keyboard.press("ArrowDown")
    for name in ("dark", "light"):
        machine.evaluate("(x) => (document.documentElement.dataset.theme = x)", name)
        found = axe.run(machine, "#story-machine").response["violations"]
        told = [f"{fault['id']}: {fault['nodes'][0]['html'][:200]}" for fault in found]
        assert told == []


def small_run(folder: Path, saved, **settings) -> GPT:
    """Writes a run's folder with an untrained model of 16 tokens' context."""
    from safetensors.torch import save_file

    sizes = {"d_model": 16, "n_layers": 2, "n_heads": 2, "context_length": 16}
    config = GPTConfig(vocab_size=1792, **sizes, **settings)
    model = GPT(config, generator=torch.Generator().manual_seed(0)).eval()
    with torch.no_grad():
        for number, x in enumerate(model.parameters()):
            generator = torch.Generator().manual_seed(number)
            x.add_(torch.randn(x.shape, generator=generator) * 0.3)
    folder.mkdir()
    about = {"model": config.to_dict(), "data": saved["hamlet"].config["data"]}
    (folder / "config.json").write_text(json.dumps(about))
    saved["hamlet"].tokenizer.save(folder / "tokenizer.json")
    save_file(dict(model.state_dict()), folder / "weights.safetensors")
    return model


def choose_folder(page, folder: Path) -> None:
    with page.expect_file_chooser() as choosing:
        press(page, "Open a run’s folder")
    choosing.value.set_files(folder)


def surprises(model: GPT, ids: list[int]) -> list[float]:
    """In bits, each from the last 16 tokens before it, or from all where there are windows."""
    room = len(ids) if model.config.windows == (3,) else 16
    found = []
    with torch.no_grad():
        for at in range(1, len(ids)):
            window = torch.tensor([ids[max(0, at - room) : at]])
            log_p = model(window)[0, -1].log_softmax(-1)[ids[at]]
            found.append(-log_p.item() / torch.tensor(2.0).log().item())
    return found


@pytest.mark.parametrize(
    "settings",
    [{}, {"positions": "rotary", "windows": (3,)}],
    ids=["slides", "endless"],
)
def test_beyond_the_context_it_goes_on_as_in_python(machine, saved, tmp_path, settings):
    model = small_run(tmp_path / "run", saved, **settings)
    choose_folder(machine, tmp_path / "run")
    says(machine, "^Your model is here, beside its language.$")
    machine.evaluate("live.machine.parts.greedy.click()")
    if not settings:
        press(machine, "Play")
        says(
            machine,
            "^The model sees 16 tokens, and has written them. Play goes on; it then",
        )
    ids = machine.evaluate(
        """async () => {
          const { the, parts } = live.machine;
          while (the.ids.length < 25) {
            parts.one.click();
            await new Promise((done) => setTimeout(done));
          }
          return the.ids;
        }"""
    )
    wanted = generate(model, torch.tensor([ids[:1]]), max_new_tokens=24, temperature=0)
    assert ids == wanted[0].tolist()
    found = machine.evaluate("live.machine.the.surprise.slice(1)")
    assert found == pytest.approx(surprises(model, ids), abs=1e-3)
    told = machine.locator(".context").text_content()
    sees = "The model sees 16 tokens. Here it has forgotten the first 9, in grey."
    assert told == ("" if settings else sees)
    assert machine.locator(".token.forgotten").count() == (0 if settings else 8)

    # A text that came at once: what is beyond the context is computed a place at a time.
    reach(machine, "Type a text")
    machine.keyboard.press("Enter")
    text = (
        "Ivo had one radish seed. He put it into the ground by the old well, and went."
    )
    machine.locator("textarea").fill(text)
    machine.wait_for_function(
        """() => {
          const { surprise, ids } = live.machine.the;
          const known = surprise.slice(1).filter((x) => x !== undefined);
          return ids.length > 20 && known.length === ids.length - 1;
        }""",
        polling=20,
    )
    ids, found = machine.evaluate(
        "[live.machine.the.ids, live.machine.the.surprise.slice(1)]"
    )
    assert ids[1:] == saved["hamlet"].tokenizer.encode(text)
    assert found == pytest.approx(surprises(model, ids), abs=1e-3)
    machine.evaluate(
        "document.querySelectorAll('details').forEach((x) => (x.open = false))"
    )


def test_a_full_page_says_so(machine):
    machine.evaluate("live.machine.the.ids.push(...Array(999).fill(300))")
    press(machine, "One token")
    says(machine, "^The page holds 1000 tokens. Go back, or begin a new story.$")


def drop(page, folder: Path) -> None:
    """As from a window of the system."""
    page.locator(".machine-story").scroll_into_view_if_needed()
    box = page.locator(".machine-story").bounding_box()
    line = page.context.new_cdp_session(page)
    at = {"x": box["x"] + 20, "y": box["y"] + 20}
    data = {"items": [], "files": [str(folder)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        line.send("Input.dispatchDragEvent", {"type": kind, **at, "data": data})
    line.detach()


def test_a_run_and_an_export_are_dropped(machine, saved, tmp_path):
    model = small_run(tmp_path / "run", saved)
    export(model, saved["hamlet"].tokenizer, tmp_path / "export")
    drop(machine, tmp_path / "run")
    says(machine, "^Your model is here, beside its language.$")
    press(machine, "One token")
    says(machine, "^“")
    first = state(machine)
    assert first["model"] == "yours"
    drop(machine, tmp_path / "export")
    says(machine, "^Your model is here. The page does not have the exact language")
    press(machine, "One token")
    says(machine, "^“")
    assert state(machine)["ids"] == first["ids"], "the same weights"

    # A page that is a file is not given what is dropped: it says what to do.
    tab = machine.context.new_page()
    tab.goto((machine.folder / "index.html").as_uri())
    tab.wait_for_function("globalThis.live && live.machine")
    drop(tab, tmp_path / "run")
    says(
        tab,
        "^The browser does not hand over what was dropped. Press “Open a run’s folder”.$",
    )
    tab.close()


def test_bad_input_is_one_line_and_the_page_goes_on(machine, saved, tmp_path):
    small_run(tmp_path / "run", saved)
    weights = (tmp_path / "run" / "weights.safetensors").read_bytes()
    (tmp_path / "run" / "weights.safetensors").write_bytes(weights[: len(weights) // 2])
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("Dear Ivo")
    choose_folder(machine, tmp_path / "other")
    says(
        machine,
        "^This is no run's folder: it must hold config.json, [^.]*.json and [^.]*.safetensors.$",
    )
    choose_folder(machine, tmp_path / "run")
    says(machine, "^The file of weights is cut short, or is no safetensors file.$")
    (tmp_path / "run" / "config.json").write_text('{"model": {')
    choose_folder(machine, tmp_path / "run")
    says(machine, "^config.json is damaged or cut short.$")
    assert state(machine)["model"] == "hamlet"

    press(machine, "Type a text")
    reach(machine, "The story begins")
    machine.keyboard.type("Once ≈ é")
    says(
        machine,
        "^The tokenizer has no token for “≈”, so it spells it in bytes. Leaves the language at",
    )
    press(machine, "Type a text")
    press(machine, "One token")
    says(machine, r"^“.+”, surprise \d")
