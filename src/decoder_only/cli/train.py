"""The command `train`."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

import torch

from decoder_only import recipes
from decoder_only.base import checks
from decoder_only.base.hardware import choose_device, describe, keep_freed_memory
from decoder_only.cli.options import Device, Flag, option, settings
from decoder_only.cli.words import command, plain, shape, show
from decoder_only.generation.writing import write
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import bits_per_byte
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import checkpoint, loop
from decoder_only.training.config import TrainConfig, check_settings
from decoder_only.training.monitor import History
from decoder_only.training.processes import (
    Process,
    broadcast,
    in_background,
    process_group,
)

PROMPT = "Once there was a"
"""With which some stories of each named language begin."""


def train(
    *,
    text: Annotated[Path | None, option("FILE", "none, the stories")] = None,
    language: Annotated[str | None, option("NAME", "hamlet")] = None,
    stories: Annotated[int | None, option("N", "the recipe's")] = None,
    recipe: Annotated[str | None, option("NAME", aliases=["--preset"])] = None,
    resume: Annotated[Path | None, option("DIR", "none, a new run")] = None,
    out: Annotated[Path | None, option("DIR", "a new one in runs/")] = None,
    overwrite: Flag = False,
    device: Device = None,
    strategy: Literal["ddp", "fsdp"] = "ddp",
    samples: int = 24,
    quiet: Flag = False,
    model: settings(GPTConfig),
    training: settings(TrainConfig, aliases={"learning_rate": "--lr"}),
) -> int:
    """Train a model, and let it write.

    With no options: the built-in stories, and a small model that learns them in under three
    minutes on two CPU cores. An option takes the place of the recipe's value.

    Args:
        text: UTF-8 text to learn from, or a folder that `prepare` made; the word `shakespeare`
            fetches Tiny Shakespeare. With --resume: where the same text is now.
        language: Which stories: `hamlet`, `village` or `full`, from few people and tales to many.
        stories: How many of them to learn from.
        recipe: Settings to start from: stories-cpu, shakespeare-cpu (the default for a text),
            stories-gpu, shakespeare-gpu.
        resume: Go on with the training in this folder, with the settings that it was begun with;
            --steps may ask for more of them.
        out: Folder for the run, new or empty.
        overwrite: Take the place of a run that is in the folder already.
        device: `cpu`, `cuda`, `cuda:1` or `mps`.
        strategy: Of several processes under torchrun: `ddp`, a whole model in each, or `fsdp`,
            one spread over all.
        samples: Texts to write in the end.
        quiet: Do not show how far it is.
        model: The shape of the model; what is not given is as the recipe has it.
        training: How it is trained; what is not given is as the recipe has it.
    """
    checks.whole("samples", samples, at_least=0, at_most=10**5)
    place = choose_device(device)
    keep_freed_memory()
    with process_group(place.type) as process:
        if place.type == "cuda" and process.n_ranks > 1:
            place = torch.device("cuda", process.local_rank)
        if resume is None:
            what = {"language": language, "n_stories": stories, "model": model}
            chosen = recipes.chosen(recipe, text=text, training=training, **what)
        else:
            named = language is not None, stories is not None
            _check_nothing_new(recipe, out, overwrite, model, *named)
            chosen = recipes.stored(resume, text=text, training=training)
        if chosen.is_finished:
            return _say_finished(resume, chosen) if process.is_first else 0
        how = {"process": process, "strategy": strategy}
        # Whatever the training would refuse comes before a folder is made or replaced.
        check_settings(TrainConfig(**chosen.training), **how)
        where = {"resume": resume, "out": out, "overwrite": overwrite}
        done = _train(chosen, place, **where, progress=not quiet, **how)
    return _conclude(chosen, *done, place, samples) if process.is_first else 0


def _say_finished(run: Path, recipe: recipes.Recipe) -> int:
    steps = f"all of its {recipe.training['steps']:,} steps; --steps gives it more"
    print(f"The run in {plain(run)} has taken {steps}. Let it write:")
    print(command("sample", "--run", run))
    return 0


def _check_nothing_new(*options: object) -> None:
    if any(options):
        raise ValueError(
            "--resume goes on with the settings that the run was begun with; with it, "
            "give --text, --steps, and how to run it, nothing of what it is"
        )


def _train(
    chosen: recipes.Recipe,
    place: torch.device,
    *,
    resume: Path | None,
    out: Path | None,
    overwrite: bool,
    progress: bool,
    process: Process,
    **how: object,
) -> tuple[Path, recipes.Material, History]:
    """Train what the recipe asks for, in the run's folder."""
    tokenizer = resume and BytePairTokenizer.load(resume / checkpoint.TOKENIZER)
    waiting = in_background(process)  # for the first to read the text, or hours
    shown = process.is_first and progress
    material = recipes.gather(chosen, tokenizer, process=waiting, progress=shown)
    model, run = recipes.build(chosen, material), resume
    with ExitStack() as stack:
        if run is None and process.is_first:
            where = {"out": out, "overwrite": overwrite, "device": describe(place)}
            new = recipes.begin(chosen, material, model.config, **where)
            run = stack.enter_context(new)  # locked until the training is over
        folder = broadcast(run and Path(run), waiting)
        if process.is_first:
            times = f"{process.n_ranks} times " if process.n_ranks > 1 else ""
            print(f"Device   {times}{describe(place)}")
            _introduce(material, model)
            print(f"Run      {plain(folder)}", flush=True)
        history = loop.train(
            model if how["strategy"] == "fsdp" else model.to(place),
            material.train,
            material.validation,
            TrainConfig(**chosen.training),
            run=run or folder,
            progress=progress,
            process=process,
            **how,
        )
    return folder, material, history


def _conclude(
    chosen: recipes.Recipe,
    folder: Path,
    material: recipes.Material,
    history: History,
    place: torch.device,
    samples: int,
) -> int:
    """Report the training and how to continue; returns the exit status."""
    config, n_steps = TrainConfig(**chosen.training), len(history.losses)
    if n_steps < config.steps:
        print(f"\nStopped after step {n_steps} of {config.steps}; all is saved. Go on:")
        print(command("train", "--resume", folder))
        return 130
    _report(history, material)
    judge = recipes.language_of(chosen.data)
    if samples:
        saved = checkpoint.load(folder, device=place)
        _show_some(saved, judge, samples, config.seed)
    print(f"\nThe run is in {plain(folder)}. Let it write more:")
    print(command("sample", "--run", folder, *(["--prompt", PROMPT] if judge else [])))
    return 0


def _introduce(material: recipes.Material, model: GPT) -> None:
    config, corpus, held_out = model.config, material.train, material.validation
    print(
        f"Data     {material.kind}: {corpus.n_bytes / 1e6:.1f} MB to learn from, "
        f"{held_out.n_bytes / 1e6:.2f} MB held out; "
        f"{config.vocab_size:,} tokens, {corpus.bytes_per_token:.2f} bytes each"
    )
    if material.remark:
        print(f"         {material.remark}")
    print(
        f"Model    {model.count_parameters() / 1e6:.2f} M parameters: {shape(config)}, "
        f"{config.context_length} tokens of context"
    )


def _report(history: History, material: recipes.Material) -> None:
    m_tokens = history.tokens / 1e6
    times = history.tokens / material.train.n_targets
    print(f"\nTrained for {history.seconds:.0f} s on {m_tokens:.2f} M tokens, ", end="")
    print(f"which is {times:.1f} times the data.\n")
    final = history.final
    print(f"{'':15}  nats per token  bits per byte")
    rows = {"validation loss": final.loss, "exact floor": final.floor, "gap": final.gap}
    for name, nats in rows.items():
        if nats is not None:
            bits = bits_per_byte(nats, final.bytes_per_token)
            print(f"{name:15}  {nats:14.3f}  {bits:13.3f}")


def _show_some(
    saved: checkpoint.SavedRun, judge: StoryLanguage | None, count: int, seed: int
) -> None:
    """A few texts; of stories also how many of more are in the language."""
    start = {"from_start": True, "count": count} if judge else {"from_start": False}
    # A young model's likeliest words are its best ones.
    start |= {"temperature": 0.6, "max_new_tokens": 300}
    place = saved.model.embedding.weight.device
    generator = torch.Generator(place).manual_seed(seed)
    prompt = "" if judge else "\n"
    texts = write(saved.model, saved.tokenizer, prompt, generator=generator, **start)
    verdicts = [judge.explain(text) if judge else "" for text in texts]
    number = ""
    if judge:
        n_stories = sum(verdict.in_language for verdict in verdicts)
        number = (
            f" {count} texts, of which {n_stories} are stories of the language. Some"
        )
    print(f"\nAt temperature 0.6 it wrote{number}:\n")
    for text, verdict in zip(texts[:4], verdicts, strict=False):
        show(text, verdict)
