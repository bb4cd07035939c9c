"""A run's log: a line of JSON for each step and each evaluation.

The last line may be incomplete if the process was killed. A training that resumes from a saved
state takes the steps after that state again, so their lines are removed first. Chapter 9.
"""

import json
import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from decoder_only.base.files import AnyPath, explained, open_file, write_atomically

LOG = "log.jsonl"
_LARGEST = 2**28  # bytes: two million steps


def read_log(folder: AnyPath) -> list[dict[str, object]]:
    """Read a run's log: a record for each line, each with its step.

    Damaged lines are left out with a warning. An incomplete last line is left out without one.

    Raises:
        OSError: the log cannot be read.
        ValueError: the log is a pipe or a device, or too large.
    """
    records, damaged = _parse(_log_lines(folder))
    if damaged:
        warnings.warn(
            f"{Path(folder) / LOG}: {len(damaged)} damaged lines were left out",
            stacklevel=2,
        )
    return records


def cut_log(folder: AnyPath, *, step: int) -> None:
    """Remove the lines of later steps from a run's log.

    Damaged lines are moved to the file log.damaged, with a warning. The log is written anew, so it
    is a file in this folder even if a link had its name.
    """
    path, lines = Path(folder) / LOG, _log_lines(folder)
    records, damaged = _parse(lines)
    if damaged:
        other = path.with_suffix(".damaged")
        write_atomically(other, b"".join(damaged))
        message = f"{len(damaged)} damaged lines of {path} were moved to {other}"
        warnings.warn(message, stacklevel=2)
    with explained(path.parent):
        write_atomically(path, _lines([r for r in records if r["step"] <= step]))


def append_log(folder: AnyPath, *records: Mapping[str, object]) -> None:
    """Append a line for each record to a run's log.

    Raises:
        OSError: the log cannot be written.
    """
    path = Path(folder) / LOG
    try:
        with open_file(path, "ab") as file:
            file.write(_lines(records))
    except OSError as error:
        raise OSError(
            f"cannot write {path}: {error.strerror or error}; make room, and resume the run"
        ) from error


def _lines(records: Iterable[Mapping[str, object]]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _log_lines(folder: AnyPath) -> list[bytes]:
    path = Path(folder) / LOG
    if not path.exists():
        return []
    with open_file(path) as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"{path} has more than {_LARGEST:,} bytes; move it elsewhere")
    return content.splitlines(keepends=True)


def _parse(lines: list[bytes]) -> tuple[list[dict[str, object]], list[bytes]]:
    """The records and the damaged lines; an incomplete last line is in neither list."""
    records, damaged = [], []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            # Every record has its step, and all that was measured is a number.
            if type(record["step"]) is not int or not 0 <= record["step"] < 2**31:
                raise ValueError("no step")
            if not all(map(_is_measured, record.values())):
                raise ValueError("no number")
            records.append(record)
        except (ValueError, TypeError, KeyError, RecursionError):
            if number < len(lines):
                damaged.append(line)
    return records, damaged


def _is_measured(value: object) -> bool:
    number = isinstance(value, int | float)  # True and False, too
    return value is None or (number and abs(value) <= sys.float_info.max)
