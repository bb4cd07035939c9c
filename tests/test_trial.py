"""What the trials share: rates until the best lies between two others, and nothing made twice."""

import csv
import json
import math
import sys
from dataclasses import asdict, dataclass
from itertools import pairwise

import pytest

from decoder_only_book import stored
from decoder_only_book.stored import load_runs

TABLES = sorted((stored.FOLDER / "trials").glob("*.csv"))
BEST = {"low": 0.25, "high": 2.0}


@dataclass(frozen=True, kw_only=True)
class Point:
    arm: str
    learning_rate: float = 1.0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    loss: float
    processor_seconds: float = 1.0


def measure(point: Point) -> Row:
    loss = math.log2(point.learning_rate / BEST[point.arm]) ** 2
    return Row(**asdict(point), loss=loss)


@pytest.fixture
def trial(trial):
    return trial("trial")


@pytest.fixture
def make(trial, monkeypatch, tmp_path):
    table = trial.Table("none", Point)
    table.path = tmp_path / "none.csv"
    arms = [Point(arm=arm) for arm in BEST]
    experiments = {
        "rates": lambda: table.rates(arms),
        "seeds": lambda: table.seeds(arms, (1, 2)),
    }

    def call(*words, by=measure):
        monkeypatch.setattr(sys, "argv", ["trial", *words])
        table.make(by, experiments, packages=())
        with table.path.open(newline="") as file:
            return list(csv.DictReader(file))

    return call


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_it_is_told_how_a_table_was_made(table):
    about = json.loads(table.with_suffix(".json").read_text(encoding="utf-8"))
    n_runs = len(load_runs(table.stem))
    assert about.get("runs", n_runs) == n_runs
    assert f"benchmarks/trials/{table.stem}.py" in about["provenance"]["command"]


def test_every_arm_is_tried_around_its_best_and_then_from_fresh_seeds(make, tmp_path):
    rows = make()
    tried = {(row["arm"], float(row["learning_rate"]), row["seed"]) for row in rows}
    rates = {"low": (0.125, 0.25, 0.5, 1), "high": (0.5, 1, 2, 4)}
    expected = {(arm, rate, "0") for arm in rates for rate in rates[arm]}
    assert tried == expected | {(arm, BEST[arm], seed) for arm in BEST for seed in "12"}
    about = json.loads((tmp_path / "none.json").read_text())
    assert about["runs"] == about["processor seconds"] == len(rows) == 12


def test_what_stands_in_the_table_is_not_made_again(make):
    rows = make("rates")

    def refuse(point):
        pytest.fail(f"{point} was made again")

    assert make("rates", by=refuse) == rows


def test_an_unknown_experiment_is_refused_by_name(make, capsys):
    with pytest.raises(SystemExit):
        make("sizes")
    assert "no experiment 'sizes'; give some of rates, seeds" in capsys.readouterr().err


def test_learning_follows_the_schedule_and_stops_at_no_number(trial):
    import torch

    model = torch.nn.Linear(1, 1, bias=False)
    settings = {"steps": 4, "learning_rate": 1.0, "warmup": 2}
    weights = []

    def loss_at(step):
        weights.append(model.weight.item())
        return model.weight.sum() if step < 3 else math.inf * model.weight.sum()

    losses = trial.learn(model, loss_at, **settings)
    steps = [before - after for before, after in pairwise(weights)]
    # Half of a full step in the warm-up, then the cosine's shares.
    expected = [0.5, (1 + math.cos(math.pi / 4)) / 2, 0.5]
    assert steps == pytest.approx(expected, abs=1e-4)
    assert len(losses) == 4
    assert not math.isfinite(losses[-1])
