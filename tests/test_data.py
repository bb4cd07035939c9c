"""Corpora, batches that are a function of a counter, and an evaluation that asks for all once."""

import dataclasses
import hashlib
import itertools
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decoder_only import data
from decoder_only.base import hardware
from decoder_only.base.files import LOCK
from decoder_only.data import (
    Corpus,
    document_corpus,
    evaluation_batches,
    read_text,
    split_text,
    story_corpora,
    text_corpus,
    tiny_shakespeare,
    training_batch,
)
from decoder_only.model.lm_head import IGNORED
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.tokenization.tokenizer import END_OF_TEXT


@dataclass
class Letters:
    """A tokenizer with one id for each character, and a vocabulary of any size."""

    vocab_size: int = 1000
    special_tokens: dict = field(default_factory=lambda: {END_OF_TEXT: 0})

    def encode_batch(self, texts):
        return [[ord(letter) for letter in text] for text in texts]


LETTERS = Letters()
words = st.text(
    st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=30
)
documents = st.lists(words, min_size=1, max_size=12)


def read(ids) -> str:
    return "".join("|" if token == 0 else chr(token) for token in ids)


# ---------------------------------------------------------------------------------------- corpora


def test_documents_stand_between_bars():
    corpus = document_corpus(["ab", "c", "déf"], LETTERS, nats=3.5)
    assert read(corpus.ids) == "|ab|c|déf|"
    assert corpus.starts.tolist() == [0, 3, 5]
    assert corpus.n_targets == 9
    assert corpus.n_bytes == 7
    assert corpus.bytes_per_token == 7 / 9
    assert corpus.floor == 3.5 / 9


def test_running_text_begins_with_a_bar_and_markers_divide_it():
    corpus = text_corpus(f"ab{END_OF_TEXT}cd", LETTERS)
    assert read(corpus.ids) == "|ab|cd"
    assert corpus.starts is None
    assert corpus.n_bytes == 4
    assert corpus.floor is None
    assert read(text_corpus(["ab", "cd"], LETTERS).ids) == "|ab|cd"


@pytest.mark.parametrize(
    ("vocab_size", "id_type"), [(2**16, np.uint16), (2**16 + 1, np.uint32)]
)
@pytest.mark.parametrize("build", [text_corpus, document_corpus])
def test_ids_are_stored_in_as_few_bytes_as_hold_them(build, vocab_size, id_type):
    assert build(["ab"], Letters(vocab_size=vocab_size)).ids.dtype == id_type


@pytest.mark.parametrize("n", [3, 2**20 + 3])  # in one piece, and in two
def test_a_fingerprint_is_that_of_all_ids_and_starts(n):
    ids = np.arange(n) % 7
    plain = Corpus(ids=ids.astype(np.uint16), n_bytes=n)
    started = Corpus(ids=plain.ids, starts=np.array([0, 2]), n_bytes=n)
    digest = hashlib.sha256(ids.astype("<u4"))
    assert plain.fingerprint == digest.hexdigest()
    digest.update(np.array([0, 2], dtype="<i8"))
    assert started.fingerprint == digest.hexdigest()


def test_equal_data_have_equal_fingerprints_and_others_do_not():
    corpora = [
        document_corpus(["ab", "c"], LETTERS),
        document_corpus(["a", "bc"], LETTERS),
        document_corpus(["ab", "d"], LETTERS),
        text_corpus(["ab", "c"], LETTERS),
        text_corpus([f"ab{END_OF_TEXT}c"], LETTERS),
    ]
    fingerprints = [corpus.fingerprint for corpus in corpora]
    assert fingerprints[3] == fingerprints[4]
    assert len(set(fingerprints)) == 4
    assert (
        document_corpus(["ab", "c"], Letters(vocab_size=10**6)).fingerprint
        == fingerprints[0]
    )


def test_nothing_to_learn_from_is_refused():
    with pytest.raises(ValueError, match="there is no text"):
        document_corpus([], LETTERS)
    with pytest.raises(ValueError, match="there is no text"):
        text_corpus([END_OF_TEXT, ""], LETTERS)
    with pytest.raises(ValueError, match=r"'<x>'.* must hold <\|endoftext\|>"):
        text_corpus("ab", Letters(special_tokens={"<x>": 0}))


def test_stories_become_corpora_with_their_exact_score():
    language = StoryLanguage(n_characters=64)
    first = list(itertools.islice(language.stories(split="train", seed=3), 9))
    tokenizer = BytePairTokenizer.train(first, 300)
    train, validation = story_corpora(
        language, tokenizer, n_train=9, n_validation=4, seed=3
    )
    bar = tokenizer.special_tokens[END_OF_TEXT]
    assert tokenizer.decode(train.ids[1:-1]).split(END_OF_TEXT) == first
    assert (train.ids[train.starts] == bar).all()
    held_out = tokenizer.decode(validation.ids[1:-1]).split(END_OF_TEXT)
    assert not set(held_out) & set(first)
    assert validation.nats == pytest.approx(-sum(map(language.log_prob, held_out)))
    assert train.nats is None
    other, same = story_corpora(language, tokenizer, n_train=9, n_validation=4, seed=4)
    assert same.fingerprint == validation.fingerprint
    assert other.fingerprint != train.fingerprint


@given(st.text(), st.floats(0.01, 0.99))
def test_a_text_is_cut_in_two_where_a_character_begins(text, share):
    wanted, n_bytes = int(len(text.encode()) * share), len(text.encode())
    try:
        train, validation = split_text(text, share)
    except ValueError:
        assert not 0 < wanted < n_bytes - 3  # a character has four bytes at most
    else:
        assert train + validation == text
        assert 0 <= len(train.encode()) - wanted <= 3


def test_an_impossible_share_is_refused():
    with pytest.raises(ValueError, match=r"train_share=1.5 must be .* below 1"):
        split_text("abc", 1.5)


# ---------------------------------------------------------------------------------------- training


@given(
    documents,
    st.integers(1, 8),
    st.integers(1, 40),
    st.integers(0, 2**63),
    st.integers(0, 10**6),
)
def test_rows_of_documents_begin_at_a_document_and_run_around_the_ring(
    texts, batch_size, context_length, seed, step
):
    corpus = document_corpus(texts, LETTERS)
    inputs, targets = training_batch(
        corpus,
        batch_size=batch_size,
        context_length=context_length,
        seed=seed,
        step=step,
    )
    assert inputs.dtype == targets.dtype == torch.int64
    assert inputs.shape == targets.shape == (batch_size, context_length)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    ring = "".join(f"|{text}" for text in texts) * (context_length + 2)
    rotations = {ring[start : start + context_length + 1] for start in corpus.starts}
    for row, wanted in zip(inputs, targets, strict=True):
        assert read([*row.tolist(), int(wanted[-1])]) in rotations


@given(
    st.integers(1, 200),
    st.integers(1, 8),
    st.integers(0, 2**63),
    st.integers(0, 10**6),
    st.data(),
)
def test_rows_of_running_text_are_crops(n_letters, batch_size, seed, step, draw):
    corpus = Corpus(ids=np.arange(n_letters + 1, dtype=np.uint16), n_bytes=n_letters)
    context_length = draw.draw(st.integers(1, n_letters))
    inputs, targets = training_batch(
        corpus,
        batch_size=batch_size,
        context_length=context_length,
        seed=seed,
        step=step,
    )
    expected = inputs[:, :1] + torch.arange(context_length)
    assert torch.equal(inputs, expected)
    assert torch.equal(targets, expected + 1)
    assert targets.max() <= n_letters


def test_every_crop_of_a_running_text_can_come():
    corpus = Corpus(ids=np.arange(8, dtype=np.uint16), n_bytes=7)
    inputs, _ = training_batch(corpus, batch_size=500, context_length=4, seed=0, step=0)
    assert inputs[:, 0].unique().tolist() == [0, 1, 2, 3]


def test_a_batch_is_a_function_of_seed_and_step_alone():
    corpus = text_corpus("abcdefghijklmnopqrstuvwxyz" * 40, LETTERS)

    def first_tokens(seed, step):
        settings = {"batch_size": 16, "context_length": 8}
        return training_batch(corpus, seed=seed, step=step, **settings)[0][
            :, 0
        ].tolist()

    forwards = [first_tokens(1, step) for step in range(20)]
    torch.manual_seed(7)
    np.random.default_rng(7).random()
    backwards = [first_tokens(1, step) for step in reversed(range(20))]
    assert forwards == backwards[::-1]
    assert len({tuple(tokens) for tokens in forwards}) == 20
    assert first_tokens(2, 0) != first_tokens(1, 0)


def test_batches_are_the_same_for_all_versions_and_machines():
    corpus = Corpus(ids=np.arange(60_000, dtype=np.uint16), n_bytes=1)
    inputs, _ = training_batch(corpus, batch_size=4, context_length=1, seed=5, step=7)
    assert inputs[:, 0].tolist() == [521, 17295, 41869, 12501]


@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 100))
def test_processes_share_one_global_batch(batch_size, n_ranks, step):
    corpus = Corpus(ids=np.arange(1000, dtype=np.uint16), n_bytes=1)
    settings = {"batch_size": batch_size, "context_length": 3, "seed": 0, "step": step}
    together, _ = training_batch(corpus, **settings)
    for rank in range(n_ranks):
        own, _ = training_batch(corpus, **settings, rank=rank, n_ranks=n_ranks)
        assert torch.equal(own, together[rank::n_ranks])


def test_a_text_that_is_shorter_than_a_row_is_refused():
    corpus = text_corpus("abc", LETTERS)
    assert training_batch(corpus, batch_size=1, context_length=3, seed=0, step=0)
    with pytest.raises(
        ValueError, match=r"has 3 tokens to predict, fewer than context_length=4"
    ):
        training_batch(corpus, batch_size=1, context_length=4, seed=0, step=0)


# -------------------------------------------------------------------------------------- evaluation


def windows(corpus, context_length, batch_size=3):
    batches = list(
        evaluation_batches(corpus, batch_size=batch_size, context_length=context_length)
    )
    assert len({inputs.shape for inputs, _ in batches}) == 1
    assert len(batches[0][0]) <= batch_size
    return [pair for batch in batches for pair in zip(*batch, strict=True)]


@given(documents, st.integers(1, 40), st.integers(1, 5), st.booleans())
def test_evaluation_asks_for_every_token_once_and_in_order(
    texts, context_length, batch_size, running
):
    corpus = (text_corpus if running else document_corpus)(texts, LETTERS)
    asked, seen = [], []
    for inputs, targets in windows(corpus, context_length, batch_size):
        assert inputs.shape == targets.shape == (context_length,)
        real = targets != IGNORED
        assert torch.equal(real, real.sort(descending=True).values), (
            "padding only at the end"
        )
        asked += targets[real].tolist()
        seen += inputs[real].tolist()
    assert asked == corpus.ids[1:].tolist()
    assert seen == corpus.ids[:-1].tolist()


@given(documents, st.integers(1, 40))
def test_a_document_that_fits_is_never_cut(texts, context_length):
    corpus = document_corpus(texts, LETTERS)
    sizes = [
        int((targets != IGNORED).sum())
        for _, targets in windows(corpus, context_length)
    ]
    cuts = set(itertools.accumulate(sizes))
    for start, text in zip(corpus.starts.tolist(), texts, strict=True):
        if len(text) + 1 <= context_length:
            assert not cuts & set(range(start + 1, start + len(text) + 1))


def test_documents_are_packed_and_a_long_one_is_cut():
    corpus = document_corpus(["ab", "cd", "efg", "hijklmnop", "q"], LETTERS)
    rows = [
        read(inputs[targets != IGNORED].tolist())
        for inputs, targets in windows(corpus, 6)
    ]
    # The last batch is filled up, so that all have one shape.
    assert rows == ["|ab|cd", "|efg", "|hijkl", "mnop|q", "", ""]


@given(documents, st.integers(1, 4), st.integers(1, 5))
def test_processes_share_an_evaluation_and_get_equally_many_batches(
    texts, batch_size, n_ranks
):
    corpus = document_corpus(texts, LETTERS)
    settings = {"batch_size": batch_size, "context_length": 5}
    alone = list(evaluation_batches(corpus, **settings))
    shares = [
        list(evaluation_batches(corpus, **settings, rank=rank, n_ranks=n_ranks))
        for rank in range(n_ranks)
    ]
    assert len({len(share) for share in shares}) == 1
    together = [batch for turn in zip(*shares, strict=True) for batch in turn]
    assert len(together) - len(alone) < n_ranks
    for ours, theirs in zip(together, alone, strict=False):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert all((targets == IGNORED).all() for _, targets in together[len(alone) :])


def test_a_batch_is_sent_whole_and_sliced_on_the_device(monkeypatch):
    sent = []

    def send(rows, device):
        sent.append((rows.shape, rows.is_contiguous(), device))
        return rows

    monkeypatch.setattr(hardware, "send", send)
    corpus = text_corpus("abcdefgh", LETTERS)
    where = torch.device("cuda")
    settings = {"batch_size": 2, "context_length": 3, "seed": 0, "step": 0}
    inputs, targets = training_batch(corpus, **settings, device=where)
    assert sent == [((2, 4), True, where)], "one copy of contiguous rows"
    assert inputs.data_ptr() + inputs.itemsize == targets.data_ptr()


def test_a_fingerprint_is_computed_once():
    corpus, reads = text_corpus("abcdefgh" * 9, LETTERS), []

    class Watched(np.ndarray):
        def astype(self, *arguments, **settings):
            reads.append(1)
            return super().astype(*arguments, **settings)

    watched = dataclasses.replace(corpus, ids=corpus.ids.view(Watched))
    assert watched.fingerprint == watched.fingerprint == corpus.fingerprint
    assert len(reads) == 1


def test_running_text_is_cut_into_consecutive_windows():
    corpus = text_corpus("abcdefgh", LETTERS)
    rows = [
        read(inputs[targets != IGNORED].tolist())
        for inputs, targets in windows(corpus, 3)
    ]
    assert rows == ["|ab", "cde", "fg"]


# ------------------------------------------------------------------------------------------- files


def test_text_is_read_as_utf_8(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("Zoë\r\n".encode())
    assert read_text(path) == "Zoë\r\n", (
        "bytes per token would be wrong if line ends were changed"
    )


def test_what_is_no_text_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none.txt does not exist"):
        read_text(tmp_path / "none.txt")
    with pytest.raises(ValueError, match=r"is a folder; .* decoder-only prepare"):
        read_text(tmp_path)
    (tmp_path / "empty.txt").touch()
    with pytest.raises(ValueError, match="is empty"):
        read_text(tmp_path / "empty.txt")
    (tmp_path / "latin.txt").write_bytes("Zoë".encode("latin-1"))
    with pytest.raises(ValueError, match="is not UTF-8 text: byte 2 is 0xeb"):
        read_text(tmp_path / "latin.txt")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_may_never_end_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/urandom")):
        with pytest.raises(ValueError, match=f"{path} is a device or a pipe"):
            read_text(path)


def test_a_text_too_large_for_memory_is_refused(tmp_path):
    with (tmp_path / "sparse.txt").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(ValueError, match=r"more than 2 GB; .* decoder-only prepare"):
        read_text(tmp_path / "sparse.txt")


@pytest.fixture
def shakespeare(tmp_path, monkeypatch):
    """A stand-in of a few bytes, in a folder of its own, with nothing set and nothing cached."""
    content = b"First Citizen:\nBefore we proceed\n"
    monkeypatch.setattr(
        data.sources, "_SHAKESPEARE_SHA256", hashlib.sha256(content).hexdigest()
    )
    monkeypatch.setattr(data.sources, "_SHAKESPEARE_BYTES", len(content))
    monkeypatch.delenv("DECODER_ONLY_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    origin = tmp_path / "origin"
    origin.write_bytes(content)
    return origin


def test_shakespeare_is_downloaded_once_and_then_found_in_the_cache(
    shakespeare, tmp_path
):
    text = tiny_shakespeare(url=shakespeare.as_uri())
    assert text.startswith("First Citizen")
    shakespeare.unlink()
    assert tiny_shakespeare(url=shakespeare.as_uri()) == text
    left = sorted(path.name for path in (tmp_path / "cache/decoder-only").iterdir())
    assert left == [LOCK, "tinyshakespeare.txt"]


def test_shakespeare_is_found_where_the_environment_says(
    shakespeare, tmp_path, monkeypatch
):
    monkeypatch.setenv("DECODER_ONLY_DATA", str(tmp_path))
    shakespeare.rename(tmp_path / "tinyshakespeare.txt")
    assert tiny_shakespeare(url="file:///nowhere").startswith("First Citizen")
    assert not (tmp_path / "cache").exists()


def test_shakespeare_is_not_lost_where_it_cannot_be_kept(shakespeare, tmp_path):
    (tmp_path / "cache").write_text("a file, in which no folder can be made")
    assert tiny_shakespeare(url=shakespeare.as_uri()).startswith("First Citizen")


def test_shakespeare_that_can_be_neither_found_nor_fetched(shakespeare, tmp_path):
    with pytest.raises(
        OSError, match=r"neither at .*tinyshakespeare.txt nor could it be"
    ):
        tiny_shakespeare(tmp_path, url="file:///nowhere/at/all")


def test_another_text_is_not_taken_for_shakespeare(shakespeare, tmp_path):
    shakespeare.write_bytes(b"Second Citizen:\nNo\n")
    with pytest.raises(ValueError, match="is not Tiny Shakespeare"):
        tiny_shakespeare(url=shakespeare.as_uri())
    assert not (tmp_path / "cache").exists()
    (tmp_path / "tinyshakespeare.txt").write_bytes(b"Third Citizen:\nNo\n")
    with pytest.raises(
        ValueError, match=r"tinyshakespeare.txt is not Tiny Shakespeare.*delete"
    ):
        tiny_shakespeare(tmp_path)


def test_the_published_shakespeare():
    try:
        text = tiny_shakespeare(url="file:///nowhere")
    except OSError as error:
        pytest.skip(str(error))
    assert len(text) == 1_115_394
    assert len(split_text(text)[1]) == 111_540
