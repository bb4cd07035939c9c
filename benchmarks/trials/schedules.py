"""How the learning rate should rise and fall: schedules compared, and what warm-up does.

    python benchmarks/trials/schedules.py shapes near muon cap wide longer shorter short

Models of chapter 9 learn the openings of stories as in `updates.py`, which has the arms with a
cosine of 200 steps, too. Eight rows a step, no clipping, no decay of weights.

Arms        `shapes`: after 20 steps of warm-up, AdamW's rates stay (`constant`), fall with the
            inverse square root of the step, along half a cosine, or in a straight line to zero over
            a share of the steps that are left: 0.4 (warm-up, stable, decay).
            `longer` and `shorter`: all four in four times as many steps, and in half as many.
            `near`: all four at two pairs of rates that seed 0 could not tell apart, of which one
            is the best of three of them.
            `wide`: in 800 steps, the constant rate and stable-decay nearer to where the cosine's
            search went, since each search ends where it finds a valley; `longer` goes on from
            there.
            `muon`: the same two for Muon.
            `cap`: AdamW at one rate for all weights, a cosine, no warm-up, and each matrix's step
            cut down to at most 0.3 times the rate (root mean square) in the first 30 steps.
            `short`: cosine and stable-decay in 40 steps, for both rules at their rates of 200
            steps, with one seed. The laboratory makes two of these again.
Rates       One for the matrices, one for the embedding and the norms. Each is halved and doubled
            with seed 0 until both are between two others. In `cap` both are the same.
Seeds       Five fresh ones for `shapes`, `near` and `muon`, three for the others, none for `wide`.
Measured    The loss on the openings of 128 held-out stories, in nats per token, after the last
            step; and the training loss of the last 20 steps.
Against     A schedule is no better than another if the difference, seed by seed, is less than
            twice its standard error.

The laboratory of chapter 9 reads the table.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import updates
from trial import Trial, seeded

from decoder_only.data import training_batch
from decoder_only.model.gpt import GPT, GPTConfig
from decoder_only.training import NextTokenLoss, evaluate, train_step
from decoder_only.training.optimizers import SCHEDULES, set_learning_rate


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart.

    Attributes:
        rule: "adamw" or "muon".
        schedule: "constant", or one of the package's.
        decay_fraction: of "warmup_stable_decay"; 0 for the others.
        steps: of the run.
        warmup: steps until the rates have risen.
        cap: the longest step of a matrix in the first 30 steps, in rates; infinite for none.
        learning_rate, table_learning_rate: the peaks, of matrices and of all else.
        seed: of weights and order.
    """

    rule: str = "adamw"
    schedule: str
    decay_fraction: float = 0.0
    steps: int = 200
    warmup: int = 20
    cap: float = math.inf
    learning_rate: float = 5e-3
    table_learning_rate: float = 0.02
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: held-out loss after the last step, and training loss."""

    loss: float
    training_loss: float


TRIAL = Trial("schedules", Run, Found, tuned=("learning_rate", "table_learning_rate"))
STABLE = Run(schedule="warmup_stable_decay", decay_fraction=0.4)
SHAPES = [Run(schedule="constant"), Run(schedule="inverse_square_root")]
SHAPES += [Run(schedule="cosine"), STABLE]
TWO = [Run(schedule="cosine"), STABLE]
LONGER = [replace(each, steps=800) for each in (*TWO, *SHAPES[:2])]
SHORTER = [replace(each, steps=100) for each in SHAPES]
MUON = {"rule": "muon", "learning_rate": 0.01, "table_learning_rate": 0.08}
BY_MUON = [replace(each, **MUON) for each in TWO]
CAPPED = Run(schedule="cosine", warmup=0, cap=0.3, table_learning_rate=5e-3)


def tuned(arms: list[Run], n_seeds: int = 5) -> Iterator[list[Run]]:
    """Arms at rates until both are between two others, then there from fresh seeds."""
    yield from TRIAL.search(arms)
    best = [TRIAL.best(each) for each in arms]
    yield [replace(each, seed=seed) for each in best for seed in range(1, 1 + n_seeds)]


def shapes() -> Iterator[list[Run]]:
    """Four schedules for AdamW."""
    yield from tuned(SHAPES)


def near() -> Iterator[list[Run]]:
    """Four schedules at one pair of rates and at another, from fresh seeds."""
    yield [
        replace(each, table_learning_rate=rate, seed=seed)
        for rate in (0.02, 0.04)
        for each in SHAPES
        for seed in range(1, 6)
    ]


def wide() -> Iterator[list[Run]]:
    """Two schedules in 800 steps nearer to where the longer search of the cosine went."""
    yield [
        replace(LONGER[i], table_learning_rate=rate)
        for i, rate in ((1, 0.04), (1, 0.08), (2, 0.04))
    ]


def longer() -> Iterator[list[Run]]:
    """Four schedules for AdamW over 800 steps."""
    yield from tuned(LONGER, 3)


def shorter() -> Iterator[list[Run]]:
    """Four schedules for AdamW over 100 steps."""
    yield from tuned(SHORTER, 3)


def muon() -> Iterator[list[Run]]:
    """Two schedules for Muon."""
    yield from tuned(BY_MUON)


def short() -> Iterator[list[Run]]:
    """Runs of 40 steps, of which the laboratory makes two again."""
    yield [replace(TRIAL.best(each), steps=40, seed=1) for each in (*TWO, *BY_MUON)]


def cap() -> Iterator[list[Run]]:
    """Short first steps in the place of a warm-up, one rate for all weights."""
    tried = {x: y for (x, z), y in TRIAL.scores(CAPPED).items() if x == z}
    while True:
        best = min(tried, key=tried.get, default=CAPPED.learning_rate)
        left = [rate for rate in (best, best / 2, 2 * best) if rate not in tried]
        if not left:
            break
        yield [at_one_rate(CAPPED, left[0])]
        tried = {x: y for (x, z), y in TRIAL.scores(CAPPED).items() if x == z}
    yield [replace(at_one_rate(CAPPED, best), seed=seed) for seed in (1, 2, 3)]


def at_one_rate(each: Run, rate: float) -> Run:
    return replace(each, learning_rate=rate, table_learning_rate=rate)


def share_of_peak(run: Run, step: int) -> float:
    """What share of the peak rate a step has."""
    if run.schedule == "constant":
        return min(1.0, (step + 1) / max(run.warmup, 1))
    settings = {"warmup_steps": run.warmup, "total_steps": run.steps}
    if run.decay_fraction:
        settings["decay_fraction"] = run.decay_fraction
    return SCHEDULES[run.schedule](step, **settings)


def cut_steps(
    optimizer: torch.optim.Optimizer, before: list[torch.Tensor], limit: float
) -> None:
    """Shorten what a step has just done to each matrix."""
    group = optimizer.param_groups[0]
    for weight, old in zip(group["params"], before, strict=True):
        change = weight.detach() - old
        size = change.square().mean().sqrt().item()
        if size > limit * group["lr"]:
            with torch.no_grad():
                weight.copy_(old + change * (limit * group["lr"] / size))


def measure(run: Run) -> Found:
    """Make one run."""
    openings, held_out = updates.material()
    model = GPT(GPTConfig(**updates.SHAPE), generator=seeded(run.seed))
    rates = {"learning_rate": run.learning_rate, "seed": run.seed}
    rates["table_learning_rate"] = run.table_learning_rate
    optimizers = updates.optimizers_of(updates.Run(rule=run.rule, **rates), model)
    losses = []
    for step in range(run.steps):
        set_learning_rate(optimizers, share_of_peak(run, step))
        size = {"batch_size": updates.BATCH, "context_length": 64}
        batch = training_batch(openings, seed=run.seed, step=step, **size)
        is_cut = run.cap < math.inf and step < 30
        matrices = optimizers[0].param_groups[0]["params"] if is_cut else []
        before = [weight.detach().clone() for weight in matrices]
        result = train_step(NextTokenLoss(model), optimizers, *batch)
        losses.append(result.loss.item())
        if is_cut:
            cut_steps(optimizers[0], before, run.cap)
    return Found(
        loss=updates.finite_or_inf(evaluate(model, held_out).loss),
        training_loss=updates.finite_or_inf(sum(losses[-20:]) / 20),
    )


if __name__ == "__main__":
    TRIAL.main(
        measure,
        shapes=shapes,
        near=near,
        muon=muon,
        cap=cap,
        wide=wide,
        longer=longer,
        shorter=shorter,
        short=short,
    )
