"""Where a trial finds the frame, and what several trials share: texts, and how models learn."""

import functools
import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch
from jaxtyping import Int
from safetensors.torch import save_file
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from frame import Trial
from provenance import collect, write_results

from decoder_only.data import Corpus, document_corpus, story_corpora
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import NextTokenLoss, train_step
from decoder_only.training.optimizers import set_learning_rate
from decoder_only_book.stored import FOLDER, load_story_model

__all__ = [
    "Trial",
    "beginnings",
    "cells",
    "learn",
    "running_stories",
    "seeded",
    "store_weights",
    "stories",
    "stories_in_stored_tokens",
    "take_steps",
]


@functools.cache
def stories() -> tuple[Corpus, Corpus]:
    """Stories to learn from, and 400 others to be measured on, in a vocabulary of 512."""
    language = StoryLanguage()
    learned = list(islice(language.stories(split="train"), 1_500))
    tokenizer = BytePairTokenizer.train(learned[:300], 512)
    unseen = islice(language.stories(split="validation"), 400)
    return document_corpus(learned, tokenizer), document_corpus(unseen, tokenizer)


@functools.cache
def running_stories() -> tuple[Corpus, Corpus]:
    """Stories of the smallest language to learn from, and 60 others, in a vocabulary of 512.

    Both are running text: rows begin anywhere, so that a story is learned to its end.
    """
    language = StoryLanguage.hamlet()
    some = islice(language.stories(split="train", seed=0), 1_000)
    tokenizer = BytePairTokenizer.train(some, 512)
    corpora = story_corpora(language, tokenizer, n_train=3_000, n_validation=60)
    return tuple(replace(corpus, starts=None) for corpus in corpora)


@functools.cache
def stories_in_stored_tokens(
    vocab_size: int, *, n_train: int = 8_000, n_validation: int = 100
) -> tuple[Corpus, Corpus]:
    """Stories to learn from and others to be measured on, in the first of the stored tokens."""
    merges = load_story_model().tokenizer.merges[: vocab_size - 257]
    tokenizer = BytePairTokenizer(merges)
    language = StoryLanguage()
    sizes = {"n_train": n_train, "n_validation": n_validation}
    return story_corpora(language, tokenizer, **sizes)


def beginnings(corpus: Corpus, length: int) -> Int[Tensor, "b s"]:
    """The first tokens of every document, one more than `length`: inputs and targets."""
    rows = torch.from_numpy(corpus.ids.astype("int64")).unfold(0, length + 1, 1)
    return rows[corpus.starts]


def seeded(seed: int) -> torch.Generator:
    """A generator of random numbers that begins at a seed."""
    return torch.Generator().manual_seed(seed)


def learn(
    model: nn.Module,
    loss_at: Callable[[int], Tensor],
    *,
    steps: int,
    learning_rate: float,
    warmup: int,
    max_gradient_norm: float = math.inf,
) -> list[float]:
    """AdamW with a warm-up and then a cosine.

    Returns:
        The loss of every step, up to the first that is no finite number.
    """
    settings = {"betas": (0.9, 0.95), "weight_decay": 0.0, "fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), **settings)
    losses = []
    for step in range(steps):
        rising = min(1, (step + 1) / warmup)
        falling = (1 + math.cos(math.pi * step / steps)) / 2
        optimizer.param_groups[0]["lr"] = learning_rate * rising * falling
        optimizer.zero_grad()
        loss = loss_at(step)
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            break
        loss.backward()
        if max_gradient_norm < math.inf:
            nn.utils.clip_grad_norm_(model.parameters(), max_gradient_norm)
        optimizer.step()
    return losses


def take_steps(
    model: nn.Module,
    optimizers: list[torch.optim.Optimizer],
    batch_at: Callable[[int], tuple[Tensor, Tensor]],
    *,
    steps: int,
    share_at: Callable[[int], float],
    max_gradient_norm: float | None = 1.0,
) -> list[float]:
    """Steps of training with the package's own `train_step`.

    Args:
        model: gives logits for ids.
        optimizers: with their peak rates.
        batch_at: the inputs and targets of a step.
        steps: how many.
        share_at: which share of the peak rate a step has.
        max_gradient_norm: the longest gradient; None leaves all as they are.

    Returns:
        The loss of every step.
    """
    losses = []
    for step in range(steps):
        set_learning_rate(optimizers, share_at(step))
        limit = {"max_gradient_norm": max_gradient_norm}
        result = train_step(NextTokenLoss(model), optimizers, *batch_at(step), **limit)
        losses.append(result.loss.item())
    return losses


def store_weights(name: str, model: nn.Module) -> None:
    """Put a model's weights into the package, in bfloat16, for `stored.load_weights`."""
    path = FOLDER / "encoders" / f"{name}.safetensors"
    path.parent.mkdir(exist_ok=True)
    kept = {
        id(x): key for key, x in reversed([*model.state_dict(keep_vars=True).items()])
    }
    state = model.state_dict()
    save_file({key: state[key].bfloat16() for key in kept.values()}, path)
    about = {"provenance": collect(packages=("torch",))}
    write_results(path.with_suffix(".json"), about)


@functools.cache
def cells(stem: str, tag: str) -> dict[str, object]:
    """The names that the cells of a chapter with a tag define.

    Args:
        stem: of the chapter's file in `book/`.
        tag: of the cells that are run, in their order.
    """
    path = Path(__file__).resolve().parents[2] / "book" / f"{stem}.ipynb"
    names: dict[str, object] = {"__name__": "chapter"}
    # Where a dataclass looks up its names.
    sys.modules["chapter"] = sys.modules[__name__]
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if tag in cell["metadata"].get("tags", ()):
            exec("".join(cell["source"]), names)
    return names
