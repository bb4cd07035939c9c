"""Must a translator read the source with a model of its own?

    python benchmarks/trials/translators.py rates seeds twice store

The pairs of `decoder_only_book.translation` are learned by models of the same width and, to three
in a thousand, the same number of parameters.

Arms        "encoder-decoder" reads the source in a half of its own (2 + 2 blocks).
            "causal" is a decoder of 4 blocks with wider MLPs. It reads source and target as one
            text, which takes it about twice the operations. Positions of the target are counted
            from its own start, as they are in the encoder-decoder.
Fixed       Pre-norm and sinusoids, the same pairs in the same order, 800 steps of AdamW with a
            cosine schedule, targets in the translation only.
Rates       Halved and doubled until the best is inside, with seed 0.
Seeds       Three fresh ones. `twice` has them for "causal" at twice its best rate, too, which seed
            0 tells apart by less than 0.001.
Measured    The surprise at the translations of 1,000 pairs whose sources were held out, in nats per
            sentence. The floor is exact. Of the encoder-decoder also how often the largest weight
            of cross-attention, mean over heads, at the position that says a word, is on what it
            translates, in 300 sentences and in each block.
Against     An encoder of its own is not needed if "causal" comes as near to the floor.
Stored      `store` puts the weights of the encoder-decoder of seed 1 into the package, in bfloat16.

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
from trial import Trial, seeded, store_weights

from decoder_only.model.attention import attention_weights
from decoder_only.model.config import GPTConfig
from decoder_only.model.embeddings import SinusoidalPositions
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.training import train_step
from decoder_only.training.optimizers import build_optimizers, cosine, set_learning_rate
from decoder_only.variants.encoders import EncoderDecoder
from decoder_only_book.translation import GERMAN, Pair

KINDS = ("encoder-decoder", "causal")
WIDTH, STEPS, BATCH = 64, 800, 32


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    arm: str
    steps: int = STEPS
    learning_rate: float = 8e-3
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: loss and floor in nats per sentence, and shares of words."""

    parameters: int
    loss: float
    floor: float
    aligned_1: float | None
    aligned_2: float | None


TRIAL = Trial(
    "translators",
    Run,
    Found,
    arms=[Run(arm=arm) for arm in KINDS],
    seeds=(1, 2, 3),
    digits=4,
    packages=("torch",),
)


def store() -> Iterator[list[Run]]:
    """No runs, but the weights of one."""
    run = replace(TRIAL.best(TRIAL.arms[0]), seed=1)
    model = build(run)
    fit(model, run)
    store_weights("translator", model)
    yield []


def twice() -> Iterator[list[Run]]:
    """The decoder alone at twice its best rate, from fresh seeds."""
    best = TRIAL.best(TRIAL.arms[1])
    rate = 2 * best.learning_rate
    yield [replace(best, learning_rate=rate, seed=seed) for seed in TRIAL.seeds]


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
    """A decoder of source and target in one row, which counts each from its own start."""

    def hidden(self, ids: Tensor, *more: None, **inputs: None) -> Tensor:
        self.positions.counted = places(ids)
        return super().hidden(ids, *more, **inputs)


class Counted(SinusoidalPositions):
    """Sinusoids of given positions."""

    counted: Tensor | None = None

    def forward(self, x: Tensor, positions: None = None) -> Tensor:
        return super().forward(x, self.counted)


def places(ids: Tensor) -> Tensor:
    """Positions that count anew from each start token."""
    at = torch.arange(ids.shape[1]).expand(ids.shape)
    begins = at.where(ids == GERMAN.encode([])[0], 0)
    return at - begins.cummax(1).values


def build(run: Run) -> nn.Module:
    generator = seeded(run.seed)
    if run.arm == "encoder-decoder":
        return EncoderDecoder(settings(run.arm), generator=generator)
    model = OneText(settings(run.arm), generator=generator)
    model.positions = Counted(d_model=WIDTH)
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


@torch.no_grad()
def cross_weights(model: EncoderDecoder, source: Tensor, target: Tensor) -> Tensor:
    """The weights with which each target position reads the source: (l, b, h, s, t)."""
    found = []

    def note(attention: nn.Module, inputs: tuple, named: dict[str, Tensor]) -> None:
        query, key, _ = attention.project(*inputs, source=named["source"])
        found.append(attention_weights(query, key, mask=named["mask"]))

    hooks = [
        block.cross.register_forward_pre_hook(note, with_kwargs=True)
        for block in model.decoder.blocks
    ]
    model(source, target)
    for hook in hooks:
        hook.remove()
    return torch.stack(found)


def aligned(model: EncoderDecoder, pairs: list[Pair]) -> Tensor:
    """In each block, how often the largest weight is on what the word translates."""
    source = padded([GERMAN.encode(pair.source) for pair in pairs])
    target = padded([GERMAN.encode(pair.target)[:-1] for pair in pairs])
    weights = cross_weights(model, source, target).mean(2)  # (l, b, s, t)
    looks = (weights.argmax(-1) - 1).tolist()  # places count from after the start
    found = [
        [block[b][s] in places for block in looks]
        for b, pair in enumerate(pairs)
        for s, places in enumerate(pair.alignment)
    ]
    return torch.tensor(found).double().mean(0)


def measure(run: Run) -> Found:
    """Make one run."""
    model = build(run)
    fit(model, run)
    loss, shares = judged(model), (None, None)
    if run.arm == "encoder-decoder":
        shares = aligned(model, validation()[:300]).tolist()
    floor = -sum(math.log(pair.probability) for pair in validation())
    return Found(
        parameters=sum(p.numel() for p in model.parameters()),
        loss=loss,
        floor=floor / len(validation()),
        aligned_1=shares[0],
        aligned_2=shares[1],
    )


if __name__ == "__main__":
    TRIAL.main(
        measure, rates=TRIAL.search, seeds=TRIAL.repeat, twice=twice, store=store
    )
