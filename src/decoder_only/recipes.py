"""What `decoder-only train` runs: data, a model and its training, by name.

    recipe = chosen("stories-cpu", training={"steps": 100})
    material = gather(recipe)
    model = build(recipe, material)
    train(model, material.train, material.validation, TrainConfig(**recipe.training))

`presets` holds the models that the field knows, this module the runs of the book. Chapter 9.
"""

import json
import math
import shlex
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import torch

from decoder_only.base import checks
from decoder_only.data.corpus import Corpus, split_text, story_corpora, text_corpus
from decoder_only.data.prepared import open_tokens
from decoder_only.data.sources import read_text, tiny_shakespeare
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.presets import MODERN
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import checkpoint
from decoder_only.training.config import TrainConfig, current_names
from decoder_only.training.processes import ALONE, Process, broadcast


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a run is made from, as plain data.

    Attributes:
        data: `kind` is "stories", with `language`, `n_train` and `n_validation`; or "text", with
            its `file`. `vocab_size` is the largest vocabulary to learn.
        model: fields of `GPTConfig`; of them `vocab_size` only where it must be exactly that.
        training: fields of `TrainConfig`.
        is_finished: whether a run has already been trained so, to its last step.
    """

    data: dict[str, object]
    model: dict[str, object]
    training: dict[str, object] = field(default_factory=dict)
    is_finished: bool = False


def _model(
    context_length: int, d_model: int, n_layers: int, n_heads: int, **more: object
) -> dict[str, object]:
    sizes = {"d_model": d_model, "n_layers": n_layers, "n_heads": n_heads}
    return MODERN | {"context_length": context_length} | sizes | more


def _training(steps: int, batch_size: int, **more: object) -> dict[str, object]:
    return {"steps": steps, "batch_size": batch_size} | more


_STORIES, _TEXT = {"kind": "stories"}, {"kind": "text"}
_MUON = {"optimizer": "muon", "learning_rate": 4e-3}
_ON_CPU = {"schedule": "warmup_stable_decay", "decay_fraction": 0.8, "loss_slices": 4}

RECIPES: dict[str, Recipe] = {
    "stories-cpu": Recipe(
        # As `benchmarks/recipe.py` found it: a head of its own, and tables that move twice as fast
        # as the matrices, end at less than half the gap. With 2,900 tokens nearly every word is
        # one, so that more of a story is in reach, and is read at once or not at all. What is
        # left is to be recalled from far back, which is attention's work: a narrow MLP leaves
        # time for more steps.
        data=_STORIES
        | {"language": "hamlet", "vocab_size": 2900}
        | {"n_train": 20_000, "n_validation": 250},
        model=_model(192, d_model=128, n_layers=3, n_heads=4, d_mlp=128, tied=False),
        training=_training(
            1550,
            8,
            **_MUON | {"learning_rate": 8e-3, "table_learning_rate": 1.6e-2},
            **_ON_CPU,
            warmup_steps=50,
            weight_decay=0.0,
            evaluate_every=388,
        ),
    ),
    "shakespeare-cpu": Recipe(
        data=_TEXT | {"vocab_size": 2048},
        # Read twice, a text this small asks for ten times the usual weight decay.
        model=_model(128, d_model=128, n_layers=4, n_heads=2),
        training=_training(
            880,
            8,
            **_MUON,
            **_ON_CPU,
            warmup_steps=20,
            weight_decay=1.0,
            evaluate_every=880,
        ),
    ),
    # For one GPU. Not measured yet.
    "stories-gpu": Recipe(
        data=_STORIES
        | {"language": "full", "vocab_size": 4096}
        | {"n_train": 1_000_000, "n_validation": 5000},
        model=_model(512, d_model=512, n_layers=8, n_heads=8),
        training=_training(5000, 128, warmup_steps=200, evaluate_every=1000, **_MUON),
    ),
    "shakespeare-gpu": Recipe(
        data=_TEXT | {"vocab_size": 257},
        model=_model(256, d_model=384, n_layers=6, n_heads=6, dropout=0.2),
        training=_training(2000, 64, warmup_steps=100, evaluate_every=500, **_MUON),
    ),
}
"""Runs by name. Any option of the command line takes the place of a value here."""


def chosen(
    name: str | None = None,
    *,
    text: str | Path | None = None,
    language: str | None = None,
    n_stories: int | None = None,
    model: Mapping[str, object] | None = None,
    training: Mapping[str, object] | None = None,
) -> Recipe:
    """The recipe of that name, with what was given in the place of what it says.

    Args:
        name: in `RECIPES`; by default "stories-cpu", or "shakespeare-cpu" for a text.
        text: a file, or a folder that `prepare` made, or "shakespeare"; None for stories.
        language: which stories, see `StoryLanguage.named`; None takes the recipe's.
        n_stories: how many stories to learn from.
        model, training: fields of `GPTConfig` and `TrainConfig`.

    Raises:
        ValueError: for an unknown name, or one for the other kind of data.
    """
    kind = "stories" if text is None else "text"
    name = name or {"stories": "stories-cpu", "text": "shakespeare-cpu"}[kind]
    recipe = _recipe(name, kind)
    if kind == "text":
        if (language, n_stories) != (None, None):
            raise ValueError("--language and --stories are for stories, without --text")
        data = {"file": str(text)}
    else:
        n_train = recipe.data["n_train"] if n_stories is None else n_stories
        checks.whole("stories", n_train, at_least=1, at_most=10**9)
        n_validation = min(recipe.data["n_validation"], n_train)
        data = {"language": language or recipe.data["language"]}
        data |= {"n_train": n_train, "n_validation": n_validation}
    settings = {**recipe.training, **(training or {})}
    # A shorter run warms up for less long.
    warmup = {
        "warmup_steps": min(recipe.training["warmup_steps"], settings["steps"] // 10)
    }
    return Recipe(
        data=recipe.data | data,
        model={**recipe.model, **(model or {})},
        training={**settings, **warmup, **(training or {})},
    )


def _recipe(name: str, kind: str) -> Recipe:
    if name not in RECIPES:
        raise ValueError(
            f"there is no recipe {name!r}; choose one of {', '.join(RECIPES)}"
        )
    if RECIPES[name].data["kind"] != kind:
        advice = "add --text FILE" if kind == "stories" else "leave out --text"
        raise ValueError(
            f"recipe {name!r} is for another kind of data; {advice}, or choose another"
        )
    return RECIPES[name]


def stored(
    run: Path,
    *,
    text: str | Path | None = None,
    training: Mapping[str, object] | None = None,
) -> Recipe:
    """The recipe that a run was begun with, to go on with it.

    Args:
        run: its folder.
        text: where the same text is now, if it has moved.
        training: fields of `TrainConfig` that may change; `train` refuses the others.

    Raises:
        FileNotFoundError: the folder holds no run, or its text is gone and will be needed.
        ValueError: the run was not begun by `decoder-only train`, or has changed since.
    """
    config = checkpoint.read_config(run)
    if not {"data", "training"} <= set(config):
        raise ValueError(
            f"{run} was not begun by `decoder-only train`: {checkpoint.CONFIG} does not tell data "
            "and training, so there is nothing to go on with"
        )
    # Before anything is opened that config.json names: it is what the states were saved with.
    state = checkpoint.latest_state(run)
    before = config["training"] | (json.loads(state.notes["training"]) if state else {})
    before = current_names(before)
    settings = {**before, **(training or {})}
    is_finished = bool(state) and state.step == settings["steps"] and settings == before
    file = Path(config["data"].get("file", "shakespeare"))
    is_there = text is not None or str(file) == "shakespeare" or file.exists()
    if not (is_there or is_finished):
        raise FileNotFoundError(
            f"{file} does not exist (looked in {Path.cwd()}); say where the run's text is now: "
            f"decoder-only train --resume {shlex.quote(str(run))} --text FILE"
        )
    return Recipe(
        data=config["data"] | ({} if text is None else {"file": str(text)}),
        model=config["model"],
        training=settings,
        is_finished=is_finished,
    )


@dataclass(frozen=True)
class Material:
    """What a run learns from, and what its vocabulary had to give up for a small text."""

    kind: str
    tokenizer: BytePairTokenizer
    train: Corpus
    validation: Corpus
    remark: str | None = None

    @property
    def fingerprints(self) -> dict[str, str]:
        """By which the same data is known again."""
        parts = {"train": self.train, "validation": self.validation}
        return {name: corpus.fingerprint for name, corpus in parts.items()}


def gather(
    recipe: Recipe,
    tokenizer: BytePairTokenizer | None = None,
    *,
    process: Process = ALONE,
    progress: bool = False,
) -> Material:
    """What a recipe's run learns from. Of several processes the first makes it for all.

    Args:
        recipe: a vocabulary that its text does not fill shrinks, down to bytes.
        tokenizer: that of the run that is resumed; None learns one.
        process: this one; all must ask together. The others wait as long as their group lets
            them: see `distributed.in_background`.
        progress: show on stderr how far it is.

    Raises:
        ValueError: a text that is not UTF-8, or does not fill the vocabulary that was asked for.
        OSError: a text that cannot be read.
    """
    path = Path(recipe.data.get("file", ""))
    if recipe.data["kind"] == "text" and path.is_dir():  # maps files, which all can
        prepared = open_tokens(path, tokenizer=tokenizer, verify=process.is_first)
        corpora = prepared.train, prepared.validation
        return Material("prepared text", prepared.tokenizer, *corpora)
    make = _stories if recipe.data["kind"] == "stories" else _text
    made = make(recipe, tokenizer, progress) if process.is_first else None
    return broadcast(made, process)


def _stories(
    recipe: Recipe, tokenizer: BytePairTokenizer | None, progress: bool
) -> Material:
    language, remark = language_of(recipe.data), None
    seed, n_train = recipe.training.get("seed", 0), recipe.data["n_train"]
    if tokenizer is None:
        if progress:
            print("Learning a vocabulary from stories …", file=sys.stderr)
        # A few thousand stories hold all common words; more would only take longer to count.
        some = islice(language.stories(split="train", seed=seed), min(n_train, 4000))
        tokenizer, remark = _vocabulary(list(some), recipe)
    sizes = {"n_train": n_train, "n_validation": recipe.data["n_validation"]}
    corpora = story_corpora(language, tokenizer, **sizes, seed=seed, progress=progress)
    return Material("stories", tokenizer, *corpora, remark)


def _text(
    recipe: Recipe, tokenizer: BytePairTokenizer | None, progress: bool
) -> Material:
    path, remark = Path(recipe.data["file"]), None
    by_name = str(path) == "shakespeare" and not path.exists()
    parts = split_text(tiny_shakespeare() if by_name else read_text(path))
    if tokenizer is None:
        if progress:
            print("Learning a vocabulary from the text …", file=sys.stderr)
        n_least = recipe.model["context_length"]
        tokenizer, remark = _vocabulary([parts[0]], recipe, n_least)
    corpora = (text_corpus(part, tokenizer) for part in parts)
    return Material("text", tokenizer, *corpora, remark)


def _vocabulary(
    texts: list[str], recipe: Recipe, n_least: int = 0
) -> tuple[BytePairTokenizer, str | None]:
    """The largest that the texts fill and that leaves so many tokens, down to the 256 bytes.

    One that was asked for is taken or refused.
    """
    asked, most = recipe.model.get("vocab_size"), recipe.data["vocab_size"]
    if asked:
        return BytePairTokenizer.train(texts, asked), None
    tokenizer = BytePairTokenizer.train(texts, most, at_most=True)
    while (size := tokenizer.vocab_size) > 257 and n_least:
        if text_corpus(texts, tokenizer).n_targets >= n_least:
            break
        tokenizer = BytePairTokenizer.train(texts, (257 + size) // 2)
    shrunk = f"a small text: the vocabulary shrank from {most:,} tokens to {size:,}"
    return tokenizer, None if size == most else shrunk


def language_of(data: Mapping[str, object]) -> StoryLanguage | None:
    """The language in which a run's stories are written; None for a run on text."""
    if data.get("kind") != "stories":
        return None
    return StoryLanguage.named(data.get("language", "full"))


def build(recipe: Recipe, material: Material) -> GPT:
    """The recipe's model before its training, drawn from the training's seed.

    Raises:
        ValueError: for settings that cannot work, or a context longer than the text.
    """
    n_tokens, corpus = material.tokenizer.vocab_size, material.train
    vocab_size = recipe.model.get("vocab_size", n_tokens)
    checks.whole("vocab_size", vocab_size, at_least=n_tokens)
    config = GPTConfig(**recipe.model | {"vocab_size": vocab_size})
    n_least, n_targets = config.context_length, corpus.n_targets
    if corpus.starts is None and n_targets < n_least:
        n_bytes = corpus.n_bytes + material.validation.n_bytes
        enough = math.ceil(n_bytes * n_least / n_targets) + 1
        raise ValueError(
            f"of {n_bytes:,} bytes {n_targets:,} tokens are to train on, less than a context of "
            f"{n_least:,}; give a text of {enough:,} bytes or more, or "
            f"--context-length {n_targets} at most"
        )
    generator = torch.Generator().manual_seed(TrainConfig(**recipe.training).seed)
    return GPT(config, generator=generator)


def begin(
    recipe: Recipe,
    material: Material,
    config: GPTConfig,
    *,
    out: Path | None = None,
    overwrite: bool = False,
    device: str = "",
) -> AbstractContextManager[checkpoint.Run]:
    """Make the run's folder, locked within the context: `out`, or a new one in `runs`.

    Args:
        recipe, material: what the run is made from.
        config: of the model.
        out: None takes the first free number of several, also where others do so at once.
        overwrite: see `checkpoint.new_run`.
        device: on which it is begun, in words.

    Raises:
        OSError: the folder is not free, or cannot be made.
    """
    details = {
        "training": TrainConfig(**recipe.training).to_dict(),
        "data": recipe.data | {"fingerprints": material.fingerprints},
        "device": device,
    }
    name = Path(recipe.data.get("file", "stories")).stem
    return checkpoint.new_run(
        out or checkpoint.new_folder("runs", name),
        model_config=config,
        tokenizer=material.tokenizer,
        details=details,
        overwrite=overwrite,
    )
