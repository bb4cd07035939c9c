"""Three ways to translate: must a source be read by a model of its own, or in both directions?

    python benchmarks/trials/translators.py rates seeds half second

The pairs of `decoder_only_book.translation` are learned by three models of the same width and, to
three in a thousand, the same number of parameters.

Arms        "encoder-decoder" reads the source in a half of its own (2 + 2 blocks).
            "prefix" and "causal" are decoders of 4 blocks with wider MLPs. They read source and
            target as one text, which takes them about twice the operations. "prefix" sees the
            source in both directions, "causal" in one.
Fixed       Pre-norm and sinusoids, the same pairs in the same order, 400 steps of AdamW with a
            cosine schedule, targets in the translation only. `half` has half of the steps.
Rates       Three, and one more where the best was the largest, with seed 0. `half` searches from
            that best one on, until the best is inside; its table also has runs at the rate of the
            whole.
Seeds       Three fresh ones. One seed's luck can exceed what two rates differ by. So `second` makes
            those of "prefix" and "causal", which are close, at their second-best rate, too.
Measured    The surprise at the translations of 1,000 pairs whose sources were held out, in nats per
            sentence. The floor is exact.
Against     An encoder of its own is not worth it if its gap to the floor is not smaller than that
            of "causal" by more than the seeds' spread. Looking both ways is not worth it if the
            same holds for "prefix".

Chapter 11 reads the table.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from trial import Trial, seeded

from decoder_only.model.attention import attention_mask
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.training import train_step
from decoder_only.training.optimizers import build_optimizers, cosine, set_learning_rate
from decoder_only.variants.encoders import EncoderDecoder
from decoder_only_book.translation import GERMAN, Pair

KINDS = ("encoder-decoder", "prefix", "causal")
RATES, ONE_MORE = (4e-3, 8e-3, 1.6e-2), 3.2e-2
WIDTH, STEPS, BATCH = 64, 400, 32


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    arm: str
    steps: int = STEPS
    learning_rate: float
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: loss and floor in nats per sentence."""

    parameters: int
    loss: float
    floor: float


ARMS = [Run(arm=arm, learning_rate=RATES[0]) for arm in KINDS]
TRIAL = Trial(
    "translators",
    Run,
    Found,
    arms=ARMS,
    seeds=(1, 2, 3),
    digits=4,
    packages=("torch",),
)


def rates() -> Iterator[list[Run]]:
    """Every arm at three rates, and at one more where the best was the largest."""
    yield [replace(arm, learning_rate=rate) for arm in ARMS for rate in RATES]
    open_arms = [arm for arm in ARMS if TRIAL.best(arm).learning_rate == RATES[-1]]
    yield [replace(arm, learning_rate=ONE_MORE) for arm in open_arms]


def half() -> Iterator[list[Run]]:
    """Every arm with half of the steps, at rates around its best."""
    arms = [replace(TRIAL.best(arm), steps=STEPS // 2) for arm in ARMS]
    yield from TRIAL.search(arms)
    yield from TRIAL.repeat(arms)


def second() -> Iterator[list[Run]]:
    """Two arms at their second-best rates, from the fresh seeds."""
    for arm in ARMS[1:]:
        tried = TRIAL.scores(arm)
        _, (rate,), *_ = sorted(tried, key=tried.get)
        yield [replace(arm, learning_rate=rate, seed=seed) for seed in TRIAL.seeds]


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


def build(run: Run) -> nn.Module:
    generator = seeded(run.seed)
    if run.arm == "encoder-decoder":
        return EncoderDecoder(settings(run.arm), generator=generator)
    model = OneText(settings(run.arm), generator=generator)
    model.both_ways = run.arm == "prefix"
    return model


def padded(rows: list[list[int]], value: int = 0) -> Tensor:
    rows = [torch.tensor(row) for row in rows]
    return pad_sequence(rows, batch_first=True, padding_value=value)


def total_surprise(model: nn.Module, pairs: list[Pair]) -> tuple[Tensor, Tensor]:
    """The model's logits at the target, and the target's pieces."""
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


def fit(model: nn.Module, run: Run) -> None:
    optimizers = build_optimizers(model, learning_rate=run.learning_rate)
    pairs = GERMAN.pairs(seed=run.seed)
    for step in range(run.steps):
        share = cosine(step, warmup_steps=run.steps // 10, total_steps=run.steps)
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


def measure(run: Run) -> Found:
    """Make one run."""
    model = build(run)
    fit(model, run)
    floor = -sum(math.log(pair.probability) for pair in validation())
    return Found(
        parameters=sum(p.numel() for p in model.parameters()),
        loss=judged(model),
        floor=floor / len(validation()),
    )


if __name__ == "__main__":
    TRIAL.main(measure, rates=rates, seeds=TRIAL.repeat, half=half, second=second)
