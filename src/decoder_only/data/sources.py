"""Where texts come from: files, folders, standard input, Tiny Shakespeare."""

import codecs
import contextlib
import hashlib
import os
import shlex
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from decoder_only.base import files

_SHAKESPEARE_URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
_SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
_SHAKESPEARE_BYTES = 1_115_394
_SUFFIXES = (".txt", ".md")
_LARGEST_TEXT = 2_000_000_000
_CHUNK = 2**17


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is a folder, a device or a pipe, is empty, too large for memory, or is not
            UTF-8.
    """
    path = Path(path)
    check_text_file(path)
    if path.stat().st_size > _LARGEST_TEXT:
        raise ValueError(
            f"{path} has more than {_LARGEST_TEXT / 1e9:.0f} GB; make tokens of it first, and "
            f"learn from those: decoder-only prepare {shlex.quote(str(path))} --out tokens"
        )
    with path.open("rb") as file:
        text = "".join(read_chunks(file, str(path)))
    if not text:
        raise ValueError(f"{path} is empty; give a file with text")
    return text


def read_chunks(
    file: BinaryIO, name: str, first: int = 0, last: int | None = None
) -> Iterator[str]:
    """The UTF-8 text of an open file, line ends as they are, in pieces.

    Args:
        file: open for reading bytes.
        name: what an error calls it.
        first, last: from which byte on, and up to which; by default all.

    Raises:
        ValueError: it is not UTF-8.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    file.seek(first)
    block = b"\n"
    while block:
        block = file.read(_CHUNK if last is None else min(_CHUNK, last - file.tell()))
        try:
            yield decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            at = file.tell() - len(error.object) + error.start
            raise ValueError(
                f"{name} is not UTF-8 text: byte {at} is "
                f"0x{error.object[error.start]:02x}; convert it to UTF-8 first"
            ) from None


def check_text_file(path: Path) -> None:
    """Refuse what is not a file, before it is opened: a device may never end, a pipe may hang.

    Raises:
        FileNotFoundError: there is nothing there.
        ValueError: it is a folder, a device or a pipe.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist (looked in {Path.cwd()})")
    if path.is_dir():
        raise ValueError(
            f"{path} is a folder; make tokens of its texts first, and learn from those: "
            f"decoder-only prepare {shlex.quote(str(path))} --out tokens"
        )
    if not path.is_file():
        raise ValueError(
            f"{path} is a device or a pipe, not a file; read a pipe as standard input: "
            "decoder-only prepare - --out tokens"
        )


def text_files(folder: Path) -> list[Path]:
    """The .txt and .md files in a folder, at any depth, in the order of their paths.

    Raises:
        FileNotFoundError: there are none.
    """
    names = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    visible = [
        folder / name
        for name in names
        if name.suffix.lower() in _SUFFIXES and (folder / name).is_file()
        if not any(part.startswith(".") for part in name.parts)
    ]
    if not visible:
        raise FileNotFoundError(
            f"{folder} holds no text: no file there ends in {' or '.join(_SUFFIXES)}"
        )
    return visible


def tiny_shakespeare(
    cache: str | Path | None = None, *, url: str = _SHAKESPEARE_URL
) -> str:
    """40,000 lines of Shakespeare in one file of 1.1 MB (Karpathy, 2015).

    Looks for `tinyshakespeare.txt` in the folder that the environment variable
    `DECODER_ONLY_DATA` names, then in the cache, and else downloads it into the cache. The
    checksum is verified every time.

    Args:
        cache: folder for the downloaded file; by default `decoder-only` in the user's cache
            folder.
        url: where it is downloaded from.

    Raises:
        ValueError: the file that was found or downloaded is not the expected one.
        OSError: it was not found, and cannot be downloaded.
    """
    name = "tinyshakespeare.txt"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cached = Path(cache or home / "decoder-only") / name
    named = os.environ.get("DECODER_ONLY_DATA")
    candidates = ([Path(named) / name] if named else []) + [cached]
    for path in candidates:
        if path.is_file():
            return _checked_shakespeare(path.read_bytes(), path).decode()
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            content = response.read(_SHAKESPEARE_BYTES + 1)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        looked = " or ".join(str(path) for path in candidates)
        raise OSError(
            f"Tiny Shakespeare is neither at {looked} nor could it be downloaded from {url} "
            f"({error}); download it elsewhere and put it there"
        ) from None
    _checked_shakespeare(content, url)
    with contextlib.suppress(OSError):  # without a cache it is downloaded again
        cached.parent.mkdir(parents=True, exist_ok=True)
        with files.locked(cached.parent):  # another process may fetch it, too
            files.write_atomically(cached, content)
    return content.decode()


def _checked_shakespeare(content: bytes, origin: str | Path) -> bytes:
    if hashlib.sha256(content).hexdigest() != _SHAKESPEARE_SHA256:
        raise ValueError(
            f"{origin} is not Tiny Shakespeare: its SHA-256 is not the published one "
            f"(it has {len(content):,} bytes, expected {_SHAKESPEARE_BYTES:,}); "
            "delete it, and it is downloaded again"
        )
    return content
