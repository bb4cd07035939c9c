"""The command line that all trials have: make experiments, show rows, or make rows again."""

import argparse
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tables import words

if TYPE_CHECKING:
    from frame import Experiment, Trial

__all__ = ["run"]


def run(
    trial: "Trial",
    measure: Callable[[Any], Any],
    experiments: Mapping[str, "Experiment"],
) -> None:
    """Do what the command line says.

    Args:
        trial: whose runs are made.
        measure: makes one run. The docstring of its module is what `--help` prints.
        experiments: by name. All but `store` are made, in this order, if the command names none.
    """
    parser = _parser(inspect.getmodule(measure).__doc__, experiments)
    chosen = parser.parse_args()
    trial.folder = chosen.into or trial.folder
    if chosen.jobs < 1:
        parser.error(f"--jobs {chosen.jobs} must be 1 or more")
    if unknown := [name for name in chosen.experiments if name not in experiments]:
        known = ", ".join(experiments)
        parser.error(f"no experiment {unknown[0]!r}; give some of {known}")
    if chosen.again and not chosen.rows:
        parser.error("--again needs --rows COLUMN=VALUE, such as --rows seed=1")
    if chosen.rows is None:
        # Weights of the package are written over only where that is said.
        unsaid = [name for name in experiments if name != "store"]
        names = chosen.experiments or unsaid
        try:
            trial.make(measure, [(x, experiments[x]) for x in names], jobs=chosen.jobs)
        except KeyboardInterrupt:
            sys.exit("stopped; the same command goes on from here")
        return
    try:
        rows = trial.table.where(chosen.rows)
    except ValueError as error:
        parser.error(str(error))
    if not chosen.again:
        print(*map(words, rows), sep="\n")
        return
    torch.set_num_threads(1)
    same = [trial.is_same_again(measure, each) for each in trial.table.runs(rows)]
    sys.exit(not all(same))


def _parser(
    question: str | None, experiments: Mapping[str, "Experiment"]
) -> argparse.ArgumentParser:
    explained = ["experiments, in their order:"]
    for name, each in experiments.items():
        first, *_ = (inspect.getdoc(each) or "").splitlines() or [""]
        explained.append(f"  {name:<14}{first}")
    parser = argparse.ArgumentParser(
        description=question,
        epilog="\n".join(explained),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    option = parser.add_argument
    option(
        "experiments", nargs="*", help="those to make; all but store, if none is named"
    )
    option("--jobs", type=int, default=1, help="runs at a time, of one thread each")
    option("--into", type=Path, metavar="FOLDER", help="keep another table there")
    option("--rows", nargs="*", metavar="COLUMN=VALUE", help="show rows, and make none")
    option("--again", action="store_true", help="make those rows again, and compare")
    return parser
