"""Text of any size into token files that training maps into memory, and those back into corpora.

    index.json             what is in the folder: counts, checksums, the tokenizer's fingerprint
    tokenizer.json         the tokenizer
    train-00000.tokens     ids and nothing else, in little-endian order; the next file continues
    validation-00000.tokens

Three things are exact. The ids are those of `data.text_corpus` on the same text, although only a
few megabytes of it are in memory at a time: text is cut where no word can reach across. Of every
text the end is held out, as large a share as was asked for. And a folder is either whole or not
there: all is made beside it, and renamed.

The word pattern of GPT-2 has no alternative that goes on from a visible character to white space.
So a cut between the two moves no border of a word. (A cut behind white space may move one:
the pattern reads "\\n\\n" as one word at the end of a text, and as two before a letter.)

Chapter 9.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from tqdm import tqdm

from decoder_only import data
from decoder_only.data import END_OF_TEXT, Corpus
from decoder_only.engine import files
from decoder_only.engine.checks import require
from decoder_only.tokenization import GPT2_PATTERN, BytePairTokenizer, gpt2_tokenizer

__all__ = ["Prepared", "ShardedIds", "open_shards", "prepare"]

INDEX, TOKENIZER = "index.json", "tokenizer.json"
FORMAT = "decoder-only tokens, format 1"
PARTS = ("train", "validation")
ID_TYPES = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}

_PIECE = 2**17  # characters that are encoded as one
_BATCH = 32  # pieces that are in memory as ids at a time
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

    def __getitem__(self, at: Any) -> np.ndarray | np.integer:
        if isinstance(at, slice):
            at = np.arange(*at.indices(len(self)))
        at = np.asarray(at).astype(np.int64)
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


class Prepared(NamedTuple):
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
    source: str | Path | Sequence[Path] | Readable,
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

    Of each text the end is held out for validation, cut as `data.split_text` cuts. So the share is
    the one that was asked for, however long and however many the texts, and a text that is added
    changes no other's. A marker `<|endoftext|>` in a text divides it into documents, but not
    between the parts.

    Memory does not grow with the text. It does with a stretch that offers no place to cut, one
    without a space or line end behind a visible character; at 2^24 characters it is refused.

    Args:
        source: a file; a folder, whose .txt and .md files are taken at any depth and in the order
            of their paths; several files; or an open stream, whose text is kept beside the folder
            meanwhile, since its end is known only at the end. All text is UTF-8.
        folder: new or empty; its parents are made.
        tokenizer: a tokenizer, or "gpt2", or the size of a vocabulary, which is then learned from
            the beginning of the training text, and is smaller where that cannot fill it.
        train_share: share of each text, in bytes, to train on.
        shard_tokens: ids in one file, of two or four bytes each.
        sample_bytes: how much of the training text a vocabulary is learned from, or a
            little more.
        overwrite: take the place of a prepared folder, which stays until the new one is whole.
        progress: draw a bar on stderr.

    Raises:
        FileNotFoundError: a source that is not there, or a folder without text files.
        FileExistsError: the folder holds prepared data and `overwrite` is False, or anything else.
        ValueError: text that is not UTF-8, too little text, a device or a pipe instead of a file, a
            tokenizer without an end-of-text token or with a pattern of its own, a share or size
            that cannot be.
        OSError: a text cannot be read, or the folder not be written. Nothing was changed then.
    """
    require("train_share", train_share, lambda s: 0 < s < 1, "between 0 and 1, as 0.9")
    require("shard_tokens", shard_tokens, lambda n: n >= 1, "1 or more, as 2**27")
    if tokenizer == "gpt2":
        tokenizer = gpt2_tokenizer()
    if isinstance(tokenizer, BytePairTokenizer):
        wanted = f"one with GPT-2's pattern and the special token {END_OF_TEXT}"
        require("tokenizer", tokenizer, _fits, wanted)
    texts, folder = _texts(source), Path(folder)
    _check_free(folder, overwrite)
    aside = folder.with_name(f".{folder.name}.unfinished")
    old = folder.with_name(f".{folder.name}.old")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        (aside / "text").mkdir(parents=True)
        texts = [_on_disk(text, aside / "text") for text in texts]
        size = sum(text.stat().st_size for text in texts)
        with tqdm(total=size, unit="B", unit_scale=True, disable=not progress) as bar:
            if not isinstance(tokenizer, BytePairTokenizer):
                sample = _sample(_pieces(texts, train_share), sample_bytes)
                tokenizer = BytePairTokenizer.train(sample, tokenizer, at_most=True)
            parts = [_Part(aside / name, tokenizer, shard_tokens) for name in PARTS]
            pieces = _pieces(texts, train_share)
            while batch := list(islice(pieces, _BATCH)):
                encoded = tokenizer.encode_batch([piece.text for piece in batch])
                for piece, ids in zip(batch, encoded, strict=True):
                    bar.update(parts[piece.part].append(piece, ids))
        shutil.rmtree(aside / "text")
        _write_index(aside, parts, tokenizer, train_share)
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            os.replace(folder, old)
        os.replace(aside, folder)
        files.sync_folder(folder.parent)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        said = f"cannot make {folder}: {error.strerror or error}"
        named = f" ({error.filename})" if error.filename else "; make room there"
        raise OSError(f"{said}{named}, or choose another folder") from error
    finally:
        if old.exists() and not folder.exists():
            os.replace(old, folder)
        shutil.rmtree(aside, ignore_errors=True)
    return open_shards(folder, verify=False)


def _fits(tokenizer: BytePairTokenizer) -> bool:
    return tokenizer.pattern == GPT2_PATTERN and END_OF_TEXT in tokenizer.special_tokens


def _texts(source: str | Path | Sequence[Path] | Readable) -> Sequence[Path | Readable]:
    """The texts of a source, its files named and known to be there."""
    if isinstance(source, str | Path):
        path = Path(source)
        source = data.text_files(path) if path.is_dir() else [path]
    if not isinstance(source, Sequence):
        return [source]
    for path in source:
        data.check_text_file(path)
    return source


def _on_disk(text: Path | Readable, folder: Path) -> Path:
    if isinstance(text, Path):
        return text
    with (folder / "standard input").open("wb") as file:
        while block := text.read(_PIECE):
            file.write(block.encode() if isinstance(block, str) else block)
    return Path(file.name)


def _check_free(folder: Path, overwrite: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; choose a folder for the tokens")
    names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    ours = rf"{INDEX}|{TOKENIZER}|({'|'.join(PARTS)})-\d{{5,}}\.tokens"
    if not names or (overwrite and all(re.fullmatch(ours, name) for name in names)):
        return
    held = "prepared data" if INDEX in names else f"something else ({names[0]})"
    raise FileExistsError(
        f"{folder} already holds {held}; choose a new or empty folder, or, if it holds prepared "
        "data and nothing else, allow overwriting"
    )


# ---------------------------------------------------------------------------- from texts to pieces


class _Piece(NamedTuple):
    part: int
    text: str
    begins: bool  # a document


def _pieces(texts: Iterable[Path], train_share: float) -> Iterator[_Piece]:
    """The beginning and the end of each text, in pieces that can be encoded one by one."""
    for path in texts:
        with path.open("rb") as file:
            size = path.stat().st_size
            cut = int(size * train_share)
            file.seek(cut)
            cut += data.next_character(file.read(4), 0)
            for part, ends in enumerate([(0, cut), (cut, size)]):
                for text, begins in _cut(data.read_chunks(file, str(path), *ends)):
                    yield _Piece(part, text, begins)


def _cut(chunks: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Pieces whose ids, one after the other, are those of the text; and which begin a document."""
    begins, rest = True, ""
    for chunk in chunks:
        *ended, rest = (rest + chunk).split(END_OF_TEXT)
        for text in ended:
            if text:
                yield text, begins
            begins = True
        if len(rest) >= _PIECE and (found := _LAST_CUT.match(rest)):
            yield found[0], begins
            begins, rest = False, rest[found.end() :]
        elif len(rest) > _LONGEST_STRETCH:
            raise ValueError(
                f"there is no place to cut in {len(rest):,} characters that begin with "
                f"{rest[:20]!r}; break the text by spaces or line ends"
            )
    if rest:
        yield rest, begins


def _sample(pieces: Iterable[_Piece], n_bytes: int) -> Iterator[str]:
    """The beginning of the training text, to learn a vocabulary from."""
    for piece in pieces:
        if piece.part == 0:
            yield piece.text
            n_bytes -= len(piece.text.encode())
        if n_bytes <= 0:
            return


# ---------------------------------------------------------------------------- from pieces to files


class _Part:
    """Writes the ids of one part, shard after shard, and keeps count of them."""

    def __init__(self, path: Path, tokenizer: BytePairTokenizer, size: int) -> None:
        self.path, self.size = path, size
        self.end_of_text = tokenizer.special_tokens[END_OF_TEXT]
        self.id_type = "uint16" if tokenizer.vocab_size <= 2**16 else "uint32"
        self.digest = hashlib.sha256()
        self.n_tokens = self.n_bytes = 0

    def append(self, piece: _Piece, ids: list[int]) -> int:
        """Write the ids of a piece; returns its number of bytes."""
        bar = [self.end_of_text] if piece.begins else []
        ids = np.array(bar + ids, dtype=ID_TYPES[self.id_type])
        # What `Corpus.fingerprint` computes from ids in memory.
        self.digest.update(ids.astype("<u4").tobytes())
        while len(ids):
            number, taken = divmod(self.n_tokens, self.size)
            here, ids = np.split(ids, [self.size - taken])
            with _shard(self.path, number).open("ab") as file:
                file.write(here.tobytes())
            self.n_tokens += len(here)
        n_bytes = len(piece.text.encode())
        self.n_bytes += n_bytes
        return n_bytes

    def summary(self) -> dict[str, object]:
        shards = []
        for first in range(0, self.n_tokens, self.size):
            path = _shard(self.path, len(shards))
            n_tokens = min(self.size, self.n_tokens - first)
            sha256 = files.sha256_of_file(path)
            shards.append({"file": path.name, "tokens": n_tokens, "sha256": sha256})
        return {
            "tokens": self.n_tokens,
            "bytes": self.n_bytes,
            "fingerprint": self.digest.hexdigest(),
            "shards": shards,
        }


def _shard(part: Path, number: int) -> Path:
    return part.with_name(f"{part.name}-{number:05d}.tokens")


def _write_index(
    folder: Path, parts: Sequence[_Part], tokenizer: BytePairTokenizer, share: float
) -> None:
    if min(part.n_tokens for part in parts) < 2:
        raise ValueError(
            f"too little text: {share:.0%} to train on leaves a part empty"
        )
    tokenizer.save(folder / TOKENIZER)
    content = {
        "format": FORMAT,
        "tokenizer": tokenizer.fingerprint,
        "dtype": parts[0].id_type,
        "train_share": share,
        "parts": {part.path.name: part.summary() for part in parts},
    }
    content["sha256"] = _sha256_of_index(content)
    for path in folder.glob("*.tokens"):
        with path.open("r+b") as file:
            os.fsync(file.fileno())
    files.write_atomically(folder / INDEX, json.dumps(content, indent=2).encode())


def _sha256_of_index(index: dict[str, object]) -> str:
    content = {name: value for name, value in index.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# ----------------------------------------------------------------------------------------- opening


def open_shards(
    folder: str | Path,
    *,
    verify: bool = True,
    tokenizer: BytePairTokenizer | None = None,
) -> Prepared:
    """The corpora of a folder that `prepare` made. Nothing is loaded before it is asked for.

    The folder may come from a stranger: only its own files are opened, as ids and nothing else.

    Args:
        folder: the folder.
        verify: compare each file with its checksum and each id with the vocabulary, which reads all
            of them. Presence and size are always compared.
        tokenizer: refuse ids that another tokenizer made.

    Raises:
        FileNotFoundError: not a prepared folder.
        ValueError: a file that is missing, damaged or cut short, or another tokenizer.
    """
    folder = Path(folder)
    if not (folder / INDEX).is_file():
        raise FileNotFoundError(
            f"{folder} holds no prepared data (no {INDEX}); give a folder that "
            "`decoder-only prepare` made"
        )
    index = files.read_json(folder / INDEX)
    _check(
        _is_sound(index), folder / INDEX, "is damaged, or was not written by `prepare`"
    )
    stored = BytePairTokenizer.load(folder / TOKENIZER)
    same = stored.fingerprint == index["tokenizer"]
    _check(same, folder / TOKENIZER, "is not the tokenizer that made these tokens")
    said = f"was prepared with another tokenizer ({stored}, not {tokenizer})"
    _check(tokenizer in (None, stored), folder, said)
    bound = stored.vocab_size if verify else None
    corpora = [_open_part(folder / name, index, bound) for name in PARTS]
    return Prepared(*corpora, stored, index)


def _check(holds: bool, path: Path, said: str) -> None:
    if not holds:
        raise ValueError(
            f"{path} {said}; restore it from a copy, or prepare the text again"
        )


def _is_sound(index: object) -> bool:
    """Whether an index is one that `prepare` can have written; its seal proves no origin."""
    try:
        seal = index["format"], index["sha256"], index["dtype"] in ID_TYPES
        sound = seal == (FORMAT, _sha256_of_index(index), True)
        for name in PARTS:
            part = index["parts"][name]
            sizes = [shard["tokens"] for shard in part["shards"]]
            counts = [part["bytes"], part["tokens"] - 1, *sizes]
            names = [_shard(Path(name), number).name for number in range(len(sizes))]
            sound &= names == [shard["file"] for shard in part["shards"]]
            sound &= all(type(n) is int and 0 < n < 2**63 for n in counts)
            sound &= part["tokens"] == sum(sizes) and isinstance(
                part["fingerprint"], str
            )
            sound &= all(isinstance(shard["sha256"], str) for shard in part["shards"])
            sound &= {*sizes[:-1]} <= {sizes[0]} and sizes[-1] <= sizes[0]
    except (LookupError, TypeError, AttributeError, RecursionError):
        return False
    return sound


def _open_part(part: Path, index: dict, vocab_size: int | None) -> _StoredCorpus:
    said, id_type, shards = index["parts"][part.name], ID_TYPES[index["dtype"]], []
    for number, shard in enumerate(said["shards"]):
        path, size = _shard(part, number), shard["tokens"] * id_type.itemsize
        _check(path.is_file() and not path.is_symlink(), path, "is missing, or no file")
        found = path.stat().st_size
        _check(found == size, path, f"has {found:,} bytes instead of {size:,}")
        # A plain array on the map is faster to index than NumPy's class for maps.
        ids = np.asarray(np.memmap(path, dtype=id_type, mode="r"))
        if vocab_size is not None:
            same = files.sha256_of_file(path) == shard["sha256"]
            _check(same and int(ids.max()) < vocab_size, path, "is damaged")
        shards.append(ids)
    return _StoredCorpus(
        ids=ShardedIds(shards),
        n_bytes=said["bytes"],
        stored_fingerprint=said["fingerprint"],
    )
