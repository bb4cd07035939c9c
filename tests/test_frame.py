"""The frame of the trials: what enters a table, what is made again and what is not, and by whom."""

import csv
import json
import math
import os
import re
import runpy
import signal
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import warm

from decoder_only_book import stored
from decoder_only_book.stored import load_runs

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
TOOLS = str(Path(warm.PROGRAM).parent)
TABLES = sorted((stored.FOLDER / "trials").glob("*.csv"))
TRIALS = [table.stem for table in TABLES]
BEST = {"low": 0.25, "high": 2.0}


@dataclass(frozen=True, kw_only=True)
class Run:
    arm: str
    learning_rate: float = 1.0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    loss: float
    parameters: int | None = None


ARMS = [Run(arm=arm) for arm in BEST]


def measure(run):
    """How far a rate is from the arm's best."""
    return Found(loss=math.log2(run.learning_rate / BEST[run.arm]) ** 2)


@pytest.fixture
def frame(trial):
    return trial("trial")


@pytest.fixture
def one(frame, tmp_path):
    """A trial whose table is in a folder of the test."""
    settings = {
        "arms": ARMS,
        "seeds": (1, 2),
        "folder": tmp_path,
        "packages": ("torch",),
    }
    return frame.Trial("none", Run, Found, **settings)


@pytest.fixture
def command(one, monkeypatch):
    """Gives the trial's command some words; the rows that are then in the table, as text."""

    def call(*words, by=measure):
        monkeypatch.setattr(sys, "argv", ["trial", *words])
        one.main(by, rates=one.search, seeds=one.repeat)
        return lines(one.table.path)

    return call


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# ---------------------------------------------------------------------------------- stored tables


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_it_is_told_how_a_table_was_made(table):
    about = json.loads(table.with_suffix(".json").read_text(encoding="utf-8"))
    n_rows = len(load_runs(table.stem))
    # Older tables tell their rows as runs.
    assert about.get("rows", about.get("runs", n_rows)) == n_rows
    assert f"benchmarks/trials/{table.stem}.py" in about["provenance"]["command"]


@pytest.mark.parametrize("name", TRIALS)
def test_the_readme_has_the_command_of_every_trial(name):
    script = (BENCHMARKS / "trials" / f"{name}.py").read_text(encoding="utf-8")
    command = re.search(f"^    (python benchmarks/trials/{name}.py.*)$", script, re.M)
    readme = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    assert command.group(1) in readme.splitlines()


def test_every_stored_table_is_that_of_its_trial(trial):
    here = {path.stem for path in (BENCHMARKS / "trials").glob("*.py")}
    assert here - {"trial", "hamlet"} == {*TRIALS}
    trials = [trial(name).TRIAL for name in TRIALS] + [trial("recipe").TRIAL]
    sweep = trial("sweep")
    trials += [sweep.trial_of(experiment) for experiment in sweep.EXPERIMENTS]
    for each in trials:
        rows, texts = each.table.rows(), lines(each.table.path)
        assert each.name == each.table.path.stem
        assert len(rows) == len(texts) > 0
        assert all(row[each.score] == row[each.score] for row in rows), "a score is NaN"
        for row, text in zip(rows, texts, strict=True):
            read = {x: math.nan if y is None else y for x, y in row.items()}
            told = {x: y or "nan" for x, y in text.items()}
            assert {x: str(y) for x, y in read.items()} == told
        assert each.table.of(each.table.runs(rows)[-1])[-1] == rows[-1]


@pytest.mark.parametrize("name", [*(f"trials/{name}" for name in TRIALS), "recipe"])
def test_the_command_of_a_trial_has_nothing_left_to_make(name, frame, monkeypatch):
    def refuse(trial, _, run):
        pytest.fail(f"{run} is not in the table")

    monkeypatch.setattr(frame.Trial, "rows_made", refuse)

    def written():
        return {path: path.stat().st_mtime_ns for path in stored.FOLDER.rglob("*.*")}

    before = written()
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(BENCHMARKS / f"{name}.py"), run_name="__main__")
    assert written() == before


def test_the_sweep_has_nothing_left_to_make(trial):
    trial("trial")  # knows the way to it
    sweep = trial("sweep")
    for name, experiment in sweep.EXPERIMENTS.items():
        wanted, table = set(experiment("cpu")), sweep.trial_of(name).table
        assert wanted <= set(table.runs(table.rows()))


# ---------------------------------------------------------------------------------- which are made


def test_every_arm_is_tried_around_its_best_and_then_from_fresh_seeds(command):
    rows = command()
    tried = {(row["arm"], float(row["learning_rate"]), row["seed"]) for row in rows}
    rates = {"low": (0.125, 0.25, 0.5, 1), "high": (0.5, 1, 2, 4)}
    expected = {(arm, rate, "0") for arm in rates for rate in rates[arm]}
    assert tried == expected | {(arm, BEST[arm], seed) for arm in BEST for seed in "12"}
    assert len(rows) == 12


def test_several_seeds_choose_by_their_mean(one):
    losses = {1.0: (0, 4), 2.0: (1, 1), 4.0: (3,)}
    for rate, of_seeds in losses.items():
        for seed, loss in enumerate(of_seeds):
            run = Run(arm="low", learning_rate=rate, seed=seed)
            one.table.keep(one.rows_made(lambda _, x=loss: Found(loss=x), run))
    assert one.best(ARMS[0]).learning_rate == 1.0
    assert one.best(ARMS[0], seeds=(0, 1)).learning_rate == 2.0
    assert one.best(ARMS[1], seeds=(0, 1)) == ARMS[1]


def test_a_run_is_scored_by_the_row_that_is_named(frame, tmp_path):
    @dataclass(frozen=True, kw_only=True)
    class State:
        step: int
        loss: float

    found = [State(step=step, loss=1.0 / step) for step in (1, 2, 4)]
    for scored, loss in (({"step": 2}, 0.5), (None, 0.25)):
        folder = tmp_path / str(loss)
        one = frame.Trial("states", Run, State, scored=scored, folder=folder)
        one.table.keep(one.rows_made(lambda _: found, ARMS[0]))
        assert one.scores(ARMS[0]) == {(1.0,): loss}


def test_what_is_in_the_table_is_not_made_again(command, one):
    rows = command("rates")
    told = one.table.path.with_suffix(".json")
    told.write_text("of the runs that were made")

    def refuse(run):
        pytest.fail(f"{run} was made again")

    assert command("rates", by=refuse) == rows
    assert told.read_text() == "of the runs that were made"


def test_a_table_half_made_is_gone_on_with(command, one):
    whole = command()
    for kept in (1, 5, len(whole) - 1):
        one.table.path.unlink()
        for row in whole[:kept]:
            one.table.keep([row])
        made = []

        def note(run, made=made):
            made.append(run)
            return measure(run)

        assert sorted(map(str, command(by=note))) == sorted(map(str, whole))
        assert len(made) == len(whole) - kept


def test_everything_is_told_of_how_the_runs_were_made(command, one, frame):
    command("rates")
    about = json.loads(one.table.path.with_suffix(".json").read_text())
    assert about["runs"] == about["rows"] == len(one.table.rows()) == 8
    assert about["processor seconds"] == 0
    told = about["provenance"]
    assert told["command"].endswith("trial rates")
    (name, version), *more = told["packages"].items()
    # A wheel need not say in its version which CUDA it is for; what is imported does.
    assert name == "torch"
    assert torch.__version__.startswith(version)
    assert not more
    names = {"date", "revision", "processor", "cores", "load", "system", "python"}
    assert all(told[name] for name in names)


# ---------------------------------------------------------------------------------- what is refused


@dataclass(frozen=True, kw_only=True)
class Other:
    loss: float = 0.0


BAD = {
    "loss=tensor\\(1.\\) .* must be a number, text or None": Found(
        loss=torch.tensor(1.0)
    ),
    "parameters=\\[1\\] .* must be a number, text or None": Found(
        loss=1, parameters=[1]
    ),
    "loss=nan of Run\\(arm='low'.* write math.inf": Found(loss=math.nan),
    "gave \\[Other\\(loss=0.0\\)\\], where Found belongs": Other(),
    "gave \\[\\], where Found belongs": [],
}


@pytest.mark.parametrize("message", BAD)
def test_bad_rows_are_refused(command, one, message):
    with pytest.raises((TypeError, ValueError), match=message):
        command("rates", by=lambda _: BAD[message])
    assert not one.table.path.exists()


def test_a_loss_that_is_no_number_any_more_is_kept_as_infinite(command):
    rows = command(
        "rates",
        by=lambda run: Found(loss=math.inf if run.learning_rate > 1 else 0.12345678),
    )
    assert {row["loss"] for row in rows} == {"inf", "0.12346"}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda text: text[:-9], "the last line of none.csv has no end"),
        (lambda text: text + "low,2.0\r\n", "line 10 of none.csv is damaged"),
        (lambda text: text.replace("0.5", "half"), "is damaged .*'half'"),
        (lambda text: text.replace("loss", "error", 1), "differ in error, loss; move"),
    ],
)
def test_a_damaged_table_is_refused(command, one, spoil, message):
    command("rates")
    text = one.table.path.read_bytes().decode()
    one.table.path.write_bytes(spoil(text).encode())
    with pytest.raises(ValueError, match=message):
        command()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sizes"], "no experiment 'sizes'; give some of rates, seeds"),
        (["--jobs", "0"], "--jobs 0 must be 1 or more"),
        (["--again"], "--again needs --rows COLUMN=VALUE"),
        (["--rows", "seed=9"], "no row of none.csv has seed=9"),
        (["--rows", "arms=low"], "the columns: arm, learning_rate, seed, loss"),
    ],
)
def test_a_command_that_cannot_work_says_what_would(command, capsys, words, message):
    command("rates")
    with pytest.raises(SystemExit) as refused:
        command(*words)
    assert refused.value.code == 2
    assert message in capsys.readouterr().err


# ---------------------------------------------------------------------------------- rows made again


def test_rows_are_shown_and_made_again(command, one, capsys):
    rows = command("rates")
    capsys.readouterr()
    assert command("--rows", "arm=low", "learning_rate=0.5") == rows
    shown = capsys.readouterr().out
    assert shown.startswith("arm=low learning_rate=0.5 seed=0 loss=1.0 parameters= ")
    assert shown.count("\n") == 1
    with pytest.raises(SystemExit) as same:
        command("--rows", "arm=low", "--again")
    assert same.value.code == 0
    assert capsys.readouterr().out.count("the same") == 4
    with pytest.raises(SystemExit) as different:
        command("--rows", "arm=high", "--again", by=lambda _: Found(loss=0.0))
    assert different.value.code == 1
    assert "row 1: loss is 0.0, and 1.0 in the table" in capsys.readouterr().out
    assert lines(one.table.path) == rows


def test_another_table_can_be_kept_elsewhere(command, one, tmp_path):
    rows = command("rates")
    command("rates", "--into", str(tmp_path / "other"))
    assert lines(tmp_path / "other" / "none.csv") == rows


@pytest.mark.parametrize("name", ["adapters", "made_up"])
def test_help_tells_the_question_and_every_experiment(name, trial, monkeypatch, capsys):
    module = trial(name)
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit):
        module.TRIAL.main(module.measure, rates=module.TRIAL.search)
    told = capsys.readouterr().out
    assert module.__doc__.splitlines()[0] in told
    assert "Against" in told
    assert "rates         Halve and double the rates of every arm" in told


# ---------------------------------------------------------------------------------- its processes

SCRIPT = """
import os, signal, sys
from dataclasses import dataclass
sys.path[:0] = {places!r}
import warm
from frame import Trial

@dataclass(frozen=True, kw_only=True)
class Run:
    arm: str
    learning_rate: float = 1.0
    seed: int = 0

@dataclass(frozen=True, kw_only=True)
class Found:
    step: int
    loss: float

ARMS = [Run(arm="low"), Run(arm="high")]
TRIAL = Trial("killed", Run, Found, arms=ARMS, seeds=(1, 2), packages=())

def measure(run):
    for step in (1, 2):
        if os.environ.get("KILL") == f"{{run.arm}} {{run.learning_rate}} {{step}}":
            os.kill(os.getpid(), signal.SIGKILL)
        if os.environ.get("FAIL") == f"{{run.arm}} {{run.seed}}":
            raise ArithmeticError("that seed fails")
        yield Found(step=step, loss=(run.learning_rate - 2) ** 2 + step + run.seed)

if __name__ == "__main__":
    with warm.spawning():
        TRIAL.main(measure, rates=TRIAL.search, seeds=TRIAL.repeat)
"""


@pytest.fixture
def script(frame, tmp_path, monkeypatch):
    """Runs a trial, in a process of its own or here; its error, its status, and its rows."""
    path = tmp_path / "killed.py"
    path.write_text(SCRIPT.format(places=[str(BENCHMARKS), TOOLS]))

    def call(folder, *words, here=False, **environment):
        words = [str(path), "--into", str(tmp_path / folder), *words]
        if here:
            monkeypatch.setattr(sys, "argv", words)
            runpy.run_path(str(path), run_name="__main__")
            error, status = "", 0
        else:
            done = subprocess.run(
                [*warm.python(), *words],
                env=os.environ | environment,
                capture_output=True,
                text=True,
            )
            error, status = done.stderr, done.returncode
        rows = lines(tmp_path / folder / "killed.csv")
        for row in rows:
            row.pop("processor_seconds")
        return error, status, sorted(rows, key=lambda row: tuple(row.values()))

    return call


def test_whatever_becomes_of_its_processes_no_run_is_lost(script):
    _, _, whole = script("whole", here=True)
    assert len(whole) == 2 * (2 * 4 + 2 * 2)
    _, status, rows = script("killed", KILL="high 2.0 2")
    assert status == -signal.SIGKILL
    assert 0 < len(rows) < len(whole)
    assert len(rows) % 2 == 0, "all rows of a run, or none"
    assert all(row in whole for row in rows)
    # Two processes go on, to rows that are equal; what fails in one of them stops no other.
    error, status, rows = script("killed", "--jobs", "2", FAIL="low 1")
    assert status == 1
    assert "ArithmeticError: that seed fails" in error
    assert rows == [row for row in whole if (row["arm"], row["seed"]) != ("low", "1")]
    assert script("killed", here=True)[2] == whole


# ---------------------------------------------------------------------------------- how it learns


def test_learning_follows_the_schedule_and_stops_at_no_number(frame):
    model = torch.nn.Linear(1, 1, bias=False)
    settings = {"steps": 4, "learning_rate": 1.0, "warmup": 2}
    weights = []

    def loss_at(step):
        weights.append(model.weight.item())
        return model.weight.sum() if step < 3 else math.inf * model.weight.sum()

    losses = frame.learn(model, loss_at, **settings)
    steps = [before - after for before, after in pairwise(weights)]
    # Half of a full step in the warm-up, then the cosine's shares.
    expected = [0.5, (1 + math.cos(math.pi / 4)) / 2, 0.5]
    assert steps == pytest.approx(expected, abs=1e-4)
    assert len(losses) == 4
    assert not math.isfinite(losses[-1])
