"""How a model is trained: update rules, clipping, warm-up, dropout.

    python benchmarks/trials/updates.py one_rate rules clipping warmup dropout

Models of chapter 9 (width 64, V = 1024) learn the openings of stories, 200 steps of eight rows.

Arms        Each differs in one thing from the plainest run, which has no clipping, no decay, a
            warm-up of 20 steps and half a cosine.
            `rules`: gradient descent, momentum, AdamW and Muon; and Muon taken apart: without the
            look-ahead, without the mean, and with both but without the orthogonalization, its step
            scaled to the same length. Muon's mean decays by 0.95 a step. Two more arms decay by
            0.9, with the look-ahead and without, so that looking ahead and forgetting sooner can
            be told apart (with two rates only).
            `clipping`: momentum, AdamW and Muon with gradients of length 1 at most.
            `warmup`: AdamW and Muon without it.
            Dropout of 0.2 and none: AdamW on 60 openings, in `one_rate` only; and in `dropout`
            at twice the best rate, where the texts are learned by heart.
Rates       `one_rate` has one rate for all weights of an arm, halved and doubled with seed 0 until
            the best is between two others. The others have two: one for the matrices, and one for
            the embedding and the norms (which AdamW moves where Muon moves the matrices). Each of
            the two is halved and doubled while the other stays, until both are between two others.
Seeds       Five fresh ones for the rules, three for the others.
Measured    The loss on the openings of 128 held-out stories, in nats per token: at the end and at
            its lowest; and the training loss. A loss that is no number any more is infinite.
Against     An arm is no better than another if the difference, seed by seed, is less than twice its
            standard error.

The laboratory of chapter 9 reads the table.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import torch
from torch import Tensor
from trial import Trial, seeded, take_steps

from decoder_only.base import hardware
from decoder_only.data import Corpus, document_corpus, training_batch
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.tokenization.tokenizer import END_OF_TEXT
from decoder_only.training import evaluate
from decoder_only.training.optimizers import (
    Muon,
    build_optimizers,
    cosine,
    parameter_groups,
)

SHAPE = {"vocab_size": 1024, "context_length": 64, "d_model": 64, "n_heads": 4}
SHAPE |= {"n_layers": 2, "positions": "rotary", "norm": "rms", "bias": False}
BATCH, STEPS, ALL_TEXTS = 8, 200, 4000
RATES = {"descent": 1.0, "momentum": 0.05, "adamw": 5e-3}  # to begin with; Muons: 0.02
MUONS = ("muon", "muon, no look-ahead", "muon, no mean", "muon, not orthogonal")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart.

    Attributes:
        rule: how weights follow gradients.
        learning_rate: the peak, of matrices.
        table_learning_rate: the peak, of the embedding and the norms.
        warmup: steps until the rates have risen.
        clip: the longest gradient; infinite leaves all as they are.
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
    texts: int = ALL_TEXTS
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: held-out loss at the end and at its lowest, and training loss."""

    loss: float
    lowest: float
    training_loss: float


TRIAL = Trial("updates", Run, Found, tuned=("learning_rate", "table_learning_rate"))


def arm(rule: str, **changes: float) -> Run:
    """A rule with first guesses of its rates."""
    rate = RATES.get(rule, 0.02)
    return Run(rule=rule, learning_rate=rate, table_learning_rate=rate, **changes)


RULES = [arm(rule) for rule in (*RATES, *MUONS)]
SHORTER = [arm(f"muon, 0.9{kind}") for kind in ("", ", no look-ahead")]
CLIPPED = [arm(rule, clip=1.0) for rule in ("momentum", "adamw", "muon")]
HURRIED = [arm(rule, warmup=0) for rule in ("adamw", "muon")]
FEW_TEXTS = [arm("adamw", texts=60, dropout=share) for share in (0.0, 0.2)]


def one_rate() -> Iterator[list[Run]]:
    """All arms with one rate for all weights: rates around the best, and fresh seeds there."""
    others = [*CLIPPED, *HURRIED, *FEW_TEXTS]
    while wanted := [run for each in (*RULES, *others) for run in untried(each)[:1]]:
        yield wanted
    for arms, seeds in ((RULES, range(1, 6)), (others, range(1, 4))):
        best = [at_one_rate(each, best_of(each)) for each in arms]
        yield [replace(each, seed=seed) for each in best for seed in seeds]


def rules() -> Iterator[list[Run]]:
    """Update rules with two rates."""
    yield from two_rates([*RULES, *SHORTER], 5)


def clipping() -> Iterator[list[Run]]:
    """Three rules with clipped gradients and two rates."""
    yield from two_rates(CLIPPED, 3)


def warmup() -> Iterator[list[Run]]:
    """Two rules without warm-up, with two rates."""
    yield from two_rates(HURRIED, 3)


def dropout() -> Iterator[list[Run]]:
    """Dropout and none at twice the best rate of each, from fresh seeds."""
    twice = [at_one_rate(each, 2 * best_of(each)) for each in FEW_TEXTS]
    yield [replace(each, seed=seed) for each in twice for seed in range(1, 4)]


def two_rates(arms: list[Run], n_seeds: int) -> Iterator[list[Run]]:
    """Arms at rates until both are between two others, then there from fresh seeds."""
    yield from TRIAL.search(arms)
    best = [TRIAL.best(each) for each in arms]
    yield [replace(each, seed=seed) for each in best for seed in range(1, 1 + n_seeds)]


def at_one_rate(each: Run, rate: float) -> Run:
    return replace(each, learning_rate=rate, table_learning_rate=rate)


def tried_rates(each: Run) -> dict[float, float]:
    """The loss of an arm at the rates that moved all weights."""
    return {x: loss for (x, y), loss in TRIAL.scores(each).items() if x == y}


def best_of(each: Run) -> float:
    tried = tried_rates(each)
    return min(tried, key=tried.get, default=each.learning_rate)


def untried(each: Run) -> list[Run]:
    """An arm at its best single rate, at half and at twice that, where it was not tried."""
    tried, best = tried_rates(each), best_of(each)
    near = [rate for rate in (best, best / 2, 2 * best) if rate not in tried]
    return [at_one_rate(each, rate) for rate in near]


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


def build(run: Run) -> GPT:
    config = GPTConfig(**SHAPE, dropout=run.dropout)
    return GPT(config, generator=seeded(run.seed))


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


def optimizers_of(run: Run, model: GPT) -> list[torch.optim.Optimizer]:
    rates = run.learning_rate, run.table_learning_rate
    if run.rule in ("descent", "momentum"):
        groups = parameter_groups(model, weight_decay=0.0)
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = group["initial_lr"] = rate
        memory = 0.9 if run.rule == "momentum" else 0.0
        return [torch.optim.SGD(groups, momentum=memory, fused=True)]
    settings = {"learning_rate": rates[0], "table_learning_rate": rates[1]}
    settings["weight_decay"] = 0.0
    if run.rule == "adamw":
        return build_optimizers(model, **settings)
    if run.rule == "muon, no mean":
        settings["momentum"] = 0.0
    if run.rule.startswith("muon, 0.9"):
        settings["momentum"] = 0.9
    adamw, muon = build_optimizers(model, optimizer="muon", **settings)
    other = {"no look-ahead": Blind, "not orthogonal": Straight}
    kind = other.get(run.rule.rpartition(", ")[2])
    if kind:
        muon = kind(muon.param_groups, learning_rate=run.learning_rate)
    return [adamw, muon]


def measure(run: Run) -> Found:
    """Make one run."""
    openings, held_out = material(run.texts)
    model = build(run)
    lowest = [math.inf]

    def batch_at(step: int) -> tuple[Tensor, Tensor]:
        if run.texts < ALL_TEXTS and step and step % 20 == 0:
            lowest.append(evaluate(model, held_out).loss)
        size = {"batch_size": BATCH, "context_length": SHAPE["context_length"]}
        batch = training_batch(openings, seed=run.seed, step=step, **size)
        hardware.seed_generators(run.seed, step, 0)  # which dropout draws from
        return batch

    losses = take_steps(
        model,
        optimizers_of(run, model),
        batch_at,
        steps=STEPS,
        share_at=partial(cosine, warmup_steps=run.warmup, total_steps=STEPS),
        max_gradient_norm=run.clip if math.isfinite(run.clip) else None,
    )
    loss = evaluate(model, held_out).loss
    return Found(
        loss=finite_or_inf(loss),
        lowest=finite_or_inf(min(*lowest, loss)),
        training_loss=finite_or_inf(sum(losses[-20:]) / 20),
    )


def finite_or_inf(loss: float) -> float:
    return loss if math.isfinite(loss) else math.inf


if __name__ == "__main__":
    TRIAL.main(
        measure,
        one_rate=one_rate,
        rules=rules,
        clipping=clipping,
        warmup=warmup,
        dropout=dropout,
    )
