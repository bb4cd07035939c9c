"""Dot products, divided or not, and additive scores: which learn to look back, as K grows?

    python benchmarks/trials/scores.py rates wider seeds near longer

One head learns the quiz of chapter 3. The first of forty-two tokens is one of sixteen plants,
forty random words follow, and the last token asks for the plant.

Arms        For K = 16, 64 and 256: dot products divided by the root of K; dot products as they
            come; and additive scores u . tanh(query + key), which have K parameters more. Queries
            and keys start at variance 1, as the argument for the root of K supposes, or, with a
            gain of 0.3, at variance 0.09.
Fixed       200 steps of Adam; 800 for the arms of `longer`.
Rates       Two for each arm: one for what makes the scores (queries, keys and the vector u), one
            for the rest. A score without a division is larger by the root of K, so one rate for
            all would decide between the arms. Both are halved and doubled until the best is
            between two others, by the mean of four seeds, or the quiz is solved (`SOLVED`). For
            undivided products at K = 256, from variance 1, all fifteen pairs around it (`wider`).
Seeds       Four that choose the rates, and eight fresh ones. Four seeds choose with much noise, so
            `near` takes the fresh ones also through all pairs of rates that were as good within a
            standard error, where undivided products fail.
Measured    The mean loss in nats over the quizzes of the last 50 steps, which are always new.
Against     The claim says that additive scores are better than undivided products at large K. It
            fails if undivided products are as good as additive scores at the largest K.

Chapter 3's laboratory reads the table, and a test repeats a row.
"""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from trial import Trial, seeded

WIDTH, N_WORDS = 32, 40
SOLVED = 0.005
"""A mean loss in nats from which on no better rates are looked for."""
CHOOSING = (1, 2, 3, 4)
FAILING = ((1.0, 64), (1.0, 256), (0.3, 256))
"""Gains and sizes at which undivided products leave fresh seeds unsolved, as `seeds` found."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    score: str
    head_dim: int
    gain: float = 1.0
    score_rate: float = 1e-3
    learning_rate: float = 8e-3
    steps: int = 200
    seed: int = CHOOSING[0]


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
    seeds=tuple(range(11, 19)),
    tuned=("score_rate", "learning_rate"),
    packages=("torch", "numpy"),
)


def best(arm: Run) -> Run:
    """The arm at its best rates, by the mean of the seeds that choose."""
    return TRIAL.best(arm, seeds=CHOOSING)


def solved(arm: Run) -> bool:
    losses = [
        TRIAL.scores(replace(arm, seed=seed)).get((arm.score_rate, arm.learning_rate))
        for seed in CHOOSING
    ]
    return None not in losses and sum(losses) / len(losses) < SOLVED


def around(arm: Run) -> list[Run]:
    """The arm at its best rates so far, and at the rates next to them."""
    middle = best(arm)
    if solved(middle):
        return [middle]
    near = [
        replace(middle, **{name: factor * getattr(middle, name)})
        for name in TRIAL.tuned
        for factor in (0.5, 2)
    ]
    return [middle, *near]


def rates() -> Iterator[list[Run]]:
    """Halve and double both rates of every arm until the best is between others."""
    while wanted := [
        replace(run, seed=seed)
        for arm in ARMS
        for run in around(arm)
        for seed in CHOOSING
        if (run.score_rate, run.learning_rate)
        not in TRIAL.scores(replace(arm, seed=seed))
    ]:
        yield wanted


def wider() -> Iterator[list[Run]]:
    """All pairs of rates, for the arm that fails most: undivided, K = 256, from variance 1."""
    yield [
        Run(
            score="as they come", head_dim=256, score_rate=x, learning_rate=y, seed=seed
        )
        for x in (2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3)
        for y in (4e-3, 8e-3, 1.6e-2)
        for seed in CHOOSING
    ]


def seeds() -> Iterator[list[Run]]:
    """Fresh seeds at the best rates."""
    yield [replace(best(arm), seed=seed) for arm in ARMS for seed in TRIAL.seeds]


def as_good(arm: Run) -> list[Run]:
    """The arm at all rates that the choosing seeds cannot tell from the best, or solve it."""
    tried = [TRIAL.scores(replace(arm, seed=seed)) for seed in CHOOSING]
    top, found = best(arm), []
    chosen = [losses[top.score_rate, top.learning_rate] for losses in tried]
    for rates in tried[0]:
        if all(rates in losses for losses in tried):
            run = replace(arm, score_rate=rates[0], learning_rate=rates[1])
            extra = [losses[rates] - x for losses, x in zip(tried, chosen, strict=True)]
            error = statistics.stdev(extra) / len(extra) ** 0.5
            if statistics.mean(extra) <= error or (solved(top) and solved(run)):
                found.append(run)
    return found


def near() -> Iterator[list[Run]]:
    """Fresh seeds at all rates that are as good, for the undivided arms that fail."""
    yield [
        replace(run, seed=seed)
        for arm in ARMS
        if arm.score == "as they come" and (arm.gain, arm.head_dim) in FAILING
        for run in as_good(arm)
        for seed in TRIAL.seeds
    ]


def longer() -> Iterator[list[Run]]:
    """Four times as long, what does not learn the quiz: at its rates, and at half of them."""
    yield [
        replace(
            run,
            score_rate=factor * run.score_rate,
            learning_rate=factor * run.learning_rate,
            steps=800,
            seed=seed,
        )
        for run in map(best, ARMS)
        if run.score == "as they come" and run.gain == 1.0
        for factor in (1, 0.5)
        for seed in TRIAL.seeds[:4]
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
    scoring = [head.parts[name] for name in ("query", "key", "alignment")]
    others = [head.parts[name] for name in ("table", "value", "output")]
    optimizer = torch.optim.Adam(
        [
            {"params": scoring, "lr": run.score_rate},
            {"params": others, "lr": run.learning_rate},
        ]
    )
    losses = []
    for step in range(run.steps):
        ids = quiz(1_000 * run.seed + step)
        loss = F.cross_entropy(head.logits(ids), ids[:, 0] - 16)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return Found(loss=sum(losses[-50:]) / 50, score_std=round(spread, 3))


if __name__ == "__main__":
    TRIAL.main(measure, rates=rates, wider=wider, seeds=seeds, near=near, longer=longer)
