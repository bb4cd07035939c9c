"""The command, from its words to a folder that can be sampled from."""

import contextlib
import dataclasses
import functools
import inspect
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import get_args, get_type_hints
from unittest import mock

import pytest
import torch
import tyro
from hypothesis import given, settings
from hypothesis import strategies as st
from ladder import examples, unchecked
from matplotlib import pyplot

from decoder_only import cli, recipes
from decoder_only.analysis import planning
from decoder_only.analysis.laws import PUBLISHED
from decoder_only.base.files import reading
from decoder_only.base.hardware import DEVICES
from decoder_only.cli import COMMANDS, main, options
from decoder_only.cli import words as words_
from decoder_only.cli.plan import plan as plan_command
from decoder_only.cli.train import PROMPT
from decoder_only.model import counting, presets
from decoder_only.model.embeddings import TokenEmbedding
from decoder_only.model.gpt import GPT, GPTConfig
from decoder_only.recipes import RECIPES
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import TrainConfig, checkpoint, log

SMALL = ["--steps=3", "--batch-size=8", "--d-model=16", "--n-layers=1", "--n-heads=2"]
SMALL += ["--context-length=32", "--samples=0"]
FEW = [*SMALL, "--language=hamlet", "--stories=8", "--vocab-size=300"]
LINE = (
    "The quick brown fox jumps over the lazy dog, and the dog does not mind at all.\n"
)


NAMED = functools.cache(StoryLanguage.named)
"""A language takes a tenth of a second to build, and no command changes it."""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Each test in a folder of its own, as a user runs it.

    So without the annotations' checks, which would take most of the time; the tests of the modules
    have them.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(StoryLanguage, "named", NAMED)
    with unchecked():
        yield


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "fox.txt"
    path.write_text(LINE * 40)
    return path


def run(*words: str) -> int:
    return main([str(word) for word in words])


def config_of(folder) -> dict:
    return json.loads((folder / "config.json").read_text())


# ------------------------------------------------------------------------------------------ stories


def test_stories_are_learned_and_told_without_any_option_but_size(capfd, tmp_path):
    assert run("train", *FEW, "--samples=2") == 0
    out, err = capfd.readouterr()
    for part in (
        "validation loss",
        "exact floor",
        "gap",
        "nats per token",
        "bits per byte",
        "are stories of the language",
        "The run is in runs/stories-1",
        "decoder-only sample --run runs/stories-1",
    ):
        assert part in out
    assert "3/3 steps" in err
    assert "Learning a vocabulary from stories …\n" in err
    folder = tmp_path / "runs/stories-1"
    assert sorted(path.name for path in folder.iterdir()) == [
        ".lock",
        "config.json",
        "log.jsonl",
        "state-00000003.safetensors",
        "tokenizer.json",
        "weights.safetensors",
    ]
    config = config_of(folder)
    assert config["training"]["steps"] == 3
    assert config["model"]["d_model"] == 16
    assert (config["data"]["n_train"], config["data"]["language"]) == (8, "hamlet")
    assert len(config["data"]["fingerprints"]["train"]) == 64
    assert checkpoint.load(folder).step == 3

    assert run("sample", "--run", folder, "--count", "2", "--max-new-tokens", "5") == 0
    told = capfd.readouterr().out
    assert told.count("the text leaves the language") == 2
    more = ["--prompt", PROMPT, "--max-new-tokens", "5"]
    assert run("sample", "--run", folder, *more) == 0
    assert capfd.readouterr().out.startswith(f"  {PROMPT}")


def test_a_second_run_gets_a_folder_of_its_own(tmp_path, capfd):
    for _ in range(2):
        assert run("train", *FEW, "--quiet") == 0
    assert capfd.readouterr().err == ""
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "stories-1",
        "stories-2",
    ]
    first, second = (
        checkpoint.load(tmp_path / "runs" / name).model
        for name in ("stories-1", "stories-2")
    )
    for ours, theirs in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(ours, theirs)


# -------------------------------------------------------------------------------------------- text


@pytest.mark.parametrize("vocab_size", ["257", "280"])
def test_a_text_is_learned_and_continued(text, tmp_path, capfd, vocab_size):
    assert (
        run("train", "--text", text, *SMALL, "--vocab-size", vocab_size, "--quiet") == 0
    )
    out = capfd.readouterr().out
    assert "validation loss" in out
    assert "floor" not in out
    assert "runs/fox-1" in out
    found = checkpoint.load(tmp_path / "runs/fox-1")
    assert (
        found.tokenizer.vocab_size == found.model.config.vocab_size == int(vocab_size)
    )
    # As much as is written by default, once; bytes alone would take long.
    few = ["--max-new-tokens=20"] if vocab_size == "257" else []
    words = ["sample", "--run", "runs/fox-1", "--prompt", "The qu", *few]
    assert run(*words, "--seed", "3") == 0
    first = capfd.readouterr().out
    assert first.startswith("  The qu")
    assert run(*words, "--seed", "3") == 0
    assert capfd.readouterr().out == first
    assert run(*words, "--seed", "4") == 0
    assert capfd.readouterr().out != first
    for word in ("--temperature=0", "--top-k=3", "--top-p=0.5"):
        assert run("sample", "--run", "runs/fox-1", "--max-new-tokens", "3", word) == 0


needs_shakespeare = pytest.mark.skipif(
    not Path(os.environ.get("DECODER_ONLY_DATA", ""), "tinyshakespeare.txt").is_file(),
    reason="DECODER_ONLY_DATA names no folder with tinyshakespeare.txt",
)


@needs_shakespeare
def test_shakespeare_is_a_word(tmp_path, capfd):
    # In few batches: a tenth of the text is held out, and all of it is evaluated.
    words = [*SMALL, "--batch-size=32", "--context-length=128"]
    words += ["--vocab-size", "257", "--quiet"]
    assert run("train", "--text", "shakespeare", *words) == 0
    assert "1.0 MB to learn from, 0.11 MB held out" in capfd.readouterr().out
    assert (tmp_path / "runs/shakespeare-1").is_dir()
    (tmp_path / "shakespeare").write_text(LINE * 40)  # a file of that name goes before
    assert run("train", "--text", "shakespeare", *words) == 0
    assert "0.0 MB to learn from" in capfd.readouterr().out


def test_options_go_before_the_recipe(text, tmp_path):
    words = ["--lr", "0.5", "--seed", "7", "--dropout", "0.25", "--warmup-steps", "1"]
    assert (
        run("train", "--text", text, *SMALL, "--vocab-size=280", "--quiet", *words) == 0
    )
    config = config_of(tmp_path / "runs/fox-1")
    recipe = RECIPES["shakespeare-cpu"]
    assert config["training"]["learning_rate"] == 0.5
    assert config["training"]["seed"] == 7
    assert config["model"]["dropout"] == 0.25
    for name in ("positions", "activation"):
        assert config["model"][name] == recipe.model[name]


# ------------------------------------------------------------------------------------ going on


NINE = [*SMALL[1:], "--steps=9", "--vocab-size=280", "--quiet"]


@contextlib.contextmanager
def interrupted_after(n_steps: int):
    """Ctrl-C is pressed while a step of training is under way."""
    taken = []

    def press(module, inputs):
        # Once a step, whether the loss is sliced or not.
        if isinstance(module, TokenEmbedding) and module.training:
            taken.append(module)
            if len(taken) == n_steps:
                os.kill(os.getpid(), signal.SIGINT)

    hook = torch.nn.modules.module.register_module_forward_pre_hook(press)
    try:
        yield
    finally:
        hook.remove()


@pytest.mark.parametrize("kind", ["stories", "text"])
def test_a_run_that_was_stopped_goes_on(kind, text, tmp_path, capfd):
    source = FEW[-3:-1] if kind == "stories" else ("--text", text)
    assert run("train", *source, *NINE, "--out", tmp_path / "whole") == 0
    with interrupted_after(4):
        assert run("train", *source, *NINE, "--out", tmp_path / "stopped") == 130
    out = capfd.readouterr().out
    assert "Stopped after step 4 of 9; all is saved. Go on:" in out
    assert f"decoder-only train --resume {tmp_path / 'stopped'}" in out
    assert run("train", "--resume", tmp_path / "stopped", "--quiet") == 0
    assert "Let it write more" in capfd.readouterr().out
    whole, stopped = (
        checkpoint.load(tmp_path / name).model.state_dict()
        for name in ("whole", "stopped")
    )
    assert all(torch.equal(whole[name], stopped[name]) for name in whole)


def test_a_resumed_run_keeps_its_settings(text, tmp_path, capfd):
    run("train", "--text", text, *NINE, "--out", tmp_path / "run")
    capfd.readouterr()
    for option in (("--d-model", "8"), ("--overwrite",), ("--language", "full")):
        message = refused(capfd, "train", "--resume", tmp_path / "run", *option)
        assert "goes on with the settings that the run was begun with" in message
    for option in (("--lr", "20"), ("--seed", "3"), ("--steps", "8")):
        message = refused(capfd, "train", "--resume", tmp_path / "run", *option)
        assert "run was begun with " in message
    text.write_text(LINE * 39 + "The end of it.\n" * 5)
    message = refused(capfd, "train", "--resume", tmp_path / "run", "--steps", "10")
    assert "was begun with other " in message
    assert "holds no run" in refused(capfd, "train", "--resume", tmp_path / "nothing")


# ------------------------------------------------------------------------------------- preparing


def test_text_is_prepared_once_and_learned_from(text, tmp_path, capfd):
    assert run("prepare", text, "--out", "tokens", "--tokenizer", 280, "--quiet") == 0
    out = capfd.readouterr().out
    assert "decoder-only train --text tokens" in out
    options = [word for word in NINE if "vocab" not in word]
    assert run("train", "--text", "tokens", *options, "--out", "a") == 0
    assert run("train", "--text", text, *NINE, "--out", "b") == 0
    a, b = (checkpoint.load(tmp_path / name) for name in "ab")
    assert a.tokenizer == b.tokenizer
    losses = [[r.get("loss") for r in log.read_log(tmp_path / n)] for n in "ab"]
    assert losses[0] == losses[1]
    assert run("train", "--resume", "a", "--quiet") == 0


@pytest.mark.parametrize(
    "source", ["-", pytest.param("shakespeare", marks=needs_shakespeare)]
)
def test_other_sources_can_be_prepared(source, monkeypatch, capfd):
    console = io.TextIOWrapper(io.BytesIO(LINE.encode() * 9))
    monkeypatch.setattr(sys, "stdin", console)
    words = (source, "--out", "tokens", "--tokenizer=257", "--quiet")
    assert run("prepare", *words) == 0
    assert "tokens of 1.00 bytes" in capfd.readouterr().out


def test_what_cannot_be_prepared_is_named(text, tmp_path, capfd):
    assert "--tokenizer nothing is neither gpt2" in refused(
        capfd, "prepare", text, "--out", "tokens", "--tokenizer", "nothing"
    )
    assert "missing.txt" in refused(capfd, "prepare", "missing.txt", "--out", "tokens")
    assert not (tmp_path / "tokens").exists()
    (tmp_path / "empty").mkdir()
    assert run("prepare", text, "--out", "tokens", "--tokenizer=280", "--quiet") == 0
    capfd.readouterr()
    message = refused(capfd, "train", "--text", "tokens", *SMALL, "--vocab-size=257")
    assert "vocab_size=257 must be a whole number, at least 280" in message
    message = refused(capfd, "train", "--text", "empty", *SMALL)
    assert "give a folder that `decoder-only prepare` made" in message


def test_a_folder_of_texts_is_refused_with_the_command_that_prepares_it(capfd):
    folder = Path("two novels")
    folder.mkdir()
    (folder / "fox.txt").write_text(LINE * 40)
    message = refused(capfd, "train", "--text", folder, *SMALL)
    [command] = re.findall("decoder-only (prepare .*)$", message, re.MULTILINE)
    assert run(*shlex.split(command), "--tokenizer=280", "--quiet") == 0
    [after] = re.findall("decoder-only (train .*)$", capfd.readouterr().out, re.M)
    assert run(*shlex.split(after), *SMALL, "--quiet") == 0


# -------------------------------------------------------------------------------------- plotting


def test_runs_are_drawn_in_one_figure(text, tmp_path, capfd):
    for name in ("one", "two"):
        run("train", "--text", text, *NINE, "--out", tmp_path / name)
    picture = tmp_path / "runs.svg"
    assert run("plot", tmp_path / "one", tmp_path / "two", "--out", picture) == 0
    assert f"The figure is in {picture}" in capfd.readouterr().out
    assert picture.read_text().startswith("<?xml")
    losses, norms = pyplot.gcf().axes
    assert (losses.get_ylabel(), norms.get_ylabel()[:13]) == (
        "loss (nats per token)",
        "gradient norm",
    )
    for line, name in zip(norms.lines, ("one", "two"), strict=True):
        logged = [r["gradient_norm"] for r in log.read_log(name) if "loss" in r]
        assert (line.get_label(), list(line.get_ydata())) == (name, logged)


def test_what_cannot_be_drawn_is_named(text, tmp_path, capfd):
    assert "holds no run" in refused(capfd, "plot", tmp_path / "nothing")
    run("train", "--text", text, *NINE, "--out", tmp_path / "run")
    capfd.readouterr()
    (tmp_path / "run" / "log.jsonl").write_text("")
    assert "has no step yet" in refused(capfd, "plot", tmp_path / "run")


# -------------------------------------------------------------------------------------- planning


def told(capfd, *words) -> dict[str, list[str]]:
    """The rows of a table: what each says, and what stands below it."""
    assert run(*words) == 0
    out, err = capfd.readouterr()
    assert err == f"decoder-only {words[0]}: loading PyTorch …\n"
    assert max(map(len, out.splitlines())) <= 88
    rows: dict[str, list[str]] = {"": []}
    for line in out.splitlines():
        name = line[:10].strip()
        if name:
            rows[name] = []
        list(rows.values())[-1].append(line[10:].strip())
    return rows


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ((), {"hours": 24.0}),
        (("--hours", 3, "--gpu", "a100-80gb", "--count", 2), {"hours": 3.0}),
        (("--flops", "1e21", "--law", "hoffmann2022"), {"flops": 1e21}),
        (("--params", "7B", "--law", "kaplan2020"), {"parameters": 7e9}),
        (("--tokens", "20B", "--utilization", 0.5), {"tokens": 2e10}),
        (
            ("--params", "300m", "--tokens", "2e9", "--count", 1, "--gpu", "L4"),
            {"parameters": 3e8, "tokens": 2e9},
        ),
        (("--params", "1_000M", "--hours", 5), {"parameters": 1e9, "hours": 5.0}),
        (("--tokens", "0.02T", "--flops", "1e20"), {"tokens": 2e10, "flops": 1e20}),
        (("--context-length", 512, "--hours", 1), {"hours": 1.0}),
        (("--hours", 9, "--parallel", "dp=8,tp=4"), {"hours": 9.0}),
        (("--hours", 9, "--parallel", "tp=4"), {"hours": 9.0}),
        (("--hours", 9, "--parallel", "dp=16", "--network", 12.5), {"hours": 9.0}),
    ],
)
def test_a_plan_says_what_the_counts_say(words, asked, capfd):
    chosen = dict(zip(words[::2], words[1::2], strict=True))
    device = DEVICES[{"a100-80gb": "A100 80GB"}.get(chosen.get("--gpu"), "H100")]
    device = DEVICES.get(chosen.get("--gpu"), device)
    n_devices, law = chosen.get("--count", 8), chosen.get("--law", "besiroglu2024")
    layouts = {"dp=8,tp=4": (32, 4), "tp=4": (8, 4), "dp=16": (16, 1)}
    n_devices, group = layouts.get(chosen.get("--parallel"), (n_devices, 1))
    plan = planning.plan_training(
        PUBLISHED[law],
        device,
        n_devices=n_devices,
        tensor_parallel=group,
        network=1e9 * chosen.get("--network", 50),
        utilization=chosen.get("--utilization", 0.4),
        context_length=chosen.get("--context-length", 2048),
        **asked,
    )
    rows, short, config = told(capfd, "plan", *words), words_.short, plan.config
    assert rows["Model"][0] == (
        f"{short(plan.n_parameters)} parameters: {config.n_layers} blocks, "
        f"{config.d_model:,} wide, {config.n_heads} heads"
    )
    each = plan.tokens / plan.n_parameters
    assert rows["Tokens"][0] == f"{short(plan.tokens)}, {each:,.3g} for each parameter"
    assert f"sequences of {config.context_length:,}" in rows["Tokens"][1]
    work = f"{words_.power(plan.flops)} operations: 6 N + 12 L D S for each token"
    assert rows["Work"][0] == work
    assert rows["Time"][0].startswith(
        f"{words_.duration(plan.seconds)} on {n_devices} x {device.name}, "
    )
    assert f"assuming {plan.utilization:.0%} of the data sheet's" in rows["Time"][1]
    memory = {name: short(size, "B") for name, size in plan.memory.items()}
    assert rows["Memory"][0] == (
        f"{short(sum(plan.memory.values()), 'B')} of {short(device.memory, 'B')} on each "
        f"device, sequences at a time: {plan.batch_size}"
        + (f" for {group}" * (group > 1))
    )
    if n_devices == 1:
        assert "Network" not in rows
    else:
        layout = f"dp={n_devices // group}, tp={group}"
        said = f"{layout}: devices compute {plan.computing:.0%} of the time"
        assert rows["Network"][0] == said
        for name, p in (("matrices", group), ("state", n_devices // group)):
            part = plan.paces[name] / plan.paces["computing"]
            speed = short(plan.speeds[name], "B")
            said = f"{name} over {p} at {speed}/s: {part:.0%} of the computing, "
            assert any(row.startswith(said) for row in rows["Network"]) == (p > 1)
    below = " ".join(rows["Memory"][1:])
    for size in memory.values():
        assert size in below
    for way in ({"compiled": True}, {"recompute": True}, {"loss_slices": 8}):
        assert short(plan.memory_if(**way), "B") in below
    assert ("FSDP" in below) == (n_devices > 1 and group == 1)
    stored = (short(n * plan.n_parameters, "B") for n in (4, 12))
    assert rows["Disk"][0] == "weights {}, a saved state {}".format(*stored)
    assert rows["Loss"][0] == f"{plan.loss:.2f} nats per token"
    assert law in rows["Loss"][1]


@pytest.mark.parametrize("count", [1, 4, 16])
@pytest.mark.parametrize("gpu", ["T4", "H100"])
def test_a_plan_ends_with_the_command_that_trains_it(gpu, count, capfd):
    assert run("plan", "--gpu", gpu, "--count", count, "--hours", 9) == 0
    lines = capfd.readouterr().out.partition("made:\n")[2]
    command = shlex.split(lines.replace("\\\n", " "))
    head = ["decoder-only"] if count == 1 else command[: command.index("train")]
    assert head[-1] in ("decoder-only", "decoder_only")

    def read(
        *,
        text: Path,
        strategy: str = "ddp",
        model: options.settings(GPTConfig),
        training: options.settings(TrainConfig),
    ) -> recipes.Recipe:
        assert strategy == ("ddp" if count == 1 else "fsdp")
        return recipes.chosen(text=text, model=model, training=training)

    recipe = tyro.cli(read, args=command[command.index("train") + 1 :])
    law, device = PUBLISHED["besiroglu2024"], DEVICES[gpu]
    plan = planning.plan_training(law, device, n_devices=count, hours=9)
    assert GPTConfig(**recipe.model) == plan.config
    wanted = TrainConfig(**recipe.training | plan.training)
    assert TrainConfig(**recipe.training) == wanted


def test_a_plan_that_no_command_trains_says_so(capfd):
    assert run("plan", "--parallel", "dp=2,tp=4", "--hours", 9) == 0
    said = capfd.readouterr().out
    assert "No command trains it: " in said
    assert "torchrun" not in said


def test_without_a_budget_a_day_is_planned(capfd):
    assert run("plan") == 0
    by_itself = capfd.readouterr().out
    assert run("plan", "--hours", "24") == 0
    asked = capfd.readouterr().out
    assert by_itself == f"No budget was given, so this is what a day can do.\n\n{asked}"
    assert "24.0 hours on 8 x H100, 192.0 device-hours" in asked


@pytest.mark.parametrize(
    ("words", "split"),
    [
        (("--hours", "1"), "the split that besiroglu2024 finds best"),
        (("--params", "1B"), "the split that besiroglu2024 finds best"),
        (("--params", "1B", "--hours", "9"), "what the budget allows"),
        (("--params", "1B", "--tokens", "1B"), "both as given"),
    ],
)
def test_a_plan_says_who_chose_size_and_tokens(words, split, capfd):
    assert told(capfd, "plan", *words)["Tokens"][1].startswith(split + "; ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gpu", "abacus"], f"choose one of {', '.join(DEVICES)}"),
        (["--gpu", "rtx4090"], "did you mean 'RTX 4090'? Choose one of"),
        (["--count", "12"], "n_devices=12 must be at most 8, or a"),
        (["--hours", "3", "--flops", "1e20"], "give one of the three"),
        (["--hours", "3", "--params=1B", "--tokens=1B"], "give one of the three"),
        (["--params", "175B"], "for a single sequence do not fit 8 x H100"),
        (["--params", "1k"], "the smallest has"),
        (["--params", "7X"], "--params 7X is no number; write 1e9, 300M, 7B or 1.4T"),
        (["--tokens", "B"], "--tokens B is no number"),
        (["--flops", "inf"], "--flops inf is no number"),
        (["--hours", "1e300"], "flops=inf must be a finite number"),
        (["--hours", "0"], "hours=0.0 must be"),
        (["--count", "0"], "n_devices=0 must be a finite number, above 0"),
        (["--parallel", "pp=4"], "--parallel pp=4 is no layout; write dp=8,tp=4"),
        (
            ["--parallel", "tp=3"],
            "n_devices=8 must be a multiple of the 3",
        ),
        (["--parallel", "dp=0,tp=4"], "n_devices=0 must be"),
        (["--parallel", "dp=8,tp=0"], "n_devices=0 must be"),
        (
            ["--parallel", "dp=8,tp=4", "--count", "8"],
            "--count 8 is not --parallel dp=8,tp=4, which are 32 devices; leave one out",
        ),
        (
            ["--utilization", "40"],
            "utilization=40.0 must be a finite number, above 0 and at most 1",
        ),
        (["--context-length", "0"], "context_length=0 must be"),
    ],
)
def test_what_cannot_be_planned_is_one_line(words, message, capfd):
    said = refused(capfd, "plan", *words)
    assert message in said
    assert said.count("\n") == 1


def test_every_published_law_can_be_chosen(capfd):
    assert set(get_args(get_type_hints(plan_command)["law"])) == set(PUBLISHED)
    with pytest.raises(SystemExit):
        main(["plan", "--law", "moore1965"])
    assert "besiroglu2024" in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, ("0", "0 B")),
        (999, ("999", "999 B")),
        (999.6, ("1.00 k", "1.00 kB")),
        (12_345, ("12.3 k", "12.3 kB")),
        (999_600, ("1.00 M", "1.00 MB")),
        (1.4238e9, ("1.42 B", "1.42 GB")),
        (99.97e9, ("100 B", "100 GB")),
        (1.4e12, ("1.40 T", "1.40 TB")),
        (5.2e15, ("5,200 T", "5,200 TB")),
    ],
)
def test_numbers_are_short(number, words):
    assert (words_.short(number), words_.short(number, "B")) == words


def test_durations_are_read_at_a_glance():
    seconds = (3, 90, 3600, 47 * 3600, 49 * 3600)
    assert [words_.duration(each) for each in seconds] == [
        "3.0 seconds",
        "1.5 minutes",
        "1.0 hours",
        "47.0 hours",
        "2.0 days",
    ]


# -------------------------------------------------------------------------------------- counting


def test_gpt2_is_counted_as_the_small_one(capfd):
    rows, others = (told(capfd, "info", name) for name in ("gpt2", "gpt2-small"))
    assert rows["Parameters"] == others["Parameters"]


def config_named(name: str) -> GPTConfig:
    if name in presets.PRESETS:
        return presets.PRESETS[name]
    recipe = RECIPES[name]
    return GPTConfig(vocab_size=recipe.data["vocab_size"], **recipe.model)


@pytest.mark.parametrize("name", [*presets.PRESETS, *RECIPES])
def test_a_preset_is_counted(name, capfd):
    config, rows = config_named(name), told(capfd, "info", name)
    parts, short = counting.count_parameters(config), words_.short
    n, length = sum(parts.values()), config.context_length
    assert rows["Model"] == [name]
    assert rows["Parameters"][0] == f"{n:,}"
    counted = [line.split(maxsplit=2) for line in rows["Parameters"][1:]]
    assert [(int(size.replace(",", "")), of.split()[0]) for size, _, of in counted] == [
        (size, part) for part, size in parts.items() if size
    ]
    assert sum(float(share[:-1]) for _, share, _ in counted) == pytest.approx(
        100, abs=0.3
    )
    assert ("which the head reads too" in rows["Parameters"][1]) == config.tied
    forward = sum(counting.count_flops(config, length).values()) / length
    assert rows["Operations"][0] == (
        f"{short(forward)} a token forward, {short(3 * forward)} in training"
    )
    assert f"6 N is {short(6 * n)}, " in rows["Operations"][1]
    off = 6 * n / (3 * forward) - 1
    assert f"{abs(off):.1%} {'more' if off > 0 else 'less'}" in rows["Operations"][1]
    assert rows["Weights"] == [
        f"{short(4 * n, 'B')} in float32, {short(2 * n, 'B')} in 16 bits"
    ]
    cache = counting.cache_bytes(config, 1, length)
    assert rows["Cache"][0] == f"{short(cache, 'B')} a sequence"
    training = RECIPES[name].training if name in RECIPES else {}
    optimizer = training.get("optimizer", "adamw")
    for number_format in ("float32", "bfloat16"):
        memory = counting.training_bytes(
            dataclasses.replace(config, dropout=0.0),
            1,
            number_format=number_format,
            optimizer=optimizer,
        )
        assert short(sum(memory.values()), "B") in rows["Training"][0]
    assert ("dropout's masks" in " ".join(rows["Training"])) == bool(config.dropout)
    assert "Run" not in rows


def test_a_run_is_counted_and_says_how_it_went(text, tmp_path, capfd):
    assert run("train", *FEW, "--quiet", "--out", "stories") == 0
    assert run("train", "--text", text, *NINE, "--out", "fox") == 0
    capfd.readouterr()
    rows = told(capfd, "info", "stories")
    model = checkpoint.load(tmp_path / "stories").model
    assert rows["Parameters"][0] == f"{model.count_parameters():,}"
    assert rows["Run"][0].startswith("768 tokens of stories, ")
    assert rows["Run"][1] == "3 of 3 steps of 8 x 32"
    last = log.read_log("stories")[-1]
    loss, floor = last["validation_loss"], last["floor"]
    assert rows["Loss"][0].startswith(f"{loss:.3f} nats per token held out, ")
    assert rows["Loss"][1] == f"{loss - floor:.3f} above the floor, {floor:.3f}"
    rows = told(capfd, "info", "fox")
    assert "tokens of fox.txt, " in rows["Run"][0]
    assert len(rows["Loss"]) == 1
    (tmp_path / "fox" / "log.jsonl").unlink()
    rows = told(capfd, "info", "fox")
    assert rows["Run"][0].startswith("0 tokens of ")
    assert "Loss" not in rows


def test_a_loss_that_was_no_number_is_told_as_that(capfd):
    assert run("train", *FEW, "--quiet", "--out", "r") == 0
    *steps, last = log.read_log("r")
    last |= {"validation_loss": None, "bits_per_byte": None}
    Path("r/log.jsonl").write_text(
        "".join(f"{json.dumps(x)}\n" for x in [*steps, last])
    )
    capfd.readouterr()
    loss = told(capfd, "info", "r")["Loss"]
    assert loss[0] == "nan nats per token held out, nan bits per byte"


@pytest.mark.parametrize("name", ["r", "run", ".", "somewhere/r"])
def test_what_fails_on_a_file_is_one_line_whatever_its_name(name):
    """And once said so, is not said again."""
    with (
        pytest.raises(
            ValueError, match="is damaged, or from another version: "
        ) as told,
        reading(Path(name)),
    ):
        raise TypeError("'NoneType' - 'float' of a run")
    with pytest.raises(ValueError, match="version") as again, reading(Path(name)):
        raise told.value
    assert str(again.value) == str(told.value)


def test_a_model_without_a_training_is_counted(tmp_path, capfd):
    config = GPTConfig(
        vocab_size=257,
        context_length=8,
        d_model=8,
        n_layers=1,
        n_heads=2,
        norm_position="post",
    )
    checkpoint.create_run("bare", model_config=config, tokenizer=BytePairTokenizer([]))
    rows = told(capfd, "info", "bare")
    assert rows["Training"] == ["not counted for post-norm"]
    assert "Run" not in rows


def test_what_cannot_be_counted_is_named(text, tmp_path, capfd):
    said = refused(capfd, "info", "gpt5")
    assert (
        "gpt5 is neither a run's folder nor a model; choose one of gpt2-small" in said
    )
    assert "stories-cpu" in said
    assert said.count("\n") == 1
    assert "holds no run" in refused(capfd, "info", tmp_path)
    run("train", "--text", text, *NINE, "--out", "run")
    config = config_of(tmp_path / "run")
    config["model"]["n_wings"] = 2
    (tmp_path / "run/config.json").write_text(json.dumps(config))
    capfd.readouterr()
    assert "from another version" in refused(capfd, "info", "run")


# ---------------------------------------------------------------------------------------- mistakes


def refused(capfd, *words) -> str:
    """What the command says, having changed nothing and shown no traceback."""
    assert run(*words) == 1
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err
    said = err.splitlines(keepends=True)[-1]  # a line of progress may come before
    assert said.startswith("decoder-only: ")
    return said


def test_another_run_is_not_overwritten_unless_asked(text, capfd):
    words = [
        "train",
        "--text",
        text,
        *SMALL,
        "--vocab-size=280",
        "--quiet",
        "--out",
        "here",
    ]
    assert run(*words) == 0
    assert "already holds a run" in refused(capfd, *words)
    assert run(*words, "--overwrite") == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--text", "none.txt"], "none.txt does not exist"),
        (["--text", "."], "holds no prepared data"),
        (
            ["--preset", "huge"],
            "there is no recipe 'huge'; choose one of stories-cpu, ",
        ),
        (["--preset", "shakespeare-cpu"], "add --text FILE"),
        (["--device", "abacus"], "device 'abacus' is not present"),
        (["--text", "fox.txt", "--preset", "stories-cpu"], "leave out --text"),
        (
            ["--text", "fox.txt", "--vocab-size", "5000"],
            "vocab_size is 5000, but this text fills",
        ),
        (["--text", "fox.txt", "--vocab-size=280", "--n-heads", "3"], "n_heads=3"),
        (
            ["--text", "fox.txt", "--vocab-size=280", "--steps", "0"],
            "steps=0 must be",
        ),
        (
            ["--text", "fox.txt", "--vocab-size=257", "--context-length=9999"],
            "at most",
        ),
        (["--stories", "0"], "stories=0 must be a whole number, at least 1"),
        (["--samples", "-1"], "samples=-1 must be a whole number, at least 0"),
        (["--resume", "fox", "--stories", "0"], "nothing of what it is"),
    ],
)
def test_what_cannot_work_is_refused_before_a_folder_is_made(
    text, tmp_path, capfd, words, message
):
    assert message in refused(capfd, "train", *words)
    assert not (tmp_path / "runs").exists()


def test_sampling_from_what_is_no_run(capfd, tmp_path):
    assert "nowhere is not a folder" in refused(capfd, "sample", "--run", "nowhere")
    assert "holds no run" in refused(capfd, "sample", "--run", tmp_path)


def test_an_unknown_option_is_explained(capfd):
    with pytest.raises(SystemExit) as stopped:
        main(["train", "--step", "3"])
    assert stopped.value.code == 2
    assert "--steps" in "".join(capfd.readouterr())


def test_an_interruption_says_what_is_left(text, capfd):
    def interrupt(module, inputs):
        raise KeyboardInterrupt

    hook = torch.nn.modules.module.register_module_forward_pre_hook(interrupt)
    try:
        assert run("train", "--text", text, *NINE) == 130
    finally:
        hook.remove()
    assert "interrupted" in capfd.readouterr().err


@pytest.fixture(params=["SIGINT", "SIGTERM", "SIGHUP"])
def number(request) -> Iterator[int]:
    """A signal that is not ignored, as some are in the background; afterwards it is as it was."""
    number = getattr(signal, request.param)
    before = signal.signal(number, signal.SIG_DFL)
    yield number
    assert signal.signal(number, before) == signal.SIG_DFL


@pytest.mark.parametrize("becomes", [KeyboardInterrupt, RecursionError, ImportError])
def test_an_interruption_is_said_whatever_it_becomes(
    number, becomes, monkeypatch, capfd
):
    """Within an import it may turn into any error."""

    def interrupted(*_):
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            raise becomes from None

    monkeypatch.setattr("decoder_only.cli._run", interrupted)
    assert run("train") == 128 + number
    assert capfd.readouterr().err == "\ndecoder-only: interrupted\n"


def test_a_warning_is_one_line_that_steers_nothing():
    with cli._interruptible(is_last=False):
        said = warnings.formatwarning("a\x1b\nb", UserWarning, "file.py", 3)
    assert said == "decoder-only: a\\x1b\\nb\n"


def test_nothing_is_left_to_interrupt_behind_the_last_line():
    code = "import os, signal, sys; sys.argv = ['d', '--version']; "
    code += "signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "from decoder_only.cli import main; main(); "
    code += "os.kill(os.getpid(), signal.SIGINT)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_preparation_that_is_ended_leaves_nothing(number, tmp_path, monkeypatch):
    class Stream:
        def read(self, size):
            signal.raise_signal(number)

    monkeypatch.setattr(sys, "stdin", type("Input", (), {"buffer": Stream()}))
    assert run("prepare", "-", "--out", "d", "--quiet") == 128 + number
    assert not any(tmp_path.iterdir())


# -------------------------------------------------------------------------------------------- help


def test_help_is_at_hand(capfd):
    assert run("--help") == run() == 0
    out = capfd.readouterr().out
    assert "usage: decoder-only" in out
    for command in [*COMMANDS, "workbook", "progress"]:
        assert re.search(rf"^  {command} +\w", out, re.MULTILINE)
    assert re.search(r"^For instance:\n\n +decoder-only \w+ .*\n", out, re.MULTILINE)


def command_of(name: str):
    return getattr(import_module(f"decoder_only.cli.{name}"), name)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_does(name, capfd):
    with pytest.raises(SystemExit) as stopped:
        main([name, "--help"])
    assert not stopped.value.code
    command, said = command_of(name), " ".join(capfd.readouterr().out.split())
    assert f"usage: decoder-only {name}" in said
    assert inspect.getdoc(command).startswith(COMMANDS[name])
    explained = options.explained(command)
    assert set(explained) == set(inspect.signature(command).parameters)


@pytest.mark.parametrize("config", [GPTConfig, TrainConfig])
def test_every_setting_is_an_option_and_explained(config, capfd):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    out = capfd.readouterr().out
    for field in dataclasses.fields(config):
        assert options.explained(config)[field.name]
        assert f"--{field.name.replace('_', '-')}" in out


def test_the_command_is_installed_under_its_name():
    [command] = entry_points(group="console_scripts", name="decoder-only")
    assert command.load() is main
    words = [sys.executable, "-m", "decoder_only", "--help"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "decoder-only" in told


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_can_be_built(name):
    recipe = RECIPES[name]
    json.dumps(dataclasses.asdict(recipe))
    TrainConfig(**recipe.training)
    with torch.device("meta"):
        assert GPT(config_named(name)).count_parameters() > 100_000


# ------------------------------------------------------------------------------------ not too much


def fresh(code: str) -> subprocess.CompletedProcess:
    """What a new Python says, in which nothing has been imported yet."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_help_and_version_load_next_to_nothing():
    done = fresh(
        "import sys; from decoder_only.cli import main\n"
        "assert not main(['--help']) and not main(['--version'])\n"
        "heavy = {'torch', 'matplotlib', 'scipy', 'numpy', 'tyro'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^decoder-only \d+\.\d+", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "words", "rank", "said"),
    [
        *((name, [], "0", "decoder-only {}: loading PyTorch …\n") for name in COMMANDS),
        ("train", ["--quiet"], "0", ""),
        ("train", [], "1", ""),
    ],
)
def test_a_command_says_a_word_before_it_loads_what_takes_seconds(
    name, words, rank, said
):
    code = f"""
import os, sys
from decoder_only.cli import main
class Heavy:
    def find_spec(name, *_):
        if name in ("torch", "numpy", "matplotlib", "scipy", "tyro", "tokenizers"):
            sys.stderr.flush()
            os._exit(9)
sys.meta_path.insert(0, Heavy)
os.environ["RANK"] = {rank!r}
main({[name, *words]!r})
"""
    done = fresh(code)
    assert (done.returncode, done.stdout) == (9, "")
    assert done.stderr == said.format(name)


def test_a_command_that_is_not_there_is_refused_with_those_that_are(capfd):
    assert run("trian") == 2
    assert "no command 'trian'; choose one of prepare, train" in capfd.readouterr().err


def test_a_reader_who_has_gone_is_no_reason_to_complain():
    words = [sys.executable, "-m", "decoder_only", "--help"]
    command = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    command.stdout.close()
    assert (command.stderr.read(), command.wait()) == (b"", 141)


# --------------------------------------------------------------------------------------- suggested


@pytest.mark.parametrize("name", StoryLanguage.SIZES)
def test_suggested_prompts_begin_stories_of_every_language(name):
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    prompts = re.findall(
        r'--prompt "(.*?)"', readme + import_module("decoder_only.cli").__doc__
    )
    assert len(prompts) == 2
    for prompt in (PROMPT, *prompts):
        said = StoryLanguage.named(name).explain(prompt)
        assert said.at == len(prompt), said
        assert said.expected


def test_the_readmes_python_runs(text, capfd):
    assert run("train", *FEW, "--quiet") == 0
    text.rename("my_novel.txt")
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    [code] = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    found = {}
    exec(compile(code, "README.md", "exec"), found)
    assert "Once there was a" in capfd.readouterr().out
    assert found["history"].final.loss == found["history"].evaluations[-1][1].loss
    assert found["loss"].isfinite()


def suggested(out: str) -> list[list[str]]:
    """The commands to paste, as a shell reads them."""
    lines = [line for line in out.splitlines() if line.startswith("  decoder-only ")]
    return [shlex.split(line)[1:] for line in lines]


def test_what_is_suggested_works_when_pasted(tmp_path, capfd):
    odd = tmp_path / "it's a fox.txt"
    odd.write_text(LINE * 40)
    tokens, folder = tmp_path / "my tokens", tmp_path / "my $run; no"
    assert run("prepare", odd, "--out", tokens, "--tokenizer=280", "--quiet") == 0
    [words] = suggested(capfd.readouterr().out)
    small = [*SMALL, "--quiet", "--samples=1"]
    with interrupted_after(2):
        assert run(*words, *small, "--out", folder) == 130
    [words] = suggested(capfd.readouterr().out)
    assert run(*words, "--quiet", "--samples=0") == 0
    [words] = suggested(capfd.readouterr().out)
    assert run(*words, "--max-new-tokens", "2") == 0


@settings(max_examples=examples(20))  # of a hundred
@given(st.dictionaries(st.sampled_from(["n_layers", "d_model"]), st.integers(1, 9)))
def test_settings_are_written_as_they_are_read(given_settings):
    """Whatever a configuration holds can be given, and comes back."""
    said = {"bias": False, "qk_norm": True, "windows": (None, 256), "norm": "rms"}
    said |= {"soft_cap": 15.0, "dropout": 0.1} | given_settings

    def read(*, model: options.settings(GPTConfig)) -> dict:
        return model

    found = tyro.cli(read, args=options.written(said))
    assert {**found, "windows": tuple(found["windows"])} == said


# -------------------------------------------------------------------------------------- wrong turns


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of a few steps on a text."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "fox.txt").write_text(LINE * 40)
    small = [*SMALL, "--vocab-size=280", "--quiet", "--out", folder / "run"]
    assert run("train", "--text", folder / "fox.txt", *small) == 0
    return folder / "run"


@pytest.mark.parametrize(
    "words",
    [
        ["--count", "0"],
        ["--count", "-1"],
        ["--temperature", "inf"],
        ["--temperature", "nan"],
        ["--temperature", "-1"],
        ["--max-new-tokens", "-1"],
        ["--max-new-tokens", "-1", "--prompt", "The quick"],
        ["--top-k", "0"],
        ["--top-p", "2"],
        ["--top-p", "nan"],
        ["--count", "100000000"],
        ["--seed", str(10**20)],
    ],
)
def test_what_cannot_be_sampled_is_one_line(words, trained, capfd):
    said = refused(capfd, "sample", "--run", trained, *words)
    assert (
        f"{words[0][2:].replace('-', '_')}={float(words[1]):g}" in said
        or f"{words[0][2:]}={words[1]}" in said
    )
    assert " must be " in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--d-model", "1000000"], "n_weights"),
        (["--batch-size", "100000000000000"], "batch_size=100000000000000 must be"),
        (
            ["--batch-size", "1000000000"],
            "must be a whole number, at least 1 and at most 1048576",
        ),
        (["--samples", "1000000000"], "samples=1000000000 must be"),
        (["--seed", str(2**70)], f"seed={2**70} must be"),
    ],
)
def test_what_no_memory_holds_is_refused_before_a_folder_is_made(
    words, message, text, capfd
):
    small = [word for word in NINE if words[0] not in word]
    assert message in refused(capfd, "train", "--text", text, *small, *words)
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("CUDA out of memory.\nTried"), OSError("x")]
)
def test_too_little_memory_is_said_with_what_would_take_less(error, monkeypatch, capfd):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(recipes, "gather", fail)
    said = refused(capfd, "train", *FEW)
    advises = "that is more memory than there is" in said and "--accumulation" in said
    assert advises == (not isinstance(error, OSError))


def test_a_run_without_details_is_counted_and_not_gone_on_with(trained, capfd):
    config = json.loads((trained / "config.json").read_text())
    tokenizer = BytePairTokenizer.load(trained / "tokenizer.json")
    shape = GPTConfig(**config["model"])
    checkpoint.create_run("bare", model_config=shape, tokenizer=tokenizer)
    assert "was not begun by" in refused(capfd, "train", "--resume", "bare")
    assert "Run" not in told(capfd, "info", "bare")
    details = {"training": config["training"]}
    checkpoint.create_run(
        "bare2", model_config=shape, tokenizer=tokenizer, details=details
    )
    assert "Run" not in told(capfd, "info", "bare2")


def test_what_could_steer_a_terminal_is_shown_as_its_escape(trained, capfd):
    words = (
        "sample",
        "--run",
        trained,
        "--max-new-tokens=1",
        "--prompt",
        "\x1b[31mA\r",
    )
    assert run(*words) == 0
    out = capfd.readouterr().out
    assert "\x1b" not in out
    assert "\r" not in out
    assert "\\x1b[31mA\\r" in out
    assert run(*words, "--raw") == 0
    assert capfd.readouterr().out.startswith("\x1b[31mA\r")


STEERING = "ev\x1b[31m\nil\x9b"


@pytest.mark.skipif(sys.platform != "linux", reason="names files by any bytes")
@pytest.mark.filterwarnings("ignore:.*damaged lines were left out")
def test_no_name_of_a_file_steers_a_terminal(trained, text, tmp_path, capfd):
    """Whether the user has such a file, or a stranger's settings tell of one."""
    odd, folder = tmp_path / f"{STEERING}\udcff.txt", tmp_path / f"{STEERING}-run"
    text.rename(odd)
    small = [*SMALL, "--vocab-size=280", "--samples=1"]
    assert run("train", "--text", odd, *small, "--out", folder) == 0
    assert run("info", folder) == 0
    (folder / "log.jsonl").write_text((folder / "log.jsonl").read_text() + "x\n[1]\n")
    assert run("plot", folder, "--out", tmp_path / f"{STEERING}.png") == 0
    assert run("export", "--run", folder, "--out", tmp_path / f"{STEERING}-out") == 0
    tokens = tmp_path / f"{STEERING}-tokens"
    assert run("prepare", odd, "--out", tokens, "--tokenizer", folder, "--quiet") == 0
    assert "[31m" in refused(capfd, "plot", tmp_path / f"{STEERING}-none")
    config = config_of(folder)
    config["data"] |= {"file": STEERING, "kind": STEERING}
    (folder / "config.json").write_text(json.dumps(config))
    assert run("info", folder) == 0
    said = "".join(capfd.readouterr())
    assert not re.search(r"[\x1b\x9b]|^il", said.replace("\x1b[A", ""), re.MULTILINE)


@given(st.text())
def test_visible_text_steers_nothing(text):
    shown = words_.visible(text)
    assert all(c.isprintable() or c in "\n\t" for c in shown)
    if all(c.isprintable() or c in "\n\t" for c in text):
        assert shown == text


def test_plot_says_which_file_it_wrote(trained, tmp_path, capfd):
    assert run("plot", trained, "--out", "fig") == 0
    assert "The figure is in fig.png" in capfd.readouterr().out
    assert (tmp_path / "fig.png").is_file()


def test_runs_of_one_name_stay_apart_in_a_plot(trained, tmp_path, capfd):
    other = tmp_path / "elsewhere" / trained.name
    shutil.copytree(trained, other)
    assert run("plot", trained, other, "--out", "runs.svg") == 0
    assert (
        str(other) in capfd.readouterr().out
        or "elsewhere/run" in (tmp_path / "runs.svg").read_text()
    )


@pytest.mark.parametrize(
    ("floors", "drawn"),
    [((1.25, 1.25), ["floor 1.250"]), ((1.25, 1.5), []), ((1.25, None), [])],
    ids=["one", "two", "one unknown"],
)
def test_a_floor_is_drawn_where_all_runs_have_it(floors, drawn, trained, tmp_path):
    for name, floor in zip("ab", floors, strict=True):
        shutil.copytree(trained, tmp_path / name)
        lines = {"step": 1, "loss": 3.0}, {"step": 1, "validation_loss": 2.0}
        logged = "".join(json.dumps(line | {"floor": floor}) + "\n" for line in lines)
        (tmp_path / name / "log.jsonl").write_text(logged)
    with mock.patch.object(pyplot.Figure, "savefig"):
        assert run("plot", "a", "b") == 0
    texts = [text.get_text() for text in pyplot.gcf().axes[0].texts]
    assert [text.partition(",")[0] for text in texts if text] == drawn


@pytest.mark.parametrize("name", ["_notes", r"a$\frac{x$", "$x$"])
def test_runs_of_any_name_are_in_the_legend(name, trained, tmp_path, capfd):
    shutil.copytree(trained, tmp_path / name)
    with pytest.MonkeyPatch.context() as patch:
        shown = []
        patch.setattr(pyplot.Figure, "savefig", lambda self, _: shown.append(self))
        assert run("plot", tmp_path / name, trained) == 0
    texts = [text.get_text() for text in shown[0].axes[0].get_legend().get_texts()]
    label = f"./{name}" if name.startswith("_") else name.replace("$", r"\$")
    assert f"{label}, training" in texts
    shown[0].canvas.draw()


def test_settings_that_cannot_work_are_refused_before_anything_is_deleted(
    trained, tmp_path, capfd
):
    folder = tmp_path / "copy"
    shutil.copytree(trained, folder)
    before = sorted(folder.iterdir())
    text = trained.parent / "fox.txt"
    words = ("--text", text, *NINE, "--out", folder, "--overwrite")
    said = refused(capfd, "train", *words, "--accumulation", 3)
    assert "accumulation=3 must divide batch_size" in said
    assert sorted(folder.iterdir()) == before
    assert checkpoint.load(folder).step == 3


def test_a_run_takes_more_steps_with_its_text_elsewhere(text, tmp_path, capfd):
    run("train", "--text", text, *NINE, "--out", "run")
    text.rename(tmp_path / "moved.txt")
    said = refused(capfd, "train", "--resume", "run", "--steps", "12")
    assert "fox.txt does not exist" in said
    assert "decoder-only train --resume run --text FILE" in said
    more = ("--text", "moved.txt", "--steps", "12", "--quiet")
    assert run("train", "--resume", "run", *more) == 0
    assert checkpoint.load("run").step == 12
    capfd.readouterr()
    assert told(capfd, "info", "run")["Run"][1].startswith("12 of 12 steps of ")
    assert run("train", "--resume", "run", "--text", "moved.txt", "--quiet") == 0
    assert checkpoint.load("run").step == 12


@pytest.mark.parametrize("kind", ["stories", "text"])
def test_stories_are_judged_and_nothing_else(kind, trained, capfd):
    if kind == "text":
        said = refused(capfd, "sample", "--run", trained, "--judge")
        assert "has not learned stories; --language NAME may judge it" in said
        more = ["--language", "hamlet"]
    else:
        assert run("train", *FEW, "--quiet", "--out", "run") == 0
        trained, more = "run", []
    capfd.readouterr()
    words = ["--count=3", "--max-new-tokens=4", "--judge", *more]
    assert run("sample", "--run", trained, *words) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[-1] == "0 of 3 stories lie in the language"
    said = r'leaves the language at letter \d+: (".*"|the end), where (".*"|the end) could be$'
    assert sum(bool(re.search(said, line)) for line in lines) == 3


def test_an_exported_run_is_sampled_and_counted_like_the_run(trained, capfd):
    words = ["--seed=3", "--max-new-tokens=6", "--prompt=The", "--raw"]
    assert run("export", "--run", trained, "--out", "our model") == 0
    [suggestion] = suggested(capfd.readouterr().out)
    assert run(*suggestion, *words) == 0
    exported = capfd.readouterr().out
    assert run("sample", "--run", trained, *words) == 0
    assert capfd.readouterr().out == exported
    assert (
        told(capfd, "info", "our model")["Shape"]
        == told(capfd, "info", trained)["Shape"]
    )
    assert "is not empty" in refused(
        capfd, "export", "--run", trained, "--out", "our model"
    )


def test_a_gpu_draws_where_the_model_is_and_reads_half_as_much(trained, monkeypatch):
    """Imagined: the generator is asked for on the device, and the weights are in 16 bits."""
    sample = import_module("decoder_only.cli.sample")

    asked, write = [], mock.Mock(return_value=["a text"])
    real = torch.Generator
    monkeypatch.setattr(torch, "Generator", lambda *x: asked.append(x) or real(*x))
    monkeypatch.setattr(sample.generation, "write", write)
    monkeypatch.setattr(sample, "has_native_bfloat16", lambda device: True)
    assert run("sample", "--run", trained) == 0
    assert asked == [(torch.device("cpu"),)]
    assert {p.dtype for p in write.call_args.args[0].parameters()} == {torch.bfloat16}


def test_an_exported_run_on_stories_begins_them_as_the_run_does(capfd):
    assert run("train", *FEW, "--quiet", "--out", "run") == 0
    capfd.readouterr()
    assert run("export", "--run", "run", "--out", "x") == 0
    [suggestion] = suggested(capfd.readouterr().out)
    how = ["--seed=3", "--count=2", "--max-new-tokens=9", "--raw"]
    for prompt, commands in {
        "--temperature=1": (suggestion, ["sample", "--run", "x"]),
        "--prompt=Once there was": (suggestion,),
    }.items():
        assert run("sample", "--run", "run", *how, prompt) == 0
        written = capfd.readouterr().out
        for words in commands:
            assert run(*words, *how, prompt) == 0
            assert capfd.readouterr().out == written


def test_a_run_is_never_the_folder_of_its_export(trained, capfd):
    words = ["export", "--run", trained, "--out", trained, "--overwrite"]
    assert "holds a run, or prepared tokens" in refused(capfd, *words)
    assert checkpoint.load(trained).step == 3


def test_a_finished_run_needs_neither_its_text_nor_its_log(text, capfd):
    assert run("train", "--text", text, *NINE, "--out", "run") == 0
    before = {path: path.read_bytes() for path in Path("run").iterdir()}
    text.unlink()
    for words in ((), ("--steps", 9), ("--text", "elsewhere.txt")):
        capfd.readouterr()
        assert run("train", "--resume", "run", "--quiet", *words) == 0
        said = capfd.readouterr().out
        assert "has taken all of its 9 steps; --steps gives it more" in said
        assert "decoder-only sample --run run" in said
    assert {path: path.read_bytes() for path in Path("run").iterdir()} == before
    Path("run/log.jsonl").unlink()
    assert run("train", "--resume", "run", "--quiet") == 0
    for words in (("--steps", 10), ("--lr", "0.5")):
        said = refused(capfd, "train", "--resume", "run", *words)
        assert "say where the run's text is now" in said


def test_a_run_whose_settings_have_older_names_goes_on(text, tmp_path, capfd):
    words = ("--text", text, *NINE, "--schedule", "warmup_stable_decay")
    with interrupted_after(4):
        assert run("train", *words, "--out", "run") == 130
    state = checkpoint.latest_state("run")
    config, notes = config_of(tmp_path / "run"), dict(state.notes)
    training = json.loads(notes["training"])
    for each in (config["training"], training):
        each["decay_share"] = each.pop("decay_fraction")
    Path("run/config.json").write_text(json.dumps(config))
    notes["training"] = json.dumps(training)
    tensors = {name: state.tensors[name] for name in state.tensors}
    checkpoint.save_state("run", tensors, step=state.step, notes=notes)
    more = ("--resume", "run", "--quiet", "--samples=0")
    said = refused(capfd, "train", *more, "--decay-fraction", "0.1")
    assert "was begun with decay_fraction=0.8 (training), not 0.1" in said
    assert run("train", *more) == 0


def test_a_text_is_streamed_as_it_is_written(trained, capfd):
    words = ["--seed=3", "--max-new-tokens=9", "--prompt=The", "--raw"]
    assert run("sample", "--run", trained, *words) == 0
    at_once = capfd.readouterr().out
    assert run("sample", "--run", trained, *words, "--stream") == 0
    assert capfd.readouterr().out == at_once
