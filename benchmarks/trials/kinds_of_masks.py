"""Why does a masked model see a random word at a tenth of its targets, and leave another tenth?

    python benchmarks/trials/kinds_of_masks.py rates seeds store

The masked model of `hidden_words.py` with 64 sentences a step, for 400 steps.

Arms        Which of the targets, 15% of the pieces, the model sees as a mask, as a random piece and
            as they are: "80/10/10", as BERT has it, "100/0/0", "90/10/0" and "90/0/10".
Rates       Halved and doubled until the best is inside, with seed 0, by `gap`.
Seeds       Three fresh ones.
Measured    In every place of 40 held-out sentences, where nothing is masked:
              `keeps`: the probability that the model gives to the piece that is there;
              `swallows`: the same, after the piece was exchanged for a random English one that
              cannot be there;
              `repairs`: the probability that it then gives to the pieces that can be there.
            `gap` is the mean of KL(p || q) in nats at a mask, where p is the exact posterior.
Stored      `store` puts the weights of "80/10/10" of seed 1 into the package, in bfloat16.
Against     The random pieces are of no use if without them the model swallows no more. The
            pieces that stay are of no use if without them it keeps no less.

Chapter 11 reads the table.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import torch
from hidden_words import Questions, answers, divergence, fitted, questions
from hidden_words import Run as Learned
from torch import Tensor
from trial import Trial, seeded, store_weights

from decoder_only.variants.encoders import MaskedModel
from decoder_only_book.translation import GERMAN

SHARES = {
    "80/10/10": (0.8, 0.1),
    "100/0/0": (1.0, 0.0),
    "90/10/0": (0.9, 0.1),
    "90/0/10": (0.9, 0.0),
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    arm: str
    learning_rate: float = 1.6e-2
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: probabilities, and a KL divergence in nats."""

    keeps: float
    swallows: float
    repairs: float
    gap: float


TRIAL = Trial(
    "kinds_of_masks",
    Run,
    Found,
    arms=[Run(arm=arm) for arm in SHARES],
    seeds=(1, 2, 3),
    score="gap",
    digits=4,
    packages=("torch",),
)


@torch.no_grad()
def said_where(model: MaskedModel, asked: Questions, seen: Tensor) -> Tensor:
    """The model's probabilities at the places, where it sees these pieces."""
    ids, rows = asked.ids.clone(), torch.arange(len(asked.ids))
    ids[rows, asked.places] = seen
    return model(ids)[rows, asked.places].softmax(-1)


def wrong_pieces(asked: Questions) -> Tensor:
    """For each place a random English piece that cannot be there, the same in all runs."""
    drawn = islice(GERMAN.pairs(seed=0), 2_000)
    english = {piece for pair in drawn for piece in pair.source}
    is_english = torch.tensor([*(w in english for w in GERMAN.vocabulary), False])
    cannot = ((asked.posterior == 0) & is_english).double()
    return torch.multinomial(cannot, 1, generator=seeded(0))[:, 0]


def looked_at(model: MaskedModel, asked: Questions) -> tuple[float, float, float]:
    """What it says where nothing is masked: keeps, swallows, repairs."""
    rows = torch.arange(len(asked.ids))
    right, wrong = asked.ids[rows, asked.places], wrong_pieces(asked)
    after_right = said_where(model, asked, right)[rows, right].mean().item()
    after_wrong = said_where(model, asked, wrong)
    swallowed = after_wrong[rows, wrong].mean().item()
    repaired = (after_wrong * (asked.posterior > 0)).sum(-1).mean().item()
    return after_right, swallowed, repaired


def learned(run: Run) -> MaskedModel:
    rate = {"learning_rate": run.learning_rate, "seed": run.seed}
    return fitted(Learned(arm="masked, 64 sentences", **rate), SHARES[run.arm])


def store() -> Iterator[list[Run]]:
    """No runs, but the weights of one."""
    store_weights("masked", learned(replace(TRIAL.best(TRIAL.arms[0]), seed=1)))
    yield []


def measure(run: Run) -> Found:
    """Make one run."""
    model, asked = learned(run), questions(choosing=run.seed == 0)
    keeps, swallows, repairs = looked_at(model, asked)
    gap = divergence(asked.posterior, answers(model, asked))
    return Found(keeps=keeps, swallows=swallows, repairs=repairs, gap=gap)


if __name__ == "__main__":
    TRIAL.main(measure, rates=TRIAL.search, seeds=TRIAL.repeat, store=store)
