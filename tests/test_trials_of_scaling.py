"""The trials of chapter 10: equal budgets, rates and sizes inside, seeds, a row made again."""

import numpy as np
import pytest
import torch
from ladder import unchecked
from trials import corpus, measured, nightly

from decoder_only.model.counting import count_parameters
from decoder_only_book.stored import load_runs

TUNED = (2.5e10, 1e11)


@pytest.mark.parametrize("name", ["isoflop", "widths"])
def test_no_run_is_below_the_floor(name):
    runs = load_runs(name)
    assert (runs["loss"] > runs["floor"]).all()


def test_every_run_costs_its_budget(trial):
    isoflop = trial("isoflop")
    for run in load_runs("isoflop"):
        assert 6 * run["parameters"] * run["tokens"] == pytest.approx(
            run["budget"], rel=0.01
        )
        (arm,) = (
            arm
            for arm in isoflop.arms(float(run["budget"]))
            if arm.d_model == run["d_model"]
        )
        assert (arm.n_layers, arm.steps) == (run["n_layers"], run["steps"])
        counted = count_parameters(isoflop.sweep.settings(arm))
        assert sum(counted.values()) == run["parameters"]


@pytest.mark.parametrize("budget", TUNED)
def test_every_size_has_its_best_rate_inside_and_three_fresh_seeds(budget):
    runs = load_runs("isoflop")
    runs = runs[runs["budget"] == budget]
    means = []
    for size in np.unique(runs["parameters"]):
        own = runs[runs["parameters"] == size]
        tried, fresh = own[own["seed"] == 0], own[own["seed"] > 0]
        best = tried["learning_rate"][tried["loss"].argmin()]
        assert tried["learning_rate"].min() < best < tried["learning_rate"].max()
        if budget == 2.5e10 or own["d_model"][0] not in (12, 48):  # the ends
            assert set(fresh["learning_rate"]) == {best}
            assert sorted(fresh["seed"]) == [1, 2, 3]
        means.append(fresh["loss"].mean() if len(fresh) else tried["loss"].min())
    assert 0 < np.argmin(means) < len(means) - 1, "the best size lies inside"


def test_every_width_has_its_best_rate_inside_for_every_seed():
    runs = load_runs("widths")
    for arm in np.unique(runs[["optimizer", "parametrization", "d_model"]]):
        own = runs[runs[["optimizer", "parametrization", "d_model"]] == arm]
        assert set(own["seed"]) == {0, 1, 2}
        for seed in range(3):
            tried = own[own["seed"] == seed]
            best = tried["learning_rate"][tried["loss"].argmin()]
            assert tried["learning_rate"].min() < best < tried["learning_rate"].max()


@pytest.mark.parametrize(
    "parametrization", ["standard", "muP", "muP by ratio", "start alone"]
)
def test_every_width_is_trained(trial, monkeypatch, parametrization):
    widths, runs = trial("widths"), load_runs("widths")
    texts = corpus(), corpus()
    monkeypatch.setattr(widths, "stories_in_stored_tokens", lambda vocab_size: texts)
    monkeypatch.setattr(widths, "STEPS", 12)
    same = (runs["parametrization"] == parametrization) & (runs["d_model"] == 16)
    run = {"optimizer": "muon", "parametrization": parametrization, "d_model": 16}
    run = widths.Run(**run, learning_rate=0.01, seed=1)
    found = measured(widths, run, "loss")
    assert {found["parameters"]} == {*runs["parameters"][same]}


def test_each_arm_has_its_own_parts_of_mup_and_no_others(trial):
    widths = trial("widths")
    arms = {
        name: widths.Run(
            optimizer="muon",
            parametrization=name,
            d_model=16,
            learning_rate=0.01,
            seed=1,
        )
        for name in widths.PARTS
    }
    models = {name: widths.build(run) for name, run in arms.items()}
    for name, parts in widths.PARTS.items():
        model = models[name]
        whole = {
            part: "muP" if part in parts else "standard" for part in widths.PARTS["muP"]
        }
        # The start, to rounding: every weight.
        for own, other in zip(
            model.parameters(), models[whole["start"]].parameters(), strict=True
        ):
            assert torch.allclose(own, other, rtol=1e-5, atol=0)
        # The factors: of the logits and of the scores.
        assert model.head.scale == models[whole["factors"]].head.scale
        scales = {
            models[each].blocks[0].attention.scale for each in (name, whole["factors"])
        }
        assert len(scales) == 1
        # The rate of the matrices, as training makes it of what it is told.
        rates = [
            widths.rate_of_matrices(arms[each]) / models[each].config.width_ratio ** 0.5
            for each in (name, whole["rate"])
        ]
        once_more = 8**0.5 if name == "muP by ratio" else 1
        assert rates[0] == pytest.approx(once_more * rates[1])
    starts = [
        models[name].blocks[0].mlp.up.weight.std() for name in ("muP", "standard")
    ]
    assert (starts[0] / starts[1]).item() == pytest.approx(8**0.5)


@nightly
def test_a_run_gives_its_row_again(trial):
    widths, runs = trial("widths"), load_runs("widths")
    same = (runs["optimizer"] == "muon") & (runs["parametrization"] == "muP")
    same &= (runs["d_model"] == 16) & (runs["seed"] == 1)
    run = min(runs[same], key=lambda run: run["loss"])
    again = widths.Run(
        optimizer="muon",
        parametrization="muP",
        d_model=16,
        learning_rate=float(run["learning_rate"]),
        seed=1,
    )
    with unchecked():  # thousands of stories are told
        again = widths.measure(again)
    assert again.loss == pytest.approx(run["loss"], abs=0.02)
