"""How a model is trained: update rules, clipping, warm-up, dropout.

    python benchmarks/trials/updates.py rules clipping warmup dropout

Models of chapter 9 (width 64, V = 1024) learn the openings of stories, 200 steps of eight rows. An
experiment is a list of arms, which differ from the plainest run (no clipping, no decay, warm-up of
20 steps and half a cosine) in one thing. An arm has two rates, one for the matrices and one for the
embedding and the norms (which AdamW moves where Muon moves the matrices). With one seed, each of
the two is halved and doubled while the other stays, from where they are best, until both lie
between two others; there the arm is run with fresh seeds. Judged by the loss on the openings of
128 stories that were held out; one that is no number any more is written as infinite.

In the first edition of this trial one rate moved everything, and these runs stand in the table as
well: two equal rates, of three or more the best, and fresh seeds there. They are all that there is
of `dropout`, and of Muon's mean without the orthogonalization but for the beginning of its search
with two rates: four runs, one seed. `rules`, and so the command without names, would go on with it.

What would count against an arm: a difference to the other, seed by seed, of less than twice its
standard error. Three arms are there to take Muon apart: without the look-ahead, without the mean,
and with both but without the orthogonalization, its step scaled to the same length.

The table goes into the package, for chapter 9. Runs that stand in it are not made again.
"""

import functools
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice

import torch
from torch import Tensor
from trial import Table

from decoder_only.base import hardware
from decoder_only.data import Corpus, document_corpus, training_batch
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.tokenization.tokenizer import END_OF_TEXT
from decoder_only.training import NextTokenLoss, evaluate, train_step
from decoder_only.training.optimizers import (
    Muon,
    build_optimizers,
    cosine,
    parameter_groups,
    set_learning_rate,
)

SHAPE = {"vocab_size": 1024, "context_length": 64, "d_model": 64, "n_heads": 4}
SHAPE |= {"n_layers": 2, "positions": "rotary", "norm": "rms", "bias": False}
BATCH, STEPS = 8, 200
RATES = {"descent": 1.0, "momentum": 0.05, "adamw": 5e-3}  # to begin with; Muons: 0.02
MUONS = ("muon", "muon, no look-ahead", "muon, no mean", "muon, not orthogonal")


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others.

    Attributes:
        rule: how weights follow gradients.
        learning_rate: the peak, of matrices.
        table_learning_rate: the peak, of the embedding and the norms.
        warmup: steps until the rates have risen.
        clip: the longest gradient; infinite leaves all.
        dropout: of the model.
        texts: openings to learn from.
        seed: of weights and order.
    """

    rule: str = "adamw"
    learning_rate: float
    table_learning_rate: float
    warmup: int = 20
    clip: float = math.inf
    dropout: float = 0.0
    texts: int = 4000
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it: held-out loss at the end and at its lowest, training loss."""

    loss: float
    lowest: float
    training_loss: float
    processor_seconds: float


TABLE = Table("updates", Point, tuned=("learning_rate", "table_learning_rate"))


def arm(rule: str, **changes: object) -> Point:
    """At the rates from which its own are looked for."""
    rate = RATES.get(rule, 0.02)
    return Point(rule=rule, learning_rate=rate, table_learning_rate=rate, **changes)


def tuned(arms: Iterable[Point], n_seeds: int = 3) -> Iterator[Point]:
    """Each at rates until both lie between two others, then there with fresh seeds."""
    for each in arms:
        yield from TABLE.rates([each])
        yield from TABLE.seeds([each], range(1, 1 + n_seeds))


def rules() -> Iterator[Point]:
    yield from tuned((arm(rule) for rule in (*RATES, *MUONS)), n_seeds=5)


def clipping() -> Iterator[Point]:
    yield from tuned(arm(rule, clip=1.0) for rule in ("momentum", "adamw", "muon"))


def warmup() -> Iterator[Point]:
    yield from tuned(arm(rule, warmup=0) for rule in ("adamw", "muon"))


def dropout() -> Iterator[Point]:
    yield from tuned(arm("adamw", texts=60, dropout=share) for share in (0.0, 0.2))


EXPERIMENTS = {each.__name__: each for each in (rules, clipping, warmup, dropout)}


@functools.cache
def material(texts: int = 4000) -> tuple[Corpus, Corpus]:
    """The openings of stories, two sentences each, as chapter 9 has them."""
    language = StoryLanguage()
    told = list(islice(language.stories(split="train"), 4000))
    tokenizer = BytePairTokenizer.train(told, SHAPE["vocab_size"])
    unseen = islice(language.stories(split="validation"), 128)
    openings, held_out = (
        document_corpus([opening(story) for story in stories], tokenizer)
        for stories in (told[:texts], unseen)
    )
    assert openings.ids[0] == tokenizer.special_tokens[END_OF_TEXT]
    return openings, held_out


def opening(story: str) -> str:
    head = ". ".join(story.split(". ")[:2])
    return head if head == story else head + "."


def build(point: Point) -> GPT:
    config = GPTConfig(**SHAPE, dropout=point.dropout)
    return GPT(config, generator=torch.Generator().manual_seed(point.seed))


class Blind(Muon):
    """Muon without the look-ahead: along the mean as it is."""

    def _directions(self, ahead: list[Tensor], matrices: list[Tensor]) -> list[Tensor]:
        means = [self.state[matrix]["momentum"] for matrix in matrices]
        return super()._directions(means, matrices)


class Straight(Muon):
    """Muon without its essence: the step has the same length, and the mean's own shape."""

    def _directions(self, ahead: list[Tensor], matrices: list[Tensor]) -> list[Tensor]:
        size = math.sqrt(min(matrices[0].shape))
        return [size * mean / mean.norm().clamp(min=1e-12) for mean in ahead]


def optimizers_of(point: Point, model: GPT) -> list[torch.optim.Optimizer]:
    rates = point.learning_rate, point.table_learning_rate
    if point.rule in ("descent", "momentum"):
        groups = parameter_groups(model, weight_decay=0.0)
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = group["initial_lr"] = rate
        memory = 0.9 if point.rule == "momentum" else 0.0
        return [torch.optim.SGD(groups, momentum=memory, fused=True)]
    settings = {"learning_rate": rates[0], "table_learning_rate": rates[1]}
    settings["weight_decay"] = 0.0
    if point.rule == "adamw":
        return build_optimizers(model, **settings)
    if point.rule == "muon, no mean":
        settings["momentum"] = 0.0
    adamw, muon = build_optimizers(model, optimizer="muon", **settings)
    other = {"muon, no look-ahead": Blind, "muon, not orthogonal": Straight}
    if point.rule in other:
        muon = other[point.rule](muon.param_groups, learning_rate=point.learning_rate)
    return [adamw, muon]


def measure(point: Point) -> Row:
    """Make one run."""
    openings, held_out = material(point.texts)
    model = build(point)
    optimizers = optimizers_of(point, model)
    course = {"warmup_steps": point.warmup, "total_steps": STEPS}
    losses, seen, began = [], [math.inf], time.process_time()
    for step in range(STEPS):
        set_learning_rate(optimizers, cosine(step, **course))
        size = {"batch_size": BATCH, "context_length": SHAPE["context_length"]}
        batch = training_batch(openings, seed=point.seed, step=step, **size)
        hardware.seed_generators(point.seed, step, 0)  # from these dropout draws
        limit = point.clip if math.isfinite(point.clip) else None
        result = train_step(
            NextTokenLoss(model), optimizers, *batch, max_gradient_norm=limit
        )
        losses.append(result.loss.item())
        if point.texts < 4000 and step % 20 == 19:
            seen.append(evaluate(model, held_out).loss)
    loss = evaluate(model, held_out).loss
    return Row(
        **asdict(point),
        loss=_written(loss),
        lowest=_written(min(*seen, loss)),
        training_loss=_written(sum(losses[-20:]) / 20),
        processor_seconds=round(time.process_time() - began, 2),
    )


def _written(loss: float) -> float:
    return round(loss, 5) if math.isfinite(loss) else math.inf


if __name__ == "__main__":
    TABLE.make(measure, EXPERIMENTS)
