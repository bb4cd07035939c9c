"""Layer norm or batch norm: at how many learning rates does a model learn, and is it left in use?

    python benchmarks/trials/batch_norm.py grid short

Models of two blocks learn the beginnings of stories. All norms of a model are of one kind.

Arms        Layer norm and batch norm, each with batches of eight rows of 32 tokens, and with single
            rows of 16.
Fixed       D = 32, 300 steps of AdamW.
Rates       Five, from 0.001 to 0.1.
Seeds       Three at every rate.
Measured    The loss in nats per token, on the last 50 steps of training and on held-out stories.
            Batch norm is judged twice on these: with the averages that it kept while training,
            which is how it is used, and with the statistics of the batch, as in training. The
            first says what it costs to do without the neighbours. What the second gains over it
            may come from noise in the averages, or from later tokens, which those statistics
            contain.
Repeated    `short`, from which laboratory 5 makes one again: the first twenty steps, all of them in
            the warm-up, with batches of eight rows. Their training loss is the mean of all twenty.
Against     "Layer norm is more stable" fails if batch norm is as good, at as many rates.

Chapter 5 reads the table.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor, nn
from trial import Trial, learn, seeded, stories

from decoder_only.data import Corpus, training_batch
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss

NORMS = ("layer", "batch")
BATCHES = ((8, 32), (1, 16))  # rows, and tokens in each
RATES = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
SEEDS = range(3)
SHORT = 20


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    norm: str
    batch_size: int
    length: int
    learning_rate: float
    seed: int
    steps: int = 300


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured, in nats per token; `training` is the mean of the last 50 steps."""

    training: float
    held_out: float
    held_out_by_batch: float


TRIAL = Trial("batch_norm", Run, Found, score="held_out")


def grid() -> Iterator[list[Run]]:
    """Both norms, both batches, five rates, three seeds."""
    yield [
        Run(norm=norm, batch_size=rows, length=length, learning_rate=rate, seed=seed)
        for (rows, length), rate, seed, norm in product(BATCHES, RATES, SEEDS, NORMS)
    ]


def short() -> Iterator[list[Run]]:
    """Twenty steps of both norms at every rate, from two seeds, to be made again in a moment."""
    (runs,) = grid()
    yield [
        replace(run, steps=SHORT)
        for run in runs
        if run.batch_size == 8 and run.seed < 2
    ]


class BatchNorm(nn.BatchNorm1d):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(0, 1)).view_as(x)


def build(run: Run) -> GPT:
    """The model of a run as it starts."""
    config = GPTConfig(
        vocab_size=512, context_length=32, d_model=32, n_layers=2, n_heads=4
    )
    model = GPT(config, generator=seeded(run.seed))
    if run.norm == "batch":
        for block in model.blocks:
            block.attention_norm, block.mlp_norm = BatchNorm(32), BatchNorm(32)
        model.final_norm = BatchNorm(32)
    return model


def loss_of(model: GPT, run: Run, corpus: Corpus, step: int) -> Tensor:
    inputs, targets = training_batch(
        corpus,
        batch_size=run.batch_size,
        context_length=run.length,
        seed=run.seed,
        step=step,
    )
    return next_token_loss(model(inputs), targets)


@torch.no_grad()
def held_out_loss(model: GPT, run: Run, corpus: Corpus) -> float:
    n_batches = 400 // run.batch_size
    losses = [loss_of(model, run, corpus, step).item() for step in range(n_batches)]
    return sum(losses) / n_batches


def measure(run: Run) -> Found:
    """Make one run."""
    corpus, held_out = stories()
    model = build(run)
    losses = learn(
        model,
        lambda step: loss_of(model, run, corpus, step),
        steps=run.steps,
        learning_rate=run.learning_rate,
        warmup=30,
    )
    used = held_out_loss(model.eval(), run, held_out)
    # In training mode: the statistics of each batch, and no averages are kept of them.
    by_batch = held_out_loss(model.train(), run, held_out)
    training = sum(losses[-50:]) / len(losses[-50:])
    return Found(training=training, held_out=used, held_out_by_batch=by_batch)


if __name__ == "__main__":
    TRIAL.main(measure, grid=grid, short=short)
