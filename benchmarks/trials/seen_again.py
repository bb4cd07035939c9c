"""What is a story worth that is read again? Unique stories times epochs, from 1 to 64.

    python benchmarks/trials/seen_again.py rates seeds fresh short decay longer

Models of width 48 and two blocks read `sights` stories, of which one in `epochs` is unique. Every
epoch reads each of them once, in a new order. The language is the hamlet's with one of its tales.

Arms        1,024 sights in 1 to 64 epochs.
            `fresh`: 128, 256, 512 and 2,048 stories read once, which tell what unique stories are
            worth.
            `short`: 256 sights in 4 and 16 epochs.
            `decay`: 1, 4, 16 and 64 epochs with ten times the weight decay.
            `longer`: 2,048 sights in 2, 4 and 8 epochs, at the rates of 1,024.
Fixed       Steps, batches and schedule are the same for all arms with as many sights.
Rates       Halved and doubled until the best is between two others, from the best rate of the arm
            before, with seed 0. 2,048 sights have the rates of 1,024.
Seeds       Two fresh ones, and for 2,048 sights all three.
Measured    The loss on 200 other stories, in nats per token, whose floor is exact. The effective
            data of an arm is the number of unique stories, read once, with the same loss.
Against     Muennighoff et al. (2023) fitted U + U R* (1 - exp(-R / R*)) to it, for R repetitions of
            U unique tokens, with an R* of 15 or so. By it four epochs are worth 0.93 of as much
            unique data. Set beforehand: four epochs count as nearly free if their effective data is
            at least 0.9 of the sights, the mean over seeds less two standard errors. An R* like
            theirs fails if the fit is outside of half to twice 15. The form of the law fails if
            residuals are over twice the spread of seeds, or an arm is worth less than its unique
            stories read once.

This is the half of their law that speaks of data. The other half discounts parameters beyond those
that the unique data support, and cannot be fitted with one size of model. With the weight decay
tried once, the verdict on four epochs depends on it, and three seeds do not tell 0.89 from 0.93.
Chapter 15 reads the table.
"""

import functools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product

import torch
from jaxtyping import Int
from torch import Tensor
from trial import Trial, seeded, take_steps

from decoder_only.data import Corpus, document_corpus
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import IGNORED
from decoder_only.model.presets import MODERN
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import evaluate
from decoder_only.training.optimizers import build_optimizers, cosine

BATCH, CONTEXT, VOCABULARY = 4, 256, 1024
HAMLET = StoryLanguage.hamlet()
LANGUAGE = StoryLanguage(**{**HAMLET.arguments, "tales": ("gift",)})
SIGHTS = 1024


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    sights: int
    epochs: int
    weight_decay: float = 0.1
    learning_rate: float = 1.6e-2
    optimizer: str = "muon"
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured, in nats per token: the last loss on what it read, and that on others."""

    parameters: int
    unique_tokens: int
    own_loss: float
    loss: float
    floor: float


ARMS = [Run(sights=SIGHTS, epochs=n) for n in (1, 2, 4, 8, 16, 32, 64)]
FRESH = [Run(sights=n, epochs=1) for n in (128, 256, 512)]
SHORT = [Run(sights=256, epochs=n) for n in (4, 16)]
TRIAL = Trial(
    "seen_again", Run, Found, arms=ARMS, seeds=(1, 2), packages=("torch", "numpy")
)


def rates() -> Iterator[list[Run]]:
    """1,024 sights in 1 to 64 epochs, each at its own rate."""
    yield from in_turn(ARMS)


def fresh() -> Iterator[list[Run]]:
    """Fewer and more stories, each read once."""
    yield from in_turn(FRESH)
    yield from TRIAL.repeat(FRESH)
    best = TRIAL.best(ARMS[0])
    yield [replace(best, sights=2 * SIGHTS, seed=seed) for seed in range(3)]


def short() -> Iterator[list[Run]]:
    """256 sights in 4 and 16 epochs."""
    yield from in_turn(SHORT)
    yield from TRIAL.repeat(SHORT)


def decay() -> Iterator[list[Run]]:
    """Every other arm with ten times the weight decay, from its best rate with the usual one."""
    arms = [replace(TRIAL.best(arm), weight_decay=1.0) for arm in ARMS[::2]]
    yield from TRIAL.search(arms)
    yield from TRIAL.repeat(arms)


def longer() -> Iterator[list[Run]]:
    """2,048 sights in 2, 4 and 8 epochs, at the rates of 1,024."""
    best = [TRIAL.best(arm) for arm in ARMS if arm.epochs in (2, 4, 8)]
    yield [
        replace(arm, sights=2 * SIGHTS, seed=seed)
        for arm, seed in product(best, range(3))
    ]


def in_turn(arms: Iterable[Run]) -> Iterator[list[Run]]:
    """Every arm at rates around its best, from the best of the arm before."""
    rate = None
    for arm in arms:
        start = replace(arm, learning_rate=rate or arm.learning_rate)
        yield from TRIAL.search([start])
        rate = TRIAL.best(start).learning_rate


@functools.cache
def tokenizer() -> BytePairTokenizer:
    """Learned from stories that no run reads."""
    some = islice(LANGUAGE.stories(split="train", seed=1000), 300)
    return BytePairTokenizer.train(some, VOCABULARY)


@functools.cache
def validation(n: int = 200) -> Corpus:
    some = list(islice(LANGUAGE.stories(split="validation"), n))
    nats = -math.fsum(map(LANGUAGE.log_prob, some))
    return document_corpus(some, tokenizer(), nats=nats)


@functools.cache
def stories(n: int, seed: int) -> tuple[Int[Tensor, "_ s"], Int[Tensor, "_"]]:
    """Stories between two ends of text, a row each, and how many tokens each has to predict."""
    texts = islice(LANGUAGE.stories(split="train", seed=seed), n)
    corpus = document_corpus(texts, tokenizer())
    ids = torch.from_numpy(corpus.ids.astype("int64"))
    first = torch.from_numpy(corpus.starts)
    lengths = torch.diff(first, append=torch.tensor([corpus.n_targets]))
    at = first[:, None] + torch.arange(int(lengths.max()) + 1)
    return ids[at.clamp(max=len(ids) - 1)], lengths


def build(run: Run) -> GPT:
    config = GPTConfig(
        vocab_size=VOCABULARY,
        context_length=CONTEXT,
        d_model=48,
        n_layers=2,
        n_heads=3,
        **MODERN,
    )
    return GPT(config, generator=seeded(run.seed))


def read(model: GPT, run: Run) -> float:
    """Train it; the mean loss of the last epoch's steps, of 32 at most."""
    rows, lengths = stories(run.sights // run.epochs, run.seed)
    generator = seeded(run.seed)
    orders = (torch.randperm(len(rows), generator=generator) for _ in range(run.epochs))
    batches = torch.cat(list(orders)).split(BATCH)

    def batch_at(step: int) -> tuple[Tensor, Tensor]:
        some = batches[step]
        ids = rows[some, : int(lengths[some].max()) + 1]
        beyond = torch.arange(ids.shape[1] - 1) >= lengths[some][:, None]
        return ids[:, :-1], ids[:, 1:].masked_fill(beyond, IGNORED)

    optimizers = build_optimizers(
        model,
        optimizer=run.optimizer,
        learning_rate=run.learning_rate,
        weight_decay=run.weight_decay,
    )
    n = len(batches)
    share_at = partial(cosine, warmup_steps=min(50, n // 10), total_steps=n)
    losses = take_steps(model, optimizers, batch_at, steps=n, share_at=share_at)
    last = losses[-min(32, len(rows) // BATCH) :]
    return sum(last) / len(last)


def measure(run: Run) -> Found:
    """Make one run."""
    model = build(run)
    own_loss = read(model, run)
    others = evaluate(model, validation())
    return Found(
        parameters=model.count_parameters(),
        unique_tokens=int(stories(run.sights // run.epochs, run.seed)[1].sum()),
        own_loss=own_loss,
        loss=others.loss,
        floor=validation().floor,
    )


if __name__ == "__main__":
    TRIAL.main(
        measure,
        rates=rates,
        seeds=TRIAL.repeat,
        fresh=fresh,
        short=short,
        decay=decay,
        longer=longer,
    )
