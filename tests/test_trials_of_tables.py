"""The trial of chapter 7, one table or two: best rates inside, equal sizes, a row made again."""

import numpy as np
import pytest
from trials import corpus, measured, nightly

from decoder_only_book.stored import load_runs

ARMS = ("tied", "separate", "tied, wider")
BAND = 0.0005  # how far a row made again may be from its own


@pytest.mark.parametrize(("V", "steps"), [(512, 400), (2048, 200)])
@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_has_its_best_rate_inside(arm, V, steps):
    runs = load_runs("tying")
    runs = runs[runs["table_learning_rate"] == runs["learning_rate"]]
    runs = runs[(runs["arm"] == arm) & (runs["vocab_size"] == V)]
    runs = runs[runs["steps"] == steps]
    tried, fresh = runs[runs["seed"] < 3], runs[runs["seed"] > 2]
    rates = np.unique(tried["learning_rate"])
    means = [tried["loss"][tried["learning_rate"] == rate].mean() for rate in rates]
    best = rates[np.argmin(means)]
    assert rates[0] < best < rates[-1]
    assert sorted(fresh["seed"][fresh["learning_rate"] == best]) == [3, 4, 5]


@pytest.mark.parametrize("arm", ARMS)
def test_every_pair_of_rates_has_three_fresh_seeds(trial, arm):
    tying, runs = trial("tying"), load_runs("tying")
    best = tying.TRIAL.best(next(each for each in tying.LARGE if each.arm == arm))
    own = (runs["arm"] == arm) & (runs["vocab_size"] == 2048) & (runs["steps"] == 200)
    for name in ("learning_rate", "table_learning_rate"):
        own &= runs[name] == getattr(best, name)
    assert sorted(runs["seed"][own]) == [0, 3, 4, 5]


@pytest.mark.parametrize("arm", ARMS)
def test_a_model_of_every_arm_learns_and_has_the_size_that_is_stored(
    trial, monkeypatch, arm
):
    tying, runs = trial("tying"), load_runs("tying")
    monkeypatch.setattr(tying, "stories_in_stored_tokens", lambda _: (corpus(),) * 2)
    found = measured(tying, tying.Run(arm=arm, steps=3), "loss", "bits_per_byte")
    same = (runs["arm"] == arm) & (runs["vocab_size"] == 512)
    assert {found["parameters"]} == {*runs["parameters"][same]}


def test_a_wider_model_is_as_large_as_one_with_two_tables():
    runs = load_runs("tying")
    for V in (512, 2048):
        here = runs[runs["vocab_size"] == V]
        sizes = {arm: {*here["parameters"][here["arm"] == arm]} for arm in ARMS}
        assert sizes["separate"] == sizes["tied, wider"] != sizes["tied"]


@nightly
def test_a_run_gives_its_row_again(trial):
    tying = trial("tying")
    rates = {"learning_rate": 0.004, "table_learning_rate": 0.004}
    run = tying.Run(arm="separate", seed=3, **rates)
    (stored_row,) = tying.TRIAL.table.of(run)
    assert tying.measure(run).loss == pytest.approx(stored_row["loss"], abs=BAND)


def test_the_band_of_that_row_refuses_every_other_run():
    runs = load_runs("tying")
    runs = runs[(runs["vocab_size"] == 512) & (runs["steps"] == 400)]
    own = (runs["arm"] == "separate") & (runs["seed"] == 3)
    (loss,) = runs["loss"][own]
    assert np.abs(runs["loss"][~own] - loss).min() > 2 * BAND
