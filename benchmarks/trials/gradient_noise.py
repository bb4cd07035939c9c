"""How noisy is a gradient, along the way of a training?

    python benchmarks/trials/gradient_noise.py

Chapter 9's model learns with AdamW from batches of eight, as in `batches.py`.

Measured    At six states of the training, from the gradients of 256 single rows that the step does
            not train on: the squared length of their mean (`signal`) and the trace of their
            covariance (`variance`), both without bias. Their ratio is the simple noise scale of
            McCandlish et al. (2018). Adam's step divides each component by the root of v. Its noise
            scale has the squares divided by v if all curvatures are equal, and by the root of v if
            they grow like it. So the table also has both sums divided by the root of v (`root_`)
            and by v (`v_`).
Seeds       Three, at one rate.
Against     See `batches.py`, which measures what the noise scale is to predict.

Chapter 9 reads the table.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from batches import WARMUP, begin
from trial import Trial
from updates import SHAPE, material

from decoder_only.data import Corpus, training_batch
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.training import NextTokenLoss, evaluate, train_step
from decoder_only.training.optimizers import set_learning_rate

N_ROWS = 256
STATES = (5, 10, 20, 40, 80, 160)


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    learning_rate: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured of a state: its loss, and its gradient's squared length and variance."""

    step: int
    loss: float
    signal: float
    variance: float
    root_signal: float
    root_variance: float
    v_signal: float
    v_variance: float


TRIAL = Trial("gradient_noise", Run, Found, digits=None)


def seeds() -> Iterator[list[Run]]:
    """Three seeds at one rate."""
    yield [Run(learning_rate=2.5e-3, seed=seed) for seed in range(3)]


def measure(run: Run) -> Iterator[Found]:
    """Train, and measure on the way."""
    openings, held_out = material()
    model, optimizers = begin(run.learning_rate, run.seed)
    for step in range(STATES[-1]):
        set_learning_rate(optimizers, min(1, (step + 1) / WARMUP))
        batch = training_batch(
            openings, batch_size=8, context_length=64, seed=run.seed, step=step
        )
        train_step(NextTokenLoss(model), optimizers, *batch)
        if step + 1 in STATES:
            loss = round(evaluate(model, held_out).loss, 5)
            sums = noise_of(model, optimizers[0], openings, step + 1, run.seed)
            yield Found(step=step + 1, loss=loss, **sums)


def noise_of(
    model: GPT,
    optimizer: torch.optim.Optimizer,
    corpus: Corpus,
    at_step: int,
    seed: int,
) -> dict[str, float]:
    """The sums, from the gradients of single rows. Training does not use the seed of these."""
    weights = list(model.parameters())
    total, squares = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    for step in range(N_ROWS):
        inputs, targets = training_batch(
            corpus,
            batch_size=1,
            context_length=SHAPE["context_length"],
            seed=1000 + seed,
            step=N_ROWS * at_step + step,
        )
        row_loss = next_token_loss(model(inputs), targets)
        gradients = torch.autograd.grad(row_loss, weights)
        torch._foreach_add_(total, gradients)
        torch._foreach_addcmul_(squares, gradients, gradients)
    held = [optimizer.state[w] for w in weights]
    correction = 1 - 0.95**at_step
    roots = [(kept["exp_avg_sq"] / correction).sqrt() + 1e-8 for kept in held]
    found = {}
    for power, kind in enumerate(("", "root_", "v_")):
        signal = variance = 0.0
        for added, square, root in zip(total, squares, roots, strict=True):
            mean = added / N_ROWS
            own = (square - N_ROWS * mean**2) / (N_ROWS - 1)
            signal += ((mean**2 - own / N_ROWS) / root**power).sum().item()
            variance += (own / root**power).sum().item()
        found[f"{kind}signal"] = float(f"{signal:.6g}")
        found[f"{kind}variance"] = float(f"{variance:.6g}")
    return found


if __name__ == "__main__":
    TRIAL.main(measure, seeds=seeds)
