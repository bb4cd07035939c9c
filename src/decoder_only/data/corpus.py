"""A corpus of tokens, and the batches that training and evaluation take from it.

Chapter 9.
"""

import functools
import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from tqdm import tqdm

from decoder_only.base import checks, hardware
from decoder_only.model.lm_head import IGNORED
from decoder_only.tokenization.tokenizer import END_OF_TEXT

__all__ = [
    "Corpus",
    "document_corpus",
    "evaluation_batches",
    "next_character",
    "split_text",
    "story_corpora",
    "text_corpus",
    "training_batch",
]


@runtime_checkable
class Tokenizer(Protocol):
    """What a corpus needs of a tokenizer."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def special_tokens(self) -> dict[str, int]: ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]: ...


@runtime_checkable
class Language(Protocol):
    """A language that knows the probability of its texts, as `StoryLanguage` does."""

    def stories(self, *, split: str, seed: int) -> Iterator[str]: ...

    def log_prob(self, text: str) -> float: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Corpus:
    """Token ids, where documents begin in them, and what they stand for.

    Attributes:
        ids: (N,) unsigned integers. `ids[0]` is context only; the N - 1 others are targets.
        starts: positions of the end-of-text tokens that precede the documents, ascending from 0,
            for a corpus of documents that end in `ids[-1]`, one more end of text. None for
            running text.
        n_bytes: UTF-8 bytes of the text, end-of-text markers not counted.
        nats: the exact negative log-probability of all documents, where a language knows it.
        known_fingerprint: the fingerprint, if it was computed before; None computes it.
    """

    ids: np.ndarray
    starts: np.ndarray | None = None
    n_bytes: int
    nats: float | None = None
    known_fingerprint: str | None = None

    @property
    def n_targets(self) -> int:
        """The number of tokens that a model predicts."""
        return len(self.ids) - 1

    @property
    def bytes_per_token(self) -> float:
        """The mean length of a token in bytes of text."""
        return self.n_bytes / self.n_targets

    @property
    def floor(self) -> float | None:
        """The entropy of the language, in nats per token; None where it is unknown."""
        return None if self.nats is None else self.nats / self.n_targets

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of ids and starts: two runs with equal fingerprints saw the same data."""
        if self.known_fingerprint is not None:
            return self.known_fingerprint
        digest = hashlib.sha256()
        # In pieces, because the ids may be on the disk and too large for memory.
        for first in range(0, len(self.ids), 2**20):
            digest.update(self.ids[first : first + 2**20].astype("<u4"))
        if self.starts is not None:
            digest.update(self.starts.astype("<i8"))
        return digest.hexdigest()


def document_corpus(
    documents: Iterable[str], tokenizer: Tokenizer, *, nats: float | None = None
) -> Corpus:
    """A corpus of documents, `| d1 | d2 | … |`, where the bar is the end-of-text token.

    Training rows begin at a bar, so that a model sees documents from their beginning.

    Args:
        documents: texts that do not depend on one another, such as stories.
        tokenizer: its special tokens must hold `<|endoftext|>`.
        nats: the exact negative log-probability of all documents together, if known.

    Raises:
        ValueError: no documents, or a tokenizer without an end-of-text token.
    """
    parts, n_bytes = _encoded(documents, tokenizer)
    ends = np.cumsum([len(part) for part in parts])
    return Corpus(
        ids=np.concatenate([*parts, parts[0][:1]]),
        starts=np.concatenate([[0], ends[:-1]]),
        n_bytes=n_bytes,
        nats=nats,
    )


def text_corpus(texts: str | Sequence[str], tokenizer: Tokenizer) -> Corpus:
    """A corpus of running text: `| text`, or `| text | text …` of several texts.

    A text with the marker `<|endoftext|>` in it counts as several. Training rows begin anywhere.

    Raises:
        ValueError: no text at all, or a tokenizer without an end-of-text token.
    """
    texts = [texts] if isinstance(texts, str) else texts
    pieces = (piece for text in texts for piece in text.split(END_OF_TEXT) if piece)
    parts, n_bytes = _encoded(pieces, tokenizer)
    return Corpus(ids=np.concatenate(parts), n_bytes=n_bytes)


def _encoded(
    texts: Iterable[str], tokenizer: Tokenizer
) -> tuple[list[np.ndarray], int]:
    """The ids of each text after an end-of-text token, and the number of bytes of all texts."""
    special = tokenizer.special_tokens
    if END_OF_TEXT not in special:
        raise ValueError(f"special_tokens={special!r:.200} must hold {END_OF_TEXT}")
    bar, parts, n_bytes = special[END_OF_TEXT], [], 0
    id_type = np.uint16 if tokenizer.vocab_size <= 2**16 else np.uint32
    texts = iter(texts)
    # Some at a time: lists of ids take thirty times the memory of an array.
    while some := list(islice(texts, 4096)):
        encoded = tokenizer.encode_batch(some)
        parts += [np.array([bar, *ids], dtype=id_type) for ids in encoded]
        n_bytes += sum(len(text.encode()) for text in some)
    if not parts:
        raise ValueError("there is no text; a corpus needs one character at least")
    return parts, n_bytes


def story_corpora(
    language: Language,
    tokenizer: Tokenizer,
    *,
    n_train: int,
    n_validation: int,
    seed: int = 0,
    progress: bool = False,
) -> tuple[Corpus, Corpus]:
    """Training and validation stories of a language, the latter with its exact score.

    Args:
        language: writes disjoint training and validation stories, and scores a story.
        tokenizer: turns stories into ids.
        n_train: number of training stories.
        n_validation: number of validation stories.
        seed: which training stories. The validation stories are always the same, so that all
            runs are measured on one set.
        progress: show a bar on stderr.
    """
    validation = list(
        islice(language.stories(split="validation", seed=0), n_validation)
    )
    nats = -math.fsum(language.log_prob(story) for story in validation)
    stories = islice(language.stories(split="train", seed=seed), n_train)
    bar = {"desc": "Stories", "total": n_train, "disable": not progress, "leave": False}
    train = document_corpus(iter(tqdm(stories, **bar)), tokenizer)
    return train, document_corpus(validation, tokenizer, nats=nats)


def split_text(text: str, train_share: float = 0.9) -> tuple[str, str]:
    """A text cut in two by position: the beginning to train on, the end to validate on.

    Args:
        text: the whole.
        train_share: fraction of its bytes to train on; the cut is where a character begins.

    Raises:
        ValueError: the fraction is not between 0 and 1, or a part would be empty.
    """
    checks.number("train_share", train_share, above=0, below=1)
    content = text.encode()
    cut = next_character(content, int(len(content) * train_share))
    if not 0 < cut < len(content):
        raise ValueError(
            f"a text of {len(text)} characters cannot be split at {train_share:.0%}; "
            "give a longer text"
        )
    return content[:cut].decode(), content[cut:].decode()


def next_character(content: bytes, at: int) -> int:
    """The first place in UTF-8 text, from `at` on, where a character begins."""
    while at < len(content) and content[at] & 0xC0 == 0x80:
        at += 1
    return at


def training_batch(
    corpus: Corpus,
    *,
    batch_size: int,
    context_length: int,
    seed: int,
    step: int,
    rank: int = 0,
    n_ranks: int = 1,
    device: torch.device | None = None,
) -> tuple[Int[Tensor, "b s"], Int[Tensor, "b s"]]:
    """The inputs and targets of one step: a pure function of (seed, step).

    Rows begin at a document, or anywhere in running text. Documents are read as a ring: after the
    last document comes the first. Tokens that are S tokens or more after the beginning of their
    document are never trained on. So choose a context about as long as the documents, or treat
    them as running text.

    The draws come from Philox (Salmon et al., 2011), a generator that turns a key and a counter
    into random bits. NumPy promises the same raw bits for all versions and platforms.

    Args:
        batch_size: rows of the global batch, over all processes.
        context_length: S, the tokens of a row.
        seed: which run, 0 or more.
        step: which step of the run, 0 or more.
        rank: this process takes rows `rank, rank + n_ranks, …` of the global batch.
        n_ranks: number of processes that share the batch.
        device: of the batch; the CPU by default.

    Raises:
        ValueError: a running text that is shorter than a row.
    """
    draws = np.random.Philox(key=[seed, step]).random_raw(batch_size)[rank::n_ranks]
    offsets = np.arange(context_length + 1)
    if corpus.starts is None:
        n_positions = len(corpus.ids) - context_length
        if n_positions < 1:
            raise ValueError(
                f"the text has {corpus.n_targets} tokens to predict, fewer than "
                f"context_length={context_length}; "
                "give a longer text or a shorter context"
            )
        first = draws % np.uint64(n_positions)
        positions = first.astype(np.int64)[:, None] + offsets
    else:
        first = corpus.starts[draws % np.uint64(len(corpus.starts))]
        # The last id repeats the first one, so the ring is one shorter than the array.
        positions = (first[:, None] + offsets) % corpus.n_targets
    rows = torch.from_numpy(corpus.ids[positions].astype(np.int64))
    # Sent whole and sliced there: a slice would be copied once more.
    rows = hardware.send(rows, device or rows.device)
    return rows[:, :-1], rows[:, 1:]


def evaluation_batches(
    corpus: Corpus,
    *,
    batch_size: int,
    context_length: int,
    rank: int = 0,
    n_ranks: int = 1,
) -> Iterator[tuple[Int[Tensor, "b s"], Int[Tensor, "b s"]]]:
    """Windows in which every target of the corpus is predicted exactly once, in order.

    Running text is cut into consecutive windows. Documents are packed whole: a window ends before
    the first document that does not fit in full. The rest of the window is padding, whose targets
    are `IGNORED`. A document that is longer than a window is cut, and the model sees each piece
    without the others.

    Args:
        batch_size: rows of a batch, at most.
        context_length: S, the tokens of a row.
        rank, n_ranks: this process takes batches `rank, rank + n_ranks, …`. All processes get the
            same number, because a sharded model runs in all processes together.

    Yields:
        Inputs and targets (b, s), all of one shape: rows that are missing at the end are padding.
    """
    windows = _windows(corpus, context_length)
    n_rows = min(batch_size, len(windows))
    for first in range(rank * n_rows, len(windows) + rank * n_rows, n_ranks * n_rows):
        inputs = np.zeros((n_rows, context_length), dtype=np.int64)
        targets = np.full((n_rows, context_length), IGNORED, dtype=np.int64)
        for row, (begin, end) in enumerate(windows[first : first + n_rows]):
            inputs[row, : end - begin] = corpus.ids[begin:end]
            targets[row, : end - begin] = corpus.ids[begin + 1 : end + 1]
        yield torch.from_numpy(inputs), torch.from_numpy(targets)


def _windows(corpus: Corpus, context_length: int) -> list[tuple[int, int]]:
    """Ranges of input positions, none longer than the context, that tile the corpus."""
    starts = np.zeros(1, dtype=np.int64) if corpus.starts is None else corpus.starts
    windows, first = [], 0
    for start, end in zip(starts, np.append(starts[1:], corpus.n_targets), strict=True):
        if end - first > context_length and start > first:
            windows.append((first, int(start)))
            first = int(start)
        while end - first > context_length:
            windows.append((first, first + context_length))
            first += context_length
    windows.append((first, corpus.n_targets))
    return windows
