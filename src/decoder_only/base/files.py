"""Files that a crash leaves whole: either the old content is there, or the new.

A process can die at any moment, so no file is changed in place. It is written aside, forced onto
the disk, and renamed over the old one, which a file system does as a whole or not at all.
Chapter 9.
"""

import contextlib
import gc
import hashlib
import json
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

LOCK = ".lock"
AnyPath = str | os.PathLike[str]

_LARGEST_JSON = 2**25
_OF_VALUES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_OF_VALUES += (RecursionError,)


def open_file(path: Path, mode: str = "rb") -> BinaryIO:
    """Open a file that may lie in a stranger's folder.

    A pipe or a device could keep its reader for ever, so it is not opened at all. Nothing is
    written through a link: behind it lies a file that belongs elsewhere.

    Args:
        path: the file.
        mode: "rb" or "ab".

    Raises:
        FileNotFoundError: it is to be read, and not there.
        ValueError: something else than a file has its name.
    """
    is_read = mode == "rb"
    if is_read or os.path.lexists(path):
        found = os.stat(path, follow_symlinks=is_read)
        if not stat.S_ISREG(found.st_mode):
            wanted = (
                "and no folder, pipe or device" if is_read else "and no link; delete it"
            )
            raise ValueError(f"{path} is damaged: it must be a file, {wanted}")
    return path.open(mode)


def write_atomically(path: Path, content: bytes | Iterable[bytes | memoryview]) -> None:
    """Replace a file as a whole: written aside, forced onto the disk, renamed.

    Only one process may write a path at a time.

    Args:
        path: the file.
        content: all of it, or its pieces in order, so that no copy of the whole is made.
    """
    aside = path.with_name(f".{path.name}.part")
    try:
        aside.unlink(missing_ok=True)  # whatever it is: of a process that was killed
        with aside.open("xb") as file:
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder onto the disk: a renaming is not safe before."""
    if hasattr(os, "O_DIRECTORY"):  # Windows cannot open a folder
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sha256_of_file(path: Path) -> str:
    """The SHA-256 of a file's bytes, read in pieces."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_free(
    folder: Path,
    kind: str,
    ours: Callable[[Path], Collection[str]],
    *,
    overwrite: bool,
    beside: Collection[str] = (),
) -> None:
    """Refuse a folder that holds something, unless that may be overwritten.

    Args:
        folder: need not be there.
        kind: what is going to be in it, as an error calls it.
        ours: the names in a folder that belong to that kind; what else is there must stay.
        overwrite: what is ours may go.
        beside: names of files that do not count.

    Raises:
        FileExistsError: it is a file, or holds what may not go.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; choose a folder for {kind}")
    names = {path.name for path in folder.iterdir()}.difference(beside)
    if others := sorted(names.difference(ours(folder))):
        some = ", ".join(others[:3]) + ", …" * (len(others) > 3)
        raise FileExistsError(
            f"{folder} holds something that is not {kind} ({some}); "
            "choose a new or empty folder"
        )
    if names and not overwrite:
        raise FileExistsError(
            f"{folder} already holds {kind}; choose another folder, or allow overwriting"
        )


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from working in a folder meanwhile.

    The operating system holds the lock, and lets go of it however the process ends.

    Raises:
        OSError: another process has it, or the folder cannot be written.
    """
    with explained(folder):
        file = open_file(folder / LOCK, "ab")
    with file:
        try:
            _lock(file)
        except OSError as error:
            raise OSError(
                f"another process is at work in {folder}; stop it, or choose another folder"
            ) from error
        yield


def _lock(file: BinaryIO) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Name the folder where what fails within is due to it."""
    try:
        yield
    except OSError as error:
        raise OSError(
            f"cannot write into {folder}: {error.strerror or error}; choose another folder"
        ) from error


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Make one line that names the file of whatever fails on what it says.

    A stranger's file may hold a list where a number is due. That is looked at where the number
    is used, and not again here.

    Raises:
        ValueError: something failed that belongs to values, and not to the disk.
    """
    try:
        yield
    except _OF_VALUES as error:
        said = str(error).partition("\n")[0]
        if isinstance(error, ValueError) and str(path) in said:
            raise
        kind = f"{type(error).__name__}: " if isinstance(error, LookupError) else ""
        raise ValueError(
            f"{path} is damaged, or from another version: {kind}{said:.300}"
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """The table that a JSON file holds. It may come from a stranger: nothing is read for ever.

    Raises:
        FileNotFoundError: there is no such file, or it is a folder, a device or a pipe.
        ValueError: it is no JSON, or no table, or has more than 32 MB.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    with open_file(path) as file:
        content = file.read(_LARGEST_JSON + 1)
    try:
        if len(content) > _LARGEST_JSON:
            raise ValueError("it is larger than 32 MB")
        found = _parsed(content)
        if not isinstance(found, dict):
            raise ValueError(f"it holds a {type(found).__name__}, and must be a table")
        return found
    except RecursionError:
        raise ValueError(f"{path} is damaged: its lists are nested too deep") from None
    except ValueError as error:
        raise ValueError(
            f"{path} is no JSON file, or a damaged or truncated one: {error}"
        ) from None


def _parsed(content: bytes) -> Any:
    """JSON, read without collecting garbage, of which it makes none but much to look through."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return json.loads(content)
    finally:
        if was_enabled:
            gc.enable()
