"""Equal budgets: of models that cost the same to train, which size learns most?

    python benchmarks/trials/isoflop.py rates seeds longer

The models, the language and the recipe are those of `sweep.py`. This extends its grid downwards.

Arms        Sizes of model. A budget counts 6 operations for each parameter (the embedding included)
            and each token, so that small models get many steps and large ones few.
Rates       At two budgets, halved and doubled until the best is between two others, with seed 0.
Seeds       Three fresh ones. Where two neighbours of a size both learn less, that size is the
            budget's best; sizes beyond those neighbours are tried with seed 0 alone. `longer`:
            small models at a larger budget, one seed, at the grid's rule for the rate, which was
            found at as many steps.
Measured    The loss on held-out stories, in nats per token.
Against     The grid's law is wrong if the best size grows with another power of the budget than the
            law says, beyond the spread over seeds. The comparison is void if the lowest point is at
            an end of the sizes, or a best rate at an end of the rates.

Chapter 10 reads the table, and repeats one of its rows.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from trial import Trial

# isort: split
import sweep  # which is in the folder above; `trial` knows the way

from decoder_only.model.counting import count_parameters

SIZES = {
    2.5e10: [(12, 1), (16, 1), (24, 2), (32, 2)],
    1e11: [(12, 1), (16, 1), (24, 2), (32, 2), (40, 2), (48, 3)],
    4e11: [(24, 2), (40, 2)],
}
TUNED = 2.5e10, 1e11
ENDS = {1e11: (12, 48)}  # widths that have no fresh seeds


@dataclass(frozen=True, kw_only=True)
class Run(sweep.Run):
    """What sets a run apart; the budget is 6 N M but for the rounding of the steps."""

    budget: float


TRIAL = Trial("isoflop", Run, sweep.Found, seeds=(1, 2, 3))


def arms(budget: float) -> Iterator[Run]:
    """A run of each size that the budget buys, at the grid's rule for the rate."""
    for d_model, n_layers in SIZES[budget]:
        n_heads = max(1, d_model // 16)
        settings = asdict(sweep.sized("cpu", d_model, n_layers, 1, n_heads=n_heads))
        sizes = count_parameters(sweep.settings(sweep.Run(**settings)))
        tokens = settings["batch_size"] * sweep.CONTEXT_LENGTH
        settings["steps"] = round(budget / (6 * sum(sizes.values()) * tokens))
        yield Run(**settings, budget=budget)


def rates() -> Iterator[list[Run]]:
    """Every size at rates around its best, for two budgets."""
    yield from TRIAL.search(arm for budget in TUNED for arm in arms(budget))


def seeds() -> Iterator[list[Run]]:
    """Every size but the outermost at its best rate, from three fresh seeds."""
    for budget in TUNED:
        ends = ENDS.get(budget, ())
        yield from TRIAL.repeat(a for a in arms(budget) if a.d_model not in ends)


def longer() -> Iterator[list[Run]]:
    """Two small models at a larger budget."""
    yield list(arms(4e11))


def measure(run: Run) -> sweep.Found:
    """Make one run."""
    return sweep.measure(run, "cpu", "cpu")


if __name__ == "__main__":
    TRIAL.main(measure, rates=rates, seeds=seeds, longer=longer)
