"""A model sees facts once or four times in a stream of others: what does it know, and for how long?

    python benchmarks/trials/first_sight.py

Each run is `decoder_only_book.facts.remembered`.

Arms        Groups of 32 facts, seen once, four times, or never: all within a run.
Seeds       Sixteen.
Measured    For each group, at some steps from the first sight on: the share of facts whose
            likeliest answer is right, the mean probability of the right answer, and the bits known.
Against     Nothing is forgotten unless the share of right answers is smaller 128 steps after the
            last sight than 4 steps after it, by two standard errors of the paired difference.

Laboratory 15 reads the table, and repeats one seed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from trial import Trial

from decoder_only_book import facts


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    seed: int


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured of a group, so many steps after the step of the first sight."""

    seen: str
    step: int
    correct: float
    probability: float
    bits: float


TRIAL = Trial(
    "first_sight", Run, Found, score="bits", digits=4, packages=("torch", "numpy")
)


def seeds() -> Iterator[list[Run]]:
    """Sixteen seeds."""
    yield [Run(seed=seed) for seed in range(16)]


def measure(run: Run) -> Iterator[Found]:
    """Make one run."""
    lasts = {max(when, default=0) for when in facts.SIGHTS.values()}
    moments = {last + after for last in lasts for after in (1, 4, 16, 64, 128)}
    for step, seen, log_q, right in facts.remembered(run.seed):
        if step % 8 and step not in moments:
            continue
        own = log_q.gather(1, right[:, None])[:, 0]
        yield Found(
            seen=seen,
            step=step,
            correct=(log_q.argmax(1) == right).double().mean().item(),
            probability=own.exp().mean().item(),
            bits=6 + own.mean().item() / 0.6931471805599453,
        )


if __name__ == "__main__":
    TRIAL.main(measure, seeds=seeds)
