"""The trials of chapter 16: the same seeds for every sampler, and counts that fit each other."""

import numpy as np
import pytest
from trials import nightly

from decoder_only_book.stored import load_runs


def test_every_sampler_has_the_same_seeds_and_as_many_stories():
    runs = load_runs("samplers")
    is_short = np.char.endswith(runs["sampler"].astype(str), ", 16 stories")
    short, runs = runs[is_short], runs[~is_short]
    assert (short["stories"] == 16).all()
    assert len(short) == 20 + 1 + 1 + 2 + 4
    for arm in np.unique(runs[["sampler", "value"]]):
        own = runs[runs[["sampler", "value"]] == arm]
        assert sorted(own["seed"]) == [0, 1, 2, 3, 4]
        assert (own["stories"] == 64).all()
    assert len(runs) == 5 * (20 + 1 + 1 + 2)


def test_stories_are_lost_and_do_not_come_back():
    runs = load_runs("samplers")
    counts = [runs[f"alive_{n}"] for n in (25, 50, 75, 100, 125)]
    counts = np.array([runs["stories"], *counts, runs["possible"]])
    assert (np.diff(counts, axis=0) <= 0).all()
    is_grammar = np.char.startswith(runs["sampler"].astype(str), "grammar")
    grammar = runs[is_grammar]
    assert (grammar["possible"] == grammar["ended"]).all()
    assert (grammar["allowed_nats"] > 0).all()
    assert not runs["allowed_nats"][~is_grammar].any()


def test_only_possible_stories_have_a_surprise():
    found = load_runs("likeliest")
    assert list(found["n_beams"]) == [1, 2, 4, 8, 16]
    assert (np.isnan(found["truth_nats"]) == (found["possible"] == 0)).all()


def test_filters_of_the_trial_by_hand(trial):
    import torch

    samplers = trial("samplers")
    logits = torch.tensor([[8.0, 4.0, 1.0]]).log()
    kept = samplers.keep_min_p(logits, 0.3) > -torch.inf
    assert kept.tolist() == [[True, True, False]]
    logits = torch.tensor([[2.0, -2.0, 1.0]])
    changed = samplers.penalized(logits, torch.tensor([[0, 1, 0]]), 2.0)
    assert changed.tolist() == [[1.0, -4.0, 1.0]]


@nightly
def test_a_row_is_made_again(trial):
    samplers = trial("samplers")
    run = samplers.Run(sampler="temperature", value=0.4, seed=0)
    (made,) = samplers.TRIAL.rows_made(samplers.measure, run)
    (kept,) = samplers.TRIAL.table.of(run)
    assert made["possible"] == pytest.approx(kept["possible"], abs=2)
