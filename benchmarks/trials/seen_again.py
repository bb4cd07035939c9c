"""What is a story worth that is read again? Unique stories times epochs, from 1 to 64.

    python benchmarks/trials/seen_again.py rates seeds fresh short decay longer

Models of width 48 and two blocks read `sights` stories, of which one in `epochs` is unique: every
epoch reads each of them once, in a new order. Steps, batches and schedule of an arm are those of
all others with as many sights. The language is the hamlet's with one of its tales.

`rates`: 1,024 sights in 1 to 64 epochs, each at its own rate: from the best rate of the arm
before, half and twice it, and more until the best lies between two. `seeds`: two more of each.
`fresh`: 128, 256, 512 and 2,048 stories read once, three seeds, rates as before except for the
last, which takes that of 1,024: what unique stories are worth. `short`: 256 sights in 4 and 16
epochs, three seeds. `decay`: 1, 4, 16 and 64 epochs with ten times the weight decay, likewise.
`longer`: 2,048 sights in 2, 4 and 8 epochs, at the rates of 1,024, three seeds.

The effective data of an arm is the number of unique stories, read once, with the same loss.
Muennighoff et al. (2023) fitted U + U R* (1 - exp(-R / R*)) to it, with R repetitions of U unique
tokens and an R* of 15 or so, by which four epochs are worth 0.93 of as much unique data. Set
beforehand: four epochs count as nearly free if their effective data is at least 0.9 of the sights,
the mean over seeds less two standard errors. Against an R* like theirs counts a fit outside of
half to twice 15; against the form of the law, residuals over twice the spread of seeds, or an arm
that is worth less than its unique stories read once.

That is the half of their law that speaks of data. The other discounts parameters beyond those that
the unique data support; with one size of model it cannot be fitted. And once the decay was tried:
the verdict on four epochs hangs on it, and three seeds do not tell 0.89 from 0.93.
"""

import functools
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice, product

import torch
from jaxtyping import Int
from torch import Tensor
from trial import Table

from decoder_only.data import Corpus, document_corpus
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import IGNORED
from decoder_only.model.presets import MODERN
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import NextTokenLoss, evaluate, train_step
from decoder_only.training.optimizers import build_optimizers, cosine, set_learning_rate

BATCH, CONTEXT, VOCABULARY = 4, 256, 1024
HAMLET = StoryLanguage.hamlet()
LANGUAGE = StoryLanguage(**{**HAMLET.arguments, "tales": ("gift",)})


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    sights: int
    epochs: int
    weight_decay: float = 0.1
    learning_rate: float = 1.6e-2
    optimizer: str = "muon"
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it, in nats per token: the last loss on what it read, and the loss on
    200 other stories, whose floor is exact."""

    parameters: int
    unique_tokens: int
    own_loss: float
    loss: float
    floor: float
    processor_seconds: float


TABLE = Table("seen_again", Point)


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


def build(point: Point) -> GPT:
    config = GPTConfig(
        vocab_size=VOCABULARY,
        context_length=CONTEXT,
        d_model=48,
        n_layers=2,
        n_heads=3,
        **MODERN,
    )
    return GPT(config, generator=torch.Generator().manual_seed(point.seed))


def read(model: GPT, point: Point) -> float:
    """Train it; the mean loss of the last epoch's steps, of 32 at most."""
    rows, lengths = stories(point.sights // point.epochs, point.seed)
    generator = torch.Generator().manual_seed(point.seed)
    orders = (
        torch.randperm(len(rows), generator=generator) for _ in range(point.epochs)
    )
    optimizers = build_optimizers(
        model,
        optimizer=point.optimizer,
        learning_rate=point.learning_rate,
        weight_decay=point.weight_decay,
    )
    batches = torch.cat(list(orders)).split(BATCH)
    losses = []
    for step, some in enumerate(batches):
        ids = rows[some, : int(lengths[some].max()) + 1]
        beyond = torch.arange(ids.shape[1] - 1) >= lengths[some][:, None]
        targets = ids[:, 1:].masked_fill(beyond, IGNORED)
        n = len(batches)
        shape = {"warmup_steps": min(50, n // 10), "total_steps": n}
        set_learning_rate(optimizers, cosine(step, **shape))
        result = train_step(
            NextTokenLoss(model),
            optimizers,
            ids[:, :-1],
            targets,
            max_gradient_norm=1.0,
        )
        losses.append(result.loss.item())
    last = losses[-min(32, len(rows) // BATCH) :]
    return sum(last) / len(last)


def measure(point: Point) -> Row:
    """Make one run."""
    began = time.process_time()
    model = build(point)
    own_loss = read(model, point)
    heard = evaluate(model, validation())
    return Row(
        **asdict(point),
        parameters=model.count_parameters(),
        unique_tokens=int(stories(point.sights // point.epochs, point.seed)[1].sum()),
        own_loss=round(own_loss, 5),
        loss=round(heard.loss, 5),
        floor=round(validation().floor, 5),
        processor_seconds=round(time.process_time() - began, 1),
    )


SIGHTS, EPOCHS, FRESH = 1024, (1, 2, 4, 8, 16, 32, 64), (128, 256, 512)


def own_rates(arms: Iterable[Point]) -> Iterator[Point]:
    """Every arm at its own rate, looked for from the best of the one before."""
    rate = None
    for arm in arms:
        start = replace(arm, learning_rate=rate or arm.learning_rate)
        yield from TABLE.rates([start])
        rate = TABLE.at_best_rate(start).learning_rate


def rates() -> Iterator[Point]:
    yield from own_rates(Point(sights=SIGHTS, epochs=n) for n in EPOCHS)


def seeds() -> Iterator[Point]:
    yield from TABLE.seeds([Point(sights=SIGHTS, epochs=n) for n in EPOCHS], (1, 2))


def fresh() -> Iterator[Point]:
    arms = [Point(sights=n, epochs=1) for n in FRESH]
    yield from own_rates(arms)
    yield from TABLE.seeds(arms, (1, 2))
    rate = TABLE.at_best_rate(Point(sights=SIGHTS, epochs=1)).learning_rate
    for seed in range(3):
        yield Point(sights=2 * SIGHTS, epochs=1, learning_rate=rate, seed=seed)


def short() -> Iterator[Point]:
    arms = [Point(sights=256, epochs=n) for n in (4, 16)]
    yield from own_rates(arms)
    yield from TABLE.seeds(arms, (1, 2))


def decay() -> Iterator[Point]:
    """Each from the best rate of its arm with the usual decay."""
    usual = [TABLE.at_best_rate(Point(sights=SIGHTS, epochs=n)) for n in EPOCHS[::2]]
    arms = [replace(arm, weight_decay=1.0) for arm in usual]
    yield from TABLE.rates(arms)
    yield from TABLE.seeds(arms, (1, 2))


def longer() -> Iterator[Point]:
    for epochs, seed in product((2, 4, 8), range(3)):
        short = TABLE.at_best_rate(Point(sights=SIGHTS, epochs=epochs))
        yield replace(short, sights=2 * SIGHTS, seed=seed)


if __name__ == "__main__":
    experiments = {
        "rates": rates,
        "seeds": seeds,
        "fresh": fresh,
        "short": short,
        "decay": decay,
        "longer": longer,
    }
    TABLE.make(measure, experiments, packages=("torch", "numpy"))
