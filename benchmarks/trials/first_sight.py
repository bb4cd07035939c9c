"""A model sees facts once or four times in a stream of others: what is known, and what is left?

    python benchmarks/trials/first_sight.py

Each run is chapter 15's function `remembered`, from its cells with the tag "facts".

Arms        Groups of 32 facts, seen once, four times, or never: all within a run.
Seeds       Eight.
Measured    The mean bits known of each group, at some steps from the first sight on.
Against     Nothing is forgotten unless the lead over the control at the same step is smaller at
            the end than four steps after the last sight, by two standard errors of the paired
            difference.

Chapter 15 reads the table, and repeats one seed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from trial import Trial, cells


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    seed: int


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: bits known of a group, so many steps after the step of the first sight."""

    seen: str
    step: int
    bits: float


TRIAL = Trial(
    "first_sight", Run, Found, score="bits", digits=4, packages=("torch", "numpy")
)


def seeds() -> Iterator[list[Run]]:
    """Eight seeds."""
    yield [Run(seed=seed) for seed in range(8)]


def measure(run: Run) -> Iterator[Found]:
    """Make one run."""
    names = cells("15_knowledge", "facts")
    sights = names["SIGHTS"]
    lasts = {max(at, default=0) for at in sights.values()}
    moments = {last + after for last in lasts for after in (1, 4, 16, 64, 128)}
    for seen, bits in zip(sights, names["remembered"](run.seed), strict=True):
        for step, known in enumerate(bits.tolist()):
            if step % 4 == 0 or step in moments:
                yield Found(seen=seen, step=step, bits=known)


if __name__ == "__main__":
    TRIAL.main(measure, seeds=seeds)
