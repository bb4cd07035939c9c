"""A run's folder: what is needed to go on with a training, to repeat it, and to use the model.

    config.json                  model, training, data, seeds, versions, state of the code
    tokenizer.json               the tokenizer
    log.jsonl                    one line for each step and each evaluation
    state-00000350.safetensors   everything that step 351 needs; the last two are kept
    weights.safetensors          the weights, once the training is done

The last two kinds carry a seal: checksums of themselves, config.json and tokenizer.json.

A process can die at any moment, so no file is changed in place. It is written aside, forced onto
the disk, and renamed over the old one, which a file system does as a whole or not at all. What
does not match its checksum is refused, and nothing is read by pickle, which would run code that
it finds. Chapter 9.
"""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import numpy
import safetensors.torch
import torch
from torch import Tensor, nn

from decoder_only.config import GPTConfig
from decoder_only.engine.files import write_atomically
from decoder_only.model import GPT
from decoder_only.tokenization import BytePairTokenizer

__all__ = [
    "SavedRun",
    "State",
    "append_log",
    "create_run",
    "cut_log",
    "latest_state",
    "load",
    "locked",
    "provenance",
    "read_config",
    "read_log",
    "read_tensors",
    "save",
    "save_state",
    "write_tensors",
]

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
WEIGHTS, LOG = "weights.safetensors", "log.jsonl"
FORMAT = "decoder-only run, format 1"

_BLANK = "0" * 64
_DIGEST = re.compile(rb'"sha256":"([0-9a-f]{64})"')


@dataclass(frozen=True)
class SavedRun:
    """What `load` finds in a run's folder.

    Attributes:
        model: with its trained weights, in evaluation mode.
        tokenizer: the one that the model was trained with.
        config: config.json as plain data.
        step: steps that the weights have been trained for.
    """

    model: GPT
    tokenizer: BytePairTokenizer
    config: dict[str, object]
    step: int


def create_run(
    folder: str | Path,
    *,
    model_config: GPTConfig,
    tokenizer: BytePairTokenizer,
    details: Mapping[str, object] | None = None,
    overwrite: bool = False,
) -> Path:
    """Begin a run's folder: config.json and tokenizer.json, which then never change.

    Args:
        folder: new or empty; its parents are made.
        model_config: the model's shape.
        tokenizer: the model's tokenizer.
        details: plain data for config.json, such as the training's settings.
        overwrite: take the place of a run that is in the folder already.

    Returns:
        The folder.

    Raises:
        OSError: the folder holds a run and `overwrite` is False, holds anything else, or cannot
            be written. Nothing was changed then.
    """
    folder = Path(folder)
    _check_free(folder, overwrite)
    config = {
        "format": FORMAT,
        "model": model_config.to_dict(),
        **(details or {}),
        "provenance": provenance(),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The weights go first: a folder without them is plainly unfinished.
        for old in (folder / WEIGHTS, *_states(folder), folder / LOG):
            old.unlink(missing_ok=True)
        write_atomically(folder / CONFIG, json.dumps(config, indent=2).encode() + b"\n")
        tokenizer.save(folder / TOKENIZER)
    except OSError as error:
        reason = error.strerror or error
        raise OSError(
            f"cannot write into {folder}: {reason}; choose another folder"
        ) from error
    return folder


def _check_free(folder: Path, overwrite: bool) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; choose a folder for the run")
    if _is_run(folder):
        if not overwrite:
            raise FileExistsError(
                f"{folder} already holds a run; choose another folder, or allow overwriting"
            )
    elif names := sorted(path.name for path in folder.iterdir()):
        raise FileExistsError(
            f"{folder} holds something that is not a run ({', '.join(names[:3])}, …); "
            "choose a new or empty folder"
        )


def _is_run(folder: Path) -> bool:
    try:
        return json.loads((folder / CONFIG).read_bytes())["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        return False


def save(
    folder: str | Path, weights: nn.Module | Mapping[str, Tensor], *, step: int
) -> None:
    """Write a run's weights, in place of those that were there.

    Whenever the process dies, the folder holds either the old weights or the new ones, whole.

    Args:
        folder: made by `create_run`.
        weights: a model or its state, saved in its own dtype.
        step: steps that they have been trained for.
    """
    folder = Path(folder)
    tensors = weights.state_dict() if isinstance(weights, nn.Module) else weights
    write_tensors(folder / WEIGHTS, tensors, notes=_seal(folder, step))


@dataclass(frozen=True)
class State:
    """What a training needs to go on, as `latest_state` finds it.

    Attributes:
        step: steps taken.
        tensors: by name, as they were saved.
        notes: what was noted beside them.
        path: the file.
        damaged: newer files that could not be used, each with the reason.
    """

    step: int
    tensors: dict[str, Tensor]
    notes: dict[str, str]
    path: Path
    damaged: tuple[str, ...] = ()


def save_state(
    folder: str | Path,
    tensors: Mapping[str, Tensor],
    *,
    step: int,
    notes: Mapping[str, str] | None = None,
    keep: int = 2,
) -> Path:
    """Write everything that a training needs to go on from a step.

    Args:
        folder: made by `create_run`.
        tensors: the model's under "model.", the rest under names of the caller's choice.
        step: steps taken.
        notes: texts to be kept with them.
        keep: older states stay until so many are there; one may turn out to be damaged.

    Returns:
        The file.

    Raises:
        OSError: it could not be written, with the last good state named. Nothing else changed.
    """
    folder = Path(folder)
    path = folder / f"state-{step:08d}.safetensors"
    for leftover in folder.glob(".*.part"):  # of a process that was killed while saving
        leftover.unlink(missing_ok=True)
    older = [state for state in _states(folder) if state != path]
    try:
        write_tensors(path, tensors, notes={**(notes or {}), **_seal(folder, step)})
    except OSError as error:
        rest = f"the last good state is {older[-1]}" if older else "no state was saved"
        raise OSError(
            f"cannot save {path}: {error.strerror or error}; {rest}"
        ) from error
    for superseded in older[: max(0, len(older) - keep + 1)]:
        superseded.unlink()
    return path


def latest_state(folder: str | Path) -> State | None:
    """The newest state of a run that is whole, or None if the run has not saved any.

    Raises:
        ValueError: there are states, but all are damaged.
    """
    damaged = []
    for path in reversed(_states(Path(folder))):
        try:
            tensors, notes = read_tensors(path)
            _check_seal(Path(folder), notes)
        except ValueError as error:
            damaged.append(str(error))
        else:
            return State(int(notes["step"]), tensors, notes, path, tuple(damaged))
    if damaged:
        raise ValueError("no state can be used: " + "; ".join(damaged))
    return None


def _states(folder: Path) -> list[Path]:
    """The files of all states, the oldest first."""
    return sorted(folder.glob("state-*.safetensors"))


def _seal(folder: Path, step: int) -> dict[str, str]:
    sums = {name: _sha256((folder / name).read_bytes()) for name in (CONFIG, TOKENIZER)}
    return {**sums, "format": FORMAT, "step": str(step)}


def _check_seal(folder: Path, notes: Mapping[str, str]) -> None:
    for name in (CONFIG, TOKENIZER):
        if not (folder / name).exists():
            raise FileNotFoundError(
                f"{folder / name} is missing; the run cannot be read without"
            )
        if _sha256((folder / name).read_bytes()) != notes.get(name):
            raise ValueError(
                f"{folder / name} is damaged or has been changed since the weights were saved; "
                "restore it, or train again"
            )


@contextlib.contextmanager
def locked(folder: str | Path) -> Iterator[None]:
    """Keep other processes from training in a folder meanwhile.

    The operating system holds the lock, and lets go of it however the process ends.

    Raises:
        OSError: another process has it.
    """
    with (Path(folder) / ".lock").open("ab") as file:
        try:
            _lock(file)
        except OSError as error:
            raise OSError(
                f"another process is training in {folder}; stop it, or choose another folder"
            ) from error
        yield


def _lock(file: BinaryIO) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def load(folder: str | Path, *, device: torch.device | None = None) -> SavedRun:
    """The model and tokenizer of a run's folder, on the CPU or the device given.

    Of a training that is done, its weights; of one that is not, those of its newest state.

    Raises:
        FileNotFoundError: no such folder, not a run, or a run that has not saved anything yet.
        ValueError: a file that is damaged, foreign, or changed since the weights were saved.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder; give one that `train` made")
    if (folder / WEIGHTS).exists():
        tensors, notes = read_tensors(folder / WEIGHTS)
        _check_seal(folder, notes)
        step = int(notes["step"])
    elif not _is_run(folder):
        raise FileNotFoundError(
            f"{folder} holds no run; give a folder that `train` made"
        )
    elif state := latest_state(folder):
        own = {n: x for n, x in state.tensors.items() if n.startswith("model.")}
        tensors = {name.removeprefix("model."): x for name, x in own.items()}
        step = state.step
    else:
        raise FileNotFoundError(
            f"{folder} holds a run without weights: it ended before a save"
        )
    config = json.loads((folder / CONFIG).read_bytes())
    model = _model_from(tensors, config, folder).eval()
    return SavedRun(
        model=model if device is None else model.to(device),
        tokenizer=BytePairTokenizer.load(folder / TOKENIZER),
        config=config,
        step=step,
    )


def _model_from(tensors: dict[str, Tensor], config: dict, folder: Path) -> GPT:
    try:
        # Its first weights are drawn only to be replaced.
        with torch.random.fork_rng(devices=[]):
            model = GPT(GPTConfig(**config["model"]))
        missing, unexpected = model.load_state_dict(tensors, strict=False)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{folder} was written by another version of this package: {error}"
        ) from error
    if missing or unexpected:
        raise ValueError(
            f"the weights in {folder} do not fit the model in {CONFIG}: missing {sorted(missing)}, "
            f"unexpected {sorted(unexpected)}"
        )
    return model


def write_tensors(
    path: str | Path, tensors: Mapping[str, Tensor], *, notes: Mapping[str, str]
) -> None:
    """Write tensors as one safetensors file that carries its own SHA-256.

    The checksum covers every byte of the file, with zeros in its own place.

    Args:
        path: the file; the old one stays until the new one is whole.
        tensors: by name.
        notes: what else the file's header should say.
    """
    tensors = {
        name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()
    }
    content = safetensors.torch.save(tensors, metadata={**notes, "sha256": _BLANK})
    digest = _sha256(content)
    sealed = content.replace(
        f'"sha256":"{_BLANK}"'.encode(), f'"sha256":"{digest}"'.encode(), 1
    )
    write_atomically(Path(path), sealed)


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the notes of a file that `write_tensors` wrote.

    Raises:
        ValueError: another program wrote the file, or a byte of it has changed.
    """
    content = Path(path).read_bytes()
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]
    found = _DIGEST.search(header)
    if found is None:
        raise ValueError(
            f"{path} is damaged, or was not written by decoder-only: no checksum"
        )
    blank = f'"sha256":"{_BLANK}"'.encode()
    if _sha256(content.replace(found[0], blank, 1)) != found[1].decode():
        raise ValueError(f"{path} is damaged: its bytes do not match its checksum")
    return safetensors.torch.load(content), json.loads(header)["__metadata__"]


def read_config(folder: str | Path) -> dict[str, object]:
    """config.json of a run, as plain data.

    Raises:
        FileNotFoundError: the folder holds no run.
    """
    if not _is_run(Path(folder)):
        raise FileNotFoundError(
            f"{folder} holds no run; give a folder that `train` made"
        )
    return json.loads((Path(folder) / CONFIG).read_bytes())


def read_log(folder: str | Path) -> list[dict[str, object]]:
    """A run's log, a record for each line. A last line that was cut short is left out."""
    path = Path(folder) / LOG
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    records = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(json.loads(line))
        except ValueError:
            if number < len(lines):
                raise ValueError(
                    f"{path} is damaged: line {number} is not JSON"
                ) from None
    return records


def cut_log(folder: str | Path, *, step: int) -> list[dict[str, object]]:
    """Take back what the log says of later steps, and return the rest."""
    kept = [record for record in read_log(folder) if record["step"] <= step]
    content = "".join(json.dumps(record) + "\n" for record in kept)
    write_atomically(Path(folder) / LOG, content.encode())
    return kept


def append_log(folder: str | Path, record: Mapping[str, object]) -> None:
    """Add one line to a run's log."""
    with (Path(folder) / LOG).open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def provenance() -> dict[str, object]:
    """When and with what a run was made: time, versions, machine, state of the code."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "decoder_only": _package_version(),
        "git": _git_state(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": platform.platform(),
    }


def _package_version() -> str | None:
    try:
        return importlib.metadata.version("decoder-only")
    except importlib.metadata.PackageNotFoundError:
        return None


def _git_state() -> dict[str, object] | None:
    """The commit of the package's source, where it is a git checkout."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.strip()

    try:
        # An installed package may lie inside somebody else's repository.
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return {
            "commit": git("rev-parse", "HEAD"),
            "changed": bool(git("status", "--porcelain")),
        }
    except (OSError, subprocess.SubprocessError):
        return None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
