"""Seven MLPs at the same parameters and operations: does a gate help, and which activation?

    python benchmarks/trials/activations.py rates ablations edges edges seeds longer longer_seeds

Language models of width 48, with F = 192 for two matrices and F = 128 for three, learn the
beginnings of stories. Every arm gets the same rates, and `edges` adds one where the best was the
lowest or the highest; the rate is chosen on three seeds, and `seeds` measures it on five others.
The matrices into the hidden layer start at one of two scales: "unit", normal with 1 / sqrt(D), or
"gpt2", with 0.02, where two rates more are tried, since the valleys are narrow. `longer` repeats
some arms with two blocks and twice the steps, three seeds at each rate, and `longer_seeds` measures
their best on five others. `ablations` takes the MLP of ReLUs apart: "linear" leaves out the ReLU,
from both starts, and "none" the MLP.

What would count against SwiGLU: an arm of the same cost that is ahead of it by two standard errors,
seed by seed, each at the better of its two starts. The table goes into the package, for chapter 6.
Runs that stand in it are not made again. Where seeds 3 to 6 stand at a rate that is not the best,
two seeds had chosen it among fewer rates; only a remark on ReGLU reads them.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from trial import Table, beginnings, learn, stories

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
ARMS = (*PLAIN, *GATED)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    arm: str
    start: str
    learning_rate: float
    seed: int
    n_layers: int = 1
    steps: int = 250


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it: the loss on held-out stories, in nats per token."""

    parameters: int
    loss: float
    processor_seconds: float


TABLE = Table("activations", Point)


def rates() -> Iterator[Point]:
    for start, arm, seed in product(RATES, ARMS, CHOOSING):
        for rate in RATES[start]:
            yield Point(arm=arm, start=start, learning_rate=rate, seed=seed)


def edges() -> Iterator[Point]:
    for point, seed in product(best(), CHOOSING):
        if point.learning_rate <= RATES[point.start][0]:
            yield replace(point, learning_rate=point.learning_rate / 2, seed=seed)
        if point.learning_rate >= RATES[point.start][-1]:
            yield replace(point, learning_rate=point.learning_rate * 2, seed=seed)


def seeds() -> Iterator[Point]:
    for point, seed in product(best(), FRESH):
        yield replace(point, seed=seed)


def longer() -> Iterator[Point]:
    arms = ("gelu", "squared_relu", "geglu", "swiglu")
    for arm, rate, seed in product(arms, RATES["unit"], CHOOSING):
        if arm in GATED or rate < RATES["unit"][-1]:  # the others' best is lower
            point = Point(arm=arm, start="unit", learning_rate=rate, seed=seed)
            yield replace(point, n_layers=2, steps=500)


def longer_seeds() -> Iterator[Point]:
    for point, seed in product(best(n_layers=2), FRESH):
        yield replace(point, seed=seed)


def ablations() -> Iterator[Point]:
    for arm, start in (("linear", "unit"), ("linear", "gpt2"), ("none", "unit")):
        for rate, seed in product(RATES[start], CHOOSING):
            yield Point(arm=arm, start=start, learning_rate=rate, seed=seed)


EXPERIMENTS = (rates, edges, seeds, longer, longer_seeds, ablations)


def best(n_layers: int = 1) -> list[Point]:
    """Of every arm and start, the rate with the lowest mean over the seeds that choose."""
    sums: dict[tuple[str, str], dict[float, float]] = defaultdict(dict)
    for row in TABLE.rows():
        if int(row["n_layers"]) == n_layers and int(row["seed"]) in CHOOSING:
            arm, rate = sums[row["arm"], row["start"]], float(row["learning_rate"])
            arm[rate] = arm.get(rate, 0.0) + float(row["loss"])
    return [
        Point(
            arm=arm,
            start=start,
            learning_rate=min(each, key=each.get),
            seed=0,
            n_layers=n_layers,
            steps=250 * n_layers,
        )
        for (arm, start), each in sums.items()
    ]


class Nothing(nn.Module):
    """Adds nothing to the stream."""

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
def build(point: Point) -> GPT:
    gated = point.arm in GATED
    config = GPTConfig(
        vocab_size=512,
        context_length=LENGTH,
        d_model=WIDTH,
        n_layers=point.n_layers,
        n_heads=4,
        activation="swiglu" if gated else "relu",
        bias=False,
        qk_norm=True,
    )
    model = GPT(config, generator=torch.Generator().manual_seed(point.seed))
    for block in model.blocks:
        if gated:
            made = Gated(point.arm, d_model=WIDTH, d_mlp=config.mlp_width)
            made.load_state_dict(block.mlp.state_dict())
            block.mlp = made
        else:
            block.mlp.activation = PLAIN.get(point.arm, nn.Identity())
        for into in (block.mlp.up, *([block.mlp.gate] if gated else [])):
            into.weight.mul_(WIDTH**-0.5 / 0.02 if point.start == "unit" else 1)
        if point.arm == "none":
            block.mlp = Nothing()
    return model


def measure(point: Point) -> Row:
    """Make one run."""
    corpus, unseen = stories()
    held_out = beginnings(unseen, LENGTH)
    began = time.process_time()
    model = build(point)

    def loss_at(step: int) -> Tensor:
        inputs, targets = training_batch(
            corpus, batch_size=8, context_length=LENGTH, seed=point.seed, step=step
        )
        return next_token_loss(model(inputs), targets)

    learn(
        model,
        loss_at,
        steps=point.steps,
        learning_rate=point.learning_rate,
        warmup=50,
        max_gradient_norm=1.0,
    )
    with torch.no_grad():
        loss = next_token_loss(model(held_out[:, :-1]), held_out[:, 1:]).item()
    return Row(
        **asdict(point),
        parameters=model.count_parameters(),
        loss=round(loss, 5),
        processor_seconds=round(time.process_time() - began, 1),
    )


if __name__ == "__main__":
    TABLE.make(measure, {each.__name__: each for each in EXPERIMENTS})
