"""The command `sample`."""

from pathlib import Path
from typing import Annotated

import torch

from decoder_only import recipes
from decoder_only.cli.options import Device, Flag, option
from decoder_only.cli.words import show
from decoder_only.engine import checkpoint
from decoder_only.engine.hardware import choose_device
from decoder_only.generation import write


def sample(
    *,
    run: Annotated[Path, option("DIR")],
    prompt: Annotated[str | None, option("TEXT", "the beginning of a text")] = None,
    count: Annotated[int, option("N", "1")] = 1,
    max_new_tokens: Annotated[int, option("N", "300")] = 300,
    temperature: Annotated[float, option("T", "1.0")] = 1.0,
    top_k: Annotated[int | None, option("K", "all")] = None,
    top_p: Annotated[float | None, option("P", "1.0")] = None,
    seed: Annotated[int, option("N", "0")] = 0,
    device: Device = None,
    judge: Flag = False,
    language: Annotated[str | None, option("NAME", "the run's")] = None,
    raw: Flag = False,
) -> None:
    """Let a trained model write.

    Args:
        run: Folder of the run, as `train` printed it.
        prompt: What the texts begin with.
        count: Number of texts.
        max_new_tokens: Length at most; a text may end by itself before.
        temperature: Below 1 more cautious, 0 always the likeliest token.
        top_k: Draw only from the K likeliest tokens.
        top_p: Draw only from the likeliest tokens that together have probability P.
        seed: Of the draws.
        device: `cpu`, `cuda`, `cuda:1` or `mps`.
        judge: Say of each story at which letter it leaves its language, and in the end how many
            do not.
        language: Which language judges.
        raw: Print the texts and nothing else, as they are.
    """
    saved = checkpoint.load(run, device=choose_device(device))
    data = saved.config.get("data", {})
    if language is not None:
        data = {"kind": "stories", "language": language}
    stories = recipes.language_of(data)
    if judge and stories is None:
        raise ValueError(f"{run} has not learned stories; --language NAME may judge it")
    texts = write(
        saved.model,
        saved.tokenizer,
        ("" if stories else "\n") if prompt is None else prompt,
        count=count,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        generator=torch.Generator().manual_seed(seed),
        from_start=stories is not None,
    )
    if raw:
        print(*texts, sep="\n", end="")
        return
    show(texts, stories)
    if judge:
        inside = sum(stories.explain(text).in_language for text in texts)
        print(f"{inside} of {len(texts)} stories lie in the language")
