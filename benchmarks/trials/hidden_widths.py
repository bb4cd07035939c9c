"""How wide should an MLP be, if a wider one leaves less for the rest of the model?

    python benchmarks/trials/hidden_widths.py rates edges

Small language models learn the beginnings of stories. All have the same number of parameters, and
divide it in different ways: the wider the hidden layer of the MLPs (F), the narrower the residual
stream (D), which everything else shares.

Arms        Seven widths D, from 88 to 40, with the F that brings the number of parameters nearest
            to that of D = 64 and F = 256. The embedding is counted. The head reads it again, so
            that equal parameters are equal operations, but for the scores of attention.
Fixed       Two blocks, four heads, RMS norms, rotary positions, ReLU; 300 steps of 8 rows of 32
            tokens. Muon moves the matrices of the blocks, AdamW the embedding, at one
            rate. The length of Muon's steps follows the shape of a matrix.
Rates       Three. `edges` adds rates until an arm's best is neither its lowest nor its highest.
Seeds       Three at every rate. Their mean chooses the rate; all of them are kept.
Measured    The loss on the beginnings of held-out stories, in nats per token.
Against     Four times the stream is a poor choice if another width is ahead of it by more than two
            standard errors, seed by seed.

Chapter 6 reads the table, and a test repeats one of its rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import torch
from trial import Trial, beginnings, seeded, stories

from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.training import TrainConfig, train

LENGTH, VOCABULARY, BLOCKS = 32, 512, 2
WIDTHS = (88, 80, 72, 64, 56, 48, 40)
SEEDS = range(3)


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    d_model: int
    learning_rate: float = 2e-2
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What follows from D, and the loss on held-out stories, in nats per token."""

    d_mlp: int
    parameters: int
    loss: float


ARMS = [Run(d_model=width) for width in WIDTHS]
RATES = (1e-2, 2e-2, 4e-2)
TRIAL = Trial("hidden_widths", Run, Found)


def hidden_width(d_model: int) -> int:
    """F, for as many parameters as D = 64 and F = 256 have."""
    budget = VOCABULARY * 64 + BLOCKS * (4 * 64**2 + 2 * 64 * 256)
    left = budget - VOCABULARY * d_model - BLOCKS * 4 * d_model**2
    return round(left / (2 * BLOCKS * d_model))


def rates() -> Iterator[list[Run]]:
    """All widths at three rates."""
    yield [
        replace(arm, learning_rate=rate, seed=seed)
        for arm, rate, seed in product(ARMS, RATES, SEEDS)
    ]


def edges() -> Iterator[list[Run]]:
    """Rates beyond the lowest or the highest of an arm, while that is its best."""
    while wanted := [run for arm in ARMS for run in beyond(arm)]:
        yield wanted


def beyond(arm: Run) -> list[Run]:
    tried = {rate for (rate,) in TRIAL.scores(arm)}
    best = TRIAL.best(arm, seeds=SEEDS).learning_rate
    further = {min(tried): best / 2, max(tried): 2 * best}.get(best)
    if further is None:
        return []
    return [replace(arm, learning_rate=further, seed=seed) for seed in SEEDS]


def build(run: Run) -> GPT:
    config = GPTConfig(
        vocab_size=VOCABULARY,
        context_length=LENGTH,
        d_model=run.d_model,
        d_mlp=hidden_width(run.d_model),
        n_layers=BLOCKS,
        n_heads=4,
        positions="rotary",
        norm="rms",
        activation="relu",
        bias=False,
        initialization="zero",
    )
    return GPT(config, generator=seeded(run.seed))


def measure(run: Run) -> Found:
    """Make one run."""
    corpus, unseen = stories()
    held_out = beginnings(unseen, LENGTH)
    model = build(run)
    recipe = TrainConfig(
        steps=300,
        batch_size=8,
        optimizer="muon",
        learning_rate=run.learning_rate,
        weight_decay=0.0,
        seed=run.seed,
    )
    train(model, corpus, None, recipe)
    with torch.no_grad():
        loss = next_token_loss(model(held_out[:, :-1]), held_out[:, 1:]).item()
    return Found(
        d_mlp=model.config.mlp_width, parameters=model.count_parameters(), loss=loss
    )


if __name__ == "__main__":
    TRIAL.main(measure, rates=rates, edges=edges)
