"""The trials of chapters 3 and 4: each arm at its best rate, fresh seeds, and a row made again."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from decoder_only import stored
from decoder_only.stored import load_runs

TRIALS = Path(__file__).resolve().parent.parent / "benchmarks" / "trials"
ARMS = {
    "scores": ["score", "head_dim"],
    "scaling_of_scores": ["start", "power"],
    "heads": ["n_heads", "n_kv_heads"],
}


@pytest.fixture
def trial(monkeypatch):
    monkeypatch.syspath_prepend(str(TRIALS))
    monkeypatch.setattr(sys, "path", list(sys.path))  # a trial adds the folder above
    known = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - known:
        if name in (*ARMS, "trial", "tables", "provenance"):
            sys.modules.pop(name)


@pytest.mark.parametrize("name", ARMS)
def test_every_arm_has_its_best_rate_and_fresh_seeds(name):
    runs = load_runs(name)
    if "steps" in runs.dtype.names:
        runs = runs[runs["steps"] == runs["steps"].min()]
    arms = np.unique(runs[ARMS[name]])
    n_seeds = set()
    for arm in arms:
        own = runs[runs[ARMS[name]] == arm]
        tried, fresh = own[own["seed"] == 0], own[own["seed"] > 0]
        best = tried["learning_rate"][tried["loss"].argmin()]
        assert tried["learning_rate"].min() < best < tried["learning_rate"].max()
        assert set(fresh["learning_rate"]) == {best}
        n_seeds.add(tuple(sorted(fresh["seed"])))
    assert len(n_seeds) == 1, "the arms are paired"
    assert len(n_seeds.pop()) >= 3


@pytest.mark.parametrize("name", ARMS)
def test_it_is_told_how_the_table_was_made(name):
    path = stored.FOLDER / "trials" / f"{name}.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    assert about["runs"] == len(load_runs(name))
    assert f"benchmarks/trials/{name}.py" in about["provenance"]["command"]


def test_a_run_gives_its_row_again(trial):
    scores = trial("scores")
    runs = load_runs("scores")
    runs = runs[(runs["head_dim"] == 64) & (runs["score"] == "divided")]
    for run in runs[runs["seed"] == 1]:
        rate = float(run["learning_rate"])
        point = scores.Point(score="divided", head_dim=64, learning_rate=rate, seed=1)
        assert scores.measure(point).loss == pytest.approx(run["loss"], abs=0.02)


def test_arms_of_heads_have_equal_parameters(trial):
    heads = trial("heads")
    sizes = {
        heads.GPT(heads.configuration(arm)).count_parameters() for arm in heads.ARMS
    }
    assert sizes == set(load_runs("heads")["parameters"])
