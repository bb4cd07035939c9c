"""A run that is stopped, killed or damaged goes on as if nothing had happened."""

import json
import os
import random
import signal
import subprocess
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import pytest
import torch
import warm
from ladder import unchecked

from decoder_only import GPT, GPTConfig
from decoder_only.base import hardware
from decoder_only.data import document_corpus, text_corpus
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import TrainConfig, checkpoint, train
from decoder_only.training.checkpoint import latest_state, locked, save_state
from decoder_only.training.log import append_log, cut_log, read_log

TOKENIZER = BytePairTokenizer([])


@pytest.fixture(autouse=True, scope="module")
def as_a_command_trains():
    """Without the annotations' checks, which would take half of the time: see `test_training`."""
    with unchecked():
        yield


TEXT = text_corpus(
    "the cat sat on the mat, and the dog sat on the cat. " * 8, TOKENIZER
)
HELD_OUT = document_corpus(["the dog sat on the mat.", "the cat."], TOKENIZER)
SHAPE = {
    "vocab_size": 257,
    "context_length": 16,
    "d_model": 16,
    "n_layers": 1,
    "n_heads": 2,
    "dropout": 0.1,  # its draws must be repeated too
}
SETTINGS = {
    "steps": 12,
    "batch_size": 4,
    "learning_rate": 1e-2,
    "warmup_steps": 2,
    "optimizer": "muon",
    "evaluate_every": 6,
    "save_every": 2,
    "log_every": 3,
}


def tiny(**changes) -> GPT:
    config = GPTConfig(**{**SHAPE, **changes})
    return GPT(config, generator=torch.Generator().manual_seed(0))


def begin(folder: Path, **changes) -> Path:
    config = GPTConfig(**{**SHAPE, **changes})
    return checkpoint.create_run(folder, model_config=config, tokenizer=TOKENIZER)


def go(run: Path, model: GPT | None = None, **changes):
    config = TrainConfig(**{**SETTINGS, **changes})
    return train(model or tiny(), TEXT, HELD_OUT, config, run=run)


@contextmanager
def one_thread():
    """As in the processes that tests start: two threads add up in another order."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


def log(run: Path) -> list[dict]:
    """What the log says, apart from the time that it took."""
    return [{k: v for k, v in r.items() if k != "seconds"} for r in read_log(run)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run that nothing happened to."""
    run = begin(tmp_path_factory.mktemp("runs") / "whole")
    go(run)
    return run


def assert_same_end(run: Path, other: Path) -> None:
    assert log(run) == log(other)
    ours, theirs = latest_state(run), latest_state(other)
    assert (ours.step, ours.damaged) == (theirs.step, theirs.damaged)
    assert set(ours.tensors) == set(theirs.tensors)
    for name, tensor in ours.tensors.items():
        assert torch.equal(tensor, theirs.tensors[name]), name
    weights = [
        checkpoint.load(folder).model.state_dict().values() for folder in (run, other)
    ]
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))


class Stop(Exception):
    pass


def stop_after(model: GPT, n_steps: int) -> GPT:
    """A model whose next training step fails."""
    taken = []

    def hook(module, inputs):
        if module.training:
            taken.append(1)
            if len(taken) > n_steps:
                raise Stop

    model.register_forward_pre_hook(hook)
    return model


# ---------------------------------------------------------------------------------- bit by bit


@pytest.mark.parametrize("n_steps", [1, 2, 5, 6, 11])
def test_a_run_that_dies_goes_on_and_ends_the_same(tmp_path, whole, n_steps):
    run = begin(tmp_path / "run")
    with pytest.raises(Stop):
        go(run, stop_after(tiny(), n_steps))
    saved = latest_state(run)
    assert (saved.step if saved else 0) == n_steps // 2 * 2
    history = go(run)
    assert_same_end(run, whole)
    assert history.losses == [r["loss"] for r in log(whole) if "loss" in r]
    assert len(history.learning_rates) == 12
    assert [step for step, _ in history.evaluations] == [6, 12]


def test_a_run_may_die_again_and_again(tmp_path, whole):
    run = begin(tmp_path / "run")
    for _ in range(5):
        with pytest.raises(Stop):
            go(run, stop_after(tiny(), 3))
    go(run)
    assert_same_end(run, whole)


def test_what_goes_on_does_not_depend_on_the_weights_it_is_given(tmp_path, whole):
    run = begin(tmp_path / "run")
    with pytest.raises(Stop):
        go(run, stop_after(tiny(), 7))
    other = GPT(GPTConfig(**SHAPE), generator=torch.Generator().manual_seed(99))
    go(run, other)
    assert_same_end(run, whole)


def test_a_finished_run_stays_as_it_is(tmp_path, whole):
    before = {path.name: path.read_bytes() for path in whole.iterdir()}
    history = go(whole)
    assert len(history.losses) == 12
    assert {path.name: path.read_bytes() for path in whole.iterdir()} == before


def test_how_often_it_is_looked_at_may_change(tmp_path, whole):
    run = begin(tmp_path / "run")
    with pytest.raises(Stop):
        go(run, stop_after(tiny(), 7))
    go(run, save_every=5, log_every=1)
    assert_same_end(run, whole)


# ------------------------------------------------------------------------------------- killing

SCRIPT = """
import os, sys
sys.path.insert(0, {tests!r})
import torch
torch.set_num_threads(1)
from test_resume import begin, go
from pathlib import Path
run = Path(sys.argv[1])
for line in sys.stdin:
    child = os.fork()
    if not child:
        if not run.exists():
            begin(run)
        print(os.getpid(), flush=True)
        go(run, steps=int(sys.argv[2]), save_every=1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def kill_again_and_again(run: Path, *, n_kills: int, n_steps: int, seed: int) -> int:
    """Train in a process of its own, kill it with SIGKILL at random moments, and begin anew.

    Every step is saved, so that most moments lie within a save. Each is a copy of one process that
    has imported everything and has trained nothing. Returns the number of kills.
    """
    rng, killed = random.Random(seed), 0
    script = SCRIPT.format(tests=str(Path(__file__).parent))
    with subprocess.Popen(
        [*warm.python(), "-c", script, str(run), str(n_steps)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as parent:
        while True:
            print("train", file=parent.stdin, flush=True)
            child = int(parent.stdout.readline())
            if killed < n_kills:
                # Every other one only after a save, which a busy machine takes long to reach.
                before, end = sorted(run.glob("state-*")), time.monotonic() + 20
                while killed % 2 == 0 and time.monotonic() < end:
                    if sorted(run.glob("state-*")) != before:
                        break
                    time.sleep(0.005)
                time.sleep(rng.uniform(0.0, 0.4))
                with suppress(ProcessLookupError):  # it came to its end before
                    os.kill(child, signal.SIGKILL)
            code = int(parent.stdout.readline())
            if code == 0:
                parent.stdin.close()
                return killed
            if code != -signal.SIGKILL:
                parent.kill()
            assert code == -signal.SIGKILL, parent.stderr.read()
            killed += 1


@pytest.mark.skipif(os.name == "nt", reason="Windows knows no SIGKILL")
def test_a_run_that_is_killed_at_random_moments_ends_the_same(tmp_path):
    """A handful of times here; `python benchmarks/soak.py` does it 200 times."""
    run, whole = tmp_path / "killed", begin(tmp_path / "whole")
    with one_thread():
        go(whole, steps=60, save_every=1)
    killed = kill_again_and_again(run, n_kills=4, n_steps=60, seed=0)
    assert killed >= 1
    assert_same_end(run, whole)


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGTERM")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_saves_and_leaves_cleanly(tmp_path, whole, number):
    run, model = begin(tmp_path / "run"), tiny()
    calls = []

    def send(module, inputs):
        calls.append(1)
        if module.training and len(calls) == 4:
            os.kill(os.getpid(), number)

    model.register_forward_pre_hook(send)
    # Who starts the tests may have them ignore it, as a shell's background or `nohup` does.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        history = go(run, model, save_every=99, evaluate_every=99)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert len(history.losses) == 4
    assert latest_state(run).step == 4
    with pytest.raises(Stop):
        go(run, stop_after(tiny(), 3))
    go(run)
    assert_same_end(run, whole)


def test_a_second_signal_does_not_wait(tmp_path):
    # A shell that starts the tests in the background lets them ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    run, model = begin(tmp_path / "run"), tiny()

    def send(module, inputs):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    model.register_forward_pre_hook(send)
    with pytest.raises(KeyboardInterrupt):
        go(run, model)
    signal.signal(signal.SIGINT, before)


def test_training_works_outside_the_main_thread(tmp_path, whole):
    run = begin(tmp_path / "run")
    thread = threading.Thread(target=go, args=(run,))
    thread.start()
    thread.join()
    assert_same_end(run, whole)


# ------------------------------------------------------------------------------------- damage


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_two_states_are_kept(whole):
    names = sorted(path.name for path in whole.glob("state-*"))
    assert names == ["state-00000010.safetensors", "state-00000012.safetensors"]


@pytest.mark.parametrize("how", ["flipped", "cut", "empty"])
def test_the_last_good_state_is_found_and_it_says_so(tmp_path, whole, how):
    run = begin(tmp_path / "run")
    with pytest.raises(Stop):
        go(run, stop_after(tiny(), 9))
    newest = run / "state-00000008.safetensors"
    if how == "flipped":
        damage(newest)
    else:
        newest.write_bytes(newest.read_bytes()[: 1000 if how == "cut" else 0])
    found = latest_state(run)
    assert found.step == 6
    assert str(newest) in found.damaged[0]
    config = TrainConfig(**SETTINGS)
    with pytest.warns(UserWarning, match=f"passed over: {newest} is damaged"):
        train(tiny(), TEXT, HELD_OUT, config, run=run)
    assert_same_end(run, whole)


def test_without_any_good_state_it_says_so_and_touches_nothing(tmp_path):
    run = begin(tmp_path / "run")
    with pytest.raises(Stop):
        go(run, stop_after(tiny(), 9))
    for path in run.glob("state-*"):
        damage(path)
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    with pytest.raises(ValueError, match=r"no state can be used: .*08.*; .*06"):
        go(run)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_a_state_of_another_run_is_passed_over(tmp_path, whole):
    run = checkpoint.create_run(
        tmp_path / "run",
        model_config=GPTConfig(**SHAPE),
        tokenizer=TOKENIZER,
        details={"another": "run"},
    )
    strange = whole / "state-00000012.safetensors"
    (run / strange.name).write_bytes(strange.read_bytes())
    with pytest.raises(ValueError, match=r"config.json is damaged or has been changed"):
        latest_state(run)


def test_a_log_that_was_cut_short_is_mended(tmp_path):
    run = begin(tmp_path / "run")
    lines = [json.dumps({"step": n, "loss": 1.0}) + "\n" for n in range(1, 6)]
    (run / "log.jsonl").write_text("".join(lines) + '{"step": 6, "lo')
    assert [r["step"] for r in read_log(run)] == [1, 2, 3, 4, 5]
    cut_log(run, step=3)
    assert [r["step"] for r in read_log(run)] == [1, 2, 3]
    assert (run / "log.jsonl").read_text() == "".join(lines[:3])


def test_a_full_disk_names_the_last_good_state(tmp_path, monkeypatch):
    run = begin(tmp_path / "run")
    save_state(run, {"model.x": torch.ones(2)}, step=1)

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        OSError, match=r"cannot save .*02.*: No space left .*last good state is .*01"
    ):
        save_state(run, {"model.x": torch.zeros(2)}, step=2)
    assert torch.equal(latest_state(run).tensors["model.x"], torch.ones(2))
    assert not list(run.glob(".*.part"))


# -------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 8}, r"was begun with steps=12 \(training\), not 8"),
        ({"optimizer": "adamw"}, r"begun with optimizer='muon' \(training\)"),
        ({"seed": 1}, r"begun with seed=0 \(training\), not 1"),
    ],
    ids=str,
)
def test_another_configuration_is_refused_before_anything_is_touched(
    tmp_path, changes, message
):
    run = begin(tmp_path / "run")
    with pytest.raises(Stop):
        go(run, stop_after(tiny(), 7))
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    with pytest.raises(ValueError, match=message + ".*or choose another folder"):
        go(run, **changes)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_another_model_is_refused(whole):
    model = GPT(GPTConfig(**{**SHAPE, "d_model": 8}))
    with pytest.raises(ValueError, match=r"begun with d_model=16 \(model\), not 8"):
        go(whole, model)


def test_other_data_are_refused(whole):
    other = text_corpus("quite another text. " * 20, TOKENIZER)
    with pytest.raises(
        ValueError, match="was begun with other train data: fingerprint "
    ):
        train(tiny(), other, HELD_OUT, TrainConfig(**SETTINGS), run=whole)


def test_other_validation_data_are_refused(whole):
    other = document_corpus(["quite another text."], TOKENIZER)
    with pytest.raises(ValueError, match="with other validation data: fingerprint"):
        train(tiny(), TEXT, other, TrainConfig(**SETTINGS), run=whole)


@pytest.mark.parametrize(
    ("part", "details"),
    [
        ("train data", {"data": {"fingerprints": {"train": "0" * 64}}}),
        ("validation data", {"data": {"fingerprints": {"validation": "0" * 64}}}),
        ("seed=5", {"training": {"seed": 5}}),
    ],
)
def test_what_config_says_is_checked_before_there_is_a_state(tmp_path, part, details):
    run = tmp_path / "run"
    config = GPTConfig(**SHAPE)
    checkpoint.create_run(
        run, model_config=config, tokenizer=TOKENIZER, details=details
    )
    with pytest.raises(ValueError, match=f"was begun with .*{part}"):
        go(run)
    assert read_log(run) == []


def test_equal_data_may_come_from_elsewhere_and_how_memory_is_saved_may_change(
    tmp_path, whole
):
    run = begin(tmp_path / "run")
    with pytest.raises(Stop):
        go(run, stop_after(tiny(), 7))
    again = text_corpus(
        "the cat sat on the mat, and the dog sat on the cat. " * 8, TOKENIZER
    )
    frugal = TrainConfig(**SETTINGS, recompute=True, loss_slices=2)
    history = train(tiny(), again, HELD_OUT, frugal, run=run)
    expected = [r["loss"] for r in log(whole) if "loss" in r]
    assert history.losses == pytest.approx(expected, rel=1e-4)
    # Parts of a batch draw other masks: dropout makes it another run, but not a refused one.
    run = begin(tmp_path / "another")
    with pytest.raises(Stop):
        go(run, stop_after(tiny(), 7))
    assert len(go(run, accumulation=2).losses) == 12


def test_a_run_may_get_more_steps_and_is_loaded_where_it_is_furthest(tmp_path):
    run = begin(tmp_path / "run")
    go(run)
    go(run, stop_after(tiny(), 0), steps=12)  # it is over: nothing is asked
    with pytest.raises(Stop):
        go(run, stop_after(tiny(), 3), steps=16)
    assert checkpoint.load(run).step == latest_state(run).step == 14
    with pytest.raises(ValueError, match="was begun with steps=16"):
        go(run, steps=12)
    history = go(run, steps=16)
    assert len(history.losses) == 16
    assert checkpoint.load(run).step == 16
    # The cosine follows the new length from the step on at which it became known.
    schedule = TrainConfig(**{**SETTINGS, "steps": 16})
    assert history.learning_rates[12:] == pytest.approx(
        [1e-2 * schedule.rate_factor(step) for step in range(12, 16)]
    )


def test_a_log_holds_all_finite_numbers_and_no_others(tmp_path):
    """Such as the gradient's norm in a run that diverges."""
    norms = [1.5e30, -3.4e38, 0.0, None]
    records = [{"step": 1, "gradient_norm": norm} for norm in norms]
    append_log(tmp_path, *records)
    assert read_log(tmp_path) == records
    for wrong in ("Infinity", "-Infinity", "NaN", "1" + "0" * 400):
        (tmp_path / "log.jsonl").write_text(f'{{"step": 1, "loss": {wrong}}}\n' * 2)
        with pytest.warns(UserWarning, match="1 damaged lines"):
            assert not read_log(tmp_path)


def test_the_number_of_steps_is_the_states_and_not_the_logs(tmp_path, whole):
    run = begin(tmp_path / "run")
    with pytest.raises(Stop):
        go(run, stop_after(tiny(), 9))
    path = run / "log.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2]) + "nonsense\n" + "".join(lines[5:7]))
    with pytest.warns(UserWarning, match=r"1 damaged lines of .* moved to .*damaged"):
        history = go(run)
    assert (run / "log.damaged").read_text() == "nonsense\n"
    assert len(history.losses) == 12
    kept = log(run)
    theirs = {(r["step"], "loss" in r): r for r in log(whole)}
    assert all(theirs[r["step"], "loss" in r] == r for r in kept), "no misnumbered step"
    assert latest_state(run).step == 12
    history = go(run)  # it is over
    assert len(history.losses) == 12
    assert sum(x != x for x in history.losses) == len(theirs) - len(kept)


def test_the_log_is_on_the_disk_before_the_state(tmp_path, monkeypatch):
    run, order = begin(tmp_path / "run"), []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        os,
        "fsync",
        lambda n: (order.append(os.readlink(f"/proc/self/fd/{n}")), fsync(n)),
    )
    monkeypatch.setattr(
        os, "replace", lambda a, b: (order.append(str(b)), replace(a, b))
    )
    append_log(run, {"step": 1})
    save_state(run, {"model.x": torch.ones(2)}, step=1)
    names = [Path(name).name for name in order]
    state = "state-00000001.safetensors"
    assert names == ["log.jsonl", f".{state}.part", state, "run"]


def test_a_save_does_not_hold_up_the_steps(tmp_path, monkeypatch):
    """Steps go on while a state is written; what is written is of the step that it names."""
    run, written, gate = begin(tmp_path / "run"), [], threading.Event()
    real = checkpoint.save_state

    def slow(folder, tensors, *, step, **settings):
        assert gate.wait(20)
        written.append((step, dict(tensors)))
        return real(folder, tensors, step=step, **settings)

    monkeypatch.setattr(checkpoint, "save_state", slow)
    model, seen = tiny(), []

    def look(module, inputs):
        if module.training:
            seen.append(module.embedding.weight.detach().clone())
            if (
                len(seen) == 6
            ):  # the fifth step is over; the state after four is not written
                assert written == []
                gate.set()

    model.register_forward_pre_hook(look)
    go(run, model, save_every=4, evaluate_every=99)
    assert [step for step, _ in written] == [4, 8, 12]
    for step, tensors in written[:2]:
        assert torch.equal(tensors["model.embedding.weight"], seen[step])


def test_a_save_that_fails_in_the_background_is_raised(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError("cannot save it: No space left on device")

    monkeypatch.setattr(checkpoint, "save_state", full)
    for every in (2, 12):  # found by the next save, or at the end
        with pytest.raises(OSError, match="No space left"):
            go(begin(tmp_path / f"run-{every}"), save_every=every)


def test_a_training_goes_on_in_another_number_format(tmp_path, monkeypatch):
    """Begun on a CPU, or in bfloat16: no scale was saved. Gone on in float16, and the reverse."""
    run, model = begin(tmp_path / "run"), tiny()
    with pytest.raises(Stop):
        go(run, stop_after(tiny(), 5))
    for half, stop in ((True, 5), (False, 99)):
        format = torch.float16 if half else torch.float32
        with monkeypatch.context() as patch:
            patch.setattr(hardware, "multiplying_format", lambda device, f=format: f)
            patch.setattr(hardware, "autocast", lambda device: nullcontext())
            model = stop_after(tiny(), stop)
            with pytest.raises(Stop) if stop < 99 else nullcontext():
                go(run, model)
        assert ("scale.value" in latest_state(run).tensors) is half
    assert latest_state(run).step == 12


def test_two_processes_do_not_train_in_one_folder(tmp_path, whole):
    run = begin(tmp_path / "run")
    with locked(run):
        with pytest.raises(OSError, match=r"another process is at work in .*run; stop"):
            go(run)
        assert read_log(run) == []
    go(run)
    assert_same_end(run, whole)


def test_a_run_that_trains_is_not_replaced(tmp_path, whole):
    """Not by a process that asks for it while the lock is held: nothing is deleted."""
    run = begin(tmp_path / "run")
    with pytest.raises(Stop):
        go(run, stop_after(tiny(), 7))
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    with locked(run), pytest.raises(OSError, match="another process is at work in"):
        checkpoint.create_run(
            run,
            model_config=GPTConfig(**SHAPE),
            tokenizer=TOKENIZER,
            overwrite=True,
        )
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    go(run)
    assert_same_end(run, whole)


def test_the_lock_is_kept_from_the_beginning_to_the_end(tmp_path, whole):
    settings = {"model_config": GPTConfig(**SHAPE), "tokenizer": TOKENIZER}
    config = TrainConfig(**SETTINGS)
    with checkpoint.new_run(tmp_path / "run", **settings) as run:
        for _ in range(2):  # before the training, and after it
            with pytest.raises(OSError, match="another process is at work in"):
                checkpoint.create_run(run, **settings, overwrite=True)
            train(tiny(), TEXT, HELD_OUT, config, run=run)
    assert_same_end(run.folder, whole)


def test_those_who_begin_at_once_get_folders_of_their_own(tmp_path):
    found, barrier = [], threading.Barrier(8)

    def begin_one() -> None:
        barrier.wait()
        found.append(checkpoint.new_folder(tmp_path / "runs", "name"))

    threads = [threading.Thread(target=begin_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path.name for path in found) == [f"name-{n}" for n in range(1, 9)]
    assert all(path.is_dir() for path in found)


def test_a_folder_that_another_process_makes_first_is_not_taken(tmp_path, monkeypatch):
    real = Path.mkdir

    def late(path, *arguments, **settings):
        if path.name == "stories-1" and not path.exists():
            real(path)  # the other one, between a look and the making
        real(path, *arguments, **settings)

    monkeypatch.setattr(Path, "mkdir", late)
    assert checkpoint.new_folder(tmp_path, "stories").name == "stories-2"


# ------------------------------------------------------------------------------------ more steps


def test_a_warm_up_that_was_not_given_does_not_keep_a_run_short(tmp_path):
    """Nor does the number that older runs hold in its place."""
    run = begin(tmp_path / "run")
    go(run, steps=20, warmup_steps=None, save_every=20)
    assert go(run, steps=40, warmup_steps=None).losses[20:]
    older = TrainConfig(steps=20).to_dict() | {"warmup_steps": 2}
    config = checkpoint.read_config(begin(tmp_path / "older")) | {"training": older}
    (tmp_path / "older" / "config.json").write_text(json.dumps(config))
    model, longer = tiny(), TrainConfig(steps=21)
    assert len(train(model, TEXT, None, longer, run=tmp_path / "older").losses) == 21
    with pytest.raises(ValueError, match=r"warmup_steps=None \(training\), not 3"):
        train(
            tiny(),
            TEXT,
            None,
            TrainConfig(steps=22, warmup_steps=3),
            run=tmp_path / "older",
        )
