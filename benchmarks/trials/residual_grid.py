"""Residual path, norm, both or neither: which deep models can be trained, and how easily?

    python benchmarks/trials/residual_grid.py grid edges edges seeds hurried long

Models of twelve blocks learn the beginnings of the same stories.

Arms        Five wirings: pre-norm, post-norm, no residual path, no norm, neither. Each starts at
            four scales. Three draw the matrices of the blocks with a standard deviation of
            `gain` / sqrt(inputs), and the tables and the head at unit scale. The fourth (`gain` 0)
            starts everything as GPT-2 does.
Fixed       160 steps of AdamW, of which 40 are warm-up. `hurried` leaves out the warm-up, for
            pre-norm and post-norm at the three smaller scales. `long` gives these two four times
            the steps at gain 1.
Rates       Three, with seed 0. `edges` adds one where the best is the lowest or the highest.
Seeds       Two more at the best rate of every wiring and scale.
Measured    The loss on held-out stories, in nats per token; infinite if it is no number any more.
            Beside it is the loss of `frequencies`: a table of how often each token is at each
            position, and nothing else.
Against     Pre-norm is not special if another wiring learns as well from as many scales and at as
            many rates.

Chapter 5 reads the table.
"""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor
from trial import Trial, beginnings, learn, seeded, stories

from decoder_only.data import training_batch
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss

LENGTH = 32
RATES = (1e-3, 3e-3, 1e-2)
GAINS = (0.0, 0.5, 1.0, 2.0)

WIRINGS: dict[str, Callable] = {
    "pre": lambda x, part, norm: x + part(norm(x)),
    "post": lambda x, part, norm: norm(x + part(x)),
    "no residual": lambda x, part, norm: part(norm(x)),
    "no norm": lambda x, part, norm: x + part(x),
    "neither": lambda x, part, norm: part(x),
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    wiring: str
    gain: float
    learning_rate: float = RATES[0]
    warmup: int = 40
    steps: int = 160
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured, in nats per token."""

    loss: float
    frequencies: float


ARMS = [Run(wiring=wiring, gain=gain) for wiring, gain in product(WIRINGS, GAINS)]
TRIAL = Trial("residual_grid", Run, Found, arms=ARMS, seeds=(1, 2))


def grid() -> Iterator[list[Run]]:
    """Every wiring at every scale, at three rates."""
    yield [replace(arm, learning_rate=rate) for arm, rate in product(ARMS, RATES)]


def edges() -> Iterator[list[Run]]:
    """One more rate where the best is the lowest or the highest."""
    best = [TRIAL.best(arm) for arm in ARMS]
    rates = [run.learning_rate for run in best]
    lower = [
        replace(run, learning_rate=round(rate / 3.2, 5))
        for run, rate in zip(best, rates, strict=True)
        if rate <= RATES[0]
    ]
    higher = [
        replace(run, learning_rate=round(rate * 3.2, 3))
        for run, rate in zip(best, rates, strict=True)
        if rate >= RATES[-1]
    ]
    yield lower + higher


def hurried() -> Iterator[list[Run]]:
    """Pre-norm and post-norm without warm-up, at the three smaller scales."""
    arms = [arm for arm in ARMS if arm.wiring in ("pre", "post") and arm.gain < 2]
    yield [
        replace(arm, learning_rate=rate, warmup=1) for arm, rate in product(arms, RATES)
    ]


def long() -> Iterator[list[Run]]:
    """Pre-norm and post-norm at gain 1, with four times the steps."""
    for wiring, seed in product(("pre", "post"), range(3)):
        best = TRIAL.best(Run(wiring=wiring, gain=1.0))
        yield [replace(best, steps=640, warmup=160, seed=seed)]


@functools.cache
def frequencies() -> float:
    """The loss of shares by position, mixed with a little of the shares overall."""
    learned, held_out = (beginnings(corpus, LENGTH) for corpus in stories())
    columns = learned[:, 1:].T
    counts = torch.stack([column.bincount(minlength=512) for column in columns])
    overall = (counts.sum(0) + 1) / (counts.sum() + 512)
    shares = (counts + 20 * overall) / (counts.sum(1, keepdim=True) + 20)
    return -shares.log().T[held_out[:, 1:], torch.arange(LENGTH)].mean().item()


@torch.no_grad()
def build(run: Run) -> GPT:
    config = GPTConfig(
        vocab_size=512,
        context_length=LENGTH,
        d_model=32,
        n_layers=12,
        n_heads=4,
        norm_position="post" if run.wiring == "post" else "pre",
        tied=run.gain == 0,
    )
    generator = seeded(run.seed)
    model = GPT(config, generator=generator)
    if run.gain:
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2:
                # A table gives one row; a matrix adds up as many numbers as it reads.
                is_table = name.startswith(("embedding", "positions"))
                n_inputs = 1 if is_table else parameter.shape[1]
                gain = run.gain if name.startswith("blocks") else 1
                parameter.normal_(std=gain * n_inputs**-0.5, generator=generator)
    return model


def forward(model: GPT, ids: Tensor, wiring: str) -> Tensor:
    """The logits of a model, wired in one of five ways."""
    x = model.positions(model.embedding(ids))
    for block in model.blocks:
        x = WIRINGS[wiring](x, block.attention, block.attention_norm)
        x = WIRINGS[wiring](x, block.mlp, block.mlp_norm)
    return model.head(model.final_norm(x), model.head_weight)


def measure(run: Run) -> Found:
    """Make one run."""
    corpus, unseen = stories()
    held_out = beginnings(unseen, LENGTH)
    model = build(run)

    def loss_at(step: int) -> Tensor:
        inputs, targets = training_batch(
            corpus, batch_size=8, context_length=LENGTH, seed=run.seed, step=step
        )
        return next_token_loss(forward(model, inputs, run.wiring), targets)

    rate, warmup = run.learning_rate, run.warmup
    learn(model, loss_at, steps=run.steps, learning_rate=rate, warmup=warmup)
    with torch.no_grad():
        logits = forward(model, held_out[:, :-1], run.wiring)
    loss = next_token_loss(logits, held_out[:, 1:]).item()
    ended = loss if math.isfinite(loss) else math.inf
    return Found(loss=ended, frequencies=frequencies())


if __name__ == "__main__":
    TRIAL.main(
        measure,
        grid=grid,
        edges=edges,
        seeds=TRIAL.repeat,
        hurried=hurried,
        long=long,
    )
