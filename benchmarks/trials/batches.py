"""How large should a batch be? What sizes really cost, and what the gradient's noise says.

    python benchmarks/trials/batches.py costs
    python benchmarks/trials/batches.py noise

Models of chapter 9 learn the openings of stories with AdamW at a constant rate after ten steps of
warm-up. `costs`: batches of 1 to 64 rows; how many steps until the loss on held-out openings falls
to 4.5, and to 3.5 nats? Each size at its own best rate, from rates a factor of two apart of which
the best is not an end, one seed; then three fresh seeds. Where these took longer, on average, than
the first seed at half the rate, that rate is repeated, too (which was added when fresh seeds were
seen to get stuck at sizes 4 and 32). `noise`: on the way of a run with batches of eight, the
gradients of 256 single rows that it is not trained on in that step, hence the simple noise scale of
McCandlish et al. (2018), the trace of their covariance over the squared length of their mean, both
without bias; and the same with each component divided by Adam's root of v.

What would count against the noise scale: the size at which steps and rows are both twice their
least lies further from it than a factor of four. The tables go into the package, for chapter 9.
Runs that stand in them are not made again.
"""

import functools
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import _path
import torch
import tyro
from provenance import collect, write_results
from tables import append, key, read
from updates import SHAPE, build, material
from updates import Point as Model

from decoder_only.data import Corpus, training_batch
from decoder_only.lm_head import next_token_loss
from decoder_only.model import GPT
from decoder_only.optimization import build_optimizers, set_learning_rate
from decoder_only.training import evaluate, train_step

COSTS, NOISE = _path.TABLES / "batches.csv", _path.TABLES / "gradient_noise.csv"
SIZES = (1, 2, 4, 8, 16, 32, 64)
HIGH, LOW = 4.5, 3.5
WARMUP, N_ROWS = 10, 256
STATES = (5, 10, 20, 40, 80, 160)


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


@dataclass(frozen=True, kw_only=True)
class State:
    """A model on its way."""

    learning_rate: float
    step: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Noise(State):
    """Its loss; the gradient's squared length and its variance, one row at a time; as Adam's."""

    loss: float
    signal: float
    variance: float
    scaled_signal: float
    scaled_variance: float


def guess(batch_size: int) -> tuple[float, ...]:
    """Rates to begin with: they grow with the root of the batch."""
    middle = 2.5e-3 * 2 ** round(math.log2(batch_size / 4) / 2)
    return (middle / 2, middle, middle * 2)


def costs() -> Iterator[Point]:
    for size in SIZES:
        best = set()
        for target in ("steps_high", "steps_low"):
            while True:
                rows = [row for row in read(COSTS) if row["seed"] == "0"]
                rows = [row for row in rows if int(row["batch_size"]) == size]
                ends = {float(r["learning_rate"]): float(r[target]) for r in rows}
                missing = [rate for rate in guess(size) if rate not in ends]
                if not missing:
                    at = min(ends, key=ends.get)
                    missing = [at / 2] if at == min(ends) else []
                    missing += [at * 2] if at == max(ends) else []
                if not missing:
                    best.add(at)
                    break
                yield Point(batch_size=size, learning_rate=missing[0])
        for rate in sorted(best):
            for seed in range(1, 4):
                yield Point(batch_size=size, learning_rate=rate, seed=seed)
            fresh, half = steps(size, rate, True), steps(size, rate / 2, False)
            if sum(fresh) / len(fresh) > half[0]:
                for seed in range(1, 4):
                    yield Point(batch_size=size, learning_rate=rate / 2, seed=seed)


def steps(size: int, rate: float, is_fresh: bool) -> list[float]:
    """Down to LOW, of the runs that were made."""
    return [
        float(row["steps_low"])
        for row in read(COSTS)
        if (int(row["batch_size"]), float(row["learning_rate"])) == (size, rate)
        and (row["seed"] != "0") == is_fresh
    ]


@functools.cache
def few(held_out: Corpus) -> Corpus:
    """The first half of the held-out openings, since they are asked often."""
    cut = int(held_out.starts[len(held_out.starts) // 2])
    starts = held_out.starts[held_out.starts < cut]
    return replace(held_out, ids=held_out.ids[: cut + 1], starts=starts)


def begin(point: Point | State) -> tuple[GPT, list[torch.optim.Optimizer]]:
    model = build(Model(seed=point.seed))
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
        train_step(model, optimizers, *batch)
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


def noise_of(
    model: GPT, optimizer: torch.optim.Optimizer, corpus: Corpus, state: State
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
        loss = next_token_loss(model(inputs), targets)
        gradients = torch.autograd.grad(loss, weights)
        torch._foreach_add_(total, gradients)
        torch._foreach_addcmul_(squares, gradients, gradients)
    found = []
    held = [optimizer.state[w] for w in weights]
    correction = 1 - 0.95**state.step
    roots = [(kept["exp_avg_sq"] / correction).sqrt() + 1e-8 for kept in held]
    for size in ([1.0] * len(weights), roots):
        signal = variance = 0.0
        for added, square, root in zip(total, squares, size, strict=True):
            mean = added / N_ROWS
            own = (square - N_ROWS * mean**2) / (N_ROWS - 1)
            signal += ((mean**2 - own / N_ROWS) / root).sum().item()
            variance += (own / root).sum().item()
        found += [signal, variance]
    names = ("signal", "variance", "scaled_signal", "scaled_variance")
    loss = evaluate(model, material()[1]).loss
    written = {n: float(f"{x:.6g}") for n, x in zip(names, found, strict=True)}
    return Noise(**asdict(state), loss=round(loss, 5), **written)


def follow(rate: float, seed: int) -> None:
    """Train, and measure on the way what does not stand in the table yet."""
    openings, _ = material()
    point = Point(batch_size=8, learning_rate=rate, seed=seed)
    model, optimizers = begin(point)
    done = {key(row, State) for row in read(NOISE)}
    states = [State(learning_rate=rate, step=step, seed=seed) for step in STATES]
    if all(key(asdict(state), State) in done for state in states):
        return
    for step in range(max(STATES)):
        set_learning_rate(optimizers, min(1, (step + 1) / WARMUP))
        batch = training_batch(
            openings, batch_size=8, context_length=64, seed=seed, step=step
        )
        train_step(model, optimizers, *batch)
        for state in states:
            is_new = key(asdict(state), State) not in done
            if state.step == step + 1 and is_new:
                row = noise_of(model, optimizers[0], openings, state)
                append(NOISE, row)
                print(row, flush=True)


def main(experiment: tyro.conf.Positional[Literal["costs", "noise"]]) -> None:
    """Make the runs that have not been made yet.

    Args:
        experiment: `costs`, or `noise` and then what is missing of `costs`.
    """
    torch.set_num_threads(1)
    if experiment == "noise":
        for seed in range(3):
            follow(2.5e-3, seed)
            note(NOISE)
    for point in costs():
        if key(asdict(point), Point) not in {key(row, Point) for row in read(COSTS)}:
            append(COSTS, row := measure(point))
            print(row, flush=True)
            note(COSTS)


def note(table: Path) -> None:
    """Say beside a table how its runs were made."""
    provenance = collect(packages=["torch", "numpy", "tiktoken"])
    about = {"provenance": provenance, "runs": len(read(table))}
    write_results(table.with_suffix(".json"), about)


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
