"""Hostile files of every kind that the package opens: refused in one line, or harmless.

A file may come from a stranger, whose seals are right: a checksum proves that nothing changed, not
who wrote it. Whatever stands in it, nothing in it is executed, reading it takes no more than a
gigabyte and five seconds, and the command ends without a traceback.

`HYPOTHESIS_PROFILE=explore pytest tests/test_hostile.py` tries a thousand of each kind, new ones;
an ordinary run tries a few, always the same.
"""

import copy
import hashlib
import json
import math
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import warm
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from ladder import examples

from decoder_only import GPT, GPTConfig
from decoder_only.base.tensors import read_tensors, write_tensors
from decoder_only.data import prepared
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import checkpoint

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's limits")

TESTS = Path(__file__).resolve().parent
LOG = [{"step": step, "loss": 5.0 - step, "learning_rate": 0.1} for step in (1, 2)]
LOG += [{"step": 2, "validation_loss": 3.0, "bits_per_byte": 1.5, "floor": None}]

hostile = settings(
    max_examples=examples(7),
    suppress_health_check=list(HealthCheck),
    database=None,
)


class Place(tuple):
    """The folder, the good files and the reader, which nobody wants to see in a report."""

    def __repr__(self) -> str:
        return "place"


class Reader:
    """A process that reads, in `tests/hostile.py`; and a new one when it has died."""

    def __init__(self, folder: Path, good: list[list[str]]) -> None:
        self.folder, self.good, self.process = folder, good, None

    def ask(self, order: list[str]) -> dict:
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [*warm.python(), TESTS / "hostile.py", self.folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for good in self.good:
                answer = self._ask(good)
                assert answer["status"] == 0, answer
        return self._ask(order)

    def _ask(self, order: list[str]) -> dict:
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            return {"raised": f"the process died: {self.process.wait()}", "said": ""}
        return json.loads(line)

    def refuses_or_reads(self, order: list[str], folder: Path) -> str:
        """Ask, and check the answer; returns what was said."""
        answer = self.ask(order)
        assert answer["raised"] is None, answer
        assert not answer["seen"], answer
        assert answer["status"] in (0, 1), answer
        if answer["status"] == 1:
            said = answer["said"].rstrip("\n")
            assert said.startswith("decoder-only: "), said
            assert said.isprintable(), said
            assert folder.name in said, f"does not name the file: {said}"
            assert len(said) < 2000, said
        return answer["said"]

    def end(self) -> None:
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


# ------------------------------------------------------------------------------------- good files


def make_run(folder: Path, *, finished: bool, sharded: bool = False) -> Path:
    config = GPTConfig(
        vocab_size=300, context_length=8, d_model=8, n_layers=1, n_heads=2
    )
    tokenizer = BytePairTokenizer.train("the fox and the cub " * 9 + SAMPLE, 300)
    training = {"steps": 2, "batch_size": 2, "optimizer": "adamw"}
    details = {"training": training, "data": {"kind": "text", "file": "novel.txt"}}
    checkpoint.create_run(
        folder, model_config=config, tokenizer=tokenizer, details=details
    )
    model = GPT(config, generator=torch.Generator().manual_seed(0))
    if finished:
        checkpoint.save(folder, model, step=2)
    else:
        own = {f"model.{name}": x for name, x in model.state_dict().items()}
        path = checkpoint.save_state(folder, own, step=2)
        if sharded:
            divide(path)
    (folder / "log.jsonl").write_text("".join(json.dumps(r) + "\n" for r in LOG))
    return folder


def divide(path: Path) -> None:
    """The same state as two processes save it."""
    whole, notes = read_tensors(path)
    place = path.with_suffix("")
    place.mkdir()
    halves = (x.chunk(2) for x in whole.values())
    for number, half in enumerate(zip(*halves, strict=True), 1):
        said = {**notes, "save": "1", "shard": f"{number} of 2"}
        tensors = dict(zip(whole, half, strict=True))
        write_tensors(place / f"{number:05d}.safetensors", tensors, notes=said)
    path.unlink()


SAMPLE = (
    "One day a fox met a cub by the river, and they talked of berries and of bread. "
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A good file of each kind, and one process for all that is read."""
    top = tmp_path_factory.mktemp("hostile")
    for folder in ("good", "weights"):
        make_run(top / folder, finished=True)
    make_run(top / "state", finished=False)
    make_run(top / "shards", finished=False, sharded=True)
    tokenizer = BytePairTokenizer.train(SAMPLE * 9, 280)
    (top / "text.txt").write_text(SAMPLE * 9)
    prepared.prepare(top / "text.txt", top / "tokens", tokenizer=tokenizer)
    good = {
        path.relative_to(top): path.read_bytes()
        for path in top.rglob("*")
        if path.is_file()
    }
    plot = ["plot", str(top / "good"), "--out", str(top / "picture.png")]
    reader = Reader(top, [sample(top / "shards"), plot])
    yield Place((top, good, reader))
    reader.end()
    assert not (top / "canary").exists()


def sample(folder: Path) -> list[str]:
    return ["sample", "--run", str(folder), "--max-new-tokens", "2", "--device", "cpu"]


def restore(top: Path, good: dict[Path, bytes], folder: str) -> Path:
    for path in (top / folder).rglob("*"):
        if not path.is_dir() and path.relative_to(top) not in good:
            path.unlink()
    for name, content in good.items():
        if name.parts[0] == folder and (top / name).read_bytes() != content:
            (top / name).write_bytes(content)
    return top / folder


# -------------------------------------------------------------------------------------- mutations


class Canary:
    def __reduce__(self):
        return os.system, ("touch canary",)


def nested(depth: int) -> list:
    return [] if depth == 0 else [nested(depth - 1)]


VALUES = st.one_of(
    st.sampled_from(
        [
            *(None, True, False, 0, 1, -1, 2, 7, 2**31, 2**63, 10**9, 10**30, 10**400),
            *(-(2**63), 0.5, 1e-320, 1e308, math.inf, -math.inf, math.nan, -0.0, 10.0),
            *("", "x" * 10_000, "\x1b[31m\n\r", "nan", "10", "../../etc/passwd"),
            *("__import__('os').system('touch canary')", "/dev/zero", "object", "muon"),
            *([], {}, [[]], nested(200), list(range(10_000)), {"a": 1}, [1, "a", None]),
        ]
    ),
    st.integers(-300, 300),
    st.integers(),
    st.floats(),
    st.text(max_size=9),
)


def places(value: object, path: tuple = ()) -> list[tuple]:
    """The ways to all that stands in a JSON value, few of them into a long list."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key in value:
            found += places(value[key], (*path, key))
    elif isinstance(value, list):
        for index in sorted({0, 1, len(value) // 2, len(value) - 1}):
            if 0 <= index < len(value):
                found += places(value[index], (*path, index))
    return found


@st.composite
def changed(draw, value):
    """A JSON value with up to three places changed, removed, renamed or doubled."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        ways = places(value)
        if not ways:
            return draw(VALUES)
        *way, last = draw(st.sampled_from(ways))
        inner = value
        for key in way:
            inner = inner[key]
        act = draw(st.sampled_from(["set", "set", "set", "remove", "rename", "double"]))
        if act == "set":
            inner[last] = draw(VALUES)
        elif act == "remove":
            del inner[last]
        elif isinstance(inner, list):
            inner.insert(last, inner[last])
        else:
            inner[str(draw(VALUES))[:50]] = inner.pop(last)
    return value


@st.composite
def damaged(draw, content):
    """Bytes with bits flipped, a stretch zeroed or moved, an end cut off or added."""
    content = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(content) - 1)))
        size = draw(st.integers(1, 64))
        act = draw(
            st.sampled_from(["flip", "cut", "zero", "append", "insert", "double"])
        )
        if act == "flip" and content:
            content[at] ^= 1 << draw(st.integers(0, 7))
        elif act == "cut":
            del content[at:]
        elif act == "zero":
            content[at : at + size] = bytes(len(content[at : at + size]))
        elif act == "append":
            content += draw(st.binary(max_size=64))
        elif act == "insert":
            content[at:at] = draw(st.binary(max_size=64))
        else:
            content[at:at] = content[at : at + size]
    return bytes(content)


# ------------------------------------------------------------------------------------------ seals

SUM = re.compile(rb'"sha256":"([0-9a-f]{64})"')


def seal(content: bytes) -> bytes:
    """The right checksum into a safetensors file, as a stranger can compute it."""
    found = SUM.search(content)
    if found is None:
        return content
    blank = content[: found.start(1)] + b"0" * 64 + content[found.end(1) :]
    digest = hashlib.sha256(blank).hexdigest().encode()
    return content[: found.start(1)] + digest + content[found.end(1) :]


def assembled(header: object, body: bytes, length: int | None = None) -> bytes:
    said = json.dumps(header, separators=(",", ":")).encode()
    said += b" " * (-len(said) % 8)
    length = len(said) if length is None else length
    return seal((length % 2**64).to_bytes(8, "little") + said + body)


def taken_apart(content: bytes) -> tuple[dict, bytes]:
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), content[end:]


def put(folder: Path, name: str, content: bytes) -> None:
    """Write config.json or tokenizer.json, and make the weights believe it."""
    old = hashlib.sha256((folder / name).read_bytes()).hexdigest().encode()
    (folder / name).write_bytes(content)
    new = hashlib.sha256(content).hexdigest().encode()
    for path in folder.glob("*.safetensors"):
        path.write_bytes(seal(path.read_bytes().replace(old, new)))


# ------------------------------------------------------------------------------------------ tests


@pytest.mark.parametrize("kind", ["weights", "state", "shards"])
@hostile
@given(data=st.data())
def test_weights(place, kind, data):
    top, good, reader = place
    folder = restore(top, good, kind)
    path = data.draw(st.sampled_from(sorted(folder.rglob("*.safetensors"))))
    content = path.read_bytes()
    if data.draw(st.booleans()):
        path.write_bytes(data.draw(damaged(content)))
        if data.draw(st.booleans()):
            path.write_bytes(seal(path.read_bytes()))
    else:
        header, body = taken_apart(content)
        header = data.draw(changed(header))
        length = data.draw(st.none() | st.integers(0, 2**64 - 1))
        path.write_bytes(assembled(header, body, length))
    reader.refuses_or_reads(sample(folder), folder)


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(Canary()),
        b"",
        b"\x00" * 8,
        b"\xff" * 8 + b"{}",
        (2**40).to_bytes(8, "little")
        + b'{"__metadata__":{"sha256":"'
        + b"0" * 64
        + b'"}}',
    ],
)
def test_files_that_are_no_weights(place, content):
    top, good, reader = place
    folder = restore(top, good, "weights")
    (folder / "weights.safetensors").write_bytes(seal(content))
    said = reader.refuses_or_reads(sample(folder), folder)
    assert "weights.safetensors" in said
    assert not (TESTS / "canary").exists()


@hostile
@given(data=st.data())
def test_config(place, data):
    top, good, reader = place
    folder = restore(top, good, "weights")
    content = (folder / "config.json").read_bytes()
    if data.draw(st.booleans()):
        put(folder, "config.json", data.draw(damaged(content)))
    else:
        config = json.loads(content)
        # Where the model is described, and not where the machine is.
        part = data.draw(st.sampled_from(["model", "model", "training", "data", None]))
        if part is None:
            config = data.draw(changed(config))
        else:
            config[part] = data.draw(changed(config[part]))
        put(folder, "config.json", json.dumps(config).encode())
    reader.refuses_or_reads(["info", str(folder)], folder)
    reader.refuses_or_reads(sample(folder), folder)


@pytest.mark.parametrize("field", ["n_layers", "d_model", "vocab_size", "n_heads"])
@pytest.mark.parametrize("value", [10**9, 10**6, 10**30, 0.5, "1", None])
def test_sizes_that_no_machine_holds(place, field, value):
    top, good, reader = place
    folder = restore(top, good, "weights")
    config = json.loads((folder / "config.json").read_bytes())
    config["model"][field] = value
    put(folder, "config.json", json.dumps(config).encode())
    reader.refuses_or_reads(["info", str(folder)], folder)
    reader.refuses_or_reads(sample(folder), folder)


@pytest.mark.parametrize("name", ["\x1b[31m", "x" * 10_000, "two\nlines", "\ud800"])
def test_what_a_file_says_does_not_reach_the_terminal_raw(place, name):
    top, good, reader = place
    folder = restore(top, good, "weights")
    config = json.loads((folder / "config.json").read_bytes())
    config["model"][name] = 1
    put(folder, "config.json", json.dumps(config).encode())
    for order in (["info", str(folder)], sample(folder)):
        assert "unexpected keyword argument" in reader.refuses_or_reads(order, folder)


@hostile
@given(data=st.data())
def test_tokenizer(place, data):
    top, good, reader = place
    folder = restore(top, good, "weights")
    content = (folder / "tokenizer.json").read_bytes()
    if data.draw(st.booleans()):
        content = data.draw(damaged(content))
    else:
        value = data.draw(changed(json.loads(content)))
        names = ("pattern", "byte_order", "special_tokens", "merges")
        if isinstance(value, dict) and data.draw(st.booleans()):
            defined = {name: value.get(name) for name in names}
            said = json.dumps(defined, sort_keys=True, separators=(",", ":"))
            value["sha256"] = hashlib.sha256(said.encode("ascii")).hexdigest()
        content = json.dumps(value).encode()
    put(folder, "tokenizer.json", content)
    reader.refuses_or_reads(sample(folder), folder)


@hostile
@given(data=st.data())
def test_tokens(place, data):
    top, good, reader = place
    folder = restore(top, good, "tokens")
    name = data.draw(st.sampled_from(sorted(path.name for path in folder.iterdir())))
    content = (folder / name).read_bytes()
    index = json.loads((folder / "index.json").read_bytes())
    if name.endswith(".json") and data.draw(st.booleans()):
        value = data.draw(changed(json.loads(content)))
        if (
            name == "index.json"
            and isinstance(value, dict)
            and data.draw(st.booleans())
        ):
            value["sha256"] = prepared._sha256_of_index(value)
        (folder / name).write_bytes(json.dumps(value).encode())
    else:
        content = data.draw(damaged(content))
        (folder / name).write_bytes(content)
        if name.endswith(".tokens"):  # a stranger's seal is right
            part = index["parts"][name.removesuffix(".tokens")]
            part["sha256"] = hashlib.sha256(content).hexdigest()
            index["sha256"] = prepared._sha256_of_index(index)
            (folder / "index.json").write_text(json.dumps(index))
    reader.refuses_or_reads(["tokens", str(folder)], folder)


def test_tokens_through_the_command(place):
    top, good, reader = place
    folder = restore(top, good, "tokens")
    index = json.loads((folder / "index.json").read_bytes())
    for change in (
        {"dtype": "object"},
        {"parts": nested(300)},
        {"tokenizer": "\x1b[2J"},
    ):
        index = {**index, **change}
        index["sha256"] = prepared._sha256_of_index(index)
        (folder / "index.json").write_text(json.dumps(index))
        said = reader.refuses_or_reads(["train", "--text", str(folder)], folder)
        assert "is damaged, or was not written by" in said


@hostile
@given(data=st.data())
@example(data=None)
def test_log(place, data):
    top, good, reader = place
    folder = restore(top, good, "weights")
    path = folder / "log.jsonl"
    if data is None:
        path.write_text("[" * 100_000 + "\n" + json.dumps(LOG[0]) + "\n")
    elif data.draw(st.booleans()):
        path.write_bytes(data.draw(damaged(path.read_bytes())))
    else:
        records = data.draw(changed(LOG))
        records = records if isinstance(records, list) else [records]
        path.write_text("".join(json.dumps(r) + "\n" for r in records))
    plot = ["plot", str(folder), "--out", str(top / "picture.png")]
    reader.refuses_or_reads(plot, folder)
    reader.refuses_or_reads(["info", str(folder)], folder)


# ------------------------------------------------------------------- that the test would notice


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("import os; os.system('true')", "os.system"),
        ("import pickle; pickle.loads(pickle.dumps(print))", "pickle.find_class"),
        ("open('/dev/null', 'w')", "writes /dev/null"),
        ("while True: pass", "TooLongError"),
        ("b'x' * 2**31", "MemoryError"),
    ],
)
def test_the_reader_notices(place, code, seen):
    top, _, _ = place
    program = (
        "import hostile, json, sys; hostile.cli.main = lambda words: exec(words[-1]) or 0\n"
        "hostile.SECONDS = 0.3; hostile.main()"
    )
    said = subprocess.run(
        [*warm.python(), "-c", program, str(top)],
        input="\n".join(json.dumps(["x", c]) for c in ("1", "1", code)),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{TESTS}"},
    )
    answer = said.stdout.splitlines()[-1]
    assert seen in answer, said.stderr
    assert json.loads(answer)["seconds"] < 3, "ten times what it was given"
