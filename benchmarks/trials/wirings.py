"""Pre-norm or post-norm: which learns faster, and from which start?

    python benchmarks/trials/wirings.py

Models of twelve blocks, so of twenty-four parts, learn the beginnings of the same stories.

Arms        Pre-norm and post-norm, each from two starts. `unit` draws the matrices of the blocks
            with a standard deviation of 1 / sqrt(inputs), and tables at unit scale. `gpt2` gives
            every matrix the gain that GPT-2's 0.02 has at its width of 768: the standard deviation
            is 0.02 sqrt(768 / 32), of the matrices that write to the stream divided by sqrt(24),
            and tables keep 0.02. `scaled` is pre-norm from the same start, with what the tables
            give multiplied by sqrt(768). A multiplied embedding also moves that much further in a
            step of AdamW, and the head reads a table that is multiplied for the embedding alone.
            So `own` and `drawn` separate the size from the steps: pre-norm from the same start
            with a head of its own, and the same with tables drawn sqrt(768) times as large.
Fixed       D = 32, 400 steps of AdamW with batches of eight rows of 32 tokens, of which the first
            100 are warm-up.
Longer      Four times the steps, at the rate of 400 steps, from three seeds.
Rates       Halved and doubled until the best loss is between two others, with seed 0.
Seeds       Three fresh ones.
Measured    The loss on held-out stories every 100 steps, in nats per token; infinite if it is no
            number any more.
Repeated    `short`, from which laboratory 5 makes one again: the first eight steps of each arm at
            its best rate, and of post-norm from GPT-2's start at the rates beside it and from
            another seed. Their loss is on the first 50 of those stories.
Against     Pre-norm is not special if post-norm ends as low from some start. The small embedding is
            not what holds pre-norm back from GPT-2's start if it gains nothing from a larger one.
            It is not the size that does, but the steps, if `drawn` gains nothing over `own`.

Chapter 5 reads the table.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from trial import Trial, beginnings, learn, seeded, stories

from decoder_only.data import training_batch
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss

LENGTH, WIDTH, EVERY = 32, 32, 100
SHORT, FEW = 8, 50  # steps, and the held-out stories that judge them
GPT2_WIDTH = 768

WIRINGS: dict[str, Callable] = {
    "pre": lambda x, part, norm: x + part(norm(x)),
    "post": lambda x, part, norm: norm(x + part(x)),
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    wiring: str
    start: str
    learning_rate: float
    steps: int = 400
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """The loss after so many steps, in nats per token."""

    step: int
    loss: float


ARMS = [
    Run(wiring="post", start="unit", learning_rate=1e-3),
    Run(wiring="pre", start="unit", learning_rate=8e-3),
    Run(wiring="post", start="gpt2", learning_rate=4e-3),
    Run(wiring="pre", start="gpt2", learning_rate=8e-3),
]
SCALED = Run(wiring="pre", start="scaled", learning_rate=8e-3)
# What of `scaled` is the size of the embedding, and not how far it moves.
SIZES = [
    Run(wiring="pre", start="own", learning_rate=8e-3),
    Run(wiring="pre", start="drawn", learning_rate=1.6e-2),
]
TRIAL = Trial("wirings", Run, Found, arms=ARMS, seeds=(1, 2, 3))


def rates() -> Iterator[list[Run]]:
    """Pre-norm and post-norm, halved and doubled until the best is between two others."""
    yield from TRIAL.search(ARMS)


def seeds() -> Iterator[list[Run]]:
    """Three fresh seeds for these, at the best rate of each."""
    yield from TRIAL.repeat(ARMS)


def scaled() -> Iterator[list[Run]]:
    """Pre-norm from the scaled start, halved and doubled like the others."""
    yield from TRIAL.search([SCALED])


def scaled_seeds() -> Iterator[list[Run]]:
    """Three fresh seeds for it, at its best rate."""
    yield from TRIAL.repeat([SCALED])


def tied() -> Iterator[list[Run]]:
    """Pre-norm from GPT-2's start at the rate that came second by less than the seeds differ."""
    arm = replace(ARMS[3], learning_rate=1.6e-2)
    yield [replace(arm, seed=seed) for seed in TRIAL.seeds]


def longer() -> Iterator[list[Run]]:
    """The two arms that end highest, once each with four times the steps."""
    arms = [TRIAL.best(arm) for arm in (ARMS[0], ARMS[3])]
    yield [replace(arm, seed=1, steps=4 * arm.steps) for arm in arms]


def drawn() -> Iterator[list[Run]]:
    """A head of its own, with small tables and with large ones, halved and doubled."""
    yield from TRIAL.search(SIZES)


def drawn_seeds() -> Iterator[list[Run]]:
    """Three fresh seeds for these two, at their best rates."""
    yield from TRIAL.repeat(SIZES)


def close() -> Iterator[list[Run]]:
    """The same seeds at the rates that came second, by less than seeds differ."""
    rates = (8e-3, 1.6e-2)
    arms = [replace(a, learning_rate=r) for a, r in zip(SIZES, rates, strict=True)]
    yield [replace(arm, seed=seed) for arm in arms for seed in TRIAL.seeds]


def longer_seeds() -> Iterator[list[Run]]:
    """Every arm with four times the steps, from all fresh seeds, at its rate for 400."""
    arms = [TRIAL.best(arm) for arm in (*ARMS, SCALED)]
    longer = [replace(arm, steps=4 * arm.steps) for arm in arms]
    yield [replace(arm, seed=seed) for seed in TRIAL.seeds for arm in longer]


def short() -> Iterator[list[Run]]:
    """A few steps, with a warm-up of a quarter of these, to be made again in a moment."""
    arms = [replace(TRIAL.best(arm), seed=1) for arm in (*ARMS, SCALED)]
    again = arms[2]
    rates = [again.learning_rate / 2, 2 * again.learning_rate]
    arms += [replace(again, learning_rate=rate) for rate in rates]
    yield [replace(arm, steps=SHORT) for arm in (*arms, replace(again, seed=2))]


@torch.no_grad()
def build(run: Run) -> GPT:
    """The model of a run as it starts."""
    config = GPTConfig(
        vocab_size=512,
        context_length=LENGTH,
        d_model=WIDTH,
        n_layers=12,
        n_heads=4,
        norm_position="post" if run.wiring == "post" else "pre",
        tied=run.start in ("gpt2", "scaled"),
    )
    generator = seeded(run.seed)
    model = GPT(config, generator=generator)
    for name, parameter in model.named_parameters():
        in_block = name.startswith("blocks")
        if run.start != "unit" and in_block and parameter.ndim == 2:
            parameter.mul_((GPT2_WIDTH / WIDTH) ** 0.5)
        if run.start == "drawn" and name.startswith(("embedding", "positions")):
            parameter.mul_(GPT2_WIDTH**0.5)
        if run.start == "unit" and parameter.ndim == 2:
            # A table gives one row; a matrix adds up as many numbers as it reads.
            is_table = name.startswith(("embedding", "positions"))
            n_inputs = 1 if is_table else parameter.shape[1]
            parameter.normal_(std=n_inputs**-0.5, generator=generator)
    return model


def forward(model: GPT, ids: Tensor, run: Run) -> Tensor:
    """The logits of a model, as pre-norm or as post-norm."""
    wiring = run.wiring
    x = model.positions(model.embedding(ids))
    if run.start == "scaled":
        x = GPT2_WIDTH**0.5 * x
    for block in model.blocks:
        x = WIRINGS[wiring](x, block.attention, block.attention_norm)
        x = WIRINGS[wiring](x, block.mlp, block.mlp_norm)
    return model.head(model.final_norm(x), model.head_weight)


@torch.no_grad()
def held_out_loss(model: GPT, run: Run) -> float:
    rows = beginnings(stories()[1], LENGTH)[: FEW if run.steps == SHORT else None]
    loss = next_token_loss(forward(model, rows[:, :-1], run), rows[:, 1:]).item()
    return loss if math.isfinite(loss) else math.inf


def measure(run: Run) -> list[Found]:
    """Make one run."""
    corpus, _ = stories()
    model, found = build(run), []

    def loss_at(step: int) -> Tensor:
        if step and step % EVERY == 0:
            found.append(Found(step=step, loss=held_out_loss(model, run)))
        inputs, targets = training_batch(
            corpus, batch_size=8, context_length=LENGTH, seed=run.seed, step=step
        )
        return next_token_loss(forward(model, inputs, run), targets)

    settings = {"steps": run.steps, "warmup": run.steps // 4}
    learn(model, loss_at, learning_rate=run.learning_rate, **settings)
    return [*found, Found(step=run.steps, loss=held_out_loss(model, run))]


if __name__ == "__main__":
    TRIAL.main(
        measure,
        rates=rates,
        seeds=seeds,
        scaled=scaled,
        scaled_seeds=scaled_seeds,
        tied=tied,
        longer=longer,
        short=short,
        drawn=drawn,
        drawn_seeds=drawn_seeds,
        close=close,
        longer_seeds=longer_seeds,
    )
