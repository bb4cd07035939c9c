"""Two processes do what one does: the same losses, and states that either can go on from."""

import json
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from test_resume import (
    HELD_OUT,
    SETTINGS,
    TEXT,
    Stop,
    assert_same_end,
    begin,
    go,
    stop_after,
    tiny,
)

from decoder_only.engine import checkpoint, log
from decoder_only.engine.distributed import (
    ALONE,
    Process,
    all_reduce_sum,
    any_rank,
    broadcast,
    distribute_like,
    full_tensor,
    gather_to_cpu,
    local_tensor,
    process_group,
    wrap,
)
from decoder_only.training import TrainConfig, train

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
    reason="this PyTorch has no gloo to let processes talk through",
)

SCRIPT = textwrap.dedent(
    """
    import json, sys
    sys.path.insert(0, sys.argv[1])
    import torch
    torch.set_num_threads(1)
    from pathlib import Path
    from test_resume import HELD_OUT, SETTINGS, TEXT, Stop, stop_after, tiny
    from decoder_only.engine.distributed import process_group
    from decoder_only.training import TrainConfig, train

    run, strategy, n_steps = Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    config = TrainConfig(**{**SETTINGS, **json.loads(sys.argv[5])})
    model = tiny(**json.loads(sys.argv[6]))
    if n_steps:
        stop_after(model, n_steps)
    with process_group("cpu") as process:
        try:
            train(model, TEXT, HELD_OUT, config, run=run, process=process,
                  strategy=strategy)
        except Stop:
            pass
    """
)
# Dropout draws differ between processes, each of which has its own rows.
SHAPE = {"dropout": 0.0}


def launched(script: str, *arguments: str, n_processes: int = 2) -> list[str]:
    """Run a script in several processes, as torchrun starts them; what each printed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    children = []
    for rank in range(n_processes):
        environment = {
            **os.environ,
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(n_processes),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        children.append(
            subprocess.Popen(
                [sys.executable, "-c", script, *arguments],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    said = [child.communicate(timeout=240)[0] for child in children]
    assert [child.returncode for child in children] == [0] * n_processes, "".join(said)
    return said


def together(
    run: Path, strategy: str, *, n_processes: int = 2, n_steps: int = 0, **changes
) -> None:
    """Train in several processes."""
    arguments = [str(Path(__file__).parent), str(run), strategy, str(n_steps)]
    arguments += [json.dumps(changes), json.dumps(SHAPE)]
    launched(SCRIPT, *arguments, n_processes=n_processes)


def losses(run: Path) -> list[float]:
    return [r["loss"] for r in log.read_log(run) if "loss" in r]


def validations(run: Path) -> list[float]:
    records = log.read_log(run)
    return [r["validation_loss"] for r in records if "validation_loss" in r]


def begun(folder: Path) -> Path:
    return begin(folder, **SHAPE)


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    run = begun(tmp_path_factory.mktemp("runs") / "alone")
    go(run, tiny(**SHAPE))
    return run


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
@pytest.mark.parametrize(
    "changes", [{}, {"optimizer": "adamw", "accumulation": 2}], ids=str
)
def test_two_processes_have_the_losses_of_one(tmp_path, strategy, changes):
    one, two = begun(tmp_path / "one"), begun(tmp_path / "two")
    go(one, tiny(**SHAPE), **changes)
    together(two, strategy, **changes)
    torch.testing.assert_close(losses(two), losses(one), rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(validations(two), validations(one), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_a_run_of_two_goes_on_alone_and_the_reverse(tmp_path, alone, strategy):
    run = begun(tmp_path / "two, then one")
    together(run, strategy, n_steps=7)
    assert checkpoint.latest_state(run).step == 6
    history = go(run, tiny(**SHAPE))
    torch.testing.assert_close(history.losses, losses(alone), rtol=2e-5, atol=2e-5)

    run = begun(tmp_path / "one, then two")
    config = TrainConfig(**SETTINGS)
    with pytest.raises(Stop):
        train(stop_after(tiny(**SHAPE), 7), TEXT, HELD_OUT, config, run=run)
    together(run, strategy)
    assert len(losses(run)) == 12
    torch.testing.assert_close(losses(run), losses(alone), rtol=2e-5, atol=2e-5)
    assert checkpoint.load(run).step == 12


def test_one_process_under_torchrun_is_as_good_as_alone(tmp_path, alone):
    run = begun(tmp_path / "run")
    together(run, "ddp", n_processes=1)
    assert_same_end(run, alone)


def test_without_torchrun_a_process_is_alone(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with process_group("cpu") as process:
        assert process is ALONE
        assert process.is_first
    model, x = tiny(), torch.ones(2)
    assert wrap(model, ALONE) is model
    assert all_reduce_sum(x, ALONE) is x
    assert full_tensor(x) is x
    assert local_tensor(x) is x
    assert any_rank(True, ALONE)
    assert broadcast("mine", ALONE) == "mine"
    assert distribute_like(x, x) is x
    copy = gather_to_cpu({"x": x}, ALONE)["x"]
    assert torch.equal(copy, x)
    assert copy.data_ptr() != x.data_ptr()


def test_an_unknown_strategy_is_named():
    with pytest.raises(ValueError, match=r"strategy='zero' cannot work: .*'ddp'"):
        train(tiny(), TEXT, HELD_OUT, TrainConfig(**SETTINGS), strategy="zero")


def test_rows_that_do_not_divide_are_refused(tmp_path):
    config = TrainConfig(**SETTINGS)
    with pytest.raises(
        ValueError, match="batch_size=4 does not divide among 3 processes"
    ):
        train(tiny(), TEXT, HELD_OUT, config, process=Process(rank=0, n_ranks=3))


FACTS = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch, torch.distributed as dist
torch.set_num_threads(1)
import test_training as t
from decoder_only.engine import distributed
from decoder_only.engine.distributed import gather_to_cpu, local_tensor, process_group
from decoder_only.optimization import Muon

counts = {}
for name in ("all_reduce", "all_gather"):
    def counted(*args, real=getattr(dist, name), name=name, **settings):
        counts[name] = counts.get(name, 0) + 1
        return real(*args, **settings)
    setattr(dist, name, counted)

def stepped(matrices, gradients, process):
    parameters = [torch.nn.Parameter(x.clone()) for x in matrices]
    muon = Muon(parameters, learning_rate=0.1, weight_decay=0.1, process=process)
    for p, g in zip(parameters, gradients):
        p.grad = g.clone()
    rows = []
    real = muon._orthogonalize
    muon._orthogonalize = lambda x, **rest: (rows.append(len(x)), real(x, **rest))[1]
    muon.step()
    return [p.detach() for p in parameters], rows

told = {}
with process_group("cpu") as process:
    # Muon: shares of five matrices of one shape and one of another.
    g = torch.Generator().manual_seed(0)
    shapes = [(6, 4)] * 5 + [(4, 6)]
    matrices, gradients = ([torch.randn(s, generator=g) for s in shapes] for _ in "ab")
    ours, rows = stepped(matrices, gradients, process)
    alone, _ = stepped(matrices, gradients, distributed.ALONE)
    for a, b in zip(ours, alone):
        torch.testing.assert_close(a, b)
    told["rows"], told["muon"] = rows, dict(counts)

    # A loss that is infinite in one process, though all gradients are finite: nobody steps.
    counts.clear()
    model = t.tiny()
    wrapped = distributed.wrap(model, process)
    extra = torch.inf if process.rank else 0
    wrapped_loss = lambda m, i, w: t.training.batch_loss(m, i, w) + extra
    moving = t.build_optimizers(model, learning_rate=0.1)
    before = model.embedding.weight.detach().clone()
    result = t.train_step(wrapped, moving, *t.a_batch(), accumulation=2,
                          loss_function=wrapped_loss, process=process)
    told["skipped"] = bool(result.skipped)
    told["moved"] = not torch.equal(model.embedding.weight, before)
    told["step"] = dict(counts)
    told["views"] = wrapped.gradient_as_bucket_view

    # FSDP from the meta device: the first process's weights, a share in each.
    with torch.device("meta" if process.rank else "cpu"):
        model = t.tiny()
    full = sum(p.numel() for p in model.parameters())
    expected = t.tiny().state_dict()
    distributed.wrap(model, process, "fsdp", blocks=model.blocks)
    told["share"] = sum(local_tensor(p).numel() for p in model.parameters()) / full
    gathered = gather_to_cpu(model.state_dict(), process)
    told["gathered"] = len(gathered)
    for name, x in gathered.items():
        assert torch.equal(x, expected[name]), name
print("told", json.dumps(told))
"""


def test_what_two_processes_share(tmp_path):
    said = launched(FACTS, str(Path(__file__).parent))
    lines = ["".join(x.split("told ")[1:]) for x in said]
    first, second = (json.loads(line) for line in lines)
    # Three of five matrices in each, the last of the second a filling; one of one and a filling.
    assert first["rows"] == second["rows"] == [3, 1]
    assert first["muon"] == {"all_gather": 2}, "one for each shape"
    for told in (first, second):
        assert told["skipped"]
        assert not told["moved"]
        assert told["step"] == {"all_reduce": 1}, "besides DDP's own"
        assert told["views"]
        assert told["share"] == pytest.approx(0.5, abs=0.01)
    assert first["gathered"] == 16
    assert second["gathered"] == 0


@pytest.mark.parametrize("missing", ["RANK", "LOCAL_RANK"])
def test_half_a_process_group_is_refused(monkeypatch, missing):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.setenv(name, "1")
    monkeypatch.delenv(missing)
    wanted = pytest.raises(ValueError, match=f"WORLD_SIZE=1 .*{missing} is not a numb")
    with wanted, process_group("cpu"):
        pass
