"""What does a model learn that may look ahead?

    python benchmarks/trials/masks.py rates seeds

The models of `scaling_of_scores`, from GPT-2's start and with divided scores, learn the stories of
the hamlet under one of three masks: causal; none, so that every position sees the whole row; and
turned round, so that a position sees itself and the future, as one of the documents prints it.

`loss` is the mean over all positions of a row, as in training. `loss_as_used` is the loss of the
last position of a row alone: there, as when text is written, no later token is in sight. `copied`
is asked where every sixteenth token is exchanged for one of another row: the share of places at
which the position before it predicts the new one.

`rates` doubles and halves each arm's learning rate, with seed 0, until the best lies between two
others, read by `loss`; `seeds` runs that rate with four fresh seeds. What would count against the
mask: that without it the model predicts the next token as well where none is in sight.

Runs that stand in the table are not made again. Chapter 3 reads it and repeats one of its rows.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from unittest.mock import patch

import torch
from torch import Tensor
from trial import Table, running_stories

from decoder_only.model.attention import attend, attention_mask
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.training import TrainConfig, train

WIDTH, CONTEXT, VOCABULARY = 64, 128, 512
STRIDE = 32
SEEDS = (1, 2, 3, 4)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    mask: str
    steps: int = 300
    learning_rate: float = 8e-3
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it: losses in nats per token, on stories that were held out."""

    loss: float
    loss_as_used: float
    copied: float
    floor: float
    processor_seconds: float


TABLE = Table("masks", Point)
ARMS = [Point(mask=mask) for mask in ("causal", "none", "turned")]


def rates() -> Iterator[Point]:
    yield from TABLE.rates(ARMS)


def seeds() -> Iterator[Point]:
    yield from TABLE.seeds(ARMS, SEEDS)


def attend_under(mask: str):
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


def measure(point: Point) -> Row:
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
        steps=point.steps,
        batch_size=8,
        learning_rate=point.learning_rate,
        warmup_steps=point.steps // 10,
        seed=point.seed,
    )
    began = time.process_time()
    ids = torch.from_numpy(validation.ids.astype("int64"))
    with patch("decoder_only.model.multihead.attend", attend_under(point.mask)):
        model = GPT(config, generator=torch.Generator().manual_seed(point.seed))
        final = train(model, corpus, validation, training).final
        model.eval()
        used = as_used(model, ids.unfold(0, CONTEXT + 1, STRIDE))
        copied = copying(model, ids.unfold(0, CONTEXT + 1, CONTEXT))
    return Row(
        **asdict(point),
        loss=round(final.loss, 5),
        loss_as_used=round(used, 5),
        copied=round(copied, 4),
        floor=round(validation.floor, 5),
        processor_seconds=round(time.process_time() - began, 1),
    )


if __name__ == "__main__":
    TABLE.make(measure, {"rates": rates, "seeds": seeds})
