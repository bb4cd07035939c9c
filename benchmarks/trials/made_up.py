"""What models make up that were told some facts: along training, at other rates, cooled, and shown
what they were not told.

    python benchmarks/trials/made_up.py rates seeds unknown

The runs are those of chapter 15, whose cells with the tag "facts" this executes: a world of 1,024
facts, n sentences that tell some, one block of width 32. `rates`: n = 512, 2,048 and 8,192, each at
three learning rates and more until the best is no end, seed 0, where the best has the least excess
at any of the looks. `seeds`: four more of each. `unknown`: n = 2,048, where sentences that end in
"unknown" are added, seeds 0 to 7: none; about half of the facts that were never told; about as many
facts of the same people; at random; or of those that were told.

Set beforehand. Falsehoods follow the missing mass if, in the state of least excess, they lie
between half of it and twice, for each n, in the mean over seeds. What was told plays a part in
saying "unknown" if facts never told nor shown are refused more often than in each control, by two
standard errors of the paired difference.

A row is a state. Those at step 256 are there with other bins, and for n = 2,048 at other
temperatures too. Runs that stand in the table are not made again. Chapter 15 reads it and repeats
three.
"""

import functools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor
from trial import Table

CHAPTER = Path(__file__).resolve().parents[2] / "book" / "15_knowledge.ipynb"
LOOKS = (16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512)
TIMES = (0, 1, 2, 4, 8, 16)
SIZES = (512, 2048, 8192)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    n: int
    shown: str = "nothing"
    learning_rate: float = 1.6e-2
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class State(Point):
    """What came of it: see `knowledge.MadeUp` and `Validity`, and the chapter's `weigh`.

    `least` is the least excess at any look of the run. Of facts that no arm of this seed was shown
    as unknown, the shares, when asked, that are wrong, and refused where told and where not; and
    refused of those that this arm was shown. `right_4`, say: the mean probability of the right
    answer for facts told 4 to 7 times.
    """

    step: int
    cooled: str
    temperature: float
    ratio: float
    missing: float
    single: float
    false: float
    about_told: float
    unseen: float
    lucky: float
    miscalibration: float
    bound: float
    err: float
    offset: float
    judge: float
    excess: float
    wrong: float
    free_wrong: float
    refused_told: float
    refused_untold: float
    refused_shown: float
    right_0: float
    right_1: float
    right_2: float
    right_4: float
    right_8: float
    right_16: float
    least: float


TABLE = Table("made_up", Point, score="least")


@functools.cache
def chapter() -> dict[str, object]:
    """The names that the chapter's cells about facts define."""
    names: dict[str, object] = {"__name__": "chapter"}
    for cell in json.loads(CHAPTER.read_text(encoding="utf-8"))["cells"]:
        if "facts" in cell["metadata"].get("tags", ()):
            exec("".join(cell["source"]), names)
    return names


def rates() -> Iterator[Point]:
    yield from TABLE.rates(Point(n=n) for n in SIZES)


def seeds() -> Iterator[Point]:
    yield from TABLE.seeds([Point(n=n) for n in SIZES], (1, 2, 3, 4))


def unknown() -> Iterator[Point]:
    for seed in range(8):
        for shown in ("nothing", "never told", "same people", "at random", "told"):
            if shown != "nothing" or TABLE.row(Point(n=2048, seed=seed)) is None:
                yield Point(n=2048, shown=shown, seed=seed)


def asked(world, model, counts: Tensor, sets: dict[str, Tensor], shown: str) -> dict:
    """The answers to all questions, by what the model was told and shown."""
    right, refused = chapter()["answers"](world, model)
    free = counts.new_ones(counts.numel(), dtype=bool)
    for facts in sets.values():
        free[facts] = False
    free = free.view(counts.shape)
    chances = world.chances[free]
    wrong = (chances * (1 - right - refused)[free]).sum() / chances.sum()
    found = {
        "free_wrong": wrong.item(),
        "refused_told": refused[free & (counts > 0)].mean().item(),
        "refused_untold": refused[free & (counts == 0)].mean().item(),
        "refused_shown": refused.flatten()[sets[shown]].mean().item(),
    }
    for low, high in zip(TIMES, (*TIMES[1:], 10**9), strict=True):
        own = right[(counts >= low) & (counts < high)]
        found[f"right_{low}"] = own.mean().item()
    return found


def measure(point: Point) -> list[State]:
    """Make one run."""
    names = chapter()
    last = LOOKS[-1] if point.shown == "nothing" else 256
    settings = {"shown": point.shown, "rate": point.learning_rate, "steps": last}
    found = []
    for step, world, counts, model in names["tell"](point.n, point.seed, **settings):
        if step not in LOOKS or (point.shown != "nothing" and step < last):
            continue
        sets = names["shown_as_unknown"](world, counts, point.seed)
        answers = asked(world, model, counts, sets, point.shown)
        ways = [("all words", 1.0, 1.25)]
        if step == 256:
            ways += [("all words", 1.0, ratio) for ratio in (1.1, 2.0)]
        if step == 256 and point.n == 2048:
            kinds = ("all words", "value", "subject")
            ways += [(kind, t, 1.25) for kind in kinds for t in (1.3, 0.7, 0.5, 0.3)]
        for cooled, temperature, ratio in ways:
            way = {"cooled": cooled, "temperature": temperature, "ratio": ratio}
            weighed = names["weigh"](world, model, counts, **way)
            found.append({"step": step} | way | weighed | answers)
    plain = [row["excess"] for row in found if row["temperature"] == 1]
    columns = State.__dataclass_fields__
    return [
        State(**asdict(point) | {k: _short(v) for k, v in row.items() if k in columns})
        for row in ({**row, "least": min(plain)} for row in found)
    ]


def _short(x: object) -> object:
    return round(x, 5) if isinstance(x, float) else x


if __name__ == "__main__":
    experiments = {"rates": rates, "seeds": seeds, "unknown": unknown}
    TABLE.make(measure, experiments, packages=("torch", "numpy"))
