"""When does a model begin to copy, and does it take two blocks? Over seeds, and how abruptly.

    python benchmarks/trials/induction.py

Models of width 64, with one block and with two, learn sequences that repeat themselves with a
period that nobody tells (`interpretation.RepeatedChains`), 1,000 steps of 16 fresh sequences. Each
arm tries three learning rates with seed 0, more where the best is an end, and runs the best with
five fresh seeds. Every 20 steps, on held-out sequences: the loss where a sequence is new and where
it repeats itself, and the largest score of any head for looking one back, and for looking at what
followed the last time. What would count against two heads in a row: that one block copies as well,
or that copying comes before the scores. What would count against abruptness: that the loss of what
is repeated falls over as many steps as went before.

The source, the scores and the training stand in the chapter and nowhere else: this runs its cells
that have the tag "induction".
"""

import json
import sys
from dataclasses import asdict, dataclass

import _path
import torch
from provenance import collect, write_results
from tables import append, key, read

CHAPTER = _path.BENCHMARKS.parent / "book" / "14_interpretation.ipynb"
TABLE = _path.TABLES / "induction.csv"
SEEDS, STEPS, EVERY = (1, 2, 3, 4, 5), 1000, 20


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    n_layers: int
    learning_rate: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A state of a run: losses in nats per token, and the largest scores of any head."""

    step: int
    fresh: float
    again: float
    previous: float
    induction: float


def chapter() -> dict[str, object]:
    """The names that the chapter's cells about induction define."""
    names: dict[str, object] = {"__name__": "chapter"}
    for cell in json.loads(CHAPTER.read_text(encoding="utf-8"))["cells"]:
        if "induction" in cell["metadata"].get("tags", ()):
            exec("".join(cell["source"]), names)
    return names


def run(names: dict[str, object], point: Point) -> float:
    """The last loss of what is repeated; the run is made if the table does not hold it yet."""

    def note(step: int, model: object) -> None:
        if step % EVERY == 0:
            fresh, again = names["losses"](model)
            scores = [float(score.max()) for score in names["head_scores"](model)]
            numbers = dict(
                zip(Row.__annotations__, (step, fresh, again, *scores), strict=True)
            )
            rounded = {name: round(number, 4) for name, number in numbers.items()}
            rows.append(Row(**asdict(point), **rounded))

    def made() -> list[dict[str, str]]:
        return [
            row for row in read(TABLE) if key(row, Point) == key(asdict(point), Point)
        ]

    rows: list[Row] = []
    if not made():
        names["learn"](**asdict(point), steps=STEPS, note=note)
        for row in rows:
            append(TABLE, row)
        print(rows[-1], flush=True)
    return float(made()[-1]["again"])


def main() -> None:
    """Make the runs that have not been made yet."""
    torch.set_num_threads(1)
    names = chapter()
    for n_layers in (2, 1):
        losses: dict[float, float] = {}
        ahead = [1.5e-3, 3e-3, 6e-3]
        while ahead:
            rate = ahead.pop(0)
            point = Point(n_layers=n_layers, learning_rate=rate, seed=0)
            losses[rate] = run(names, point)
            best = min(losses, key=losses.get)
            if not ahead and best in (min(losses), max(losses)):
                ahead = [2 * best if best == max(losses) else best / 2]
        for seed in SEEDS:
            run(names, Point(n_layers=n_layers, learning_rate=best, seed=seed))
    about = {"provenance": collect(packages=["torch", "numpy"])}
    write_results(TABLE.with_suffix(".json"), about)


if __name__ == "__main__":
    sys.exit(main())
