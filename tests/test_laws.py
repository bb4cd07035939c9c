"""Scaling laws: constants that are known are found again, and a budget is split at the minimum."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ladder import unchecked
from scipy.optimize import least_squares

from decoder_only.analysis.laws import (
    PUBLISHED,
    JointLaw,
    KaplanLaw,
    bootstrap,
    fit,
    interval,
)

HOFFMANN, BESIROGLU = PUBLISHED["hoffmann2022"], PUBLISHED["besiroglu2024"]
JOINT = {name: law for name, law in PUBLISHED.items() if isinstance(law, JointLaw)}
every_joint_law = pytest.mark.parametrize("law", JOINT.values(), ids=JOINT)

# Gopher's budget, which Chinchilla was trained with: 70 B parameters, 1.4 T tokens.
CHINCHILLA = 5.76e23
# Near enough to the end that one start is followed where the grid of 36 would take seconds.
NEAR = [(6.0, 6.0, 0.5, 0.3, 0.3)]


def runs(n: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Sizes and tokens of n times n runs."""
    grid = np.meshgrid(np.geomspace(1e7, 1e10, n), np.geomspace(1e9, 1e12, n))
    return tuple(values.ravel() for values in grid)


def noisy(law: JointLaw, noise: float, *, seed: int, n: int = 5) -> tuple:
    sizes, tokens = runs(n)
    rng = np.random.default_rng(seed)
    factor = np.exp(noise * rng.standard_normal(len(sizes)))
    return sizes, tokens, law.loss(sizes, tokens) * factor


def assert_same(found: JointLaw, law: JointLaw, *, rel: float) -> None:
    for name, value in vars(law).items():
        assert getattr(found, name) == pytest.approx(value, rel=rel), name


# ---------------------------------------------------------------------------------------------- law


def test_losses_by_hand():
    law = JointLaw(1.5, 100, 0.5, 1000, 0.25)
    # 1.5 + 100 / 100 + 1000 / 10
    assert law.loss(10_000, 10_000) == pytest.approx(102.5)
    assert law.loss(1e40, 1e40) == pytest.approx(1.5)
    both = law.loss(np.array([1e4, 1e8]), np.array([1e4, 1e8]))
    assert both == pytest.approx([102.5, 1.5 + 0.01 + 10])
    # Without a floor; an endless model, and one of N_c = 16 with D_c = 81 tokens
    kaplan = KaplanLaw(16, 0.5, 81, 0.25)
    assert kaplan.loss(1e40, 1) == pytest.approx(3)
    assert kaplan.loss(4, 1e40) == pytest.approx(2)
    assert kaplan.loss(4, 1) == pytest.approx((16 + 81) ** 0.25)


@every_joint_law
@pytest.mark.parametrize("flops", [1e18, CHINCHILLA])
def test_the_best_split_is_the_minimum_under_the_budget(law, flops):
    n, d = law.best_split(flops)
    assert 6 * n * d == pytest.approx(flops)
    alpha, beta = law.parameter_exponent, law.token_exponent
    assert alpha * law.parameter_factor / n**alpha == pytest.approx(
        beta * law.token_factor / d**beta
    )
    scanned = n * np.geomspace(0.01, 100, 4001)
    losses = law.loss(scanned, flops / (6 * scanned))
    assert scanned[losses.argmin()] == pytest.approx(n, rel=3e-3)
    assert law.loss(n, d) <= losses.min()


@given(st.floats(15, 27), st.floats(0.1, 3))
def test_a_larger_budget_grows_both_and_lowers_the_loss(power, more):
    for law in JOINT.values():
        n, d = law.best_split(10**power)
        larger, longer = law.best_split(10 ** (power + more))
        assert larger > n
        assert longer > d
        assert law.loss(larger, longer) < law.loss(n, d)


def test_published_constants_split_chinchillas_budget():
    """As printed they ask for half of Chinchilla's size; fitted anew, for what it has."""
    n, d = HOFFMANN.best_split(CHINCHILLA)
    assert (n / 1e9, d / 1e12) == (
        pytest.approx(32, abs=1),
        pytest.approx(3.0, abs=0.1),
    )
    n, d = BESIROGLU.best_split(CHINCHILLA)
    assert (n / 1e9, d / 1e12) == (
        pytest.approx(72, abs=1),
        pytest.approx(1.33, abs=0.02),
    )
    assert d / n == pytest.approx(18.4, abs=0.5)  # "about 20 tokens for a parameter"
    for law in JOINT.values():
        assert law.loss(70e9, 1.4e12) == pytest.approx(1.95, abs=0.03)


def test_kaplans_split_grows_the_model_faster_than_the_data():
    law = PUBLISHED["kaplan2020"]
    n, d = law.best_split(8.64e19)  # one day of 1e15 operations per second
    assert n == pytest.approx(1.3e9)
    assert 6 * n * d == pytest.approx(8.64e19)
    n_10, d_10 = law.best_split(8.64e20)
    assert math.log10(n_10 / n) == pytest.approx(0.73)
    assert math.log10(d_10 / d) == pytest.approx(0.27)


@pytest.mark.parametrize("law", PUBLISHED.values(), ids=PUBLISHED)
@pytest.mark.parametrize("flops", [0, -1.0, math.nan])
def test_a_budget_that_is_none_is_refused(law, flops):
    with pytest.raises(ValueError, match=f"flops={flops} must be .* above 0"):
        law.best_split(flops)


@pytest.mark.parametrize("law", [JointLaw(1, 400, 1, 400, 1), KaplanLaw(1, 1, 1, 1)])
def test_whole_numbers_are_numbers(law):
    n = np.array([1000, 10**6])
    assert (
        law.loss(n, n).tolist() == law.loss(n.astype(float), n.astype(float)).tolist()
    )


# ---------------------------------------------------------------------------------------------- fit


@every_joint_law
def test_known_constants_are_found_again(law):
    sizes, tokens = runs()
    losses = law.loss(sizes, tokens)
    assert_same(fit(sizes, tokens, losses), law, rel=1e-6)


@every_joint_law
def test_known_constants_are_found_with_the_floor_given_and_from_one_start(law):
    sizes, tokens = runs()
    losses = law.loss(sizes, tokens)
    known = fit(sizes, tokens, losses, floor=law.floor, starts=NEAR)
    assert known.floor == law.floor
    assert_same(known, law, rel=1e-6)
    assert_same(fit(sizes, tokens, losses, starts=NEAR), law, rel=1e-6)
    # Another floor than the true one bends the rest.
    wrong = fit(sizes, tokens, losses, floor=law.floor - 0.2, starts=NEAR)
    assert wrong.floor == law.floor - 0.2
    assert wrong.token_exponent < law.token_exponent - 0.01


@pytest.mark.parametrize("floor", [None, 1.69])
def test_searches_end_where_scipys_does(floor):
    """With noise most residuals lie beyond delta; and where ends is nothing that starts share."""
    sizes, tokens, losses = noisy(HOFFMANN, 0.01, seed=2)
    known = [] if floor is None else [math.log(floor)]

    def residuals(x):
        log_a, log_b, alpha, beta, log_e = [*x, *known]
        terms = [log_a - alpha * np.log(sizes), log_b - beta * np.log(tokens)]
        return np.log(np.exp(terms).sum(axis=0) + math.exp(log_e)) - np.log(losses)

    start = [6.0, 6.0, 0.3, 0.3, 0.5][: 5 - len(known)]
    huber = {"loss": "huber", "f_scale": 1e-3, "ftol": 1e-12, "xtol": 1e-12}
    theirs = least_squares(residuals, start, **huber)
    found = fit(sizes, tokens, losses, floor=floor)
    law = [math.log(found.parameter_factor), math.log(found.token_factor)]
    law += [found.parameter_exponent, found.token_exponent, math.log(found.floor)]
    assert law[: len(start)] == pytest.approx(theirs.x, rel=1e-4)
    assert sum(_hubers(residuals(law[: len(start)]))) <= theirs.cost * (1 + 1e-9)


def _hubers(residuals: np.ndarray) -> list[float]:
    """Half a square up to 0.001, and from there on straight."""
    sizes = abs(residuals)
    return [x**2 / 2 if x < 1e-3 else 1e-3 * x - 1e-6 / 2 for x in sizes]


def test_of_several_starts_the_lowest_end_wins():
    sizes, tokens = runs()
    losses = HOFFMANN.loss(sizes, tokens)
    lost = (0.0, 0.0, -30.0, 5.0, 5.0)  # all that it can see from there is flat
    assert fit(sizes, tokens, losses, starts=[lost]).floor != pytest.approx(
        1.69, rel=0.01
    )
    for starts in ([lost, *NEAR], [*NEAR, lost]):
        assert_same(fit(sizes, tokens, losses, starts=starts), HOFFMANN, rel=1e-6)


def test_one_run_that_went_astray_hardly_moves_the_floor():
    """Ordinary least squares, which delta out of reach gives, it moves far."""
    sizes, tokens = runs()
    losses = HOFFMANN.loss(sizes, tokens)
    losses[len(losses) // 2] *= 1.2
    robust = fit(sizes, tokens, losses, starts=NEAR)
    ordinary = fit(sizes, tokens, losses, delta=10.0, starts=NEAR)
    assert abs(robust.floor - 1.69) < 0.002
    assert abs(ordinary.floor - 1.69) > 0.02


def test_noise_costs_the_constants_little():
    found = fit(*noisy(HOFFMANN, 0.003, seed=0), starts=NEAR)
    assert_same(found, HOFFMANN, rel=0.25)
    assert found.floor == pytest.approx(1.69, abs=0.03)
    n, _ = found.best_split(1e21)
    assert n == pytest.approx(HOFFMANN.best_split(1e21)[0], rel=0.1)


def test_small_runs_with_noise_do_not_end_in_the_valley_without_a_floor():
    """Where a floor near zero has no gradient any more, hasty steps come to rest."""
    law = JointLaw(0.35, 1.2e5, 1.04, 2.5e5, 0.92)
    grid = np.meshgrid(np.geomspace(6e4, 1.3e6, 5), np.geomspace(2.6e5, 4.2e6, 5))
    sizes, tokens = (values.ravel() for values in grid)
    starts = [(10.0, 9.0, -10.0, 0.9, 0.6), (10.0, 10.0, -1.0, 0.9, 0.9)]
    for seed in range(3):
        factor = np.exp(0.03 * np.random.default_rng(seed).standard_normal(25))
        found = fit(sizes, tokens, law.loss(sizes, tokens) * factor, starts=starts)
        assert found.floor == pytest.approx(law.floor, abs=0.1)


# ------------------------------------------------------------------------------------ uncertainty


def test_a_bootstrap_is_decided_by_its_seed():
    data = noisy(HOFFMANN, 0.003, seed=0)
    first, again, other = (
        bootstrap(*data, floor=1.69, n_samples=3, seed=seed) for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other
    assert len(set(first)) == len(first) == 3
    assert {law.floor for law in first} == {1.69}


def test_without_noise_every_sample_tells_the_same():
    data = noisy(HOFFMANN, 0.0, seed=0)
    for law in bootstrap(*data, n_samples=3):
        assert_same(law, HOFFMANN, rel=1e-3)


def width(law_floors: list[float]) -> float:
    low, high = interval(law_floors)
    return high - low


def test_more_noise_widens_the_interval():
    widths = [
        width(
            [law.floor for law in bootstrap(*noisy(HOFFMANN, n, seed=1), n_samples=12)]
        )
        for n in (0.001, 0.01)
    ]
    assert 4 < widths[1] / widths[0] < 30


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    """Nine in ten; a bootstrap of 25 runs is known to promise a little too much."""
    covered = 0
    for seed in range(6):
        data = noisy(HOFFMANN, 0.005, seed=seed)
        laws = bootstrap(*data, floor=1.69, n_samples=20, seed=seed)
        low, high = interval([law.token_exponent for law in laws])
        covered += low <= HOFFMANN.token_exponent <= high
    assert 4 <= covered <= 6


def test_an_interval_leaves_as_much_out_at_either_end():
    values = list(range(101))
    assert interval(values) == pytest.approx((5, 95))
    assert interval(values[::-1], level=0.5) == pytest.approx((25, 75))
    assert interval([3.0]) == (3.0, 3.0)


# -------------------------------------------------------------------------------------------- input


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_numbers_that_cannot_be_runs_are_refused(which, value):
    data = [values.copy() for values in noisy(HOFFMANN, 0.0, seed=0)]
    data[which][3] = value
    with pytest.raises(ValueError, match="must all be finite and above 0"):
        fit(*data)


@pytest.mark.parametrize("floor", [0.0, -1.0, math.nan])
def test_a_floor_that_cannot_be_is_refused(floor):
    with pytest.raises(ValueError, match=f"floor={floor} must be .* above 0"):
        fit(*noisy(HOFFMANN, 0.0, seed=0), floor=floor)


def test_fewer_runs_than_constants_are_refused():
    sizes, tokens, losses = noisy(HOFFMANN, 0.0, seed=0)
    with pytest.raises(ValueError, match=r"5 constants need .* got \[4, 4, 4\]"):
        fit(sizes[:4], tokens[:4], losses[:4])
    with pytest.raises(ValueError, match=r"4 constants need .* got \[3, 3, 3\]"):
        fit(sizes[:3], tokens[:3], losses[:3], floor=1.0)
    five = [sizes[::6], tokens[::6], losses[::6]]
    assert fit(*five, starts=NEAR).loss(sizes[0], tokens[0]) > 0


def test_runs_that_lack_a_number_are_refused():
    sizes, tokens, losses = noisy(HOFFMANN, 0.0, seed=0)
    with unchecked(), pytest.raises(ValueError, match=r"got \[25, 24, 25\]"):
        fit(sizes, tokens[1:], losses)
