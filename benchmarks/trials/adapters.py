"""How much of a model must move before it tells a new tale, and what does it forget meanwhile?

    python benchmarks/trials/adapters.py rates seeds shorter

The stored model of the hamlet knows three tales. Here it learns a fourth, a storm, of the same 24
people.

Arms        "full" moves all weights. The others move LoRA's matrices of rank 1, 4, 16 or 64 in
            every linear map of the blocks. The model is 64 wide, so rank 64 allows any change.
Fixed       120 steps of AdamW on four stories each.
Rates       Halved and doubled until the best is between two others, with seed 0. The column `gap`
            chooses.
Seeds       Three fresh ones, for the stories and for LoRA's matrices.
Shorter     10 steps with seed 1, at the same rates: rows that a chapter can make again while it is
            read.
Measured    How far the loss on unseen stories is above the exact floor, in nats per token: on 30
            of the new language (`gap`), and on 40 of the old one (`old_gap`).
Against     "Low rank is enough" fails if `gap` falls with every rank up to 64. "LoRA forgets less"
            fails if `old_gap` is equal where `gap` is.

Chapter 12 reads the table.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import torch
from hamlet import END, LANGUAGE, TOKENIZER, old_gap, pretrained
from torch import Tensor
from trial import Trial, learn, seeded

from decoder_only.data import Corpus, story_corpora
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.stories import StoryLanguage
from decoder_only.training import evaluate
from decoder_only.variants.finetuning import add_lora, answer_rows

NEW = StoryLanguage(**{**LANGUAGE.arguments, "tales": ("storm",)})
STEPS, BATCH = 120, 4
SHORTER = ", 10 steps"


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart: the arm is a rank, or "full"."""

    arm: str
    learning_rate: float
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured, in nats per token, and how many weights moved."""

    trained: int
    gap: float
    old_gap: float
    floor: float


ARMS = [
    Run(arm="full", learning_rate=2e-3),
    Run(arm="1", learning_rate=1.6e-2),
    Run(arm="4", learning_rate=8e-3),
    Run(arm="16", learning_rate=8e-3),
    Run(arm="64", learning_rate=8e-3),
]
TRIAL = Trial("adapters", Run, Found, arms=ARMS, seeds=(1, 2, 3), score="gap", digits=4)


@functools.cache
def validation() -> Corpus:
    """Thirty stories of the new language."""
    return story_corpora(NEW, TOKENIZER, n_train=1, n_validation=30)[1]


def shorter() -> Iterator[list[Run]]:
    """A twelfth of the steps, at the best rates."""
    best = map(TRIAL.best, ARMS)
    yield [replace(run, arm=run.arm + SHORTER, seed=TRIAL.seeds[0]) for run in best]


def prepared(arm: str, seed: int) -> GPT:
    """The pretrained model, with what may move."""
    model = pretrained()
    if arm.isdigit():
        add_lora(model, rank=int(arm), generator=seeded(seed))
    return model


def fitted(run: Run) -> GPT:
    """The pretrained model after it has learned the new tale."""
    steps = 10 if run.arm.endswith(SHORTER) else STEPS
    model = prepared(run.arm.removesuffix(SHORTER), run.seed).train()
    told = NEW.stories(split="train", seed=run.seed)

    def loss_at(step: int) -> Tensor:
        texts = [TOKENIZER.encode(text) for text in islice(told, BATCH)]
        inputs, targets = answer_rows([[END]] * BATCH, [[*ids, END] for ids in texts])
        return next_token_loss(model(inputs), targets)

    settings = {"steps": steps, "learning_rate": run.learning_rate}
    learn(model, loss_at, **settings, warmup=steps // 10, max_gradient_norm=1.0)
    return model.eval()


def measure(run: Run) -> Found:
    """Make one run."""
    model = fitted(run)
    with torch.no_grad():
        found = evaluate(model, validation())
        forgotten = old_gap(model)
    return Found(
        trained=sum(p.numel() for p in model.parameters() if p.requires_grad),
        gap=found.gap,
        old_gap=forgotten,
        floor=found.floor,
    )


if __name__ == "__main__":
    TRIAL.main(measure, rates=TRIAL.search, seeds=TRIAL.repeat, shorter=shorter)
