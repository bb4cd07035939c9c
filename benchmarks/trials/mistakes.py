"""What does a batch learned by heart prove? Chapter 8's mistakes, trained with patience.

    python benchmarks/trials/mistakes.py

Every mistake, and the model without one, learns one batch of four rows for 400 steps of AdamW from
three seeds; then it is asked to write the batch from each row's first four tokens. Where a seed
fails in either, two more rates are tried, three seeds each, and where the loss stays above 0.2
lower ones too, until one ends higher; the model without a mistake learns at the second one too, to
compare patience with. What would count for the usual test: most mistakes keep their loss above 0.2
whatever the rate and the seed. What would count against patience as the reason: a mistake that
passes at 400 steps has passed at 60.

The mistakes stand in the chapter and nowhere else: this runs those of its cells that have the tag
"mistakes". The table goes into the package, for the chapter.
"""

import functools
import json
import statistics
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest.mock import patch

from trial import Table

from decoder_only.model import multihead

CHAPTER = Path(__file__).resolve().parents[2] / "book" / "08_model.ipynb"
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


TABLE = Table("mistakes", Point)


@functools.cache
def chapter() -> dict[str, object]:
    """The names that the chapter's cells about mistakes define."""
    cells = json.loads(CHAPTER.read_text(encoding="utf-8"))["cells"]
    names: dict[str, object] = {"__name__": "chapter"}
    # Where a dataclass looks up its names.
    sys.modules["chapter"] = sys.modules[__name__]
    for cell in cells:
        if "mistakes" in cell["metadata"].get("tags", ()):
            exec("".join(cell["source"]), names)
    return names


def runs() -> Iterator[Point]:
    """Every mistake at a first rate, and at others where a seed fails; no mistake at two."""
    for mistake in chapter()["plans"]:
        ends: dict[float, float] = {}
        for rate in RATES:
            yield from points(mistake, rate)
            rows = [TABLE.row(point) for point in points(mistake, rate)]
            losses = [float(row["loss_400"]) for row in rows]
            ends[rate] = statistics.mean(losses)
            is_enough = mistake != "no mistake" or rate != RATES[0]
            recited = all(float(row["recited"]) == 1 for row in rows)
            if is_enough and recited and max(losses) < 0.2:
                break
        while (lowest := min(ends)) == min(ends, key=ends.get) and ends[lowest] > 0.2:
            yield from points(mistake, lowest / 2)
            rows = [TABLE.row(point) for point in points(mistake, lowest / 2)]
            ends[lowest / 2] = statistics.mean(float(row["loss_400"]) for row in rows)


def points(mistake: str, rate: float) -> list[Point]:
    """Three seeds."""
    return [Point(mistake=mistake, learning_rate=rate, seed=seed) for seed in range(3)]


def measure(point: Point) -> Row:
    """Make one run."""
    plan = chapter()["plans"][point.mistake]
    with patch.object(multihead, "attend", plan.attention):
        memorize = chapter()["memorize"]
        losses, recited = memorize(plan, point.learning_rate, point.seed)
    at = {f"loss_{n}": round(losses[n - 1], 4) for n in (60, 200, 400)}
    return Row(**asdict(point), **at, recited=round(recited, 3))


if __name__ == "__main__":
    TABLE.make(measure, {"runs": runs}, packages=("torch", "numpy"))
