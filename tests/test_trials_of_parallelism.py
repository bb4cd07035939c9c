"""The trial of chapter 13: five pairs of processes, and each arm timed in every one of them."""

import json

import numpy as np

from decoder_only.variants.parallelism.group import launch
from decoder_only_book import stored
from decoder_only_book.stored import load_runs


def test_it_is_told_how_the_table_was_made():
    path = stored.FOLDER / "trials" / "clocks.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    assert about["runs"] == 5
    assert about["rows"] == len(load_runs("clocks"))
    assert "benchmarks/trials/clocks.py" in about["provenance"]["command"]


def test_every_arm_has_five_fresh_pairs():
    runs = load_runs("clocks")
    arms = {(row["arm"], int(row["n_bytes"])) for row in runs}
    assert len(arms) == 2 * 8
    for arm, size in arms:
        own = runs[(runs["arm"] == arm) & (runs["n_bytes"] == size)]
        assert sorted(own["seed"].tolist()) == [1, 2, 3, 4, 5]
        assert np.all((own["fastest"] > 0) & (own["fastest"] <= own["median"]))


def test_two_devices_time_every_arm_alike(trial, monkeypatch):
    """With fewer rounds, on threads."""
    clocks = trial("clocks")
    for name, value in {"ROUNDS": 2, "SIZES": [4096]}.items():
        monkeypatch.setattr(clocks, name, value)
    here, there = launch(clocks.clock, 2, native=True)
    assert here == there, "the slower one's time, on both"
    assert [row[0] for row in here] == ["gloo", "ring"]
    assert all(0 < fastest <= middle for *_, fastest, middle in here)
