"""The command `decoder-only`: plan a model, train it, watch it, and let it write.

    decoder-only plan --gpu H100 --hours 24  what to train with what there is
    decoder-only info gpt2-small             what a model or a run costs
    decoder-only train                       the built-in stories, a small model, three minutes
    decoder-only train --text book.txt       any UTF-8 text
    decoder-only prepare novels --out tokens  any amount of text, once
    decoder-only train --text tokens
    decoder-only train --resume runs/book-1  go on with a training that was stopped
    decoder-only plot runs/book-1 runs/book-2
    decoder-only sample --run runs/stories-1 --prompt "One day"

Each subcommand is a dataclass, whose fields are its options, and a function that reads as an
outline of what happens. Chapter 9.
"""

import io
import math
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro

from decoder_only import planning, presets, scaling
from decoder_only.config import GPTConfig
from decoder_only.data import (
    Corpus,
    read_text,
    split_text,
    story_corpora,
    text_corpus,
    tiny_shakespeare,
    training_batch,
)
from decoder_only.engine import checkpoint
from decoder_only.engine.distributed import Process, agreed, joined
from decoder_only.engine.hardware import DEVICES, choose_device, describe, known_device
from decoder_only.engine.monitor import History
from decoder_only.engine.shards import open_shards, prepare
from decoder_only.generation import write
from decoder_only.laws import PUBLISHED
from decoder_only.lm_head import bits_per_byte
from decoder_only.model import GPT
from decoder_only.show.plots import loss_curves
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import TrainConfig, train

__all__ = ["PRESETS", "Info", "Plan", "Plot", "Prepare", "Sample", "Train", "main"]

_MODERN = {
    "positions": "rotary",
    "norm": "rms",
    "activation": "squared_relu",
    "qk_norm": True,
    "bias": False,
    "initialization": "zero",
}

PRESETS: dict[str, dict[str, dict]] = {
    "stories-cpu": {
        "data": {
            "kind": "stories",
            "vocab_size": 1024,
            "n_train": 20_000,
            "n_validation": 250,
        },
        "model": {
            **_MODERN,
            "context_length": 256,
            "d_model": 128,
            "n_layers": 4,
            "n_heads": 4,
        },
        "training": {
            "steps": 1400,
            "batch_size": 4,
            "learning_rate": 8e-3,
            "warmup_steps": 50,
            "evaluate_every": 350,
        },
    },
    "shakespeare-cpu": {
        "data": {"kind": "text", "vocab_size": 1024},
        "model": {
            **_MODERN,
            "context_length": 128,
            "d_model": 128,
            "n_layers": 4,
            "n_heads": 4,
        },
        "training": {
            "steps": 450,
            "batch_size": 16,
            "optimizer": "muon",
            "learning_rate": 4e-3,
            "warmup_steps": 20,
            "evaluate_every": 225,
        },
    },
    # For one GPU. Not measured yet.
    "stories-gpu": {
        "data": {
            "kind": "stories",
            "vocab_size": 4096,
            "n_train": 1_000_000,
            "n_validation": 5000,
        },
        "model": {
            **_MODERN,
            "context_length": 512,
            "d_model": 512,
            "n_layers": 8,
            "n_heads": 8,
        },
        "training": {
            "steps": 5000,
            "batch_size": 128,
            "optimizer": "muon",
            "learning_rate": 4e-3,
            "warmup_steps": 200,
            "evaluate_every": 1000,
        },
    },
    "shakespeare-gpu": {
        "data": {"kind": "text", "vocab_size": 257},
        "model": {
            **_MODERN,
            "context_length": 256,
            "d_model": 384,
            "n_layers": 6,
            "n_heads": 6,
            "dropout": 0.2,
        },
        "training": {
            "steps": 2000,
            "batch_size": 64,
            "optimizer": "muon",
            "learning_rate": 4e-3,
            "warmup_steps": 100,
            "evaluate_every": 500,
        },
    },
}
"""Settings by name: plain data, from which any option of the command line takes the place."""


def _option(metavar: str, default: str = "the preset's", **settings: object) -> object:
    """How an option shows in the help: what to give, and what happens without it."""
    return tyro.conf.arg(
        metavar=metavar, help_behavior_hint=f"(default: {default})", **settings
    )


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The shape of the model."""

    vocab_size: Annotated[int | None, _option("V")] = None
    """Entries of the tokenizer's vocabulary; 257 gives bytes."""
    context_length: Annotated[int | None, _option("S")] = None
    """Tokens that the model sees at once."""
    d_model: Annotated[int | None, _option("D")] = None
    """Width of the residual stream."""
    n_layers: Annotated[int | None, _option("L")] = None
    """Blocks."""
    n_heads: Annotated[int | None, _option("H")] = None
    """Attention heads in each block."""
    dropout: Annotated[float | None, _option("P")] = None
    """Share of activations that are dropped in training."""


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """How the model is trained."""

    steps: Annotated[int | None, _option("N")] = None
    """Optimizer steps."""
    batch_size: Annotated[int | None, _option("B")] = None
    """Rows of one step."""
    accumulation: Annotated[int | None, _option("N")] = None
    """Parts into which a batch is cut, one after the other, to save memory."""
    optimizer: Annotated[Literal["adamw", "muon"] | None, _option("NAME")] = None
    """`adamw`, or `muon` for the matrices and AdamW for the rest."""
    learning_rate: Annotated[float | None, _option("RATE", aliases=("--lr",))] = None
    """The highest learning rate, after warm-up."""
    schedule: Annotated[
        Literal["cosine", "warmup_stable_decay", "inverse_square_root"] | None,
        _option("NAME"),
    ] = None
    """How the rate falls: `cosine`, `warmup_stable_decay` or `inverse_square_root`."""
    warmup_steps: Annotated[int | None, _option("N")] = None
    """Steps in which the learning rate rises."""
    weight_decay: Annotated[float | None, _option("RATE")] = None
    """Pull of the matrices towards zero."""
    compile: Annotated[bool | None, _option("", "on a GPU")] = None
    """Run model and loss through torch.compile."""
    evaluate_every: Annotated[int | None, _option("N")] = None
    """Steps between evaluations."""
    save_every: Annotated[int | None, _option("N", "after each evaluation")] = None
    """Steps between saved states, from which a stopped training goes on."""


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a model, and let it write.

    With no options: the built-in stories, and a small model that learns them in under three
    minutes on two CPU cores. An option takes the place of the preset's value.
    """

    text: Annotated[Path | None, _option("FILE", "none, the stories")] = None
    """UTF-8 text to learn from, or a folder that `prepare` made; the word `shakespeare` fetches
    Tiny Shakespeare."""
    corpus: Annotated[Literal["stories"], _option("stories", "stories")] = "stories"
    """The built-in language, whose entropy is known; read only where there is no text."""
    preset: Annotated[
        str | None, _option("NAME", "stories-cpu, or shakespeare-cpu for a text")
    ] = None
    """Settings to start from: stories-cpu, shakespeare-cpu, stories-gpu, shakespeare-gpu."""
    resume: Annotated[Path | None, _option("DIR", "none, a new run")] = None
    """Go on with the training in this folder, with the settings that it was begun with."""
    out: Annotated[Path | None, _option("DIR", "a new one in runs/")] = None
    """Folder for the run, new or empty."""
    overwrite: tyro.conf.FlagCreatePairsOff[bool] = False
    """Take the place of a run that is in the folder already."""
    device: Annotated[str | None, _option("NAME", "the best that is here")] = None
    """`cpu`, `cuda`, `cuda:1` or `mps`."""
    seed: Annotated[int, _option("N", "0")] = 0
    """Of the initial weights, the order of the data, and the texts that are written."""
    strategy: Annotated[Literal["ddp", "fsdp"], _option("NAME", "ddp")] = "ddp"
    """Of several processes under torchrun: a whole model in each, or one spread over all."""
    board: tyro.conf.FlagCreatePairsOff[bool] = False
    """Write TensorBoard's files into the run's folder too."""
    quiet: tyro.conf.FlagCreatePairsOff[bool] = False
    """Show no progress bar."""
    model: tyro.conf.OmitArgPrefixes[ModelOptions] = ModelOptions()
    training: tyro.conf.OmitArgPrefixes[TrainingOptions] = TrainingOptions()


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Let a trained model write."""

    run: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Folder of the run, as `train` printed it."""
    prompt: Annotated[str | None, _option("TEXT", "the beginning of a text")] = None
    """What the texts begin with."""
    count: Annotated[int, _option("N", "1")] = 1
    """Number of texts."""
    max_new_tokens: Annotated[int, _option("N", "300")] = 300
    """Length at most; a text may end by itself before."""
    temperature: Annotated[float, _option("T", "1.0")] = 1.0
    """Below 1 more cautious, 0 always the likeliest token."""
    top_k: Annotated[int | None, _option("K", "all")] = None
    """Draw only from the K likeliest tokens."""
    top_p: Annotated[float | None, _option("P", "1.0")] = None
    """Draw only from the likeliest tokens that together have probability P."""
    seed: Annotated[int, _option("N", "0")] = 0
    """Of the draws."""
    device: Annotated[str | None, _option("NAME", "the best that is here")] = None
    """`cpu`, `cuda`, `cuda:1` or `mps`."""


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """Turn text of any size into tokens, once, from which `train --text` then reads."""

    source: tyro.conf.Positional[tuple[str, ...]]
    """UTF-8 files; or one folder, whose .txt and .md files are taken; or `-` for standard input; or
    `shakespeare`."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Folder for the tokens, new or empty."""
    tokenizer: Annotated[str, _option("gpt2|V|DIR", "4096")] = "4096"
    """`gpt2`; or a vocabulary size, to be learned from the text; or a run's folder, for its own."""
    train_share: Annotated[float, _option("SHARE", "0.9")] = 0.9
    """How much of each text is to train on; its end is held out."""
    overwrite: tyro.conf.FlagCreatePairsOff[bool] = False
    """Take the place of tokens that are in the folder already."""
    quiet: tyro.conf.FlagCreatePairsOff[bool] = False
    """Show no progress bar."""


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Draw the losses of runs in one figure."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of the runs."""
    out: Annotated[Path, _option("FILE", "runs.png")] = Path("runs.png")
    """The picture; its ending chooses the format (png, svg, pdf)."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Say what to train with what there is, and what it costs; nothing is trained.

    Give a budget (hours or operations), a size, tokens, or any two of the three. With none of
    them: a day. Numbers may be written 1e9, 300M, 7B or 1.4T.
    """

    gpu: Annotated[str, _option("NAME", "H100")] = "H100"
    """Which device; its data sheet must be known."""
    count: Annotated[int, _option("N", "8")] = 8
    """How many of them."""
    hours: Annotated[float | None, _option("HOURS", "24 if nothing is given")] = None
    """How long they may work."""
    flops: Annotated[str | None, _option("C", "none")] = None
    """Operations that may be spent, instead of hours."""
    params: Annotated[str | None, _option("N", "what the law finds best")] = None
    """Parameters of the model."""
    tokens: Annotated[str | None, _option("D", "what the law finds best")] = None
    """Tokens to train on."""
    law: Annotated[
        Literal["besiroglu2024", "hoffmann2022", "kaplan2020"],
        _option("NAME", "besiroglu2024"),
    ] = "besiroglu2024"
    """Which splits the budget: `besiroglu2024`, `hoffmann2022` or `kaplan2020`."""
    utilization: Annotated[float, _option("SHARE", "0.4")] = 0.4
    """Share of the device's peak that the training reaches."""
    context_length: Annotated[int, _option("S", "2048")] = 2048
    """Tokens that the model sees at once."""


@dataclass(frozen=True, kw_only=True)
class Info:
    """Count a model: its parameters, operations and bytes, and how a run went."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN|PRESET")]
    """Folder of a run; or a model, as gpt2-small; or a preset of `train`, as stories-cpu."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status.

    Args:
        arguments: the words behind `decoder-only`; those of the command line by default.
    """
    commands = {
        "prepare": (Prepare, _prepare),
        "train": (Train, _train),
        "sample": (Sample, _sample),
        "plot": (Plot, _plot),
        "plan": (Plan, _plan),
        "info": (Info, _info),
    }
    options = tyro.extras.subcommand_cli_from_dict(
        {name: options for name, (options, _) in commands.items()},
        prog="decoder-only",
        description="Train a decoder-only transformer from raw text, and let it write.",
        args=None if arguments is None else list(arguments),
    )
    try:
        return dict(commands.values())[type(options)](options) or 0
    except (ValueError, OSError, FloatingPointError, ImportError) as error:
        print(f"decoder-only: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndecoder-only: interrupted", file=sys.stderr)
        return 130


# ---------------------------------------------------------------------------------------- prepare


def _prepare(options: Prepare) -> None:
    prepared = prepare(
        _source(options),
        options.out,
        tokenizer=_tokenizer(options.tokenizer),
        train_share=options.train_share,
        overwrite=options.overwrite,
        progress=not options.quiet,
    )
    for name in ("train", "validation"):
        corpus = getattr(prepared, name)
        print(
            f"{name:10}  {corpus.n_targets:,} tokens of {corpus.bytes_per_token:.2f} bytes"
        )
    print(f"\nThe tokens are in {options.out}. Learn from them:")
    print(f"  decoder-only train --text {options.out}")


def _source(options: Prepare) -> object:
    words = options.source
    if words == ("-",):
        return sys.stdin.buffer
    if words == ("shakespeare",) and not Path("shakespeare").exists():
        return io.StringIO(tiny_shakespeare())
    paths = [Path(word) for word in words]
    return paths[0] if len(paths) == 1 else paths


def _tokenizer(word: str) -> BytePairTokenizer | str | int:
    if word == "gpt2":
        return word
    if word.isdecimal():
        return int(word)
    path = Path(word, checkpoint.TOKENIZER)
    if not path.exists():
        raise ValueError(
            f"--tokenizer {word} is neither gpt2, nor a number, nor a folder with a "
            f"{checkpoint.TOKENIZER}"
        )
    return BytePairTokenizer.load(path)


# ------------------------------------------------------------------------------------------ train


@dataclass(frozen=True, kw_only=True)
class _Recipe:
    """Everything that a run is made from, as plain data: from options and preset, or a folder."""

    data: dict[str, object]
    model: dict[str, object]
    training: dict[str, object]
    tokenizer: BytePairTokenizer | None = None


@dataclass(frozen=True, kw_only=True)
class _Material:
    """What a run learns from."""

    kind: str
    tokenizer: BytePairTokenizer
    train: Corpus
    validation: Corpus
    language: StoryLanguage | None = None


def _train(options: Train) -> int:
    device = choose_device(options.device)
    with joined(device.type) as process:
        if device.type == "cuda" and process.n_ranks > 1:
            device = torch.device("cuda", process.local_rank)
        recipe = _resumed_recipe(options) if options.resume else _fresh_recipe(options)
        material = _material(recipe)
        model = _model(recipe, material)
        config = TrainConfig(**recipe.training)
        run = options.resume
        if run is None:
            first = process.is_first
            new = _new_run(options, recipe, material, model, device) if first else None
            run = agreed(new, process)
        if process.is_first:
            _introduce(material, model, run, device, process)
        history = train(
            model.to(device),
            material.train,
            material.validation,
            config,
            run=run,
            process=process,
            strategy=options.strategy,
            progress=not options.quiet,
            board=options.board,
        )
        if process.is_first:
            return _conclude(history, config, material, run, options.seed)
    return 0


def _conclude(
    history: History,
    config: TrainConfig,
    material: _Material,
    run: Path,
    seed: int,
) -> int:
    n_taken = len(history.losses)
    if n_taken < config.steps:
        print(f"\nStopped after step {n_taken} of {config.steps}; all is saved. Go on:")
        print(f"  decoder-only train --resume {run}")
        return 130
    _report(history, material)
    _show_some(checkpoint.load(run).model, material, seed=seed)
    print(f"\nThe run is in {run}. Let it write more:")
    print(f'  decoder-only sample --run {run} --prompt "One day"')
    return 0


def _fresh_recipe(options: Train) -> _Recipe:
    preset = _preset(options)
    data = {**preset["data"]}
    if options.text is None:
        data["language"] = repr(StoryLanguage())
    else:
        data["file"] = str(options.text)
        if options.text.is_dir() and options.model.vocab_size:
            raise ValueError(
                f"--vocab-size cannot change {options.text}, whose tokens are made; leave it "
                "out, or prepare the text anew"
            )
    model = {**preset["model"], **_given(options.model)}
    data["vocab_size"] = model.pop("vocab_size", data["vocab_size"])
    training = {**preset["training"], **_given(options.training), "seed": options.seed}
    return _Recipe(data=data, model=model, training=training)


def _resumed_recipe(options: Train) -> _Recipe:
    same = Train(
        resume=options.resume,
        device=options.device,
        strategy=options.strategy,
        board=options.board,
        quiet=options.quiet,
    )
    if options != same:
        raise ValueError(
            "--resume goes on with the settings that the run was begun with; beside it, give "
            "only --device, --strategy, --board or --quiet"
        )
    config = checkpoint.read_config(options.resume)
    tokenizer = BytePairTokenizer.load(options.resume / checkpoint.TOKENIZER)
    model = {n: v for n, v in config["model"].items() if n != "vocab_size"}
    training = config["training"]
    return _Recipe(
        data=config["data"], model=model, training=training, tokenizer=tokenizer
    )


def _preset(options: Train) -> dict[str, dict]:
    kind = "stories" if options.text is None else "text"
    name = options.preset or ("stories-cpu" if kind == "stories" else "shakespeare-cpu")
    if name not in PRESETS:
        raise ValueError(
            f"there is no preset {name!r}; choose one of {', '.join(PRESETS)}"
        )
    preset = PRESETS[name]
    if preset["data"]["kind"] != kind:
        advice = "add --text FILE" if kind == "stories" else "leave out --text"
        raise ValueError(
            f"preset {name!r} is for another kind of data; {advice}, or choose another"
        )
    return preset


def _given(options: ModelOptions | TrainingOptions) -> dict[str, object]:
    """The options that were given; they go before the preset's values."""
    return {name: value for name, value in asdict(options).items() if value is not None}


def _material(recipe: _Recipe) -> _Material:
    return _stories(recipe) if recipe.data["kind"] == "stories" else _text(recipe)


def _stories(recipe: _Recipe) -> _Material:
    language = StoryLanguage()
    sizes = {name: recipe.data[name] for name in ("n_train", "n_validation")}
    seed = recipe.training["seed"]
    tokenizer = recipe.tokenizer
    if tokenizer is None:
        # A few thousand stories hold all common words; more would only take longer to count.
        stories = language.stories(split="train", seed=seed)
        some = islice(stories, min(sizes["n_train"], 4000))
        tokenizer = BytePairTokenizer.train(some, recipe.data["vocab_size"])
    train_corpus, validation = story_corpora(language, tokenizer, **sizes, seed=seed)
    return _Material(
        kind="stories",
        tokenizer=tokenizer,
        train=train_corpus,
        validation=validation,
        language=language,
    )


def _text(recipe: _Recipe) -> _Material:
    path = Path(recipe.data["file"])
    if path.is_dir():
        prepared = open_shards(path, tokenizer=recipe.tokenizer)
        return _Material(
            kind="prepared text",
            tokenizer=prepared.tokenizer,
            train=prepared.train,
            validation=prepared.validation,
        )
    by_name = str(path) == "shakespeare" and not path.exists()
    text = tiny_shakespeare() if by_name else read_text(path)
    train_text, validation_text = split_text(text)
    tokenizer = recipe.tokenizer or BytePairTokenizer.train(
        train_text, recipe.data["vocab_size"]
    )
    return _Material(
        kind="text",
        tokenizer=tokenizer,
        train=text_corpus(train_text, tokenizer),
        validation=text_corpus(validation_text, tokenizer),
    )


def _model(recipe: _Recipe, material: _Material) -> GPT:
    config = GPTConfig(**{**recipe.model, "vocab_size": material.tokenizer.vocab_size})
    # Draws nothing that is used: a text that is too short is refused before a folder is made.
    training_batch(
        material.train,
        batch_size=1,
        context_length=config.context_length,
        seed=0,
        step=0,
    )
    generator = torch.Generator().manual_seed(recipe.training["seed"])
    return GPT(config, generator=generator)


def _new_run(
    options: Train,
    recipe: _Recipe,
    material: _Material,
    model: GPT,
    device: torch.device,
) -> Path:
    name = "stories" if options.text is None else options.text.stem
    numbered = (Path("runs") / f"{name}-{number}" for number in count(1))
    folder = options.out or next(path for path in numbered if not path.exists())
    fingerprints = {
        "train": material.train.fingerprint,
        "validation": material.validation.fingerprint,
    }
    return checkpoint.create_run(
        folder,
        model_config=model.config,
        tokenizer=material.tokenizer,
        details={
            "training": TrainConfig(**recipe.training).to_dict(),
            "data": {**recipe.data, "fingerprints": fingerprints},
            "device": describe(device),
        },
        overwrite=options.overwrite,
    )


def _introduce(
    material: _Material,
    model: GPT,
    run: Path,
    device: torch.device,
    process: Process,
) -> None:
    config, corpus = model.config, material.train
    times = f"{process.n_ranks} times " if process.n_ranks > 1 else ""
    print(f"Device   {times}{describe(device)}")
    print(
        f"Data     {material.kind}: {corpus.n_bytes / 1e6:.1f} MB to learn from, "
        f"{material.validation.n_bytes / 1e6:.2f} MB held out; "
        f"{config.vocab_size:,} tokens, {corpus.bytes_per_token:.2f} bytes each"
    )
    print(
        f"Model    {model.count_parameters() / 1e6:.2f} M parameters: {config.n_layers} blocks, "
        f"{config.d_model} wide, {config.n_heads} heads, {config.context_length} tokens of context"
    )
    print(f"Run      {run}")


def _report(history: History, material: _Material) -> None:
    final = history.final
    print(
        f"\nTrained for {history.seconds:.0f} s on {history.tokens / 1e6:.2f} M tokens, "
        f"which is {history.tokens / material.train.n_targets:.1f} times the data.\n"
    )
    rows = [("validation loss", final.loss)]
    if final.floor is not None:
        rows += [("exact floor", final.floor), ("gap", final.gap)]
    print(f"{'':15}  nats per token  bits per byte")
    for name, nats in rows:
        print(
            f"{name:15}  {nats:14.3f}  {bits_per_byte(nats, final.bytes_per_token):13.3f}"
        )


def _show_some(model: GPT, material: _Material, *, seed: int) -> None:
    """A few texts; of stories also how many of more are in the language."""
    # A young model's likeliest words are its best ones.
    settings = {
        "generator": torch.Generator().manual_seed(seed),
        "max_new_tokens": 300,
        "temperature": 0.6,
    }
    if material.language is None:
        print("\nAt temperature 0.6 it wrote:\n")
        _show(write(model, material.tokenizer, "\n", from_start=False, **settings))
        return
    texts = write(model, material.tokenizer, count=24, **settings)
    n_stories = sum(material.language.log_prob(text) > -math.inf for text in texts)
    print(
        f"\nAt temperature 0.6 it wrote {len(texts)} texts, of which {n_stories} are stories "
        "of the language. Four of them:\n"
    )
    _show(texts[:4], material.language)


def _show(texts: Sequence[str], language: StoryLanguage | None = None) -> None:
    for text in texts:
        for line in text.splitlines():
            print(textwrap.fill(line, 88, initial_indent="  ", subsequent_indent="  "))
        if language is not None:
            print(textwrap.indent(str(language.explain(text)), "    "))
        print()


# ------------------------------------------------------------------------------------------ sample


def _sample(options: Sample) -> None:
    run = checkpoint.load(options.run, device=choose_device(options.device))
    is_stories = run.config.get("data", {}).get("kind") == "stories"
    prompt = options.prompt
    if prompt is None:
        prompt = "" if is_stories else "\n"
    texts = write(
        run.model,
        run.tokenizer,
        prompt,
        count=options.count,
        max_new_tokens=options.max_new_tokens,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        generator=torch.Generator().manual_seed(options.seed),
        from_start=is_stories,
    )
    _show(texts, StoryLanguage() if is_stories else None)


# ------------------------------------------------------------------------------------------ plot


def _plot(options: Plot) -> None:
    if not options.runs:
        raise ValueError("give the folder of one run at least")
    curves, faint, floors = {}, [], set()
    for run in options.runs:
        checkpoint.read_config(run)  # refuses what is not a run
        records = checkpoint.read_log(run)
        # A step that was skipped has no loss.
        losses = [r for r in records if r.get("loss") is not None]
        evaluations = [r for r in records if "validation_loss" in r]
        if not losses:
            raise ValueError(
                f"{run} has not taken a step yet; there is nothing to draw"
            )
        name = f"{run.name}, training"
        faint.append(name)
        curves[name] = ([r["step"] for r in losses], [r["loss"] for r in losses])
        if evaluations:
            curves[f"{run.name}, validation"] = (
                [r["step"] for r in evaluations],
                [r["validation_loss"] for r in evaluations],
            )
            floors.add(evaluations[-1]["floor"])
    # Runs on different data have different floors, and none that could be drawn for all.
    floor = floors.pop() if len(floors) == 1 else None
    axes = loss_curves(curves, faint=faint, floor=floor)
    axes.figure.savefig(options.out)
    print(f"The figure is in {options.out}")


# ------------------------------------------------------------------------------------------- plan


def _plan(options: Plan) -> None:
    device = known_device(options.gpu)
    if device is None:
        known = ", ".join(DEVICES)
        raise ValueError(f"--gpu {options.gpu} is unknown; choose one of {known}")
    budget = {"hours": options.hours, "flops": _amount("flops", options.flops)}
    wished = {
        "parameters": _amount("params", options.params),
        "tokens": _amount("tokens", options.tokens),
    }
    n_wished = sum(value is not None for value in wished.values())
    has_budget = any(value is not None for value in budget.values())
    is_day = not has_budget and not n_wished
    if is_day:
        budget["hours"] = 24.0
    plan = planning.plan_training(
        PUBLISHED[options.law],
        device,
        n_devices=options.count,
        utilization=options.utilization,
        context_length=options.context_length,
        **budget,
        **wished,
    )
    if is_day:
        print("No budget was given, so this is what a day can do.\n")
    split = f"the split that {options.law} finds best"
    if n_wished:
        split = "both as given" if n_wished == 2 else split
        split = "what the budget allows" if has_budget else split
    _show_plan(plan, split, options.law)


def _amount(option: str, word: str | None) -> float | None:
    """A number as people write it: 1e9, 300M, 7B, 1.4T."""
    if word is None:
        return None
    factor = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}.get(word[-1:].upper())
    try:
        number = float(word[:-1]) * factor if factor else float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"--{option} {word} is no number; write 1e9, 300M, 7B or 1.4T")
    return number


def _show_plan(plan: planning.Plan, split: str, law: str) -> None:
    config, device, n_devices = plan.config, plan.device, plan.n_devices
    n, d = plan.n_parameters, plan.tokens
    part = {name: _short(size, "B") for name, size in plan.memory.items()}
    total, room = sum(plan.memory.values()), device.memory
    spread = ": spread by FSDP" if n_devices > 1 else ""
    text = "WebText2" if law == "kaplan2020" else "MassiveText"
    _line(
        "Model",
        f"{_short(n)} parameters: {_shape(config)}",
        f"round numbers near the size; a vocabulary of {config.vocab_size:,}",
    )
    _line(
        "Tokens",
        f"{_short(d)}, {d / n:,.3g} for each parameter",
        f"{split}; sequences of {config.context_length:,}; no text twice",
    )
    _line(
        "Work",
        f"{_power(plan.flops)} operations",
        f"6 N M are {_power(6 * n * d)}, the rest is attention; matrix products only",
    )
    _line(
        "Time",
        f"{_duration(plan.seconds)} on {n_devices} x {device.name}, "
        f"{n_devices * plan.seconds / 3600:,.1f} device-hours",
        f"assuming {plan.utilization:.0%} of the data sheet's {_short(device.flops)} "
        "operations/s, the dense 16-bit peak",
    )
    _line(
        "Memory",
        f"{_short(total, 'B')} of {_short(room, 'B')} on each device, "
        f"sequences at a time: {plan.batch_size}",
        f"weights {part['weights']}, gradients {part['gradients']}, "
        f"AdamW {part['optimizer']}{spread}",
        f"activations {part['activations']}, logits' gradient {part['loss']}: not "
        "recomputed, not compiled",
    )
    _line(
        "Disk",
        f"weights {_short(plan.weight_bytes, 'B')}, "
        f"a saved state {_short(plan.state_bytes, 'B')}",
        "in float32; a state has AdamW's two means too, and the last two are kept",
    )
    _line(
        "Loss",
        f"{plan.loss:.2f} nats per token",
        f"of {text} in its tokens: {law} was fitted to that, not yours",
    )


def _shape(config: GPTConfig) -> str:
    return f"{config.n_layers} blocks, {config.d_model:,} wide, {config.n_heads} heads"


def _line(name: str, said: str, *notes: str) -> None:
    """A row of a table, and below it what it rests on."""
    print(f"{name:10} {said}")
    for note in notes:
        print(textwrap.indent(textwrap.fill(note, 75), " " * 13))


def _short(number: float | int, unit: str = "") -> str:
    """Three digits and a prefix: 1.42 B, or 43.2 GB."""
    prefixes = {1e12: "T", 1e9: "G" if unit else "B", 1e6: "M", 1e3: "k"}
    for size, prefix in prefixes.items():
        if number >= 0.9995 * size:
            digits = max(0, 2 - math.floor(math.log10(1.0005 * number / size)))
            return f"{number / size:,.{digits}f} {prefix}{unit}"
    return f"{number:.0f} {unit}".strip()


def _power(number: float | int) -> str:
    return f"{number:.2e}".replace("e+", "e")


def _duration(seconds: float | int) -> str:
    for size, name in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= (2 if name == "days" else 1) * size:
            return f"{seconds / size:,.1f} {name}"
    return f"{seconds:.1f} seconds"


# ------------------------------------------------------------------------------------------- info


def _info(options: Info) -> None:
    config, training = _described(options.name)
    length, parts = config.context_length, scaling.count_parameters(config)
    n = sum(parts.values())
    _line("Model", options.name)
    _line("Shape", f"{_shape(config)}, {length:,} tokens of context")
    _line("Parameters", f"{n:,}")
    for name, size in parts.items():
        if name == "embedding":
            name += f" of {config.vocab_size:,} tokens"
            name += ", which the head reads too" if config.tied else ""
        if size:
            print(f"{'':11}{size:>{len(f'{n:,}')},} {size / n:6.1%}  {name}")
    forward = sum(scaling.count_flops(config, length).values()) / length
    off = 2 * n / forward - 1
    unread = "" if config.tied else ", and counts an embedding that no product reads"
    _line(
        "Operations",
        f"{_short(forward)} a token forward, {_short(3 * forward)} in training",
        f"mean over {length:,} tokens; 6 N is {_short(6 * n)}, {abs(off):.1%} "
        f"{'more' if off > 0 else 'less'}: it leaves attention out{unread}",
    )
    _line(
        "Weights", f"{_short(4 * n, 'B')} in float32, {_short(2 * n, 'B')} in 16 bits"
    )
    _line(
        "Cache",
        f"{_short(scaling.cache_bytes(config, 1, length), 'B')} a sequence",
        f"keys and values of {length:,} tokens, in 16 bits",
    )
    _line("Training", *_training_memory(config, training.get("optimizer", "adamw")))
    if training and options.name not in {**presets.PRESETS, **PRESETS}:
        _show_run(Path(options.name), training, length, n)


def _described(name: str) -> tuple[GPTConfig, dict[str, object]]:
    """The settings of a model and of its training, of a preset or a run."""
    if name in presets.PRESETS:
        return presets.PRESETS[name], {}
    if name in PRESETS:
        preset = PRESETS[name]
        vocab_size = preset["data"]["vocab_size"]
        return GPTConfig(vocab_size=vocab_size, **preset["model"]), preset["training"]
    if not Path(name).exists():
        raise ValueError(
            f"{name} is neither a run's folder nor a preset; choose one of "
            f"{', '.join([*presets.PRESETS, *PRESETS])}"
        )
    saved = checkpoint.read_config(name)
    try:
        return GPTConfig(**saved["model"]), saved.get("training", {})
    except TypeError as error:
        raise ValueError(
            f"{name} was written by another version of this package: {error}"
        ) from error


def _training_memory(config: GPTConfig, optimizer: str) -> tuple[str, ...]:
    if config.norm_position != "pre":
        return ("not counted for post-norm",)
    whole, half = (
        scaling.training_bytes(
            replace(config, dropout=0.0), 1, number_format=name, optimizer=optimizer
        )
        for name in ("float32", "bfloat16")
    )
    fixed = sum(whole[name] for name in ("weights", "gradients", "optimizer"))
    name = {"adamw": "AdamW", "muon": "Muon"}[optimizer]
    dropout = "; dropout's masks left out" if config.dropout else ""
    return (
        f"{_short(sum(whole.values()), 'B')} for one sequence, "
        f"{_short(sum(half.values()), 'B')} with products in 16 bits",
        f"{_short(fixed, 'B')} for weights, gradients, {name}; not recomputed, "
        f"not compiled{dropout}",
    )


def _show_run(run: Path, training: dict[str, object], length: int, n: int) -> None:
    data = checkpoint.read_config(run)["data"]
    text = Path(data.get("file", data["kind"])).name
    records = checkpoint.read_log(run)
    taken = max((r["step"] for r in records if "loss" in r), default=0)
    tokens = taken * training["batch_size"] * length
    _line(
        "Run",
        f"{_short(tokens)} tokens of {text}, {tokens / n:,.3g} for each parameter",
        f"{taken:,} of {training['steps']:,} steps of {training['batch_size']} x {length:,}",
    )
    evaluations = [r for r in records if "validation_loss" in r]
    if evaluations:
        last = evaluations[-1]
        loss, floor = last["validation_loss"], last["floor"]
        _line(
            "Loss",
            f"{loss:.3f} nats per token held out, {last['bits_per_byte']:.3f} bits per byte",
            *([f"{loss - floor:.3f} above the floor, {floor:.3f}"] if floor else []),
        )


if __name__ == "__main__":
    sys.exit(main())
