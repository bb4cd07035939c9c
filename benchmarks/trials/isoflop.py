"""Equal budgets: of models that cost the same to train, which size learns most?

    python benchmarks/trials/isoflop.py rates 1e11     three learning rates for every size, and
                                                       more until the best lies between two others
    python benchmarks/trials/isoflop.py seeds 1e11     three fresh seeds of each, at that rate
    python benchmarks/trials/isoflop.py longer 4e11    small models for longer, one seed, one rate

The models, the language and the recipe are those of `sweep.py`, whose grid this extends downwards.
A budget counts 6 operations for each parameter, the embedding included, and each token, so that the
small models get many steps and the large ones few. Where two neighbours both learn less, the size
between them is the budget's best; sizes beyond those neighbours are tried with seed 0 alone. What
would count against the grid's law: a best size that grows with another power of the budget than the
law's, beyond the spread over seeds. What would make the comparison void: a lowest point at an end
of the sizes, or a best rate at an end of the rates.

Runs that stand in the table are not made again. Chapter 10 reads it and repeats one of its rows.
"""

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Literal

import torch
import tyro
from _path import TABLES
from provenance import collect, write_results
from sweep import BATCH_SIZE, CONTEXT_LENGTH, Point, measure, point, rate, settings
from sweep import Row as SweepRow
from tables import append, key, read

from decoder_only.scaling import count_parameters

TABLE = TABLES / "isoflop.csv"
SIZES = {
    2.5e10: [(12, 1), (16, 1), (24, 2), (32, 2)],
    1e11: [(12, 1), (16, 1), (24, 2), (32, 2), (40, 2), (48, 3)],
    4e11: [(24, 2), (40, 2)],
}
ENDS = {1e11: (12, 48)}  # widths that have no fresh seeds
SEEDS = 1, 2, 3  # seed 0 is for choosing the rate


@dataclass(frozen=True, kw_only=True)
class Row(SweepRow):
    """A run and what came of it; the budget is 6 N M but for the rounding of the steps."""

    budget: float


def arms(budget: float) -> Iterator[Point]:
    """A run of each size that the budget buys, at the grid's rule for the rate."""
    for d_model, n_layers in SIZES[budget]:
        arm = point("cpu", d_model, n_layers, 1, n_heads=max(1, d_model // 16))
        n_parameters = sum(count_parameters(settings(arm)).values())
        each = 6 * n_parameters * BATCH_SIZE["cpu"] * CONTEXT_LENGTH
        yield replace(arm, steps=round(budget / each))


def rates(budget: float, rows: list[dict[str, str]]) -> Iterator[Point]:
    """What is still to be tried before every size's best rate lies between two others."""
    for arm in arms(budget):
        middle = best(arm, rows)
        for learning_rate in (middle, middle / 2, 2 * middle):
            yield replace(arm, learning_rate=learning_rate)


def seeds(budget: float, rows: list[dict[str, str]]) -> Iterator[Point]:
    for seed in SEEDS:
        for arm in arms(budget):
            if arm.d_model not in ENDS.get(budget, ()):
                yield replace(arm, learning_rate=best(arm, rows), seed=seed)


def longer(budget: float, rows: list[dict[str, str]]) -> Iterator[Point]:
    """At the grid's rule for the rate, which was found at as many steps."""
    yield from arms(budget)


EXPERIMENTS = {each.__name__: each for each in (rates, seeds, longer)}


def best(arm: Point, rows: list[dict[str, str]]) -> float:
    """The rate with the lowest loss of those that were tried for an arm, or the grid's rule."""
    losses = {
        float(row["learning_rate"]): float(row["loss"])
        for row in rows
        if key(row | {"learning_rate": arm.learning_rate}, Point)
        == key(asdict(arm), Point)
    }
    return min(losses, key=losses.get, default=rate(arm.d_model))


def main(
    experiment: tyro.conf.Positional[Literal["rates", "seeds", "longer"]],
    budget: tyro.conf.Positional[float],
) -> None:
    """Make the runs of an experiment that have not been made yet.

    Args:
        experiment: which.
        budget: in operations, one of those that have sizes.
    """
    torch.set_num_threads(1)
    while left := remaining(EXPERIMENTS[experiment](budget, read(TABLE))):
        for each in left:
            row = measure(each, "cpu", "cpu")
            append(TABLE, Row(**asdict(row), budget=budget))
            print(row, flush=True)
    rows = read(TABLE)
    seconds = sum(float(row["processor_seconds"]) for row in rows)
    provenance = collect(packages=["torch", "numpy", "tiktoken"])
    about = {"provenance": provenance, "runs": len(rows)}
    write_results(
        TABLE.with_suffix(".json"), about | {"processor seconds": round(seconds)}
    )


def remaining(points: Iterator[Point]) -> list[Point]:
    done = {key(row, Point) for row in read(TABLE)}
    return [each for each in points if key(asdict(each), Point) not in done]


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
