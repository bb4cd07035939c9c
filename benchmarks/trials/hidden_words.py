"""A piece is hidden: how soon does a masked model answer well, and how soon a decoder?

    python benchmarks/trials/hidden_words.py rates seeds short slower

Models of width 32, with two pre-norm blocks and learned positions, learn the English sentences of
`decoder_only_book.translation`. The masked ones have a head with one layer more.

Arms        Two models, with 16 sentences a step:
              "masked" is a masked model (15%, of which 80/10/10);
              "causal" is a GPT.
            Two controls, each with as many targets as the other model:
              "masked, 107 sentences" has 15% of so many sentences;
              "causal, 15%" has a target at 15% of the pieces of its 16 sentences.
Fixed       AdamW with a cosine schedule, for 400 steps; the two models and "causal, 15%" also for
            1,600.
Rates       Halved and doubled until the best is inside, with seed 0, for each length.
Seeds       Three fresh ones. `slower` has them for "causal" in 1,600 steps at half and a quarter
            of its best rate, too: there the best three of seed 0 differ by less than 0.002.
Repeated    `short`, from which laboratory 11 makes one again: each arm in 40 steps with seed 1, at
            its best rate of 400; "masked" also at half and twice that rate, and with seed 2.
Measured    Pieces of held-out sentences are hidden. The table has means of KL(p || q) in nats,
            where q is the model's answer.
              `own`: p is the best answer to what the model has read. For a masked model that is
              the exact posterior, given all other pieces; for a causal one the exact distribution
              of the next piece, given those before. Rates are chosen by it.
              `gap`: p is the posterior for both.
              `scored`: p is the posterior, and q follows from the causal model's probabilities of
              whole sentences, with each piece of the vocabulary in the gap.
            `rates` hides one piece of each of 150 sentences, never the full stop. The others hide
            every piece of 40 further sentences.
Against     Masking costs no signal if, after as many steps and sentences, `own` of "masked" is no
            larger than that of "causal". The number of targets has no part in it if the controls
            are like the models without them.

Chapter 11 reads the table.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from random import Random

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from trial import Trial, seeded, take_steps

from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.training.optimizers import build_optimizers, cosine
from decoder_only.variants.encoders import MaskedModel, mask_tokens
from decoder_only_book.translation import GERMAN

SENTENCES = {  # a step
    "masked": 16,
    "masked, 107 sentences": 107,
    "masked, 64 sentences": 64,  # of `kinds_of_masks.py`
    "causal": 16,
    "causal, 15%": 16,
}
ASKED = 0.15
SHORT = 40  # steps of the runs that are made again
MASK = len(GERMAN.vocabulary)


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    arm: str
    steps: int = 400
    learning_rate: float = 8e-3
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: KL divergences in nats.

    Runs of seed 0, which choose the rates, have other questions than those of other seeds.
    """

    parameters: int
    own: float
    gap: float
    scored: float | None


ARMS = [Run(arm=a, learning_rate=1.6e-2) for a in SENTENCES if "64" not in a]
LONGER = ("masked", "causal", "causal, 15%")
ARMS += [Run(arm=arm, steps=1600, learning_rate=4e-3) for arm in LONGER]
TRIAL = Trial(
    "hidden_words",
    Run,
    Found,
    arms=ARMS,
    seeds=(1, 2, 3),
    score="own",
    digits=4,
    packages=("torch",),
)


def short() -> Iterator[list[Run]]:
    """A tenth of the steps, with a schedule of their own, to be made again in a moment."""
    best = [replace(TRIAL.best(arm), seed=1) for arm in ARMS if arm.steps == 400]
    again = best[0]
    best += [replace(again, learning_rate=again.learning_rate * x) for x in (0.5, 2)]
    yield [replace(arm, steps=SHORT) for arm in (*best, replace(again, seed=2))]


def slower() -> Iterator[list[Run]]:
    """The decoder in 1,600 steps, from fresh seeds, at half and a quarter of its best rate."""
    (arm,) = (arm for arm in ARMS if (arm.arm, arm.steps) == ("causal", 1600))
    best = TRIAL.best(arm)
    rates = [best.learning_rate * share for share in (0.5, 0.25)]
    yield [replace(best, learning_rate=r, seed=s) for r in rates for s in TRIAL.seeds]


def posterior(pieces: tuple[str, ...], place: int) -> Tensor:
    """p(piece | all others) for each of the vocabulary, and the mask; exactly."""
    made = ([*pieces[:place], word, *pieces[place + 1 :]] for word in GERMAN.vocabulary)
    scores = [GERMAN.source_log_prob(sentence) for sentence in made]
    return torch.tensor([*scores, -math.inf], dtype=torch.float64).softmax(0)


def next_piece(pieces: tuple[str, ...], place: int) -> Tensor:
    """p(piece | those before it) for each of the vocabulary, and the mask; exactly."""
    found = GERMAN.next_pieces(pieces[:place])
    return torch.tensor([*(found.get(w, 0.0) for w in GERMAN.vocabulary), 0.0]).double()


def places(*, choosing: bool) -> Iterator[tuple[tuple[str, ...], int]]:
    """Held-out sentences and places in them: to choose rates by, or every place of others."""
    rng, pairs = Random(1), GERMAN.pairs(split="validation", seed=0)
    for pair in islice(pairs, 150):
        if choosing:
            yield pair.source, rng.randrange(len(pair.source) - 1)
    if not choosing:
        for pair in islice(pairs, 40):
            yield from ((pair.source, place) for place in range(len(pair.source)))


@dataclass(frozen=True)
class Questions:
    """Hidden pieces.

    Attributes:
        ids: a row for each question, padded.
        places: where in the row the hidden piece is.
        posterior, left: the exact answers, from both sides and from the left one.
    """

    ids: Tensor
    places: Tensor
    posterior: Tensor
    left: Tensor


@functools.cache
def questions(*, choosing: bool) -> Questions:
    """The pieces that are hidden to choose rates by, or those that are reported."""
    asked = list(places(choosing=choosing))
    return Questions(
        ids=padded([GERMAN.encode(pieces) for pieces, _ in asked]),
        places=torch.tensor([place + 1 for _, place in asked]),
        posterior=torch.stack([posterior(*each) for each in asked]),
        left=torch.stack([next_piece(*each) for each in asked]),
    )


def padded(rows: list[list[int]]) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True)


def build(run: Run) -> GPT:
    """The model of a run, and the generator that goes on with its masks."""
    config = GPTConfig(
        vocab_size=MASK + 1,
        context_length=20,
        d_model=32,
        n_layers=2,
        n_heads=4,
        activation="gelu",
    )
    is_causal = run.arm.startswith("causal")
    kind = GPT if is_causal else partial(MaskedModel, pad_id=0)
    return kind(config, generator=seeded(run.seed))


def fitted(run: Run, shares: tuple[float, float] = (0.8, 0.1)) -> GPT:
    """A model that has learned."""
    model, generator = build(run), seeded(1_000 + run.seed)
    drawn = GERMAN.pairs(seed=run.seed)
    hidden = {"mask_id": MASK, "vocab_size": MASK + 1, "keep": {0, 1, 2}}

    def batch_at(_: int) -> tuple[Tensor, Tensor]:
        pairs = islice(drawn, SENTENCES[run.arm])
        ids = padded([GERMAN.encode(pair.source) for pair in pairs])
        if not run.arm.startswith("causal"):
            return mask_tokens(ids, **hidden, shares=shares, generator=generator)
        targets = ids[:, 1:].masked_fill(ids[:, 1:] == 0, -1)
        if run.arm == "causal, 15%":
            left_out = torch.rand(targets.shape, generator=generator) >= ASKED
            targets = targets.masked_fill(left_out, -1)
        return ids[:, :-1], targets

    optimizers = build_optimizers(model, learning_rate=run.learning_rate)
    share_at = partial(cosine, warmup_steps=run.steps // 10, total_steps=run.steps)
    take_steps(model, optimizers, batch_at, steps=run.steps, share_at=share_at)
    return model.eval()


@torch.no_grad()
def answers(model: GPT, asked: Questions) -> Tensor:
    """log q for every question: at the mask, or from the left side."""
    ids, rows = asked.ids.clone(), torch.arange(len(asked.ids))
    if not isinstance(model, MaskedModel):
        return model(ids)[rows, asked.places - 1].log_softmax(-1)
    ids[rows, asked.places] = MASK
    return model(ids)[rows, asked.places].log_softmax(-1)


@torch.no_grad()
def by_scoring(model: GPT, asked: Questions) -> Tensor:
    """log q from a causal model's probabilities of whole sentences."""
    found = []
    for ids, place in zip(asked.ids, asked.places, strict=True):
        ids = ids[ids != 0]
        texts = ids.repeat(MASK + 1, 1)
        texts[:, place] = torch.arange(MASK + 1)
        loss = next_token_loss(model(texts[:, :-1]), texts[:, 1:], reduction="none")
        found.append(-loss.sum(1))
    return torch.stack(found).log_softmax(-1)


def divergence(p: Tensor, log_q: Tensor) -> float:
    """Mean KL(p || q) in nats."""
    terms = torch.special.xlogy(p, p) - p * log_q
    return terms.sum(1).mean().item()


def measure(run: Run) -> Found:
    """Make one run."""
    model, asked = fitted(run), questions(choosing=run.seed == 0)
    log_q, is_causal = answers(model, asked), run.arm.startswith("causal")
    scored = None
    if is_causal:
        scored = divergence(asked.posterior, by_scoring(model, asked))
    best = asked.left if is_causal else asked.posterior
    return Found(
        parameters=model.count_parameters(),
        own=divergence(best, log_q),
        gap=divergence(asked.posterior, log_q),
        scored=scored,
    )


if __name__ == "__main__":
    TRIAL.main(
        measure, rates=TRIAL.search, seeds=TRIAL.repeat, short=short, slower=slower
    )
