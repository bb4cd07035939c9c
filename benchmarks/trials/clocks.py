"""How long does a sum take between two processes?

    python benchmarks/trials/clocks.py

All bytes of chapter 13 are counted, and its times are computed. Here time is measured, on the
smallest machine that will do: two processes of one thread each, which talk through gloo.

Arms        An all-reduce of 4 KiB to 64 MiB, by gloo and by our ring of messages.
Fixed       Ones in float32.
Seeds       Five. Each starts two fresh processes.
Measured    Milliseconds until the slower process is done, over 12 rounds in which the arms take
            turns: the median, and the fastest, which other programs have disturbed least.
Against     A line of a latency and a speed explains the all-reduce badly.

Chapter 13 reads the table. Its rows were timed in turn with training steps, which tell nothing
about overlap where two processes have two cores, and are no longer timed.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch
from torch import Tensor
from trial import Trial

from decoder_only.variants.parallelism.group import Group, launch

ROUNDS = 12
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


def clock(group: Group) -> list[tuple[str, int, float, float]]:
    """The fastest and the median time of every arm; on each device the same."""
    arms = reductions(group)
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

    rows = launch(clocks.clock, 2, processes=True, native=True)[0]
    return [
        Found(arm=arm, n_bytes=n, fastest=fastest, median=middle)
        for arm, n, fastest, middle in rows
    ]


if __name__ == "__main__":
    TRIAL.main(measure, seeds=seeds)
