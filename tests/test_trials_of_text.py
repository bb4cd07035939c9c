"""The trials of chapters 1 and 2: fair arms, fresh seeds, and what sets the arms apart."""

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
ARM = {
    "vocabulary": ["cut", "vocab_size", "d_model"],
    "positions": ["positions", "scale"],
}
STEPS = {"vocabulary": 384, "positions": 300}
SCORE = {"vocabulary": "bits_per_byte", "positions": "inside"}


@pytest.fixture
def positions(monkeypatch):
    monkeypatch.syspath_prepend(str(TRIALS))
    monkeypatch.setattr(sys, "path", list(sys.path))  # a trial adds the folder above
    yield importlib.import_module("positions")
    for name in ("positions", "trial", "tables", "provenance"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ARM)
def test_it_is_told_how_the_table_was_made(name):
    path = stored.FOLDER / "trials" / f"{name}.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    assert about["runs"] == len(load_runs(name))
    assert f"benchmarks/trials/{name}.py" in about["provenance"]["command"]


@pytest.mark.parametrize("name", ARM)
def test_every_arm_has_its_best_rate_inside_and_three_fresh_seeds(name):
    runs = load_runs(name)
    runs = runs[runs["steps"] == STEPS[name]]
    if name == "positions":
        runs = runs[runs["asked"] == "as trained"]
        runs["scale"] = np.nan_to_num(runs["scale"])
    arms = np.unique(runs[ARM[name]])
    assert len(arms) == {"vocabulary": 9, "positions": 10}[name]
    for arm in arms:
        own = runs[runs[ARM[name]] == arm]
        tried, fresh = own[own["seed"] == 0], own[own["seed"] > 0]
        best = tried["learning_rate"][tried[SCORE[name]].argmin()]
        assert tried["learning_rate"].min() < best < tried["learning_rate"].max()
        assert set(fresh["learning_rate"]) == {best}
        assert sorted(fresh["seed"]) == [1, 2, 3]


def test_what_is_added_has_the_size_that_it_is_said_to_have(positions):
    for kind in ("learned", "sinusoidal"):
        model = positions.learn(positions.Point(positions=kind, scale=4.0, steps=0))
        rows = model.positions.weight
        size = (
            rows.square().mean().sqrt() / model.embedding.weight.square().mean().sqrt()
        )
        assert size.item() == pytest.approx(4, rel=0.02)
        assert rows.requires_grad == (kind == "learned")


def test_alibi_is_a_penalty_on_distance_and_sees_nothing_later(positions):
    model = positions.learn(positions.Point(positions="alibi", steps=0))
    attention = model.blocks[0].attention
    x = torch.randn(1, 6, 64, generator=torch.Generator().manual_seed(0))
    query, key, value = attention.project(x)
    expected = torch.zeros(1, 6, 64)
    for h in range(4):
        for s in range(6):
            past = key[0, h, : s + 1] @ query[0, h, s] / 4
            past = past - 0.25 ** (h + 1) * torch.arange(s, -1, -1)
            expected[0, s, 16 * h :][:16] = past.softmax(0) @ value[0, h, : s + 1]
    torch.nn.init.eye_(attention.output.weight)
    torch.testing.assert_close(attention(x), expected)


def test_inside_and_beyond_ask_for_the_same_tokens(positions, monkeypatch):
    asked = []

    def note(model, rows):
        asked.append(rows[:, 1:])
        return torch.zeros(rows.shape[0], rows.shape[1] - 1)

    monkeypatch.setattr(positions, "surprise", note)
    positions.losses(torch.nn.Identity())
    beyond, short = asked
    inside = short[:, positions.S // 2 :].reshape(len(beyond), -1)
    assert torch.equal(inside, beyond[:, positions.S :])
