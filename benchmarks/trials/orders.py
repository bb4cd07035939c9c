"""Does a model that learned a fact in one template know it in another?

    python benchmarks/trials/orders.py shares

A world of 128 people, all spoken of alike, four attributes, 256 values. Of some people the
sentences speak in three templates: "forwards" (person attribute value), "turned" (attribute person
value) and "backwards" (value attribute person). Of the others they speak forwards only. At the end
each fact is asked in each template. The share of people who are seen in all templates is 0, a half
and seven eighths; three seeds each.

Every batch of 128 sentences draws its people alike, and for each a template that is seen of him.
Expected after Berglund et al. (2024): no fact seen forwards only is known backwards, at any
share. What would count for learning the templates themselves: in "turned", a probability that rises
with the share. The control are facts of people who are seen in all three.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import torch
from making_up import WARMUP, settings
from trial import Table

from decoder_only.knowledge import ORDERS, FactWorld
from decoder_only.model import GPT
from decoder_only.optimization import build_optimizers, set_learning_rate
from decoder_only.training import train_step

STEPS, BATCH, RATE = 768, 128, 8e-3


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    share: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """The probability of the last word of a fact, as a share of the largest that there can be.

    `seen`: "all templates" or "forwards only", of the person. Backwards several people may be
    right, and each of m can have 1 / m; of people seen in all templates only those count.
    """

    order: str
    seen: str
    right: float
    processor_seconds: float


TABLE = Table("orders", Point)


def shares() -> Iterator[Point]:
    for seed in range(3):
        for share in (0.5, 0.0, 0.875):
            yield Point(share=share, seed=seed)


def ceilings(world: FactWorld, order: str, rivals: torch.Tensor) -> torch.Tensor:
    """For each fact, the largest probability of its last word; rivals are people."""
    answers = world.answers
    if order != "backwards":
        return torch.ones(answers.shape).double()
    same = (answers[:, None] == answers[rivals]).sum(1)
    return 1 / same.clamp_min(1).double()


def measure(point: Point) -> Iterator[Row]:
    """Make one run."""
    before = time.process_time()
    world = FactWorld(128, 4, 256, exponent=0.0, seed=point.seed)
    generator = torch.Generator().manual_seed(point.seed)
    model = GPT(settings(world), generator=generator)
    optimizers = build_optimizers(model, optimizer="muon", learning_rate=RATE)
    n_people, n_attributes = world.answers.shape
    people = torch.randperm(n_people, generator=generator)
    in_all = torch.zeros(n_people, dtype=torch.bool)
    in_all[people[: int(point.share * n_people)]] = True
    every = torch.arange(world.answers.numel())
    told = torch.stack([world.sentences(every, order) for order in ORDERS])
    for step in range(STEPS):
        facts = world.draw(BATCH, generator)
        order = torch.randint(len(ORDERS), (BATCH,), generator=generator)
        rows = told[order * in_all[facts // n_attributes], facts]
        falling = min(1, 2 * (STEPS - step) / STEPS)
        set_learning_rate(optimizers, min(falling, (step + 1) / WARMUP))
        train_step(model, optimizers, rows[:, :-1], rows[:, 1:], max_gradient_norm=1.0)
    model.eval()
    for order, rows in zip(ORDERS, told, strict=True):
        q = world.ask(model, order).gather(1, rows[:, -1:])[:, 0].exp()
        q, everybody = q.view(n_people, n_attributes), torch.ones_like(in_all)
        groups = {"all templates": (in_all, in_all)}
        groups["forwards only"] = (~in_all, everybody)
        for seen, (those, rivals) in groups.items():
            if those.any():
                right = q[those] / ceilings(world, order, rivals)[those]
                spent = time.process_time() - before
                before += spent
                yield Row(
                    **asdict(point),
                    order=order,
                    seen=seen,
                    right=round(right.mean().item(), 5),
                    processor_seconds=round(spent, 2),
                )


if __name__ == "__main__":
    TABLE.make(measure, {"shares": shares}, packages=("torch", "numpy"))
