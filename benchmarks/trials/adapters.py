"""How much of a model must move before it tells a new tale, and what does it forget meanwhile?

    python benchmarks/trials/adapters.py rates seeds

The stored model of the hamlet, which knows three tales, learns a fourth of the same 24 people, a
storm, 120 steps of AdamW on four stories each. "full" moves all weights. The others are the linear
maps of the blocks with LoRA of rank 1, 4, 16 and 64, where 64 is the width of the model, so that
the sum can be any matrix.

Measured are the losses above the exact floors, in nats per token, on 30 and 40 unseen stories: of
the new language (`gap`), and of the old (`old_gap`). `rates` chooses each arm's rate by the new
one; `seeds` repeats it with three fresh draws of stories and of LoRA's matrices. What would count
against low rank: a gap that falls with every rank up to 64. Against "LoRA forgets less": an equal
`old_gap` where `gap` is equal.
"""

import functools
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice

import torch
from hamlet import END, LANGUAGE, TOKENIZER, old_gap, pretrained
from torch import Tensor
from trial import Table, learn

from decoder_only.data import Corpus, story_corpora
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.stories import StoryLanguage
from decoder_only.training import evaluate
from decoder_only.variants.finetuning import add_lora, answer_rows

NEW = StoryLanguage(**{**LANGUAGE.arguments, "tales": ("storm",)})
STEPS, BATCH = 120, 4
ARMS = {"full": 2e-3, "1": 1.6e-2, "4": 8e-3, "16": 8e-3, "64": 8e-3}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others: the arm is a rank, or a word."""

    arm: str
    learning_rate: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it, in nats per token."""

    trained: int
    gap: float
    old_gap: float
    floor: float
    processor_seconds: float


TABLE = Table("adapters", Point, score="gap")


def arms() -> Iterator[Point]:
    for arm, rate in ARMS.items():
        yield Point(arm=arm, learning_rate=rate, seed=0)


def rates() -> Iterator[Point]:
    yield from TABLE.rates(arms())


def seeds() -> Iterator[Point]:
    yield from TABLE.seeds(list(arms()), (1, 2, 3))


EXPERIMENTS = {each.__name__: each for each in (rates, seeds)}


@functools.cache
def validation() -> Corpus:
    return story_corpora(NEW, TOKENIZER, n_train=1, n_validation=30)[1]


def prepared(arm: str, seed: int) -> GPT:
    """The pretrained model, with what may move."""
    model = pretrained()
    if arm.isdigit():
        generator = torch.Generator().manual_seed(seed)
        add_lora(model, rank=int(arm), generator=generator)
    return model


def fitted(point: Point) -> GPT:
    """The pretrained model, when it has learned the new tale."""
    model = prepared(point.arm, point.seed).train()
    told = NEW.stories(split="train", seed=point.seed)

    def loss_at(step: int) -> Tensor:
        texts = [TOKENIZER.encode(text) for text in islice(told, BATCH)]
        inputs, targets = answer_rows([[END]] * BATCH, [[*ids, END] for ids in texts])
        return next_token_loss(model(inputs), targets)

    settings = {"steps": STEPS, "learning_rate": point.learning_rate}
    learn(model, loss_at, **settings, warmup=12, max_gradient_norm=1.0)
    return model.eval()


@torch.no_grad()
def measure(point: Point) -> Row:
    """Make one run."""
    began = time.process_time()
    with torch.enable_grad():
        model = fitted(point)
    found = evaluate(model, validation())
    return Row(
        **asdict(point),
        trained=sum(p.numel() for p in model.parameters() if p.requires_grad),
        gap=round(found.gap, 4),
        old_gap=old_gap(model),
        floor=round(found.floor, 4),
        processor_seconds=round(time.process_time() - began, 1),
    )


if __name__ == "__main__":
    TABLE.make(measure, EXPERIMENTS)
