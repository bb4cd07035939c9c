"""What the tests of the trials' tables share: the protocol that a table must have kept."""

import numpy as np

__all__ = ["check_rates"]


def check_rates(
    runs: np.ndarray,
    arms: list[str],
    *,
    score: str = "loss",
    rates: tuple[str, ...] = ("learning_rate",),
) -> list[np.ndarray]:
    """Every arm's best rates, chosen with seed 0, lie between two others; the rest runs there.

    Args:
        arms: the columns that set the arms apart.
        score: what rates are chosen by; the less the better.
        rates: the columns of which every arm has its own.

    Returns:
        Of each arm the runs of fresh seeds, by seed.
    """
    found = []
    for arm in np.unique(runs[arms]):
        own = runs[runs[arms] == arm]
        tried, fresh = own[own["seed"] == 0], own[own["seed"] > 0]
        best = tried[tried[score].argmin()]
        for rate in rates:
            others = [name for name in rates if name != rate]
            near = tried[rate][tried[others] == best[others]] if others else tried[rate]
            assert near.min() < best[rate] < near.max(), (arm.tolist(), rate)
            assert set(fresh[rate]) == {best[rate]}, (arm.tolist(), rate)
        found.append(np.sort(fresh, order="seed"))
    return found
