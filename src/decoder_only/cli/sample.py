"""The command `sample`."""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import torch

from decoder_only import generation, hub, recipes
from decoder_only.base import checks
from decoder_only.base.hardware import choose_device, has_native_bfloat16
from decoder_only.cli.options import Device, Flag, option
from decoder_only.cli.words import show, visible
from decoder_only.model.gpt import GPT
from decoder_only.model.presets import ALIASES
from decoder_only.stories import Explanation, StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import checkpoint


def sample(
    *,
    run: Annotated[Path, option("DIR")],
    prompt: Annotated[str | None, option("TEXT", "the beginning of a text")] = None,
    count: int = 1,
    max_new_tokens: int = 300,
    temperature: float = 1.0,
    top_k: Annotated[int | None, option("K", "all")] = None,
    top_p: Annotated[float | None, option("P", "1.0")] = None,
    seed: int = 0,
    device: Device = None,
    judge: Flag = False,
    language: Annotated[str | None, option("NAME", "the run's")] = None,
    stream: Flag = False,
    raw: Flag = False,
) -> None:
    """Let a trained model write.

    Args:
        run: Folder of the run, as `train` printed it, or one that `export` made, or `gpt2-small`.
        prompt: What the texts begin with. Its last word is spelled anew: the model chooses the
            tokens for it, and may go beyond its end ("text" becomes "texts").
        count: Number of texts.
        max_new_tokens: Length at most; a text may end by itself before.
        temperature: Below 1 more cautious, 0 always the likeliest token.
        top_k: Draw only from the K likeliest tokens.
        top_p: Draw only from the likeliest tokens that together have probability P.
        seed: Of the draws, which differ from one kind of device to another.
        device: `cpu`, `cuda`, `cuda:1` or `mps`.
        judge: Say of each story at which letter it leaves its language, and in the end how many
            do not.
        language: Which language judges.
        stream: Print a single text while it is written, as a terminal gets it in any case.
        raw: Print the texts as they are, whatever they would do to a terminal.
    """
    # Before minutes of loading or of silence.
    checks.whole("count", count, at_least=1, at_most=10**5)
    checks.whole("seed", seed, at_least=-(2**63), at_most=2**64 - 1)
    place = choose_device(device)
    model, tokenizer, data = _opened(run, place)
    if has_native_bfloat16(place):  # half as much to read at each step
        model = model.bfloat16()
    if language is not None:
        data = {"kind": "stories", "language": language}
    stories = recipes.language_of(data)
    if judge and stories is None:
        raise ValueError(f"{run} has not learned stories; --language NAME may judge it")
    if prompt is None:  # "" begins a document, as a story or a model of the field does
        prompt = "\n" if data.get("kind") == "text" else ""
    settings = {"max_new_tokens": max_new_tokens, "temperature": temperature}
    settings |= {"top_k": top_k, "top_p": top_p, "from_start": stories is not None}
    settings["generator"] = torch.Generator(place).manual_seed(seed)
    is_live = count == 1 and (stream or sys.stdout.isatty())
    if is_live:
        pieces = generation.stream(model, tokenizer, prompt, **settings)
        texts = ["".join(_printed(pieces, raw))]
    else:
        texts = generation.write(model, tokenizer, prompt, count=count, **settings)
    _show(texts, stories, judge=judge, raw=raw, is_live=is_live)


def _printed(pieces: Iterable[str], raw: bool) -> Iterator[str]:
    """The pieces of one text, each printed when it comes."""
    for piece in pieces:
        print(piece if raw else visible(piece), end="", flush=True)
        yield piece
    print()


def _show(
    texts: list[str],
    language: StoryLanguage | None,
    *,
    judge: bool,
    raw: bool,
    is_live: bool,
) -> None:
    """Print the texts, unless they are there already, and what their language says of them."""
    verdicts = [language.explain(text) if language else "" for text in texts]
    for text, verdict in zip(texts, verdicts, strict=True):
        if not raw:
            show("" if is_live else text, _in_short(verdict) if judge else verdict)
        elif not is_live:
            print(text)
    if judge:
        n_stories = sum(verdict.in_language for verdict in verdicts)
        print(f"{n_stories} of {len(texts)} stories lie in the language")


def _opened(
    run: Path, device: torch.device
) -> tuple[GPT, BytePairTokenizer, dict[str, object]]:
    """The model of a run, of an exported folder, or of the field, and what it was trained on."""
    name = ALIASES.get(str(run), str(run))
    if any(run.glob("model*.safetensors*")) or name in hub.PUBLISHED:
        model, tokenizer = hub.load(run, device=device)
        if tokenizer is None:
            raise ValueError(
                f"{run} has no tokenizer.json, without which nothing is read"
            )
        return model, tokenizer, {}
    saved = checkpoint.load(run, device=device)
    return saved.model, saved.tokenizer, saved.config.get("data", {})


def _in_short(verdict: Explanation) -> str:
    if verdict.in_language:
        return str(verdict)
    expected = verdict.expected[0][0] if verdict.expected else ""
    actual, expected = (
        json.dumps(text[:40]) if text else "the end"
        for text in (verdict.found, expected)
    )
    place = f"leaves the language at letter {verdict.at}"
    return f"{place}: {actual}, where {expected} could be"
