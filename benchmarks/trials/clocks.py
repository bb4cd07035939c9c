"""What does the clock say of collectives between two processes, and of a step that needs them?

    python benchmarks/trials/clocks.py

All bytes of chapter 13 are counted, and its times are computed. Here time is measured, on the
smallest machine that will do: two processes of one thread each, which talk through gloo.

Arms        An all-reduce of 4 KiB to 64 MiB, by gloo and by our ring of messages. A training step's
            forward and backward pass over 16 rows: by one process alone; by two with half of the
            rows each, which send nothing; and by two that average gradients, in one bucket after
            the backward pass or in buckets of 1 MB during it.
Fixed       A model of 3.4 M parameters, rows of 64 tokens, float32.
Seeds       Five, of the weights. Each starts two fresh processes.
Measured    Milliseconds until the slower process is done, over 12 rounds in which the arms take
            turns: the median, and the fastest, which other programs have disturbed least.
Against     A line of a latency and a speed explains the all-reduce badly, or buckets are no faster
            than a single one.

The laboratory of chapter 13 reads the table. Where two processes have two cores, gloo's own threads
must share them, as those of a GPU's network need not.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch
from torch import Tensor
from trial import Trial, seeded

from decoder_only.model.gpt import GPT, GPTConfig
from decoder_only.model.lm_head import next_token_loss
from decoder_only.variants.parallelism import DataParallel
from decoder_only.variants.parallelism.group import Group, launch

SHAPE = {"vocab_size": 512, "context_length": 64, "d_model": 256, "n_layers": 4}
ROWS, ROUNDS = 16, 12
SIZES = [4096 * 4**power for power in range(8)]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    seed: int


@dataclass(frozen=True, kw_only=True)
class Found:
    """How long an arm took, in milliseconds, and the bytes of what was summed."""

    arm: str
    n_bytes: int
    fastest: float
    median: float


TRIAL = Trial("clocks", Run, Found, score="fastest", digits=3)


def seeds() -> Iterator[list[Run]]:
    """Five pairs of processes."""
    yield [Run(seed=seed) for seed in (1, 2, 3, 4, 5)]


def timed(group: Group, work: Callable[[], object]) -> float:
    """Milliseconds that the slowest device needs, from a common start."""
    group.all_reduce(torch.ones(1))
    began = time.perf_counter()
    work()
    passed = torch.tensor([1000 * (time.perf_counter() - began)])
    return group.all_reduce(passed, "max").item()


def reductions(group: Group) -> dict[tuple[str, int], Callable[[], object]]:
    """An all-reduce of every size, in both ways."""

    def summed(x: Tensor, native: bool) -> None:
        group.native = native
        group.all_reduce(x)
        group.native = True

    return {
        (arm, n): partial(summed, torch.ones(n // 4), arm == "gloo")
        for arm in ("gloo", "ring")
        for n in SIZES
    }


def steps(group: Group, seed: int) -> dict[tuple[str, int], Callable[[], object]]:
    """Forward and backward of one batch, alone and together."""
    config = GPTConfig(**SHAPE, n_heads=4)
    ids = torch.randint(512, (ROWS, 65), generator=seeded(seed))
    mine = ids.chunk(group.size)[group.rank]
    plain, at_the_end, in_buckets = (
        GPT(config, generator=seeded(seed)) for _ in range(3)
    )
    size = sum(p.nbytes for p in plain.parameters())

    def learn(model: GPT, rows: Tensor) -> None:
        model.zero_grad()
        next_token_loss(model(rows[:, :-1]), rows[:, 1:]).backward()

    def averaged(parallel: DataParallel, model: GPT) -> None:
        learn(model, mine)
        parallel.finish()

    once = DataParallel(at_the_end, group, bucket_bytes=size)
    often = DataParallel(in_buckets, group, bucket_bytes=1_000_000)
    return {
        ("alone", 0): lambda: learn(plain, ids) if group.rank == 0 else None,
        ("nothing sent", 0): partial(learn, plain, mine),
        ("one bucket", size): partial(averaged, once, at_the_end),
        ("buckets", size): partial(averaged, often, in_buckets),
    }


def clock(group: Group, seed: int) -> list[tuple[str, int, float, float]]:
    """The fastest and the median time of every arm; on each device the same."""
    arms = reductions(group) | steps(group, seed)
    found: dict[tuple[str, int], list[float]] = {arm: [] for arm in arms}
    for turn in range(ROUNDS + 1):
        for arm, work in arms.items():
            passed = timed(group, work)
            if turn:  # the first is to get warm
                found[arm].append(passed)
    return [(*arm, min(times), median(times)) for arm, times in found.items()]


def measure(run: Run) -> list[Found]:
    """Start two processes, and let them take the time."""
    import clocks  # by its name, since they must be able to import it

    rows = launch(clocks.clock, 2, run.seed, processes=True, native=True)[0]
    return [
        Found(arm=arm, n_bytes=n, fastest=fastest, median=middle)
        for arm, n, fastest, middle in rows
    ]


if __name__ == "__main__":
    TRIAL.main(measure, seeds=seeds)
