"""The trials of chapter 9: rates inside, fresh seeds, arms that differ in what they say."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from ladder import unchecked
from trials import check_rates, corpus, measured, nightly

from decoder_only.data import training_batch
from decoder_only.model.lm_head import next_token_loss
from decoder_only.training.optimizers import orthogonalize
from decoder_only_book.stored import load_runs

RATES = ("learning_rate", "table_learning_rate")
ARM = ["rule", "warmup", "clip", "dropout", "texts"]


def with_fresh_seeds(runs: np.ndarray) -> np.ndarray:
    """The runs of the arms that were repeated."""
    return with_fresh(runs, ARM)


def with_fresh(runs: np.ndarray, arm: list[str]) -> np.ndarray:
    repeated = {tuple(each) for each in runs[arm][runs["seed"] > 0]}
    return runs[[tuple(each) in repeated for each in runs[arm]]]


def test_every_arm_has_its_rates_inside_and_three_fresh_seeds():
    runs = load_runs("updates")
    few = (runs["texts"] == 60) & (runs["seed"] > 0)
    twice = few & (runs[RATES[0]] == 5e-3)  # the best is half of that
    assert sorted(runs["seed"][twice]) == [1, 1, 2, 2, 3, 3]
    runs = runs[~twice]
    one_rate = runs[RATES[0]] == runs[RATES[1]]
    one_rate &= ~np.char.startswith(runs["rule"], "muon, 0.9")  # tried with two only
    found = check_rates(with_fresh_seeds(runs[one_rate]), ARM)
    own = with_fresh_seeds(runs[~one_rate | (runs["seed"] == 0)])
    found += check_rates(own, ARM, rates=RATES)
    assert len(found) >= 19
    assert all(list(fresh["seed"])[:3] == [1, 2, 3] for fresh in found)


def test_every_schedule_has_its_rates_inside_and_fresh_seeds():
    runs = load_runs("schedules")
    # Those of 40 steps are at the rates of 200, to be made again in the laboratory.
    two_rates = runs[np.isinf(runs["cap"]) & (runs["steps"] > 40)]
    arm = ["rule", "schedule", "decay_fraction", "steps"]
    # All four at two pairs, of which one is the best of three of them.
    near = (two_rates["rule"] == "adamw") & (two_rates["steps"] == 200)
    near &= (two_rates["learning_rate"] == 5e-3) & (two_rates["seed"] > 0)
    for rate in (0.02, 0.04):
        at_pair = two_rates[near & (two_rates["table_learning_rate"] == rate)]
        assert len(np.unique(at_pair[["schedule", "seed"]])) == len(at_pair) == 4 * 5
    best = np.where(two_rates["schedule"] == "constant", 0.01, 0.02)
    two_rates = two_rates[~near | (two_rates["table_learning_rate"] <= best)]
    # A search that had stopped in a worse valley, from fresh seeds, too.
    first = (two_rates["schedule"] == "warmup_stable_decay") & (two_rates["seed"] > 0)
    first &= (two_rates["steps"] == 800) & (two_rates["table_learning_rate"] == 0.02)
    assert first.sum() == 3
    two_rates = two_rates[~first]
    found = check_rates(with_fresh(two_rates, arm), arm, rates=RATES)
    assert len(found) >= 8
    assert all(list(fresh["seed"])[:3] == [1, 2, 3] for fresh in found)
    cut = runs[np.isfinite(runs["cap"])]
    assert (cut[RATES[0]] == cut[RATES[1]]).all()
    assert len(check_rates(cut, arm)) == 1


def test_weights_of_rare_targets_are_one_on_average(trial, monkeypatch):
    rare = trial("rare_tokens")
    monkeypatch.setattr(rare.updates, "material", lambda: (corpus(), corpus()))
    monkeypatch.setitem(rare.updates.SHAPE, "vocab_size", 280)
    n = torch.from_numpy(rare.counts()).float()
    weights = rare.weights_of_tokens()
    assert ((n * weights).sum() / n.sum()).item() == pytest.approx(1)
    assert (weights * n.sqrt()).std().item() == pytest.approx(0, abs=1e-4)
    groups = rare.group_of_token()
    assert n[groups == 1].min() >= n[groups == 4].max()


def test_every_size_of_batch_has_its_best_rate_inside():
    runs = load_runs("batches")
    for size in np.unique(runs["batch_size"]):
        own = runs[runs["batch_size"] == size]
        first = own[own["seed"] == 0]
        for target in ("steps_high", "steps_low"):
            best = first["learning_rate"][first[target].argmin()]
            assert first["learning_rate"].min() < best < first["learning_rate"].max()
        tried = [
            own[(own["learning_rate"] == rate) & np.isin(own["seed"], (1, 2, 3))]
            for rate in np.unique(own["learning_rate"])
        ]
        tried = [runs for runs in tried if len(runs) == 3]
        best = min(tried, key=lambda runs: runs["steps_low"].mean())
        last = own[own["seed"] > 3]
        if len(last):  # others than those that chose
            assert set(last["learning_rate"]) == set(best["learning_rate"])
            assert sorted(last["seed"]) == [4, 5, 6]


@pytest.mark.parametrize("rule", ["no look-ahead", "not orthogonal", "no mean"])
def test_what_takes_muon_apart_differs_in_what_it_says(trial, rule):
    updates = trial("updates")
    run = replace(updates.arm(f"muon, {rule}"), learning_rate=0.1)
    model = updates.build(run)
    weight = model.blocks[0].mlp.up.weight
    _, optimizer = updates.optimizers_of(run, model)
    generator = torch.Generator().manual_seed(0)
    gradients = [torch.randn(weight.shape, generator=generator) for _ in range(2)]
    for gradient in gradients:
        for each in model.parameters():
            each.grad = torch.zeros_like(each)
        weight.grad = gradient.clone()
        before = weight.detach().clone()
        optimizer.step()
    moved = before - weight.detach()
    first, second = gradients
    expected = {
        "no look-ahead": 0.95 * 0.05 * first + 0.05 * second,
        "not orthogonal": 0.95**2 * 0.05 * first + 0.05 * 1.95 * second,
        "no mean": second,
    }[rule]
    if rule != "not orthogonal":
        expected = orthogonalize(expected)
    cosine = torch.nn.functional.cosine_similarity(
        moved.flatten(), expected.flatten(), 0
    )
    assert cosine.item() == pytest.approx(1, abs=1e-4)
    size = moved.square().mean().sqrt().item()
    assert size == pytest.approx(0.1 * 0.2, rel=0.2)


def test_the_noise_scale_is_that_of_the_rows_gradients(trial, monkeypatch):
    noise = trial("gradient_noise")
    text = corpus()
    monkeypatch.setattr(noise, "N_ROWS", 6)
    model, (optimizer,) = noise.begin(learning_rate=1e-3, seed=0)
    for weight in model.parameters():
        weight.grad = torch.full_like(weight, 2.0)
    optimizer.step()
    found = noise.noise_of(model, optimizer, text, at_step=1, seed=0)
    rows = []
    for step in range(6, 12):
        inputs, targets = training_batch(
            text, batch_size=1, context_length=64, seed=1000, step=step
        )
        loss = next_token_loss(model(inputs), targets)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        rows.append(torch.cat([g.flatten() for g in gradients]))
    rows = torch.stack(rows).double()
    variance = rows.var(0).sum().item()
    assert found["variance"] == pytest.approx(variance, rel=1e-3)
    signal = rows.mean(0).square().sum().item() - variance / 6
    assert found["signal"] == pytest.approx(signal, rel=1e-3)
    # Every gradient of the one step was 2, and so is the root of v.
    assert found["root_variance"] == pytest.approx(variance / 2, rel=1e-3)
    assert found["v_variance"] == pytest.approx(variance / 4, rel=1e-3)
    assert found["v_signal"] == pytest.approx(signal / 4, rel=1e-3)


@pytest.mark.parametrize("rule", ["descent", "adamw", "muon, not orthogonal"])
def test_every_rule_moves_the_weights(trial, monkeypatch, rule):
    updates = trial("updates")
    monkeypatch.setattr(updates, "material", lambda texts: (corpus(), corpus()))
    monkeypatch.setattr(updates, "STEPS", 3)
    run = updates.arm(rule, clip=1.0)
    measured(updates, run, "loss", "lowest", "training_loss")


@nightly
def test_a_run_gives_its_row_again(trial):
    updates = trial("updates")
    run = replace(updates.TRIAL.best(updates.arm("muon")), seed=1)
    (stored_row,) = updates.TRIAL.table.of(run)
    with unchecked():  # thousands of stories are told
        again = updates.measure(run)
    assert again.loss == pytest.approx(stored_row["loss"], abs=0.02)
