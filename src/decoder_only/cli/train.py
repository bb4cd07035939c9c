"""The command `train`."""

import math
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

import torch

from decoder_only import recipes
from decoder_only import training as loop
from decoder_only.cli.options import Device, Flag, option, settings
from decoder_only.cli.words import command, show
from decoder_only.config import GPTConfig
from decoder_only.engine import checkpoint
from decoder_only.engine.distributed import Process, broadcast, process_group
from decoder_only.engine.hardware import choose_device, describe
from decoder_only.engine.monitor import History
from decoder_only.generation import write
from decoder_only.lm_head import bits_per_byte
from decoder_only.model import GPT
from decoder_only.tokenization import BytePairTokenizer

PROMPT = "Once there was a"
"""With which some stories of each named language begin."""


def train(
    *,
    text: Annotated[Path | None, option("FILE", "none, the stories")] = None,
    language: Annotated[str | None, option("NAME", "full")] = None,
    stories: Annotated[int | None, option("N", "the recipe's")] = None,
    recipe: Annotated[
        str | None,
        option(
            "NAME", "stories-cpu, or shakespeare-cpu for a text", aliases=["--preset"]
        ),
    ] = None,
    resume: Annotated[Path | None, option("DIR", "none, a new run")] = None,
    out: Annotated[Path | None, option("DIR", "a new one in runs/")] = None,
    overwrite: Flag = False,
    device: Device = None,
    strategy: Annotated[Literal["ddp", "fsdp"], option("NAME", "ddp")] = "ddp",
    samples: Annotated[int, option("N", "24")] = 24,
    board: Flag = False,
    quiet: Flag = False,
    model: settings(GPTConfig),
    training: settings(loop.TrainConfig, aliases={"learning_rate": "--lr"}),
) -> int:
    """Train a model, and let it write.

    With no options: the built-in stories, and a small model that learns them in under three
    minutes on two CPU cores. An option takes the place of the recipe's value.

    Args:
        text: UTF-8 text to learn from, or a folder that `prepare` made; the word `shakespeare`
            fetches Tiny Shakespeare. Beside --resume: where the same text lies now.
        language: Which stories: `hamlet`, `village` or `full`, from few people and tales to many.
        stories: How many of them to learn from.
        recipe: Settings to start from: stories-cpu, shakespeare-cpu, stories-gpu,
            shakespeare-gpu.
        resume: Go on with the training in this folder, with the settings that it was begun with;
            --steps may ask for more of them.
        out: Folder for the run, new or empty.
        overwrite: Take the place of a run that is in the folder already.
        device: `cpu`, `cuda`, `cuda:1` or `mps`.
        strategy: Of several processes under torchrun: `ddp`, a whole model in each, or `fsdp`,
            one spread over all.
        samples: Texts to write in the end.
        board: Write TensorBoard's files into the run's folder too.
        quiet: Show no progress bar.
        model: The shape of the model; what is not given is as the recipe has it.
        training: How it is trained; what is not given is as the recipe has it.
    """
    place = choose_device(device)
    with process_group(place.type) as process, ExitStack() as stack:
        if place.type == "cuda" and process.n_ranks > 1:
            place = torch.device("cuda", process.local_rank)
        if resume is None:
            tokenizer, chosen = (
                None,
                recipes.chosen(
                    recipe,
                    text=text,
                    language=language,
                    n_stories=stories,
                    model=model,
                    training=training,
                ),
            )
        elif recipe or language or stories or out or overwrite or model:
            raise ValueError(
                "--resume goes on with the settings that the run was begun with; beside it, "
                "give --text, --steps, and how to run it, nothing of what it is"
            )
        else:
            chosen = recipes.stored(resume, text=text, training=training)
            tokenizer = BytePairTokenizer.load(resume / checkpoint.TOKENIZER)
        settings = loop.TrainConfig(**chosen.training)
        shown = process.is_first and not quiet
        material = recipes.gather(
            chosen, tokenizer=tokenizer, process=process, progress=shown
        )
        built = recipes.build(chosen, material)
        # Whatever the training would refuse comes before a folder is made or replaced.
        how = {"process": process, "strategy": strategy, "board": board}
        loop.check_settings(settings, **how)
        run = resume
        if run is None and process.is_first:
            new = recipes.begin(
                chosen,
                material,
                built.config,
                out=out,
                overwrite=overwrite,
                device=describe(place),
            )
            run = stack.enter_context(new)  # locked until the training is over
        folder = broadcast(run and Path(run), process)
        if process.is_first:
            _introduce(material, built, folder, place, process)
        history = loop.train(
            built if strategy == "fsdp" else built.to(place),
            material.train,
            material.validation,
            settings,
            run=run or folder,
            progress=not quiet,
            **how,
        )
        if not process.is_first:
            return 0
    if len(history.losses) < settings.steps:
        taken = f"{len(history.losses)} of {settings.steps}"
        print(f"\nStopped after step {taken}; all is saved. Go on:")
        print(command("train", "--resume", folder))
        return 130
    _report(history, material)
    if samples:
        judge = recipes.language_of(chosen.data)
        _show_some(checkpoint.load(folder), judge, samples, settings.seed)
    print(f"\nThe run is in {folder}. Let it write more:")
    prompt = ("--prompt", PROMPT) if chosen.data["kind"] == "stories" else ()
    print(command("sample", "--run", folder, *prompt))
    return 0


def _introduce(
    material: recipes.Material,
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
    if material.remark:
        print(f"         {material.remark}")
    print(
        f"Model    {model.count_parameters() / 1e6:.2f} M parameters: {config.n_layers} blocks, "
        f"{config.d_model} wide, {config.n_heads} heads, {config.context_length} tokens of context"
    )
    print(f"Run      {run}", flush=True)


def _report(history: History, material: recipes.Material) -> None:
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
        bits = bits_per_byte(nats, final.bytes_per_token)
        print(f"{name:15}  {nats:14.3f}  {bits:13.3f}")


def _show_some(
    saved: checkpoint.SavedRun,
    language: recipes.StoryLanguage | None,
    count: int,
    seed: int,
) -> None:
    """A few texts; of stories also how many of more are in the language."""
    texts = write(
        saved.model,
        saved.tokenizer,
        "" if language else "\n",
        from_start=language is not None,
        count=count if language else 1,
        # A young model's likeliest words are its best ones.
        temperature=0.6,
        max_new_tokens=300,
        generator=torch.Generator().manual_seed(seed),
    )
    if language is None:
        print("\nAt temperature 0.6 it wrote:\n")
    else:
        n_stories = sum(language.log_prob(text) > -math.inf for text in texts)
        print(
            f"\nAt temperature 0.6 it wrote {count} texts, of which {n_stories} are stories "
            f"of the language. {'Some of them' if count > 4 else 'These'}:\n"
        )
    show(texts[:4], language)
