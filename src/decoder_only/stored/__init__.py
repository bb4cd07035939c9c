"""What was trained and measured once, for chapters to look into: a model, and tables of runs.

All of it is part of the package, so that every chapter finds the same, wherever it runs. Beside
each stands how it was made.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from decoder_only.engine.checks import require

if TYPE_CHECKING:
    from decoder_only.engine.checkpoint import SavedRun

__all__ = ["FOLDER", "load_model", "load_runs", "load_story_model"]

FOLDER = Path(__file__).parent
"""Where it all lies."""


def load_model(name: str) -> SavedRun:
    """A model that has learned the stories, with its weights rounded to bfloat16 to stay small.

    Args:
        name: "full", which knows the whole language nearly to its floor (2.2 M parameters, 80
            minutes of one core: `benchmarks/story_model.py`).

    Returns:
        A `SavedRun`: `.model` in float32 on the CPU, in evaluation mode, and `.tokenizer`.

    Raises:
        ValueError: there is no such model, or its files are damaged; install the package anew.
    """
    from decoder_only.engine.checkpoint import load

    known = sorted(path.parent.name for path in FOLDER.glob("*/config.json"))
    require("name", name, known.__contains__, f"one of {', '.join(known)}")
    return load(FOLDER / name)


def load_story_model() -> SavedRun:
    """The model that most chapters look into, `load_model("full")`."""
    return load_model("full")


def load_runs(experiment: str) -> np.ndarray:
    """What became of models of many sizes, trained on stories: the runs that chapter 10 reads.

    `benchmarks/sweep.py` made them. Each experiment is a table with a row for each run; a file of
    the same name that ends in `.json` tells when, where and from which revision.

    Args:
        experiment: "rates", "grid", "heldout", "transfer", "depth" or "tails".

    Returns:
        A structured array: `runs["loss"]` is a column, in nats per token.

    Raises:
        ValueError: there is no such experiment.
    """
    path = FOLDER / "story_sweep" / f"{experiment}.csv"
    if not path.exists():
        known = sorted(each.stem for each in path.parent.glob("*.csv"))
        raise ValueError(
            f"there are no runs of {experiment!r}; choose one of {', '.join(known)}"
        )
    with path.open(encoding="utf-8") as file:
        names = file.readline().strip().split(",")
    # A cell that is empty, such as the base width of a standard model, reads as NaN.
    types = [(name, "U8" if name == "optimizer" else float) for name in names]
    return np.atleast_1d(np.genfromtxt(path, types, delimiter=",", skip_header=1))
