"""The story machine in a real browser: the same numbers as in Python.

DECODER_ONLY_NIGHTLY=1 compares 200 stories instead of 20.
"""

import base64
import json
import os
import random
from itertools import islice
from pathlib import Path

import browser as browsers
import pytest
import torch

from decoder_only.hub import export
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.recipes import language_of
from decoder_only.stories.exact import NextToken, probabilities
from decoder_only_book import live
from decoder_only_book.stored import FOLDER, load_model

if reason := browsers.missing():
    pytest.skip(reason, allow_module_level=True)

SCRIPTS = Path(__file__).resolve().parent.parent / "book" / "_static" / "live"
STORIES = 200 if os.environ.get("DECODER_ONLY_NIGHTLY") else 20
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
def page():
    with browsers.started() as running:
        tab = running.new_page()
        for stem in ("tokenizer", "language", "engine", "library"):
            tab.add_script_tag(path=SCRIPTS / f"{stem}.js")
        tab.evaluate("(x) => live.put('letters', x)", live.letters())
        yield tab


@pytest.fixture(scope="module")
def saved():
    return {name: load_model(name) for name in live.MODELS}


def opened(page, name: str) -> None:
    folder = FOLDER / name
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    language = live.language_data(language_of(config["data"]))
    page.evaluate(
        """([tokenizer, language]) => {
          globalThis.tokenizer = live.readTokenizer(tokenizer);
          globalThis.language = new live.Language(language);
          globalThis.next = new live.NextToken(globalThis.language, globalThis.tokenizer);
        }""",
        [tokenizer, language],
    )


def compare(page, model: GPT, ids: list[int], weights: bytes) -> None:
    text = base64.b64encode(weights).decode()
    page.evaluate(LOAD, [json.loads(json.dumps(model.config.to_dict())), text])
    ours = torch.tensor(page.evaluate(RUN, ids))
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
    compare(page, model, ids, save(dict(model.state_dict())))


@NAMES
def test_logits_of_the_stored_models(page, saved, name):
    model, tokenizer = saved[name].model, saved[name].tokenizer
    language = language_of(saved[name].config["data"])
    ids = tokenizer.encode(next(language.stories(split="validation")))[:16]
    compare(page, model, ids, (FOLDER / name / "weights.safetensors").read_bytes())


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
        torch.tensor(page.evaluate(RUN, ids)), wanted, atol=1e-4, rtol=0
    )
    words = json.loads(
        (tmp_path / "model" / "tokenizer.json").read_text(encoding="utf-8")
    )
    text = "Ivo's 12 lamps,\n  and\tmore … é"
    found = page.evaluate(
        "([x, text]) => live.readTokenizer(x).encode(text)", [words, text]
    )
    assert found == saved["hamlet"].tokenizer.encode(text)


@NAMES
def test_tokens_of_five_hundred_texts_each(page, saved, name):
    opened(page, name)
    rng = random.Random(0)
    stories = language_of(saved[name].config["data"]).stories(seed=3)
    texts = [*HOSTILE, *islice(stories, 100)]
    pools = [
        "ab '\n\t 1",
        "\x1c\x85\xa0\u2003\ufeff x",
        "éßДж中²Ⅷ٣🙂\u0301\ud7a3\U0001e6c0",
        "'slltvre ",
    ]
    while len(texts) < 500:
        texts.append("".join(rng.choices(rng.choice(pools), k=rng.randint(1, 40))))
    found = page.evaluate(
        "(texts) => texts.map((text) => tokenizer.encode(text))", texts
    )
    assert found == [saved[name].tokenizer.encode(text) for text in texts]
    assert (
        page.evaluate("(all) => all.map((ids) => tokenizer.decode(ids))", found)
        == texts
    )


@NAMES
def test_the_language_is_exact(page, saved, name):
    opened(page, name)
    tokenizer = saved[name].tokenizer
    language = language_of(saved[name].config["data"])
    exact, rng = NextToken(language, tokenizer), random.Random(7)
    count = STORIES * 9 // 10 if name == "hamlet" else STORIES // 10
    for text in islice(language.stories(split="validation", seed=11), count):
        ids = tokenizer.encode(text)
        found = page.evaluate("(ids) => [...next.along(ids)].map((p) => [...p])", ids)
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


def test_scripts_are_small():
    assert sum(path.stat().st_size for path in SCRIPTS.glob("*.js")) <= 80_000
