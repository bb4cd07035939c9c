"""Do experts pay: more parameters, of which each token uses as many as before?

    python benchmarks/trials/experts.py rates edges

Small language models learn the beginnings of stories. They differ in the MLP of their one block.

Arms        "dense": 192 hidden units. "experts": eight MLPs of 96, of which a router, a matrix of
            its own, chooses two for each token, so that 192 units work; the two scores' softmax
            weighs what they return. "random" and "fixed": the same eight, weighed in the same way
            by a router that starts at zero, and two of them drawn by chance: with "random" anew
            for each token, in use as in training, with "fixed" once for each entry of the
            vocabulary. "wide": one MLP of 768 units, as many as the experts have together, and all
            of them work.
Fixed       D = 48, one block, ReLU, 250 steps of AdamW, 8 rows of 32 tokens. Matrices into the
            hidden layers start with a standard deviation of 1 / sqrt(D). With experts the loss of
            balance of Switch transformers is added in training, times 0.01.
Rates       Three. `edges` adds rates until an arm's best is neither its lowest nor its highest.
Seeds       Three at every rate. Their mean chooses the rate; all of them are kept.
Measured    The loss on the beginnings of held-out stories, in nats per token; the largest share of
            choices that fell on one expert.
Against     Experts do not pay if "dense" is not behind them by two standard errors, seed by seed;
            a router that learns to choose does not pay if "random" or "fixed" is not.

Chapter 6 reads the table, and a test repeats one of its rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from trial import Trial, beginnings, learn, seeded, stories

from decoder_only.data import training_batch
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss

LENGTH, WIDTH, STEPS = 32, 48, 250
EXPERTS, CHOSEN, BALANCE = 8, 2, 0.01
HIDDEN = {"dense": 192, "experts": 96, "random": 96, "fixed": 96, "wide": 768}
SEEDS = range(3)
RATES = (1e-2, 2e-2, 4e-2)


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    arm: str
    learning_rate: float = 2e-2
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured; the share of the busiest expert is 1 where there is one MLP."""

    parameters: int
    loss: float
    busiest: float


ARMS = [Run(arm=arm) for arm in HIDDEN]
TRIAL = Trial("experts", Run, Found)


def rates() -> Iterator[list[Run]]:
    """All arms at three rates."""
    yield [
        replace(arm, learning_rate=rate, seed=seed)
        for arm, rate, seed in product(ARMS, RATES, SEEDS)
    ]


def edges() -> Iterator[list[Run]]:
    """Rates beyond the lowest or the highest of an arm, while that is its best."""
    while wanted := [run for arm in ARMS for run in beyond(arm)]:
        yield wanted


def beyond(arm: Run) -> list[Run]:
    tried = {rate for (rate,) in TRIAL.scores(arm)}
    best = TRIAL.best(arm, seeds=SEEDS).learning_rate
    further = {min(tried): best / 2, max(tried): 2 * best}.get(best)
    if further is None:
        return []
    return [replace(arm, learning_rate=further, seed=seed) for seed in SEEDS]


class Experts(nn.Module):
    """Several MLPs, of which two work at each position. All are computed, and two are kept."""

    def __init__(self, hidden: int, *, arm: str, generator: torch.Generator) -> None:
        super().__init__()
        self.arm, self.generator = arm, generator

        def drawn(*shape: int, std: float) -> nn.Parameter:
            return nn.Parameter(std * torch.randn(shape, generator=generator))

        self.router = drawn(WIDTH, EXPERTS, std=0.02 if arm == "experts" else 0.0)
        self.up = drawn(EXPERTS, WIDTH, hidden, std=WIDTH**-0.5)
        self.down = drawn(EXPERTS, hidden, WIDTH, std=0.02 / 2**0.5)
        self.balance = torch.zeros(())
        self.ids = self.chosen = torch.empty(0)
        if arm == "fixed":
            self.of_token = torch.rand((512, EXPERTS), generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        scores = x @ self.router
        keys = scores
        if self.arm == "random":
            keys = torch.rand(scores.shape, generator=self.generator)
        if self.arm == "fixed":
            keys = self.of_token[self.ids]
        best = keys.topk(CHOSEN, dim=-1).indices
        self.chosen = F.one_hot(best, EXPERTS).sum(-2).float()
        weights = scores.gather(-1, best).softmax(dim=-1)
        share = self.chosen.mean((0, 1)) / CHOSEN
        self.balance = EXPERTS * (share * scores.softmax(-1).mean((0, 1))).sum()
        hidden = torch.einsum("bsd,edf->bsef", x, self.up).relu()
        outputs = torch.einsum("bsef,efd->bsed", hidden, self.down)
        picked = outputs.gather(2, best[..., None].expand(*best.shape, WIDTH))
        return (weights[..., None] * picked).sum(2)


@torch.no_grad()
def build(run: Run) -> GPT:
    config = GPTConfig(
        vocab_size=512,
        context_length=LENGTH,
        d_model=WIDTH,
        d_mlp=HIDDEN[run.arm],
        n_layers=1,
        n_heads=4,
        activation="relu",
        bias=False,
        qk_norm=True,
    )
    model = GPT(config, generator=seeded(run.seed))
    block = model.blocks[0]
    if run.arm in ("experts", "random", "fixed"):
        block.mlp = Experts(HIDDEN[run.arm], arm=run.arm, generator=seeded(run.seed))
        model.embedding.register_forward_pre_hook(
            lambda _, inputs: setattr(block.mlp, "ids", inputs[0])
        )
    else:
        block.mlp.up.weight.mul_(WIDTH**-0.5 / 0.02)
    return model


def measure(run: Run) -> Found:
    """Make one run."""
    corpus, unseen = stories()
    held_out = beginnings(unseen, LENGTH)
    model = build(run)
    mlp = model.blocks[0].mlp

    def loss_at(step: int) -> Tensor:
        inputs, targets = training_batch(
            corpus, batch_size=8, context_length=LENGTH, seed=run.seed, step=step
        )
        loss = next_token_loss(model(inputs), targets)
        return loss + BALANCE * mlp.balance if run.arm == "experts" else loss

    learn(
        model,
        loss_at,
        steps=STEPS,
        learning_rate=run.learning_rate,
        warmup=50,
        max_gradient_norm=1.0,
    )
    with torch.no_grad():
        loss = next_token_loss(model(held_out[:, :-1]), held_out[:, 1:]).item()
    busiest = 1.0
    if isinstance(mlp, Experts):
        busiest = (mlp.chosen.mean((0, 1)) / CHOSEN).max().item()
    return Found(parameters=model.count_parameters(), loss=loss, busiest=busiest)


if __name__ == "__main__":
    TRIAL.main(measure, rates=rates, edges=edges)
