"""Do scores have to be divided by the root of K for a model to learn?

    python benchmarks/trials/scaling_of_scores.py rates seeds

Models of width 64, two blocks and one head of K = 64 learn the stories of the hamlet with AdamW.
An arm is a start and a scale. The start is "gpt2": weights of standard deviation 0.02, as GPT-2
has them, which at this width give queries and keys components of variance 0.03. Or it is "wide":
query and key matrices are enlarged until that variance is 0.31, as the same weights give it at
GPT-2's own width of 768. Or it is "unit", enlarged to variance 1, as the argument for the root
supposes. The scale is that on the dot products: divided by the root of K, as they come, or
multiplied by the root.

`rates` doubles and halves each arm's learning rate, with seed 0, until the best lies between two
others; `seeds` runs that rate with four fresh seeds. What would count against the division: that,
from the unit start, scores as they come learn as well within the standard error. What would count
against the argument: that they learn worse from GPT-2's start, too. Stories are
running text, in rows of 128 tokens that begin anywhere, to learn from and to be measured on.

Each row has, for the model before its first step, the standard deviation of the scores of the first
block on held-out stories, and the mean largest weight of a row.

Runs that stand in the table are not made again. Chapter 3 reads it and repeats one of its rows.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from trial import Table, running_stories

from decoder_only.model.attention import attention_weights
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.training import TrainConfig, train

WIDTH, CONTEXT, VOCABULARY = 64, 128, 512
SEEDS = (1, 2, 3, 4)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others. The scale is the power of K."""

    start: str
    power: float
    steps: int = 300
    learning_rate: float = 8e-3
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it: the loss in nats per token, on stories that were held out."""

    score_std: float
    largest_weight: float
    loss: float
    floor: float
    processor_seconds: float


TABLE = Table("scaling_of_scores", Point)
ARMS = [
    Point(start="unit", power=-0.5),
    Point(start="unit", power=0.0),
    Point(start="unit", power=0.5),
    Point(start="gpt2", power=-0.5),
    Point(start="gpt2", power=0.0),
    Point(start="wide", power=-0.5),
    Point(start="wide", power=0.0),
]
# Of the components of queries and keys before the first step.
VARIANCES = {"unit": 1.0, "wide": 768 * 0.02**2}


def rates() -> Iterator[Point]:
    yield from TABLE.rates(ARMS)


def seeds() -> Iterator[Point]:
    yield from TABLE.seeds(ARMS, SEEDS)


def build(point: Point) -> GPT:
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
        attention_scale=WIDTH**point.power,
    )
    model = GPT(config, generator=torch.Generator().manual_seed(point.seed))
    if point.start in VARIANCES:
        # What the matrices read is normalized: weights of variance 1 / D give variance 1.
        spread = (VARIANCES[point.start] / WIDTH) ** 0.5
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


def measure(point: Point) -> Row:
    """Make one run."""
    corpus, validation = running_stories()
    model = build(point)
    rows = torch.from_numpy(validation.ids[: 32 * CONTEXT].astype("int64"))
    spread, largest = before(model, rows.view(32, CONTEXT))
    training = TrainConfig(
        steps=point.steps,
        batch_size=8,
        learning_rate=point.learning_rate,
        warmup_steps=point.steps // 10,
        seed=point.seed,
    )
    began = time.process_time()
    final = train(model, corpus, validation, training).final
    return Row(
        **asdict(point),
        score_std=spread,
        largest_weight=largest,
        loss=round(final.loss, 5),
        floor=round(validation.floor, 5),
        processor_seconds=round(time.process_time() - began, 1),
    )


if __name__ == "__main__":
    TABLE.make(measure, {"rates": rates, "seeds": seeds})
