"""What a training run looks like when it is well, and when it is not.

    python benchmarks/trials/readings.py

A model of chapter 9 learns the openings of stories, and everything that one would plot is kept.

Arms        `healthy`: AdamW at the best rates of `schedules.py`, warm-up, stable, decay, clipped to
            a length of 1. Each of the others differs from it in one thing:
            `too fast`, `too slow`: both rates times 8; over 32.
            `few texts`: 60 openings instead of 4,000.
            `bad batch`: at step 100 the rows are random tokens.
            `bad batch, not clipped`: the same without clipping; `not clipped`: its control.
Seeds       Three; the lesson draws the first.
Measured    Every fifth step, and every step from 96 to 120: the loss of the batch, the length of
            its gradient before clipping, how far the matrices moved in relation to their size, and
            the held-out loss (of every fifth step).
Against     The arms cannot be told apart by these curves.

The lesson of chapter 9 and its laboratory read the table.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
import updates
from batches import few
from trial import Trial, seeded

from decoder_only.data import training_batch
from decoder_only.model.gpt import GPT, GPTConfig
from decoder_only.training import NextTokenLoss, evaluate, train_step
from decoder_only.training.optimizers import set_learning_rate, warmup_stable_decay

STEPS, BAD = 200, 100
RATES = (5e-3, 0.02)
ARMS = ("healthy", "too fast", "too slow", "few texts", "bad batch")
ARMS += ("bad batch, not clipped", "not clipped")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    arm: str
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is read off a step, counted from 1."""

    step: int
    loss: float
    norm: float
    ratio: float
    held_out: float


TRIAL = Trial("readings", Run, Found, digits=4)


def arms() -> Iterator[list[Run]]:
    """All arms, three seeds."""
    yield [Run(arm=arm, seed=seed) for arm in ARMS for seed in (1, 2, 3)]


def measure(run: Run) -> list[Found]:
    """Make one run."""
    openings, held_out = updates.material(60 if run.arm == "few texts" else 4000)
    held_out = few(held_out)
    model = GPT(GPTConfig(**updates.SHAPE), generator=seeded(run.seed))
    factor = {"too fast": 8.0, "too slow": 1 / 32}.get(run.arm, 1.0)
    settings = {"learning_rate": factor * RATES[0]}
    settings["table_learning_rate"] = factor * RATES[1]
    optimizers = updates.optimizers_of(updates.Run(rule="adamw", **settings), model)
    matrices = optimizers[0].param_groups[0]["params"]
    share_at = partial(warmup_stable_decay, warmup_steps=20, total_steps=STEPS)
    limit = None if "not clipped" in run.arm else 1.0
    noise, found, seen = seeded(run.seed), [], 0.0
    for step in range(STEPS):
        set_learning_rate(optimizers, share_at(step))
        size = {"batch_size": updates.BATCH, "context_length": 64}
        inputs, targets = training_batch(openings, seed=run.seed, step=step, **size)
        if run.arm.startswith("bad batch") and step + 1 == BAD:
            inputs, targets = torch.randint(1024, (2, *inputs.shape), generator=noise)
        before = flat(matrices)
        result = train_step(
            NextTokenLoss(model), optimizers, inputs, targets, max_gradient_norm=limit
        )
        if step % 5 == 0 or step == STEPS - 1:
            seen = evaluate(model, held_out).loss
        if step % 5 == 0 or 96 <= step + 1 <= 120 or step == STEPS - 1:
            ratio = (flat(matrices) - before).norm() / before.norm()
            row = {"norm": result.gradient_norm.item(), "ratio": ratio.item()}
            row |= {"loss": result.loss.item(), "held_out": seen}
            found.append(Found(step=step + 1, **row))
    return found


def flat(weights: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in weights])


if __name__ == "__main__":
    TRIAL.main(measure, arms=arms)
