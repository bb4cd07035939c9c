"""The hour on a GPU, as far as a CPU can prove it: what is chosen, resumed, and shown."""

import contextlib
import math
import signal
import sys
import threading
import types
from dataclasses import replace
from unittest import mock

import pytest
import torch
from ladder import unchecked
from torch._dynamo.testing import CompileCounter
from torch.utils._python_dispatch import TorchDispatchMode

from decoder_only import GPT, recipes
from decoder_only.base import hardware
from decoder_only.training import NextTokenLoss, checkpoint, loop
from decoder_only_book import hour, screen

CPU = hour.Place("CPU", torch.device("cpu"))
SHORT = {"steps": 6, "batch_size": 2, "warmup_steps": 1, "log_every": 1}
SHORT |= {"evaluate_every": 2, "save_every": 2}
NARROW = {"context_length": 32, "d_model": 16, "n_layers": 1, "d_mlp": 16}
FEW = {"vocab_size": 300, "n_train": 30, "n_validation": 3}
TINY = replace(
    hour.changed(hour.REHEARSAL, **SHORT),
    data=hour.REHEARSAL.data | FEW,
    model=hour.REHEARSAL.model | NARROW,
)


@pytest.fixture(autouse=True)
def as_a_reader_runs_it():
    with unchecked():
        yield


@pytest.fixture(scope="module")
def material():
    return recipes.gather(TINY)


# ------------------------------------------------------------------------------ what is there


@pytest.fixture
def gpu(monkeypatch):
    """Pretend that a GPU of some name is here."""

    def pretend(name, capability, gigabytes):
        about = {"name": name, "total_memory": int(gigabytes * 1e9)}
        about |= {"major": capability[0], "minor": capability[1]}
        monkeypatch.delenv(hour.REHEARSE, raising=False)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
        asked = lambda device: types.SimpleNamespace(**about)  # noqa: E731
        monkeypatch.setattr(torch.cuda, "get_device_properties", asked)
        native = capability >= (8, 0)
        monkeypatch.setattr(hardware, "has_native_bfloat16", lambda device: native)
        return hour.find()

    return pretend


@pytest.mark.parametrize(
    ("name", "capability", "gigabytes", "number_format", "sheet", "n_ways"),
    [
        ("Tesla T4", (7, 5), 15.8, torch.float16, "T4", 3),
        ("NVIDIA L4", (8, 9), 23.7, torch.bfloat16, "L4", 3),
        ("NVIDIA A100-SXM4-40GB", (8, 0), 42.3, torch.bfloat16, "A100", 3),
        ("NVIDIA H100 80GB HBM3", (9, 0), 84.9, torch.bfloat16, "H100", 3),
        ("Tesla P100-PCIE-16GB", (6, 0), 17.1, torch.float16, None, 2),
    ],
)
def test_a_gpu_is_known_by_its_format_its_compiler_and_its_sheet(
    gpu, name, capability, gigabytes, number_format, sheet, n_ways
):
    place = gpu(name, capability, gigabytes)
    assert not place.is_rehearsal
    assert place.number_format == number_format
    assert (place.sheet and place.sheet.name) == sheet
    ways = hour.ways(place)
    assert len(ways) == n_ways
    assert [is_compiled for *_, is_compiled in ways] == [False, False, True][:n_ways]
    recipe = hour.plan(place)
    assert recipe.training["compile"] == place.compiles
    for _, each, is_compiled in ways:
        what = hour.changed(recipe, compile=is_compiled)
        counted = hour.bytes_counted(replace(place, number_format=each), what)
        assert counted <= hour.ROOM * place.memory


def test_a_machine_with_a_gpu_rehearses_when_told_so(gpu, monkeypatch):
    assert not gpu("Tesla T4", (7, 5), 15.8).is_rehearsal
    monkeypatch.setenv(hour.REHEARSE, "1")
    assert hour.find() == CPU
    monkeypatch.delenv(hour.REHEARSE)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert hour.find() == CPU
    assert hour.plan(CPU) is hour.REHEARSAL
    assert hour.minutes_planned(CPU, hour.REHEARSAL) is None


@pytest.mark.parametrize("name", hardware.DEVICES)
def test_the_training_fills_its_part_of_the_hour_or_has_all_its_steps(name):
    place = hour.on_paper(name)
    recipe = hour.plan(place)
    minutes, steps = hour.minutes_planned(place, recipe), recipe.training["steps"]
    assert minutes == pytest.approx(hour.MINUTES, rel=0.05) or (
        steps == hour.MOST and minutes < hour.MINUTES
    )
    tokens = steps * 128 * 512
    flops = tokens * hour.flops_per_token(hour.config_of(recipe))
    by_hand = flops / (place.sheet.flops * hour.UTILIZATION) / 60
    assert minutes == pytest.approx(by_hand)


def test_what_is_known_of_formats_is_the_drivers_word():
    for name in ("T4", "V100"):
        assert hour.on_paper(name).number_format == torch.float16
    assert hour.on_paper("L4").number_format == torch.bfloat16
    with pytest.raises(ValueError, match="name='TPU' must be one of H200"):
        hour.on_paper("TPU")


def test_a_gpu_without_a_known_sheet_is_timed_first(gpu, tmp_path):
    place = gpu("Tesla P100-PCIE-16GB", (6, 0), 17.1)
    assert hour.plan(place).training["steps"] == hour.FEWEST
    assert hour.minutes_planned(place, hour.plan(place)) is None
    slow, fast = hour.Timing("a", 1.0, 1e4), hour.Timing("b", 1.0, 1e5)
    settled = hour.settle(place, tmp_path / "run", [slow, fast])
    assert settled.training["steps"] == 3200  # 1e5 * 35 * 60 / 65,536, in hundreds
    nothing = [hour.Timing("a: not enough memory")]
    with pytest.raises(ValueError, match="no way of taking a step fits the memory"):
        hour.settle(place, tmp_path / "run", nothing)


def test_a_gpu_that_is_too_small_says_so(gpu):
    with pytest.raises(ValueError, match=r"0.4 GB, and one row needs 0.\d GB; take"):
        hour.plan(gpu("GeForce", (7, 5), 0.4))


# ------------------------------------------------------------------------------ where it is kept


def test_a_run_is_kept_where_it_outlives_the_session(monkeypatch, tmp_path):
    place = hour.on_paper("T4")
    assert hour.keep("mine", place).parts == ("mine",)
    with pytest.raises(RuntimeError, match="on Colab only; elsewhere say drive=False"):
        hour.keep("mine", place, drive=True)
    mounted = []
    colab = types.SimpleNamespace(drive=types.SimpleNamespace(mount=mounted.append))
    monkeypatch.setitem(sys.modules, "google", types.SimpleNamespace(colab=colab))
    monkeypatch.setitem(sys.modules, "google.colab", colab)
    monkeypatch.chdir(tmp_path)
    kept = hour.keep("mine", place, drive=True)
    assert mounted == [str(tmp_path / "drive")]
    assert kept == tmp_path / "drive" / "MyDrive" / "mine"


def test_each_rehearsal_begins_in_a_folder_of_its_own():
    one, other = (hour.keep("mine", CPU, drive=True) for _ in range(2))
    assert one != other
    assert one.name == other.name == "mine"


# ------------------------------------------------------------------------------ a few steps, timed


def test_each_way_is_timed_from_the_same_weights():
    timings = hour.compare(CPU, TINY, n_steps=2)
    assert [t.way for t in timings] == ["float32, plain", "bfloat16, plain"]
    assert all(t.tokens_per_second > 0 and t.start > 0 for t in timings)
    one, other = (t.loss for t in timings)
    assert one != other, "the second was not in bfloat16"
    assert one == pytest.approx(other, abs=0.01)


def test_a_way_that_does_not_fit_is_told_and_the_others_are_timed():
    step, seen = loop._step, []

    def full(state, corpus):
        seen.append(hardware.multiplying_format(state.device))
        if seen[-1] == torch.float32:
            raise torch.OutOfMemoryError
        return step(state, corpus)

    with mock.patch.object(loop, "_step", full):
        one, other = hour.compare(CPU, TINY, n_steps=1)
    assert (one.way, one.tokens_per_second) == (
        "float32, plain: not enough memory",
        None,
    )
    assert other.tokens_per_second
    assert {*seen} == {torch.float32, torch.bfloat16}
    assert hardware.multiplying_format(CPU.device) == torch.float32, "restored"


class Reads(TorchDispatchMode):
    """Counts how often the host asks for a number, for which it would wait for a GPU."""

    n = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.n += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


def test_no_step_waits_for_the_device(monkeypatch):
    """Here the count; `accelerator.py` walks a step on a device that cannot be read."""
    monkeypatch.setattr(GPT, "_check", lambda *_: None)  # reads ids, on a CPU alone
    for number_format in (torch.float32, torch.float16):  # with a loss scale
        step, _ = hour.stepper(CPU, TINY, number_format, False)
        with Reads() as reads:
            results = [step() for _ in range(3)]
        assert reads.n == 0
        with reads:
            assert results[-1].loss.item() > 0
        assert reads.n == 1


def test_the_recipe_of_a_gpu_is_one_graph():
    recipe = hour.plan(hour.on_paper("T4"))
    sizes = {"context_length": 16, "d_model": 32, "n_layers": 1, "n_heads": 2}
    config = hour.config_of(replace(recipe, model=recipe.model | sizes))
    counter, ids = CompileCounter(), torch.zeros(2, 16, dtype=torch.long)
    loss = NextTokenLoss(GPT(replace(config, vocab_size=50)))
    fast = torch.compile(loss, backend=counter, fullgraph=True)
    for _ in range(3):
        fast(ids, ids).backward()
    assert counter.frame_count == 1


# ------------------------------------------------------------------------------ a session is lost


def weights(folder):
    return checkpoint.load(folder).model.state_dict()


@pytest.fixture(scope="module")
def whole(tmp_path_factory, material):
    folder = tmp_path_factory.mktemp("hour") / "whole"
    with unchecked():
        history = hour.train(CPU, TINY, material, folder)
    assert len(history.losses) == 6
    return folder


class Lost(Exception):
    """The machine is gone."""


def lose():
    raise Lost


def stop():
    signal.raise_signal(signal.SIGINT)


def cut_at(step, act):
    """Acts in the middle of a step of the training."""
    take, n_taken = loop._step, []

    def cut(state, corpus):
        n_taken.append(1)
        if len(n_taken) == step:
            act()
        return take(state, corpus)

    return mock.patch.object(loop, "_step", cut)


@pytest.mark.parametrize(
    ("act", "left"), [(stop, 3), (lose, 2)], ids=["stopped", "lost"]
)
def test_a_run_that_is_cut_goes_on_to_the_same_weights(
    tmp_path, material, whole, act, left
):
    folder = tmp_path / "run"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with cut_at(3, act), contextlib.suppress(Lost):
            hour.train(CPU, TINY, material, folder)
    finally:
        signal.signal(signal.SIGINT, before)
    assert checkpoint.latest_state(folder).step == left
    recipe = hour.settle(CPU, folder, [])
    assert {k: recipe.training[k] for k in TINY.training} == TINY.training
    again = hour.gather(CPU, recipe, folder)
    assert again.fingerprints == material.fingerprints
    history = hour.train(CPU, recipe, again, folder)
    assert len(history.losses) == 6
    torch.testing.assert_close(weights(folder), weights(whole), rtol=0, atol=0)


def test_a_session_that_died_before_the_first_state_begins_again(tmp_path, material):
    folder = tmp_path / "run"
    with recipes.begin(
        TINY, material, recipes.build(TINY, material).config, out=folder
    ):
        pass
    recipe = hour.settle(CPU, folder, [])
    history = hour.train(CPU, recipe, material, folder)
    assert len(history.losses) == 6


def test_a_run_goes_on_on_another_gpu(whole):
    """In as many parts as its memory asks for, whatever the run began with."""
    row = hour.bytes_counted(CPU, hour.changed(TINY, accumulation=2))
    both = hour.bytes_counted(CPU, TINY)
    assert row < both
    small = replace(hour.on_paper("T4"), memory=(row + both) / 2 / hour.ROOM)
    recipe = hour.settle(small, whole, [])
    assert (recipe.training["accumulation"], recipe.training["compile"]) == (2, True)
    assert recipe.training["steps"] == 6


def test_a_folder_that_holds_something_else_is_refused(tmp_path, material, monkeypatch):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(OSError, match=r"thesis\.txt"):
        hour.train(CPU, TINY, material, tmp_path)
    monkeypatch.chdir(tmp_path)
    text = (tmp_path / "text.txt").write_text("a small text to learn from. " * 200)
    assert text
    about_text = recipes.chosen(text="text.txt", model={"context_length": 8})
    read = recipes.gather(about_text)
    config = recipes.build(about_text, read).config
    with recipes.begin(about_text, read, config, out=tmp_path / "run") as run:
        pass
    with pytest.raises(
        ValueError, match=r"holds a run on a text.* name another folder"
    ):
        hour.settle(CPU, run.folder, [])


def test_a_run_with_other_stories_is_not_gone_on_with(whole, material):
    recipe = hour.settle(CPU, whole, [])
    other = replace(material, train=material.validation)
    with pytest.raises(ValueError, match="was begun with other train data"):
        hour.train(CPU, recipe, other, whole)


# ------------------------------------------------------------------------------ what is shown


def test_a_training_is_drawn_from_its_first_step_to_its_last(
    tmp_path, material, monkeypatch
):
    monkeypatch.setattr(screen, "N_STORIES", 1)
    frames, terminal = [], sys.stderr
    show = lambda *frame: frames.append(frame)  # noqa: E731
    hour.train(CPU, TINY, material, tmp_path / "run", show)
    assert sys.stderr is terminal
    assert frames[0][0].startswith("0/6 steps |")
    bar, figure, stories = frames[-1]
    assert bar.startswith("6/6 steps |")
    assert "gap to the floor" in bar
    assert figure.axes[0].get_legend() is not None
    assert "After step 6: " in stories


def shown(whole, material, n_stories, monkeypatch, every=0.0):
    monkeypatch.setattr(screen, "N_STORIES", n_stories)
    saved = checkpoint.load(whole)
    frames = []
    judge = recipes.language_of(TINY.data)
    what = saved.model, material.tokenizer, judge, lambda *frame: frames.append(frame)
    return screen.Screen(whole, *what, every=every), frames


def test_the_bar_the_curve_and_the_stories_are_drawn(
    whole, material, monkeypatch, capsys
):
    drawn, frames = shown(whole, material, 2, monkeypatch)
    drawn.write("\n")
    assert not frames, "no bar yet"
    drawn.write("\r3/6 steps |██   | 00:01 left")
    (bar, figure, stories) = frames[0]
    assert bar == "3/6 steps |██   | 00:01 left"
    lines = figure.axes[0].lines
    assert [len(line.get_xdata()) for line in lines[:2]] == [6, 3]
    assert "After step 6: 0 of 2 stories are in the language." in stories
    drawn.write("a warning of another kind")
    assert len(frames) == 1
    assert capsys.readouterr().err == "a warning of another kind"
    other = threading.Thread(target=drawn.write, args=("\r4/6 steps |███  |",))
    other.start()
    other.join()
    assert len(frames) == 1, "the bar's own thread must not touch the model"
    drawn.write("\n")
    assert frames[1][0] == "4/6 steps |███  |"


def test_drawing_is_rare_but_for_the_end(whole, material, monkeypatch):
    drawn, frames = shown(whole, material, 1, monkeypatch, every=1e6)
    for step in range(3):
        drawn.write(f"\r{step}/6 steps |")
    assert len(frames) == 1
    drawn.write("\n")
    assert len(frames) == 2


def test_the_first_wrong_letter_is_marked_and_nothing_steers_the_terminal():
    language = recipes.language_of(TINY.data)
    said = screen.marked(language.explain("Late one frosty \x1bmourning"))
    assert said == "Late one frosty  ✗ \\x1bmourning …"
    story = next(language.stories(split="train"))
    whole = screen.marked(language.explain(story), before=10**6)
    assert whole.split() == story.split()
    assert max(map(len, whole.splitlines())) <= 72


def test_a_long_curve_is_drawn_with_few_points():
    records = [{"step": n, "loss": 1 / n} for n in range(1, 5001)]
    figure = screen.curve([*records, {"step": 9, "validation_loss": 1, "floor": 0.5}])
    line = figure.axes[0].lines[0]
    assert len(line.get_xdata()) <= screen.N_POINTS
    assert line.get_xdata()[-1] == 5000
    assert screen.curve([]) is None
    skipped = [{"step": 1, "loss": None}]
    assert screen.curve(skipped) is None


def test_the_pace_leaves_out_where_nothing_was_trained(monkeypatch):
    seconds = {10: 1.0, 20: 2.0, 30: 60.0, 40: 61.0}
    records = [{"step": n, "seconds": s, "loss": 1.0} for n, s in seconds.items()]
    monkeypatch.setattr(screen, "read_log", lambda folder: records)
    assert screen.pace_of("run", tokens_per_step=7) == 70
    monkeypatch.setattr(screen, "read_log", lambda folder: records[:1])
    assert math.isnan(screen.pace_of("run", tokens_per_step=7))


def test_a_report_says_what_can_be_known(whole, monkeypatch):
    monkeypatch.setattr(hour, "pace_of", lambda folder, tokens: 1e6 * tokens)
    assert hour.report(CPU, TINY, whole) == "64,000,000 tokens a second"
    monkeypatch.setattr(hour, "peak_bytes", lambda device: 2_000_000_000)
    said = hour.report(hour.on_paper("T4"), TINY, whole).splitlines()
    share = 64e6 * hour.flops_per_token(hour.config_of(TINY)) / 65e12
    assert said[1] == f"{share:.1%} of the peak (the plan: 25%)"
    assert said[2] == "2.0 GB at most (the plan: 0.0 GB)"


def test_what_is_packed_is_what_the_story_machine_opens(whole):
    packed = hour.pack(whole)
    assert packed.suffix == ".zip"
    folder = packed.with_suffix("")
    names = {path.name for path in folder.iterdir()}
    assert names == {"config.json", "tokenizer.json", "weights.safetensors"}
    exact, rounded = weights(whole), weights(folder)
    torch.testing.assert_close(rounded, exact, rtol=2**-8, atol=0)
    assert checkpoint.read_config(folder)["data"]["language"] == "hamlet"
    sizes = [(each / "weights.safetensors").stat().st_size for each in (folder, whole)]
    assert sizes[0] < 0.7 * sizes[1]
