"""What does one sight of a fact leave behind, and for how long?

    python benchmarks/trials/first_sight.py seeds rates

A model as in `making_up.py` learns a stream of fresh sentences about 512 people. Of 128 facts about
its best known people the stream never speaks. At step 256 four groups of 32 of them are slipped
into a batch of 128 sentences: "once"; "four times running", in four batches one after the other;
"four times apart", in four batches 32 steps from each other; "never", the control, in none. From
the last sight on nobody speaks of them again, and the probability of the right answer is measured
just before the first sight and at 1, 2, 4 ... 256 steps after the last.

`seeds`: four. `rates`: half and twice the rate, one seed.
What would count against learning at first sight: a rise of no more than the control's. Against
forgetting: a probability after 256 steps within the seeds' spread of that after one.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import torch
from making_up import BATCH, RATE, WARMUP, settings
from trial import Table

from decoder_only.knowledge import FactWorld
from decoder_only.model import GPT
from decoder_only.optimization import build_optimizers, set_learning_rate
from decoder_only.training import train_step

FIRST, AFTER, GROUP, KNOWN = 256, 256, 32, 128
SIGHTS = {
    "never": (),
    "once": (0,),
    "four times running": (0, 1, 2, 3),
    "four times apart": (0, 32, 64, 96),
}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    learning_rate: float = RATE
    seed: int


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """The probability of the right answer, its mean over a group of facts and that of its
    logarithm, so many steps after the last sight; 0 is just before the first."""

    group: str
    since: int
    right: float
    log_right: float
    processor_seconds: float


TABLE = Table("first_sight", Point)


def seeds() -> Iterator[Point]:
    for seed in range(4):
        yield Point(seed=seed)


def rates() -> Iterator[Point]:
    for rate in (RATE / 2, 2 * RATE):
        yield Point(learning_rate=rate, seed=0)


def measure(point: Point) -> Iterator[Row]:
    """Make one run."""
    before = time.process_time()
    world, generator = (
        FactWorld(seed=point.seed),
        torch.Generator().manual_seed(point.seed),
    )
    model = GPT(settings(world), generator=generator)
    optimizers = build_optimizers(
        model, optimizer="muon", learning_rate=point.learning_rate
    )
    known = torch.randperm(KNOWN * world.answers.shape[1], generator=generator)
    groups = dict(zip(SIGHTS, known[: 4 * GROUP].split(GROUP), strict=True))
    chances = world.chances.flatten().clone()
    chances[known[: 4 * GROUP]] = 0
    answers = world.answers.flatten() + world.unknown - world.n_values
    looks = [0, *(2**i for i in range(9))]
    for step in range(FIRST + max(SIGHTS["four times apart"]) + AFTER + 1):
        since = {
            name: step - FIRST - max(sights, default=0)
            for name, sights in SIGHTS.items()
        }
        model.eval()
        for name, facts in groups.items():
            is_first = step == FIRST
            if is_first or (since[name] in looks and since[name] > 0):
                log_q = world.ask(model, facts=facts)
                right = log_q.gather(1, answers[facts][:, None])
                spent = time.process_time() - before
                before += spent
                yield Row(
                    **asdict(point),
                    group=name,
                    since=0 if is_first else since[name],
                    right=round(right.exp().mean().item(), 5),
                    log_right=round(right.mean().item(), 4),
                    processor_seconds=round(spent, 2),
                )
        facts = torch.multinomial(chances, BATCH, True, generator=generator)
        shown = [groups[name] for name, at in SIGHTS.items() if step - FIRST in at]
        facts = torch.cat([*shown, facts])[:BATCH]
        rows = world.sentences(facts)
        set_learning_rate(optimizers, min(1, (step + 1) / WARMUP))
        train_step(model, optimizers, rows[:, :-1], rows[:, 1:], max_gradient_norm=1.0)


if __name__ == "__main__":
    TABLE.make(measure, {"seeds": seeds, "rates": rates}, packages=("torch", "numpy"))
