"""Text of any size into token files that training maps into memory, and those back into corpora.

    index.json             what is in the folder: counts, checksums, the tokenizer's fingerprint
    tokenizer.json         the tokenizer
    train-00000.tokens     ids and nothing else, in little-endian order; the next file continues
    validation-00000.tokens

Two things are exact. The ids are those of `data.text_corpus` on the same text, although only a
few megabytes of it are in memory at a time: text is cut where no word can reach across. And a
folder is either finished or plainly not: all is made in its subfolder ``tokens.unfinished``, and
the index, without which nothing is read, is the last file to arrive.

The word pattern of GPT-2 has no alternative that goes on from a visible character to white space.
So a cut between the two moves no border of a word. (A cut behind white space may move one:
the pattern reads "\\n\\n" as one word at the end of a text, and as two before a letter.)

Chapter 9.
"""

import codecs
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from tqdm import tqdm

from decoder_only.data import END_OF_TEXT, Corpus
from decoder_only.engine.files import sha256_of_file, sync_folder, write_atomically
from decoder_only.tokenization import GPT2_PATTERN, BytePairTokenizer, gpt2_tokenizer

__all__ = ["Prepared", "ShardedIds", "huggingface_documents", "open_shards", "prepare"]

INDEX, TOKENIZER, UNFINISHED = "index.json", "tokenizer.json", "tokens.unfinished"
FORMAT = "decoder-only tokens, format 1"
PARTS = ("train", "validation")
SUFFIXES = (".txt", ".md")

_OURS = re.compile(
    rf"{INDEX}|\.{INDEX}\.part|{TOKENIZER}|{UNFINISHED}"
    rf"|({'|'.join(PARTS)})-\d{{5,}}\.tokens"
)
_PIECE = 2**17  # characters that are encoded as one
_BATCH = 2**21  # characters that are in memory as ids at a time
_LONGEST_STRETCH = 2**24  # characters that are held in search of a place to cut
_LAST_CUT = re.compile(r".*\S(?=[ \n])", re.DOTALL)


@runtime_checkable
class Readable(Protocol):
    """What this module asks of an open stream."""

    def read(self, size: int, /) -> bytes | str: ...


class ShardedIds:
    """Token ids in several files that read as one array of one axis.

    Takes what an array takes: a number, a slice, or an array of integers of any shape, and gives
    the ids there. Only what is asked for is read from the disk.

    Args:
        shards: equally long arrays, of which only the last may be shorter.
    """

    def __init__(self, shards: Sequence[np.ndarray]) -> None:
        self._shards = list(shards)
        self._n_ids = sum(map(len, self._shards))

    @property
    def dtype(self) -> np.dtype:
        """The type of one id: uint16 or uint32."""
        return self._shards[0].dtype

    def __len__(self) -> int:
        return self._n_ids

    def __getitem__(
        self, at: int | np.integer | slice | np.ndarray
    ) -> np.ndarray | np.integer:
        if isinstance(at, slice):
            at = np.arange(*at.indices(len(self)))
        at = np.asarray(at)
        if at.dtype.kind not in "iu":
            raise TypeError(
                f"ids are chosen by whole numbers, a slice or an array of whole numbers, "
                f"not by {at.dtype}"
            )
        at = at.astype(np.int64)
        at = np.where(at < 0, at + len(self), at)
        if at.size and not 0 <= at.min() <= at.max() < len(self):
            raise IndexError(f"there are ids 0 to {len(self) - 1} here")
        shard, place = np.divmod(at, len(self._shards[0]))
        ids = np.empty(at.shape, self.dtype)
        for number in np.bincount(shard.ravel()).nonzero()[0]:
            here = shard == number
            ids[here] = self._shards[number][place[here]]
        return ids[()]  # a number where one was asked for


@dataclass(frozen=True, eq=False, kw_only=True)
class _StoredCorpus(Corpus):
    ids: ShardedIds
    stored_fingerprint: str

    @property
    def fingerprint(self) -> str:
        """As of the same corpus in memory; computed when the ids were written."""
        return self.stored_fingerprint


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What `prepare` made, as `open_shards` finds it.

    Attributes:
        train, validation: corpora whose ids stay on the disk until they are asked for.
        tokenizer: the one that made the ids.
        index: index.json as plain data, for the record of a run.
    """

    train: Corpus
    validation: Corpus
    tokenizer: BytePairTokenizer
    index: dict[str, object]


# --------------------------------------------------------------------------------------- preparing


def prepare(
    source: str | Path | Readable | Iterable[str | Path],
    folder: str | Path,
    *,
    tokenizer: BytePairTokenizer | Literal["gpt2"] | int,
    train_share: float = 0.9,
    shard_tokens: int = 2**27,
    sample_bytes: int = 10_000_000,
    overwrite: bool = False,
    progress: bool = False,
) -> Prepared:
    """Encode text once, into a folder from which it is then read at the speed of the disk.

    Which text is held out for validation depends on nothing but its place. Of one text (a file
    or a stream) it is the end, cut as `data.split_text` cuts. Of several texts, whatever their
    number n, int(n * train_share) are for training: by default, the first of every ten is held
    out. A marker ``<|endoftext|>`` in a text divides it into documents, but not between the parts.

    Memory does not grow with the text. It does with a stretch that offers no place to cut, which
    with GPT-2's pattern is one without a space or line end behind a visible character, and with a
    pattern of one's own is a whole document; at 2^24 characters it is refused.

    Args:
        source: a file; a folder, whose .txt and .md files are taken at any depth and in the order
            of their paths; an open stream (its text is kept in the folder meanwhile, since
            its end is known only at the end); or an iterable of texts, each a document as a
            string or a file as a Path. All text is UTF-8.
        folder: new, empty, or left by an interrupted preparation; its parents are made.
        tokenizer: a tokenizer, or "gpt2", or the size of a vocabulary, which is then learned from
            the beginning of the training text.
        train_share: share of the text, in characters or in texts, to train on.
        shard_tokens: ids in one file, of two or four bytes each.
        sample_bytes: how much of the training text a vocabulary is learned from, or a
            little more.
        overwrite: take the place of a prepared folder, which stays until the new one is whole.
        progress: draw a bar on stderr.

    Raises:
        FileNotFoundError: a source that is not there, or a folder without text files.
        FileExistsError: the folder holds prepared data and `overwrite` is False, or anything else.
        ValueError: text that is not UTF-8, too little text, a tokenizer without an end-of-text
            token, a share or size that cannot be.
        OSError: the folder cannot be written.
    """
    _check_numbers(train_share, shard_tokens)
    if tokenizer == "gpt2":
        tokenizer = gpt2_tokenizer()
    if isinstance(tokenizer, BytePairTokenizer):
        _end_of_text(tokenizer)
    source, n_bytes = _found(source)
    folder = Path(folder)
    _check_free(folder, overwrite)
    aside = folder / UNFINISHED
    try:
        with _writing_into(folder):
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
        pattern = getattr(tokenizer, "pattern", GPT2_PATTERN)
        texts = _texts(source, aside, train_share)
        pieces = _pieces(texts, can_cut=pattern == GPT2_PATTERN)
        if not isinstance(tokenizer, BytePairTokenizer):
            tokenizer, pieces = _learned(tokenizer, pieces, sample_bytes)
        with tqdm(
            desc="Encoding",
            total=n_bytes,
            unit="B",
            unit_scale=True,
            disable=not progress,
        ) as bar:
            parts = _write_parts(pieces, aside, tokenizer, shard_tokens, bar)
        _check_parts(parts, train_share)
        with _writing_into(folder):
            tokenizer.save(aside / TOKENIZER)
            _sync_files(aside)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    with _writing_into(folder):
        _finish(folder, _index(parts, tokenizer, train_share))
    return open_shards(folder, verify=False)


def huggingface_documents(
    name: str, *, subset: str | None = None, split: str = "train", column: str = "text"
) -> Iterator[str]:
    """The documents of a text dataset of the Hugging Face Hub, streamed: a source for `prepare`.

    Args:
        name: such as "roneneldan/TinyStories".
        subset: the configuration, for a dataset that has several.
        split: which of the dataset's own parts to read.
        column: where a row keeps its text.

    Raises:
        ImportError: the package `datasets` is not installed.
        ValueError: a row without that column.
    """
    try:
        from datasets import load_dataset  # an extra, and slow to import
    except ImportError as error:
        raise ImportError(
            "Hugging Face datasets need one more package: "
            "pip install 'decoder-only[datasets]'"
        ) from error
    rows = load_dataset(name, subset, split=split, streaming=True)

    def documents() -> Iterator[str]:
        for row in rows:
            if column not in row:
                raise ValueError(
                    f"{name} has no column {column!r}; its columns are {', '.join(row)}"
                )
            yield row[column]

    return documents()


def _check_numbers(train_share: float, shard_tokens: int) -> None:
    if not 0 < train_share < 1:
        raise ValueError(
            f"train_share={train_share} must lie between 0 and 1, such as 0.9"
        )
    if shard_tokens < 1:
        raise ValueError(
            f"shard_tokens={shard_tokens} must be 1 or more, such as 2**27"
        )


def _end_of_text(tokenizer: BytePairTokenizer) -> int:
    if END_OF_TEXT not in tokenizer.special_tokens:
        raise ValueError(
            f"the tokenizer has no {END_OF_TEXT} token (its special tokens: "
            f"{sorted(tokenizer.special_tokens)}); train it with "
            f"special_tokens=({END_OF_TEXT!r},)"
        )
    return tokenizer.special_tokens[END_OF_TEXT]


def _check_free(folder: Path, overwrite: bool) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; choose a folder for the tokens")
    names = sorted(path.name for path in folder.iterdir())
    foreign = [name for name in names if not _OURS.fullmatch(name)]
    if names and UNFINISHED not in names and not _is_index(folder / INDEX):
        foreign = names
    if foreign:
        raise FileExistsError(
            f"{folder} holds something else ({', '.join(foreign[:3])}); "
            "choose a new or empty folder"
        )
    if INDEX in names and not overwrite:
        raise FileExistsError(
            f"{folder} already holds prepared data; choose another folder, "
            "or allow overwriting"
        )


def _is_index(path: Path) -> bool:
    try:
        return json.loads(path.read_bytes())["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        return False


@contextmanager
def _writing_into(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(
            f"cannot write into {folder}: {error.strerror or error}; make room there, or "
            "choose another folder, and prepare again"
        ) from error


# -------------------------------------------------------------------------- from sources to texts


def _found(source: object) -> tuple[object, int | None]:
    """The source, its files named and known to be there, and their size together."""
    if isinstance(source, str | Path):
        source = [Path(source)]
        if source[0].is_dir():
            source = _text_files(source[0])
    if not (
        isinstance(source, list | tuple) and all(isinstance(s, Path) for s in source)
    ):
        return source, None
    for path in source:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist (looked in {Path.cwd()})")
        if path.is_dir():
            raise ValueError(f"{path} is a folder; give it alone, or give files")
    n_bytes = sum(path.stat().st_size for path in source)
    return source[0] if len(source) == 1 else source, n_bytes or None


def _text_files(folder: Path) -> list[Path]:
    names = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    visible = [
        folder / name
        for name in names
        if name.suffix.lower() in SUFFIXES and (folder / name).is_file()
        if not any(part.startswith(".") for part in name.parts)
    ]
    if not visible:
        raise FileNotFoundError(
            f"{folder} holds no text: no file there ends in {' or '.join(SUFFIXES)}"
        )
    return visible


def _texts(
    source: object, scratch: Path, train_share: float
) -> Iterator[tuple[str, Iterable[str]]]:
    """Each text in chunks, with the part that it belongs to."""
    if isinstance(source, Path):
        with source.open("rb") as file:
            if file.seekable():
                yield from _beginning_and_end(file, str(source), train_share)
            else:  # a pipe with a name, such as the shell's <(zcat text.gz)
                yield from _texts(file, scratch, train_share)
    elif isinstance(source, Readable):
        with tempfile.TemporaryFile(dir=scratch) as file:
            _copy(source, file, scratch)
            yield from _beginning_and_end(file, "the stream", train_share)
    else:
        for number, text in enumerate(source):
            to_train = int((number + 1) * train_share) > int(number * train_share)
            yield PARTS[0] if to_train else PARTS[1], _chunks(text, number)


def _copy(stream: Readable, file: BinaryIO, folder: Path) -> None:
    # A console's text stream would change line ends; the bytes below it are as they came.
    stream = getattr(stream, "buffer", stream)
    while block := stream.read(_PIECE):
        with _writing_into(folder.parent):
            file.write(block.encode() if isinstance(block, str) else block)


def _beginning_and_end(
    file: BinaryIO, name: str, train_share: float
) -> Iterator[tuple[str, Iterable[str]]]:
    n_characters = sum(map(len, _decoded(file, name)))
    cut = int(n_characters * train_share)
    if not 0 < cut < n_characters:
        raise ValueError(
            f"{name} has {n_characters} characters, which cannot be split at "
            f"{train_share:.0%}; give a longer text"
        )
    for part, first, last in zip(PARTS, (0, cut), (cut, n_characters), strict=True):
        yield part, _between(_decoded(file, name), first, last)


def _between(chunks: Iterable[str], first: int, last: int) -> Iterator[str]:
    at = 0
    for chunk in chunks:
        yield chunk[max(first - at, 0) : max(last - at, 0)]
        at += len(chunk)


def _chunks(text: object, number: int) -> Iterator[str]:
    if isinstance(text, Path):
        with text.open("rb") as file:
            yield from _decoded(file, str(text))
    elif isinstance(text, str):
        yield from (text[i : i + _PIECE] for i in range(0, len(text), _PIECE))
    else:
        raise TypeError(
            f"document {number} is {text!r:.60}, a {type(text).__name__}; "
            "a document is a str, or a Path to a file"
        )


def _decoded(file: BinaryIO, name: str) -> Iterator[str]:
    """The text of a file from its beginning, line ends as they are."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    file.seek(0)
    block = b"\n"
    while block:
        block = file.read(_PIECE)
        try:
            yield decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            at = file.tell() - len(error.object) + error.start
            raise ValueError(
                f"{name} is not UTF-8 text: byte {at} is "
                f"0x{error.object[error.start]:02x}; convert it to UTF-8 first"
            ) from None


# ------------------------------------------------------------------------------ from texts to ids


class _Piece(NamedTuple):
    part: str
    text: str
    n_bytes: int
    begins: bool  # a document


def _pieces(
    texts: Iterable[tuple[str, Iterable[str]]], *, can_cut: bool
) -> Iterator[_Piece]:
    """Pieces of text whose ids, one after the other, are the ids of the text."""
    for part, chunks in texts:
        begins, rest = True, ""
        for chunk in chunks:
            *ended, rest = (rest + chunk).split(END_OF_TEXT)
            for text in ended:
                if text:
                    yield _Piece(part, text, len(text.encode()), begins)
                begins = True
            if len(rest) < _PIECE:
                continue
            if can_cut and (found := _LAST_CUT.match(rest)):
                text, rest = rest[: found.end()], rest[found.end() :]
                yield _Piece(part, text, len(text.encode()), begins)
                begins = False
            elif len(rest) > _LONGEST_STRETCH:
                raise ValueError(
                    f"there is no place to cut in {len(rest):,} characters that begin with "
                    f"{rest[:20]!r}; break the text by spaces or line ends, and, if the "
                    f"tokenizer has a pattern of its own, by {END_OF_TEXT}"
                )
        if rest:
            yield _Piece(part, rest, len(rest.encode()), begins)


def _learned(
    vocab_size: int, pieces: Iterator[_Piece], sample_bytes: int
) -> tuple[BytePairTokenizer, Iterator[_Piece]]:
    """A tokenizer from the beginning of the training text, and all pieces once more."""
    seen, n_bytes = [], 0
    for piece in pieces:
        seen.append(piece)
        n_bytes += piece.n_bytes if piece.part == PARTS[0] else 0
        if n_bytes >= sample_bytes:
            break
    sample = (piece.text for piece in seen if piece.part == PARTS[0])
    return BytePairTokenizer.train(sample, vocab_size), chain(seen, pieces)


def _batches(pieces: Iterable[_Piece]) -> Iterator[list[_Piece]]:
    batch, size = [], 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece.text)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


# ------------------------------------------------------------------------------ from ids to files


class _Part:
    """Writes the ids of one part, shard after shard, and keeps count of them."""

    def __init__(self, folder: Path, name: str, shard_tokens: int) -> None:
        self._folder, self._name, self._shard_tokens = folder, name, shard_tokens
        self._fingerprint = hashlib.sha256()
        self._shards: list[dict[str, object]] = []
        self._digest = hashlib.sha256()
        self.n_tokens = self.n_documents = self.n_bytes = 0

    def append(self, ids: np.ndarray) -> None:
        # What `Corpus.fingerprint` computes from ids in memory.
        self._fingerprint.update(ids.astype("<u4").tobytes())
        while len(ids):
            room = self._shard_tokens - self.n_tokens % self._shard_tokens
            if room == self._shard_tokens:
                self._digest = hashlib.sha256()
                file = f"{self._name}-{len(self._shards):05d}.tokens"
                self._shards.append({"file": file, "tokens": 0})
            shard, content = self._shards[-1], ids[:room].tobytes()
            with (self._folder / shard["file"]).open("ab") as file:
                file.write(content)
            self._digest.update(content)
            shard["tokens"] += len(ids[:room])
            shard["sha256"] = self._digest.hexdigest()
            self.n_tokens += len(ids[:room])
            ids = ids[room:]

    def summary(self) -> dict[str, object]:
        return {
            "tokens": self.n_tokens,
            "documents": self.n_documents,
            "bytes": self.n_bytes,
            "fingerprint": self._fingerprint.hexdigest(),
            "shards": self._shards,
        }


def _write_parts(
    pieces: Iterable[_Piece],
    folder: Path,
    tokenizer: BytePairTokenizer,
    shard_tokens: int,
    bar: tqdm,
) -> dict[str, _Part]:
    end_of_text, id_type = _end_of_text(tokenizer), _id_type(tokenizer.vocab_size)
    parts = {name: _Part(folder, name, shard_tokens) for name in PARTS}
    for batch in _batches(pieces):
        flat = {name: [] for name in PARTS}
        encoded = tokenizer.encode_batch([piece.text for piece in batch])
        for piece, ids in zip(batch, encoded, strict=True):
            flat[piece.part] += [end_of_text, *ids] if piece.begins else ids
            parts[piece.part].n_documents += piece.begins
            parts[piece.part].n_bytes += piece.n_bytes
            bar.update(piece.n_bytes)
        with _writing_into(folder.parent):
            for name, ids in flat.items():
                parts[name].append(np.array(ids, dtype=id_type))
    return parts


def _id_type(vocab_size: int) -> np.dtype:
    return np.dtype("<u2" if vocab_size <= 2**16 else "<u4")


def _check_parts(parts: dict[str, _Part], train_share: float) -> None:
    for name, part in parts.items():
        if not part.n_tokens:
            raise ValueError(
                f"the {name} part is empty: a share of {train_share:.0%} to train on leaves no "
                "text for it; give more texts, a longer one, or another train_share"
            )


def _index(
    parts: dict[str, _Part], tokenizer: BytePairTokenizer, train_share: float
) -> dict[str, object]:
    content = {
        "format": FORMAT,
        "tokenizer": tokenizer.fingerprint,
        "dtype": _id_type(tokenizer.vocab_size).name,
        "train_share": train_share,
        "parts": {name: part.summary() for name, part in parts.items()},
    }
    return {**content, "sha256": _sha256_of_index(content)}


def _sha256_of_index(content: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _sync_files(folder: Path) -> None:
    for path in folder.iterdir():
        with path.open("r+b") as file:
            os.fsync(file.fileno())


def _finish(folder: Path, index: dict[str, object]) -> None:
    """Put the new files in the place of old ones, such that a crash leaves no mixture.

    Every file there is one of ours, which `_check_free` has seen to.
    """
    aside = folder / UNFINISHED
    # The old index goes first and the new one comes last: in between there is plainly none.
    (folder / INDEX).unlink(missing_ok=True)
    sync_folder(folder)
    for path in folder.iterdir():
        if path != aside:
            path.unlink()
    for path in aside.iterdir():
        os.replace(path, folder / path.name)
    sync_folder(folder)
    write_atomically(folder / INDEX, json.dumps(index, indent=2).encode() + b"\n")
    aside.rmdir()


# ----------------------------------------------------------------------------------------- opening


def open_shards(
    folder: str | Path,
    *,
    verify: bool = True,
    tokenizer: BytePairTokenizer | None = None,
) -> Prepared:
    """The corpora of a folder that `prepare` made. Nothing is loaded before it is asked for.

    Args:
        folder: the folder.
        verify: compare each file with its checksum, which reads all of them once. Presence and
            size are always compared.
        tokenizer: refuse ids that another tokenizer made.

    Raises:
        FileNotFoundError: not a prepared folder, an unfinished one, or a missing file.
        ValueError: a file that is damaged or cut short, or another tokenizer.
    """
    folder = Path(folder)
    index = _read_index(folder)
    if not (folder / TOKENIZER).exists():
        raise FileNotFoundError(f"{folder / TOKENIZER} is missing; {_REMEDY}")
    stored = BytePairTokenizer.load(folder / TOKENIZER)
    if stored.fingerprint != index["tokenizer"]:
        raise ValueError(
            f"{folder / TOKENIZER} is not the tokenizer that made these tokens; {_REMEDY}"
        )
    if tokenizer is not None and tokenizer != stored:
        raise ValueError(
            f"{folder} was prepared with another tokenizer ({stored}, not {tokenizer}); "
            "prepare the text again with this one"
        )
    corpora = {name: _open_part(folder, index, name, verify) for name in PARTS}
    return Prepared(**corpora, tokenizer=stored, index=index)


_REMEDY = "restore it from a copy, or prepare the text again"


def _read_index(folder: Path) -> dict[str, object]:
    path = folder / INDEX
    if not path.is_file():
        if (folder / UNFINISHED).exists():
            raise FileNotFoundError(
                f"{folder} holds a preparation that did not finish; prepare the text again"
            )
        raise FileNotFoundError(
            f"{folder} holds no prepared data (no {INDEX}); give a folder that "
            "`decoder-only prepare` made"
        )
    try:
        index = json.loads(path.read_bytes())
        kind, said = index["format"], index.pop("sha256")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(
            f"{path} is damaged, or was not written by `decoder-only prepare`; {_REMEDY}"
        ) from None
    if kind != FORMAT:
        raise ValueError(
            f"{path} is of the kind {kind!r}; this program reads {FORMAT!r}"
        )
    if said != _sha256_of_index(index):
        raise ValueError(
            f"{path} is damaged: it does not match its checksum; {_REMEDY}"
        )
    return index


def _open_part(
    folder: Path, index: dict[str, object], name: str, verify: bool
) -> _StoredCorpus:
    part, id_type = index["parts"][name], np.dtype(index["dtype"]).newbyteorder("<")
    shards = []
    for shard in part["shards"]:
        path, size = folder / shard["file"], shard["tokens"] * id_type.itemsize
        if not path.is_file():
            raise FileNotFoundError(f"{path} is missing; {_REMEDY}")
        if path.stat().st_size != size:
            raise ValueError(
                f"{path} has {path.stat().st_size:,} bytes instead of {size:,}; {_REMEDY}"
            )
        if verify and sha256_of_file(path) != shard["sha256"]:
            raise ValueError(
                f"{path} is damaged: it does not match its checksum; {_REMEDY}"
            )
        # A plain array on the map is faster to index than NumPy's class for maps.
        shards.append(np.asarray(np.memmap(path, dtype=id_type, mode="r")))
    return _StoredCorpus(
        ids=ShardedIds(shards),
        n_bytes=part["bytes"],
        stored_fingerprint=part["fingerprint"],
    )
