"""A word of a story is hidden: how far does a masked model come in 600 steps?

    python benchmarks/trials/hidden_story_words.py

A `MaskedModel` of width 64, with two pre-norm blocks and learned positions, learns stories of one
tale about 24 people. Its tokens are words.

Arms        "masked" is the model. "counts" answers with the frequencies of the words, whatever the
            text around the hidden one.
Fixed       600 steps of AdamW with a cosine schedule, eight stories each.
Rates       Two.
Seeds       One: an illustration.
Measured    One word is hidden in each of 80 held-out stories, whose exact posteriors p are known.
            `gap` is the mean of KL(p || q) in nats.
Against     The model has not learned to read if its KL is no smaller than that of "counts".

Chapter 11 reads the table.
"""

import functools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from random import Random

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from trial import Trial, seeded, take_steps

from decoder_only.model.config import GPTConfig
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import pretokenize
from decoder_only.training.optimizers import build_optimizers, cosine
from decoder_only.variants.encoders import MaskedModel, mask_tokens

LANGUAGE = StoryLanguage(n_characters=24, exponent=0.5, tales=("garden",))
STEPS, STORIES = 600, 8


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    arm: str
    learning_rate: float | None
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: the KL divergence to the exact posterior, in nats."""

    gap: float


TRIAL = Trial(
    "hidden_story_words", Run, Found, score="gap", digits=4, packages=("torch",)
)


def rates() -> Iterator[list[Run]]:
    """The frequencies, and the model at two rates."""
    masked = [Run(arm="masked", learning_rate=rate) for rate in (4e-3, 2e-3)]
    yield [Run(arm="counts", learning_rate=None), *masked]


@functools.cache
def vocabulary() -> tuple[list[str], Tensor]:
    """Four special tokens, then words; and how often each is in 3,000 stories."""
    counts = Counter()
    for text in islice(LANGUAGE.stories(seed=1_000), 3_000):
        counts.update(pretokenize(text))
    words = ["<PAD>", "<MASK>", "<SOS>", "<EOS>", *sorted(counts)]
    return words, torch.tensor([0.0] * 4 + [counts[word] for word in words[4:]])


@functools.cache
def index() -> dict[str, int]:
    return {word: i for i, word in enumerate(vocabulary()[0])}


def ids_of(text: str) -> list[int] | None:
    """The ids of a story, or None where it has a word that is not known."""
    pieces = [index().get(word) for word in pretokenize(text)]
    return None if None in pieces else [2, *pieces, 3]


def stories(split: str, seed: int) -> Iterator[list[int]]:
    found = map(ids_of, LANGUAGE.stories(split=split, seed=seed))
    return (ids for ids in found if ids is not None)


@functools.cache
def questions() -> list[tuple[Tensor, int, Tensor]]:
    """Ids of a held-out story, the position of a hidden word, and its posterior."""
    rng, found, words = Random(0), [], vocabulary()[0]
    for ids in islice(stories("validation", 0), 80):
        place = rng.randrange(1, len(ids) - 1)
        pieces = [words[i] if i > 3 else "" for i in ids]
        sides = "".join(pieces[:place]), "".join(pieces[place + 1 :])
        scores = [LANGUAGE.log_prob(sides[0] + word + sides[1]) for word in words[4:]]
        scores = torch.tensor([-math.inf] * 4 + scores, dtype=torch.float64)
        found.append((torch.tensor(ids), place, scores.softmax(0)))
    return found


def divergence(log_q: Tensor) -> float:
    """Mean KL(p || q) in nats."""
    truth = torch.stack([truth for _, _, truth in questions()])
    terms = torch.special.xlogy(truth, truth) - truth * log_q.clamp_min(-1e3)
    return terms.sum(1).mean().item()


def fitted(run: Run) -> MaskedModel:
    """A model that has learned."""
    size = len(vocabulary()[0])
    config = GPTConfig(
        vocab_size=size,
        context_length=256,
        d_model=64,
        n_layers=2,
        n_heads=4,
        activation="gelu",
    )
    generator = seeded(run.seed)
    model = MaskedModel(config, pad_id=0, generator=generator)
    drawn = stories("train", run.seed)
    settings = {"mask_id": 1, "vocab_size": size, "keep": {0, 2, 3}}

    def batch_at(_: int) -> tuple[Tensor, Tensor]:
        rows = [torch.tensor(ids) for ids in islice(drawn, STORIES)]
        ids = pad_sequence(rows, batch_first=True)
        return mask_tokens(ids, **settings, generator=generator)

    optimizers = build_optimizers(model, learning_rate=run.learning_rate)
    share_at = partial(cosine, warmup_steps=STEPS // 10, total_steps=STEPS)
    take_steps(model, optimizers, batch_at, steps=STEPS, share_at=share_at)
    return model.eval()


@torch.no_grad()
def answers(model: MaskedModel) -> Tensor:
    ids = pad_sequence([ids for ids, _, _ in questions()], batch_first=True)
    rows = torch.arange(len(ids))
    places = torch.tensor([place for _, place, _ in questions()])
    ids[rows, places] = 1
    return model(ids)[rows, places].log_softmax(-1)


def measure(run: Run) -> Found:
    """Make one run."""
    if run.arm == "counts":
        counts = vocabulary()[1]
        return Found(gap=divergence((counts / counts.sum()).log()))
    return Found(gap=divergence(answers(fitted(run))))


if __name__ == "__main__":
    TRIAL.main(measure, rates=rates)
