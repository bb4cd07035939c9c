"""How does a model come to copy, how suddenly, and by which algorithm?

    python benchmarks/trials/induction.py positions depth optimizers

Models learn `RepeatedChains`: a chain that is the same in all sequences, repeated with a period
that nobody tells. The losses of six strategies on it are exact: uniform, unigram, bigram, seen (the
bigram among the tokens that have come), copying (what followed the last token before) and the
truth. Every twentieth step the table has the loss where all is repeated (`late`) and where nothing
is (`new`), and the largest share of its weight that a head gives to one place:

    previous   in the first block, the token before
    same       in the first block, where the last token stood a period before
    induction  in the last block, what followed there

Two algorithms can copy. By the key: a head tells each position which token stands before it, and
the next block looks for the position whose predecessor is the last token. By the query: a head
finds where the last token stood, and the next block looks one place behind it (pointer
arithmetic). Of the last state the table has the late loss where the heads of the last block make
their queries, keys or values (`cut_query`, ...) from a stream in which the heads of the first block
say what they say on average, and where they read nothing else (`cut_all`).

What do the keys hear? What a head of the first block hands over is a sum over the places that it
looks at, of weights times values. Of the last state of the fresh seeds of `positions` the table has
the late loss where the keys hear only the term of the token before, the others being their means
over the batch (`key_before`), or only that of the position itself (`key_itself`) or of the token
two before (`key_two_before`), or all but that of the token before (`key_others`). If it is the
token before that they need, the first is nearer to the loss than to `cut_key`, and the others are
nearer to `cut_key`, in every run. (Set when that of "learned", seed 1, had been seen.)

The arms: "learned" and "rotary" positions, two blocks of width 32 with Muon; "one block", which
cannot look up what another position found, with learned positions; "adamw", like "learned". The
rate of each arm is doubled and halved, with seed 0, until the best lies between two others, and run
with fresh seeds: five in `positions`, three in `depth` and in `optimizers`.

What would count against copying in two steps: one block that comes as far as two. Against
abruptness: that the fall to copying takes as many steps as the one to the bigram. Against one
algorithm for all: that cutting queries is what costs one arm, and cutting keys another. Chapter 14
reads the table.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import product

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor
from trial import Table

from decoder_only.analysis.interpretation import (
    RepeatedChains,
    attention_maps,
    rewired,
    streams,
    without_head,
)
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.model.presets import MODERN
from decoder_only.training import NextTokenLoss, train_step
from decoder_only.training.optimizers import build_optimizers, set_learning_rate

WIDTH, HEADS, STEPS, EVERY, BATCH, WARMUP = 32, 2, 600, 20, 32, 20
SOURCE = RepeatedChains()
PARTS = ("query", "key", "value")


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    arm: str
    learning_rate: float = 1.6e-2
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A state of a run: losses in nats per token, and the scores of the best heads.

    What the late loss is with paths cut is measured on the last state only.
    """

    step: int
    late: float
    new: float
    previous: float
    same: float
    induction: float
    cut_query: float | None = None
    cut_key: float | None = None
    cut_value: float | None = None
    cut_all: float | None = None
    key_before: float | None = None
    key_itself: float | None = None
    key_two_before: float | None = None
    key_others: float | None = None
    processor_seconds: float = 0.0


TABLE = Table("induction", Point, score="late")


def tried(arm: str, seeds: Iterable[int]) -> Iterator[Point]:
    """An arm at three rates or more, and at the best of them with fresh seeds."""
    point = Point(arm=arm)
    yield from TABLE.rates([point])
    yield from TABLE.seeds([point], seeds)


def positions() -> Iterator[Point]:
    for arm in ("learned", "rotary"):
        yield from tried(arm, (1, 2, 3, 4, 5))


def depth() -> Iterator[Point]:
    yield from tried("one block", (1, 2, 3))


def optimizers() -> Iterator[Point]:
    yield from tried("adamw", (1, 2, 3))


def configuration(arm: str) -> GPTConfig:
    """The model of an arm."""
    positions = "rotary" if arm == "rotary" else "learned"
    return GPTConfig(
        vocab_size=len(SOURCE.chain),
        context_length=SOURCE.length,
        d_model=WIDTH,
        n_layers=1 if arm == "one block" else 2,
        n_heads=HEADS,
        **MODERN | {"positions": positions, "qk_norm": False},
    )


class Meter:
    """What is measured of a model, on sequences that it does not learn from."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(10_000)
        self.ids, self.periods = SOURCE.sample(128, generator)
        places = torch.arange(1, SOURCE.length)
        self.is_new = places < self.periods[:, None]

    @torch.no_grad()
    def losses(self, model: GPT) -> tuple[float, float]:
        """Where all is repeated, and where nothing is."""
        logits, targets = model(self.ids[:, :-1]), self.ids[:, 1:]
        nats = next_token_loss(logits, targets, reduction="none")
        return nats[:, SOURCE.late].mean().item(), nats[self.is_new].mean().item()

    def scores(self, model: GPT) -> dict[str, float]:
        """The largest mean weight that a head gives to each kind of place."""
        maps = attention_maps(model, self.ids[:32])[..., SOURCE.late, :]
        s = torch.arange(SOURCE.length)[SOURCE.late]
        earlier = s - self.periods[:32, None]
        places = {"previous": (0, s - 1), "same": (0, earlier)}
        places["induction"] = (-1, earlier + 1)
        found = {}
        for name, (layer, at) in places.items():
            weights = maps[:, layer]  # (b, h, s, t)
            at = at.expand(len(weights), -1)[:, None, :, None]
            chosen = weights.gather(-1, at.expand(-1, weights.shape[1], -1, -1))
            found[name] = chosen.mean((0, 2, 3)).max().item()
        return found

    def cut(self, model: GPT) -> dict[str, float]:
        """The late loss where the last block does not hear the heads of the first."""
        if len(model.blocks) == 1:
            return {}
        with without_head(model, *((0, h) for h in range(HEADS))):
            blind = streams(model, self.ids[:, :-1])[1]
        found = {
            f"cut_{name}": self.reading(
                model, PARTS if name == "all" else [name], blind
            )
            for name in (*PARTS, "all")
        }
        distance = torch.arange(SOURCE.length - 1)
        distance = distance[:, None] - distance  # (s, t)
        for name, kept in {
            "before": distance == 1,
            "itself": distance == 0,
            "two_before": distance == 2,
            "others": distance != 1,
        }.items():
            found[f"key_{name}"] = self.reading(model, ["key"], self.heard(model, kept))
        return found

    def reading(
        self, model: GPT, parts: Iterable[str], stream: Float[Tensor, "b s d"]
    ) -> float:
        """The late loss where the last block makes queries, keys or values from a stream."""
        with ExitStack() as cuts:
            for part, h in product(parts, range(HEADS)):
                cuts.enter_context(rewired(model, (1, h), part, lambda x: stream))
            return self.losses(model)[0]

    @torch.no_grad()
    def heard(self, model: GPT, kept: Bool[Tensor, "s t"]) -> Float[Tensor, "b s d"]:
        """The stream behind the first block, where its heads hand over the terms of some places,
        and of all others the mean over the batch."""
        ids, block = self.ids[:, :-1], model.blocks[0]
        x = streams(model, ids)[0]
        value = block.attention.project(block.attention_norm(x))[2]
        terms = attention_maps(model, ids)[:, 0, ..., None] * value[:, :, None]
        terms = torch.where(kept[..., None], terms, terms.mean(0))  # (b, h, s, t, k)
        x = x + block.attention.output(rearrange(terms.sum(3), "b h s k -> b s (h k)"))
        return x + block.mlp(block.mlp_norm(x))


def measure(point: Point) -> Iterator[Row]:
    """Make one run."""
    began, meter = time.process_time(), Meter()
    generator = torch.Generator().manual_seed(point.seed)
    model = GPT(configuration(point.arm), generator=generator)
    optimizers = build_optimizers(
        model,
        optimizer="adamw" if point.arm == "adamw" else "muon",
        learning_rate=point.learning_rate,
    )
    for step in range(STEPS + 1):
        if step % EVERY == 0:
            late, new = meter.losses(model.eval())
            found = {"late": late, "new": new, **meter.scores(model)}
            if step == STEPS:
                found |= meter.cut(model)
            found["processor_seconds"] = time.process_time() - began
            began = time.process_time()
            rounded = {name: round(number, 4) for name, number in found.items()}
            yield Row(**asdict(point), step=step, **rounded)
        if step == STEPS:
            return
        if step % 100 == 0:
            drawn, _ = SOURCE.sample(100 * BATCH, generator)
        ids = drawn[step % 100 * BATCH :][:BATCH]
        set_learning_rate(optimizers, min(1, (step + 1) / WARMUP))
        train_step(
            NextTokenLoss(model),
            optimizers,
            ids[:, :-1],
            ids[:, 1:],
            max_gradient_norm=1.0,
        )


if __name__ == "__main__":
    TABLE.make(
        measure, {each.__name__: each for each in (positions, depth, optimizers)}
    )
