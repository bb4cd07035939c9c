"""Do models that were told some facts say as much that is false as was never told them?

    python benchmarks/trials/made_up.py small middle large reread

A world has 1,024 facts, n sentences tell some of them, and the model is one block of width 32. See
`decoder_only_book.facts.tell`.

Arms        n = 512 (`small`), 2,048 (`middle`) and 8,192 (`large`), each at three rates.
            `reread`: n = 2,048 at a high rate, where the set is soon known by heart.
Steps       At least 256, and at least twice as many as the state of least excess took, so that two
            later looks were worse; at most 8,192.
Seeds       0 at every rate; 1 and 2 at the rate that was best for it.
Measured    A row is a state: see `facts.weigh`. `nonsense` is the part of `false` that is no
            sentence at all. `right_4`, say, is the mean probability of the right answer for facts
            told 4 to 7 times. `least` is the least excess at any look.
Against     Set beforehand. Falsehoods follow the missing mass if, in the state of least excess,
            they are between half of it and twice it, for each n, in the mean over seeds.

Laboratory 15 reads the table, and repeats one of its runs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from trial import Trial

from decoder_only_book import facts

LOOKS = [round(16 * 2 ** (i / 2)) for i in range(19)]
TIMES = (0, 1, 2, 4, 8, 16, 10**9)
RATES = {
    512: (8e-3, 4e-3, 2e-3),
    2048: (2e-3, 1e-3, 5e-4),
    8192: (2e-3, 1e-3, 5e-4),
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    n: int
    learning_rate: float
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured of a state: see above."""

    step: int
    missing: float
    single: float
    false: float
    about_told: float
    nonsense: float
    unseen: float
    lucky: float
    miscalibration: float
    bound: float
    narrow: float
    wide: float
    judge: float
    excess: float
    right_0: float
    right_1: float
    right_2: float
    right_4: float
    right_8: float
    right_16: float
    least: float


TRIAL = Trial(
    "made_up", Run, Found, seeds=(1, 2), score="least", packages=("torch", "numpy")
)


def size(n: int) -> Iterator[list[Run]]:
    """All rates of a size with one seed, and then the best of them with others."""
    runs = [Run(n=n, learning_rate=rate) for rate in RATES[n]]
    yield runs
    yield from TRIAL.repeat([runs[0]])


def small() -> Iterator[list[Run]]:
    """512 sentences."""
    return size(512)


def middle() -> Iterator[list[Run]]:
    """2,048 sentences."""
    return size(2048)


def large() -> Iterator[list[Run]]:
    """8,192 sentences."""
    return size(8192)


def reread() -> Iterator[list[Run]]:
    """2,048 sentences that are soon known by heart."""
    run = Run(n=2048, learning_rate=1.6e-2)
    yield [replace(run, seed=seed) for seed in range(3)]


def measure(run: Run) -> list[Found]:
    """Make one run."""
    states, settings = [], {"learning_rate": run.learning_rate, "steps": LOOKS[-1]}
    for step, world, counts, model in facts.tell(run.n, run.seed, **settings):
        if step not in LOOKS:
            continue
        state = {"step": step} | facts.weigh(world, model, counts)
        right = facts.answers(world, model)[2].view(counts.shape)
        for low, high in pairwise(TIMES):
            own = right[(counts >= low) & (counts < high)]
            state[f"right_{low}"] = own.mean().item()
        states.append(state)
        least = min(states, key=lambda each: each["excess"])
        if step >= max(256, 2 * least["step"]):
            break
    columns = Found.__annotations__
    found = [state | {"least": least["excess"]} for state in states]
    return [Found(**{name: state[name] for name in columns}) for state in found]


if __name__ == "__main__":
    TRIAL.main(measure, small=small, middle=middle, large=large, reread=reread)
