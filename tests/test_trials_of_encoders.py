"""The trials of chapter 11: fair arms, fresh seeds, and a row made again."""

import itertools
import json

import numpy as np
import pytest
import torch
from trials import measured, nightly

from decoder_only_book import stored
from decoder_only_book.stored import load_runs

ARMS = ("encoder-decoder", "prefix", "causal")
NAMES = ("translators", "hidden_words")


@pytest.mark.parametrize("name", [*NAMES, "hidden_story_words"])
def test_it_is_told_how_the_table_was_made(name):
    path = stored.FOLDER / "trials" / f"{name}.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    assert about["runs"] == len(load_runs(name))
    assert f"benchmarks/trials/{name}.py" in about["provenance"]["command"]


@pytest.mark.parametrize(
    ("name", "judge"), list(zip(NAMES, ("loss", "gap"), strict=True))
)
def test_every_arm_has_its_best_rate_inside_and_three_fresh_seeds(name, judge):
    runs = load_runs(name)
    lengths = np.unique(runs["steps"]) if "steps" in runs.dtype.names else [None]
    for arm, steps in itertools.product(np.unique(runs["arm"]), lengths):
        own = runs[runs["arm"] == arm]
        own = own if steps is None else own[own["steps"] == steps]
        tried = own[own["seed"] == 0]
        rates = np.sort(tried["learning_rate"])
        best = tried["learning_rate"][tried[judge].argmin()]
        assert len(rates) >= 3
        assert rates[0] < best < rates[-1]
        fresh = own[(own["seed"] > 0) & (own["learning_rate"] == best)]
        assert {1, 2, 3} <= {*fresh["seed"].tolist()}


def test_scoring_has_its_best_rate_inside_and_fresh_seeds_of_its_own():
    runs = load_runs("hidden_words")
    for arm in ("causal", "causal, as few answers"):
        tried = runs[(runs["arm"] == arm) & (runs["seed"] == 0)]
        best = tried["learning_rate"][tried["scored"].argmin()]
        assert tried["learning_rate"].min() < best < tried["learning_rate"].max()
        own = runs[(runs["arm"] == arm) & (runs["learning_rate"] == best)]
        assert {0, 1, 2, 3} == {*own["seed"].tolist()}


def test_no_model_is_below_the_floor_or_at_the_truth():
    runs = load_runs("translators")
    assert (runs["loss"] > runs["floor"]).all()
    runs = load_runs("hidden_words")
    assert (runs["gap"] > 0).all()
    assert (runs["scored"][np.char.startswith(runs["arm"], "causal")] > 0).all()


def test_arms_are_of_one_size_and_see_what_they_should(trial):
    trial = trial("translators")
    arms = [trial.Run(arm=arm, learning_rate=0.01) for arm in ARMS]
    sizes = [sum(p.numel() for p in trial.build(run).parameters()) for run in arms]
    assert max(sizes) / min(sizes) < 1.005
    pairs = trial.validation()[:3]
    for run in arms:
        model = trial.build(run).double().eval()
        logits, wanted = trial.total_surprise(model, pairs)
        asked = [wanted[i][wanted[i] >= 0].tolist() for i in range(3)]
        assert asked == [trial.GERMAN.encode(pair.target)[1:] for pair in pairs]
        assert logits.shape[:2] == wanted.shape
        # A later word of the source is heard where an earlier one stands, or it is not.
        if run.arm == "encoder-decoder":
            continue
        source = trial.GERMAN.encode(pairs[0].source)
        row = torch.tensor([source + trial.GERMAN.encode(pairs[0].target)])
        other = row.clone()
        other[0, len(source) - 2] = 5
        heard = (model.hidden(row) - model.hidden(other)).abs().amax(-1)[0]
        assert (heard[: len(source) - 2] > 0).all() == (run.arm == "prefix")
        assert (heard[: len(source) - 2] > 0).any() == (run.arm == "prefix")
        assert (heard[len(source) - 2 :] > 0).all()


def test_hidden_pieces_are_asked_as_the_language_would_answer(trial):
    trial = trial("hidden_words")
    asked = trial.questions(choosing=False)
    by_sentence = itertools.groupby(asked, key=lambda each: each[0].tolist())
    for ids, some in by_sentence:  # every piece, the full stop too
        assert [place for _, place, _ in some] == [*range(1, len(ids) - 1)]
    for ids, place, truth in asked[:40]:
        assert truth.sum().item() == pytest.approx(1)
        assert truth[ids[place]] > 0
        assert truth[trial.MASK] == 0
        likeliest = ids.clone()
        likeliest[place] = truth.argmax()
        pieces = [trial.GERMAN.vocabulary[i] for i in likeliest[1:-1]]
        assert trial.GERMAN.source_log_prob(pieces) > -100
    truth = torch.stack([truth for _, _, truth in asked])
    found = trial.divergence(truth.clamp_min(1e-30).log(), asked)
    assert found == pytest.approx(0, abs=1e-9)


def test_each_piece_is_asked_for_once_behind_the_mask(trial):
    hidden = trial("hidden_words")
    ids = hidden.padded([ids for ids, _, _ in hidden.questions(choosing=True)[:12]])
    inputs, targets = hidden.each_once(ids, torch.Generator().manual_seed(0))
    copies, is_asked = ids.repeat(hidden.COPIES, 1), targets >= 0
    asked = is_asked.view(hidden.COPIES, *ids.shape)
    assert torch.equal(asked.sum(0), (ids > 2).long())
    assert torch.equal(targets[is_asked], copies[is_asked])
    assert torch.equal(inputs == hidden.MASK, is_asked)
    assert torch.equal(inputs[~is_asked], copies[~is_asked])
    in_a_copy = asked.sum(-1)
    assert (in_a_copy.amax(0) - in_a_copy.amin(0)).max() <= 1  # as even as can be
    generator = torch.Generator().manual_seed(0)
    _, targets = hidden.each_once(ids, generator, anew=True)
    anew = (targets >= 0).view(hidden.COPIES, *ids.shape)
    assert torch.equal(anew.sum(-1), in_a_copy)  # as even, but any pieces
    assert not torch.equal(anew.sum(0), (ids > 2).long())


@pytest.mark.parametrize("arm", ["masked, each piece once", "causal"])
def test_hidden_words_are_learned_and_asked_for(trial, monkeypatch, arm):
    hidden = trial("hidden_words")
    some = [*itertools.islice(hidden.places(choosing=True), 5)]
    monkeypatch.setattr(hidden, "places", lambda *, choosing: some)
    monkeypatch.setattr(hidden, "STEPS", 10)
    numbers = ("gap", "scored") if arm == "causal" else ("gap",)
    found = measured(hidden, hidden.Run(arm=arm, learning_rate=0.002), *numbers)
    runs = load_runs("hidden_words")
    assert {found["parameters"]} == {*runs["parameters"][runs["arm"] == arm]}


@pytest.mark.parametrize("arm", ARMS)
def test_translators_are_trained_and_judged(trial, arm):
    translators = trial("translators")
    run = translators.Run(arm=arm, steps=10, learning_rate=0.008, seed=1)
    found = measured(translators, run, "loss")
    runs = load_runs("translators")
    assert {found["parameters"]} == {*runs["parameters"][runs["arm"] == arm]}
    assert {found["floor"]} == {*runs["floor"]}


@nightly
def test_runs_give_their_rows_again(trial):
    hidden = trial("hidden_words")
    runs = load_runs("hidden_words")
    (run,) = runs[(runs["arm"] == "causal") & (runs["learning_rate"] == 0.002)]
    again = hidden.measure(hidden.Run(arm="causal", learning_rate=0.002))
    assert again.gap == pytest.approx(run["gap"], abs=0.02)
    assert again.scored == pytest.approx(run["scored"], abs=0.02)
    trial = trial("translators")
    runs = load_runs("translators")
    rate = 0.008
    runs = runs[(runs["steps"] == 200) & (runs["learning_rate"] == rate)]
    own = runs["arm"] == ARMS[0]
    (before,) = runs["loss"][own & (runs["seed"] == 1)]
    run = trial.Run(arm=ARMS[0], steps=200, learning_rate=rate, seed=1)
    again = trial.measure(run).loss
    # The training amplifies a processor's rounding, by 0.11 between two kinds. Other arms end
    # 0.65 away and more, and it must stay far from them.
    assert abs(again - before) < abs(again - runs["loss"][~own]).min() / 3
