"""What does a model learn that may look ahead?

    python benchmarks/trials/masks.py rates seeds longer shorter

The models of `scaling_of_scores`, from GPT-2's start and with divided scores, learn the stories of
the hamlet.

Arms        A mask. Causal; none, so that every position sees the whole row; and turned round, so
            that a position sees itself and the future, as one of the documents prints it.
Fixed       300 steps of AdamW. Stories are running text, in rows of 128 tokens that begin anywhere.
Rates       Halved and doubled until the best loss is between two others, with seed 0.
Seeds       Four fresh ones; two where a run is four times as long.
Shorter     30 steps with seed 1, at one rate: rows that a chapter can make again while it is read.
            The turned mask also at half that rate, and with seed 2: rows that it must not mistake.
Measured    `loss`: the mean over all positions of a row, as in training. `loss_as_used`: that of
            the last position of a row alone. There, as when text is written, no later token is
            in sight.
            `copied`: every sixteenth token is exchanged for one of another row; the share of places
            at which the position before it predicts the new one.
Against     The mask is not needed if the model without it predicts the next token as well where
            none is in sight.

Chapter 3 reads the table, and repeats one of its rows.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from unittest.mock import patch

import torch
from torch import Tensor
from trial import Trial, running_stories, seeded

from decoder_only.model.attention import attend, attention_mask
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.training import TrainConfig, train

WIDTH, CONTEXT, VOCABULARY = 64, 128, 512
STRIDE = 32


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    mask: str
    steps: int = 300
    learning_rate: float = 8e-3
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: losses in nats per token, on stories that were held out."""

    loss: float
    loss_as_used: float
    copied: float
    floor: float


ARMS = [Run(mask=mask) for mask in ("causal", "none", "turned")]
TRIAL = Trial("masks", Run, Found, arms=ARMS, seeds=(1, 2, 3, 4))


def attend_under(mask: str) -> Callable[..., Tensor]:
    """`attend`, with the causal mask, with none, or with the causal mask turned round."""

    def attend_so(query: Tensor, key: Tensor, value: Tensor, **options) -> Tensor:
        if mask == "none":
            options["causal"] = False
        if mask == "turned":
            options["mask"] = attention_mask(query.shape[2], key.shape[2]).T
        return attend(query, key, value, **options)

    return attend_so


@torch.no_grad()
def as_used(model: GPT, rows: Tensor) -> float:
    """The loss of the last position of every row, in nats."""
    logits = model(rows[:, :-1])[:, -1:]
    return next_token_loss(logits, rows[:, -1:]).item()


@torch.no_grad()
def copying(model: GPT, rows: Tensor) -> float:
    """How often the position before an exchanged token predicts it; rows must not overlap."""
    at = torch.arange(16, CONTEXT, 16)
    other = rows[:, :-1].clone()
    other[:, at] = rows.roll(1, dims=0)[:, at]
    named = model(other)[:, at - 1].argmax(-1) == other[:, at]
    return named[other[:, at] != rows[:, at]].float().mean().item()


def measure(run: Run) -> Found:
    """Make one run."""
    corpus, validation = running_stories()
    config = GPTConfig(
        vocab_size=VOCABULARY,
        context_length=CONTEXT,
        d_model=WIDTH,
        n_layers=2,
        n_heads=1,
        positions="rotary",
        norm="rms",
        bias=False,
    )
    training = TrainConfig(
        steps=run.steps,
        batch_size=8,
        learning_rate=run.learning_rate,
        warmup_steps=run.steps // 10,
        seed=run.seed,
    )
    ids = torch.from_numpy(validation.ids.astype("int64"))
    with patch("decoder_only.model.multihead.attend", attend_under(run.mask)):
        model = GPT(config, generator=seeded(run.seed))
        final = train(model, corpus, validation, training).final
        model.eval()
        used = as_used(model, ids.unfold(0, CONTEXT + 1, STRIDE))
        copied = copying(model, ids.unfold(0, CONTEXT + 1, CONTEXT))
    return Found(
        loss=final.loss,
        loss_as_used=used,
        copied=round(copied, 4),
        floor=validation.floor,
    )


def longer() -> Iterator[list[Run]]:
    """Four times as long: at the best rates, and at half of them."""
    yield [
        replace(run, steps=1200, learning_rate=factor * run.learning_rate, seed=seed)
        for run in map(TRIAL.best, ARMS)
        for factor in (1, 0.5)
        for seed in TRIAL.seeds[:2]
    ]


def shorter() -> Iterator[list[Run]]:
    """A tenth of the steps, at the rate that the search begins with, and what is near to it."""
    short = [replace(arm, steps=30, seed=TRIAL.seeds[0]) for arm in ARMS]
    turned = short[-1]
    half = replace(turned, learning_rate=turned.learning_rate / 2)
    yield [*short, half, replace(turned, seed=TRIAL.seeds[1])]


if __name__ == "__main__":
    TRIAL.main(
        measure,
        rates=TRIAL.search,
        seeds=TRIAL.repeat,
        longer=longer,
        shorter=shorter,
    )
