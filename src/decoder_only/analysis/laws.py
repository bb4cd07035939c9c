"""Scaling laws: the loss of a model that has not been trained, from those that have.

    loss(N, M) = E + A / N^alpha + B / M^beta

E is the loss that no model goes below, the entropy of the text. The second term is what a model
of N parameters lacks even with endless data, the third what M tokens leave unlearned even by an
endless model. Training costs about C = 6 N M operations, and the cheapest way to a loss balances
the two terms. The papers write D for M, which in this book is a width. Chapter 10.
"""

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy import ndarray

from decoder_only.base import checks

__all__ = ["PUBLISHED", "JointLaw", "KaplanLaw", "bootstrap", "fit", "interval"]


@dataclass(frozen=True)
class JointLaw:
    """E + A / N^alpha + B / M^beta, with the chapter's A = N_0^alpha, B = M_0^beta.

    Attributes:
        floor: E, in nats per token.
        parameter_factor, parameter_exponent: A and alpha.
        token_factor, token_exponent: B and beta.

    Source: Hoffmann et al. (2022), equation 2.
    """

    floor: int | float
    parameter_factor: int | float
    parameter_exponent: int | float
    token_factor: int | float
    token_exponent: int | float

    def loss(
        self, parameters: int | float | ndarray, tokens: int | float | ndarray
    ) -> float | ndarray:
        """Nats per token of a model with so many parameters after so many tokens."""
        by_size = self.parameter_factor * parameters ** -float(self.parameter_exponent)
        by_data = self.token_factor * tokens ** -float(self.token_exponent)
        return self.floor + by_size + by_data

    def best_split(self, flops: int | float) -> tuple[float, float]:
        """N and M of the lowest loss that C = 6 N M operations can buy.

        Where the budget is best spent, a little more of either term's remedy saves
        equally much: alpha A / N^alpha = beta B / M^beta.

        Source: Hoffmann et al. (2022), equation 4.
        """
        checks.number("flops", flops, above=0)
        alpha, beta = self.parameter_exponent, self.token_exponent
        ratio = alpha * self.parameter_factor / (beta * self.token_factor)
        parameters = (ratio * (flops / 6) ** beta) ** (1 / (alpha + beta))
        return parameters, flops / (6 * parameters)


@dataclass(frozen=True)
class KaplanLaw:
    """((N_c / N)^(alpha_N / alpha_M) + M_c / M)^alpha_M, without a floor.

    Attributes:
        parameter_scale, parameter_exponent: N_c and alpha_N. N leaves the embeddings out.
        token_scale, token_exponent: M_c and alpha_M.

    Source: Kaplan et al. (2020), equation 1.5 and table 2.
    """

    parameter_scale: int | float
    parameter_exponent: int | float
    token_scale: int | float
    token_exponent: int | float

    def loss(
        self, parameters: int | float | ndarray, tokens: int | float | ndarray
    ) -> float | ndarray:
        """Nats per token of a model with so many parameters after so many tokens."""
        ratio = self.parameter_exponent / self.token_exponent
        by_size = (self.parameter_scale / parameters) ** ratio
        return (by_size + self.token_scale / tokens) ** self.token_exponent

    def best_split(self, flops: int | float) -> tuple[float, float]:
        """N and M for C = 6 N M operations, as that paper recommends.

        Not the minimum of `loss` under a budget, but the paper's own summary of its runs, which
        were not trained to the end of their schedules: N = 1.3e9 C^0.73 with C in days of 1e15
        operations per second.

        Source: Kaplan et al. (2020), table 6.
        """
        checks.number("flops", flops, above=0)
        parameters = 1.3e9 * (flops / (1e15 * 86_400)) ** 0.73
        return parameters, flops / (6 * parameters)


# Each for its own text and tokenizer: exponents may be compared, losses only roughly.
PUBLISHED: dict[str, JointLaw | KaplanLaw] = {
    "kaplan2020": KaplanLaw(6.4e13, 0.076, 1.8e13, 0.103),
    # Hoffmann et al. (2022), appendix D.3, as printed.
    "hoffmann2022": JointLaw(1.69, 406.4, 0.34, 410.7, 0.28),
    # The same data, read off the published figure and fitted anew: Besiroglu et al. (2024).
    "besiroglu2024": JointLaw(1.8172, 482.01, 0.3478, 2085.43, 0.3658),
}


def fit(
    parameters: ndarray,
    tokens: ndarray,
    losses: ndarray,
    *,
    floor: int | float | None = None,
    delta: float = 1e-3,
    starts: Sequence[Sequence[float]] | None = None,
) -> JointLaw:
    """The joint law that fits measured runs best.

    Best is the smallest sum of Huber's losses of log L_fitted - log L_measured. Beyond
    delta they grow linearly and no longer quadratically, so that one outlier pulls with
    bounded force. The sum has many local minima: the search descends from many starts,
    and the lowest end wins.

    Args:
        parameters, tokens, losses: N, M and loss of each run, in nats per token.
        floor: E where it is known; None fits it too.
        delta: from which size on a residual is an outlier's.
        starts: each of log A, log B, log E, alpha and beta; by default a grid of 36.

    Raises:
        ValueError: for fewer runs than constants, or for a number that is not finite or
            not above 0.

    Source: Hoffmann et al. (2022), section 3.3.
    """
    checks.number("floor", floor, above=0, optional=True)
    runs = _log_runs(parameters, tokens, losses, 5 if floor is None else 4)
    starts = _starts(runs[2]) if starts is None else starts
    return _best([values[None] for values in runs], starts, floor, delta)[0]


def _log_runs(
    parameters: ndarray, tokens: ndarray, losses: ndarray, n_constants: int
) -> list[ndarray]:
    """The logarithms of all runs' numbers; ValueError if no law can be fitted to them."""
    runs = [np.asarray(values, dtype=float) for values in (parameters, tokens, losses)]
    sizes = [len(values) for values in runs]
    if len(set(sizes)) > 1 or sizes[0] < n_constants:
        raise ValueError(
            f"{n_constants} constants need as many runs at least, each with parameters, tokens "
            f"and loss; got {sizes}"
        )
    if any(not ((values > 0) & np.isfinite(values)).all() for values in runs):
        raise ValueError("parameters, tokens and losses must all be finite and above 0")
    return [np.log(values) for values in runs]


def _best(runs: list, starts: Sequence, floor: float | None, delta: float) -> list:
    """For each sample of runs the law at the lowest end; logarithms of shape (samples, runs)."""
    x = np.tile(np.array(starts, dtype=float), (len(runs[0]), 1, 1))
    if floor is not None:
        x[..., 2] = math.log(floor)
    ends, sums = _descend(x, [values[:, None] for values in runs], floor is None, delta)
    laws = []
    for a, b, e, alpha, beta in ends[np.arange(len(x)), sums.argmin(axis=1)].tolist():
        powers = math.exp(a), alpha, math.exp(b), beta
        laws.append(JointLaw(floor or math.exp(e), *powers))
    return laws


def _descend(x: ndarray, runs: list, floor_is_free: bool, delta: float) -> tuple:
    """Where searches end, and the sums of Huber's losses there. All go side by side.

    A step solves least squares of the linearized residuals. Squares weighted by
    delta / |residual| beyond delta touch Huber's losses and lie above them elsewhere: what
    lowers the former lowers the latter. The damping keeps a step short. It falls after each
    step that lowers the sum, and grows after each that does not, which is taken back.

    Args:
        x: starts, of shape (samples, starts, 5).
        runs: logarithms of N, M and the loss, each of shape (samples, 1, runs).

    Source: Marquardt (1963); Holland and Welsch (1977) for the weights.
    """
    free, damping = np.array([1, 1, floor_is_free, 1, 1]), np.full(x.shape[:2], 1e-3)
    for _ in range(400):
        residuals, columns = _linearized(x, *runs)
        sums, columns = huber(residuals, delta), columns * free
        weights = delta / np.maximum(abs(residuals), delta)
        rows = (columns * weights[..., None]).swapaxes(-1, -2)
        damped = rows @ columns + damping[..., None, None] * np.eye(5)
        step = np.linalg.solve(damped, rows @ residuals[..., None])[..., 0]
        tried = x - step
        lower = huber(_linearized(tried, *runs)[0], delta) < sums
        x = np.where(lower[..., None], tried, x)
        damping = np.where(lower, np.maximum(damping / 3, 1e-9), damping * 4)
        if abs(step).max() < 1e-8:
            break
    return x, sums


def huber(residuals: ndarray, delta: float) -> ndarray:
    """Sums over the last axis: half the square up to delta, from there on a straight line."""
    short = np.minimum(abs(residuals), delta)
    return (short * (abs(residuals) - short / 2)).sum(axis=-1)


def _linearized(x: ndarray, log_n: ndarray, log_m: ndarray, log_loss: ndarray) -> tuple:
    """Log losses less those measured; derivatives by log A, log B, log E, alpha and beta."""
    log_a, log_b, log_e, alpha, beta = np.moveaxis(x, -1, 0)[..., None]
    terms = np.broadcast_arrays(log_a - alpha * log_n, log_b - beta * log_m, log_e)
    total = np.logaddexp.reduce(terms)
    a, b, e = np.exp(terms - total)
    return total - log_loss, np.stack([a, b, e, -a * log_n, -b * log_m], axis=-1)


def _starts(log_loss: ndarray) -> list[tuple[float, ...]]:
    floors = log_loss.min() + np.log([0.2, 0.9])
    return list(product((0.0, 5.0, 10.0), (0.0, 5.0, 10.0), floors, (0.3, 0.8), (0.5,)))


def bootstrap(
    parameters: ndarray,
    tokens: ndarray,
    losses: ndarray,
    *,
    n_samples: int = 200,
    seed: int = 0,
    **settings: Any,
) -> list[JointLaw]:
    """How far a fit varies: laws fitted to runs drawn with replacement.

    Args:
        parameters, tokens, losses: see `fit`.
        n_samples: how many laws.
        seed: of the draws.
        settings: `floor`, `delta` and `starts` of the fit to all runs, see `fit`. The fits to
            samples start near its result.

    Source: Efron (1979).
    """
    runs = [np.asarray(values, dtype=float) for values in (parameters, tokens, losses)]
    whole = fit(*runs, **settings)
    e, a, alpha, b, beta = astuple(whole)
    # The fit to a sample is near the fit to all runs. But at a fitted floor near zero
    # the gradient vanishes, so that each search starts at a high floor too.
    floors = (max(e, 1e-6), 0.6 * runs[2].min())
    near = [(math.log(a), math.log(b), math.log(low), alpha, beta) for low in floors]
    shape = n_samples, len(losses)
    chosen = np.random.default_rng(seed).integers(len(losses), size=shape)
    samples = [np.log(values)[chosen] for values in runs]
    return _best(samples, near, settings.get("floor"), settings.get("delta", 1e-3))


def interval(
    values: Sequence[int | float], *, level: float = 0.9
) -> tuple[float, float]:
    """The ends of the central interval that holds a fraction `level` of the values."""
    tail = (1 - level) / 2
    low, high = np.quantile(np.asarray(values, dtype=float), [tail, 1 - tail])
    return float(low), float(high)
