"""Residual path, norm, both or neither: which deep models can be trained, and how easily?

    python benchmarks/trials/residual_grid.py grid edges edges seeds hurried long

Five wirings of one model of twelve blocks learn the beginnings of the same stories, started at four
scales: matrices of the blocks normal with `gain` / sqrt(inputs), embeddings and head at unit scale;
or everything as GPT-2 starts it (`gain` 0). `grid` is every wiring at every scale at three rates,
one seed; `edges` adds a rate where the best is the lowest or the highest; `seeds` repeats the best
rate of every wiring and scale with two more seeds. `hurried` leaves out the warm-up, for pre-norm
and post-norm at the three smaller scales; `long` gives these two four times the steps at gain 1.

What would count against pre-norm: another wiring that learns as well from as many scales and at as
many rates. Judged by the loss on stories that were held out, against the loss of `frequencies`: a
table of how often each token stands at each position, and nothing else. A loss that is no number
any more is written as infinite. The table goes into the package, for chapter 5. Runs that stand in
it are not made again.
"""

import functools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product

import torch
from torch import Tensor
from trial import Table, beginnings, learn, stories

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
class Point:
    """One run, by what sets it apart from the others."""

    wiring: str
    gain: float
    learning_rate: float
    warmup: int = 40
    steps: int = 160
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it. Losses are in nats per token."""

    loss: float
    frequencies: float
    processor_seconds: float


TABLE = Table("residual_grid", Point)


def grid() -> Iterator[Point]:
    for wiring, gain, rate in product(WIRINGS, GAINS, RATES):
        yield Point(wiring=wiring, gain=gain, learning_rate=rate)


def edges() -> Iterator[Point]:
    for point in best():
        if point.learning_rate <= RATES[0]:
            yield replace(point, learning_rate=round(point.learning_rate / 3.2, 5))
        if point.learning_rate >= RATES[-1]:
            yield replace(point, learning_rate=round(point.learning_rate * 3.2, 3))


def seeds() -> Iterator[Point]:
    for point, seed in product(best(), (1, 2)):
        yield replace(point, seed=seed)


def hurried() -> Iterator[Point]:
    for wiring, gain, rate in product(("pre", "post"), GAINS[:3], RATES):
        yield Point(wiring=wiring, gain=gain, learning_rate=rate, warmup=1)


def long() -> Iterator[Point]:
    for point, seed in product(best(), range(3)):
        if point.wiring in ("pre", "post") and point.gain == 1:
            yield replace(point, steps=640, warmup=160, seed=seed)


EXPERIMENTS = {each.__name__: each for each in (grid, edges, seeds, hurried, long)}


def best() -> list[Point]:
    """Of every wiring and scale, the run of the first seed that ended lowest."""
    ends: dict[tuple[str, str], dict[str, str]] = {}
    for row in TABLE.rows():
        if (row["warmup"], row["steps"], row["seed"]) == ("40", "160", "0"):
            arm = row["wiring"], row["gain"]
            if arm not in ends or float(row["loss"]) < float(ends[arm]["loss"]):
                ends[arm] = row
    return [
        Point(
            wiring=wiring, gain=float(gain), learning_rate=float(row["learning_rate"])
        )
        for (wiring, gain), row in ends.items()
    ]


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
def build(point: Point) -> GPT:
    config = GPTConfig(
        vocab_size=512,
        context_length=LENGTH,
        d_model=32,
        n_layers=12,
        n_heads=4,
        norm_position="post" if point.wiring == "post" else "pre",
        tied=point.gain == 0,
    )
    generator = torch.Generator().manual_seed(point.seed)
    model = GPT(config, generator=generator)
    if point.gain:
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2:
                # A table hands out one row, a matrix adds up as many numbers as it reads.
                is_table = name.startswith(("embedding", "positions"))
                n_inputs = 1 if is_table else parameter.shape[1]
                gain = point.gain if name.startswith("blocks") else 1
                parameter.normal_(std=gain * n_inputs**-0.5, generator=generator)
    return model


def run(model: GPT, ids: Tensor, wiring: str) -> Tensor:
    x = model.positions(model.embedding(ids))
    for block in model.blocks:
        x = WIRINGS[wiring](x, block.attention, block.attention_norm)
        x = WIRINGS[wiring](x, block.mlp, block.mlp_norm)
    return model.head(model.final_norm(x), model.head_weight)


def measure(point: Point) -> Row:
    """Make one run."""
    corpus, unseen = stories()
    held_out = beginnings(unseen, LENGTH)
    began = time.process_time()
    model = build(point)

    def loss_at(step: int) -> Tensor:
        inputs, targets = training_batch(
            corpus, batch_size=8, context_length=LENGTH, seed=point.seed, step=step
        )
        return next_token_loss(run(model, inputs, point.wiring), targets)

    rate, warmup = point.learning_rate, point.warmup
    learn(model, loss_at, steps=point.steps, learning_rate=rate, warmup=warmup)
    with torch.no_grad():
        logits = run(model, held_out[:, :-1], point.wiring)
    ended = next_token_loss(logits, held_out[:, 1:]).item()
    return Row(
        **asdict(point),
        loss=round(ended, 5) if math.isfinite(ended) else math.inf,
        frequencies=round(frequencies(), 5),
        processor_seconds=round(time.process_time() - began, 1),
    )


if __name__ == "__main__":
    TABLE.make(measure, EXPERIMENTS)
