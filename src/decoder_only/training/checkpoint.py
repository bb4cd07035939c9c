"""A run's folder: what is needed to resume a training, to repeat it, and to use the model.

    config.json                  model, training, data, seeds, versions, state of the code
    tokenizer.json               the tokenizer
    log.jsonl                    one line for each step and each evaluation
    state-00000350.safetensors   everything that step 351 needs; the last two are kept
    weights.safetensors          the weights, once the training is done

States and weights carry checksums of themselves, of config.json and of tokenizer.json. Under
"fsdp" no process holds the whole state. A state is then a folder, state-00000350, with one file
from each process. Any number of processes can read it, each only the rows that it needs.

No file is changed in place, see `files`. A file that does not match its checksum is refused, and
nothing is read by pickle, which would run code that it finds. Chapter 9.
"""

import contextlib
import itertools
import json
import os
import re
import secrets
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from decoder_only.base import files
from decoder_only.base.files import AnyPath
from decoder_only.base.provenance import provenance
from decoder_only.base.tensors import (
    SavedTensors,
    read_notes,
    read_tensors,
    write_tensors,
)
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.tokenization.tokenizer import END_OF_TEXT
from decoder_only.training.log import LOG
from decoder_only.training.processes import ALONE, Process, all_or_none, broadcast

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
WEIGHTS = "weights.safetensors"
FORMAT = "decoder-only run, format 1"

_STATE = re.compile(r"state-(\d{8,})(\.safetensors)?")


# ------------------------------------------------------------------------------------- the folder


@dataclass(frozen=True)
class Run:
    """A run's folder while this process holds its lock: no other trains in it or replaces it.

    A `Run` can be used wherever a path can.

    Attributes:
        folder: the path.
    """

    folder: Path

    def __fspath__(self) -> str:
        return str(self.folder)


@contextlib.contextmanager
def locked(folder: AnyPath) -> Iterator[Run]:
    """Keep other processes out of a run's folder within the context; see `files.locked`."""
    with files.locked(Path(folder)):
        yield Run(Path(folder))


@contextlib.contextmanager
def new_run(
    folder: AnyPath,
    *,
    model_config: GPTConfig,
    tokenizer: BytePairTokenizer,
    details: Mapping[str, object] | None = None,
    overwrite: bool = False,
) -> Iterator[Run]:
    """Make a run's folder, and keep it locked within the context.

    config.json and tokenizer.json are written here and never change.

    Args:
        folder: new or empty; its parents are made.
        model_config: the model's settings.
        tokenizer: the model's tokenizer.
        details: plain data for config.json, such as the training's settings.
        overwrite: replace a run that is in the folder already.

    Yields:
        The folder, which `train` takes as `run`.

    Raises:
        OSError: the folder holds a run and `overwrite` is False, holds anything else, cannot be
            written, or another process trains in it. Nothing was deleted.
    """
    folder = Path(folder)
    free = {"overwrite": overwrite, "ignore": [files.LOCK]}
    files.check_free(folder, "a run", _files_of_run, **free)
    with files.explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with locked(folder) as run:
        # Again: another process may have been faster.
        files.check_free(folder, "a run", _files_of_run, **free)
        config = {
            "format": FORMAT,
            "model": model_config.to_dict(),
            **(details or {}),
            "provenance": provenance(),
        }
        with files.explained(folder):
            # The weights are deleted first: a folder without them is plainly unfinished.
            _remove(folder / WEIGHTS, *_states(folder), folder / LOG)
            content = json.dumps(config, indent=2).encode() + b"\n"
            files.write_atomically(folder / CONFIG, content)
            tokenizer.save(folder / TOKENIZER)
        yield run


def create_run(folder: AnyPath, **settings: object) -> Path:
    """Make a run's folder as `new_run` does, and leave it unlocked.

    Returns:
        The folder.
    """
    with new_run(folder, **settings) as run:
        return run.folder


def new_folder(parent: AnyPath, name: str) -> Path:
    """Make the first of NAME-1, NAME-2, … that does not exist; no two processes get the same.

    Raises:
        OSError: the parent cannot be written.
    """
    parent = Path(parent)
    with files.explained(parent):
        parent.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(1):
            with contextlib.suppress(FileExistsError):
                (parent / f"{name}-{number}").mkdir()
                return parent / f"{name}-{number}"


def _files_of_run(folder: Path) -> list[str]:
    """All names in a run's folder, also of files that were not written here."""
    return os.listdir(folder) if is_run(folder) else []


def is_run(folder: AnyPath) -> bool:
    """Whether a folder holds a run, finished or not."""
    try:
        return bool(read_config(folder))
    except (OSError, ValueError):
        return False


def read_config(folder: AnyPath) -> dict[str, object]:
    """config.json of a run, as plain data.

    Raises:
        FileNotFoundError: the folder holds no run.
        ValueError: the file is damaged.
    """
    path = Path(folder) / CONFIG
    nothing = f"{folder} holds no run; give a folder that `train` made"
    if not path.is_file():
        raise FileNotFoundError(nothing)
    try:
        config = files.read_json(path)
    except ValueError as error:
        raise ValueError(
            f"{error}; put a copy in its place, or delete {folder} and train again"
        ) from None
    if config.get("format") != FORMAT:
        raise FileNotFoundError(f"{nothing} ({path} is of another program)")
    for part in ("model", "training", "data"):
        if not isinstance(config.get(part, {}), dict):
            raise ValueError(
                f"{path} is damaged: {part!r} does not hold settings by name"
            )
    return config


# -------------------------------------------------------------------------------- states, weights


def check_savable(model: nn.Module) -> None:
    """Refuse a model that `load` could not make again from its settings.

    Raises:
        ValueError: the model is of another class than `GPT`, or has other weights than
            `GPT(model.config)`, such as those of LoRA.
    """
    if type(model) is not GPT:
        raise ValueError(
            f"model of type {type(model).__name__} must be GPT itself, to be read back"
        )
    with torch.device("meta"):
        names = GPT(model.config).state_dict().keys()
    for name in sorted(model.state_dict().keys() ^ names):
        raise ValueError(
            f"a run cannot hold this model: {name} is in its weights or in GPT(model.config), but "
            "not in both; `merge_lora` merges what LoRA has added"
        )


def save(
    folder: AnyPath, weights: nn.Module | Mapping[str, Tensor], *, step: int
) -> None:
    """Write a run's weights, or replace them.

    Whenever the process dies, the folder holds either the old weights or the new ones, whole.

    Args:
        folder: made by `create_run`.
        weights: a model or its state; the dtype is kept.
        step: how many steps the weights have been trained for.

    Raises:
        ValueError: `load` could not read the model back.
    """
    if isinstance(weights, nn.Module):
        check_savable(weights)
        weights = weights.state_dict()
    folder = Path(folder)
    write_tensors(folder / WEIGHTS, weights, notes=_seal(folder, step))


@dataclass(frozen=True)
class State:
    """What a training needs to resume, as `latest_state` finds it.

    Attributes:
        step: steps taken.
        tensors: by name, as they were saved; each is read when it is looked up.
        notes: texts that were saved with the tensors.
        path: the file, or the folder of shards.
        damaged: for each newer state that cannot be used, the reason.
    """

    step: int
    tensors: SavedTensors
    notes: dict[str, str]
    path: Path
    damaged: tuple[str, ...] = ()


def save_state(
    folder: AnyPath,
    tensors: Mapping[str, Tensor],
    *,
    step: int,
    notes: Mapping[str, str] | None = None,
    keep: int = 2,
    is_last: bool = False,
    process: Process = ALONE,
) -> Path:
    """Write everything that a training needs to resume after a step.

    The log is forced onto the disk first. Processes that hold shards all call this function
    together. They write into a folder, which gets its name when the last of them is done.

    Args:
        folder: made by `create_run`.
        tensors: the model's under "model.", the rest under names of the caller's choice.
        step: steps taken.
        notes: texts to save with the tensors.
        keep: how many states to keep, because one may turn out to be damaged. Older states are
            deleted, and so are states of later steps, which could not be used.
        is_last: write the run's weights, too.
        process: this process, if the tensors are its `processes.local_copies`.

    Returns:
        The file, or the folder of shards.

    Raises:
        OSError: the state could not be written. The message names the last good state, and no
            other file has changed.
    """
    folder, path = Path(folder), state_path(folder, step, process)
    file, shard_notes = _file_of(path, process)
    notes, is_sharded = {**(notes or {}), **shard_notes}, process.n_ranks > 1
    others = [state for state in _states(folder) if state != path]
    older = [state for state in others if _step_of(state) < step]
    try:
        with all_or_none(process):
            if process.is_first:
                _prepare(folder, file.parent)
                if is_last and not is_sharded:
                    names = [name for name in tensors if name.startswith("model.")]
                    weights = {n.removeprefix("model."): tensors[n] for n in names}
                    save(folder, weights, step=step)
            file.parent.mkdir(exist_ok=True)
            write_tensors(file, tensors, notes={**notes, **_seal(folder, step)})
        with all_or_none(process):
            if is_sharded and process.is_first:
                if is_last:
                    weights = read_tensors(file.parent)[0].under("model.")
                    save(folder, weights, step=step)
                _remove(path)  # damaged, or the training would not have come here again
                os.replace(file.parent, path)
                files.sync_folder(folder)
    except OSError as error:
        if is_sharded and process.is_first:
            shutil.rmtree(file.parent, ignore_errors=True)
        rest = f"the last good state is {older[-1]}" if older else "no state was saved"
        raise OSError(
            f"cannot save {path}: {error.strerror or error}; {rest}"
        ) from error
    if process.is_first:
        # Later states are damaged, or the training would have resumed from them.
        recent = older[max(0, len(older) - keep + 1) :]
        _remove(*(state for state in others if state not in recent))
    return path


def _file_of(path: Path, process: Process) -> tuple[Path, dict[str, str]]:
    """The file of a state that this process writes, and notes by which shards are matched."""
    if process.n_ranks == 1:
        return path, {}
    number, save = process.rank + 1, broadcast(secrets.token_hex(8), process)
    folder = path.parent / f".{path.name}.{save}.part"
    notes = {"save": save, "shard": f"{number} of {process.n_ranks}"}
    return folder / f"{number:05d}.safetensors", notes


def _prepare(folder: Path, destination: Path) -> None:
    """Remove unfinished files of a process that was killed; force the log onto the disk."""
    _remove(*{*folder.glob(".*.part")} - {destination})
    if (folder / LOG).exists():
        with files.open_file(folder / LOG) as log:
            os.fsync(log.fileno())


def state_path(folder: AnyPath, step: int, process: Process = ALONE) -> Path:
    """Where the state after a number of steps is: a file, or a folder of several processes."""
    suffix = "" if process.n_ranks > 1 else ".safetensors"
    return Path(folder, f"state-{step:08d}{suffix}")


def _remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


class Saver:
    """Writes files in a background thread, one after another, so that training need not wait.

    The tensors must not change until they are written. Leaving the context waits for the last
    write, and raises its error if it failed.

    Args:
        process: this process among those that save together; see `processes.in_background`.
    """

    def __init__(self, process: Process = ALONE) -> None:
        self.process = process
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._pending: Future | None = None

    def submit(self, write: Callable[[], object]) -> None:
        """Start a write, once the write before is done.

        Raises:
            OSError: the write before has failed.
        """
        self.wait()
        self._pending = self._thread.submit(write)

    def wait(self) -> None:
        """Return once everything is written; raise the error of a write that failed."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def __enter__(self) -> "Saver":
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()
        self.wait()


def latest_state(folder: AnyPath) -> State | None:
    """The newest state of a run that is not damaged; None if the run has not saved any.

    Raises:
        ValueError: all states are damaged.
        OSError: a state cannot be read.
    """
    folder, damaged = Path(folder), []
    for path in reversed(_states(folder)):
        try:
            tensors, notes = read_tensors(path)
            step = _check_seal(folder, notes, path)
        except ValueError as error:
            damaged.append(str(error))
        else:
            return State(step, tensors, notes, path, tuple(damaged))
    if damaged:
        raise ValueError(
            f"no state can be used: {'; '.join(damaged)}; "
            f"delete the states of {folder}, and the training begins anew"
        )
    return None


def latest_notes(folder: AnyPath) -> dict[str, str]:
    """The notes of the newest state that can be read; no checksum is compared."""
    for path in reversed(_states(Path(folder))):
        # A state may be damaged, or deleted meanwhile.
        with contextlib.suppress(OSError, ValueError):
            return read_notes(path)
    return {}


def _states(folder: Path) -> list[Path]:
    """All states, the oldest first."""
    states = [path for path in folder.glob("state-*") if _STATE.fullmatch(path.name)]
    return sorted(states, key=lambda path: (_step_of(path), path.name))


def _step_of(path: Path) -> int:
    return int(_STATE.fullmatch(path.name)[1])


def _seal(folder: Path, step: int) -> dict[str, str]:
    sums = {name: files.sha256_of_file(folder / name) for name in (CONFIG, TOKENIZER)}
    return {**sums, "format": FORMAT, "step": str(step)}


def _check_seal(folder: Path, notes: Mapping[str, str], path: Path) -> int:
    """Refuse a state that belongs to another config.json or tokenizer.json; return its step."""
    if notes.get("format") != FORMAT or not str(notes.get("step")).isdecimal():
        raise ValueError(f"{path} is not of this version of decoder-only; delete it")
    for name in (CONFIG, TOKENIZER):
        if not (folder / name).exists():
            raise FileNotFoundError(
                f"{folder / name} is missing; the run cannot be read without it"
            )
        if files.sha256_of_file(folder / name) != notes.get(name):
            raise ValueError(
                f"{folder / name} is damaged or has been changed since the weights were saved; "
                "restore it, or train again"
            )
    return int(notes["step"])


@dataclass(frozen=True)
class SavedRun:
    """What `load` reads from a run's folder.

    Attributes:
        model: with its trained weights, in evaluation mode.
        tokenizer: the tokenizer that the model was trained with.
        config: config.json as plain data.
        step: how many steps the weights have been trained for.
    """

    model: GPT
    tokenizer: BytePairTokenizer
    config: dict[str, object]
    step: int


def load(folder: AnyPath, *, device: torch.device | None = None) -> SavedRun:
    """Read the model and the tokenizer of a run.

    The weights are those of weights.safetensors, or those of the newest state if the training has
    gone further.

    Args:
        folder: the run's.
        device: where the model will be; None for the CPU.

    Raises:
        FileNotFoundError: there is no such folder, no run in it, or no saved weights.
        ValueError: a file is damaged, of another program, or changed since the weights were saved.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder; give one that `train` made")
    tensors, step = _newest_weights(folder)
    config = read_config(folder)
    model = _model_from(tensors, config, folder, device).eval()
    tokenizer = BytePairTokenizer.load(folder / TOKENIZER)
    most = model.config.vocab_size
    if END_OF_TEXT not in tokenizer.special_tokens or tokenizer.vocab_size > most:
        raise ValueError(
            f"{folder / TOKENIZER} does not fit the model, which needs {END_OF_TEXT} and knows "
            f"{most} tokens: {tokenizer!r:.200}"
        )
    return SavedRun(model, tokenizer, config, step)


def _newest_weights(folder: Path) -> tuple[dict[str, Tensor], int]:
    """The weights in their own file, or of the newest state where that is further, and the step."""
    path, states = folder / WEIGHTS, _states(folder)
    tensors, step = {}, -1
    if path.exists():
        try:
            saved, notes = read_tensors(path)
            tensors = dict(saved)
        except ValueError as error:
            advice = "the newest state is used instead" if states else "train again"
            raise ValueError(f"{error}; delete {path}, and {advice}") from error
        step = _check_seal(folder, notes, path)
    if states and _step_of(states[-1]) > step:
        state = latest_state(folder)
        for reason in state.damaged:
            warnings.warn(f"passed over: {reason}", stacklevel=3)
        return dict(state.tensors.under("model.")), state.step
    if not tensors:
        read_config(folder)
        raise FileNotFoundError(
            f"{folder} holds a run without weights: it ended before a save"
        )
    return tensors, step


def _model_from(
    tensors: dict[str, Tensor], config: dict, folder: Path, device: torch.device | None
) -> GPT:
    mismatch = f"the weights in {folder} do not fit the model in {CONFIG}: "
    with files.reading(folder / CONFIG):
        model_config = GPTConfig(**config["model"])
    # Counted first: a config that claims a billion blocks would exhaust the machine.
    n = len({name.split(".")[1] for name in tensors if name.startswith("blocks.")})
    if n != model_config.n_layers:
        raise ValueError(
            f"{mismatch}blocks.0 to blocks.{n - 1}, not {model_config.n_layers} blocks"
        )
    try:
        with torch.device("meta"):
            model = GPT(model_config)
    except RuntimeError as error:  # sizes that no number of 64 bits holds
        raise ValueError(f"{mismatch}{error}") from error
    empty = model.state_dict()
    for name in sorted(empty.keys() | tensors.keys()):
        shapes = [tuple(x[name].shape) if name in x else None for x in (tensors, empty)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"{mismatch}{name} has shape {shapes[0]}, not {shapes[1]}")
        tensors[name] = tensors[name].to(device or "cpu", empty[name].dtype)
    model.load_state_dict(tensors, assign=True)
    return model
