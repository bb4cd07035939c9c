"""Dot products, divided or not, and additive scores: which learn to look back, as K grows?

    python benchmarks/trials/scores.py rates lower seeds

One head learns the quiz of chapter 3. The first of forty-two tokens is one of sixteen plants,
forty random words follow, and the last token asks for the plant.

Arms        For K = 16, 64 and 256: dot products divided by the root of K; dot products as they
            come; and additive scores u . tanh(query + key), which have K parameters more.
Fixed       200 steps of Adam. The head starts as the argument for the root of K supposes, with
            queries and keys of independent components of variance 1.
Rates       Halved and doubled until the best is between two others, with seed 0. With undivided
            products at K = 256 seed 0 learned at none of these rates. So `lower` tries lower ones
            with all seeds. The chapter takes the rate of the least mean, which favours this arm.
Seeds       Four fresh ones.
Measured    The mean loss in nats over the quizzes of steps 150 to 200, which are always new.
Against     The claim says that additive scores are better than undivided products at large K, and
            that the root mends it. It fails if undivided products are as good as additive scores at
            the largest K, or divided ones are worse.

Chapter 3 reads the table, and a test repeats a row.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from trial import Trial, seeded

WIDTH, N_WORDS, STEPS = 32, 40, 200


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    score: str
    head_dim: int
    learning_rate: float = 4e-3
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: the loss in nats, and the standard deviation of the first scores."""

    loss: float
    score_std: float


ARMS = [
    Run(score=score, head_dim=head_dim)
    for head_dim in (16, 64, 256)
    for score in ("divided", "as they come", "additive")
]
TRIAL = Trial(
    "scores",
    Run,
    Found,
    arms=ARMS,
    seeds=(1, 2, 3, 4),
    packages=("torch", "numpy"),
)


def lower() -> Iterator[list[Run]]:
    """Undivided products at K = 256, at ever lower rates."""
    arm = Run(score="as they come", head_dim=256)
    yield [
        replace(arm, learning_rate=arm.learning_rate / 2**power, seed=seed)
        for power, seed in product(range(8), (arm.seed, *TRIAL.seeds))
    ]


def quiz(seed: int) -> Int[Tensor, "b s"]:
    """128 texts: a plant (16 to 31), words (0 to 15), and the token 32, which asks."""
    generator = seeded(seed)
    ids = torch.randint(16, (128, N_WORDS + 2), generator=generator)
    ids[:, 0] += 16
    ids[:, -1] = 32
    return ids


class Head:
    """A table of vectors and one head, of which only the last query is needed."""

    def __init__(self, score: str, head_dim: int, seed: int) -> None:
        generator = seeded(seed)
        root = WIDTH**-0.5
        sizes = {
            "table": (33, WIDTH, 1.0),
            "query": (WIDTH, head_dim, root),
            "key": (WIDTH, head_dim, root),
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


def measure(run: Run) -> Found:
    """Make one run."""
    head = Head(run.score, run.head_dim, run.seed)
    spread = head.scores(quiz(10**6)).std().item()
    optimizer = torch.optim.Adam(head.parts.values(), lr=run.learning_rate)
    losses = []
    for step in range(STEPS):
        ids = quiz(1_000 * run.seed + step)
        loss = F.cross_entropy(head.logits(ids), ids[:, 0] - 16)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return Found(loss=sum(losses[150:]) / 50, score_std=round(spread, 3))


if __name__ == "__main__":
    TRIAL.main(measure, rates=TRIAL.search, lower=lower, seeds=TRIAL.repeat)
