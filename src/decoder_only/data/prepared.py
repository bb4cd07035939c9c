"""Text of any size into token files that training maps into memory, and those back into corpora.

    index.json           what is in the folder: counts, checksums, the tokenizer's fingerprint
    tokenizer.json       the tokenizer
    train.tokens         ids and nothing else, in little-endian order
    validation.tokens

Three things are exact. The ids are those of `data.text_corpus` on the same text, although only a
few megabytes of it are in memory at a time: text is cut where no word can reach across. Of every
text the end is held out, as large a part as was asked for. And a folder is either whole or not
there: all is made beside it, by one process at a time, and renamed.

The word pattern of GPT-2 has no alternative that goes on from a visible character to white space.
So a cut between the two moves no border of a word. (A cut after white space may move one:
the pattern reads "\\n\\n" as one word at the end of a text, and as two before a letter.)

Chapter 9.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from tqdm import tqdm

from decoder_only.base import checks, files
from decoder_only.data.corpus import Corpus, next_character
from decoder_only.data.sources import check_text_file, read_chunks, text_files
from decoder_only.tokenization import GPT2_PATTERN, BytePairTokenizer, gpt2_tokenizer
from decoder_only.tokenization.tokenizer import END_OF_TEXT

__all__ = ["Prepared", "open_tokens", "prepare"]

INDEX, TOKENIZER = "index.json", "tokenizer.json"
PARTS = {"train": "train.tokens", "validation": "validation.tokens"}
FORMAT = "decoder-only tokens, format 2"
ID_TYPES = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}

_PIECE = 2**17  # characters that are encoded as one
_BATCH = 32  # pieces that are in memory as ids at a time
_LONGEST_STRETCH = 2**24  # characters that are held in search of a place to cut
_SAMPLE = (
    10_000_000  # bytes of training text, or a little more, to learn a vocabulary from
)
_LAST_CUT = re.compile(r".*\S(?=[ \n])", re.DOTALL)


@runtime_checkable
class Readable(Protocol):
    """What this module asks of an open stream."""

    def read(self, size: int, /) -> bytes | str: ...


class Prepared(NamedTuple):
    """What `prepare` made, as `open_tokens` finds it.

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
    overwrite: bool = False,
    progress: bool = False,
) -> Prepared:
    """Encode text once, into a folder from which it is then read at the speed of the disk.

    Of each text the end is held out for validation, cut as `data.split_text` cuts. So the fraction
    is the one that was asked for, however long and however many the texts, and a text that is
    added changes no other's. A marker `<|endoftext|>` in a text divides it into documents, but not
    between the parts.

    Memory does not grow with the text. It grows with a stretch without a place to cut, that is,
    without a space or line end after a visible character. One of 2^24 characters is refused.

    Args:
        source: a file; a folder, whose .txt and .md files are taken at any depth and in the order
            of their paths; several files; or an open stream, whose text is copied beside the
            folder meanwhile, since only its end tells how long it is. All text is UTF-8.
        folder: new or empty, or a link to one; its parents are made.
        tokenizer: a tokenizer, or "gpt2", or the size of a vocabulary, which is then learned from
            the first ten megabytes of the training text, and is smaller where they cannot fill it.
        train_share: fraction of each text, in bytes, to train on.
        overwrite: take the place of a prepared folder, which stays until the new one is whole.
        progress: draw a bar on stderr.

    Raises:
        FileNotFoundError: a source that is not there, or a folder without text files.
        FileExistsError: the folder holds prepared data and `overwrite` is False, or anything else.
        ValueError: text that is not UTF-8, too little text, a device or a pipe instead of a file, a
            tokenizer without an end-of-text token or with a pattern of its own, a fraction
            that is not between 0 and 1.
        OSError: a text cannot be read, or the folder not be written or replaced (another disk is
            mounted there), or another process is making it. Nothing was changed then.
    """
    checks.number("train_share", train_share, above=0, below=1)
    if tokenizer == "gpt2":
        tokenizer = gpt2_tokenizer()
    if isinstance(tokenizer, BytePairTokenizer):
        _check_tokenizer(tokenizer)
    folder, texts = _replaceable(folder), _texts(source)
    with _made_aside(folder, overwrite=overwrite) as new:
        (new / "text").mkdir()
        texts = [_on_disk(text, new / "text") for text in texts]
        if not isinstance(tokenizer, BytePairTokenizer):
            sample = _sample(_pieces(texts, train_share))
            tokenizer = BytePairTokenizer.train(sample, tokenizer, at_most=True)
        index = _encode(texts, new, tokenizer, train_share, progress)
        shutil.rmtree(new / "text")
        tokenizer.save(new / TOKENIZER)
        files.write_atomically(new / INDEX, json.dumps(index, indent=2).encode())
    return open_tokens(folder, verify=False)


@contextmanager
def _made_aside(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """A new folder to fill, which takes the place of `folder` once it is filled.

    Whatever fails or is killed, `folder` is then as it was, or is the new one. One process at a
    time has the lock.

    Raises:
        FileExistsError: `folder` holds what may not go.
        OSError: as in `prepare`.
    """
    aside = folder.with_name(f".{folder.name}.unfinished")
    new, old = aside / "new", folder.with_name(f".{folder.name}.old")
    try:
        for path in filter(Path.is_symlink, (aside, old)):
            path.unlink()  # nothing is written elsewhere
        aside.mkdir(parents=True, exist_ok=True)
        with files.locked(aside):
            try:
                files.check_free(folder, "prepared data", _files, overwrite=overwrite)
                shutil.rmtree(new, ignore_errors=True)
                new.mkdir()
                yield new
                _take_place(new, folder, old)
            finally:
                if old.exists() and not folder.exists():
                    os.replace(old, folder)
                shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        if error.errno is None:  # one of ours, which says what to do
            raise
        where = f" ({error.filename})" if error.filename else "; make room there"
        raise OSError(
            f"cannot make {folder}: {error.strerror or error}{where}, "
            "or choose another folder"
        ) from error


def _take_place(new: Path, folder: Path, old: Path) -> None:
    """Rename the new folder to `folder`, whose content goes by way of `old`."""
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        os.replace(folder, old)
    os.replace(new, folder)
    files.sync_folder(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def _replaceable(folder: str | Path) -> Path:
    """The folder that a path or link leads to, unless no other folder can take its place."""
    folder = Path(folder).resolve()
    if folder == Path.cwd() or os.path.ismount(folder) or _is_bound(folder):
        raise OSError(
            f"{folder} cannot be replaced as a whole, because something is mounted there, or this "
            f"runs there; choose a folder in it, such as {folder / 'tokens'}"
        )
    return folder


def _is_bound(folder: Path) -> bool:
    """Whether another folder of the same disk is mounted here, as Linux alone can do."""
    table = Path("/proc/self/mountinfo")
    lines = table.read_bytes().splitlines() if table.exists() else []
    name = os.fsencode(folder)
    for byte in b"\\ \t\n":  # which the table writes as numbers
        name = name.replace(bytes([byte]), b"\\%03o" % byte)
    return any(line.split()[4] == name for line in lines)


def _check_tokenizer(tokenizer: BytePairTokenizer) -> None:
    special = tokenizer.special_tokens
    if tokenizer.pattern != GPT2_PATTERN or END_OF_TEXT not in special:
        raise ValueError(
            f"tokenizer={tokenizer!r:.200} must be one with GPT-2's pattern and the special "
            f"token {END_OF_TEXT}"
        )


def _texts(source: str | Path | Sequence[Path] | Readable) -> Sequence[Path | Readable]:
    """The texts of a source, its files named and known to be there."""
    if isinstance(source, str | Path):
        path = Path(source)
        source = text_files(path) if path.is_dir() else [path]
    if not isinstance(source, Sequence):
        return [source]
    for path in source:
        check_text_file(path)
    return source


def _on_disk(text: Path | Readable, folder: Path) -> Path:
    if isinstance(text, Path):
        return text
    with (folder / "standard input").open("wb") as file:
        while block := text.read(_PIECE):
            file.write(block.encode() if isinstance(block, str) else block)
    return Path(file.name)


def _files(_: Path) -> set[str]:
    return {INDEX, TOKENIZER, *PARTS.values()}


# ---------------------------------------------------------------------------- from texts to pieces


class _Piece(NamedTuple):
    part: str
    text: str
    begins: bool  # a document


def _pieces(texts: Iterable[Path], train_share: float) -> Iterator[_Piece]:
    """The beginning and the end of each text, in pieces that can be encoded one by one."""
    for path in texts:
        with path.open("rb") as file:
            size = path.stat().st_size
            cut = int(size * train_share)
            file.seek(cut)
            cut += next_character(file.read(4), 0)
            for part, ends in zip(PARTS, [(0, cut), (cut, size)], strict=True):
                for text, begins in _cut(read_chunks(file, str(path), *ends)):
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
        if len(rest) >= _PIECE and (match := _LAST_CUT.match(rest)):
            yield match[0], begins
            begins, rest = False, rest[match.end() :]
        elif len(rest) > _LONGEST_STRETCH:
            raise ValueError(
                f"there is no place to cut in {len(rest):,} characters that begin with "
                f"{rest[:20]!r}; break the text by spaces or line ends"
            )
    if rest:
        yield rest, begins


def _sample(pieces: Iterable[_Piece]) -> Iterator[str]:
    """The beginning of the training text, to learn a vocabulary from."""
    n_bytes = 0
    for piece in pieces:
        if n_bytes >= _SAMPLE:
            return
        if piece.part == "train":
            yield piece.text
            n_bytes += len(piece.text.encode())


# ---------------------------------------------------------------------------- from pieces to files


class _Part:
    """Writes the ids of one part, and keeps count of them."""

    def __init__(self, file: BinaryIO, id_type: str) -> None:
        self.file, self.id_type = file, ID_TYPES[id_type]
        self.sha256, self.fingerprint = hashlib.sha256(), hashlib.sha256()
        self.n_tokens = self.n_bytes = 0

    def append(self, ids: list[int], n_bytes: int) -> None:
        array = np.array(ids, dtype=self.id_type)
        self.file.write(content := array.tobytes())
        self.sha256.update(content)
        # What `Corpus.fingerprint` computes from ids in memory.
        self.fingerprint.update(array.astype("<u4").tobytes())
        self.n_tokens += len(ids)
        self.n_bytes += n_bytes

    def summary(self) -> dict[str, object]:
        return {
            "tokens": self.n_tokens,
            "bytes": self.n_bytes,
            "fingerprint": self.fingerprint.hexdigest(),
            "sha256": self.sha256.hexdigest(),
        }


def _encode(
    texts: Sequence[Path],
    folder: Path,
    tokenizer: BytePairTokenizer,
    train_share: float,
    progress: bool,
) -> dict[str, object]:
    """Write the ids of all texts; returns the index."""
    bar = tokenizer.special_tokens[END_OF_TEXT]
    id_type = "uint16" if tokenizer.vocab_size <= 2**16 else "uint32"
    size = sum(text.stat().st_size for text in texts)
    pieces = _pieces(texts, train_share)
    with ExitStack() as stack:
        shown = {"total": size, "unit": "B", "unit_scale": True}
        shown = stack.enter_context(tqdm(**shown, disable=not progress))
        parts = {
            name: _Part(stack.enter_context((folder / file).open("wb")), id_type)
            for name, file in PARTS.items()
        }
        while batch := list(islice(pieces, _BATCH)):
            encoded = tokenizer.encode_batch([piece.text for piece in batch])
            for piece, ids in zip(batch, encoded, strict=True):
                n_bytes = len(piece.text.encode())
                parts[piece.part].append([bar] * piece.begins + ids, n_bytes)
                shown.update(n_bytes)
        for part in parts.values():
            part.file.flush()
            os.fsync(part.file.fileno())
    if min(part.n_tokens for part in parts.values()) < 2:
        raise ValueError(
            f"too little text: {train_share:.0%} to train on leaves a part empty"
        )
    index = {
        "format": FORMAT,
        "tokenizer": tokenizer.fingerprint,
        "dtype": id_type,
        "train_share": train_share,
        "parts": {name: part.summary() for name, part in parts.items()},
    }
    return index | {"sha256": _sha256_of_index(index)}


def _sha256_of_index(index: dict[str, object]) -> str:
    content = {name: value for name, value in index.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# ----------------------------------------------------------------------------------------- opening


def open_tokens(
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
        words = ["decoder-only", "prepare", str(folder), "--out", f"{folder}-tokens"]
        raise FileNotFoundError(
            f"{folder} holds no prepared data (no {INDEX}); give a folder that "
            "`decoder-only prepare` made, or make one of the texts in it: "
            f"{shlex.join(words)}"
        )
    index = files.read_json(folder / INDEX)
    if not _is_sound(index):
        problem = "is damaged, or was not written by this version's `prepare`"
        raise _unusable(folder / INDEX, problem)
    stored = BytePairTokenizer.load(folder / TOKENIZER)
    if stored.fingerprint != index["tokenizer"]:
        problem = "is not the tokenizer that made these tokens"
        raise _unusable(folder / TOKENIZER, problem)
    if tokenizer not in (None, stored):
        problem = f"was prepared with another tokenizer ({stored}, not {tokenizer})"
        raise _unusable(folder, problem)
    bound = stored.vocab_size if verify else None
    return Prepared(
        *(_open_part(folder, index, n, bound) for n in PARTS), stored, index
    )


def _unusable(path: Path, problem: str) -> ValueError:
    advice = "restore it from a copy, or prepare the text again"
    return ValueError(f"{path} {problem}; {advice}")


def _is_sound(index: object) -> bool:
    """Whether an index is one that `prepare` can have written; its seal proves no origin."""
    try:
        parts = [index["parts"][name] for name in PARTS]
        counts = [n for part in parts for n in (part["bytes"], part["tokens"] - 1)]
        texts = [part[name] for part in parts for name in ("fingerprint", "sha256")]
        return (
            (index["format"], index["sha256"]) == (FORMAT, _sha256_of_index(index))
            and index["dtype"] in ID_TYPES
            and all(type(n) is int and 0 < n < 2**63 for n in counts)
            and all(type(text) is str for text in texts)
        )
    except (LookupError, TypeError, AttributeError, RecursionError):
        return False


def _open_part(folder: Path, index: dict, name: str, bound: int | None) -> Corpus:
    part, id_type = index["parts"][name], ID_TYPES[index["dtype"]]
    path, size = folder / PARTS[name], part["tokens"] * id_type.itemsize
    if not path.is_file() or path.is_symlink():
        raise _unusable(path, "is missing, or no file")
    n_bytes = path.stat().st_size
    if n_bytes != size:
        raise _unusable(path, f"has {n_bytes:,} bytes instead of {size:,}")
    # A plain array on the map is faster to index than NumPy's class for maps.
    ids = np.asarray(np.memmap(path, dtype=id_type, mode="r"))
    if bound is not None:
        same = files.sha256_of_file(path) == part["sha256"]
        if not same or int(ids.max()) >= bound:
            raise _unusable(path, "is damaged")
    return Corpus(ids=ids, n_bytes=part["bytes"], known_fingerprint=part["fingerprint"])
