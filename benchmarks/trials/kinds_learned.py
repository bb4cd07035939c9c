"""In which order are the kinds of choice learned, and does it depend on the seed or the rate?

    python benchmarks/trials/kinds_learned.py

Models of width 64 and two blocks learn the stories of the hamlet, with the tokenizer and the recipe
of the stored one.

Arms        The recipe's rate; half and twice that rate.
Fixed       512 steps of eight rows. Each story is read at most once.
Seeds       Four at the recipe's rate, one at the others.
Measured    At the powers of two, on 40 held-out stories: the excess over the exact floor in bits
            per story, split by kind of choice, and the entropy of each kind. Which part of the
            excess is spent on tokens that cannot follow (`impossible`), and which probability the
            model gives such tokens (`leaked`). Both are told of the kind that is asked for first.
Against     There is no order if the step at which a kind has lost nine tenths of its excess differs
            as much between seeds as between kinds. What cannot follow is not ruled out first if
            the odds among what can follow have lost nine tenths of their excess no later.

Chapter 14 reads the table.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import torch
from trial import Trial, seeded

from decoder_only.analysis.interpretation import ExcessByKind
from decoder_only.data import Corpus, story_corpora, training_batch
from decoder_only.model.gpt import GPT
from decoder_only.stories import StoryLanguage
from decoder_only.stories.exact import KINDS, NextToken
from decoder_only.training import NextTokenLoss, TrainConfig, train_step
from decoder_only.training.checkpoint import SavedRun
from decoder_only.training.optimizers import build_optimizers, set_learning_rate
from decoder_only_book.stored import load_model

STEPS, N_STORIES = 512, 40


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    learning_rate: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured of a state: the excess of one kind, in bits per story, and its entropy.

    `impossible` is the part of the excess that is spent on tokens that cannot follow. `leaked` is
    the probability that the model gives such tokens: a mean over all tokens of the stories, of
    which those of other kinds count as zero, so that kinds add up to the whole.
    """

    step: int
    kind: str
    excess: float
    impossible: float
    leaked: float
    entropy: float


TRIAL = Trial(
    "kinds_learned", Run, Found, score="excess", digits=6, packages=("torch", "numpy")
)


def runs() -> Iterator[list[Run]]:
    """Four seeds at the recipe's rate, and one at half and twice the rate."""
    yield [
        *(Run(learning_rate=8e-3, seed=seed) for seed in (1, 2, 3, 4)),
        *(Run(learning_rate=rate, seed=1) for rate in (4e-3, 1.6e-2)),
    ]


class Meter:
    """The excess of a model on some held-out stories, by kind."""

    def __init__(self, language: StoryLanguage, tokenizer: object) -> None:
        following = NextToken(language, tokenizer)
        stories = list(islice(language.stories(split="validation"), N_STORIES))
        self.ids = [
            torch.tensor([[following.end_of_text, *tokenizer.encode(story)]])
            for story in stories
        ]
        self.splits = [ExcessByKind(list(following.along(story))) for story in stories]

    @torch.no_grad()
    def excess(self, model: GPT) -> tuple[list[float], list[float], list[float]]:
        """For each of `KINDS`: the excess, its part on what cannot follow, and what leaks there.

        The first two are in bits per story, the third is a probability per token.
        """
        parts, leaks = [], []
        for split, ids in zip(self.splits, self.ids, strict=True):
            spent = split(model(ids)[0].log_softmax(-1))  # (s, 2, kind), in nats
            parts.append(spent.sum(0))
            leaks.append(
                -torch.expm1(-spent[:, 0])
            )  # -log q(A) is spent, 1 - q(A) leaks
        outside, odds = torch.stack(parts).mean(0) / math.log(2)
        leaked = torch.cat(leaks).mean(0)
        return (outside + odds).tolist(), outside.tolist(), leaked.tolist()

    def entropy(self) -> list[float]:
        """Bits per story, for each of `KINDS`."""
        parts = [split.entropy.sum(0) for split in self.splits]
        return (torch.stack(parts).mean(0) / math.log(2)).tolist()


@functools.cache
def material() -> tuple[SavedRun, Corpus, Meter]:
    """The stored model, the stories to learn from, and the meter."""
    language, stored = StoryLanguage.hamlet(), load_model("hamlet")
    corpus, _ = story_corpora(language, stored.tokenizer, n_train=4200, n_validation=2)
    return stored, corpus, Meter(language, stored.tokenizer)


def measure(run: Run) -> Iterator[Found]:
    """Make one run, and measure its states."""
    stored, corpus, meter = material()
    config = replace(stored.model.config, n_layers=2)
    model = GPT(config, generator=seeded(run.seed))
    recipe = TrainConfig(
        steps=STEPS,
        batch_size=8,
        optimizer="muon",
        learning_rate=run.learning_rate,
        schedule="warmup_stable_decay",
        decay_fraction=0.5,
        warmup_steps=30,
        seed=run.seed,
    )
    optimizers = build_optimizers(
        model, optimizer=recipe.optimizer, learning_rate=recipe.learning_rate
    )
    for step in range(STEPS + 1):
        if step & (step - 1) == 0:
            columns = *meter.excess(model.eval()), meter.entropy()
            for kind, excess, impossible, leaked, entropy in zip(
                KINDS, *columns, strict=True
            ):
                yield Found(
                    step=step,
                    kind=kind,
                    excess=excess,
                    impossible=impossible,
                    leaked=leaked,
                    entropy=entropy,
                )
        if step == STEPS:
            return
        inputs, targets = training_batch(
            corpus, batch_size=8, context_length=192, seed=run.seed, step=step
        )
        set_learning_rate(optimizers, recipe.rate_factor(step))
        train_step(
            NextTokenLoss(model), optimizers, inputs, targets, max_gradient_norm=1.0
        )


if __name__ == "__main__":
    TRIAL.main(measure, runs=runs)
