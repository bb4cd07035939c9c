"""A run's folder: whole at any moment, refused when it is damaged, never overwritten unasked."""

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import textwrap
import time
from pathlib import Path

import pytest
import safetensors.torch
import torch
import warm
from hypothesis import given, settings
from hypothesis import strategies as st
from ladder import unchecked

from decoder_only import GPT, GPTConfig
from decoder_only.base import provenance, tensors
from decoder_only.base.files import write_atomically
from decoder_only.base.tensors import read_tensors, write_tensors
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import checkpoint, log
from decoder_only.training.checkpoint import create_run, load, save, save_state
from decoder_only.training.log import append_log

FILES = ["config.json", "tokenizer.json", "weights.safetensors"]
LOCK = [".lock"]
TOKENIZER = BytePairTokenizer([])


def tiny(seed: int = 0, **changes) -> GPT:
    shape = {
        "vocab_size": 257,
        "context_length": 8,
        "d_model": 8,
        "n_layers": 1,
        "n_heads": 2,
    }
    config = GPTConfig(**{**shape, **changes})
    return GPT(config, generator=torch.Generator().manual_seed(seed))


def begin(folder: Path, model: GPT, **options) -> Path:
    return create_run(folder, model_config=model.config, tokenizer=TOKENIZER, **options)


@pytest.fixture
def saved(tmp_path) -> Path:
    model = tiny()
    run = begin(tmp_path / "run", model, details={"training": {"steps": 7}})
    save(run, model, step=7)
    return run


def assert_same_weights(left: GPT, right: GPT):
    ours, theirs = left.state_dict(), right.state_dict()
    assert list(ours) == list(theirs)
    for name, tensor in ours.items():
        assert torch.equal(tensor.view(torch.uint8), theirs[name].view(torch.uint8)), (
            name
        )


# -------------------------------------------------------------------------------------- round trip


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_loaded_is_what_was_saved_bit_by_bit(tmp_path, tied, positions, dtype):
    model = tiny(tied=tied, positions=positions, windows=(None, 4), n_layers=2).to(
        dtype
    )
    with (
        torch.no_grad()
    ):  # numbers that a detour over text or another format would change
        model.embedding.weight.view(-1)[:4] = torch.tensor(
            [-0.0, 1e-40, torch.inf, torch.nan]
        )
    run = begin(tmp_path / "run", model, details={"seed": 3})
    save(run, model, step=12)
    found = load(run)
    assert_same_weights(found.model.to(dtype), model)
    assert (found.model.head.weight is None) is tied
    assert found.model.config == model.config
    assert found.tokenizer == TOKENIZER
    assert (found.step, found.config["seed"]) == (12, 3)
    assert not found.model.training
    assert sorted(path.name for path in run.iterdir()) == LOCK + FILES


def test_a_shared_weight_is_stored_once(saved):
    with safetensors.safe_open(saved / "weights.safetensors", framework="pt") as file:
        names = set(file.keys())
    assert "embedding.weight" in names
    assert "head.weight" not in names


def test_any_program_can_read_the_weights(saved):
    tensors = safetensors.torch.load_file(saved / "weights.safetensors")
    assert torch.equal(tensors["embedding.weight"], load(saved).model.embedding.weight)


def test_a_model_is_loaded_to_the_device_that_is_asked_for(saved):
    assert load(saved, device="meta").model.embedding.weight.is_meta
    assert load(saved).model.embedding.weight.is_cpu


def test_loading_draws_no_random_numbers_that_others_would_miss(saved):
    state = torch.get_rng_state()
    load(saved)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_folder_says_how_the_run_was_made(saved):
    config = json.loads((saved / "config.json").read_text())
    assert config["training"] == {"steps": 7}
    assert GPTConfig(**config["model"]) == tiny().config
    made = config["provenance"]
    assert made["torch"] == torch.__version__
    assert {"started", "decoder_only", "git", "python", "numpy", "platform"} <= set(
        made
    )


def test_the_log_holds_a_line_for_each_record(saved):
    append_log(saved, {"step": 1, "loss": 2.5})
    append_log(saved, {"step": 2, "loss": 2.25})
    lines = (saved / "log.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"step": 1, "loss": 2.5},
        {"step": 2, "loss": 2.25},
    ]


# ------------------------------------------------------------------------------------ interruption


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_save_that_fails_leaves_the_old_weights(saved, monkeypatch, moment):
    before = {path.name: path.read_bytes() for path in saved.iterdir()}

    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, moment, fail)
    with pytest.raises(OSError, match="No space left"):
        save(saved, tiny(seed=1), step=8)
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
    assert load(saved).step == 7


def test_contents_are_on_the_disk_before_their_name_is(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *a, n=name, f=real: (calls.append(n), f(*a))[1]
        )
    write_atomically(tmp_path / "file", b"content")
    assert calls == ["fsync", "replace", "fsync"], "file, name, folder"


def test_what_a_killed_save_left_behind_is_no_obstacle(saved):
    (saved / ".weights.safetensors.part").write_bytes(b"half a")
    assert load(saved).step == 7
    save(saved, tiny(seed=1), step=8)
    assert load(saved).step == 8
    assert sorted(path.name for path in saved.iterdir()) == LOCK + FILES


@pytest.mark.parametrize("moment", ["ready", "renaming", "saved"])
def test_a_run_that_is_killed_while_saving_can_always_be_loaded(saved, moment):
    program = textwrap.dedent(
        f"""
        import itertools, os, sys, time, torch
        from decoder_only.training import checkpoint
        print(os.getpid(), flush=True)
        run, moment = {str(saved)!r}, {moment!r}

        def say(word):
            print(word, flush=True)
            if word == moment == "renaming":
                time.sleep(3600)

        def replace(*paths, really=os.replace):
            say("renaming")
            really(*paths)

        os.replace = replace
        model = checkpoint.load(run).model
        say("ready")
        for step in itertools.count(8):
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.fill_(step)
            checkpoint.save(run, model, step=step)
            say("saved")
        """
    )
    command = [*warm.python(), "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        child = int(process.stdout.readline())
        assert f"{moment}\n" in process.stdout  # reads until it is said
        os.kill(child, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    found = load(saved)
    assert found.step >= (8 if moment == "saved" else 7)
    if moment == "renaming":
        assert found.step == 7
    if found.step > 7:
        assert all((weight == found.step).all() for weight in found.model.parameters())


# ------------------------------------------------------------------------------------------ damage


@settings(max_examples=60)
@given(
    position=st.floats(0, 1, exclude_max=True),
    bit=st.integers(0, 7),
    at=st.sampled_from(FILES),
)
def test_no_flipped_bit_goes_unnoticed(tmp_path_factory, position, bit, at):
    run = pristine(tmp_path_factory)
    content = bytearray((run / at).read_bytes())
    whole = bytes(content)
    content[int(position * len(content))] ^= 1 << bit
    (run / at).write_bytes(content)
    try:
        with pytest.raises((ValueError, FileNotFoundError)):
            load(run)
    finally:
        (run / at).write_bytes(whole)


def pristine(factory, made=[]) -> Path:  # noqa: B006 (one folder for all examples)
    if not made:
        model = tiny()
        made.append(begin(factory.mktemp("pristine") / "run", model))
        save(made[0], model, step=7)
        assert load(made[0]).step == 7
    return made[0]


@pytest.mark.parametrize("length", [0, 4, 100, -1])
def test_a_file_that_was_cut_short_is_refused(saved, length):
    path = saved / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ValueError, match=r"weights.safetensors is damaged"):
        load(saved)


def test_weights_that_another_program_wrote_are_refused(saved):
    safetensors.torch.save_file({"x": torch.zeros(1)}, saved / "weights.safetensors")
    with pytest.raises(ValueError, match="was not written by decoder-only"):
        load(saved)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_neighbour_that_was_changed_is_refused(saved, name):
    (saved / name).write_text((saved / name).read_text() + "\n")
    with pytest.raises(ValueError, match=f"{name} is damaged or has been changed"):
        load(saved)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_neighbour_that_is_missing_is_named(saved, name):
    (saved / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"{name} is missing"):
        load(saved)


def test_weights_of_another_shape_are_refused(tmp_path):
    run = begin(tmp_path / "run", tiny())
    save(run, tiny(n_layers=2), step=1)
    with pytest.raises(
        ValueError, match=r"do not fit the model in config.json.*blocks.1"
    ):
        load(run)


@pytest.mark.parametrize(
    ("merges", "special"),
    [([], []), ([(32, 116)], ["<|endoftext|>"])],
    ids=["no end of text", "258 tokens"],
)
def test_a_tokenizer_that_does_not_fit_is_refused(saved, merges, special):
    """Though it was saved with the weights, of a model that knows 257 tokens."""
    path = saved / "tokenizer.json"
    BytePairTokenizer(merges, special_tokens=special).save(path)
    save(saved, tiny(), step=7)
    with pytest.raises(ValueError, match=f"{path} does not fit the model.* 257 tokens"):
        load(saved)


def test_settings_that_this_version_does_not_know_are_named(saved):
    path = saved / "config.json"
    config = json.loads(path.read_text())
    config["model"]["n_experts"] = 8
    path.write_text(json.dumps(config))
    save(saved, tiny(), step=7)
    with pytest.raises(ValueError, match=r"from another version: .*n_experts"):
        load(saved)


def test_what_is_not_a_run_is_not_loaded(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere is not a folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="holds no run"):
        load(tmp_path)
    run = begin(tmp_path / "run", tiny())
    with pytest.raises(FileNotFoundError, match="a run without weights"):
        load(run)


def test_weights_are_written_as_others_write_them(tmp_path):
    """Our own writer makes no copy of the whole; the format is safetensors' own."""
    formats = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    kept = {str(dtype): torch.randn(3, 5).to(dtype) for dtype in formats} | {
        "int64": torch.arange(4),
        "bool": torch.tensor([True, False]),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "a slice": torch.randn(4, 6)[:, ::2],
    }
    path = tmp_path / "x.safetensors"
    write_tensors(path, kept, notes={"said": 'Zoë "quoted"'})
    for found in (
        safetensors.torch.load_file(path),
        read_tensors(path)[0],
    ):
        assert found.keys() == kept.keys()
        for name, x in kept.items():
            assert found[name].dtype == x.dtype
            assert torch.equal(found[name], x)
    with safetensors.safe_open(path, framework="pt") as file:
        assert file.metadata()["said"] == 'Zoë "quoted"'
    # Numbers begin at a place that every format divides, so that a reader can map the file.
    for n in range(8):
        write_tensors(path, kept, notes={"said": "x" * n})
        assert int.from_bytes(path.read_bytes()[:8], "little") % 8 == 0
    plain = {name: x.contiguous() for name, x in kept.items()}
    theirs = safetensors.torch.save(plain, metadata={"said": "x"})
    assert abs(len(theirs) - path.stat().st_size) < 200


def test_shards_are_read_as_one_and_no_more_rows_than_wanted(tmp_path):
    """Of four rows, three processes hold two, two and none."""
    whole = {
        "matrix": torch.randn(4, 3),
        "vector": torch.randn(4),
        "tall": torch.randn(5, 2),
    }
    cuts = {"matrix": (0, 2, 4, 4), "vector": (0, 2, 4, 4), "tall": (0, 2, 4, 5)}
    for rank in range(3):
        shard = {n: x[slice(*cuts[n][rank : rank + 2])] for n, x in whole.items()}
        shard |= {"count": torch.tensor(7.0)} if rank == 0 else {}
        notes = {"shard": f"{rank + 1} of 3", "step": "1"}
        write_tensors(tmp_path / f"{rank}.safetensors", shard, notes=notes)
    found, notes = read_tensors(tmp_path)
    assert notes == {"step": "1"}
    assert found.keys() == {*whole, "count"}
    assert found["count"] == 7
    assert found.shape("count") == ()
    for name, x in whole.items():
        assert found.shape(name) == x.shape
        assert torch.equal(found[name], x)
        for begin, end in itertools.combinations_with_replacement(range(len(x) + 1), 2):
            rows = found.rows(name, slice(begin, end))
            assert torch.equal(rows, x[begin:end])
            assert rows.untyped_storage().nbytes() == rows.nbytes
    assert dict(found.under("mat")).keys() == {"rix"}
    assert torch.equal(found.under("mat")["rix"], whole["matrix"])


@pytest.mark.parametrize(
    "second",
    [{"x": torch.zeros(2, 4)}, {"x": torch.tensor(1.0)}, {"x": torch.zeros(3, 2, 2)}],
    ids=["wider", "a scalar", "deeper"],
)
def test_shards_that_do_not_fit_are_refused(tmp_path, second):
    for number, own in enumerate(({"x": torch.zeros(2, 3)}, second), 1):
        notes = {"shard": f"{number} of 2"}
        write_tensors(tmp_path / f"{number}.safetensors", own, notes=notes)
    with pytest.raises(ValueError, match=r"2.safetensors is damaged, or was not wri"):
        read_tensors(tmp_path)


def test_writing_copies_nothing_that_lies_in_memory(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(
        tensors, "write_atomically", lambda path, pieces: written.extend(pieces)
    )
    tensor = torch.randn(1000)
    write_tensors(tmp_path / "x", {"x": tensor}, notes={})
    tensor.fill_(7)
    assert bytes(written[1]) == bytes(memoryview(tensor.numpy())), "the very same bytes"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_layers": 10**9}, "blocks.0 to blocks.0, not 1000000000 blocks|n_layers"),
        ({"d_mlp": 10**7}, "blocks.0.mlp.*has shape|d_mlp"),
        ({"vocab_size": 10**8}, "embedding.weight has shape|vocab_size"),
        ({"d_model": "wide"}, "d_model='wide'"),
        ({"n_heads": None}, "n_heads=None"),
    ],
    ids=str,
)
def test_a_config_that_claims_much_is_not_believed(saved, changes, message):
    """Though the seal is right: whoever changed the file has sealed it anew."""
    path = saved / "config.json"
    config = json.loads(path.read_text())
    config["model"] |= changes
    path.write_text(json.dumps(config))
    save(saved, tiny(), step=7)
    began = time.process_time()
    with unchecked(), pytest.raises(ValueError, match=message):
        load(saved)
    # A clock, since what a billion of anything takes is not to be counted otherwise. It is a
    # hundredth here, of this process alone, whatever else the machine has to do.
    assert time.process_time() - began < 5


@pytest.mark.parametrize("content", ["[1, 2]", "{", "", "[" * 100_000, '"x"', "null"])
def test_a_config_that_is_none_is_named(saved, content):
    (saved / "config.json").write_text(content)
    with pytest.raises((ValueError, FileNotFoundError), match=r"config\.json"):
        checkpoint.read_config(saved)


def test_two_good_states_are_kept_after_a_damaged_one(saved, monkeypatch):
    def states():
        return [int(path.stem[6:]) for path in sorted(saved.glob("state-*"))]

    for step in (100, 200, 300):
        save_state(saved, {"model.x": torch.ones(2)}, step=step)
    newest = saved / "state-00000300.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_tensors", unwritable)
        with pytest.raises(OSError, match=r"the last good state is \S*00000200\."):
            save_state(saved, {"model.x": torch.ones(2)}, step=210)
    assert states() == [200, 300]
    for step, kept in ((210, [200, 210]), (220, [210, 220])):
        assert checkpoint.latest_state(saved).step == kept[0]
        save_state(saved, {"model.x": torch.ones(2)}, step=step)
        assert states() == kept


def unwritable(*_, **__):
    raise OSError(28, "No space left on device")


def test_damaged_weights_say_what_to_delete(saved):
    save_state(
        saved, {f"model.{n}": x for n, x in tiny(1).state_dict().items()}, step=5
    )
    path = saved / "weights.safetensors"
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=f"delete {path}, and the newest state is us"):
        load(saved)
    path.unlink()
    assert load(saved).step == 5


def test_a_damaged_line_of_the_log_is_left_out_and_said(saved):
    lines = [
        '{"step": 1, "loss": 2.0}',
        "nonsense",
        "[1]",
        '{"step": "2"}',
        '{"step": 2147483647}',
        '{"step": 2147483648}',  # more steps than any run has
        '{"loss": 1',
    ]
    (saved / "log.jsonl").write_text("\n".join(lines))
    with pytest.warns(UserWarning, match="log.jsonl: 4 damaged lines were left out"):
        found = log.read_log(saved)
    assert found == [{"step": 1, "loss": 2.0}, {"step": 2**31 - 1}]


# ------------------------------------------------------------------- a folder that a stranger made


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("other", ["a pipe", "a device", "a folder"])
@pytest.mark.parametrize(
    "name", [*FILES, *LOCK, "log.jsonl", "state-00000009.safetensors"]
)
def test_what_is_no_file_is_refused_before_it_is_opened(saved, name, other):
    """A pipe or a device keeps its reader for ever."""
    path = saved / name
    path.unlink(missing_ok=True)
    if other == "a pipe":
        os.mkfifo(path)
    elif other == "a device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()

    def read() -> None:
        load(saved)
        log.read_log(saved)
        with checkpoint.locked(saved):
            pass

    with pytest.raises((OSError, ValueError), match=re.escape(name)):
        read()


def test_a_log_without_end_is_not_read_to_its_end(saved, monkeypatch):
    monkeypatch.setattr(log, "_LARGEST", 99)
    append_log(saved, *({"step": step} for step in range(9)))
    with pytest.raises(ValueError, match=r"log\.jsonl has more than 99 bytes"):
        log.read_log(saved)


@pytest.mark.parametrize("name", ["victim.txt", "not there.txt", "folder"])
def test_nothing_is_written_or_deleted_through_a_link(saved, tmp_path, name):
    """Wherever a training, a save or a new beginning could find one."""
    (tmp_path / "victim.txt").write_text('{"step": 1, "loss": 5.0}')
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kept").touch()

    def elsewhere() -> dict[str, bytes]:
        files = (path for path in tmp_path.rglob("*") if saved not in path.parents)
        return {str(path): path.read_bytes() for path in files if path.is_file()}

    before, files = elsewhere(), (*FILES, "log.jsonl", *LOCK)
    for link in (*(f".{file}.part" for file in files), ".lock", "log.jsonl"):
        (saved / link).unlink(missing_ok=True)
        (saved / link).symlink_to(tmp_path / name)
        with contextlib.suppress(OSError, ValueError):
            log.cut_log(saved, step=0)
            append_log(saved, {"step": 1})
            save(saved, tiny(1), step=8)
            with checkpoint.locked(saved):
                pass
        assert elsewhere() == before, link
    for link in (".lock", "log.jsonl"):
        (saved / link).unlink(missing_ok=True)
    for link in ("state-00000005", ".state-00000007.0.part"):
        (saved / link).symlink_to(tmp_path / name)
    save_state(saved, {"model.x": torch.ones(1)}, step=6, keep=1)
    begin(saved, tiny(2), overwrite=True)
    assert elsewhere() == before


def test_a_log_with_a_second_name_becomes_one_of_its_own(saved, tmp_path):
    """As in a copy of a folder that was made of hard links."""
    append_log(saved, {"step": 1})
    os.link(saved / "log.jsonl", tmp_path / "backup")
    log.cut_log(saved, step=1)
    append_log(saved, {"step": 2})
    assert (tmp_path / "backup").read_text() == '{"step": 1}\n'


# --------------------------------------------------------------------------------------- beginning


def test_another_run_is_never_overwritten_unasked(saved):
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    with pytest.raises(FileExistsError, match="already holds a run"):
        begin(saved, tiny(n_layers=2))
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
    append_log(saved, {"step": 1})
    begin(saved, tiny(n_layers=2), overwrite=True)
    assert sorted(path.name for path in saved.iterdir()) == LOCK + FILES[:2]


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("name", ["letters.txt", "config.json"])
def test_a_folder_with_something_else_is_never_touched(tmp_path, name, overwrite):
    (tmp_path / name).write_text('{"format": "of somebody else"}')
    with pytest.raises(FileExistsError, match=rf"not a run \({name}"):
        begin(tmp_path, tiny(), overwrite=overwrite)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "run").touch()
    with pytest.raises(FileExistsError, match="is a file; choose a folder"):
        begin(tmp_path / "run", tiny())


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"cannot write into .*file/run: Not a directory"):
        begin(tmp_path / "file" / "run", tiny())


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(checkpoint.files, "write_atomically", refuse)
    with pytest.raises(
        OSError, match=r"cannot write into .*: Permission denied; choose another"
    ):
        begin(tmp_path / "run", tiny())


def test_code_outside_a_repository_has_no_git_state(monkeypatch):
    monkeypatch.setattr(provenance, "__file__", "/nowhere/provenance.py")
    assert provenance.provenance()["git"] is None
