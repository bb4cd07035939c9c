"""A word of a story is hidden: how far does a masked model come in 600 steps?

    python benchmarks/trials/hidden_story_words.py

A `MaskedModel` of width 64 with two pre-norm blocks and learned positions learns stories of one
tale told of 24 people, in words, eight a step, for 600 steps of AdamW with a cosine schedule, at
each of two rates. It is asked for one hidden word in each of 80 stories that are held out, whose
exact posteriors are known. Measured is the mean of KL(p || q) in nats, and the same of "counts",
which answers with the frequencies of the words, whatever stands around. What would count against
its having learned to read: a KL no smaller than that of "counts". One seed: an illustration. The
table goes into the package, for chapter 11.
"""

import functools
import math
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from random import Random

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from trial import Table

from decoder_only.model.config import GPTConfig
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import pretokenize
from decoder_only.training import NextTokenLoss, train_step
from decoder_only.training.optimizers import build_optimizers, cosine, set_learning_rate
from decoder_only.variants.encoders import MaskedModel, mask_tokens

LANGUAGE = StoryLanguage(n_characters=24, exponent=0.5, tales=("garden",))
STEPS, STORIES = 600, 8


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    arm: str
    learning_rate: float | None
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it: KL to the exact posterior in nats."""

    gap: float
    processor_seconds: float


TABLE = Table("hidden_story_words", Point, score="gap")


@functools.cache
def vocabulary() -> tuple[list[str], Tensor]:
    """Words, behind four special tokens, and how often each stands in 3,000 stories."""
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
    """Ids of a held-out story, the place of a hidden word, and its posterior; as in chapter 11."""
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


def fitted(point: Point) -> MaskedModel:
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
    generator = torch.Generator().manual_seed(point.seed)
    model = MaskedModel(config, pad_id=0, generator=generator)
    optimizers = build_optimizers(model, learning_rate=point.learning_rate)
    drawn = stories("train", point.seed)
    settings = {"mask_id": 1, "vocab_size": size, "keep": {0, 2, 3}}
    for step in range(STEPS):
        share = cosine(step, warmup_steps=STEPS // 10, total_steps=STEPS)
        set_learning_rate(optimizers, share)
        rows = [torch.tensor(ids) for ids in islice(drawn, STORIES)]
        ids = pad_sequence(rows, batch_first=True)
        inputs, targets = mask_tokens(ids, **settings, generator=generator)
        train_step(
            NextTokenLoss(model), optimizers, inputs, targets, max_gradient_norm=1.0
        )
    return model.eval()


@torch.no_grad()
def answers(model: MaskedModel) -> Tensor:
    ids = pad_sequence([ids for ids, _, _ in questions()], batch_first=True)
    rows = torch.arange(len(ids))
    places = torch.tensor([place for _, place, _ in questions()])
    ids[rows, places] = 1
    return model(ids)[rows, places].log_softmax(-1)


def measure(point: Point) -> Row:
    """Make one run."""
    began = time.process_time()
    if point.arm == "counts":
        counts = vocabulary()[1]
        log_q = (counts / counts.sum()).log()
    else:
        log_q = answers(fitted(point))
    gap = round(divergence(log_q), 4)
    seconds = round(time.process_time() - began, 1)
    return Row(**asdict(point), gap=gap, processor_seconds=seconds)


def rates() -> Iterator[Point]:
    yield Point(arm="counts", learning_rate=None)
    for rate in (4e-3, 2e-3):
        yield Point(arm="masked", learning_rate=rate)


if __name__ == "__main__":
    TABLE.make(measure, {"rates": rates}, packages=("torch",))
