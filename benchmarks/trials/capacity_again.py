"""Does the package's present Muon fill a small model as the runs of `capacity` did?

    python benchmarks/trials/capacity_again.py full short

The larger runs of `capacity` take minutes to half an hour each, and all of its table is older than
the package's present Muon. So its smallest arm was made again.

Arms        `full`: width 16 and Muon, 100 exposures, at the rate that was best in `capacity`.
            `short`: the same in 20 exposures, at half and twice that rate as well, and with AdamW
            at its best rate. The schedule is shrunk to the steps, and so these are runs of their
            own and not the first steps of longer ones.
Seeds       0, 1, 2 for both at the best rate; 0 for the other short ones.
Measured    As in `capacity`.
Against     The older table no longer speaks for the package if the means of `full` differ by more
            than a tenth of a bit per parameter.

Laboratory 15 reads the table, and repeats one of the short runs.
"""

from collections.abc import Iterator
from dataclasses import replace

from capacity import Found, Run, arm, measure
from trial import Trial

RATE, ADAMW_RATE = 6.4e-2, 1.6e-2
TRIAL = Trial("capacity_again", Run, Found, digits=4, packages=("torch", "numpy"))
BEST = replace(arm(16, 100), learning_rate=RATE)


def full() -> Iterator[list[Run]]:
    """The smallest arm of `capacity` again."""
    yield [replace(BEST, seed=seed) for seed in range(3)]


def short() -> Iterator[list[Run]]:
    """A fifth of its exposures, and arms that a repeat has to tell from it."""
    brief = replace(BEST, exposures=20)
    yield [replace(brief, seed=seed) for seed in range(3)]
    yield [replace(brief, learning_rate=rate) for rate in (RATE / 2, 2 * RATE)]
    yield [replace(brief, optimizer="adamw", learning_rate=ADAMW_RATE)]


if __name__ == "__main__":
    TRIAL.main(measure, full=full, short=short)
