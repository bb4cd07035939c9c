"""What is seen of a training: history, log, bar, and the end of one that has diverged."""

import dataclasses
import math
import re
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
import tqdm

from decoder_only import GPT, GPTConfig
from decoder_only.model.counting import flops_per_token
from decoder_only.model.presets import PRESETS
from decoder_only.training import StepResult
from decoder_only.training.monitor import Evaluation, History, Monitor


def noted(monitor: Monitor, *losses: float) -> None:
    for loss in losses:
        skipped = torch.tensor(not math.isfinite(loss))
        norm = torch.tensor(2 * loss)
        monitor.note_step(StepResult(torch.tensor(loss), norm, skipped), 0.1)


def begun(*, n_steps: int, tokens_per_step: int = 5, **settings) -> Monitor:
    return Monitor(n_steps=n_steps, history=History(tokens_per_step), **settings)


def kept(records: list) -> Callable[..., None]:
    return lambda *new: records.extend(new)


def test_losses_are_read_together():
    records = []
    monitor = begun(n_steps=7, look_every=3, log=kept(records))
    noted(monitor, 3.0, 2.0)
    assert records == []
    noted(monitor, 1.0, 0.5)
    assert [r["loss"] for r in records] == [3.0, 2.0, 1.0]
    monitor.look()
    assert monitor.history.losses == [3.0, 2.0, 1.0, 0.5]
    assert monitor.history.tokens == 20
    noted(monitor, 0.4, 0.3, 0.2)  # the last step is always looked at
    assert len(records) == 7


def test_an_evaluation_belongs_to_the_steps_before_it():
    records = []
    monitor = begun(n_steps=7, look_every=5, log=kept(records))
    noted(monitor, 3.0, 2.0)
    monitor.note_evaluation(Evaluation(1.5, bytes_per_token=2.0, floor=0.5))
    assert [r["step"] for r in records] == [1, 2, 2]
    assert monitor.history.evaluations[0][0] == 2
    assert monitor.history.final.gap == 1.0
    assert records[-1]["bits_per_byte"] == pytest.approx(1.5 / math.log(2) / 2)


@pytest.mark.parametrize("look_every", [1, 2, 10])
@pytest.mark.parametrize("patience", [1, 3])
def test_it_ends_only_when_patience_does(patience, look_every):
    monitor = begun(n_steps=99, look_every=look_every, patience=patience)
    nan = math.nan
    noted(monitor, *[nan] * (patience - 1), 1.0, *[nan] * (patience - 1), 1.0)
    message = (
        rf"not finite in {patience} steps in a row, up to step {3 * patience}; no st"
    )
    # Steps that went well after those in a row, and are read with them, excuse nothing.
    with pytest.raises(FloatingPointError, match=message):
        noted(monitor, *[nan] * patience, *[1.0] * look_every)


def test_history_recalls_what_its_log_says():
    records = []
    monitor = begun(n_steps=4, look_every=1, log=kept(records))
    noted(monitor, 3.0, math.nan)
    monitor.note_evaluation(Evaluation(1.5, bytes_per_token=2.0, floor=0.5))
    history = History(tokens_per_step=5)
    known = {"bytes_per_token": 2.0, "floor": 0.5}
    history.recall(records, n_steps=2, **known)
    assert history.losses[0] == 3.0
    assert history.gradient_norms[0] == 6.0
    assert math.isnan(history.losses[1])
    assert history.skipped == [2]
    assert history.evaluations == monitor.history.evaluations
    assert history.learning_rates == monitor.history.learning_rates


def test_flops_by_hand():
    """One block, widths that share no value: each weight six times, and scores and values."""
    config = GPTConfig(
        vocab_size=7,
        context_length=5,
        d_model=6,
        n_layers=1,
        n_heads=2,
        d_mlp=11,
        bias=False,
        positions="rotary",
        head_dim=4,
        norm="rms",
    )
    matrices = 4 * 6 * 8 + 2 * 6 * 11 + 7 * 6
    assert flops_per_token(config) == 6 * matrices + 12 * 8 * 5


@pytest.mark.parametrize(
    "name", ["gpt2-small", "gpt3-2.7b", "llama2-7b", "modern-small"]
)
@pytest.mark.parametrize("changes", [{}, {"n_kv_heads": 2, "head_dim": 24}], ids=str)
def test_flops_count_the_matrices_that_multiply(name, changes):
    config = dataclasses.replace(PRESETS[name], n_layers=2, n_heads=4, **changes)
    with torch.device("meta"):
        model = GPT(config)
    maps = [m.weight for m in model.blocks.modules() if isinstance(m, torch.nn.Linear)]
    n = sum(weight.numel() for weight in maps) + config.vocab_size * config.d_model
    width = config.n_heads * config.head_width
    attention = 12 * config.n_layers * width * config.context_length
    assert flops_per_token(config) == 6 * n + attention


def test_the_bar_tells_the_share_of_the_machine(capfd):
    with begun(n_steps=2, progress=True, flops_per_token=8, peak_flops=1.0) as monitor:
        noted(monitor, 3.0, math.nan)
    last = capfd.readouterr().err.rpartition("\r")[2]
    assert "MFU " in last
    assert "1 skipped" in last


@pytest.fixture
def wait(monkeypatch):
    """Lets time go by, for the monitor and its bar, which otherwise stands still."""
    now = [100.0]
    clock = SimpleNamespace(perf_counter=lambda: now[0])
    monkeypatch.setattr("decoder_only.training.monitor.time", clock)
    monkeypatch.setattr(tqdm.std, "time", clock.perf_counter)

    def wait(seconds: float) -> None:
        now[0] += seconds

    return wait


def test_the_speed_is_that_of_the_steps_alone(wait, capfd):
    """Neither what was before a resume nor an evaluation slows them down."""
    history = History(tokens_per_step=1000, losses=[1.0] * 6, seconds=1e6)
    with Monitor(n_steps=10, history=history, look_every=2, progress=True) as monitor:
        noted(monitor, 1.0)
        wait(2)
        noted(monitor, 1.0)
        with monitor.pause():
            wait(50)
            monitor.note_evaluation(Evaluation(1.0, 1.0))
        noted(monitor, 1.0)
        wait(2)
        noted(monitor, 1.0)
    shown = capfd.readouterr().err
    assert set(re.findall(r"([\d,]+) tokens/s", shown)) == {"1,000"}
    assert history.seconds == 1e6 + 54


def test_the_time_left_after_a_resume_is_that_of_the_steps_to_come(wait, capfd):
    history = History(tokens_per_step=1, losses=[1.0] * 900)
    with Monitor(n_steps=1000, history=history, look_every=1, progress=True) as monitor:
        wait(2)
        noted(monitor, 1.0)
    last = capfd.readouterr().err.rpartition("\r")[2]
    # One step took two seconds, 99 are left; by 901 steps it would be nothing.
    assert "03:18 left" in last
    assert "901/1000 steps" in last


def test_lines_that_the_log_has_lost_do_not_shift_the_others():
    history = History(tokens_per_step=5)
    records = [
        {"step": 1, "loss": 3.0, "learning_rate": 0.1, "seconds": 1.0},
        {"step": 4, "loss": 2.0, "gradient_norm": "x", "skipped": True, "seconds": 4.0},
        {"step": 4, "validation_loss": 1.5, "seconds": 5.0},
        {"step": 9, "loss": 1.0, "seconds": 9.0},
        {"step": 5, "seconds": None},
    ]
    history.recall(records, n_steps=5, bytes_per_token=1.0)
    assert [step for step, x in enumerate(history.losses, 1) if x == x] == [1, 4]
    assert len(history.losses) == len(history.gradient_norms) == 5
    assert (history.skipped, history.seconds, history.tokens) == ([4], 5.0, 25)
    assert [step for step, _ in history.evaluations] == [4]
