"""The benchmark for a GPU takes every path on a CPU: one that is lent is not kept waiting."""

import ast
import importlib
import sys
from pathlib import Path

import pytest
import torch
import warm
from ladder import unchecked

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
# What the benchmark asks of nanoGPT's model.py, by a model of its own.
PEER = """
import dataclasses, torch

@dataclasses.dataclass
class GPTConfig:
    block_size: int
    vocab_size: int
    n_layer: int
    n_head: int
    n_embd: int
    dropout: float
    bias: bool

class GPT(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.table = torch.nn.Embedding(config.vocab_size, config.vocab_size)

    def forward(self, ids, targets):
        logits = self.table(ids)
        flat = logits.flatten(0, 1), targets.flatten()
        return logits, torch.nn.functional.cross_entropy(*flat)

    def configure_optimizers(self, decay, rate, betas, device_type):
        return torch.optim.AdamW(self.parameters(), rate, betas, weight_decay=decay)
"""


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("gpu")
    for name in ("gpu", "provenance", "nanogpt_model", "several_gpus"):
        sys.modules.pop(name, None)


def test_every_part_of_the_gpu_benchmark_runs_on_a_cpu(gpu, tmp_path, capsys):
    (tmp_path / "model.py").write_text(PEER)
    text = tmp_path / "text.txt"
    text.write_text("To be, or not to be, that is the question. " * 200)
    out = tmp_path / "gpu.json"
    # As the command runs: no annotation is checked. Its processes need not import PyTorch again.
    with warm.spawning(), unchecked():
        gpu.main(nanogpt=tmp_path, text=text, seeds=1, dry_run=True, out=out)
    said = capsys.readouterr().out
    for word in ("nanoGPT", "bytes counted", "muon", "nats per character", "compiled"):
        assert word in said
    rows = [ast.literal_eval(line) for line in said.splitlines() if "'devices'" in line]
    bandwidth, *divided = rows
    assert bandwidth["devices"] == 2
    assert [row["divided"] for row in divided] == list(gpu.several_gpus.WAYS)
    for row in divided[3:]:
        assert row["bytes sent in a step"] == row["bytes by the formula"] > 0
    assert "Self CPU" in said, "the profiler's table"
    assert "left out" not in said
    assert not out.exists()


def test_several_gpus_are_asked_for_where_there_are_some(gpu, monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    here = {"device": torch.device("cpu"), "nanogpt": None, "text": None}
    bench = gpu.Bench(**here, rows=1, seeds=1, dry_run=False, out=Path())
    assert gpu.devices(bench) == []
    said = "devices: left out, for want of two CUDA devices; there is 1"
    assert said in capsys.readouterr().out


def test_parts_stop_when_their_time_is_over(gpu, capsys):
    gpu.main(dry_run=True, minutes=0, parts=("throughput", "profile"))
    assert capsys.readouterr().out.count("left out, for want of time") == 2
