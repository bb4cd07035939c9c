"""Dot products, divided or not, and additive scores: which learn to look back, as K grows?

    python benchmarks/trials/scores.py rates seeds

One head learns the quiz of chapter 3. The first of forty-two tokens is one of sixteen plants,
forty random words follow, and the last token asks for the plant.

Arms        For K = 16, 64 and 256: dot products divided by the root of K; dot products as they
            come; and additive scores u . tanh(query + key), which have K parameters more. Queries
            and keys start at variance 1, as the argument for the root of K supposes, or, with a
            gain of 0.3, at variance 0.09.
Fixed       200 steps of Adam.
Rates       Halved and doubled until the best is between two others: with seed 0, and then, because
            some runs at a high rate learn nothing and one seed is a poor judge of that, with four
            fresh seeds and by their mean. An arm is read at that rate; this favours all arms alike.
Seeds       Four fresh ones.
Measured    The mean loss in nats over the quizzes of steps 150 to 200, which are always new.
Against     The claim says that additive scores are better than undivided products at large K, and
            that the root mends it. It fails if undivided products are as good as additive scores at
            the largest K, or divided ones are worse.

Chapter 3 reads the table, and a test repeats a row.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

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
    gain: float = 1.0
    learning_rate: float = 4e-3
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: the loss in nats, and the standard deviation of the first scores."""

    loss: float
    score_std: float


ARMS = [
    Run(score=score, head_dim=head_dim, gain=gain)
    for gain in (1.0, 0.3)
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


def seeds() -> Iterator[list[Run]]:
    """Fresh seeds, at rates around the best until the best of their means is between two."""
    for arm in ARMS:
        near = [TRIAL.best(arm).learning_rate]
        while near:
            yield [
                replace(arm, learning_rate=near[0], seed=seed) for seed in TRIAL.seeds
            ]
            best = TRIAL.best(arm, seeds=TRIAL.seeds).learning_rate
            tried = TRIAL.scores(replace(arm, seed=TRIAL.seeds[0]))
            near = [rate for rate in (best / 2, 2 * best) if (rate,) not in tried]


def quiz(seed: int) -> Int[Tensor, "b s"]:
    """128 texts: a plant (16 to 31), words (0 to 15), and the token 32, which asks."""
    generator = seeded(seed)
    ids = torch.randint(16, (128, N_WORDS + 2), generator=generator)
    ids[:, 0] += 16
    ids[:, -1] = 32
    return ids


class Head:
    """A table of vectors and one head, of which only the last query is needed."""

    def __init__(self, score: str, head_dim: int, seed: int, gain: float = 1) -> None:
        generator = seeded(seed)
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


def measure(run: Run) -> Found:
    """Make one run."""
    head = Head(run.score, run.head_dim, run.seed, run.gain)
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
    TRIAL.main(measure, rates=TRIAL.search, seeds=seeds)
