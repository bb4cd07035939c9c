"""The trials of chapter 9: rates inside, fresh seeds, arms that differ in what they say."""

import importlib
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from decoder_only import stored
from decoder_only.data import document_corpus, training_batch
from decoder_only.lm_head import next_token_loss
from decoder_only.optimization import orthogonalize
from decoder_only.stored import load_runs
from decoder_only.tokenization import BytePairTokenizer

TRIALS = Path(__file__).resolve().parent.parent / "benchmarks" / "trials"
SCRIPTS = {"updates": "updates", "batches": "batches", "gradient_noise": "batches"}


@pytest.fixture
def trial(monkeypatch):
    monkeypatch.syspath_prepend(str(TRIALS))
    monkeypatch.setattr(sys, "path", list(sys.path))  # a trial adds the folder above
    known = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - known:
        if name in ("updates", "batches", "_path", "tables", "provenance"):
            sys.modules.pop(name)


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_is_told_how_the_table_was_made(name):
    path = stored.FOLDER / "trials" / f"{name}.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    assert about["runs"] == len(load_runs(name))
    assert f"benchmarks/trials/{SCRIPTS[name]}.py" in about["provenance"]["command"]


def test_every_arm_has_its_best_rate_inside_and_three_fresh_seeds():
    runs = load_runs("updates")
    runs = runs[runs["spoiled"] < 0]
    names = runs.dtype.names[: runs.dtype.names.index("seed")]
    settings = [name for name in names if name != "learning_rate"]
    arms = np.unique(runs[settings])
    assert len(arms) >= 13
    for arm in arms:
        own = runs[runs[settings] == arm]
        tried, fresh = own[own["seed"] == 0], own[own["seed"] > 0]
        best = tried["learning_rate"][tried["loss"].argmin()]
        assert tried["learning_rate"].min() < best < tried["learning_rate"].max()
        assert set(fresh["learning_rate"]) == {best}
        assert list(np.sort(fresh["seed"]))[:3] == [1, 2, 3]


def test_every_size_of_batch_has_its_best_rate_inside_and_three_fresh_seeds():
    runs = load_runs("batches")
    for size in np.unique(runs["batch_size"]):
        own = runs[runs["batch_size"] == size]
        tried, fresh = own[own["seed"] == 0], own[own["seed"] > 0]
        for target in ("steps_high", "steps_low"):
            best = tried["learning_rate"][tried[target].argmin()]
            assert tried["learning_rate"].min() < best < tried["learning_rate"].max()
            assert set(fresh["seed"][fresh["learning_rate"] == best]) == {1, 2, 3}


@pytest.mark.parametrize("rule", ["no look-ahead", "not orthogonal", "no mean"])
def test_what_takes_muon_apart_differs_in_what_it_says(trial, rule):
    updates = trial("updates")
    model = updates.build(updates.Point())
    weight = model.blocks[0].mlp.up.weight
    point = updates.Point(rule=f"muon, {rule}", learning_rate=0.1)
    _, optimizer = updates.optimizers_of(point, model)
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
    batches = trial("batches")
    corpus, held_out = tiny()
    monkeypatch.setattr(batches, "material", lambda: (corpus, held_out))
    monkeypatch.setattr(batches, "N_ROWS", 6)
    point = batches.Point(batch_size=8, learning_rate=1e-3)
    model, (optimizer,) = batches.begin(point)
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    state = batches.State(learning_rate=1e-3, step=1, seed=0)
    found = batches.noise_of(model, optimizer, corpus, state)
    rows = []
    for step in range(6, 12):
        inputs, targets = training_batch(
            corpus, batch_size=1, context_length=64, seed=1000, step=step
        )
        loss = next_token_loss(model(inputs), targets)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        rows.append(torch.cat([g.flatten() for g in gradients]))
    rows = torch.stack(rows).double()
    variance = rows.var(0).sum().item()
    assert found.variance == pytest.approx(variance, rel=1e-3)
    signal = rows.mean(0).square().sum().item() - variance / 6
    assert found.signal == pytest.approx(signal, rel=1e-3)
    # Every gradient of the one step was 1, and so is the root of v: nothing is scaled.
    assert found.scaled_variance == pytest.approx(variance, rel=1e-3)


def tiny():
    text = ["the cat sat on the mat. it slept.", "a dog ran. it ran far away."] * 20
    corpus = document_corpus(text, BytePairTokenizer.train(text, 280))
    return corpus, corpus


def test_a_run_gives_its_row_again(trial):
    updates = trial("updates")
    runs = load_runs("updates")
    same = (runs["rule"] == "muon") & (runs["seed"] == 1) & (runs["spoiled"] == 100)
    (run,) = runs[same & np.isinf(runs["clip"])]
    rate = float(run["learning_rate"])
    point = updates.Point(rule="muon", learning_rate=rate, seed=1, spoiled=100)
    assert updates.measure(point).loss == pytest.approx(run["loss"], abs=0.02)
    assert not math.isnan(run["loss"])
