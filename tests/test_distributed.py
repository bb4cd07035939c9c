"""Two processes do what one does: the same losses, and states that either can go on from."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path
from unittest import mock

import pool
import pytest
import test_training
import torch
import warm
from test_resume import (
    HELD_OUT,
    SETTINGS,
    TEXT,
    TOKENIZER,
    Stop,
    assert_same_end,
    begin,
    go,
    one_thread,
    stop_after,
    tiny,
)

from decoder_only import training
from decoder_only.model.lm_head import IGNORED
from decoder_only.training import TrainConfig, checkpoint, log, processes, train
from decoder_only.training.optimizers import Muon, build_optimizers
from decoder_only.training.processes import (
    ALONE,
    Process,
    all_gather,
    all_reduce_sum,
    any_rank,
    broadcast,
    full_tensor,
    is_sharded,
    local_copies,
    local_rows,
    local_tensor,
    process_group,
    wrap,
)
from decoder_only.training.state import initial_state

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
    reason="this PyTorch has no gloo to let processes talk through",
)

# Dropout draws differ between processes, each of which has its own rows.
SHAPE = {"dropout": 0.0}


def launched(
    script: str, *arguments: str, n_processes: int = 2, ends: tuple[int, ...] = (0, 0)
) -> list[str]:
    """Run a script in processes of its own, as torchrun starts them; what each printed."""
    path = f"{Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}"
    common = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    with pool.world(n_processes) as environments:
        children = [
            subprocess.Popen(
                [*warm.python(), "-c", script, *arguments],
                env=common | environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for environment in environments
        ]
        said = [child.communicate(timeout=240)[0] for child in children]
    codes = tuple(child.returncode for child in children)
    assert codes == ends[:n_processes], "".join(said)
    return said


def trained(run: str, strategy: str, n_steps: int, changes: dict[str, object]) -> None:
    """In one of several processes: train, and stop after some steps, or after all with 0."""
    config = TrainConfig(**{**SETTINGS, **changes})
    model = tiny(**SHAPE)
    if n_steps:
        stop_after(model, n_steps)
    with process_group("cpu") as process, contextlib.suppress(Stop):
        settings = {"run": Path(run), "process": process, "strategy": strategy}
        train(model, TEXT, HELD_OUT, config, **settings)


def together(run: Path, strategy: str, *, n_steps: int = 0, **changes) -> None:
    """Train in two processes."""
    pool.call("test_distributed:trained", str(run), strategy, n_steps, changes, n=2)


def losses(run: Path) -> list[float]:
    return [r["loss"] for r in log.read_log(run) if "loss" in r]


def validations(run: Path) -> list[float]:
    records = log.read_log(run)
    return [r["validation_loss"] for r in records if "validation_loss" in r]


def unequal(rank: int, n_ranks: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A process's rows of a batch that asks for one token in the first and for eight below."""
    ids = torch.randint(257, (4, 9), generator=torch.Generator().manual_seed(0))
    targets = ids[:, 1:].clone()
    targets[:2, 1:] = IGNORED
    rows = slice(rank * 4 // n_ranks, (rank + 1) * 4 // n_ranks)
    return ids[rows, :-1], targets[rows]


def gradient_of_unequal(strategy: str) -> list[float]:
    """The loss before a step, and each weight after it."""
    with process_group("cpu") as process:
        state = initial_state(
            tiny(**SHAPE), TrainConfig(**SETTINGS, accumulation=2), process, strategy
        )
        batch = unequal(process.rank, process.n_ranks)
        optimizers = [torch.optim.SGD(state.model.parameters(), lr=1.0)]
        result = training.train_step(
            state.loss, optimizers, *batch, process=process, accumulation=2
        )
        whole = [full_tensor(p.detach()).sum() for p in state.model.parameters()]
        return [float(result.loss), *map(float, whole)]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_processes_with_unequal_targets_take_the_step_of_one(strategy):
    function = "test_distributed:gradient_of_unequal"
    (one,), two = pool.call(function, strategy), pool.call(function, strategy, n=2)
    for each in two:
        torch.testing.assert_close(each, one, rtol=1e-5, atol=1e-5)


def group_and_kept() -> bool:
    """In one of several processes: whether the group is kept when its context is left."""
    with process_group("cpu"):
        group = torch.distributed.group.WORLD
    return any(kept is group for kept in processes._kept)


def test_a_group_outlives_the_models_that_use_it():
    # Freed with a DDP model it waits, under Python's lock, for a thread that may need that lock:
    # without this, one call in ten of the test above never ended on a busy machine.
    assert pool.call("test_distributed:group_and_kept", n=2) == [True, True]


def begun(folder: Path) -> Path:
    return begin(folder, **SHAPE)


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    run = begun(tmp_path_factory.mktemp("runs") / "alone")
    with one_thread():
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


def trained_as_the_only_one(environment: dict[str, str], run: str) -> None:
    os.environ.update(environment)  # which the pool takes back
    trained(run, "ddp", 0, {})


def test_one_process_under_torchrun_is_as_good_as_alone(tmp_path, alone):
    run = begun(tmp_path / "run")
    with pool.world(1) as [environment]:
        pool.call("test_distributed:trained_as_the_only_one", environment, str(run))
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
    assert not is_sharded(x)
    assert torch.equal(x[local_rows(x)], x)
    copy = local_copies({"x": x}, ALONE)["x"]
    assert torch.equal(copy, x)
    assert copy.data_ptr() != x.data_ptr()


def test_an_unknown_strategy_is_named():
    with pytest.raises(ValueError, match=r"strategy='zero' must be one of .*'ddp'"):
        train(tiny(), TEXT, HELD_OUT, TrainConfig(**SETTINGS), strategy="zero")


def test_rows_that_do_not_divide_are_refused(tmp_path):
    config = TrainConfig(**SETTINGS)
    with pytest.raises(
        ValueError, match="batch_size=4 does not divide among 3 processes"
    ):
        train(tiny(), TEXT, HELD_OUT, config, process=Process(rank=0, n_ranks=3))


def stepped(matrices, gradients, process):
    """One step of Muon, and how many matrices this process had to orthogonalize."""
    parameters = [torch.nn.Parameter(x.clone()) for x in matrices]
    muon = Muon(parameters, learning_rate=0.1, weight_decay=0.1, process=process)
    for p, g in zip(parameters, gradients, strict=True):
        p.grad = g.clone()
    rows, real = [], muon._orthogonalize
    muon._orthogonalize = lambda x, **rest: (rows.append(len(x)), real(x, **rest))[1]
    muon.step()
    return [p.detach() for p in parameters], rows


def shared() -> dict[str, object]:
    """In one of two processes: what it has of the work, and how often it talks."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard, distribute_tensor

    counts, told, dist = Counter(), {}, torch.distributed

    def counted(name):
        real = getattr(dist, name)

        def call(*args, **settings):
            counts[name] += 1
            return real(*args, **settings)

        return mock.patch.object(dist, name, call)

    with contextlib.ExitStack() as stack:
        for name in ("all_reduce", "all_gather", "all_to_all_single"):
            stack.enter_context(counted(name))
        process = stack.enter_context(process_group("cpu"))
        # Muon: shares of five matrices of one shape and one of another.
        g = torch.Generator().manual_seed(0)
        shapes = [(6, 4)] * 5 + [(4, 6)]
        matrices, gradients = (
            [torch.randn(shape, generator=g) for shape in shapes] for _ in "ab"
        )
        ours, rows = stepped(matrices, gradients, process)
        told["rows"], told["muon"] = rows, dict(counts)
        alone, _ = stepped(matrices, gradients, ALONE)
        torch.testing.assert_close(ours, alone)

        # The same of shards, uneven ones, and one without a row: no process gathers all.
        mesh = init_device_mesh("cpu", (2,))
        shapes = [(7, 4)] * 5 + [(1, 6)]
        matrices, gradients = (
            [torch.randn(shape, generator=g) for shape in shapes] for _ in "ab"
        )
        alone, _ = stepped(matrices, gradients, ALONE)
        matrices, gradients = (
            [distribute_tensor(x, mesh, [Shard(0)]) for x in each]
            for each in (matrices, gradients)
        )
        counts.clear()
        with mock.patch.object(DTensor, "full_tensor", side_effect=AssertionError):
            ours, told["rows of shards"] = stepped(matrices, gradients, process)
        told["muon of shards"] = dict(counts)
        torch.testing.assert_close([x.full_tensor() for x in ours], alone)

        # A loss that is infinite in one process, though all gradients are finite: nobody steps.
        model = test_training.tiny()
        loss = training.NextTokenLoss(model)
        if process.rank:
            loss.register_forward_hook(lambda *given: given[-1] + torch.inf)
        wrapped = wrap(loss, process)
        moving = build_optimizers(model, learning_rate=0.1)
        before = model.embedding.weight.detach().clone()
        counts.clear()
        result = training.train_step(
            wrapped,
            moving,
            *test_training.a_batch(),
            accumulation=2,
            process=process,
        )
        told["skipped"] = bool(result.skipped)
        told["moved"] = not torch.equal(model.embedding.weight, before)
        told["step"] = dict(counts)
        told["views"] = wrapped.gradient_as_bucket_view

        # FSDP from the meta device: the first process's weights, a share in each.
        with torch.device("meta" if process.rank else "cpu"):
            model = test_training.tiny()
        full = sum(p.numel() for p in model.parameters())
        expected = test_training.tiny().state_dict()
        wrap(model, process, "fsdp", blocks=model.blocks)
        state = model.state_dict() | {"scalar": torch.tensor(2.0)}
        copies = local_copies(state, process)
        told["copies"] = len(copies)
        told["share"] = sum(x.numel() for x in copies.values()) / full
        for name, x in expected.items():
            assert torch.equal(x[local_rows(state[name])], copies[name]), name
    return told


def test_all_messages_go_to_the_group_of_the_process():
    """Whose first process need not be the first of all."""
    process, x = Process(rank=0, n_ranks=2, group="mine"), torch.ones(2)
    names = ("all_reduce", "all_gather", "broadcast_object_list")
    with mock.patch.multiple(
        torch.distributed, **dict.fromkeys(names, mock.DEFAULT)
    ) as sent:
        all_reduce_sum(x, process)
        all_gather(x, process)
        broadcast("value", process)
    for name in names:
        assert sent[name].call_args.kwargs["group"] == "mine"
    assert sent["broadcast_object_list"].call_args.kwargs.get("group_src") == 0
    assert "src" not in sent["broadcast_object_list"].call_args.kwargs


def test_what_two_processes_share():
    first, second = pool.call("test_distributed:shared", n=2)
    # Three of five matrices in each, the last of the second a filling; one of one and a filling.
    assert first["rows"] == second["rows"] == [3, 1]
    assert first["muon"] == {"all_gather": 2}, "one for each shape"
    assert first["rows of shards"] == second["rows of shards"] == [3, 1]
    assert first["muon of shards"] == {"all_to_all_single": 4}, "there and back"
    for told in (first, second):
        assert told["skipped"]
        assert not told["moved"]
        assert told["step"] == {"all_reduce": 2}, "targets and loss, besides DDP's own"
        assert told["views"]
        assert told["share"] == pytest.approx(0.5, abs=0.01)
    assert first["copies"] == 17
    assert second["copies"] == 16, "without what is not sharded"


@pytest.mark.parametrize("missing", ["RANK", "LOCAL_RANK"])
def test_half_a_process_group_is_refused(monkeypatch, missing):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.setenv(name, "1")
    monkeypatch.delenv(missing)
    wanted = pytest.raises(ValueError, match=f"WORLD_SIZE=1 .*{missing} is not a numb")
    with wanted, process_group("cpu"):
        pass


# ------------------------------------------------------------------- states that nobody holds whole

SHARDED = """
import json, os, signal, sys, tracemalloc
import torch
from pathlib import Path
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from test_resume import HELD_OUT, TEXT, Stop, stop_after, tiny
from decoder_only import training
from decoder_only.model.lm_head import IGNORED
from decoder_only.training import checkpoint, loop
from decoder_only.training.processes import local_tensor, process_group
from decoder_only.training.state import TrainingState

place, shape, settings = Path(sys.argv[1]), *map(json.loads, sys.argv[2:])


def storages(values):
    found = [local_tensor(x) for x in tree_leaves(values) if isinstance(x, torch.Tensor)]
    return {x.untyped_storage()._cdata: x.untyped_storage()
            for x in found if x.device.type == "cpu"}


class Allocated(TorchDispatchMode):
    # The most bytes that tensors made within held at a time.
    peak = 0

    def __init__(self):
        super().__init__()
        self.made = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        found = {k: x for k, x in storages(result).items() if k not in self.made}
        before = storages((args, kwargs)) if found else {}
        made = {k: (StorageWeakRef(x), x.nbytes()) for k, x in found.items()
                if k not in before}
        if made:  # most operations look at what is there
            alive = {k: x for k, x in self.made.items() if not x[0].expired()}
            self.made = alive | made
            self.peak = max(self.peak, sum(n for _, n in self.made.values()))
        return result


def measured(function, told):
    def run(*arguments):
        tracemalloc.start()
        with Allocated() as tensors:
            result = function(*arguments)
        told.append([tensors.peak, tracemalloc.get_traced_memory()[1]])
        tracemalloc.stop()
        return result
    return run


def go(process, name, n_steps=99):
    model = stop_after(tiny(**shape), n_steps)
    config = training.TrainConfig(**settings)
    try:
        training.train(model, TEXT, HELD_OUT, config, run=place / name,
                       process=process, strategy="fsdp")
    except Stop:
        pass


def failing(process, fail):
    # In the second process, while the state after four steps is written.
    def write(path, *arguments, **settings):
        if process.rank == 1 and "00000004" in str(path):
            fail()
        real_write(path, *arguments, **settings)
    return write


def no_space():
    raise OSError(28, "No space left on device")


real_write, real_submit = checkpoint.write_tensors, checkpoint.Saver.submit
with process_group("cpu") as process:
    go(process, "whole")
    go(process, "stopped", n_steps=5)

    told = {"save": [], "restore": [], "open": []}
    checkpoint.write_tensors = failing(process, no_space)
    try:
        go(process, "failed")
    except OSError as error:
        told["failed"] = str(error)
    checkpoint.write_tensors = real_write

    # The rest of two runs is measured, and written at once instead of in a thread.
    checkpoint.Saver.submit = lambda self, write: write()
    checkpoint.latest_state = measured(checkpoint.latest_state, told["open"])
    loop._save = measured(loop._save, told["save"])
    restored = measured(TrainingState.restore, told["restore"])

    def restore(state, saved):
        if saved is None:
            return
        restored(state, saved)
        own = state.tensors()
        assert own.keys() == saved.tensors.keys()
        sizes = []
        for key, x in saved.tensors.items():  # each is read as it is looked up
            sizes.append(x.nbytes)
            x = x.chunk(2)[process.rank] if x.ndim else x
            assert torch.equal(local_tensor(own[key]), x), key
        told["whole"], told["largest"] = sum(sizes), max(sizes)
        told["own"] = sum(local_tensor(x).nbytes for x in own.values())

    TrainingState.restore = restore
    go(process, "stopped")
    go(process, "one")
    print("told", json.dumps(told), flush=True)

    checkpoint.Saver.submit = real_submit
    kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
    checkpoint.write_tensors = failing(process, kill)
    go(process, "killed")
"""
WIDE = {**SHAPE, "d_model": 128, "n_layers": 2}
FEW = {**SETTINGS, "steps": 6, "optimizer": "adamw"}


@pytest.fixture(scope="module")
def shards(tmp_path_factory) -> tuple[Path, list[dict]]:
    """Runs of two processes that hold shards, and what the processes told of them.

    One was never stopped, one was, one was begun by one process alone; in one the second process
    could not write a state, and in the last it was killed while it wrote it.
    """
    place = tmp_path_factory.mktemp("shards")
    for name in ("whole", "stopped", "one", "failed", "killed"):
        begin(place / name, **WIDE)
    model, config = stop_after(tiny(**WIDE), 5), TrainConfig(**FEW)
    with pytest.raises(Stop):
        train(model, TEXT, HELD_OUT, config, run=place / "one")
    arguments = [str(place), json.dumps(WIDE), json.dumps(FEW)]
    said = launched(SHARDED, *arguments, ends=(1, -signal.SIGKILL))
    return place, [json.loads(x.split("told ")[1].splitlines()[0]) for x in said]


def test_shards_go_on_bit_by_bit(shards):
    place, _ = shards
    assert_same_end(place / "stopped", place / "whole")
    for name in ("whole", "stopped", "one"):
        states = sorted(path.name for path in (place / name).glob("*state*"))
        assert states == [
            "state-00000004" + ".safetensors" * (name == "one"),
            "state-00000006",
        ]
        found = sorted(path.name for path in (place / name / states[1]).iterdir())
        assert found == ["00001.safetensors", "00002.safetensors"]
    state = checkpoint.latest_state(place / "whole")
    weights = checkpoint.load(place / "whole").model.state_dict()
    assert all(torch.equal(x, state.tensors[f"model.{n}"]) for n, x in weights.items())
    assert (place / "whole" / "weights.safetensors").exists()


def test_one_process_takes_up_the_shards_of_two(shards):
    place, _ = shards
    saved = checkpoint.latest_state(place / "whole")
    config = TrainConfig(**FEW)
    state = initial_state(tiny(**WIDE), config, ALONE, "ddp")
    state.restore(saved)
    own = state.tensors()
    assert own.keys() == saved.tensors.keys()
    assert all(torch.equal(x, saved.tensors[name]) for name, x in own.items())


def test_no_process_ever_holds_more_than_its_shards_and_one_tensor(shards):
    """Neither as tensors nor as Python's bytes; in the first process, nor in the other."""
    _, (first, second) = shards
    for told in (first, second):
        assert told["own"] < 0.51 * told["whole"]
        assert told["largest"] < 0.06 * told["whole"]
        for what in ("open", "restore", "save"):
            assert len(told[what]) == 2, "of two runs"
            for tensors, others in told[what]:
                assert tensors <= told["own"] + told["largest"], what
                assert (tensors > 0) == (what != "open")
                assert others < told["own"] / 2, what


def test_what_is_wrong_with_a_shard_is_said_and_the_older_state_is_used(
    tmp_path, shards
):
    place, _ = shards
    shutil.copytree(place / "whole", run := tmp_path / "run")
    newest, older = run / "state-00000006", run / "state-00000004"
    shard = newest / "00002.safetensors"
    content = shard.read_bytes()
    another = place / "stopped" / newest.name / shard.name
    flipped = content[:-1] + bytes([content[-1] ^ 1])
    of_first = (newest / "00001.safetensors").read_bytes()
    of_older, of_another = (older / shard.name).read_bytes(), another.read_bytes()
    for wrong, file, reason in (
        (flipped, "00002", "its bytes do not match its checksum"),
        (content[:-9], "00002", "its bytes do not match its checksum"),
        (of_older, "00002", "it was not saved together with 00001.safetensors"),
        (of_another, "00002", "it was not saved together with 00001.safetensors"),
        (of_first, "00002", "it is shard 1 of 2, but the file is 2 of 2"),
        (None, "00001", "it is shard 1 of 2, but the file is 1 of 1"),
    ):
        shard.unlink() if wrong is None else shard.write_bytes(wrong)
        found = checkpoint.latest_state(run)
        assert found.step == 4
        assert f"{newest / file}.safetensors is damaged" in found.damaged[0]
        assert reason in found.damaged[0]
    shard.write_bytes(content)
    assert checkpoint.latest_state(run).step == 6
    for path in newest.iterdir():
        path.unlink()
    assert "there is no file in it" in checkpoint.latest_state(run).damaged[0]
    (run / "weights.safetensors").unlink()
    with pytest.warns(UserWarning, match="passed over: .* no file in it"):
        assert checkpoint.load(run).step == 4
    settings = {"model_config": tiny(**WIDE).config, "tokenizer": TOKENIZER}
    checkpoint.create_run(run, **settings, overwrite=True)
    assert not list(run.glob("state-*"))


def test_a_save_that_is_killed_leaves_the_old_state(shards):
    run = shards[0] / "killed"
    names = sorted(path.name for path in run.glob("*state-*"))
    assert len(names) == 2
    assert names[0].startswith(".state-00000004.")
    assert checkpoint.latest_state(run).step == 2
    history = train(tiny(**WIDE), TEXT, HELD_OUT, TrainConfig(**FEW), run=run)
    assert len(history.losses) == 6
    names = sorted(path.name for path in run.glob("*state-*"))
    assert names == ["state-00000004.safetensors", "state-00000006.safetensors"]


def test_where_one_cannot_write_all_stop_and_the_old_state_stays(shards):
    place, told = shards
    run = place / "failed"
    for process, reason in enumerate(
        ("another process could not write its part", "No space left on device")
    ):
        assert told[process]["failed"] == (
            f"cannot save {run / 'state-00000004'}: {reason}; "
            f"the last good state is {run / 'state-00000002'}"
        )
    assert [path.name for path in run.glob("*state-*")] == ["state-00000002"]
