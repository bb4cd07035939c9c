"""Equal budgets: of models that cost the same to train, which size learns most?

    python benchmarks/trials/isoflop.py rates seeds longer

The models, the language and the recipe are those of `sweep.py`, whose grid this extends downwards.
A budget counts 6 operations for each parameter, the embedding included, and each token, so that the
small models get many steps and the large ones few. `rates`: at two budgets, three learning rates
for every size, and more until the best lies between two others; seed 0. `seeds`: three fresh seeds
of each, at that rate. Where two neighbours both learn less, the size between them is the budget's
best; sizes beyond those neighbours are tried with seed 0 alone. `longer`: small models at a larger
budget, one seed, at the grid's rule for the rate, which was found at as many steps.

What would count against the grid's law: a best size that grows with another power of the budget
than the law's, beyond the spread over seeds. What would make the comparison void: a lowest point at
an end of the sizes, or a best rate at an end of the rates.

Runs that stand in the table are not made again. Chapter 10 reads it and repeats one of its rows.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from trial import Table

# isort: split
import sweep  # which lies in the folder above; `trial` knows the way

from decoder_only.model.counting import count_parameters

SIZES = {
    2.5e10: [(12, 1), (16, 1), (24, 2), (32, 2)],
    1e11: [(12, 1), (16, 1), (24, 2), (32, 2), (40, 2), (48, 3)],
    4e11: [(24, 2), (40, 2)],
}
TUNED = 2.5e10, 1e11
ENDS = {1e11: (12, 48)}  # widths that have no fresh seeds
SEEDS = 1, 2, 3  # seed 0 is for choosing the rate


@dataclass(frozen=True, kw_only=True)
class Point(sweep.Point):
    """One run, by what sets it apart; the budget is 6 N M but for the rounding of the steps."""

    budget: float


@dataclass(frozen=True, kw_only=True)
class Row(sweep.Row):
    """A run and what came of it."""

    budget: float


TABLE = Table("isoflop", Point)


def arms(budget: float) -> Iterator[Point]:
    """A run of each size that the budget buys, at the grid's rule for the rate."""
    for d_model, n_layers in SIZES[budget]:
        n_heads = max(1, d_model // 16)
        settings = asdict(sweep.point("cpu", d_model, n_layers, 1, n_heads=n_heads))
        sizes = count_parameters(sweep.settings(sweep.Point(**settings)))
        tokens = settings["batch_size"] * sweep.CONTEXT_LENGTH
        settings["steps"] = round(budget / (6 * sum(sizes.values()) * tokens))
        yield Point(**settings, budget=budget)


def rates() -> Iterator[Point]:
    for budget in TUNED:
        yield from TABLE.rates(arms(budget))


def seeds() -> Iterator[Point]:
    for budget in TUNED:
        inner = [a for a in arms(budget) if a.d_model not in ENDS.get(budget, ())]
        yield from TABLE.seeds(inner, SEEDS)


def longer() -> Iterator[Point]:
    yield from arms(4e11)


def measure(point: Point) -> Row:
    """Make one run."""
    settings = asdict(point)
    budget = settings.pop("budget")
    row = sweep.measure(sweep.Point(**settings), "cpu", "cpu")
    return Row(**asdict(row), budget=budget)


if __name__ == "__main__":
    TABLE.make(measure, {each.__name__: each for each in (rates, seeds, longer)})
