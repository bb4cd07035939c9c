"""How many bits of random facts fit into a model, a parameter?

    python benchmarks/trials/capacity.py hundred larger thousand adamw

Models of two blocks learn `Biographies` by heart: two names, then four values of six bits each.
More is offered than the published two bits a parameter. With 1,024 people width 16 comes near all
of it after 1,000 exposures, so that there the world is the limit, and not the model: `thousand`
offers four bits. An exposure is one epoch; the loss is on the values only. Bits known are measured
in float32 and after rounding to 8, 6 and 4 bits a weight.

`hundred`: widths 16 and 24 at 100 exposures, each at its own rate: three rates, and more until the
best is not an end, and two more seeds; width 16 with AdamW too, the optimizer of the published
runs. `larger`: widths 32 to 88, each at its own rate. `thousand`: 1,000
exposures, widths 16, 24 and 32, each at its own rate, and two more seeds of the first two; the
table has no 32, and no more seeds of 24. `adamw`: the optimizer of the published runs; the table
has width 16 at 1,000 exposures.
What would count against 1 and 2 bits a parameter (Allen-Zhu and Li, 2025): values outside of half
to twice these, at these sizes.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import torch
from trial import Table

from decoder_only.analysis.knowledge import Biographies, quantized
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import IGNORED
from decoder_only.model.presets import MODERN
from decoder_only.training import NextTokenLoss, train_step
from decoder_only.training.optimizers import (
    build_optimizers,
    set_learning_rate,
    warmup_stable_decay,
)

WARMUP = 30
# By width. Two and a half to three bits a parameter after 100 exposures, four after 1,000; batches
# that keep the number of steps below some thousand.
PEOPLE = {
    100: {16: 1024, 24: 2048, 32: 3072, 48: 8192, 64: 14336, 88: 24576},
    1000: {16: 1536, 24: 3072, 32: 5120},
}
BATCH = {16: 256, 24: 256, 32: 256, 48: 512, 64: 1024, 88: 1024}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    d_model: int
    n_people: int
    exposures: int
    optimizer: str
    learning_rate: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it: parameters, with and without tables; bits that there are to
    be known, and that are, in 32 bits a weight and in fewer; the loss in nats a fact."""

    parameters: int
    in_blocks: int
    offered: float
    known: float
    known_8: float
    known_6: float
    known_4: float
    loss: float
    processor_seconds: float


TABLE = Table("capacity", Point)


def arm(d_model: int, exposures: int, optimizer: str = "muon") -> Point:
    sizes = {"d_model": d_model, "n_people": PEOPLE[exposures][d_model]}
    sizes |= {"exposures": exposures, "optimizer": optimizer}
    return Point(**sizes, learning_rate=8e-3 if d_model > 16 else 1.6e-2, seed=0)


def hundred() -> Iterator[Point]:
    arms = [arm(16, 100), arm(16, 100, "adamw"), arm(24, 100)]
    yield from TABLE.rates(arms)
    yield from TABLE.seeds(arms, (1, 2))


def larger() -> Iterator[Point]:
    yield from TABLE.rates(arm(width, 100) for width in (32, 48, 64, 88))


def thousand() -> Iterator[Point]:
    yield from TABLE.rates(arm(width, 1000) for width in (16, 24, 32))
    yield from TABLE.seeds([arm(16, 1000), arm(24, 1000)], (1, 2))


def adamw() -> Iterator[Point]:
    yield from TABLE.rates([arm(16, 1000, "adamw")])
    yield from TABLE.seeds([arm(16, 1000, "adamw")], (1, 2))
    yield from TABLE.rates([arm(24, 100, "adamw"), arm(48, 100, "adamw")])


def settings(point: Point, vocab_size: int) -> GPTConfig:
    return GPTConfig(
        vocab_size=vocab_size,
        context_length=6,
        d_model=point.d_model,
        n_layers=2,
        n_heads=2,
        **MODERN,
    )


def measure(point: Point) -> Row:
    """Make one run."""
    began = time.process_time()
    people = Biographies(point.n_people, seed=point.seed)
    generator = torch.Generator().manual_seed(point.seed)
    model = GPT(settings(point, people.vocab_size), generator=generator)
    optimizers = build_optimizers(
        model,
        optimizer=point.optimizer,
        learning_rate=point.learning_rate,
        weight_decay=0.0,
    )
    inputs, targets = people.ids[:, :-1], people.ids[:, 1:].clone()
    targets[:, 0] = IGNORED
    batch = BATCH[point.d_model]
    per_epoch = point.n_people // batch
    steps = per_epoch * point.exposures
    shape = {"warmup_steps": WARMUP, "total_steps": steps, "decay_fraction": 0.5}
    for step in range(steps):
        if step % per_epoch == 0:
            order = torch.randperm(point.n_people, generator=generator)
        rows = order[step % per_epoch * batch :][:batch]
        set_learning_rate(optimizers, warmup_stable_decay(step, **shape))
        train_step(
            NextTokenLoss(model),
            optimizers,
            inputs[rows],
            targets[rows],
            max_gradient_norm=1.0,
        )
    model.eval()
    known = people.bits_known(model)
    rounded = {n: people.bits_known(quantized(model, n)) for n in (8, 6, 4)}
    n_facts = people.ids[:, 2:].numel()
    unknown_nats = (people.fact_bits - known) * 0.6931471805599453
    tables = model.embedding.weight.numel()
    return Row(
        **asdict(point),
        parameters=model.count_parameters(),
        in_blocks=model.count_parameters() - tables,
        offered=people.fact_bits,
        known=round(known),
        **{f"known_{n}": round(bits) for n, bits in rounded.items()},
        loss=round(unknown_nats / n_facts, 4),
        processor_seconds=round(time.process_time() - began, 1),
    )


if __name__ == "__main__":
    experiments = {
        "hundred": hundred,
        "larger": larger,
        "thousand": thousand,
        "adamw": adamw,
    }
    TABLE.make(measure, experiments, packages=("torch", "numpy"))
