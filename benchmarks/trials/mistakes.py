"""What does a batch learned by heart prove? Chapter 8's mistakes, trained with patience.

    python benchmarks/trials/mistakes.py

Every mistake, and the model without one, learns one batch of four rows for 400 steps of AdamW from
three seeds; then it is asked to write the batch from each row's first four tokens. Where a seed
fails in either, two more rates are tried, three seeds each. What would count for the usual test:
most mistakes keep their loss above 0.2 whatever the rate and the seed. What would count against
patience as the reason: a mistake that passes at 400 steps has passed at 60.

The mistakes stand in the chapter and nowhere else: this runs those of its cells that have the tag
"mistakes". The table goes into the package, for the chapter.
"""

import json
import sys
from dataclasses import asdict, dataclass
from unittest.mock import patch

import _path
import torch
from provenance import collect, write_results
from tables import append, key, read

from decoder_only import multihead

CHAPTER = _path.BENCHMARKS.parent / "book" / "08_model.ipynb"
TABLE = _path.TABLES / "mistakes.csv"
RATES = (3e-3, 1e-3, 1e-2)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    mistake: str
    learning_rate: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it: its own loss on the way, and the share of tokens recited."""

    loss_60: float
    loss_200: float
    loss_400: float
    recited: float


def chapter() -> dict[str, object]:
    """The names that the chapter's cells about mistakes define."""
    cells = json.loads(CHAPTER.read_text(encoding="utf-8"))["cells"]
    names: dict[str, object] = {"__name__": "chapter"}
    sys.modules["chapter"] = sys.modules[
        __name__
    ]  # where a dataclass looks up its names
    for cell in cells:
        if "mistakes" in cell["metadata"].get("tags", ()):
            exec("".join(cell["source"]), names)
    return names


def run(
    names: dict[str, object], mistake: str, plan: object, rate: float, seed: int
) -> dict[str, float]:
    """What came of a run, which is made if it does not stand in the table yet."""
    point = Point(mistake=mistake, learning_rate=rate, seed=seed)
    made = {key(row, Point): row for row in read(TABLE)}
    if key(asdict(point), Point) not in made:
        with patch.object(multihead, "attend", plan.attention):
            losses, recited = names["memorize"](plan, rate, seed)
        at = {f"loss_{n}": round(losses[n - 1], 4) for n in (60, 200, 400)}
        row = Row(**asdict(point), **at, recited=round(recited, 3))
        append(TABLE, row)
        print(row, flush=True)
        made = {key(row, Point): row for row in read(TABLE)}
    row = made[key(asdict(point), Point)]
    return {name: float(row[name]) for name in ("loss_400", "recited")}


def main() -> None:
    """Make the runs that have not been made yet."""
    torch.set_num_threads(1)
    names = chapter()
    for mistake, plan in names["plans"].items():
        for rate in RATES:
            rows = [run(names, mistake, plan, rate, seed) for seed in range(3)]
            if all(row["loss_400"] < 0.2 and row["recited"] == 1 for row in rows):
                break
    about = {"provenance": collect(packages=["torch", "numpy"])}
    write_results(TABLE.with_suffix(".json"), about)


if __name__ == "__main__":
    sys.exit(main())
