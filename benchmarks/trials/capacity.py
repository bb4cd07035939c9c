"""How many bits of random facts fit into a model, for each of its parameters?

    python benchmarks/trials/capacity.py hundred larger thousand adamw

Models of two blocks learn `Biographies` by heart: two names, and then four values of six bits each.
An exposure is one epoch. The loss is on the values only.

Arms        Widths 16 to 88 after 100 exposures, 16 and 24 after 1,000. Muon; and for width 16 also
            AdamW, the optimizer of the published runs. More is offered than the published two bits
            a parameter, so that the model is the limit and not the world. With 1,024 people width
            16 knows nearly all after 1,000 exposures, and so four bits are offered there.
Rates       Three, and more until the best is not an end, with seed 0.
Seeds       Two fresh ones for width 16 and, after 100 exposures, for 24.
Measured    Parameters with and without the tables, the bits that are offered, and the bits that are
            known: in float32, and with weights rounded to 8, 6 and 4 bits.
Against     "One and two bits a parameter" (Allen-Zhu and Li, 2025) fails if the values at these
            sizes are not between half and twice these.

Chapter 15 reads the table. It has three runs of width 16 after 1,000 exposures with 1,024 people,
too, from before more was offered there.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from trial import Trial, seeded, take_steps

from decoder_only.analysis.knowledge import Biographies, quantized
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import IGNORED
from decoder_only.model.presets import MODERN
from decoder_only.training.optimizers import build_optimizers, warmup_stable_decay

WARMUP = 30
# By width. Two and a half to three bits a parameter after 100 exposures, four after 1,000; batches
# that keep the number of steps below some thousand.
PEOPLE = {
    100: {16: 1024, 24: 2048, 32: 3072, 48: 8192, 64: 14336, 88: 24576},
    1000: {16: 1536, 24: 3072},
}
BATCH = {16: 256, 24: 256, 32: 256, 48: 512, 64: 1024, 88: 1024}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    d_model: int
    n_people: int
    exposures: int
    optimizer: str
    learning_rate: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: see above; the loss is in nats a fact."""

    parameters: int
    in_blocks: int
    offered: float
    known: float
    known_8: float
    known_6: float
    known_4: float
    loss: float


TRIAL = Trial(
    "capacity", Run, Found, seeds=(1, 2), digits=4, packages=("torch", "numpy")
)


def arm(d_model: int, exposures: int, optimizer: str = "muon") -> Run:
    """With a first guess of its rate."""
    return Run(
        d_model=d_model,
        n_people=PEOPLE[exposures][d_model],
        exposures=exposures,
        optimizer=optimizer,
        learning_rate=8e-3 if d_model > 16 else 1.6e-2,
        seed=0,
    )


def hundred() -> Iterator[list[Run]]:
    """Widths 16 and 24 after 100 exposures, and width 16 with AdamW."""
    arms = [arm(16, 100), arm(16, 100, "adamw"), arm(24, 100)]
    yield from TRIAL.search(arms)
    yield from TRIAL.repeat(arms)


def larger() -> Iterator[list[Run]]:
    """Widths 32 to 88 after 100 exposures, one seed."""
    yield from TRIAL.search(arm(width, 100) for width in (32, 48, 64, 88))


def thousand() -> Iterator[list[Run]]:
    """Widths 16 and 24 after 1,000 exposures."""
    yield from TRIAL.search([arm(16, 1000), arm(24, 1000)])
    yield from TRIAL.repeat([arm(16, 1000)])


def adamw() -> Iterator[list[Run]]:
    """Width 16 after 1,000 exposures, with the optimizer of the published runs."""
    yield from TRIAL.search([arm(16, 1000, "adamw")])
    yield from TRIAL.repeat([arm(16, 1000, "adamw")])


def settings(run: Run, vocab_size: int) -> GPTConfig:
    return GPTConfig(
        vocab_size=vocab_size,
        context_length=6,
        d_model=run.d_model,
        n_layers=2,
        n_heads=2,
        **MODERN,
    )


def measure(run: Run) -> Found:
    """Make one run."""
    people = Biographies(run.n_people, seed=run.seed)
    generator = seeded(run.seed)
    model = GPT(settings(run, people.vocab_size), generator=generator)
    optimizers = build_optimizers(
        model,
        optimizer=run.optimizer,
        learning_rate=run.learning_rate,
        weight_decay=0.0,
    )
    inputs, targets = people.ids[:, :-1], people.ids[:, 1:].clone()
    targets[:, 0] = IGNORED
    batch = BATCH[run.d_model]
    per_epoch = run.n_people // batch
    order = torch.arange(run.n_people)

    def batch_at(step: int) -> tuple[Tensor, Tensor]:
        if step % per_epoch == 0:
            order[:] = torch.randperm(run.n_people, generator=generator)
        rows = order[step % per_epoch * batch :][:batch]
        return inputs[rows], targets[rows]

    steps = per_epoch * run.exposures
    share_at = partial(
        warmup_stable_decay, warmup_steps=WARMUP, total_steps=steps, decay_fraction=0.5
    )
    take_steps(model, optimizers, batch_at, steps=steps, share_at=share_at)
    known = people.bits_known(model.eval())
    rounded = {n: people.bits_known(quantized(model, n)) for n in (8, 6, 4)}
    unknown_nats = (people.fact_bits - known) * math.log(2)
    tables = model.embedding.weight.numel()
    return Found(
        parameters=model.count_parameters(),
        in_blocks=model.count_parameters() - tables,
        offered=people.fact_bits,
        known=round(known),
        **{f"known_{n}": round(bits) for n, bits in rounded.items()},
        loss=unknown_nats / people.ids[:, 2:].numel(),
    )


if __name__ == "__main__":
    TRIAL.main(measure, hundred=hundred, larger=larger, thousand=thousand, adamw=adamw)
