"""The frame of every trial: a grid of runs, a table that keeps them, and a command line.

A trial is a file with what no other trial has: its question and what would count against the
answer (the docstring), what sets a run apart (a dataclass), what is measured of it (another), which
runs there are, and how one of them is made. In short:

    @dataclass(frozen=True, kw_only=True)
    class Run:
        arm: str
        learning_rate: float
        seed: int = 0

    @dataclass(frozen=True, kw_only=True)
    class Found:
        loss: float

    ARMS = [Run(arm="ours", learning_rate=0.01), Run(arm="theirs", learning_rate=0.02)]
    TRIAL = Trial("name", Run, Found, arms=ARMS, seeds=(1, 2, 3))

    def measure(run: Run) -> Found: ...

    if __name__ == "__main__":
        TRIAL.main(measure, rates=TRIAL.search, seeds=TRIAL.repeat)

An experiment (here `rates` and `seeds`) is a function that yields rounds. A round is a list of runs
that may be made side by side. The next round is asked for when the last one is in the table, so
that an experiment can read there what to try next. A run that is in the table is not made again.
"""

import math
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import command
import torch
from provenance import collect, write_results
from tables import SECONDS, Row, Table, words

from decoder_only_book import stored

__all__ = ["Trial"]

Measure = Callable[[Any], Any]
Experiment = Callable[[], Iterable[list[Any]]]


@dataclass
class Trial:
    """The runs of a trial: which there are, and what came of those that were made.

    Attributes:
        name: of the trial and of its table.
        run: the dataclass of what sets a run apart.
        found: the dataclass of what is measured. A run gives one of these or several (its states,
            say), and all its rows enter the table together. The frame adds to the last of them how
            many processor seconds the run took, if `found` has no such field of its own.
        arms: what is compared: runs with a first guess of their rates, and with the seed that
            chooses the best.
        seeds: fresh ones, which have no part in choosing.
        score: the column that rates are chosen by; the lower, the better.
        scored: which row of a run has its score, by the values of some columns; the last one if
            nothing is said.
        tuned: the fields of `run` of which every arm has its own best values.
        digits: to which measured numbers are rounded; None leaves them.
        packages: distributions whose versions are recorded.
        folder: where the table is; `stored.load_runs` reads those in the package.
    """

    name: str
    run: type[Any]
    found: type[Any]
    arms: Sequence[Any] = ()
    seeds: Sequence[int] = ()
    score: str = "loss"
    scored: Mapping[str, str | float] | None = None
    tuned: Sequence[str] = ("learning_rate",)
    digits: int | None = 5
    packages: Sequence[str] = ("torch", "numpy", "tiktoken")
    folder: Path = stored.FOLDER / "trials"

    @property
    def table(self) -> Table:
        """Where the runs are kept. A file beside it, .json, tells how they were made."""
        path = self.folder / f"{self.name}.csv"
        return Table(path, self.run, self.found, self.digits)

    # ------------------------------------------------------------------ the best rates of an arm

    def scores(
        self, arm: Any, score: str | None = None
    ) -> dict[tuple[float, ...], float]:
        """The score of an arm, with its seed, at all rates that were tried."""
        own = {name: x for name, x in asdict(arm).items() if name not in self.tuned}
        own |= self.scored or {}
        return {
            tuple(row[name] for name in self.tuned): row[score or self.score]
            for row in self.table.rows()
            if own.items() <= row.items()
        }

    def best(
        self, arm: Any, *, seeds: Sequence[int] = (), score: str | None = None
    ) -> Any:
        """The arm at the best rates that were tried; as it is, before any was.

        Args:
            arm: with the seed that chooses.
            seeds: choose by their mean instead, among the rates that all of them have run.
            score: another column to choose by.
        """
        choosing = [replace(arm, seed=seed) for seed in seeds] or [arm]
        tried = [self.scores(each, score) for each in choosing]
        sums = {
            rates: sum(scores[rates] for scores in tried)
            for rates in tried[0]
            if all(rates in scores for scores in tried)
        }
        return self._at(arm, min(sums, key=sums.get)) if sums else arm

    def _at(self, arm: Any, rates: Sequence[float]) -> Any:
        return replace(arm, **dict(zip(self.tuned, rates, strict=True)))

    def search(
        self, arms: Iterable[Any] | None = None, *, score: str | None = None
    ) -> Iterator[list[Any]]:
        """Halve and double the rates of every arm until its best is between two others."""
        arms = list(self.arms if arms is None else arms)
        while wanted := [left[0] for arm in arms if (left := self._left(arm, score))]:
            yield wanted

    def _left(self, arm: Any, score: str | None) -> list[Any]:
        """The arm at its best rates so far and around them, where it was not tried."""
        best, tried = self.best(arm, score=score), self.scores(arm)
        near = [best]
        for name in self.tuned:
            middle = getattr(best, name)
            near += [replace(best, **{name: rate}) for rate in (middle / 2, 2 * middle)]
        seen = [self._at(arm, rates) for rates in tried]
        return [each for each in near if each not in seen]

    def repeat(
        self, arms: Iterable[Any] | None = None, *, score: str | None = None
    ) -> Iterator[list[Any]]:
        """Make every arm at its best rates from fresh seeds."""
        arms = self.arms if arms is None else arms
        best = [self.best(arm, score=score) for arm in arms]
        yield [replace(arm, seed=seed) for seed in self.seeds for arm in best]

    # ------------------------------------------------------------------ making runs

    def rows_made(self, measure: Measure, run: Any) -> list[Row]:
        """Make a run, and give its rows as they are to enter the table."""
        began = time.process_time()
        found = measure(run)
        found = [found] if is_dataclass(found) else list(found)
        rows = self.table.checked(run, found, time.process_time() - began)
        for row in rows:
            if isinstance(row[self.score], float) and math.isnan(row[self.score]):
                raise ValueError(
                    f"{self.score}=nan of {run} cannot be compared; write math.inf for a "
                    "loss that is no number any more"
                )
        return rows

    def make(
        self,
        measure: Measure,
        experiments: Iterable[tuple[str, Experiment]],
        *,
        jobs: int = 1,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        """Make the runs of some experiments that are not in the table.

        Every run has one thread, so that its numbers do not depend on how many there are.

        Args:
            measure: makes one run. With more than one job, a function of a module.
            experiments: by name, in the order in which they are made.
            jobs: runs at a time, each in a process of its own.
            about: what else is to be recorded of where the runs are made.
        """
        torch.set_num_threads(1)
        work = partial(self.rows_made, measure)
        with _workers(jobs) as run_all:
            for name, experiment in experiments:
                for wanted in experiment():
                    made = set(self.table.runs(self.table.rows()))
                    left = [run for run in dict.fromkeys(wanted) if run not in made]
                    for i, rows in enumerate(run_all(work, left), 1):
                        self.table.keep(rows)
                        self._record(about or {})
                        print(f"{name} {i}/{len(left)}:", words(rows[-1]), flush=True)

    def _record(self, about: Mapping[str, Any]) -> None:
        """Write down when, where and from what the last runs were made."""
        rows, provenance = self.table.rows(), collect(packages=self.packages)
        found = {"provenance": provenance | about, "rows": len(rows)}
        found["runs"] = len(set(self.table.runs(rows)))
        found["processor seconds"] = round(sum(row.get(SECONDS) or 0 for row in rows))
        write_results(self.table.path.with_suffix(".json"), found)

    def is_same_again(self, measure: Measure, run: Any) -> bool:
        """Make a run again, print where it differs from the table, and keep nothing."""
        kept, made = self.table.of(run), self.rows_made(measure, run)
        print(words(asdict(run)), flush=True)
        different = [
            f"  row {i}: {name} is {now[name]}, and {before[name]} in the table"
            for i, (before, now) in enumerate(zip(kept, made, strict=False), 1)
            for name in before
            if name != SECONDS and str(before[name]) != str(now[name])
        ]
        if len(kept) != len(made):
            different.append(f"  {len(made)} rows, and {len(kept)} in the table")
        print(*different or ["  the same"], sep="\n", flush=True)
        return not different

    def main(self, measure: Measure, /, **experiments: Experiment) -> None:
        """The command of the trial, with its experiments by name; see `command.py`."""
        command.run(self, measure, experiments)


@contextmanager
def _workers(jobs: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """Like `map`, but gives results as they come, and raises an error after all of them."""
    if jobs == 1:
        yield map
        return

    def run_all(work: Callable[[Any], Any], runs: Iterable[Any]) -> Iterator[Any]:
        futures, errors = [pool.submit(work, run) for run in runs], []
        for future in as_completed(futures):
            if error := future.exception():
                errors.append(error)
            else:
                yield future.result()
        if errors:
            raise errors[0]

    context = multiprocessing.get_context("spawn")
    thread = {"initializer": torch.set_num_threads, "initargs": (1,)}
    pool = ProcessPoolExecutor(jobs, mp_context=context, **thread)
    try:
        yield run_all
    finally:
        pool.shutdown(cancel_futures=True)
