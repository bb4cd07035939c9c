"""What does it prove that a model learns a batch by heart? Chapter 8's mistakes, with patience.

    python benchmarks/trials/mistakes.py

The mistakes are defined in the laboratory of chapter 8 and nowhere else. This trial runs its cells
with the tag "mistakes".

Arms        Every mistake, and the model without one.
Fixed       One batch of four rows, 400 steps of AdamW. Then the model writes the batch again from
            the first four tokens of each row.
Seeds       Three at each rate.
Rates       One. Where a seed fails at either task, two more; and where the mean loss is above 0.2,
            ever lower ones until one ends higher. The model without a mistake gets two rates in any
            case, for comparison.
Measured    The loss on the batch after 60, 200 and 400 steps, and the share of tokens written right
            (`recited`).
Against     The usual test is good if most mistakes keep their loss above 0.2 at every rate and
            seed. Patience is not the reason if a mistake that passes after 400 steps has passed
            after 60.

Chapter 8 and its laboratory read the table.
"""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from unittest.mock import patch

from trial import Trial, cells

from decoder_only.model import multihead

RATES = (3e-3, 1e-3, 1e-2)


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    mistake: str
    learning_rate: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: the loss on the way, in nats per token, and the share recited."""

    loss_60: float
    loss_200: float
    loss_400: float
    recited: float


TRIAL = Trial(
    "mistakes",
    Run,
    Found,
    score="loss_400",
    digits=4,
    packages=("torch", "numpy"),
)


def runs() -> Iterator[list[Run]]:
    """Every mistake at a first rate, and at others where a seed fails."""
    for mistake in chapter()["plans"]:
        ends: dict[float, float] = {}
        for rate in RATES:
            yield three_seeds(mistake, rate)
            rows = rows_at(mistake, rate)
            ends[rate] = statistics.mean(row["loss_400"] for row in rows)
            is_enough = mistake != "no mistake" or rate != RATES[0]
            passes = all(row["recited"] == 1 and row["loss_400"] < 0.2 for row in rows)
            if is_enough and passes:
                break
        while (lowest := min(ends)) == min(ends, key=ends.get) and ends[lowest] > 0.2:
            yield three_seeds(mistake, lowest / 2)
            rows = rows_at(mistake, lowest / 2)
            ends[lowest / 2] = statistics.mean(row["loss_400"] for row in rows)


def three_seeds(mistake: str, rate: float) -> list[Run]:
    return [Run(mistake=mistake, learning_rate=rate, seed=seed) for seed in range(3)]


def rows_at(mistake: str, rate: float) -> list[dict]:
    """What came of the three."""
    return [row for run in three_seeds(mistake, rate) for row in TRIAL.table.of(run)]


def chapter() -> dict[str, object]:
    return cells("lab/08_model", "mistakes")


def measure(run: Run) -> Found:
    """Make one run."""
    plan = chapter()["plans"][run.mistake]
    with patch.object(multihead, "attend", plan.attention):
        losses, recited = chapter()["memorize"](plan, run.learning_rate, run.seed)
    at = {f"loss_{n}": losses[n - 1] for n in (60, 200, 400)}
    return Found(**at, recited=round(recited, 3))


if __name__ == "__main__":
    TRIAL.main(measure, runs=runs)
