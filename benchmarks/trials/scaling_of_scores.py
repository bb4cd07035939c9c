"""Do scores have to be divided by the root of K for a model to learn?

    python benchmarks/trials/scaling_of_scores.py rates seeds longer

Models of width 64, with two blocks and one head of K = 64, learn the stories of the hamlet.

Arms        A start and a scale. The start is "gpt2": weights of standard deviation 0.02, which at
            this width give queries and keys components of variance 0.03. Or "wide": query and key
            matrices are enlarged until that variance is 0.31, as the same weights give it
            at GPT-2's own width of 768. Or "unit": enlarged to variance 1, as the argument for the
            root supposes. The dot products are divided by the root of K or by K itself, left as
            they are, or multiplied by the root.
Fixed       300 steps of AdamW. Stories are running text, in rows of 128 tokens that begin anywhere.
Rates       Halved and doubled until the best is between two others, with seed 0.
Seeds       Four fresh ones; two where a run is four times as long.
Measured    The loss on held-out stories, in nats per token. Of the model before its first step:
            the standard deviation of the scores of the first block on held-out stories, and the
            mean largest weight of a row.
Against     The division is not needed if, from the unit start, undivided scores learn as well
            within the standard error. The argument is not the reason if they learn worse from
            GPT-2's start, too.

Chapter 3 reads the table, and repeats one of its rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from trial import Trial, running_stories, seeded

from decoder_only.model.attention import attention_weights
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.training import TrainConfig, train

WIDTH, CONTEXT, VOCABULARY = 64, 128, 512


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart. Scores are multiplied by K to this power."""

    start: str
    power: float
    steps: int = 300
    learning_rate: float = 8e-3
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: the loss in nats per token, on stories that were held out."""

    score_std: float
    largest_weight: float
    loss: float
    floor: float


ARMS = [
    Run(start="unit", power=-0.5),
    Run(start="unit", power=0.0),
    Run(start="unit", power=0.5),
    *(Run(start=start, power=-1.0) for start in ("unit", "wide", "gpt2")),
    Run(start="gpt2", power=-0.5),
    Run(start="gpt2", power=0.0),
    Run(start="wide", power=-0.5),
    Run(start="wide", power=0.0),
]
# Of the components of queries and keys before the first step.
VARIANCES = {"unit": 1.0, "wide": 768 * 0.02**2}
TRIAL = Trial("scaling_of_scores", Run, Found, arms=ARMS, seeds=(1, 2, 3, 4))


def build(run: Run) -> GPT:
    """The model of an arm as it starts."""
    config = GPTConfig(
        vocab_size=VOCABULARY,
        context_length=CONTEXT,
        d_model=WIDTH,
        n_layers=2,
        n_heads=1,
        positions="rotary",
        norm="rms",
        bias=False,
        attention_scale=WIDTH**run.power,
    )
    model = GPT(config, generator=seeded(run.seed))
    if run.start in VARIANCES:
        # What the matrices read is normalized: weights of variance 1 / D give variance 1.
        spread = (VARIANCES[run.start] / WIDTH) ** 0.5
        for block in model.blocks:
            for linear in (block.attention.query, block.attention.key):
                linear.weight.data *= spread / linear.weight.data.std()
    return model


@torch.no_grad()
def before(model: GPT, ids: Tensor) -> tuple[float, float]:
    """Standard deviation of the scores, and the mean largest weight, in the first block."""
    attention = model.blocks[0].attention
    read = model.blocks[0].attention_norm(model.embedding(ids))
    query, keys, _ = attention.project(read)
    products = attention.scale * query @ keys.mT
    largest = attention_weights(query, keys, scale=attention.scale).amax(-1)
    return round(products.std().item(), 4), round(largest.mean().item(), 4)


def measure(run: Run) -> Found:
    """Make one run."""
    corpus, validation = running_stories()
    model = build(run)
    rows = torch.from_numpy(validation.ids[: 32 * CONTEXT].astype("int64"))
    spread, largest = before(model, rows.view(32, CONTEXT))
    training = TrainConfig(
        steps=run.steps,
        batch_size=8,
        learning_rate=run.learning_rate,
        warmup_steps=run.steps // 10,
        seed=run.seed,
    )
    final = train(model, corpus, validation, training).final
    return Found(
        score_std=spread,
        largest_weight=largest,
        loss=final.loss,
        floor=validation.floor,
    )


def longer() -> Iterator[list[Run]]:
    """Four times as long, from variance 1: at the best rates, halved and doubled until between."""
    arms = [
        run
        for run in map(TRIAL.best, ARMS)
        if run.start == "unit" and run.power in (-0.5, 0)
    ]
    long = [replace(run, steps=1200) for run in arms]
    while True:
        wanted = []
        for arm in long:
            best = TRIAL.best(arm, seeds=TRIAL.seeds[:2])
            rates = (factor * best.learning_rate for factor in (0.5, 1, 2))
            wanted += [
                replace(arm, learning_rate=x, seed=y)
                for x in rates
                for y in TRIAL.seeds[:2]
            ]
        made = set(TRIAL.table.runs(TRIAL.table.rows()))
        if not (left := [run for run in wanted if run not in made]):
            return
        yield left


if __name__ == "__main__":
    TRIAL.main(measure, rates=TRIAL.search, seeds=TRIAL.repeat, longer=longer)
