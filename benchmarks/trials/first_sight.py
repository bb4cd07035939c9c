"""Facts that are seen once or four times in a stream of others: what is known, and what is left.

    python benchmarks/trials/first_sight.py

Chapter 15's `remembered`, from its cells with the tag "facts", with eight seeds: the mean bits
known of each group of 32 facts, at some steps from the first sight on.
Something is forgotten if the lead over the control, at the same step, is less at the end than
four steps after the last sight, by two standard errors of the paired difference.

The table goes into the package, for the chapter, which repeats one seed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from made_up import chapter
from trial import Table


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by its seed."""

    seed: int


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """Bits known of a group, so many steps after the step of the first sight."""

    seen: str
    step: int
    bits: float


TABLE = Table("first_sight", Point)


def seeds() -> Iterator[Point]:
    for seed in range(8):
        yield Point(seed=seed)


def measure(point: Point) -> Iterator[Row]:
    """Make one run."""
    names = chapter()
    sights = names["SIGHTS"]
    lasts = {max(at, default=0) for at in sights.values()}
    moments = {last + after for last in lasts for after in (1, 4, 16, 64, 128)}
    for seen, bits in zip(sights, names["remembered"](point.seed), strict=True):
        for step, known in enumerate(bits.tolist()):
            if step % 4 == 0 or step in moments:
                yield Row(seed=point.seed, seen=seen, step=step, bits=round(known, 4))


if __name__ == "__main__":
    TABLE.make(measure, {"seeds": seeds}, packages=("torch", "numpy"))
