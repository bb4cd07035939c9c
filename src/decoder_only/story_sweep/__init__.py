"""What became of models of many sizes, trained on stories: the runs that chapter 10 reads.

`benchmarks/sweep.py` made them, and writes them here, so that the chapter finds them wherever the
package is installed. Each experiment is a table with a row for each run; a file of the same name
that ends in `.json` tells when, where and from which revision.
"""

from pathlib import Path

import numpy as np

__all__ = ["load_runs"]


def load_runs(experiment: str) -> np.ndarray:
    """The runs of an experiment, a structured array: `runs["loss"]` is a column, in nats per token.

    Args:
        experiment: "rates", "grid", "heldout", "transfer", "depth" or "tails".

    Raises:
        ValueError: there is no such experiment.
    """
    path = Path(__file__).parent / f"{experiment}.csv"
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
