"""The trials of chapters 3 and 4: each arm at its best rate, fresh seeds, and a row made again."""

import numpy as np
import pytest
from trials import check_rates, measured, nightly

from decoder_only_book.stored import load_runs

ARMS = {
    "scores": ["score", "head_dim"],
    "scaling_of_scores": ["start", "power"],
    "heads": ["n_heads", "n_kv_heads"],
}


@pytest.mark.parametrize("name", ARMS)
def test_every_arm_has_its_best_rate_and_fresh_seeds(name):
    runs = load_runs(name)
    if "steps" in runs.dtype.names:
        runs = runs[runs["steps"] == runs["steps"].min()]
    if name == "scores":  # the arm whose rate all seeds choose, below
        runs = runs[(runs["head_dim"] < 256) | (runs["score"] != "as they come")]
    seeds = {tuple(fresh["seed"]) for fresh in check_rates(runs, ARMS[name])}
    assert len(seeds) == 1, "the arms are paired"
    assert len(seeds.pop()) >= 3


def test_undivided_products_that_seed_0_did_not_learn_get_lower_rates():
    runs = load_runs("scores")
    runs = runs[(runs["head_dim"] == 256) & (runs["score"] == "as they come")]
    rates, first = np.unique(runs["learning_rate"]), runs[runs["seed"] == 0]
    assert set(first["learning_rate"]) == set(rates)
    fresh = [
        runs[(runs["learning_rate"] == rate) & (runs["seed"] > 0)] for rate in rates
    ]
    tried = [each for each in fresh if len(each)]
    assert all(sorted(each["seed"]) == [1, 2, 3, 4] for each in tried)
    best = np.argmin([each["loss"].mean() for each in tried])
    assert 0 < best < len(tried) - 1


def test_a_run_begins_as_its_row_says(trial, monkeypatch):
    scores = trial("scores")
    monkeypatch.setattr(scores, "STEPS", 151)  # the last of which counts
    run = scores.TRIAL.best(scores.Run(score="additive", head_dim=16))
    found = measured(scores, run, "loss")
    (stored_row,) = scores.TRIAL.table.of(run)
    assert found["score_std"] == pytest.approx(stored_row["score_std"], abs=0.002)


@nightly
def test_a_run_gives_its_row_again(trial):
    scores = trial("scores")
    runs = load_runs("scores")
    runs = runs[(runs["head_dim"] == 64) & (runs["score"] == "divided")]
    for run in runs[runs["seed"] == 1]:
        rate = float(run["learning_rate"])
        again = scores.Run(score="divided", head_dim=64, learning_rate=rate, seed=1)
        assert scores.measure(again).loss == pytest.approx(run["loss"], abs=0.02)


def test_arms_of_heads_have_equal_parameters(trial):
    heads = trial("heads")
    sizes = {
        heads.GPT(heads.configuration(arm)).count_parameters() for arm in heads.ARMS
    }
    assert sizes == set(load_runs("heads")["parameters"])
