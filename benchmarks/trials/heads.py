"""Is it worth having several heads, and do they need keys of their own?

    python benchmarks/trials/heads.py rates seeds longer

Models of width 64 and two blocks learn the stories of the hamlet with AdamW and a cosine schedule.
The arms have H = 1, 2, 4, 8 heads, and, with four, G = 4, 2, 1 heads of keys and values. All have
the same number of parameters: what sharing saves goes into the MLPs. `rates` doubles and halves
each arm's learning rate, with seed 0, until the best lies between two others; `seeds` runs that
rate with three fresh seeds; `longer` runs one and four heads for three times the steps at the same
rates and seeds, lest more heads only take more time to be of use. What would count against several
heads: that one head does as well, within the standard error. Stories are running text, in rows of
128 tokens that begin anywhere, to learn from and to be measured on.

Of each model the table also has how far two heads of a block differ, trained and before: the share
of weight that would have to move to make them alike (total variation), on 32 held-out rows; and
the largest share of its weight that any head gives to the token before, and, on random tokens that
are said twice, to the one that followed the last time.

Runs that stand in the table are not made again. Chapter 4 reads it and repeats one of its rows.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor
from trial import Table, running_stories

from decoder_only.model.attention import attention_weights
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.training import TrainConfig, train

WIDTH, DEPTH, CONTEXT, VOCABULARY = 64, 2, 128, 512
SEEDS, STEPS = (1, 2, 3), 300


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    n_heads: int
    n_kv_heads: int
    steps: int = STEPS
    learning_rate: float = 8e-3
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it: the loss in nats per token, on stories that were held out."""

    d_mlp: int
    parameters: int
    loss: float
    floor: float
    differ: float | None
    differ_before: float | None
    previous: float
    repeated: float
    processor_seconds: float


TABLE = Table("heads", Point)
ARMS = [
    *(Point(n_heads=n, n_kv_heads=n) for n in (1, 2, 4, 8)),
    *(Point(n_heads=4, n_kv_heads=n) for n in (2, 1)),
]


def rates() -> Iterator[Point]:
    yield from TABLE.rates(ARMS)


def seeds() -> Iterator[Point]:
    yield from TABLE.seeds(ARMS, SEEDS)


def longer() -> Iterator[Point]:
    for point in TABLE.seeds((ARMS[0], ARMS[2]), SEEDS):
        yield replace(point, steps=3 * STEPS)


def configuration(point: Point) -> GPTConfig:
    """The model of an arm; its MLPs take what sharing keys and values saves."""
    head_dim = WIDTH // point.n_heads
    saved = (point.n_heads - point.n_kv_heads) * head_dim
    return GPTConfig(
        vocab_size=VOCABULARY,
        context_length=CONTEXT,
        d_model=WIDTH,
        n_layers=DEPTH,
        n_heads=point.n_heads,
        n_kv_heads=point.n_kv_heads,
        d_mlp=4 * WIDTH + saved,
        positions="rotary",
        norm="rms",
        bias=False,
    )


@torch.no_grad()
def weights(model: GPT, ids: Tensor) -> list[Float[Tensor, "b h s t"]]:
    """The attention weights of every block."""
    found, x = [], model.embedding(ids)
    for block in model.blocks:
        query, keys, _ = block.attention.project(block.attention_norm(x))
        found.append(attention_weights(query, keys))
        x = block(x)
    return found


def differ(model: GPT, ids: Tensor) -> float | None:
    """Total variation between the weights of two heads of a block, on average; 0 is alike."""
    if model.config.n_heads == 1:
        return None
    apart = []
    for maps in weights(model, ids):
        pairs = torch.combinations(torch.arange(maps.shape[1])).T
        first, second = (maps[:, of] for of in pairs)
        apart.append((first - second).abs().sum(-1).mean() / 2)
    return round(torch.stack(apart).mean().item(), 4)


def previous(model: GPT, ids: Tensor) -> float:
    """The largest share that a head gives to the token before."""
    shares = [maps.diagonal(-1, 2, 3).mean((0, 2)) for maps in weights(model, ids)]
    return round(torch.cat(shares).max().item(), 4)


def repeated(model: GPT) -> float:
    """On random tokens that are said twice: the largest share for what followed the last time."""
    generator, half = torch.Generator().manual_seed(0), CONTEXT // 2
    once = torch.randint(VOCABULARY - 1, (32, half), generator=generator)
    maps = weights(model, torch.cat([once, once], dim=1))
    shares = [each.diagonal(1 - half, 2, 3)[..., :-1].mean((0, 2)) for each in maps]
    return round(torch.cat(shares).max().item(), 4)


def measure(point: Point) -> Row:
    """Make one run."""
    corpus, validation = running_stories()
    model = GPT(
        configuration(point), generator=torch.Generator().manual_seed(point.seed)
    )
    rows = torch.from_numpy(validation.ids[: 32 * CONTEXT].astype("int64"))
    ids = rows.view(32, CONTEXT)
    before = differ(model, ids)
    training = TrainConfig(
        steps=point.steps,
        batch_size=8,
        learning_rate=point.learning_rate,
        warmup_steps=point.steps // 10,
        seed=point.seed,
    )
    began = time.process_time()
    final = train(model, corpus, validation, training).final
    seconds = time.process_time() - began
    model.eval()
    return Row(
        **asdict(point),
        d_mlp=model.config.mlp_width,
        parameters=model.count_parameters(),
        loss=round(final.loss, 5),
        floor=round(validation.floor, 5),
        differ=differ(model, ids),
        differ_before=before,
        previous=previous(model, ids),
        repeated=repeated(model),
        processor_seconds=round(seconds, 1),
    )


if __name__ == "__main__":
    TABLE.make(measure, {"rates": rates, "seeds": seeds, "longer": longer})
