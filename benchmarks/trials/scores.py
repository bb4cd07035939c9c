"""Dot products, divided or not, and additive scores: which learn to look back, as K grows?

    python benchmarks/trials/scores.py rates seeds

One head answers the quiz of chapter 3: the first of forty-two tokens is one of sixteen plants,
forty random words follow, the last token asks for the plant. It starts as the argument for the
root of K supposes, with queries and keys of independent components of variance 1. Three arms for
each K: dot products divided by the root of K, dot products as they come, and additive scores,
u . tanh(query + key), which have K parameters more. What counts is the mean loss, in nats, over
the quizzes of steps 150 to 200, which are always fresh ones. All of it is done twice: with a gain
of 1 queries and keys start at variance 1, with a gain of 0.3 at variance 0.09.

`rates` doubles and halves each arm's learning rate (Adam's), with seed 0, until the best lies
between two others. One seed is a poor judge here: some runs at a high rate learn nothing, and
seed 0 alone would choose such rates. So `seeds` begins there, and doubles and halves the rate
with four fresh seeds until the best of their means lies between two others. An arm is read at
that rate, which favours every arm alike. The claim says that additive scores outdo undivided
products at large K, and that the root mends it. What would count against it: undivided products
as good as additive ones at the largest K, or divided ones that are worse.

Runs that stand in the table are not made again. Chapter 3 reads it, and a test repeats a row.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from statistics import mean

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from trial import Table

WIDTH, N_WORDS, STEPS = 32, 40, 200
SEEDS = (1, 2, 3, 4)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    score: str
    head_dim: int
    gain: float = 1.0
    learning_rate: float = 4e-3
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it: the loss in nats, and the standard deviation of first scores."""

    loss: float
    score_std: float
    processor_seconds: float


TABLE = Table("scores", Point)
ARMS = [
    Point(score=score, head_dim=head_dim, gain=gain)
    for gain in (1.0, 0.3)
    for head_dim in (16, 64, 256)
    for score in ("divided", "as they come", "additive")
]


def quiz(seed: int) -> Int[Tensor, "b s"]:
    """128 texts: a plant (16 to 31), words (0 to 15), and the token 32, which asks."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(16, (128, N_WORDS + 2), generator=generator)
    ids[:, 0] += 16
    ids[:, -1] = 32
    return ids


class Head:
    """A table of vectors and one head, of which only the last query is needed."""

    def __init__(self, score: str, head_dim: int, seed: int, gain: float = 1) -> None:
        generator = torch.Generator().manual_seed(seed)
        root = WIDTH**-0.5
        sizes = {
            "table": (33, WIDTH, 1.0),
            "query": (WIDTH, head_dim, gain * root),
            "key": (WIDTH, head_dim, gain * root),
            "value": (WIDTH, WIDTH, root),
            "output": (WIDTH, 16, root),
            "alignment": (head_dim, 1, head_dim**-0.5),
        }
        self.score = score
        self.parts = {
            name: (scale * torch.randn(rows, columns, generator=generator))
            .detach()
            .requires_grad_()
            for name, (rows, columns, scale) in sizes.items()
        }

    def scores(self, ids: Int[Tensor, "b s"]) -> Float[Tensor, "b t"]:
        x, parts = self.parts["table"][ids], self.parts
        query, keys = x[:, -1:] @ parts["query"], x @ parts["key"]
        if self.score == "additive":
            return (torch.tanh(query + keys) @ parts["alignment"])[..., 0]
        scale = keys.shape[-1] ** -0.5 if self.score == "divided" else 1.0
        return scale * (query * keys).sum(-1)

    def logits(self, ids: Int[Tensor, "b s"]) -> Float[Tensor, "b v"]:
        weights = self.scores(ids).softmax(-1)
        values = self.parts["table"][ids] @ self.parts["value"]
        return torch.einsum("bt,btk->bk", weights, values) @ self.parts["output"]


def measure(point: Point) -> Row:
    """Make one run."""
    began = time.process_time()
    head = Head(point.score, point.head_dim, point.seed, point.gain)
    spread = head.scores(quiz(10**6)).std().item()
    optimizer = torch.optim.Adam(head.parts.values(), lr=point.learning_rate)
    losses = []
    for step in range(STEPS):
        ids = quiz(1_000 * point.seed + step)
        loss = F.cross_entropy(head.logits(ids), ids[:, 0] - 16)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return Row(
        **asdict(point),
        loss=round(sum(losses[150:]) / 50, 5),
        score_std=round(spread, 3),
        processor_seconds=round(time.process_time() - began, 1),
    )


def rates() -> Iterator[Point]:
    yield from TABLE.rates(ARMS)


def means(arm: Point) -> dict[float, float]:
    """The mean loss of the fresh seeds, at every rate that all of them have tried."""
    losses: dict[float, list[float]] = {}
    for seed in SEEDS:
        for (rate,), loss in TABLE.scores(replace(arm, seed=seed)).items():
            losses.setdefault(rate, []).append(loss)
    return {
        rate: mean(each) for rate, each in losses.items() if len(each) == len(SEEDS)
    }


def seeds() -> Iterator[Point]:
    for arm in ARMS:
        near = [TABLE.at_best_rate(arm).learning_rate]
        while near:
            for seed in SEEDS:
                yield replace(arm, learning_rate=near[0], seed=seed)
            tried = means(arm)
            best = min(tried, key=tried.get)
            near = [rate for rate in (best / 2, 2 * best) if rate not in tried]


if __name__ == "__main__":
    EXPERIMENTS = {each.__name__: each for each in (rates, seeds)}
    TABLE.make(measure, EXPERIMENTS, packages=("torch", "numpy"))
