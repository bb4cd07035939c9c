"""Is it worth having several heads, and do they need keys of their own?

    python benchmarks/trials/heads.py rates seeds longer

Models of width 64 and two blocks learn the stories of the hamlet.

Arms        H = 1, 2, 4 or 8 heads; and four heads with G = 4, 2 or 1 heads of keys and values. All
            have the same number of parameters: what sharing saves goes into the MLPs.
Fixed       300 steps of AdamW with a cosine schedule. `longer` runs one and four heads for three
            times the steps at the same rates, lest more heads only take longer to be of use.
            Stories are running text, in rows of 128 tokens that begin anywhere.
Rates       Halved and doubled until the best is between two others, with seed 0.
Seeds       Three fresh ones.
Measured    The loss on held-out stories, in nats per token. `differ` is how far two heads of a
            block differ, before training and after: the share of weight that would have to move to
            make them alike (total variation), on 32 held-out rows. `previous` is the largest share
            of its weight that any head gives to the token before. `repeated` is the largest share
            that it gives, in random tokens that come twice, to the one that followed the last time.
Against     Several heads are not worth it if one head does as well, within the standard error.

Chapter 4 reads the table, and repeats one of its rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor
from trial import Trial, running_stories, seeded

from decoder_only.model.attention import attention_weights
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.training import TrainConfig, train

WIDTH, DEPTH, CONTEXT, VOCABULARY = 64, 2, 128, 512
STEPS = 300


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    n_heads: int
    n_kv_heads: int
    steps: int = STEPS
    learning_rate: float = 8e-3
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: see above."""

    d_mlp: int
    parameters: int
    loss: float
    floor: float
    differ: float | None
    differ_before: float | None
    previous: float
    repeated: float


ARMS = [
    *(Run(n_heads=n, n_kv_heads=n) for n in (1, 2, 4, 8)),
    *(Run(n_heads=4, n_kv_heads=n) for n in (2, 1)),
]
TRIAL = Trial("heads", Run, Found, arms=ARMS, seeds=(1, 2, 3))


def longer() -> Iterator[list[Run]]:
    """One and four heads for three times the steps."""
    for runs in TRIAL.repeat([ARMS[0], ARMS[2]]):
        yield [replace(run, steps=3 * STEPS) for run in runs]


def configuration(run: Run) -> GPTConfig:
    """The model of an arm; its MLPs take what sharing keys and values saves."""
    head_dim = WIDTH // run.n_heads
    saved = (run.n_heads - run.n_kv_heads) * head_dim
    return GPTConfig(
        vocab_size=VOCABULARY,
        context_length=CONTEXT,
        d_model=WIDTH,
        n_layers=DEPTH,
        n_heads=run.n_heads,
        n_kv_heads=run.n_kv_heads,
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
    """On random tokens that come twice: the largest share for what followed the last time."""
    generator, half = seeded(0), CONTEXT // 2
    once = torch.randint(VOCABULARY - 1, (32, half), generator=generator)
    maps = weights(model, torch.cat([once, once], dim=1))
    shares = [each.diagonal(1 - half, 2, 3)[..., :-1].mean((0, 2)) for each in maps]
    return round(torch.cat(shares).max().item(), 4)


def measure(run: Run) -> Found:
    """Make one run."""
    corpus, validation = running_stories()
    model = GPT(configuration(run), generator=seeded(run.seed))
    rows = torch.from_numpy(validation.ids[: 32 * CONTEXT].astype("int64"))
    ids = rows.view(32, CONTEXT)
    before = differ(model, ids)
    training = TrainConfig(
        steps=run.steps,
        batch_size=8,
        learning_rate=run.learning_rate,
        warmup_steps=run.steps // 10,
        seed=run.seed,
    )
    final = train(model, corpus, validation, training).final
    model.eval()
    return Found(
        d_mlp=model.config.mlp_width,
        parameters=model.count_parameters(),
        loss=final.loss,
        floor=validation.floor,
        differ=differ(model, ids),
        differ_before=before,
        previous=previous(model, ids),
        repeated=repeated(model),
    )


if __name__ == "__main__":
    TRIAL.main(measure, rates=TRIAL.search, seeds=TRIAL.repeat, longer=longer)
