"""A run's folder: what is needed to go on with a training, to repeat it, and to use the model.

    config.json                  model, training, data, seeds, versions, state of the code
    tokenizer.json               the tokenizer
    log.jsonl                    one line for each step and each evaluation
    state-00000350.safetensors   everything that step 351 needs; the last two are kept
    weights.safetensors          the weights, once the training is done

The last two kinds carry a seal: checksums of themselves, config.json and tokenizer.json. Where no
process holds the whole ("fsdp"), a state is a folder state-00000350, into which each wrote what it
has. It is read by any number of processes, each of which takes the rows that it needs.

No file is changed in place, see `files`. What does not match its checksum is refused, and nothing
is read by pickle, which would run code that it finds. Chapter 9.
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
from decoder_only.base.files import (
    AnyPath,
    read_json,
    reading,
    sha256_of_file,
    sync_folder,
    write_atomically,
)
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

    Attributes:
        folder: where it is. A `Run` can stand wherever a path can.
    """

    folder: Path

    def __fspath__(self) -> str:
        return str(self.folder)


@contextlib.contextmanager
def locked(folder: AnyPath) -> Iterator[Run]:
    """A run's folder, kept from other processes meanwhile: see `files.locked`."""
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
    """Begin a run's folder, and keep it locked: config.json and tokenizer.json never change.

    Args:
        folder: new or empty; its parents are made.
        model_config: the model's shape.
        tokenizer: the model's tokenizer.
        details: plain data for config.json, such as the training's settings.
        overwrite: take the place of a run that is in the folder already.

    Yields:
        The folder, which `train` takes as `run`.

    Raises:
        OSError: the folder holds a run and `overwrite` is False, holds anything else, cannot be
            written, or another process trains in it. Nothing was deleted then.
    """
    folder = Path(folder)
    free = {"overwrite": overwrite, "beside": [files.LOCK]}
    files.check_free(folder, "a run", _ours, **free)
    with files.explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with locked(folder) as run:
        # Again: another process may have been faster.
        files.check_free(folder, "a run", _ours, **free)
        config = {
            "format": FORMAT,
            "model": model_config.to_dict(),
            **(details or {}),
            "provenance": provenance(),
        }
        with files.explained(folder):
            # The weights go first: a folder without them is plainly unfinished.
            _remove(folder / WEIGHTS, *_states(folder), folder / LOG)
            content = json.dumps(config, indent=2).encode() + b"\n"
            write_atomically(folder / CONFIG, content)
            tokenizer.save(folder / TOKENIZER)
        yield run


def create_run(folder: AnyPath, **settings: object) -> Path:
    """Begin a run's folder as `new_run` does, and leave it unlocked.

    Returns:
        The folder.
    """
    with new_run(folder, **settings) as run:
        return run.folder


def new_folder(parent: AnyPath, name: str) -> Path:
    """Make the first of NAME-1, NAME-2, … that is not there; no two processes get the same.

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


def _ours(folder: Path) -> list[str]:
    """A run may hold anything beside what is written here: all of it is the run's."""
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
        config = read_json(path)
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
        ValueError: it is not a `GPT` as such, or has other weights than its settings say.
    """
    if type(model) is not GPT:
        raise ValueError(
            f"model of type {type(model).__name__} must be GPT itself, to be read back"
        )
    with torch.device("meta"):
        names = GPT(model.config).state_dict().keys()
    own = model.state_dict().keys()
    for name in (*sorted(own - names), *sorted(names - own)):
        raise ValueError(
            f"a run cannot hold this model: {name} is in its weights or in GPT(model.config), but "
            "not in both; `merge_lora` takes additions in"
        )


def save(
    folder: AnyPath, weights: nn.Module | Mapping[str, Tensor], *, step: int
) -> None:
    """Write a run's weights, in place of those that were there.

    Whenever the process dies, the folder holds either the old weights or the new ones, whole.

    Args:
        folder: made by `create_run`.
        weights: a model or its state, saved in its own dtype.
        step: steps that they have been trained for.

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
    """What a training needs to go on, as `latest_state` finds it.

    Attributes:
        step: steps taken.
        tensors: by name, as they were saved; read when they are asked for.
        notes: what was noted beside them.
        path: the file, or the folder of shards.
        damaged: newer states that could not be used, each with the reason.
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
    """Write everything that a training needs to go on from a step, after its log.

    Several processes, each of which has shards, call it at once. They write into a folder, which
    gets its name when the last of them is done.

    Args:
        folder: made by `create_run`.
        tensors: the model's under "model.", the rest under names of the caller's choice.
        step: steps taken.
        notes: texts to be kept with them.
        keep: older states stay until so many are there; one may turn out to be damaged. Those of
            later steps, which the training passed over, go.
        is_last: write the weights of the run, too.
        process: this one, if the tensors are what `processes.local_copies` gives it.

    Returns:
        The file, or the folder of shards.

    Raises:
        OSError: it could not be written, with the last good state named. Nothing else changed.
    """
    folder, path = Path(folder), state_path(folder, step, process)
    file, of_shard = _file_of(path, process)
    notes, is_sharded = {**(notes or {}), **of_shard}, process.n_ranks > 1
    others = [state for state in _states(folder) if state != path]
    older = [state for state in others if _step_of(state) < step]
    try:
        with all_or_none(process):
            if process.is_first:
                _prepare(folder, file.parent)
                if is_last and not is_sharded:
                    save(folder, _of_model(tensors), step=step)
            file.parent.mkdir(exist_ok=True)
            write_tensors(file, tensors, notes={**notes, **_seal(folder, step)})
        with all_or_none(process):
            if is_sharded and process.is_first:
                if is_last:
                    weights = read_tensors(file.parent)[0].under("model.")
                    save(folder, weights, step=step)
                _replace_folder(file.parent, path)
    except OSError as error:
        if is_sharded and process.is_first:
            shutil.rmtree(file.parent, ignore_errors=True)
        rest = f"the last good state is {older[-1]}" if older else "no state was saved"
        raise OSError(
            f"cannot save {path}: {error.strerror or error}; {rest}"
        ) from error
    if process.is_first:
        # Later ones are damaged, or the training would have gone on from there.
        recent = older[max(0, len(older) - keep + 1) :]
        _remove(*(state for state in others if state not in recent))
    return path


def _file_of(path: Path, process: Process) -> tuple[Path, dict[str, str]]:
    """The file that this process writes of a state, and notes that tell which shards fit."""
    if process.n_ranks == 1:
        return path, {}
    number, save = process.rank + 1, broadcast(secrets.token_hex(8), process)
    folder = path.parent / f".{path.name}.{save}.part"
    notes = {"save": save, "shard": f"{number} of {process.n_ranks}"}
    return folder / f"{number:05d}.safetensors", notes


def _prepare(folder: Path, destination: Path) -> None:
    """Remove what a process left that was killed while saving; have the log on the disk."""
    _remove(*{*folder.glob(".*.part")} - {destination})
    if (folder / LOG).exists():
        with files.open_file(folder / LOG) as log:
            os.fsync(log.fileno())


def _of_model(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The model's own tensors, by their names in it."""
    prefix = "model."
    return {
        name.removeprefix(prefix): x
        for name, x in tensors.items()
        if name.startswith(prefix)
    }


def state_path(folder: AnyPath, step: int, process: Process = ALONE) -> Path:
    """The file of the state after so many steps, or the folder of several processes."""
    suffix = "" if process.n_ranks > 1 else ".safetensors"
    return Path(folder, f"state-{step:08d}{suffix}")


def _replace_folder(part: Path, path: Path) -> None:
    """Give a folder of shards its name, when all are in it."""
    _remove(path)  # a damaged one: the training went on from one before it
    os.replace(part, path)
    sync_folder(path.parent)


def _remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


class Saver:
    """Writes in a thread of its own, one file after another, so that training need not wait.

    Tensors must not change after they were submitted. On leaving the context everything is
    written, and what went wrong is raised.

    Args:
        process: of those that save together, this one; see `processes.in_background`.
    """

    def __init__(self, process: Process = ALONE) -> None:
        self.process = process
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._pending: Future | None = None

    def submit(self, write: Callable[[], object]) -> None:
        """Begin to write, as soon as what was begun before is done.

        Raises:
            OSError: what was begun before could not be written.
        """
        self.wait()
        self._pending = self._thread.submit(write)

    def wait(self) -> None:
        """Return once everything is written; raise what went wrong."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def __enter__(self) -> "Saver":
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()
        self.wait()


def latest_state(folder: AnyPath) -> State | None:
    """The newest state of a run that is whole, or None if the run has not saved any.

    Raises:
        ValueError: there are states, but all are damaged.
        OSError: they cannot be read.
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
        with contextlib.suppress(
            OSError, ValueError
        ):  # damaged, or superseded meanwhile
            return read_notes(path)
    return {}


def _states(folder: Path) -> list[Path]:
    """All states, the oldest first."""
    states = [path for path in folder.glob("state-*") if _STATE.fullmatch(path.name)]
    return sorted(states, key=lambda path: (_step_of(path), path.name))


def _step_of(path: Path) -> int:
    return int(_STATE.fullmatch(path.name)[1])


def _seal(folder: Path, step: int) -> dict[str, str]:
    sums = {name: sha256_of_file(folder / name) for name in (CONFIG, TOKENIZER)}
    return {**sums, "format": FORMAT, "step": str(step)}


def _check_seal(folder: Path, notes: Mapping[str, str], path: Path) -> int:
    """Refuse what belongs to other files than those beside it; return the steps taken."""
    if notes.get("format") != FORMAT or not str(notes.get("step")).isdecimal():
        raise ValueError(f"{path} is not of this version of decoder-only; delete it")
    for name in (CONFIG, TOKENIZER):
        if not (folder / name).exists():
            raise FileNotFoundError(
                f"{folder / name} is missing; the run cannot be read without"
            )
        if sha256_of_file(folder / name) != notes.get(name):
            raise ValueError(
                f"{folder / name} is damaged or has been changed since the weights were saved; "
                "restore it, or train again"
            )
    return int(notes["step"])


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


def load(folder: AnyPath, *, device: torch.device | None = None) -> SavedRun:
    """The model and tokenizer of a run's folder, on the CPU or the device given.

    Of a training that is done, its weights; of one that is not, those of its newest state.

    Raises:
        FileNotFoundError: no such folder, not a run, or a run that has not saved anything yet.
        ValueError: a file that is damaged, foreign, or changed since the weights were saved.
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
    """Of the file of weights, or of the newest state where it was trained on since."""
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
    misfit = f"the weights in {folder} do not fit the model in {CONFIG}: "
    with reading(folder / CONFIG):
        model_config = GPTConfig(**config["model"])
    # Counted first: a config that claims a billion blocks would exhaust the machine.
    n = len({name.split(".")[1] for name in tensors if name.startswith("blocks.")})
    if n != model_config.n_layers:
        raise ValueError(
            f"{misfit}blocks.0 to blocks.{n - 1}, not {model_config.n_layers} blocks"
        )
    try:
        with torch.device("meta"):
            model = GPT(model_config)
    except RuntimeError as error:  # sizes that no number of 64 bits holds
        raise ValueError(f"{misfit}{error}") from error
    empty = model.state_dict()
    for name in sorted(empty.keys() | tensors.keys()):
        shapes = [tuple(x[name].shape) if name in x else None for x in (tensors, empty)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"{misfit}{name} has shape {shapes[0]}, not {shapes[1]}")
    model.to_empty(device=device or "cpu")
    model.load_state_dict(tensors)
    return model
