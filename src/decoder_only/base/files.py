"""Files that a crash leaves whole: either the old content is there, or the new.

A process can die at any moment, so no file is changed in place. The new content is written to
another file, forced onto the disk, and renamed over the old one. A file system does a renaming as
a whole or not at all. Chapter 9.
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
_BAD_VALUE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_BAD_VALUE += (RecursionError,)


def open_file(path: Path, mode: str = "rb") -> BinaryIO:
    """Open a file in a folder that may come from a stranger.

    A pipe or a device could keep its reader waiting for ever, so neither is opened. Nothing is
    written through a link, which may lead to a file outside the folder.

    Args:
        path: the file.
        mode: "rb" or "ab".

    Raises:
        FileNotFoundError: the file is to be read, and is not there.
        ValueError: the path is a folder, a pipe or a device, or a link that would be written to.
    """
    is_read = mode == "rb"
    if not is_read and not os.path.lexists(path):
        return path.open(mode)
    if not stat.S_ISREG(os.stat(path, follow_symlinks=is_read).st_mode):
        others = "folder, pipe or device" if is_read else "link; delete it"
        raise ValueError(f"{path} is damaged: it must be a file, and no {others}")
    return path.open(mode)


def write_atomically(path: Path, content: bytes | Iterable[bytes | memoryview]) -> None:
    """Replace a file as a whole: write another, force it onto the disk, rename it.

    Only one process may write a path at a time.

    Args:
        path: the file.
        content: the bytes, or pieces of them in order, so that no copy of the whole is made.
    """
    new = path.with_name(f".{path.name}.part")
    try:
        new.unlink(missing_ok=True)  # left by a process that was killed
        with new.open("xb") as file:
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder onto the disk; before that, a renaming may be lost."""
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
    replaceable: Callable[[Path], Collection[str]],
    *,
    overwrite: bool,
    ignore: Collection[str] = (),
) -> None:
    """Refuse a folder that is not empty, unless its content may be overwritten.

    Args:
        folder: need not be there.
        kind: what the folder is going to hold, in the words of an error message.
        replaceable: gives the names in a folder that belong to this kind. Anything else in the
            folder must stay.
        overwrite: files of this kind may be replaced.
        ignore: names of files that do not count.

    Raises:
        FileExistsError: the path is a file, or the folder holds what may not be replaced.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; choose a folder for {kind}")
    names = {path.name for path in folder.iterdir()}.difference(ignore)
    if others := sorted(names.difference(replaceable(folder))):
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
    """Keep other processes out of a folder within the context.

    The operating system holds the lock, and releases it however the process ends.

    Raises:
        OSError: another process holds the lock, or the folder cannot be written.
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
    """Name the folder in every OSError that is raised within the context."""
    try:
        yield
    except OSError as error:
        raise OSError(
            f"cannot write into {folder}: {error.strerror or error}; choose another folder"
        ) from error


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what fails on the content of a file into one line that names the file.

    A file from a stranger may hold a list in the place of a number. That fails where the number is
    used, with an error of any kind.

    Raises:
        ValueError: something failed on a value, and not on the disk.
    """
    try:
        yield
    except _BAD_VALUE as error:
        reason = str(error).partition("\n")[0]
        if isinstance(error, ValueError) and str(path) in reason:
            raise
        kind = f"{type(error).__name__}: " if isinstance(error, LookupError) else ""
        raise ValueError(
            f"{path} is damaged, or from another version: {kind}{reason:.300}"
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """Read the table in a JSON file, which may come from a stranger.

    Raises:
        FileNotFoundError: there is no such file, or the path is a folder, a device or a pipe.
        ValueError: the file is not JSON, holds no table, or has more than 32 MB.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    with open_file(path) as file:
        content = file.read(_LARGEST_JSON + 1)
    try:
        if len(content) > _LARGEST_JSON:
            raise ValueError("it is larger than 32 MB")
        table = _parsed(content)
        if not isinstance(table, dict):
            raise ValueError(f"it holds a {type(table).__name__}, and must be a table")
        return table
    except RecursionError:
        raise ValueError(f"{path} is damaged: its lists are nested too deep") from None
    except ValueError as error:
        raise ValueError(
            f"{path} is no JSON file, or a damaged or truncated one: {error}"
        ) from None


def _parsed(content: bytes) -> Any:
    """Parse JSON with the garbage collector off: parsing makes no garbage, but many objects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return json.loads(content)
    finally:
        if was_enabled:
            gc.enable()
