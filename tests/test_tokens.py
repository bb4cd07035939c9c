"""Prepared text: its ids are those of the text in memory, and no half is taken for a whole."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
import warm
from hypothesis import example, given, settings
from hypothesis import strategies as st

from decoder_only import data
from decoder_only.data import (
    evaluation_batches,
    prepared,
    split_text,
    text_corpus,
    training_batch,
)
from decoder_only.data.corpus import next_character
from decoder_only.data.prepared import open_tokens, prepare
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.tokenization.tokenizer import END_OF_TEXT

SAMPLE = (
    "One day the fox's cub said: it's 42 berries!\n\nThe end.  So, the fox slept.\r\n"
)
BYTES = BytePairTokenizer([])
# Merges whatever may stand side by side in a word, so that a word cut in two gets other ids.
MERGED = b"ab'stre19.!,- \n\r\t\x0b\x1c"
TOKENIZER = BytePairTokenizer([(x, y) for x in MERGED for y in MERGED])
# Everything that GPT-2's pattern treats in a way of its own, and white space of many kinds.
ALPHABET = "ab'stre19.!,- \n\r\t\x0b\x1c\x85\xa0 \u3000éß日𝒳"
texts = st.lists(
    st.one_of(
        st.sampled_from([END_OF_TEXT, "the fox", " \n", "\n\n", "'s", "  "]),
        st.text(ALPHABET, max_size=8),
    ),
    max_size=30,
).map("".join)


@contextmanager
def small_pieces(piece=7, batch=3, **others):
    """Cut as often as possible, so that a short text is what a long one would be."""
    values = {"_PIECE": piece, "_BATCH": batch, **others}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setattr(prepared, name, value)
        patch.setattr(data.sources, "_CHUNK", piece)
        patch.setattr(os, "fsync", lambda handle: None)  # hundreds of examples
        yield


@contextmanager
def new_folder():
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "prepared"


@pytest.fixture
def folder(tmp_path):
    """Prepared text."""
    prepare(io.StringIO(SAMPLE * 9), tmp_path / "d", tokenizer=BYTES)
    return tmp_path / "d"


def assert_same(stored, corpus):
    assert stored.ids.dtype == corpus.ids.dtype
    assert len(stored.ids) == len(corpus.ids)
    assert np.array_equal(stored.ids[:], corpus.ids)
    assert stored.fingerprint == corpus.fingerprint
    assert stored.n_bytes == corpus.n_bytes
    assert stored.starts is None


# ------------------------------------------------------------------------------- the same ids


@given(texts, st.integers(1, 9), st.sampled_from([0.1, 0.5, 0.9]))
@example("a\n\nb c\n\n\nd" * 3, 3, 0.5)
@example("ab'", 1, 0.5)
def test_a_text_in_pieces_is_the_text_in_memory(text, piece, share):
    with new_folder() as folder, small_pieces(piece):
        settings = {"tokenizer": TOKENIZER, "train_share": share}
        try:
            wanted = [text_corpus(part, TOKENIZER) for part in split_text(text, share)]
        except ValueError:
            with pytest.raises(ValueError, match="too little text"):
                prepare(io.StringIO(text), folder, **settings)
            assert not any(folder.parent.iterdir())
            return
        prepared = prepare(io.BytesIO(text.encode()), folder, **settings)
        assert_same(prepared.train, wanted[0])
        assert_same(prepared.validation, wanted[1])


@settings(max_examples=50)
@given(st.lists(texts, max_size=9), st.sampled_from([0.3, 0.9]))
def test_files_in_pieces_are_the_files_in_memory(contents, share):
    with new_folder() as folder, small_pieces():
        paths, parts = [], ([], [])
        for number, text in enumerate(contents):
            paths.append(folder.with_name(f"{number}.txt"))
            paths[-1].write_bytes(text.encode())
            whole = text.encode()
            at = next_character(whole, int(len(whole) * share))
            parts[0].append(whole[:at].decode())
            parts[1].append(whole[at:].decode())
        settings = {"tokenizer": TOKENIZER, "train_share": share}
        try:
            wanted = [text_corpus(part, TOKENIZER) for part in parts]
        except ValueError:
            with pytest.raises(ValueError, match="too little text"):
                prepare(paths, folder, **settings)
            return
        prepared = prepare(paths, folder, **settings)
        assert_same(prepared.train, wanted[0])
        assert_same(prepared.validation, wanted[1])


@pytest.mark.parametrize("sizes", [(1_060_000, 100_000), (100_000, 1_060_000)])
def test_the_share_is_held_out_whatever_the_sizes_of_the_files(tmp_path, sizes):
    for number, size in enumerate(sizes):
        (tmp_path / f"{number}.txt").write_text(("the fox slept. " * size)[:size])
    stored = prepare(tmp_path, tmp_path / "out", tokenizer=BYTES)
    held_out = stored.validation.n_bytes / sum(sizes)
    assert held_out == pytest.approx(0.1, abs=1e-5)


def test_training_and_evaluation_do_not_know_the_difference(folder):
    stored = open_tokens(folder)
    for part, text in zip(prepared.PARTS, split_text(SAMPLE * 9), strict=True):
        ours, memory = getattr(stored, part), text_corpus(text, BYTES)
        settings = {"batch_size": 8, "context_length": 16}
        for step in range(10):
            pair = [
                training_batch(c, seed=1, step=step, **settings) for c in (ours, memory)
            ]
            assert all(map(torch.equal, *pair))
        pairs = [list(evaluation_batches(c, **settings)) for c in (ours, memory)]
        for a, b in zip(*pairs, strict=True):
            assert all(map(torch.equal, a, b))
    assert ours.bytes_per_token == memory.bytes_per_token


def test_a_tokenizer_with_a_pattern_of_its_own_is_refused(tmp_path):
    # Its words may go on over white space, where a cut would be wrong.
    own = BytePairTokenizer.train("a b a b a b", 259, pattern=r"(?s).+")
    with pytest.raises(ValueError, match="one with GPT-2's pattern"):
        prepare(io.StringIO("a b a b a b"), tmp_path / "a", tokenizer=own)
    assert not (tmp_path / "a").exists()


def test_text_without_a_place_to_cut_is_held_whole_up_to_a_limit(tmp_path):
    with small_pieces(_LONGEST_STRETCH=100):
        stored = prepare(io.StringIO("x" * 100), tmp_path / "a", tokenizer=TOKENIZER)
        assert_same(stored.train, text_corpus("x" * 90, TOKENIZER))
        with pytest.raises(
            ValueError, match=r"no place to cut in \d+ characters .*'xxx.*spaces"
        ):
            prepare(io.StringIO("x" * 200), tmp_path / "b", tokenizer=TOKENIZER)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_ids_are_stored_in_as_few_bytes_as_hold_them(tmp_path, monkeypatch):
    short = prepare(io.StringIO("abcdefghijk"), tmp_path / "2", tokenizer=BYTES)
    assert short.train.ids.dtype == np.uint16
    monkeypatch.setattr(BytePairTokenizer, "vocab_size", 2**16 + 1)
    stored = prepare(io.StringIO("abcdefghijk"), tmp_path / "4", tokenizer=BYTES)
    assert stored.train.ids.dtype == np.uint32 == np.dtype(stored.index["dtype"])
    wanted = text_corpus("abcdefghi", BYTES)
    assert stored.train.ids[:].tolist() == wanted.ids.tolist()
    assert stored.train.fingerprint == wanted.fingerprint
    size = (tmp_path / "4" / "train.tokens").stat().st_size
    assert size == 4 * len(wanted.ids)


# ------------------------------------------------------------------------------- sources


def test_files_folders_and_streams(tmp_path):
    text = tmp_path / "text"
    (text / "sub").mkdir(parents=True)
    (text / ".hidden").mkdir()
    (text / "b.txt").write_bytes("Zoë\r\n".encode())
    (text / "a.md").write_text("first")
    (text / "sub" / "c.TXT").write_text("third")
    for other in ("d.jsonl", ".hidden/e.txt"):
        (text / other).write_text("not text")
    files = [text / "a.md", text / "b.txt", text / "sub" / "c.TXT"]
    settings = {"tokenizer": BYTES, "train_share": 0.5}
    for number, source in enumerate((text, str(text), files, tuple(files))):
        stored = prepare(source, tmp_path / str(number), **settings)
        bar = "<|endoftext|>"
        assert BYTES.decode(stored.train.ids[:]) == f"{bar}fi{bar}Zoë{bar}th"
        assert BYTES.decode(stored.validation.ids[:]) == f"{bar}rst{bar}\r\n{bar}ird"
    (tmp_path / "one.txt").write_bytes("a\r\nbé".encode())
    one = (tmp_path / "one.txt").open("rb")
    for number, source in enumerate(
        (one, tmp_path / "one.txt", [tmp_path / "one.txt"])
    ):
        stored = prepare(source, tmp_path / f"one-{number}", **settings)
        assert BYTES.decode(stored.train.ids[1:]) == "a\r\n"
        assert BYTES.decode(stored.validation.ids[1:]) == "bé"
    one.close()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_file_is_refused_before_it_is_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "endless.txt").symlink_to("/dev/urandom")
    for name in ("pipe.txt", "endless.txt"):
        with pytest.raises(
            ValueError, match=f"{name} is a device or a pipe, .*prepare -"
        ):
            prepare(tmp_path / name, tmp_path / "out", tokenizer=BYTES)
    with pytest.raises(
        FileNotFoundError, match="holds no text"
    ):  # of a folder, skipped
        prepare(tmp_path, tmp_path / "out", tokenizer=BYTES)
    # A pipe can be read as a stream.
    write = threading.Thread(
        target=(tmp_path / "pipe.txt").write_text, args=["abcdefghij"]
    )
    write.start()
    with (tmp_path / "pipe.txt").open("rb") as stream:
        stored = prepare(stream, tmp_path / "out", tokenizer=BYTES)
    write.join()
    assert_same(stored.train, text_corpus("abcdefghi", BYTES))


def test_a_vocabulary_is_learned_from_the_training_text(tmp_path):
    text = "the fox and the cub " * 40 + "zebra " * 40
    stored = prepare(io.StringIO(text), tmp_path / "a", tokenizer=266, train_share=0.77)
    assert stored.tokenizer == BytePairTokenizer.train(split_text(text, 0.77)[0], 266)
    assert_same(stored.train, text_corpus(split_text(text, 0.77)[0], stored.tokenizer))
    # Only its beginning, and nothing that is held out.
    for number, words in enumerate(["the fox ", "the cub ", "zebra zebra "]):
        (tmp_path / f"{number}.txt").write_text(words + "q")
    with small_pieces(piece=8, _SAMPLE=9):
        files = sorted(tmp_path.glob("*.txt"))
        stored = prepare(files, tmp_path / "b", tokenizer=259)
    assert stored.tokenizer == BytePairTokenizer.train(["the fox ", "the cub "], 259)


def test_a_vocabulary_shrinks_to_a_small_text(tmp_path):
    stored = prepare(io.StringIO("abc abc" * 3), tmp_path / "a", tokenizer=4096)
    assert 257 < stored.tokenizer.vocab_size < 300


def test_gpt2_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(prepared, "gpt2_tokenizer", lambda: BYTES)
    stored = prepare(io.StringIO("abcd"), tmp_path, tokenizer="gpt2")
    assert stored.tokenizer == BYTES


def test_the_bar_counts_bytes_of_text(tmp_path, capsys):
    prepare(io.StringIO("abcd" * 250), tmp_path / "a", tokenizer=BYTES, progress=True)
    assert "1.00k/1.00k" in capsys.readouterr().err
    prepare(io.StringIO("abcd"), tmp_path / "b", tokenizer=BYTES)
    assert not capsys.readouterr().err


# ------------------------------------------------------------------------------- memory


STREAM_WITH_LITTLE_MEMORY = """
import sys, tracemalloc
from pathlib import Path
from decoder_only import data
from decoder_only.base import files; from decoder_only.data import prepared as tokens
from decoder_only.tokenization import BytePairTokenizer

tokens._PIECE, tokens._BATCH, data.sources._CHUNK = 2**13, 8, 2**13
files._LARGEST_JSON = 2**16  # for which there is room while an index is read
tokenizer = BytePairTokenizer([(ord(" "), ord("f")), (ord("o"), ord("x"))])

class Stream:  # made while it is read
    def __init__(self, n_bytes):
        self.left = n_bytes

    def read(self, size):
        size = min(size, self.left)
        self.left -= size
        return (b"the fox slept. " * (size // 15 + 1))[:size]

def peak(n_bytes):
    folder = Path(sys.argv[1]) / str(n_bytes)
    tracemalloc.start()
    tokens.prepare(Stream(n_bytes), folder, tokenizer=tokenizer)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most

small = peak(2**18)
print(peak(2**21) - small)
"""


def test_memory_does_not_grow_with_the_text(tmp_path):
    done = subprocess.run(
        [*warm.python(), "-c", STREAM_WITH_LITTLE_MEMORY, str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / str(2**21) / "index.json").exists()
    assert int(done.stdout) < 2**18, "an eighth of the text alone, without its ids"


# ------------------------------------------------------------------------------- interruptions

DIE_AT_EVERY_STEP = """
import io, os, signal, sys, warnings
warnings.simplefilter('ignore')
from pathlib import Path
from decoder_only.data import prepared as tokens
from decoder_only.data.prepared import open_tokens, prepare
from decoder_only.tokenization import BytePairTokenizer

tokens._PIECE, tokens._BATCH = 8, 4
os.fsync = lambda handle: None  # no matter to a process that is killed
tokens.tqdm.monitor_interval = 0  # its thread could hold a lock that the child then waits for
top, tokenizer = Path(sys.argv[1]), BytePairTokenizer([])
events = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree"}
old, new = "old text " * 9, "a newer text " * 7

def kill_at(number):
    seen = 0
    def count(event, arguments):
        nonlocal seen
        if event in events and str(arguments[0]).startswith(str(top)):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(count)

def fill(folder, text, **settings):
    return prepare(io.StringIO(text), folder, tokenizer=tokenizer, **settings)

wanted = {fill(top / name, text).train.fingerprint: name for name, text in
          {"old": old, "new": new}.items()}
for overwrite in (False, True):
    found, number, status = [], 0, None
    while status != 0:
        number += 1
        folder = top / f"{overwrite}-{number}"
        if overwrite:
            fill(folder, old)
        if (child := os.fork()) == 0:
            kill_at(number)
            fill(folder, new, overwrite=overwrite)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        assert status in (0, signal.SIGKILL)
        try:
            found.append(wanted[open_tokens(folder).train.fingerprint])
        except FileNotFoundError as error:
            assert "no prepared data" in str(error), error
            found.append("nothing")
        again = fill(folder, new, overwrite=found[-1] != "nothing")
        assert wanted[again.train.fingerprint] == "new"
        assert not list(top.glob(f".{folder.name}.*")), "something is left"
    runs = [name for i, name in enumerate(found) if i == 0 or found[i - 1] != name]
    print(overwrite, number, *runs)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_killed_at_every_step_the_folder_is_finished_or_plainly_not(tmp_path):
    done = subprocess.run(
        [*warm.python(), "-c", DIE_AT_EVERY_STEP, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (_, n_new, *new), (_, n_old, *old) = map(str.split, done.stdout.splitlines())
    assert min(int(n_new), int(n_old)) > 15, "the hook saw no steps"
    assert new == ["nothing", "new"]
    assert old == ["old", "nothing", "new"]


@pytest.mark.parametrize("call", ["append", "fsync", "replace"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_full_disk_changes_nothing(tmp_path, monkeypatch, call, overwrite):
    folder, text = tmp_path / "d", SAMPLE * 3
    if overwrite:
        before = prepare(io.StringIO(text), folder, tokenizer=BYTES).train.fingerprint

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(
            *((prepared._Part, "append") if call == "append" else (os, call)), full
        )
        with pytest.raises(OSError, match=r"cannot make .*d: No space left .*room"):
            prepare(io.StringIO(text), folder, tokenizer=280, overwrite=overwrite)
    assert [path.name for path in tmp_path.iterdir()] == ["d"] * overwrite
    if overwrite:
        assert open_tokens(folder).train.fingerprint == before
    stored = prepare(io.StringIO(text), folder, tokenizer=280, overwrite=overwrite)
    assert stored.tokenizer.vocab_size == 280


def test_the_old_folder_comes_back_when_the_new_one_cannot_take_its_place(
    folder, monkeypatch
):
    before, replace = open_tokens(folder).train.fingerprint, os.replace

    def refuse(source, target):
        if Path(target) == folder and ".d.unfinished" in Path(source).parts:
            raise OSError(13, "Permission denied")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="Permission denied"):
        prepare(io.StringIO("abcd"), folder, tokenizer=BYTES, overwrite=True)
    assert open_tokens(folder).train.fingerprint == before


def at_its_end(monkeypatch, do):
    """Let a `prepare` do something more just before it is done."""
    save = BytePairTokenizer.save

    def and_do(self, path):
        monkeypatch.setattr(BytePairTokenizer, "save", save)
        do()
        save(self, path)

    monkeypatch.setattr(BytePairTokenizer, "save", and_do)


@pytest.mark.parametrize("overwrite", [False, True])
def test_of_two_at_once_one_is_refused_and_the_other_whole(
    tmp_path, monkeypatch, overwrite
):
    folder = tmp_path / "d"
    if overwrite:
        prepare(io.StringIO("old " * 9), folder, tokenizer=BYTES)

    def second():
        with pytest.raises(
            OSError, match=r"another process is at work in .*\.d\.unfin"
        ):
            prepare(io.StringIO("b " * 9), folder, tokenizer=BYTES, overwrite=overwrite)

    at_its_end(monkeypatch, second)
    found = prepare(io.StringIO(SAMPLE), folder, tokenizer=BYTES, overwrite=overwrite)
    assert_same(found.train, text_corpus(split_text(SAMPLE)[0], BYTES))
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_one_that_waited_does_not_overwrite_what_came_meanwhile(tmp_path, monkeypatch):
    """The folder is looked at once it is this process's alone."""
    folder, texts = tmp_path / "d", prepared._texts

    def then_another(source):
        monkeypatch.setattr(prepared, "_texts", texts)
        prepare(io.StringIO(SAMPLE), folder, tokenizer=BYTES)
        return texts(source)

    monkeypatch.setattr(prepared, "_texts", then_another)
    with pytest.raises(FileExistsError, match=r"^\S*d already holds prepared data"):
        prepare(io.StringIO("other " * 9), folder, tokenizer=BYTES)
    found = open_tokens(folder).train
    assert_same(found, text_corpus(split_text(SAMPLE)[0], BYTES))


def test_a_folder_behind_a_link_is_filled_and_the_link_stays(tmp_path):
    real, link = tmp_path / "disk" / "real", tmp_path / "link"
    real.mkdir(parents=True)
    link.symlink_to(real)
    for overwrite in (False, True):
        prepare(io.StringIO(SAMPLE), link, tokenizer=BYTES, overwrite=overwrite)
        assert link.is_symlink()
        assert open_tokens(real)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "link"]
        assert [path.name for path in real.parent.iterdir()] == ["real"]


@pytest.mark.parametrize("name", [".d.unfinished", ".d.old"])
def test_nothing_is_written_through_a_link_beside_the_folder(folder, name, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    prepare(io.StringIO(SAMPLE), folder, tokenizer=BYTES, overwrite=True)
    assert open_tokens(folder)
    assert not any((tmp_path / "elsewhere").iterdir())
    assert not (tmp_path / name).is_symlink()


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="not Linux")
def test_a_folder_that_is_bound_from_the_same_disk_is_refused_first(tmp_path):
    source, folder = tmp_path / "source", tmp_path / "a folder\\"
    source.mkdir()
    folder.mkdir()
    command = ["mount", "--bind", source, folder]
    if shutil.which("mount") is None or subprocess.run(command).returncode:
        pytest.skip("this process may not mount anything")
    try:
        with pytest.raises(OSError, match="cannot be replaced as a whole, because"):
            prepare(Path("no such text"), folder, tokenizer=BYTES)
        assert list(source.iterdir()) == []
    finally:
        subprocess.run(["umount", folder], check=True)
    assert not prepared._is_bound(folder)


@pytest.mark.parametrize("why", ["a mount", "here"])
def test_a_folder_that_cannot_be_replaced_is_refused_at_once(
    why, tmp_path, monkeypatch
):
    if why == "here":
        monkeypatch.chdir(tmp_path)
    else:
        monkeypatch.setattr(os.path, "ismount", lambda path: path == tmp_path)
    with pytest.raises(OSError, match=r"cannot be replaced .* such as .*/tokens"):
        prepare(Path("no such text"), tmp_path, tokenizer=BYTES)


def test_a_source_that_breaks_leaves_nothing(tmp_path):
    class Stream(io.BytesIO):
        def read(self, size=-1):
            if self.tell() > 100:
                raise OSError(5, "Input/output error")
            return super().read(9)

    with small_pieces(), pytest.raises(OSError, match=r"d: Input/output error"):
        prepare(Stream(b"one two " * 20), tmp_path / "d", tokenizer=BYTES)
    assert not any(tmp_path.iterdir())


# ------------------------------------------------------------------------------- refusals


def test_a_finished_folder_is_not_overwritten_unasked(folder):
    before = open_tokens(folder).train.fingerprint
    with pytest.raises(FileExistsError, match="already holds prepared data"):
        prepare(io.StringIO("abcd"), folder, tokenizer=BYTES)
    assert open_tokens(folder).train.fingerprint == before
    prepare(io.StringIO("abcd"), folder, tokenizer=BYTES, overwrite=True)
    assert open_tokens(folder).train.n_bytes == 3
    assert len(list(folder.iterdir())) == 4, "nothing of the old one is left"


@pytest.mark.parametrize("name", ["thesis.txt", "tokenizer.md", "index.json.old"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_with_something_else_is_never_touched(tmp_path, name, overwrite):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / name).write_text("{}")
    with pytest.raises(FileExistsError, match=rf"not prepared data \({name}\)"):
        prepare(
            io.StringIO("abcd"), tmp_path / "d", tokenizer=BYTES, overwrite=overwrite
        )
    assert (tmp_path / "d" / name).read_text() == "{}"
    assert len(list((tmp_path / "d").iterdir())) == 1


def test_something_else_beside_prepared_data_stays(folder):
    (folder / "notes.txt").touch()
    with pytest.raises(FileExistsError, match=r"not prepared data \(notes.txt\)"):
        prepare(io.StringIO("abcd"), folder, tokenizer=BYTES, overwrite=True)
    assert open_tokens(folder)


def test_sources_that_cannot_be(tmp_path):
    text, out = tmp_path / "text", tmp_path / "out"
    text.mkdir()
    cases = [
        (tmp_path / "none.txt", FileNotFoundError, r"none.txt does not exist"),
        (text, FileNotFoundError, r"text holds no text: .*\.txt or \.md"),
        ([text], ValueError, "is a folder; make tokens of its texts"),
    ]
    for source, error, message in cases:
        with pytest.raises(error, match=message):
            prepare(source, out, tokenizer=BYTES)
        assert not out.exists()
    (text / "latin.txt").write_bytes(b"0123456789" * 2 + "Zoë".encode("latin-1"))
    (text / "cut.txt").write_bytes(b"0123456789" + "ë".encode()[:1])
    for name, at in (("latin", "22 is 0xeb"), ("cut", "10 is 0xc3")):
        for source in (text / f"{name}.txt", [text / f"{name}.txt"]):
            message = f"{name}.txt is not UTF-8 text: byte {at}"
            with small_pieces(), pytest.raises(ValueError, match=message):
                prepare(source, out, tokenizer=BYTES)
            assert [path.name for path in tmp_path.iterdir()] == ["text"]
    with pytest.raises(FileExistsError, match=r"cut\.txt is a file; choose a folder"):
        prepare(io.StringIO("abcd"), text / "cut.txt", tokenizer=BYTES)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"train_share": 1.0},
            "train_share=1.0 must be a finite number, above 0 and below 1",
        ),
        (
            {"tokenizer": BytePairTokenizer([], special_tokens=["<x>"])},
            "special token <",
        ),
    ],
)
def test_settings_that_cannot_be(tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        prepare(io.StringIO("ab"), tmp_path / "d", **{"tokenizer": BYTES, **settings})
    assert not (tmp_path / "d").exists()


def test_a_text_that_is_too_short(tmp_path):
    for text in ("", "a"):
        with pytest.raises(ValueError, match="too little text: 90% to train on leaves"):
            prepare(io.StringIO(text), tmp_path / "d", tokenizer=BYTES)
    assert not any(tmp_path.iterdir())


# ------------------------------------------------------------------------------- damage


def test_what_is_not_prepared_is_not_opened(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no prepared data .*prepare"):
        open_tokens(tmp_path)
    (tmp_path / "index.json").write_text('{"format": "recipes", "sha256": ""}')
    with pytest.raises(
        ValueError, match="is damaged, or was not written by this version's"
    ):
        open_tokens(tmp_path)
    for content in ("{", "[]", "{}", "3"):
        (tmp_path / "index.json").write_text(content)
        with pytest.raises(
            ValueError, match=r"index.json is (damaged, or|no JSON file)"
        ):
            open_tokens(tmp_path)


@pytest.mark.parametrize("name", ["train.tokens", "validation.tokens"])
def test_a_file_that_is_missing_cut_short_or_damaged_is_named(folder, name):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-1])
    for verify in (False, True):
        wanted = rf"{name} has {len(content) - 1:,} bytes instead of {len(content):,}; restore"
        with pytest.raises(ValueError, match=wanted):
            open_tokens(folder, verify=verify)
    (folder / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match=f"{name} is damaged"):
        open_tokens(folder)
    assert open_tokens(folder, verify=False)
    (folder / name).unlink()
    with pytest.raises(ValueError, match=f"{name} is missing, or no file; restore"):
        open_tokens(folder, verify=False)


def test_a_changed_index_is_noticed(folder):
    path = folder / "index.json"
    index = json.loads(path.read_bytes())
    index["parts"]["train"]["bytes"] += 1
    path.write_text(json.dumps(index))
    with pytest.raises(ValueError, match=r"index.json is damaged, or was not"):
        open_tokens(folder, verify=False)


def test_another_tokenizer_is_refused(folder):
    with pytest.raises(ValueError, match=r"prepared with another tokenizer .*257.*618"):
        open_tokens(folder, tokenizer=TOKENIZER)
    assert open_tokens(folder, tokenizer=BYTES).tokenizer == BYTES
    TOKENIZER.save(folder / "tokenizer.json")
    with pytest.raises(ValueError, match="not the tokenizer that made these tokens"):
        open_tokens(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"no file .*tokenizer.json"):
        open_tokens(folder)


def test_the_index_says_what_is_there(folder):
    index = open_tokens(folder).index
    train = index["parts"]["train"]
    assert index["tokenizer"] == BYTES.fingerprint
    assert index["dtype"] == "uint16"
    assert train["bytes"] == train["tokens"] - 1
    content = (folder / "train.tokens").read_bytes()
    assert len(content) == 2 * train["tokens"]
    assert hashlib.sha256(content).hexdigest() == train["sha256"]


def reseal(folder, change):
    """Change an index as a stranger can: its seal is a checksum, and anyone can compute it."""
    index = json.loads((folder / "index.json").read_bytes())
    change(index)
    index["sha256"] = prepared._sha256_of_index(index)
    (folder / "index.json").write_text(json.dumps(index))


def train_part(index):
    return index["parts"]["train"]


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index.update(dtype="object"),
        lambda index: index.update(dtype="uint8"),
        lambda index: index.update(dtype=[]),
        lambda index: train_part(index).update(tokens=10**30),
        lambda index: train_part(index).update(tokens=-200),
        lambda index: train_part(index).update(tokens=True),
        lambda index: train_part(index).update(tokens=1),
        lambda index: train_part(index).update(sha256=None),
        lambda index: train_part(index).update(bytes=0),
        lambda index: train_part(index).update(bytes=1e308),
        lambda index: train_part(index).update(fingerprint=7),
        lambda index: index["parts"].pop("validation"),
        lambda index: index.update(parts=[1, 2]),
    ],
)
@pytest.mark.parametrize("verify", [False, True])
def test_a_sealed_index_is_believed_nothing(folder, change, verify):
    reseal(folder, change)
    with pytest.raises(ValueError, match=r"index.json is damaged, or was not written"):
        open_tokens(folder, verify=verify)


def test_a_file_that_is_a_link_out_of_the_folder_is_refused(folder):
    path = folder / "train.tokens"
    path.rename(folder.parent / "elsewhere")
    path.symlink_to(folder.parent / "elsewhere")
    with pytest.raises(ValueError, match=r"train.tokens is missing, or no file"):
        open_tokens(folder, verify=False)


def test_an_id_outside_the_vocabulary_is_refused(folder):
    path = folder / "train.tokens"
    ids = np.fromfile(path, dtype="<u2")
    ids[7] = 60_000
    ids.tofile(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    reseal(folder, lambda index: train_part(index).update(sha256=digest))
    with pytest.raises(ValueError, match=r"train.tokens is damaged"):
        open_tokens(folder)
