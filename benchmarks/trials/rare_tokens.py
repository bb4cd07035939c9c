"""Why descent lags behind Adam on language: which tokens does each rule learn?

    python benchmarks/trials/rare_tokens.py rules weighted

Models of chapter 9 learn the openings of stories as in `updates.py`. The held-out targets are cut
into four groups of about equal size, by how frequent the target is in the training text.

Arms        `rules`: descent, momentum and AdamW.
            `weighted`: all three on a loss that counts each target by one over the root of its
            frequency. If rare tokens are what holds descent back, this should help it, and AdamW
            less. It is measured on the loss as it is.
Fixed       200 steps of eight rows, 20 of warm-up and half a cosine.
Rates       Two for each arm, of matrices and of tables. `rules` has the best of `updates.py`,
            and `weighted` searches for its own with seed 0.
Seeds       Three fresh ones.
Measured    Held-out loss of each group (1 has the most frequent targets, 0 is all), and how many
            different tokens it has.
Against     Rarity has no part in it if descent is behind AdamW by as much in the first group as in
            the last, or if the weights do not narrow the distance in the last.

The laboratory of chapter 9 reads the table.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
import updates
from jaxtyping import Float, Int
from torch import Tensor
from trial import Trial, seeded

from decoder_only.data import evaluation_batches, training_batch
from decoder_only.model.gpt import GPT, GPTConfig
from decoder_only.model.lm_head import IGNORED, next_token_loss
from decoder_only.training import NextTokenLoss, train_step
from decoder_only.training.optimizers import cosine, set_learning_rate

N_GROUPS = 4


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    rule: str
    weighted: bool = False
    steps: int = 200
    learning_rate: float
    table_learning_rate: float
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured of a group of targets: loss, and how many different tokens it has."""

    group: int
    tokens: int
    loss: float


TUNED = ("learning_rate", "table_learning_rate")
TRIAL = Trial("rare_tokens", Run, Found, tuned=TUNED, scored={"group": 0})


def arm(rule: str, **changes: object) -> Run:
    """A rule at the best rates of `updates.py`."""
    best = updates.TRIAL.best(updates.arm(rule))
    rates = {name: getattr(best, name) for name in TUNED}
    return Run(rule=rule, **rates, **changes)


def fresh(arms: list[Run]) -> list[Run]:
    return [replace(each, seed=seed) for each in arms for seed in (1, 2, 3)]


def rules() -> Iterator[list[Run]]:
    """Three rules at the best rates of `updates.py`."""
    yield fresh([arm(rule) for rule in ("descent", "momentum", "adamw")])


def searched(arms: list[Run]) -> Iterator[list[Run]]:
    yield from TRIAL.search(arms)
    yield fresh([TRIAL.best(each) for each in arms])


def weighted() -> Iterator[list[Run]]:
    """Rare targets count more."""
    yield from searched(
        [arm(rule, weighted=True) for rule in ("descent", "momentum", "adamw")]
    )


def counts() -> np.ndarray:
    """How often each token is in the training text, and once more."""
    openings, _ = updates.material()
    return np.bincount(openings.ids, minlength=updates.SHAPE["vocab_size"]) + 1


def group_of_token() -> Int[Tensor, " v"]:
    """The group of each token, 1 to 4: about a quarter of the held-out targets each."""
    _, held_out = updates.material()
    order = np.argsort(-counts(), kind="stable")
    here = np.bincount(held_out.ids[1:], minlength=len(order))[order]
    before = np.cumsum(here) - here
    group = 1 + np.minimum(before * N_GROUPS // here.sum(), N_GROUPS - 1)
    found = np.empty(len(order), dtype=np.int64)
    found[order] = group
    return torch.from_numpy(found)


class Weighted(NextTokenLoss):
    """Counts each target by one over the root of its frequency, by one on average."""

    def __init__(self, model: GPT, weights: Float[Tensor, " v"]) -> None:
        super().__init__(model)
        self.weights = weights

    def forward(
        self, inputs: Int[Tensor, "b s"], targets: Int[Tensor, "b s"]
    ) -> Float[Tensor, ""]:
        losses = next_token_loss(self.model(inputs), targets, reduction="none")
        return (losses * self.weights[targets.clamp(min=0)]).sum()


def weights_of_tokens() -> Float[Tensor, " v"]:
    n = torch.from_numpy(counts()).float()
    return n**-0.5 * (n.sum() / n.sqrt().sum())


@torch.no_grad()
def losses_of_groups(model: GPT) -> list[Found]:
    _, held_out = updates.material()
    model.eval()
    found, groups = [], []
    for inputs, targets in evaluation_batches(
        held_out, batch_size=32, context_length=64
    ):
        losses = next_token_loss(model(inputs), targets, reduction="none")
        counted = targets != IGNORED
        found.append(losses[counted])
        groups.append(group_of_token()[targets[counted]])
    losses, groups = torch.cat(found).double(), torch.cat(groups)
    rows = []
    for group in range(1, N_GROUPS + 1):
        n_tokens = int((group_of_token() == group).sum())
        loss = updates.finite_or_inf(losses[groups == group].mean().item())
        rows.append(Found(group=group, tokens=n_tokens, loss=loss))
    whole = updates.finite_or_inf(losses.mean().item())
    return [*rows, Found(group=0, tokens=len(group_of_token()), loss=whole)]


def measure(run: Run) -> list[Found]:
    """Make one run."""
    openings, _ = updates.material()
    model = GPT(GPTConfig(**updates.SHAPE), generator=seeded(run.seed))
    settings = {name: getattr(run, name) for name in TUNED}
    optimizers = updates.optimizers_of(updates.Run(rule=run.rule, **settings), model)
    loss = NextTokenLoss(model)
    if run.weighted:
        loss = Weighted(model, weights_of_tokens())
    share_at = partial(cosine, warmup_steps=20, total_steps=run.steps)
    for step in range(run.steps):
        set_learning_rate(optimizers, share_at(step))
        size = {"batch_size": updates.BATCH, "context_length": 64}
        batch = training_batch(openings, seed=run.seed, step=step, **size)
        train_step(loss, optimizers, *batch)
    return losses_of_groups(model)


if __name__ == "__main__":
    TRIAL.main(measure, rules=rules, weighted=weighted)
