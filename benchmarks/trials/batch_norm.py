"""Layer norm against batch norm: how many learning rates work, and what is left in use.

    python benchmarks/trials/batch_norm.py

Models of two blocks learn the beginnings of stories, every norm one or the other, from batches of
eight rows of 32 tokens and from single rows of 16; five rates, three seeds each. Batch norm is
judged twice on stories that were held out: as it is used, by the averages that it kept while
training, and by the statistics of batches as it saw them in training. The first alone says what
it costs to do without the neighbours; what the second gains over the first may come from the
averages' noise, or from tokens to come, which those statistics contain.

What would count against "more stable": batch norm as good, at as many rates. The table goes
into the package, for chapter 5. Runs that stand in it are not made again.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product

import torch
from torch import Tensor, nn
from trial import Table, learn, stories

from decoder_only.data import Corpus, training_batch
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss

RATES = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    norm: str
    batch_size: int
    length: int
    learning_rate: float
    seed: int
    steps: int = 300


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it, in nats per token; training is the mean of the last 50 steps."""

    training: float
    held_out: float
    held_out_by_batch: float
    processor_seconds: float


TABLE = Table("batch_norm", Point)


def points() -> Iterator[Point]:
    for (size, length), rate, seed, norm in product(
        ((8, 32), (1, 16)), RATES, range(3), ("layer", "batch")
    ):
        yield Point(
            norm=norm, batch_size=size, length=length, learning_rate=rate, seed=seed
        )


class BatchNorm(nn.BatchNorm1d):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(0, 1)).view_as(x)


def build(point: Point) -> GPT:
    config = GPTConfig(
        vocab_size=512, context_length=32, d_model=32, n_layers=2, n_heads=4
    )
    model = GPT(config, generator=torch.Generator().manual_seed(point.seed))
    if point.norm == "batch":
        for block in model.blocks:
            block.attention_norm, block.mlp_norm = BatchNorm(32), BatchNorm(32)
        model.final_norm = BatchNorm(32)
    return model


def loss_of(model: GPT, point: Point, corpus: Corpus, step: int) -> Tensor:
    inputs, targets = training_batch(
        corpus,
        batch_size=point.batch_size,
        context_length=point.length,
        seed=point.seed,
        step=step,
    )
    return next_token_loss(model(inputs), targets)


@torch.no_grad()
def held_out_loss(model: GPT, point: Point, corpus: Corpus) -> float:
    n_batches = 400 // point.batch_size
    losses = [loss_of(model, point, corpus, step).item() for step in range(n_batches)]
    return sum(losses) / n_batches


def measure(point: Point) -> Row:
    """Make one run."""
    corpus, held_out = stories()
    began = time.process_time()
    model = build(point)
    losses = learn(
        model,
        lambda step: loss_of(model, point, corpus, step),
        steps=point.steps,
        learning_rate=point.learning_rate,
        warmup=30,
    )
    used = held_out_loss(model.eval(), point, held_out)
    # Statistics of each batch, and no averages kept of them.
    by_batch = held_out_loss(model.train(), point, held_out)
    return Row(
        **asdict(point),
        training=round(sum(losses[-50:]) / 50, 5),
        held_out=round(used, 5),
        held_out_by_batch=round(by_batch, 5),
        processor_seconds=round(time.process_time() - began, 1),
    )


if __name__ == "__main__":
    TABLE.make(measure, {"points": points})
