"""What do models make up that were told some facts: along training, cooled, and shown what they
were not told?

    python benchmarks/trials/made_up.py rates seeds unknown

The runs are those of chapter 15, whose cells with the tag "facts" this trial runs. A world has
1,024 facts, n sentences tell some of them, and the model is one block of width 32.

Arms        `rates` and `seeds`: n = 512, 2,048 and 8,192.
            `unknown`: n = 2,048 and additional sentences that end in "unknown". They are about no
            fact; about half of the facts that were never told; about as many facts of the same
            people; about as many at random; or about as many of those that were told.
Rates       Halved and doubled until the best is between two others, with seed 0. A rate is as good
            as its least excess at any of the looks. `unknown` has one rate.
Seeds       Four more for `seeds`, eight for `unknown`.
Measured    A row is a state. At step 256 it is also measured with other bins and, for n = 2,048,
            at other temperatures.
Against     Set beforehand. Falsehoods follow the missing mass if, in the state of least excess,
            they are between half of it and twice it, for each n, in the mean over seeds. That a
            fact was told plays a part in saying "unknown" if facts that were neither told nor
            shown are refused more often than in each control, by two standard errors of the paired
            difference.

Chapter 15 reads the table, and repeats three of its runs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from torch import Tensor
from trial import Trial, cells

LOOKS = (16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512)
TIMES = (0, 1, 2, 4, 8, 16)
SHOWN = ("nothing", "never told", "same people", "at random", "told")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    n: int
    shown: str = "nothing"
    learning_rate: float = 1.6e-2
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured of a state: see `knowledge.MadeUp`, `Validity` and the chapter's `weigh`.

    `least` is the least excess at any look of the run. Some shares are taken over the facts that no
    arm of this seed was shown as unknown: of the answers, those that are wrong (`free_wrong`), and
    those that are refused where the fact was told and where it was not. `refused_shown` is the same
    of the facts that this arm was shown. `right_4`, say, is the mean probability of the right
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


TRIAL = Trial(
    "made_up",
    Run,
    Found,
    arms=[Run(n=n) for n in (512, 2048, 8192)],
    seeds=(1, 2, 3, 4),
    score="least",
    packages=("torch", "numpy"),
)


def unknown() -> Iterator[list[Run]]:
    """Sentences that end in "unknown": none, and four ways to choose them."""
    yield [Run(n=2048, shown=shown, seed=seed) for seed in range(8) for shown in SHOWN]


def chapter() -> dict[str, object]:
    return cells("15_knowledge", "facts")


def asked(world, model, counts: Tensor, sets: dict[str, Tensor], shown: str) -> dict:
    """The answers about all facts, by what the model was told and shown."""
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


def measure(run: Run) -> list[Found]:
    """Make one run."""
    names = chapter()
    last = LOOKS[-1] if run.shown == "nothing" else 256
    settings = {"shown": run.shown, "rate": run.learning_rate, "steps": last}
    states = []
    for step, world, counts, model in names["tell"](run.n, run.seed, **settings):
        if step not in LOOKS or (run.shown != "nothing" and step < last):
            continue
        sets = names["shown_as_unknown"](world, counts, run.seed)
        answers = asked(world, model, counts, sets, run.shown)
        for cooled, temperature, ratio in ways(run, step):
            way = {"cooled": cooled, "temperature": temperature, "ratio": ratio}
            weighed = names["weigh"](world, model, counts, **way)
            states.append({"step": step} | way | weighed | answers)
    least = min(state["excess"] for state in states if state["temperature"] == 1)
    columns = [field.name for field in fields(Found)]
    states = [state | {"least": least} for state in states]
    return [Found(**{name: state[name] for name in columns}) for state in states]


def ways(run: Run, step: int) -> Iterator[tuple[str, float, float]]:
    """What is cooled, to which temperature, and the ratio of the bins' edges."""
    yield "all words", 1.0, 1.25
    if step == 256:
        yield from (("all words", 1.0, ratio) for ratio in (1.1, 2.0))
    if step == 256 and run.n == 2048:
        for cooled in ("all words", "value", "subject"):
            yield from ((cooled, t, 1.25) for t in (1.3, 0.7, 0.5, 0.3))


if __name__ == "__main__":
    TRIAL.main(measure, rates=TRIAL.search, seeds=TRIAL.repeat, unknown=unknown)
