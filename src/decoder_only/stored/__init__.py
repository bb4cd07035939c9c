"""What was trained and measured once, for chapters to look into: a model, and tables of runs.

All of it is part of the package, so that every chapter finds the same, wherever it runs. Beside
each stands how it was made.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from decoder_only.engine.checkpoint import SavedRun

__all__ = ["load_runs", "load_story_model"]

_HERE = Path(__file__).parent


def load_story_model() -> SavedRun:
    """A small model that has learned the stories, for chapters that look inside a trained one.

    It is what `decoder-only train --steps 1600` makes of the built-in language in three minutes
    on two CPU cores, with its weights rounded to bfloat16 to stay small;
    `tools/store_story_model.py` says how it was made.

    Returns:
        A `SavedRun`: `.model` in float32 on the CPU, in evaluation mode, and `.tokenizer`.

    Raises:
        FileNotFoundError, ValueError: its files are missing or damaged; install the package anew.
    """
    from decoder_only.engine.checkpoint import load

    return load(_HERE / "story_model")


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
    path = _HERE / "story_sweep" / f"{experiment}.csv"
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
