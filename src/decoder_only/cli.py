"""The command `decoder-only`: train a model, watch it, and let it write.

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
from dataclasses import asdict, dataclass
from itertools import count, islice
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro

from decoder_only import checkpoint
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
from decoder_only.distributed import Process, agreed, joined
from decoder_only.generation import write
from decoder_only.hardware import choose_device, describe
from decoder_only.lm_head import bits_per_byte
from decoder_only.model import GPT
from decoder_only.monitor import History
from decoder_only.plots import loss_curves
from decoder_only.shards import huggingface_documents, open_shards, prepare
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import TrainConfig, train

__all__ = ["PRESETS", "Plot", "Prepare", "Sample", "Train", "main"]

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
    `shakespeare`; or `hf:NAME`, a text dataset of the Hugging Face Hub."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Folder for the tokens, new or empty."""
    tokenizer: Annotated[str, _option("gpt2|V|DIR", "4096")] = "4096"
    """`gpt2`; or a vocabulary size, to be learned from the text; or a run's folder, for its own."""
    train_share: Annotated[float, _option("SHARE", "0.9")] = 0.9
    """How much of the text is to train on; the rest is held out."""
    column: Annotated[str, _option("NAME", "text")] = "text"
    """Where a row of a dataset keeps its text."""
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status.

    Args:
        arguments: the words behind `decoder-only`; those of the command line by default.
    """
    options = tyro.extras.subcommand_cli_from_dict(
        {"prepare": Prepare, "train": Train, "sample": Sample, "plot": Plot},
        prog="decoder-only",
        description="Train a decoder-only transformer from raw text, and let it write.",
        args=None if arguments is None else list(arguments),
    )
    try:
        if isinstance(options, Train):
            return _train(options)
        if isinstance(options, Prepare):
            _prepare(options)
        elif isinstance(options, Sample):
            _sample(options)
        else:
            _plot(options)
    except (ValueError, OSError, FloatingPointError, ImportError) as error:
        print(f"decoder-only: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndecoder-only: interrupted", file=sys.stderr)
        return 130
    return 0


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
    if len(words) == 1 and words[0].startswith("hf:"):
        return huggingface_documents(words[0][3:], column=options.column)
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
class _Plan:
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
        plan = _resumed_plan(options) if options.resume else _fresh_plan(options)
        material = _material(plan)
        model = _model(plan, material)
        config = TrainConfig(**plan.training)
        run = options.resume
        if run is None:
            first = process.is_first
            new = _new_run(options, plan, material, model, device) if first else None
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


def _fresh_plan(options: Train) -> _Plan:
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
    return _Plan(data=data, model=model, training=training)


def _resumed_plan(options: Train) -> _Plan:
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
    return _Plan(
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


def _material(plan: _Plan) -> _Material:
    return _stories(plan) if plan.data["kind"] == "stories" else _text(plan)


def _stories(plan: _Plan) -> _Material:
    language = StoryLanguage()
    sizes = {name: plan.data[name] for name in ("n_train", "n_validation")}
    seed = plan.training["seed"]
    tokenizer = plan.tokenizer
    if tokenizer is None:
        # A few thousand stories hold all common words; more would only take longer to count.
        stories = language.stories(split="train", seed=seed)
        some = islice(stories, min(sizes["n_train"], 4000))
        tokenizer = BytePairTokenizer.train(some, plan.data["vocab_size"])
    train_corpus, validation = story_corpora(language, tokenizer, **sizes, seed=seed)
    return _Material(
        kind="stories",
        tokenizer=tokenizer,
        train=train_corpus,
        validation=validation,
        language=language,
    )


def _text(plan: _Plan) -> _Material:
    path = Path(plan.data["file"])
    if path.is_dir():
        prepared = open_shards(path, tokenizer=plan.tokenizer)
        return _Material(
            kind="prepared text",
            tokenizer=prepared.tokenizer,
            train=prepared.train,
            validation=prepared.validation,
        )
    by_name = str(path) == "shakespeare" and not path.exists()
    text = tiny_shakespeare() if by_name else read_text(path)
    train_text, validation_text = split_text(text)
    tokenizer = plan.tokenizer or BytePairTokenizer.train(
        train_text, plan.data["vocab_size"]
    )
    return _Material(
        kind="text",
        tokenizer=tokenizer,
        train=text_corpus(train_text, tokenizer),
        validation=text_corpus(validation_text, tokenizer),
    )


def _model(plan: _Plan, material: _Material) -> GPT:
    config = GPTConfig(**{**plan.model, "vocab_size": material.tokenizer.vocab_size})
    # Draws nothing that is used: a text that is too short is refused before a folder is made.
    training_batch(
        material.train,
        batch_size=1,
        context_length=config.context_length,
        seed=0,
        step=0,
    )
    generator = torch.Generator().manual_seed(plan.training["seed"])
    return GPT(config, generator=generator)


def _new_run(
    options: Train, plan: _Plan, material: _Material, model: GPT, device: torch.device
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
            "training": TrainConfig(**plan.training).to_dict(),
            "data": {**plan.data, "fingerprints": fingerprints},
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


if __name__ == "__main__":
    sys.exit(main())
