"""How many heads, and how narrow? Two tasks for a single layer of attention.

    python benchmarks/trials/narrow_heads.py rates seeds close longer

A layer of width 64 reads eight places, and a ninth that asks. Each place holds eight random
numbers.

Tasks       gather: four of the places have a role, the others none. The ninth reports the numbers
            of all four. find: every place has a name of 32 random numbers, new ones in every text.
            The ninth has one of these names, and reports the numbers of that place.
Arms        For both tasks H = 1 to 64 heads of K = 64 / H dimensions, so that all layers have as
            many parameters. For the second also 16 heads of K = 64, so that heads can be many
            without being narrow; that layer has sixteen times the parameters. And four heads of 16
            that share two heads of keys and values, or one, and so have fewer parameters.
Fixed       200 steps of Adam, 32 new texts each; linear maps lead in and out.
Rates       Halved and doubled until the best is between two others, with seed 0. Every fresh seed
            is also made at the rates that come within 0.01 of the best (`close`), and an arm is
            read at the one with the best mean, which lies between two others, too.
Seeds       Five fresh ones; three where a run is four times as long.
Measured    On 1,000 new texts: the mean squared error over the variance, the share that is missed.
Against     More heads do not help to gather, or narrow heads find as well as wide ones. And, if it
            is the width that counts, sixteen wide heads find no better than sixteen narrow ones.
            Sharing costs nothing if heads that share gather and find as well as those that do not.

Chapter 4 reads the table and repeats one of its rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from trial import Trial, seeded

from decoder_only.model.multihead import MultiHeadAttention

WIDTH, PLACES, HELD, NAME, STEPS = 64, 8, 8, 32, 200
TASKS = ("gather", "find")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    task: str
    n_heads: int
    n_kv_heads: int
    head_dim: int
    steps: int = STEPS
    learning_rate: float = 4e-3
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: the share of the variance that is missed."""

    loss: float


ARMS = [
    *(
        Run(task=task, n_heads=n, n_kv_heads=n, head_dim=WIDTH // n)
        for task in TASKS
        for n in (1, 2, 4, 8, 16, 64)
    ),
    Run(task="find", n_heads=16, n_kv_heads=16, head_dim=WIDTH),
    *(
        Run(task=task, n_heads=4, n_kv_heads=n, head_dim=WIDTH // 4)
        for task in TASKS
        for n in (2, 1)
    ),
]
TRIAL = Trial(
    "narrow_heads",
    Run,
    Found,
    arms=ARMS,
    seeds=(1, 2, 3, 4, 5),
    packages=("torch", "numpy"),
)


def best(arm: Run) -> Run:
    """The arm at its best rate, by the mean of the fresh seeds."""
    return TRIAL.best(arm, seeds=TRIAL.seeds)


def close() -> Iterator[list[Run]]:
    """The fresh seeds at all rates that one seed hardly tells apart, and that seed around them."""
    while True:
        wanted = []
        for arm in ARMS:
            found = TRIAL.scores(arm)
            near = [
                x
                for (x,), missed in found.items()
                if missed < min(found.values()) + 0.01
            ]
            wanted += [
                replace(arm, learning_rate=x, seed=y) for x in near for y in TRIAL.seeds
            ]
            middle = best(arm)
            sides = (middle.learning_rate / 2, 2 * middle.learning_rate)
            wanted += [
                replace(middle, learning_rate=x) for x in sides if (x,) not in found
            ]
        made = set(TRIAL.table.runs(TRIAL.table.rows()))
        if not (left := [run for run in wanted if run not in made]):
            return
        yield left


def longer() -> Iterator[list[Run]]:
    """Four times as long, what reports less than all: at the best rates, and at half of them."""
    yield [
        replace(
            run, steps=4 * STEPS, learning_rate=factor * run.learning_rate, seed=seed
        )
        for run in map(best, ARMS)
        if run.n_kv_heads == run.n_heads and (run.task == "find" or run.n_heads < 4)
        if run.head_dim * run.n_heads == WIDTH
        for factor in (1, 0.5)
        for seed in TRIAL.seeds[:3]
    ]


class Layer(nn.Module):
    """Linear maps into one layer of attention and out of it, for one of the tasks."""

    def __init__(self, task: str, **heads: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model=WIDTH, bias=False, **heads)
        self.holds = nn.Linear(HELD, WIDTH)
        marks = nn.Embedding(6, WIDTH), nn.Linear(NAME, WIDTH)
        self.mark = marks[TASKS.index(task)]
        self.asks = nn.Linear(NAME, WIDTH) if task == "find" else None
        self.reads = nn.Linear(WIDTH, HELD * (4 if task == "gather" else 1))

    def forward(
        self, held: Float[Tensor, "b t k"], marks: Tensor, asked: Tensor
    ) -> Float[Tensor, "b v"]:
        places = self.holds(held) + self.mark(marks)
        last = self.mark(asked) if self.asks is None else self.asks(asked)
        return self.reads(self.attention(torch.cat([places, last[:, None]], 1))[:, -1])


def texts(task: str, seed: int, size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What the places hold, how they are marked, what the ninth has, and what it must report."""
    generator, rows = seeded(seed), torch.arange(size)
    held = torch.randn(size, PLACES, HELD, generator=generator)
    order = torch.rand(size, PLACES, generator=generator).argsort(dim=1)
    if task == "gather":  # roles 0 to 3, 4 for none, and 5 for the place that asks
        at = order.argsort(dim=1)[:, :4]
        wanted = held[rows[:, None], at].flatten(1)
        return held, order.clamp(max=4), torch.full((size,), 5), wanted
    names = torch.randn(size, PLACES, NAME, generator=generator)
    return held, names, names[rows, order[:, 0]], held[rows, order[:, 0]]


def measure(run: Run) -> Found:
    """Make one run."""
    torch.manual_seed(run.seed)
    heads = {"n_heads": run.n_heads, "n_kv_heads": run.n_kv_heads}
    layer = Layer(run.task, head_dim=run.head_dim, **heads)
    adam = torch.optim.Adam(layer.parameters(), lr=run.learning_rate, fused=True)
    for step in range(run.steps):
        *given, wanted = texts(run.task, 1_000 * run.seed + step, 32)
        adam.zero_grad()
        F.mse_loss(layer(*given), wanted).backward()
        adam.step()
    *given, wanted = texts(run.task, 1_000 * run.seed + run.steps, 1_000)
    with torch.no_grad():
        missed = F.mse_loss(layer(*given), wanted) / wanted.square().mean()
    return Found(loss=missed.item())


if __name__ == "__main__":
    TRIAL.main(
        measure, rates=TRIAL.search, seeds=TRIAL.repeat, close=close, longer=longer
    )
