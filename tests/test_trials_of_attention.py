"""The trials of chapters 3 and 4: each arm at its best rate, fresh seeds, and a row made again."""

import numpy as np
import pytest
import torch
from trials import check_rates, measured, unmade

from decoder_only_book.stored import load_runs

ARMS = {
    "scaling_of_scores": ["start", "power"],
    "masks": ["mask"],
}


@pytest.mark.parametrize("name", ARMS)
def test_every_arm_has_its_best_rate_and_fresh_seeds(name):
    runs = load_runs(name)
    if "steps" in runs.dtype.names:
        runs = runs[runs["steps"] == 300]
    seeds = {tuple(fresh["seed"]) for fresh in check_rates(runs, ARMS[name])}
    assert len(seeds) == 1, "the arms are paired"
    assert len(seeds.pop()) >= 3


def test_every_arm_of_scores_has_its_best_rates_and_fresh_seeds(trial):
    scores = trial("scores")
    for arm in scores.ARMS:
        best = scores.best(arm)
        made = [run for run in scores.around(best) if not scores.solved(best)]
        for run in made:
            tried = scores.TRIAL.scores(arm)
            assert (run.score_rate, run.learning_rate) in tried, arm
        for seed in scores.TRIAL.seeds:
            fresh = scores.TRIAL.scores(scores.replace(best, seed=seed))
            assert (best.score_rate, best.learning_rate) in fresh, arm


def test_fresh_seeds_went_through_all_rates_that_are_as_good(trial):
    scores = trial("scores")
    assert unmade(scores, scores.near) == []


def test_a_run_begins_as_its_row_says(trial):
    scores = trial("scores")
    run = scores.best(scores.Run(score="additive", head_dim=16))
    found = measured(scores, scores.replace(run, steps=1), "loss")
    (stored_row,) = scores.TRIAL.table.of(run)
    assert found["score_std"] == pytest.approx(stored_row["score_std"], abs=0.002)


def test_a_run_gives_its_row_again(trial):
    """Undivided products fail the quiz by a nat or more; divided ones solve it."""
    scores = trial("scores")
    for name, low, high in (("divided", 0, 0.02), ("as they come", 0.5, 2.8)):
        run = scores.best(scores.Run(score=name, head_dim=256))
        (row,) = scores.TRIAL.table.of(run)
        assert low <= row["loss"] <= high
        assert low <= scores.measure(run).loss <= high


@pytest.mark.parametrize(
    ("mask", "seen"),
    [("causal", torch.tril), ("none", lambda x: x), ("turned", torch.triu)],
)
def test_the_masks_show_what_they_say(trial, mask, seen):
    attend = trial("masks").attend_under(mask)
    # Equal scores, and values that are one-hot: what comes out are the weights.
    zeros, values = torch.zeros(1, 1, 5, 5), torch.eye(5)[None, None]
    weights = attend(zeros, zeros, values, causal=True)[0, 0]
    assert torch.equal(weights > 0, seen(torch.ones(5, 5)) > 0)


def test_every_arm_of_narrow_heads_has_its_best_rate_and_fresh_seeds():
    runs, arm_of = (
        load_runs("narrow_heads"),
        ["task", "n_heads", "n_kv_heads", "head_dim"],
    )
    runs = runs[runs["steps"] == 200]
    for arm in np.unique(runs[arm_of]):
        own = runs[runs[arm_of] == arm]
        tried = own[own["seed"] == 0]
        best = tried["learning_rate"][tried["loss"].argmin()]
        assert tried["learning_rate"].min() < best < tried["learning_rate"].max(), arm
        near = tried["learning_rate"][tried["loss"] < tried["loss"].min() + 0.01]
        means = {}
        for rate in near:
            fresh = own[(own["learning_rate"] == rate) & (own["seed"] > 0)]
            assert sorted(fresh["seed"]) == [1, 2, 3, 4, 5], arm
            means[rate] = fresh["loss"].mean()
        read = min(means, key=means.get)
        assert tried["learning_rate"].min() < read < tried["learning_rate"].max(), arm


def test_the_places_of_narrow_heads_hold_what_is_wanted(trial):
    narrow = trial("narrow_heads")
    held, roles, asked, wanted = narrow.texts("gather", seed=0, size=5)
    for text in range(5):
        at = [(roles[text] == role).nonzero().item() for role in range(4)]
        assert torch.equal(held[text, at].flatten(), wanted[text])
    assert (roles < 5).all()
    assert (asked == 5).all()
    held, names, asked, wanted = narrow.texts("find", seed=0, size=5)
    for text in range(5):
        (at,) = (names[text] == asked[text]).all(-1).nonzero()
        assert torch.equal(held[text, at[0]], wanted[text])
