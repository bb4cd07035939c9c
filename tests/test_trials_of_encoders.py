"""The trial of chapter 11: fair arms, fresh seeds, and a row made again."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from decoder_only import stored
from decoder_only.stored import load_runs

TRIALS = Path(__file__).resolve().parent.parent / "benchmarks" / "trials"
ARMS = ("encoder-decoder", "prefix", "causal")


@pytest.fixture
def trial(monkeypatch):
    monkeypatch.syspath_prepend(str(TRIALS))
    monkeypatch.setattr(sys, "path", list(sys.path))  # a trial adds the folder above
    known = set(sys.modules)
    yield importlib.import_module("translators")
    for name in set(sys.modules) - known:
        if name in ("translators", "_path", "tables", "provenance"):
            sys.modules.pop(name)


def test_it_is_told_how_the_table_was_made():
    path = stored.FOLDER / "trials" / "translators.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    assert about["runs"] == len(load_runs("translators"))
    assert "benchmarks/trials/translators.py" in about["provenance"]["command"]


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_has_its_best_rate_inside_and_three_fresh_seeds(arm):
    runs = load_runs("translators")
    runs = runs[runs["arm"] == arm]
    tried, fresh = runs[runs["seed"] == 0], runs[runs["seed"] > 0]
    rates = np.sort(tried["learning_rate"])
    best = tried["learning_rate"][tried["loss"].argmin()]
    assert len(rates) >= 3
    assert rates[0] < best < rates[-1]
    assert set(fresh["learning_rate"]) == {best}
    for steps in (200, 400):
        assert sorted(fresh["seed"][fresh["steps"] == steps]) == [1, 2, 3]
    assert (runs["loss"] > runs["floor"]).all()


def test_arms_are_of_one_size_and_see_what_they_should(trial):
    points = [trial.Point(arm=arm, learning_rate=0.01, seed=0) for arm in ARMS]
    sizes = [
        sum(p.numel() for p in trial.build(point).parameters()) for point in points
    ]
    assert max(sizes) / min(sizes) < 1.005
    pairs = trial.validation()[:3]
    for point in points:
        model = trial.build(point).double().eval()
        logits, wanted = trial.total_surprise(model, pairs)
        asked = [wanted[i][wanted[i] >= 0].tolist() for i in range(3)]
        assert asked == [trial.GERMAN.encode(pair.target)[1:] for pair in pairs]
        assert logits.shape[:2] == wanted.shape
        # A later word of the source is heard where an earlier one stands, or it is not.
        if point.arm == "encoder-decoder":
            continue
        source = trial.GERMAN.encode(pairs[0].source)
        row = torch.tensor([source + trial.GERMAN.encode(pairs[0].target)])
        other = row.clone()
        other[0, len(source) - 2] = 5
        heard = (model.hidden(row) - model.hidden(other)).abs().amax(-1)[0]
        assert (heard[: len(source) - 2] > 0).all() == (point.arm == "prefix")
        assert (heard[: len(source) - 2] > 0).any() == (point.arm == "prefix")
        assert (heard[len(source) - 2 :] > 0).all()


def test_a_run_gives_its_row_again(trial):
    runs = load_runs("translators")
    same = (runs["arm"] == ARMS[0]) & (runs["steps"] == 200) & (runs["seed"] == 1)
    (run,) = runs[same]
    rate = float(run["learning_rate"])
    point = trial.Point(arm=ARMS[0], steps=200, learning_rate=rate, seed=1)
    assert trial.measure(point).loss == pytest.approx(run["loss"], abs=0.1)
