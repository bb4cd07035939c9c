"""Does a sentence find its translation among a thousand, by the vectors of an encoder alone?

    python benchmarks/trials/retrieval.py rates seeds

Two-tower retrieval: one encoder makes a vector of each English sentence and of each German one,
without seeing the other, and the nearest by cosine is the answer.

Arms        "contrastive" is an encoder of two blocks and width 32, whose mean over all positions is
            the vector. It learns from pairs: of the 32 English sentences of a batch, the right one
            is the target, by cross-entropy over cosines divided by 0.05.
            "bag" learns in the same way, but its vector is the mean of its table's rows: no
            attention, no order.
            "masked" is a masked model of the same width, which learns the same sentences, but not
            which belong together: 15% are targets (80/10/10). Its vector is the mean of its last
            vectors.
            "untrained" is the first without any training.
Fixed       400 steps of AdamW with a cosine schedule.
Rates       Halved and doubled until the best is inside, with seed 0.
Seeds       Three fresh ones.
Measured    `misses`: of 1,000 German sentences that are held out, the share whose nearest English
            one among 1,000 is not its source. `rank`: the mean place of the source.
Against     The encoder needs no training for pairs if "masked" misses as little, and no attention
            if "bag" does.

Chapter 11 reads the table.
"""

import functools
from dataclasses import dataclass
from functools import partial
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from trial import Trial, learn, seeded

from decoder_only.model.config import GPTConfig
from decoder_only.model.lm_head import next_token_loss
from decoder_only.variants.encoders import Encoder, MaskedModel, mask_tokens
from decoder_only_book.translation import GERMAN, Pair

STEPS, BATCH, TEMPERATURE = 400, 32, 0.05
MASK = len(GERMAN.vocabulary)
CONFIG = GPTConfig(
    vocab_size=MASK + 1,
    context_length=40,
    d_model=32,
    n_layers=2,
    n_heads=4,
    activation="gelu",
)


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    arm: str
    learning_rate: float | None = 8e-3
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured among 1,000 sentences."""

    misses: float
    rank: float


ARMS = [Run(arm=arm) for arm in ("contrastive", "bag", "masked")]
TRIAL = Trial(
    "retrieval",
    Run,
    Found,
    arms=ARMS,
    seeds=(1, 2, 3),
    score="misses",
    digits=4,
    packages=("torch",),
)


def seeds() -> list[list[Run]]:
    """Every arm at its best rate, and the untrained encoder."""
    untrained = [
        Run(arm="untrained", learning_rate=None, seed=seed) for seed in TRIAL.seeds
    ]
    return [*TRIAL.repeat(), untrained]


def padded(rows: list[list[int]]) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True)


def sides(pairs: list[Pair]) -> tuple[Tensor, Tensor]:
    """Ids of German sentences, and of their English ones."""
    german = padded([GERMAN.encode(pair.target) for pair in pairs])
    return german, padded([GERMAN.encode(pair.source) for pair in pairs])


def build(run: Run) -> nn.Module:
    generator = seeded(run.seed)
    if run.arm == "bag":
        return Encoder(CONFIG, pad_id=0, generator=generator).embedding
    kind = MaskedModel if run.arm == "masked" else Encoder
    return kind(CONFIG, pad_id=0, generator=generator)


def vectors(model: nn.Module, ids: Tensor) -> Tensor:
    """A vector of length one for each sentence: the direction of the mean of its vectors."""
    found = model.hidden(ids) if isinstance(model, Encoder) else model(ids)
    is_real = (ids != 0)[:, :, None]
    return F.normalize((found * is_real).sum(1), dim=-1)


def contrastive_loss(model: nn.Module, german: Tensor, english: Tensor) -> Tensor:
    cosines = vectors(model, german) @ vectors(model, english).T
    return F.cross_entropy(cosines / TEMPERATURE, torch.arange(len(cosines)))


def fitted(run: Run) -> nn.Module:
    """A model that has learned."""
    model, generator = build(run), seeded(1_000 + run.seed)
    drawn = GERMAN.pairs(seed=run.seed)
    hidden = {"mask_id": MASK, "vocab_size": MASK + 1, "keep": {0, 1, 2}}

    def loss_at(_: int) -> Tensor:
        german, english = sides(list(islice(drawn, BATCH)))
        if run.arm != "masked":
            return contrastive_loss(model, german, english)
        both = padded([*german.tolist(), *english.tolist()])
        inputs, targets = mask_tokens(both, **hidden, generator=generator)
        return next_token_loss(model(inputs), targets)

    schedule = {"steps": STEPS, "warmup": STEPS // 10, "max_gradient_norm": 1.0}
    if run.arm != "untrained":
        learn(model, loss_at, learning_rate=run.learning_rate, **schedule)
    return model.eval()


@functools.cache
def held_out(*, choosing: bool) -> tuple[Tensor, Tensor]:
    """1,000 pairs with different sources."""
    pairs = GERMAN.pairs(split="validation", seed=1 if choosing else 0)
    found = {pair.source: pair for pair in islice(pairs, 1_100)}
    return sides(list(found.values())[:1_000])


@torch.no_grad()
def places(model: nn.Module, german: Tensor, english: Tensor) -> Tensor:
    """At which place the source of each German sentence is among all English ones, from 1."""
    cosines = vectors(model, german) @ vectors(model, english).T
    return (cosines >= cosines.diagonal()[:, None]).sum(1)


def measure(run: Run) -> Found:
    """Make one run."""
    found = places(fitted(run), *held_out(choosing=run.seed == 0)).double()
    return Found(misses=(found > 1).double().mean().item(), rank=found.mean().item())


if __name__ == "__main__":
    TRIAL.main(measure, rates=partial(TRIAL.search, ARMS), seeds=seeds)
