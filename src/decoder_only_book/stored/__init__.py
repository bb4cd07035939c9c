"""Models that were trained once, and tables of measured runs, for chapters to look into.

All of it is installed with the package, so that every chapter has the same. Beside each model and
table a file tells how it was made.
"""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

    from decoder_only.training.checkpoint import SavedRun

__all__ = ["FOLDER", "load_model", "load_runs", "load_story_model", "load_weights"]

FOLDER = Path(__file__).parent
"""Where it all lies."""


def load_model(name: str, step: int | None = None) -> SavedRun:
    """A model that has learned stories, with its weights rounded to bfloat16 to stay small.

    Args:
        name: "full", which knows the whole language nearly to its floor (2.2 M parameters, three
            hours of one core: `benchmarks/story_model.py`); or "hamlet", a small one of the
            smallest language, stored at several steps (`benchmarks/trajectory.py`).
        step: of "hamlet", the state after so many steps, a power of two; None for the last.

    Returns:
        A `SavedRun`: `.model` in float32 on the CPU, in evaluation mode, and `.tokenizer`.

    Raises:
        ValueError: there is no such model or step, or its files are damaged; install the package
            anew.
    """
    from safetensors.torch import load_file

    from decoder_only.training.checkpoint import load

    known = sorted(path.parent.name for path in FOLDER.glob("*/config.json"))
    if name not in known:
        raise ValueError(f"{name=} must be one of {', '.join(known)}")
    saved = load(FOLDER / name)
    if step is None or step == saved.step:
        return saved
    states = {
        int(path.stem.removeprefix("weights-")): path
        for path in sorted((FOLDER / name).glob("weights-*.safetensors"))
    }
    if step not in states:
        steps = ", ".join(map(str, [*states, saved.step]))
        raise ValueError(f"{step=} must be one of those stored of {name!r}: {steps}")
    saved.model.load_state_dict(load_file(states[step]))
    return replace(saved, step=step)


def load_story_model() -> SavedRun:
    """The model that most chapters look into, `load_model("full")`."""
    return load_model("full")


def load_weights(name: str) -> dict[str, Tensor]:
    """The weights of a small model of chapter 11 or 14, which were rounded to bfloat16, in float32.

    Args:
        name: "translator", of `benchmarks/trials/translators.py`; or "masked", of
            `benchmarks/trials/kinds_of_masks.py`; or "copier", of `benchmarks/trials/circuits.py`.
            A table that two parts share is there once.

    Raises:
        ValueError: there are no such weights.
    """
    from safetensors.torch import load_file

    files = {path.stem: path for path in (FOLDER / "encoders").glob("*.safetensors")}
    if name not in files:
        raise ValueError(f"{name=} must be one of {', '.join(sorted(files))}")
    return {key: x.float() for key, x in load_file(files[name]).items()}


def load_runs(experiment: str) -> np.ndarray:
    """The runs of an experiment that took too long for a chapter.

    Each is a table with a row for each run; a file of the same name that ends in `.json` tells
    when, where, by which command and from which revision the last of them were made.

    Args:
        experiment: as the chapters name it, such as "grid", the sizes that chapter 10 compares.

    Returns:
        A structured array: `runs["loss"]` is a column. A column holds text where one of its cells
        does, and numbers elsewhere; an empty cell, such as the base width of a standard model, is
        then NaN.

    Raises:
        ValueError: there is no such experiment.
    """
    tables = {
        path.stem: path
        for folder in ("story_sweep", "trials")
        for path in (FOLDER / folder).glob("*.csv")
    }
    if experiment not in tables:
        raise ValueError(f"{experiment=} must be one of {', '.join(sorted(tables))}")
    with tables[experiment].open(encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file)
    columns = [_numbers(column) for column in zip(*rows, strict=True)]
    return np.rec.fromarrays(columns, names=names).view(np.ndarray)


def _numbers(cells: tuple[str, ...]) -> np.ndarray:
    try:
        return np.array([float(cell) if cell else np.nan for cell in cells])
    except ValueError:
        return np.array(cells)
