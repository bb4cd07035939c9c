"""How large should a batch be? What sizes really cost.

    python benchmarks/trials/batches.py rates seeds again

Models of chapter 9 learn the openings of stories with AdamW at a constant rate after ten steps of
warm-up, from batches of 1 to 64 rows; how many steps until the loss on held-out openings falls to
4.5, and to 3.5 nats? `rates`: each size at rates a factor of two apart until the best, for either
loss, lies between two others; seed 0. `seeds`: three fresh seeds at each best rate. Without
clipping, the best rate of one seed may be one at which others get stuck. So `again` runs half of a
rate with seeds 1 to 3, too, where seed 0 was faster there than these are on average, and once more
from there; where seeds 1 to 3 have thus chosen among rates, three others measure the one chosen.

What would count against the noise scale (`gradient_noise.py`): the size at which steps and rows are
both twice their least lies further from it than a factor of two (the first edition allowed four).
The table goes into the package, for chapter 9. Runs that stand in it are not made again.
"""

import functools
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import torch
from trial import Table
from updates import arm, build, material

from decoder_only.data import Corpus, training_batch
from decoder_only.model.gpt import GPT
from decoder_only.training import NextTokenLoss, evaluate, train_step
from decoder_only.training.optimizers import build_optimizers, set_learning_rate

HIGH, LOW = 4.5, 3.5
WARMUP = 10
SEEDS, OTHERS = (1, 2, 3), (4, 5, 6)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    batch_size: int
    learning_rate: float
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it: steps until the loss was HIGH, and LOW; inf: not reached."""

    steps_high: float
    steps_low: float
    processor_seconds: float


TABLE = Table("batches", Point, score="steps_low")
TABLES = TABLE, Table("batches", Point, score="steps_high")
ARMS = [  # rates to begin with grow with the root of the batch
    Point(batch_size=size, learning_rate=2.5e-3 * 2 ** round(math.log2(size / 4) / 2))
    for size in (1, 2, 4, 8, 16, 32, 64)
]


def rates() -> Iterator[Point]:
    for table in TABLES:
        yield from table.rates(ARMS)


def seeds() -> Iterator[Point]:
    for table in TABLES:
        yield from table.seeds(ARMS, SEEDS)


def again() -> Iterator[Point]:
    for each in ARMS:
        while half := _left(each):
            for seed in SEEDS:
                yield replace(each, learning_rate=half, seed=seed)
        means = chosen_by(each)
        if len(means) > 1:
            best = replace(each, learning_rate=min(means, key=means.get))
            yield from (replace(best, seed=seed) for seed in OTHERS)


def chosen_by(each: Point) -> dict[float, float]:
    """Mean steps of seeds 1 to 3 down to LOW, at each rate that all of them have run."""
    found = [TABLE.scores(replace(each, seed=seed)) for seed in SEEDS]
    shared = set.intersection(*map(set, found))
    return {rate: sum(one[rate,] for one in found) / 3 for (rate,) in sorted(shared)}


def _left(each: Point) -> float | None:
    """Half of the lowest rate of seeds 1 to 3, if that is their best and half may be better."""
    means = chosen_by(each)
    lowest = min(means)
    first = TABLE.scores(each).get((lowest / 2,), 0.0)
    is_open = means[lowest] == min(means.values()) and first < means[lowest]
    return lowest / 2 if is_open else None


EXPERIMENTS = {each.__name__: each for each in (rates, seeds, again)}


@functools.cache
def few(held_out: Corpus) -> Corpus:
    """The first half of the held-out openings, since they are asked often."""
    cut = int(held_out.starts[len(held_out.starts) // 2])
    starts = held_out.starts[held_out.starts < cut]
    return replace(held_out, ids=held_out.ids[: cut + 1], starts=starts)


def begin(point: Point) -> tuple[GPT, list[torch.optim.Optimizer]]:
    model = build(replace(arm("adamw"), seed=point.seed))
    rate = point.learning_rate
    return model, build_optimizers(model, learning_rate=rate, weight_decay=0.0)


def measure(point: Point) -> Row:
    """Make one run."""
    openings, held_out = material()
    model, optimizers = begin(point)
    began, step, look, before = time.process_time(), 0, 8, (1.0, math.inf)
    reached = {HIGH: math.inf, LOW: math.inf}
    while math.isinf(reached[LOW]) and step < min(2000, 8192 // point.batch_size):
        set_learning_rate(optimizers, min(1, (step + 1) / WARMUP))
        size = {"batch_size": point.batch_size, "context_length": 64}
        batch = training_batch(openings, seed=point.seed, step=step, **size)
        train_step(NextTokenLoss(model), optimizers, *batch)
        step += 1
        if step < look:
            continue
        look = max(step + 1, round(1.07 * step))
        loss = evaluate(model, few(held_out)).loss
        for target in reached:
            if math.isinf(reached[target]) and loss <= target:
                share = 1.0
                if before[1] > target:  # in between, in a straight line
                    share = min(1.0, (before[1] - target) / (before[1] - loss))
                reached[target] = round(before[0] + share * (step - before[0]), 2)
        before = (float(step), loss)
        if point.seed == 0 and loss > 10:
            break
    return Row(
        **asdict(point),
        steps_high=reached[HIGH],
        steps_low=reached[LOW],
        processor_seconds=round(time.process_time() - began, 2),
    )


if __name__ == "__main__":
    TABLE.make(measure, EXPERIMENTS)
