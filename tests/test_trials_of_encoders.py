"""The trials of chapter 11: fair arms, fresh seeds, and a row made again."""

import itertools
import json

import numpy as np
import pytest
import torch
from trials import measured, nightly

from decoder_only_book import stored
from decoder_only_book.stored import load_runs, load_weights

SCORES = {"translators": "loss", "hidden_words": "own", "kinds_of_masks": "gap"}


@pytest.mark.parametrize("name", [*SCORES, "retrieval"])
def test_it_is_told_how_the_table_was_made(name):
    path = stored.FOLDER / "trials" / f"{name}.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    assert about["runs"] == len(load_runs(name))
    assert f"benchmarks/trials/{name}.py" in about["provenance"]["command"]


@pytest.mark.parametrize(("name", "judge"), SCORES.items())
def test_every_arm_has_its_best_rate_inside_and_three_fresh_seeds(name, judge):
    runs = load_runs(name)
    lengths = np.unique(runs["steps"]) if "steps" in runs.dtype.names else [None]
    lengths = [n for n in lengths if n != 40]  # `short` has the rates of 400 steps
    for arm, steps in itertools.product(np.unique(runs["arm"]), lengths):
        own = runs[runs["arm"] == arm]
        own = own if steps is None else own[own["steps"] == steps]
        if not len(own):
            continue
        tried = own[own["seed"] == 0]
        rates = np.sort(tried["learning_rate"])
        best = tried["learning_rate"][tried[judge].argmin()]
        assert len(rates) >= 3
        assert rates[0] < best < rates[-1]
        fresh = own[(own["seed"] > 0) & (own["learning_rate"] == best)]
        assert {1, 2, 3} <= {*fresh["seed"].tolist()}


def test_no_model_is_below_the_floor_or_at_the_truth():
    runs = load_runs("translators")
    assert (runs["loss"] > runs["floor"]).all()
    runs = load_runs("hidden_words")
    assert (runs["own"] > 0).all()
    assert (runs["scored"][np.char.startswith(runs["arm"], "causal")] > 0).all()


def test_arms_are_of_one_size_and_see_what_they_should(trial):
    trial = trial("translators")
    arms = [trial.Run(arm=arm) for arm in trial.KINDS]
    sizes = [sum(p.numel() for p in trial.build(run).parameters()) for run in arms]
    assert max(sizes) / min(sizes) < 1.005
    pairs = [*itertools.islice(trial.GERMAN.pairs(split="validation", seed=0), 3)]
    for run in arms:
        model = trial.build(run).double().eval()
        logits, wanted = trial.total_surprise(model, pairs)
        asked = [wanted[i][wanted[i] >= 0].tolist() for i in range(3)]
        assert asked == [trial.GERMAN.encode(pair.target)[1:] for pair in pairs]
        assert logits.shape[:2] == wanted.shape


def test_positions_of_a_second_text_count_from_its_own_start(trial):
    ids = torch.tensor([[1, 5, 6, 2, 1, 7, 8, 0]])
    assert trial("translators").places(ids).tolist() == [[0, 1, 2, 3, 0, 1, 2, 3]]


def test_hidden_pieces_are_asked_as_the_language_would_answer(trial):
    """And a wrong piece, in the trial of the kinds of masks, cannot be there."""
    kinds, trial = trial("kinds_of_masks"), trial("hidden_words")
    asked = trial.questions(choosing=False)
    rows = torch.arange(len(asked.ids))
    for truth in (asked.posterior, asked.left):
        assert torch.allclose(truth.sum(1), torch.ones(len(truth)).double())
        assert (truth[rows, asked.ids[rows, asked.places]] > 0).all()
        assert (truth[:, trial.MASK] == 0).all()
        found = trial.divergence(truth, truth.clamp_min(1e-30).log())
        assert found == pytest.approx(0, abs=1e-9)
    assert (asked.posterior[rows, kinds.wrong_pieces(asked)] == 0).all()


@pytest.mark.parametrize("arm", ["masked", "causal"])
def test_hidden_words_are_learned_and_asked_for(trial, monkeypatch, arm):
    hidden = trial("hidden_words")
    some = [*itertools.islice(hidden.places(choosing=True), 5)]
    monkeypatch.setattr(hidden, "places", lambda *, choosing: some)
    hidden.questions.cache_clear()
    numbers = ("own", "gap", "scored") if arm == "causal" else ("own", "gap")
    run = hidden.Run(arm=arm, steps=10, learning_rate=0.002)
    found = measured(hidden, run, *numbers)
    hidden.questions.cache_clear()
    runs = load_runs("hidden_words")
    assert {found["parameters"]} == {*runs["parameters"][runs["arm"] == arm]}


def test_translators_are_trained_and_judged(trial):
    translators = trial("translators")
    run = translators.Run(arm="causal", steps=3, seed=1)
    found = measured(translators, run, "loss")
    runs = load_runs("translators")
    assert {found["parameters"]} == {*runs["parameters"][runs["arm"] == "causal"]}
    assert {found["floor"]} == {*runs["floor"]}


def test_a_retriever_is_trained_and_judged(trial, monkeypatch):
    retrieval = trial("retrieval")
    monkeypatch.setattr(retrieval, "STEPS", 10)
    found = measured(retrieval, retrieval.Run(arm="bag", seed=1), "misses", "rank")
    assert 0 <= found["misses"] <= 1


def test_weights_that_are_not_stored_are_refused():
    with pytest.raises(ValueError, match="one of copier, masked, translator"):
        load_weights("reader")


@nightly
def test_runs_give_their_rows_again(trial):
    hidden = trial("hidden_words")
    runs = load_runs("hidden_words")
    own = (runs["arm"] == "masked") & (runs["steps"] == 400) & (runs["seed"] == 1)
    (run,) = runs[own]
    rate = {"learning_rate": float(run["learning_rate"])}
    again = hidden.measure(hidden.Run(arm="masked", seed=1, **rate)).own
    assert again == pytest.approx(run["own"], abs=0.3)  # other arms are below 0.2
