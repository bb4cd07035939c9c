"""Three ways to translate: must a source be read by a model of its own, or in both directions?

    python benchmarks/trials/translators.py rates seeds half second

The pairs of `stories.translation` are learned by three models of the same width and, to three in a
thousand, the same number of parameters. "encoder-decoder" reads the source in a half of its own
(2 + 2 blocks). "prefix" and "causal" are decoders of 4 blocks, with wider MLPs, that are handed
source and target as one text, which takes them about twice the operations; in the first the source
is seen in both directions, in the second in one.
All have pre-norm and sinusoids, see the same pairs in the same order, for the same steps of AdamW
with a cosine schedule, and are asked for the target only. Each is judged by the surprise at the
translations of 1,000 pairs whose sources were held out, in nats per sentence, of which the exact
floor is known.

`rates` gives each arm three rates, and one more where the best was the largest; `seeds` repeats
the best with fresh seeds. `half` does the same for half of the steps, with rates from that best one
on until the best lies inside; the table also has such runs at the rate of the whole. One seed's
luck can exceed what two rates differ by: `second` makes the fresh seeds of the whole of "prefix"
and "causal", which are close, at their second-best rate too.

What would count against an encoder of its own: a gap to the floor that is no smaller than that of
"causal" by more than the seeds' spread; what would count against looking both ways: the same of
"prefix". The table goes into the package, for chapter 11. Runs that stand in it are not made again.
"""

import functools
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Literal

import _path
import torch
import tyro
from provenance import collect, write_results
from tables import append, key, read
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from decoder_only.model.attention import attention_mask
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.training import train_step
from decoder_only.training.optimizers import build_optimizers, cosine, set_learning_rate
from decoder_only.variants.encoders import EncoderDecoder
from decoder_only_book.translation import GERMAN, Pair

TABLE = _path.TABLES / "translators.csv"
ARMS = ("encoder-decoder", "prefix", "causal")
RATES = (4e-3, 8e-3, 1.6e-2, 3.2e-2)
WIDTH, STEPS, BATCH = 64, 400, 32


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    arm: str
    steps: int = STEPS
    learning_rate: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it: loss and floor in nats per sentence."""

    parameters: int
    loss: float
    floor: float
    processor_seconds: float


def rates() -> Iterator[Point]:
    for arm in ARMS:
        for rate in RATES:
            if rate < RATES[-1] or arm == "causal":  # whose best was the largest
                yield Point(arm=arm, learning_rate=rate, seed=0)


def seeds() -> Iterator[Point]:
    for arm in ARMS:
        for seed in (1, 2, 3):
            yield Point(arm=arm, learning_rate=best_rate(arm), seed=seed)


def half() -> Iterator[Point]:
    for arm in ARMS:
        point = Point(arm=arm, steps=STEPS // 2, learning_rate=best_rate(arm), seed=0)
        yield point
        while True:
            best, tried = best_rate(arm, point.steps), tried_rates(arm, point.steps)
            left = [rate for rate in (best / 2, 2 * best) if rate not in tried]
            if not left:
                break
            yield replace(point, learning_rate=left[0])
        for seed in (1, 2, 3):
            yield replace(point, learning_rate=best, seed=seed)


def second() -> Iterator[Point]:
    for arm in ("prefix", "causal"):
        tried = tried_rates(arm)
        _, rate, *_ = sorted(tried, key=tried.get)
        for seed in (1, 2, 3):
            yield Point(arm=arm, learning_rate=rate, seed=seed)


EXPERIMENTS = {each.__name__: each for each in (rates, seeds, half, second)}


def tried_rates(arm: str, steps: int = STEPS) -> dict[float, float]:
    """The loss of seed 0 at each rate."""
    return {
        float(row["learning_rate"]): float(row["loss"])
        for row in read(TABLE)
        if (row["arm"], row["steps"], row["seed"]) == (arm, str(steps), "0")
    }


def best_rate(arm: str, steps: int = STEPS) -> float:
    """The rate of seed 0 with the least loss."""
    tried = tried_rates(arm, steps)
    return min(tried, key=tried.get)


def settings(arm: str) -> GPTConfig:
    config = GPTConfig(
        vocab_size=len(GERMAN.vocabulary),
        context_length=40,
        d_model=WIDTH,
        n_layers=2,
        n_heads=4,
        positions="sinusoidal",
        activation="relu",
    )
    if arm == "encoder-decoder":
        return config
    return replace(config, n_layers=4, d_mlp=5 * WIDTH)


class OneText(GPT):
    """A decoder of source and target in one row; True in `both_ways` makes the source a prefix."""

    both_ways = False

    def _mask(self, window: int | None, ids: Tensor, cache: None) -> Tensor | None:
        if not self.both_ways:
            return None
        in_source = (ids == GERMAN.encode([])[0]).cumsum(1) == 1
        return attention_mask(ids.shape[1], ids.shape[1]) | in_source[:, None, None]


def build(point: Point) -> nn.Module:
    generator = torch.Generator().manual_seed(point.seed)
    if point.arm == "encoder-decoder":
        return EncoderDecoder(settings(point.arm), generator=generator)
    model = OneText(settings(point.arm), generator=generator)
    model.both_ways = point.arm == "prefix"
    return model


def padded(rows: list[list[int]], value: int = 0) -> Tensor:
    rows = [torch.tensor(row) for row in rows]
    return pad_sequence(rows, batch_first=True, padding_value=value)


def total_surprise(model: nn.Module, pairs: list[Pair]) -> tuple[Tensor, Tensor]:
    """The model's logits where it is asked for the target, and what stands there."""
    source = [GERMAN.encode(pair.source) for pair in pairs]
    target = [GERMAN.encode(pair.target) for pair in pairs]
    if isinstance(model, EncoderDecoder):
        logits = model(padded(source), padded([row[:-1] for row in target]))
        return logits, padded([row[1:] for row in target], -1)
    logits = model(padded([s + t[:-1] for s, t in zip(source, target, strict=True)]))
    wanted = [[-1] * len(s) + t[1:] for s, t in zip(source, target, strict=True)]
    return logits, padded(wanted, -1)


class Surprise(nn.Module):
    """Total surprise at some pairs. What it is called with only tells a step how many pieces."""

    def __init__(self, model: nn.Module, pairs: list[Pair]) -> None:
        super().__init__()
        self.model, self.pairs = model, pairs

    def forward(self, _: Tensor, __: Tensor) -> Tensor:
        logits, targets = total_surprise(self.model, self.pairs)
        return next_token_loss(logits, targets, reduction="sum")


def fit(model: nn.Module, point: Point) -> None:
    optimizers = build_optimizers(model, learning_rate=point.learning_rate)
    pairs = GERMAN.pairs(seed=point.seed)
    for step in range(point.steps):
        share = cosine(step, warmup_steps=point.steps // 10, total_steps=point.steps)
        set_learning_rate(optimizers, share)
        batch = list(islice(pairs, BATCH))
        wanted = padded([GERMAN.encode(pair.target)[1:] for pair in batch], -1)

        loss = Surprise(model, batch)
        train_step(loss, optimizers, wanted, wanted, max_gradient_norm=1.0)


@functools.cache
def validation() -> list[Pair]:
    return list(islice(GERMAN.pairs(split="validation", seed=0), 1000))


@torch.no_grad()
def judged(model: nn.Module) -> float:
    """Mean surprise at the held-out translations, in nats per sentence."""
    model.eval()
    return next_token_loss(
        *total_surprise(model, validation()), reduction="sum"
    ).item() / len(validation())


def measure(point: Point) -> Row:
    """Make one run."""
    began = time.process_time()
    model = build(point)
    fit(model, point)
    loss = judged(model)
    floor = -sum(math.log(pair.probability) for pair in validation())
    return Row(
        **asdict(point),
        parameters=sum(p.numel() for p in model.parameters()),
        loss=round(loss, 4),
        floor=round(floor / len(validation()), 4),
        processor_seconds=round(time.process_time() - began, 1),
    )


def main(
    experiments: tyro.conf.Positional[
        tuple[Literal["rates", "seeds", "half", "second"], ...]
    ],
) -> None:
    """Make the runs of some experiments that have not been made yet.

    Args:
        experiments: which.
    """
    torch.set_num_threads(1)
    for name in experiments:
        for point in EXPERIMENTS[name]():
            done = {key(row, Point) for row in read(TABLE)}
            if key(asdict(point), Point) not in done:
                row = measure(point)
                append(TABLE, row)
                print(row, flush=True)
        about = {"runs": len(read(TABLE)), "provenance": collect(packages=["torch"])}
        write_results(TABLE.with_suffix(".json"), about)


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
