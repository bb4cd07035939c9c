"""The trial of chapter 15: every arm at its own rate, and what it knows within what there is."""

import json

import numpy as np
import pytest

from decoder_only import GPTConfig, stored
from decoder_only.knowledge import Biographies
from decoder_only.scaling import count_parameters
from decoder_only.stored import load_runs


def arms():
    runs = load_runs("capacity")
    names = ["d_model", "exposures", "optimizer"]
    return [runs[runs[names] == arm] for arm in np.unique(runs[names])]


def test_capacity_is_told_once_and_how_it_was_made():
    runs = load_runs("capacity")
    point = [*runs.dtype.names[: runs.dtype.names.index("seed") + 1]]
    assert len(np.unique(runs[point])) == len(runs)
    path = stored.FOLDER / "trials" / "capacity.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    assert "benchmarks/trials/capacity.py" in about["provenance"]["command"]
    assert about["runs"] == len(runs)


@pytest.mark.parametrize("arm", arms(), ids=lambda arm: str(arm[0])[:32])
def test_an_arm_with_seeds_is_at_a_rate_between_two_that_are_worse(arm):
    first = arm[arm["seed"] == 0]
    best = first[first["known"].argmax()]["learning_rate"]
    if len(arm) > len(first):
        assert {best / 2, best, 2 * best} <= {*first["learning_rate"]}
    assert {*arm[arm["seed"] > 0]["learning_rate"]} <= {best}


def test_sizes_are_those_of_the_models_and_bits_those_of_the_world():
    for run in load_runs("capacity"):
        people = Biographies(int(run["n_people"]))
        assert people.fact_bits == run["offered"]
        config = GPTConfig(
            vocab_size=people.vocab_size,
            context_length=6,
            d_model=int(run["d_model"]),
            n_layers=2,
            n_heads=2,
            positions="rotary",
            norm="rms",
            activation="squared_relu",
            qk_norm=True,
            bias=False,
        )
        assert sum(count_parameters(config).values()) == run["parameters"]
        assert run["known"] < run["offered"]
        nats = (run["offered"] - run["known"]) * np.log(2)
        n_facts = people.ids[:, 2:].numel()
        assert run["loss"] == pytest.approx(nats / n_facts, abs=1e-3)


def test_eight_bits_lose_next_to_nothing_fewer_lose_more_and_the_full_most():
    runs = load_runs("capacity")
    known = np.stack([runs[f"known{n}"] for n in ("", "_8", "_6", "_4")])
    assert (np.diff(known, axis=0) < 0.001 * known[0]).all()
    lost, longer = 1 - known[1] / known[0], runs["exposures"] == 1000
    assert lost[~longer].max() < 0.01 < lost[longer].min()
