"""How noisy is a gradient, on the way of a training?

    python benchmarks/trials/gradient_noise.py

Chapter 9's model learns with AdamW from batches of eight, as in `batches.py`. At six of its states
the gradients of 256 single rows that it is not trained on in that step give the simple noise scale
of McCandlish et al. (2018), the trace of their covariance over the squared length of their mean,
both without bias. Adam's step divides each component by the root of v. Its scale is that with the
squares divided by v where all curvatures are equal, and by the root of v where they grow like it.

The table goes into the package, for chapter 9. Runs that stand in it are not made again.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import torch
from batches import WARMUP, Point, begin
from trial import Table
from updates import SHAPE, material

from decoder_only.data import Corpus, training_batch
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.training import NextTokenLoss, evaluate, train_step
from decoder_only.training.optimizers import set_learning_rate

N_ROWS = 256
STATES = (5, 10, 20, 40, 80, 160)
RATE, SEEDS = 2.5e-3, (0, 1, 2)


@dataclass(frozen=True, kw_only=True)
class State:
    """A model on its way."""

    learning_rate: float
    step: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Noise(State):
    """Its loss; the gradient's squared length and its variance, one row at a time.

    Both also with each component's square divided by Adam's root of v, and by v.
    """

    loss: float
    signal: float
    variance: float
    root_signal: float
    root_variance: float
    v_signal: float
    v_variance: float


TABLE = Table("gradient_noise", State)


def states() -> Iterator[State]:
    """The last of each seed; on the way there the others are met."""
    for seed in SEEDS:
        yield State(learning_rate=RATE, step=STATES[-1], seed=seed)


def measure(last: State) -> Iterator[Noise]:
    """Train, and measure on the way."""
    openings, held_out = material()
    point = Point(batch_size=8, learning_rate=last.learning_rate, seed=last.seed)
    model, optimizers = begin(point)
    for step in range(last.step):
        set_learning_rate(optimizers, min(1, (step + 1) / WARMUP))
        batch = training_batch(
            openings, batch_size=8, context_length=64, seed=last.seed, step=step
        )
        train_step(NextTokenLoss(model), optimizers, *batch)
        if step + 1 in STATES:
            state = replace(last, step=step + 1)
            loss = evaluate(model, held_out).loss
            yield noise_of(model, optimizers[0], openings, state, loss)


def noise_of(
    model: GPT,
    optimizer: torch.optim.Optimizer,
    corpus: Corpus,
    state: State,
    loss: float,
) -> Noise:
    """From the gradients of single rows, drawn by a seed that training does not use."""
    weights = list(model.parameters())
    total, squares = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    for step in range(N_ROWS):
        inputs, targets = training_batch(
            corpus,
            batch_size=1,
            context_length=SHAPE["context_length"],
            seed=1000 + state.seed,
            step=N_ROWS * state.step + step,
        )
        row_loss = next_token_loss(model(inputs), targets)
        gradients = torch.autograd.grad(row_loss, weights)
        torch._foreach_add_(total, gradients)
        torch._foreach_addcmul_(squares, gradients, gradients)
    found = []
    held = [optimizer.state[w] for w in weights]
    correction = 1 - 0.95**state.step
    roots = [(kept["exp_avg_sq"] / correction).sqrt() + 1e-8 for kept in held]
    for power in (0, 1, 2):
        signal = variance = 0.0
        for added, square, root in zip(total, squares, roots, strict=True):
            mean = added / N_ROWS
            own = (square - N_ROWS * mean**2) / (N_ROWS - 1)
            signal += ((mean**2 - own / N_ROWS) / root**power).sum().item()
            variance += (own / root**power).sum().item()
        found += [signal, variance]
    kinds = ("", "root_", "v_")
    names = [kind + name for kind in kinds for name in ("signal", "variance")]
    written = {n: float(f"{x:.6g}") for n, x in zip(names, found, strict=True)}
    return Noise(**asdict(state), loss=round(loss, 5), **written)


if __name__ == "__main__":
    TABLE.make(measure, {"states": states})
