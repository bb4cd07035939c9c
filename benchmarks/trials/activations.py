"""Seven MLPs at the same parameters and operations: does a gate help, and which activation?

    python benchmarks/trials/activations.py rates ablations edges edges seeds longer

Language models of width 48, with F = 192 for two matrices and F = 128 for three, learn the
beginnings of stories. Every arm gets the same rates, and `edges` adds one where the best was the
lowest or the highest; the rate is chosen on two seeds, and `seeds` measures it on five others.
The matrices into the hidden layer start at one of two scales: "unit", normal with 1 / sqrt(D), or
"gpt2", with 0.02. `longer` repeats some arms with two blocks and twice the steps, three
seeds at each of three rates. `ablations` takes the MLP of ReLUs apart: "linear" leaves out the
ReLU, and "none" the MLP.

What would count against SwiGLU: an arm of the same cost whose held-out loss, seed by seed, is not
higher by two standard errors. The table goes into the package, for chapter 6. Runs that stand in it
are not made again.
"""

import functools
import math
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice, product
from typing import Literal

import _path
import torch
import torch.nn.functional as F
import tyro
from provenance import collect, write_results
from tables import append, key, read
from torch import Tensor, nn

from decoder_only.config import GPTConfig
from decoder_only.data import Corpus, document_corpus, training_batch
from decoder_only.lm_head import next_token_loss
from decoder_only.mlp import SwiGLU, squared_relu
from decoder_only.model import GPT
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer

TABLE = _path.TABLES / "activations.csv"
LENGTH, WIDTH = 32, 48
RATES = (5e-3, 1e-2, 2e-2, 4e-2)
PLAIN = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu, "squared_relu": squared_relu}
GATED = {"reglu": F.relu, "geglu": F.gelu, "swiglu": F.silu}
ARMS = (*PLAIN, *GATED)
ABLATED = ("linear", "none")


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


def rates() -> Iterator[Point]:
    for start, arm, rate, seed in product(("unit", "gpt2"), ARMS, RATES, range(2)):
        yield Point(arm=arm, start=start, learning_rate=rate, seed=seed)


def edges() -> Iterator[Point]:
    for point, seed in product(best(), range(2)):
        if point.learning_rate <= RATES[0]:
            yield replace(point, learning_rate=point.learning_rate / 2, seed=seed)
        if point.learning_rate >= RATES[-1]:
            yield replace(point, learning_rate=point.learning_rate * 2, seed=seed)


def seeds() -> Iterator[Point]:
    for point, seed in product(best(), range(2, 7)):
        yield replace(point, seed=seed)


def longer() -> Iterator[Point]:
    arms = ("gelu", "squared_relu", "swiglu")
    for arm, rate, seed in product(arms, RATES[:3], range(3)):
        point = Point(arm=arm, start="unit", learning_rate=rate, seed=seed)
        yield replace(point, n_layers=2, steps=500)


def ablations() -> Iterator[Point]:
    for arm, rate, seed in product(ABLATED, RATES, range(2)):
        yield Point(arm=arm, start="unit", learning_rate=rate, seed=seed)


EXPERIMENTS = {each.__name__: each for each in (rates, edges, seeds, longer, ablations)}


def best() -> list[Point]:
    """Of every arm and start, the rate with the lowest mean over the first two seeds."""
    sums: dict[tuple[str, str], dict[float, float]] = defaultdict(dict)
    for row in read(TABLE):
        if row["n_layers"] == "1" and row["seed"] in "01":
            arm, rate = sums[row["arm"], row["start"]], float(row["learning_rate"])
            arm[rate] = arm.get(rate, 0.0) + float(row["loss"])
    return [
        Point(arm=arm, start=start, learning_rate=min(each, key=each.get), seed=0)
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


@functools.cache
def material() -> tuple[Corpus, Tensor]:
    """Stories to learn from, and the beginnings of 400 to be measured on."""
    language = StoryLanguage()
    stories = list(islice(language.stories(split="train"), 1_500))
    tokenizer = BytePairTokenizer.train(stories[:300], 512)
    unseen = document_corpus(
        islice(language.stories(split="validation"), 400), tokenizer
    )
    held_out = torch.from_numpy(unseen.ids.astype("int64")).unfold(0, LENGTH + 1, 1)
    return document_corpus(stories, tokenizer), held_out[unseen.starts]


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
            made = Gated(point.arm, d_model=WIDTH, d_mlp=config.d_mlp)
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
    corpus, held_out = material()
    began = time.process_time()
    model = build(point)
    settings = {"betas": (0.9, 0.95), "weight_decay": 0.0, "fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), **settings)
    for step in range(point.steps):
        rising = min(1, (step + 1) / 50)
        falling = (1 + math.cos(math.pi * step / point.steps)) / 2
        optimizer.param_groups[0]["lr"] = point.learning_rate * rising * falling
        inputs, targets = training_batch(
            corpus, batch_size=8, context_length=LENGTH, seed=point.seed, step=step
        )
        optimizer.zero_grad()
        next_token_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        loss = next_token_loss(model(held_out[:, :-1]), held_out[:, 1:]).item()
    return Row(
        **asdict(point),
        parameters=model.count_parameters(),
        loss=round(loss, 5),
        processor_seconds=round(time.process_time() - began, 1),
    )


def main(
    experiments: tyro.conf.Positional[
        tuple[Literal["rates", "edges", "seeds", "longer", "ablations"], ...]
    ],
) -> None:
    """Make the runs of some experiments that have not been made yet.

    Args:
        experiments: which, in this order: the later ones read what the earlier found.
    """
    torch.set_num_threads(1)
    for name in experiments:
        done = {key(row, Point) for row in read(TABLE)}
        for point in dict.fromkeys(EXPERIMENTS[name]()):
            if key(asdict(point), Point) not in done:
                append(TABLE, row := measure(point))
                print(row, flush=True)
    provenance = collect(packages=["torch", "numpy", "tiktoken"])
    about = {"provenance": provenance, "runs": len(read(TABLE))}
    write_results(TABLE.with_suffix(".json"), about)


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
