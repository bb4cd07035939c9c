"""Which MLP is best at the same parameters and operations: does a gate help, and which activation?

    python benchmarks/trials/activations.py rates ablations edges seeds longer longer_seeds short

Small language models learn the beginnings of stories. They differ in their MLPs alone.

Arms        Four MLPs of two matrices (F = 192) and three gated ones of three (F = 128). All have
            the same number of parameters. Each starts at one of two scales: "unit" draws the
            matrices into the hidden layer with a standard deviation of 1 / sqrt(D), "gpt2" with
            0.02. `ablations` takes the MLP of ReLUs apart: "linear" leaves out the ReLU, and "none"
            the whole MLP.
Fixed       D = 48, one block, 250 steps of AdamW; with `longer`, two blocks and 500 steps.
Rates       Four for "unit". Six for "gpt2", whose best rates fill a narrow range. `edges` adds
            rates until an arm's best is neither its lowest nor its highest.
Seeds       Three choose the rate by their mean. Five others measure it.
Short       20 steps with another seed, at the best rates: rows that a chapter can make again
            while it is read.
Measured    The loss on the beginnings of held-out stories, in nats per token.
Against     SwiGLU is not the best if another arm of the same cost is ahead of it by two standard
            errors, seed by seed, each at the better of its two starts.

Chapter 6 reads the table. It has seeds 3 to 6 at some rates that are not the best: in an earlier
version two seeds chose among fewer rates. Only a remark on ReGLU reads these rows.
"""

from collections.abc import Iterable, Iterator
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
from decoder_only.model.mlp import SwiGLU, squared_relu

LENGTH, WIDTH = 32, 48
RATES = {
    "unit": (5e-3, 1e-2, 2e-2, 4e-2),
    "gpt2": (5e-3, 7e-3, 1e-2, 1.4e-2, 2e-2, 4e-2),
}
CHOOSING, FRESH = range(3), range(3, 8)  # seeds
PLAIN = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu, "squared_relu": squared_relu}
GATED = {"reglu": F.relu, "geglu": F.gelu, "swiglu": F.silu}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    arm: str
    start: str
    learning_rate: float = 1e-2
    seed: int = 0
    n_layers: int = 1
    steps: int = 250


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: the loss on held-out stories, in nats per token."""

    parameters: int
    loss: float


ARMS = [Run(arm=arm, start=s) for s, arm in product(RATES, (*PLAIN, *GATED))]
ABLATED = [Run(arm="linear", start="unit"), Run(arm="linear", start="gpt2")]
ABLATED += [Run(arm="none", start="unit")]
LONGER = [
    Run(arm=arm, start="unit", n_layers=2, steps=500)
    for arm in ("gelu", "squared_relu", "geglu", "swiglu")
]
TRIAL = Trial("activations", Run, Found)


def rates() -> Iterator[list[Run]]:
    """Every arm at all rates of its start."""
    yield at_rates(ARMS)


def ablations() -> Iterator[list[Run]]:
    """The MLP without its activation, and no MLP, at the same rates."""
    yield at_rates(ABLATED)


def edges() -> Iterator[list[Run]]:
    """Rates beyond the lowest or the highest, where that was the best."""
    arms = [*ARMS, *ABLATED]
    while wanted := [run for arm in arms for run in beyond(arm)]:
        yield wanted


def seeds() -> Iterator[list[Run]]:
    """Every arm at its best rate, from five fresh seeds."""
    yield at_best_rate([*ARMS, *ABLATED])


def longer() -> Iterator[list[Run]]:
    """Four arms with two blocks and twice the steps."""
    runs = at_rates(LONGER)
    # Without a gate the best rate was lower than the highest.
    yield [run for run in runs if run.arm in GATED or run.learning_rate < 4e-2]


def longer_seeds() -> Iterator[list[Run]]:
    """These four at their best rates, from five fresh seeds."""
    yield at_best_rate(LONGER)


def short() -> Iterator[list[Run]]:
    """20 steps of every arm from unit scale, at its best rate."""
    arms = [arm for arm in (*ARMS, *ABLATED) if arm.start == "unit"]
    best = [TRIAL.best(arm, seeds=CHOOSING) for arm in arms]
    yield [replace(arm, seed=FRESH.stop, steps=20) for arm in best]


def at_rates(arms: Iterable[Run]) -> list[Run]:
    return [
        replace(arm, learning_rate=rate, seed=seed)
        for arm, seed in product(arms, CHOOSING)
        for rate in RATES[arm.start]
    ]


def beyond(arm: Run) -> list[Run]:
    """An arm at half its lowest or twice its highest rate, if that was its best one."""
    tried = {rate for (rate,) in TRIAL.scores(arm)}
    best = TRIAL.best(arm, seeds=CHOOSING).learning_rate
    lowest, *_, highest = RATES[arm.start]
    rate = best / 2 if best <= lowest else 2 * best if best >= highest else best
    if not tried or rate in tried:
        return []
    return [replace(arm, learning_rate=rate, seed=seed) for seed in CHOOSING]


def at_best_rate(arms: Iterable[Run]) -> list[Run]:
    tried = [arm for arm in arms if TRIAL.scores(arm)]
    best = [TRIAL.best(arm, seeds=CHOOSING) for arm in tried]
    return [replace(arm, seed=seed) for arm, seed in product(best, FRESH)]


class Nothing(nn.Module):
    """Adds nothing to the residual stream."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


class Gated(SwiGLU):
    """Opened by any activation, not only by SiLU."""

    def __init__(self, activation: str, **sizes: int) -> None:
        super().__init__(**sizes)
        self.activation = GATED[activation]

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.activation(self.gate(x)) * self.up(x))


@torch.no_grad()
def build(run: Run) -> GPT:
    """The model of a run as it starts."""
    gated = run.arm in GATED
    config = GPTConfig(
        vocab_size=512,
        context_length=LENGTH,
        d_model=WIDTH,
        n_layers=run.n_layers,
        n_heads=4,
        activation="swiglu" if gated else "relu",
        bias=False,
        qk_norm=True,
    )
    model = GPT(config, generator=seeded(run.seed))
    for block in model.blocks:
        if gated:
            made = Gated(run.arm, d_model=WIDTH, d_mlp=config.mlp_width)
            made.load_state_dict(block.mlp.state_dict())
            block.mlp = made
        else:
            block.mlp.activation = PLAIN.get(run.arm, nn.Identity())
        for into in (block.mlp.up, *([block.mlp.gate] if gated else [])):
            into.weight.mul_(WIDTH**-0.5 / 0.02 if run.start == "unit" else 1)
        if run.arm == "none":
            block.mlp = Nothing()
    return model


def measure(run: Run) -> Found:
    """Make one run."""
    corpus, unseen = stories()
    held_out = beginnings(unseen, LENGTH)
    model = build(run)

    def loss_at(step: int) -> Tensor:
        inputs, targets = training_batch(
            corpus, batch_size=8, context_length=LENGTH, seed=run.seed, step=step
        )
        return next_token_loss(model(inputs), targets)

    learn(
        model,
        loss_at,
        steps=run.steps,
        learning_rate=run.learning_rate,
        warmup=50,
        max_gradient_norm=1.0,
    )
    with torch.no_grad():
        loss = next_token_loss(model(held_out[:, :-1]), held_out[:, 1:]).item()
    return Found(parameters=model.count_parameters(), loss=loss)


if __name__ == "__main__":
    TRIAL.main(
        measure,
        rates=rates,
        ablations=ablations,
        edges=edges,
        seeds=seeds,
        longer=longer,
        longer_seeds=longer_seeds,
        short=short,
    )
