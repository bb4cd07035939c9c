"""How large should a batch be: how many steps, and how many rows, does each size need?

    python benchmarks/trials/batches.py rates seeds again

Models of chapter 9 learn the openings of stories. How many steps does the loss on held-out openings
take to fall to 4.5 nats, and to 3.5?

Arms        Batches of 1 to 64 rows.
Fixed       AdamW, ten steps of warm-up and then a constant rate, no clipping.
Rates       Halved and doubled until the best of seed 0 is between two others, for either loss.
Seeds       Three fresh ones at each best rate. Without clipping, that rate may be one at which
            other seeds get stuck. So `again` tries half of a rate with seeds 1 to 3, if seed 0 was
            faster there than these are on average, and goes on from there. Where seeds 1 to 3 have
            thus chosen among rates, three others measure the chosen one.
Measured    Steps until the loss was 4.5 (`steps_high`) and 3.5 (`steps_low`), interpolated.
Against     The noise scale (`gradient_noise.py`) is off if the size at which steps and rows are
            both twice their least differs from it by more than a factor of two. (The first edition
            of this trial allowed four.)

Chapter 9 reads the table.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from trial import Trial
from updates import arm, build, material

from decoder_only.data import Corpus, training_batch
from decoder_only.model.gpt import GPT
from decoder_only.training import NextTokenLoss, evaluate, train_step
from decoder_only.training.optimizers import build_optimizers, set_learning_rate

HIGH, LOW = 4.5, 3.5
WARMUP = 10
SEEDS, OTHERS = (1, 2, 3), (4, 5, 6)


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    batch_size: int
    learning_rate: float
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: steps until the loss was HIGH, and LOW; inf if it never was."""

    steps_high: float
    steps_low: float


ARMS = [  # the first rates grow with the root of the batch
    Run(batch_size=size, learning_rate=2.5e-3 * 2 ** round(math.log2(size / 4) / 2))
    for size in (1, 2, 4, 8, 16, 32, 64)
]
TRIAL = Trial("batches", Run, Found, arms=ARMS, seeds=SEEDS, score="steps_low")


def rates() -> Iterator[list[Run]]:
    """Halve and double every arm's rate until the best for either loss is inside."""
    yield from TRIAL.search(score="steps_low")
    yield from TRIAL.search(score="steps_high")


def seeds() -> Iterator[list[Run]]:
    """Every arm at both of its best rates, from three fresh seeds."""
    yield from TRIAL.repeat(score="steps_low")
    yield from TRIAL.repeat(score="steps_high")


def again() -> Iterator[list[Run]]:
    """Lower rates where these seeds got stuck, and then other seeds at the best."""
    for each in ARMS:
        while half := lower_rate(each):
            yield [replace(each, learning_rate=half, seed=seed) for seed in SEEDS]
        if len(mean_steps(each)) > 1:
            best = TRIAL.best(each, seeds=SEEDS)
            yield [replace(best, seed=seed) for seed in OTHERS]


def mean_steps(each: Run) -> dict[float, float]:
    """Mean steps of seeds 1 to 3 down to LOW, at each rate that all of them have run."""
    found = [TRIAL.scores(replace(each, seed=seed)) for seed in SEEDS]
    shared = set.intersection(*map(set, found))
    return {rate: sum(one[rate,] for one in found) / 3 for (rate,) in sorted(shared)}


def lower_rate(each: Run) -> float | None:
    """Half of the lowest rate of seeds 1 to 3, if that is their best and half may be better."""
    means = mean_steps(each)
    lowest = min(means)
    first = TRIAL.scores(each).get((lowest / 2,), 0.0)
    is_open = means[lowest] == min(means.values()) and first < means[lowest]
    return lowest / 2 if is_open else None


@functools.cache
def few(held_out: Corpus) -> Corpus:
    """The first half of the held-out openings, since they are used often."""
    cut = int(held_out.starts[len(held_out.starts) // 2])
    starts = held_out.starts[held_out.starts < cut]
    return replace(held_out, ids=held_out.ids[: cut + 1], starts=starts)


def begin(learning_rate: float, seed: int) -> tuple[GPT, list[torch.optim.Optimizer]]:
    """A model of chapter 9, and what will train it."""
    model = build(replace(arm("adamw"), seed=seed))
    settings = {"learning_rate": learning_rate, "weight_decay": 0.0}
    return model, build_optimizers(model, **settings)


def measure(run: Run) -> Found:
    """Make one run."""
    openings, held_out = material()
    model, optimizers = begin(run.learning_rate, run.seed)
    step, look, before = 0, 8, (1.0, math.inf)
    reached = {HIGH: math.inf, LOW: math.inf}
    while math.isinf(reached[LOW]) and step < min(2000, 8192 // run.batch_size):
        set_learning_rate(optimizers, min(1, (step + 1) / WARMUP))
        size = {"batch_size": run.batch_size, "context_length": 64}
        batch = training_batch(openings, seed=run.seed, step=step, **size)
        train_step(NextTokenLoss(model), optimizers, *batch)
        step += 1
        if step < look:
            continue
        look = max(step + 1, round(1.07 * step))
        loss = evaluate(model, few(held_out)).loss
        for target in reached:
            if math.isinf(reached[target]) and loss <= target:
                share = 1.0
                if before[1] > target:  # in between, on a straight line
                    share = min(1.0, (before[1] - target) / (before[1] - loss))
                reached[target] = round(before[0] + share * (step - before[0]), 2)
        before = (float(step), loss)
        if run.seed == 0 and loss > 10:
            break
    return Found(steps_high=reached[HIGH], steps_low=reached[LOW])


if __name__ == "__main__":
    TRIAL.main(measure, rates=rates, seeds=seeds, again=again)
