"""A run's log: a line of JSON for each step and each evaluation.

A process that is killed may cut the last line short, and what was logged after the last saved
state has not happened for a training that goes on from there. Chapter 9.
"""

import json
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

from decoder_only.base.files import AnyPath, explained, open_file, write_atomically

LOG = "log.jsonl"
_LARGEST = 2**28  # bytes: two million steps


def read_log(folder: AnyPath) -> list[dict[str, object]]:
    """A run's log, a record for each line, each with its step.

    A damaged line is left out with a warning; the last one, if it was cut short, without.

    Raises:
        OSError: it cannot be read.
        ValueError: it is a pipe or a device, or too large.
    """
    records, damaged = _parse(_log_lines(folder))
    if damaged:
        warnings.warn(
            f"{Path(folder) / LOG}: {len(damaged)} damaged lines were left out",
            stacklevel=2,
        )
    return records


def cut_log(folder: AnyPath, *, step: int) -> None:
    """Take back what the log says of later steps.

    The log is then a file of this folder, whatever it was: no other name and no link leads to it.
    Damaged lines are moved to a file beside it, with a warning.
    """
    path, lines = Path(folder) / LOG, _log_lines(folder)
    records, damaged = _parse(lines)
    if damaged:
        aside = path.with_suffix(".damaged")
        write_atomically(aside, b"".join(damaged))
        warnings.warn(
            f"{len(damaged)} damaged lines of {path} were moved to {aside}",
            stacklevel=2,
        )
    kept = [record for record in records if record["step"] <= step]
    content = "".join(json.dumps(record) + "\n" for record in kept).encode()
    with explained(path.parent):
        write_atomically(path, content)


def append_log(folder: AnyPath, *records: Mapping[str, object]) -> None:
    """Add lines to a run's log.

    Raises:
        OSError: it cannot be written.
    """
    path = Path(folder) / LOG
    try:
        with open_file(path, "ab") as file:
            file.writelines(json.dumps(record).encode() + b"\n" for record in records)
    except OSError as error:
        raise OSError(
            f"cannot write {path}: {error.strerror or error}; make room, and go on from the last "
            "state"
        ) from error


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
    """Records, and damaged lines; not the last one, which a killed process may have cut short."""
    records, damaged = [], []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            # A step is what places a record; all else that is measured is a number.
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
