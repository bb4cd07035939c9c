"""What is seen of a training: history, log, bar, and the end of one that has diverged."""

import math
import sys

import pytest
import torch

from decoder_only import GPT, GPTConfig
from decoder_only.engine.monitor import Evaluation, History, Monitor, flops_per_token
from decoder_only.presets import PRESETS


def noted(monitor: Monitor, *losses: float) -> None:
    for loss in losses:
        skipped = torch.tensor(not math.isfinite(loss))
        monitor.note_step(torch.tensor(loss), skipped, 0.1)


def test_losses_are_read_together():
    records = []
    monitor = Monitor(n_steps=7, tokens_per_step=5, look_every=3, log=records.append)
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
    monitor = Monitor(n_steps=7, tokens_per_step=5, look_every=5, log=records.append)
    noted(monitor, 3.0, 2.0)
    monitor.note_evaluation(Evaluation(1.5, bytes_per_token=2.0, floor=0.5))
    assert [r["step"] for r in records] == [1, 2, 2]
    assert monitor.history.evaluations[0][0] == 2
    assert monitor.history.final.gap == 1.0
    assert records[-1]["bits_per_byte"] == pytest.approx(1.5 / math.log(2) / 2)


@pytest.mark.parametrize("patience", [1, 3])
def test_it_ends_only_when_patience_does(patience):
    monitor = Monitor(n_steps=99, tokens_per_step=1, look_every=1, patience=patience)
    nan = math.nan
    noted(monitor, *[nan] * (patience - 1), 1.0, *[nan] * (patience - 1), 1.0)
    message = (
        rf"not finite in {patience} steps in a row, up to step {3 * patience}; no st"
    )
    with pytest.raises(FloatingPointError, match=message):
        noted(monitor, *[nan] * patience)


def test_history_recalls_what_its_log_says():
    records = []
    monitor = Monitor(n_steps=4, tokens_per_step=5, look_every=1, log=records.append)
    noted(monitor, 3.0, math.nan)
    monitor.note_evaluation(Evaluation(1.5, bytes_per_token=2.0, floor=0.5))
    history = History(tokens_per_step=5)
    history.recall(records, Evaluation(0.0, bytes_per_token=2.0, floor=0.5))
    assert history.losses[0] == 3.0
    assert math.isnan(history.losses[1])
    assert history.skipped == [2]
    assert history.evaluations == monitor.history.evaluations
    assert history.learning_rates == monitor.history.learning_rates


def test_flops_by_hand():
    """One block, widths that share no value: each weight six times, and scores and values."""
    model = GPT(
        GPTConfig(
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
    )
    matrices = 4 * 6 * 8 + 2 * 6 * 11 + 7 * 6
    norms = 2 * 6  # counted with the blocks, though they are no matrices
    assert flops_per_token(model) == 6 * (matrices + norms) + 12 * 8 * 5


def test_flops_of_gpt2_as_published():
    """MFU's numerator for GPT-2 small: 6 x 123.6 M + 12 L D S within a part in a hundred."""
    with torch.device("meta"):
        model = GPT(PRESETS["gpt2-small"])
    expected = 6 * 123.6e6 + 12 * 12 * 768 * 1024
    assert flops_per_token(model) == pytest.approx(expected, rel=0.01)


def test_the_bar_tells_the_share_of_the_machine(capfd):
    with Monitor(
        n_steps=2, tokens_per_step=5, progress=True, flops_per_token=8, peak_flops=1.0
    ) as monitor:
        noted(monitor, 3.0, math.nan)
    last = capfd.readouterr().err.rpartition("\r")[2]
    assert "MFU " in last
    assert "1 skipped" in last


def test_a_board_without_tensorboard_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ImportError, match=r"pip install 'decoder-only\[tensorboard\]'"):
        Monitor(n_steps=1, tokens_per_step=1, board=tmp_path)


def test_a_board_receives_every_number(tmp_path, monkeypatch):
    written = []

    class Writer:
        def __init__(self, folder):
            self.folder = folder

        def add_scalar(self, name, value, step):
            written.append((name, value, step))

        def close(self):
            written.append("closed")

    module = type(sys)("torch.utils.tensorboard")
    module.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    with Monitor(n_steps=1, tokens_per_step=1, board=tmp_path) as monitor:
        noted(monitor, 2.0)
        monitor.note_evaluation(Evaluation(1.5, bytes_per_token=2.0))
    assert ("loss", 2.0, 1) in written
    assert ("validation_loss", 1.5, 1) in written
    assert written[-1] == "closed"
