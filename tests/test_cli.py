"""The command, from its words to a folder that can be sampled from."""

import ast
import inspect
import io
import json
import os
import signal
import subprocess
import sys
from importlib.metadata import entry_points
from itertools import pairwise

import pytest
import torch

from decoder_only import checkpoint, cli
from decoder_only.cli import PRESETS, main
from decoder_only.generation import write
from decoder_only.model import GPT, GPTConfig
from decoder_only.stories import StoryLanguage
from decoder_only.training import TrainConfig

SMALL = ["--steps=3", "--batch-size=2", "--d-model=16", "--n-layers=1", "--n-heads=2"]
SMALL += ["--context-length=32"]
LINE = (
    "The quick brown fox jumps over the lazy dog, and the dog does not mind at all.\n"
)


@pytest.fixture(scope="module")
def small_world():
    return StoryLanguage(n_characters=64)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch, small_world):
    """Each test in a folder of its own, with a preset of few stories about few people."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "StoryLanguage", lambda: small_world)

    def write_briefly(*arguments, max_new_tokens, **options):
        # Types are checked at every call, so that a long text takes long.
        return write(*arguments, max_new_tokens=min(max_new_tokens, 4), **options)

    monkeypatch.setattr(cli, "write", write_briefly)
    few = {"kind": "stories", "vocab_size": 300, "n_train": 20, "n_validation": 3}
    preset = PRESETS["stories-cpu"]
    monkeypatch.setitem(PRESETS, "stories-cpu", {**preset, "data": few})


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
    assert run("train", *SMALL) == 0
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
    assert config["data"]["n_train"] == 20
    assert len(config["data"]["fingerprints"]["train"]) == 64
    assert checkpoint.load(folder).step == 3

    assert run("sample", "--run", folder, "--count", "2", "--max-new-tokens", "5") == 0
    told = capfd.readouterr().out
    assert told.count("the text leaves the language") == 2
    assert (
        run("sample", "--run", folder, "--prompt", "One day ", "--max-new-tokens", "5")
        == 0
    )
    assert capfd.readouterr().out.startswith("  One day ")


def test_a_second_run_gets_a_folder_of_its_own(tmp_path, capfd):
    for _ in range(2):
        assert run("train", *SMALL, "--quiet") == 0
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
    assert (
        run("sample", "--run", "runs/fox-1", "--prompt", "The qu", "--seed", "3") == 0
    )
    first = capfd.readouterr().out
    assert first.startswith("  The qu")
    assert (
        run("sample", "--run", "runs/fox-1", "--prompt", "The qu", "--seed", "3") == 0
    )
    assert capfd.readouterr().out == first
    assert (
        run("sample", "--run", "runs/fox-1", "--prompt", "The qu", "--seed", "4") == 0
    )
    assert capfd.readouterr().out != first
    for word in ("--temperature=0", "--top-k=3", "--top-p=0.5"):
        assert run("sample", "--run", "runs/fox-1", "--max-new-tokens", "3", word) == 0


def test_shakespeare_is_a_word(monkeypatch, tmp_path, capfd):
    monkeypatch.setattr(cli, "tiny_shakespeare", lambda: LINE * 40)
    assert (
        run("train", "--text", "shakespeare", *SMALL, "--vocab-size", "280", "--quiet")
        == 0
    )
    assert (tmp_path / "runs/shakespeare-1").is_dir()
    (tmp_path / "shakespeare").write_text("x")  # a file of that name goes before
    monkeypatch.setattr(cli, "read_text", lambda path: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run("train", "--text", "shakespeare")


def test_options_go_before_the_preset(text, tmp_path):
    words = ["--lr", "0.5", "--seed", "7", "--dropout", "0.25", "--warmup-steps", "1"]
    assert (
        run("train", "--text", text, *SMALL, "--vocab-size=280", "--quiet", *words) == 0
    )
    config = config_of(tmp_path / "runs/fox-1")
    preset = PRESETS["shakespeare-cpu"]
    assert config["training"]["learning_rate"] == 0.5
    assert config["training"]["seed"] == 7
    assert config["model"]["dropout"] == 0.25
    for name in ("positions", "activation"):
        assert config["model"][name] == preset["model"][name]


# ------------------------------------------------------------------------------------ going on


NINE = [*SMALL[1:], "--steps=9", "--vocab-size=280", "--quiet"]


def interrupted_after(monkeypatch, n_steps: int) -> None:
    """Ctrl-C is pressed while a step of training is under way."""
    real, taken = cli.train, []

    def train(model, *arguments, **options):
        def press(module, inputs):
            taken.append(module.training)
            if sum(taken) == n_steps:
                os.kill(os.getpid(), signal.SIGINT)

        model.register_forward_pre_hook(press)
        return real(model, *arguments, **options)

    monkeypatch.setattr(cli, "train", train)


@pytest.mark.parametrize("kind", ["stories", "text"])
def test_a_run_that_was_stopped_goes_on(kind, text, tmp_path, monkeypatch, capfd):
    source = () if kind == "stories" else ("--text", text)
    assert run("train", *source, *NINE, "--out", tmp_path / "whole") == 0
    with monkeypatch.context() as patch:
        interrupted_after(patch, 4)
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
    for option in (("--steps", "20"), ("--text", text), ("--seed", "3")):
        message = refused(capfd, "train", "--resume", tmp_path / "run", *option)
        assert "goes on with the settings that the run was begun with" in message
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
    losses = [[r.get("loss") for r in checkpoint.read_log(tmp_path / n)] for n in "ab"]
    assert losses[0] == losses[1]
    assert run("train", "--resume", "a", "--quiet") == 0


@pytest.mark.parametrize("source", ["-", "shakespeare", "hf:some/stories"])
def test_other_sources_can_be_prepared(source, monkeypatch, capfd):
    monkeypatch.setattr(
        cli.sys, "stdin", type("", (), {"buffer": io.BytesIO(LINE.encode() * 9)})()
    )
    monkeypatch.setattr(cli, "tiny_shakespeare", lambda: LINE * 9)
    asked = []

    def documents(name, *, column):
        asked.append((name, column))
        return iter([LINE] * 9)

    monkeypatch.setattr(cli, "huggingface_documents", documents)
    words = (source, "--out", "tokens", "--tokenizer=257", "--column=story", "--quiet")
    assert run("prepare", *words) == 0
    assert "tokens of 1.00 bytes" in capfd.readouterr().out
    assert asked == ([("some/stories", "story")] if "hf" in source else [])


def test_what_cannot_be_prepared_is_named(text, tmp_path, capfd):
    assert "--tokenizer nothing is neither gpt2" in refused(
        capfd, "prepare", text, "--out", "tokens", "--tokenizer", "nothing"
    )
    assert "missing.txt" in refused(capfd, "prepare", "missing.txt", "--out", "tokens")
    assert not (tmp_path / "tokens").exists()
    (tmp_path / "empty").mkdir()
    message = refused(capfd, "train", "--text", "empty", *NINE)
    assert "--vocab-size cannot change empty, whose tokens are made" in message
    message = refused(capfd, "train", "--text", "empty", *SMALL)
    assert "give a folder that `decoder-only prepare` made" in message


# -------------------------------------------------------------------------------------- plotting


def test_runs_are_drawn_in_one_figure(text, tmp_path, capfd):
    for name in ("one", "two"):
        run("train", "--text", text, *NINE, "--out", tmp_path / name)
    picture = tmp_path / "runs.svg"
    assert run("plot", tmp_path / "one", tmp_path / "two", "--out", picture) == 0
    assert f"The figure is in {picture}" in capfd.readouterr().out
    drawn = picture.read_text()
    assert drawn.startswith("<?xml")


def test_what_cannot_be_drawn_is_named(text, tmp_path, capfd):
    assert "holds no run" in refused(capfd, "plot", tmp_path / "nothing")
    run("train", "--text", text, *NINE, "--out", tmp_path / "run")
    capfd.readouterr()
    (tmp_path / "run" / "log.jsonl").write_text("")
    assert "has not taken a step yet" in refused(capfd, "plot", tmp_path / "run")


# ---------------------------------------------------------------------------------------- mistakes


def refused(capfd, *words) -> str:
    """What the command says, having changed nothing and shown no traceback."""
    assert run(*words) == 1
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err
    assert err.startswith("decoder-only: ")
    return err


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
            "there is no preset 'huge'; choose one of stories-cpu, ",
        ),
        (["--preset", "shakespeare-cpu"], "add --text FILE"),
        (["--device", "abacus"], "device 'abacus' is unknown"),
        (["--text", "fox.txt", "--preset", "stories-cpu"], "leave out --text"),
        (
            ["--text", "fox.txt", "--vocab-size", "5000"],
            "vocab_size is 5000, but this text fills",
        ),
        (["--text", "fox.txt", "--vocab-size=280", "--n-heads", "3"], "n_heads=3"),
        (
            ["--text", "fox.txt", "--vocab-size=280", "--steps", "0"],
            "steps=0 cannot work",
        ),
        (
            ["--text", "fox.txt", "--vocab-size=257", "--context-length=9999"],
            "shorter context",
        ),
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


def test_an_interruption_says_what_is_left(text, monkeypatch, capfd):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "train", interrupt)
    assert run("train", "--text", text, "--vocab-size=280") == 130
    assert "interrupted" in capfd.readouterr().err


# -------------------------------------------------------------------------------------------- help


@pytest.mark.parametrize(
    "words", [["--help"], ["train", "--help"], ["sample", "--help"]]
)
def test_help_is_at_hand(words, capfd):
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert not stopped.value.code
    assert "usage: decoder-only" in capfd.readouterr().out


def test_the_command_is_installed_under_its_name():
    [command] = entry_points(group="console_scripts", name="decoder-only")
    assert command.load() is main
    words = [sys.executable, "-m", "decoder_only", "--help"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "decoder-only" in told


@pytest.mark.parametrize(
    "options", [cli.Train, cli.Sample, cli.ModelOptions, cli.TrainingOptions]
)
def test_every_option_says_what_it_does(options):
    [body] = [node.body for node in ast.parse(inspect.getsource(options)).body]
    for field, following in pairwise(body):
        if isinstance(field, ast.AnnAssign) and field.target.id not in (
            "model",
            "training",
        ):
            assert isinstance(following, ast.Expr), (
                f"{field.target.id} is not documented"
            )
            assert isinstance(following.value.value, str)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_can_be_built(name):
    preset = PRESETS[name]
    assert set(preset) == {"data", "model", "training"}
    json.dumps(preset)
    TrainConfig(**preset["training"])
    config = GPTConfig(vocab_size=preset["data"]["vocab_size"], **preset["model"])
    with torch.device("meta"):
        assert GPT(config).count_parameters() > 100_000
