"""What a mark of place is worth to a language model, within its trained length and beyond.

    python benchmarks/trials/positions.py rates     three rates for every arm, and more
                                                    until the best lies between two others
    python benchmarks/trials/positions.py seeds     three fresh seeds of each, at that rate
    python benchmarks/trials/positions.py longer_rates longer
                                                    the same for six arms, four times as long

Stories as running text. All arms are one model, trained on rows of S = 64 tokens; only the mark of
place differs. What is added to the tokens is controlled for size: learned rows and sinusoids both
start at `scale` times the root mean square of a token's row. Learned tables have 4 S rows, of which
training reaches the first S.

Losses are in nats per token, over the same tokens of stories that were held out, the last 3 S of
windows of 4 S: `inside` where each is predicted from the S / 2 to S tokens before it, so that no
position is new; `twice` and `four` from the beginning of its window, for positions S to 2 S and
2 S to 4 S, with `inside_twice` and `inside_four` over the same tokens. So `four - inside_four` is
what reaching on costs, or, below zero, what the longer context is worth.

That learned positions do no better than sinusoids, and worse beyond, falls if their rows win inside
by more than two standard errors, or if their cost beyond is lower.

Runs that stand in the table are not made again. Chapter 2 reads them and repeats one row.
"""

import copy
import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from trial import Table

from decoder_only.data import Corpus, text_corpus, training_batch
from decoder_only.model.config import GPTConfig
from decoder_only.model.embeddings import rotations, sinusoids
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.model.multihead import MultiHeadAttention
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import NextTokenLoss, train_step
from decoder_only.training.optimizers import (
    build_optimizers,
    set_learning_rate,
    warmup_stable_decay,
)

VOCAB_SIZE, S, BATCH_SIZE, N_HEADS = 512, 64, 8, 4
N_WINDOWS = 128
SEEDS = 1, 2, 3  # seed 0 is for choosing the rate
SLOPES = torch.tensor([4.0 ** -(head + 1) for head in range(N_HEADS)])


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    positions: str
    scale: float | None = None
    steps: int = 300
    learning_rate: float = 2.0**-6
    seed: int = 0
    asked: str = "as trained"


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it, in nats per token."""

    inside: float
    inside_twice: float
    inside_four: float
    twice: float
    four: float
    processor_seconds: float


TABLE = Table("positions", Point, score="inside")
ARMS = [
    Point(positions="none"),
    *(Point(positions="learned", scale=scale) for scale in (0.25, 1.0, 4.0)),
    *(Point(positions="sinusoidal", scale=scale) for scale in (0.25, 1.0, 4.0, 16.0)),
    Point(positions="rotary"),
    Point(positions="alibi"),
    Point(positions="biases"),
]
LONGER = [
    replace(arm, steps=4 * arm.steps)
    for arm in ARMS
    if arm.scale == {"learned": 1.0, "sinusoidal": 4.0}.get(arm.positions)
]
# Ways to ask a trained rotary model beyond its length: positions closer together, or a base that
# turns all planes but the first more slowly.
ASKED = {
    "as trained": (1, 10_000.0),
    "interpolated": (4, 10_000.0),
    "base 30000": (1, 30_000.0),
    "base 100000": (1, 100_000.0),
    "base 500000": (1, 500_000.0),
}


def place(model: GPT, point: Point) -> None:
    """Give a model its mark of place, where the package has none of that kind."""
    if point.scale is not None:
        rows = model.positions.weight
        if point.positions == "sinusoidal":
            waves = sinusoids(torch.arange(len(rows)), d_model=rows.shape[1])
            rows.data = 0.02 * 2**0.5 * waves
            rows.requires_grad_(False)
        rows.data *= point.scale
    if point.positions == "alibi":
        add_to_scores(model, alibi)
    if point.positions == "biases":
        # T5's, without its pooling of distances: one for each, the last for all beyond.
        model.biases = nn.Embedding.from_pretrained(
            torch.zeros(N_HEADS, S), freeze=False
        )
        add_to_scores(model, functools.partial(learned_biases, model.biases.weight))


def ask(model: GPT, shrink: float, base: float) -> list[RemovableHandle]:
    """Have a rotary model read its positions closer together, or by another base."""

    def rotate_otherwise(attention: nn.Module, inputs: tuple, named: dict) -> tuple:
        places = torch.arange(inputs[0].shape[1]) / shrink
        rotation = rotations(places, head_dim=attention.head_dim, base=base)
        return inputs, {**named, "rotation": rotation}

    return [
        block.attention.register_forward_pre_hook(rotate_otherwise, with_kwargs=True)
        for block in model.blocks
    ]


def alibi(length: int) -> Tensor:
    """Minus the distance times the slope of each head; minus infinity for what comes later."""
    return seen(-SLOPES[:, None, None] * distances(length))


def learned_biases(biases: Tensor, length: int) -> Tensor:
    return seen(biases[:, distances(length).clamp(0, S - 1)])


def distances(length: int) -> Tensor:
    place = torch.arange(length)
    return place[:, None] - place


def seen(bias: Tensor) -> Tensor:
    return bias.masked_fill(distances(bias.shape[-1]) < 0, -torch.inf)


def add_to_scores(model: GPT, bias: Callable[[int], Tensor]) -> None:
    """Have every block's attention add a bias to its scores, a matrix for each head."""

    def forward(attention: MultiHeadAttention, x: Tensor, **_: object) -> Tensor:
        projected, mask = attention.project(x), bias(x.shape[1])
        heads = F.scaled_dot_product_attention(*projected, attn_mask=mask)
        return attention.output(rearrange(heads, "b h s k -> b s (h k)"))

    for block in model.blocks:
        block.attention.forward = functools.partial(forward, block.attention)


@functools.cache
def material() -> tuple[Corpus, Tensor]:
    """Stories to learn from, and windows of 4 S tokens, and the one that follows, of others."""
    language = StoryLanguage()
    some = list(islice(language.stories(split="train", seed=0), 4000))
    tokenizer = BytePairTokenizer.train(some, VOCAB_SIZE)
    held_out = islice(language.stories(split="validation", seed=0), 400)
    ids = text_corpus(list(held_out), tokenizer).ids.astype("int64")
    windows = torch.from_numpy(ids).unfold(0, 4 * S + 1, 4 * S)[:N_WINDOWS]
    return text_corpus(some, tokenizer), windows


def learn(point: Point) -> GPT:
    """Train a model from the beginning."""
    kind = "none" if point.positions in ("alibi", "biases") else point.positions
    config = GPTConfig(
        vocab_size=VOCAB_SIZE,
        context_length=4 * S,
        d_model=64,
        n_layers=2,
        n_heads=N_HEADS,
        # Sinusoids here are a table that does not learn.
        positions="learned" if point.scale is not None else kind,
        norm="rms",
        activation="squared_relu",
        qk_norm=True,
        bias=False,
        initialization="zero",
    )
    model = GPT(config, generator=torch.Generator().manual_seed(point.seed))
    place(model, point)
    more(model, point.steps, S, BATCH_SIZE, point.learning_rate, point.seed)
    return model


def more(
    model: GPT, steps: int, length: int, batch_size: int, peak: float, seed: int
) -> None:
    optimizers = build_optimizers(model, optimizer="muon", learning_rate=peak)
    for step in range(steps):
        share = warmup_stable_decay(
            step, warmup_steps=steps // 20, total_steps=steps, decay_fraction=0.6
        )
        set_learning_rate(optimizers, share)
        batch = training_batch(
            material()[0],
            batch_size=batch_size,
            context_length=length,
            seed=seed,
            step=step,
        )
        train_step(NextTokenLoss(model), optimizers, *batch, max_gradient_norm=1.0)


@torch.no_grad()
def losses(model: GPT) -> dict[str, float]:
    """See above."""
    windows = material()[1]
    model.eval()
    beyond = surprise(model, windows)[:, S:]
    # Windows of S that overlap by half, of which the second half counts.
    short = windows.unfold(1, S + 1, S // 2)[:, 1:]
    inside = surprise(model, short.flatten(0, 1))[:, S // 2 :]
    inside = inside.reshape(len(windows), 3 * S)
    found = {
        "inside": inside,
        "inside_twice": inside[:, :S],
        "inside_four": inside[:, S:],
        "twice": beyond[:, :S],
        "four": beyond[:, S:],
    }
    return {name: round(loss.mean().item(), 5) for name, loss in found.items()}


def surprise(model: GPT, rows: Tensor) -> Tensor:
    parts = [
        next_token_loss(model(part[:, :-1]), part[:, 1:], reduction="none")
        for part in rows.split(32)
    ]
    return torch.cat(parts)


def measure(point: Point) -> Iterator[Row]:
    """Make one run, and ask a rotary model in all ways; in the end after a little training on
    rows of 4 S, with positions as they were and with positions closer together."""
    began = time.process_time()
    model = learn(point)
    for asked in ASKED if point.positions == "rotary" else ["as trained"]:
        hooks = ask(model, *ASKED[asked]) if asked != "as trained" else []
        yield row(replace(point, asked=asked), model, began)
        for hook in hooks:
            hook.remove()
        began = time.process_time()
    if point.positions == "rotary" and point.seed in SEEDS:
        for asked in ("as trained", "interpolated"):
            longer = copy.deepcopy(model)
            ask(longer, *ASKED[asked])
            more(longer, 30, 4 * S, BATCH_SIZE // 4, point.learning_rate / 4, 100)
            yield row(replace(point, asked=f"{asked}, 30 steps more"), longer, began)
            began = time.process_time()


def row(point: Point, model: GPT, began: float) -> Row:
    found = losses(model)
    seconds = round(time.process_time() - began, 1)
    return Row(**asdict(point), **found, processor_seconds=seconds)


def rates() -> Iterator[Point]:
    yield from TABLE.rates(ARMS)


def seeds() -> Iterator[Point]:
    yield from TABLE.seeds(ARMS, SEEDS)


def longer_rates() -> Iterator[Point]:
    """The rates anew, for longer training wants smaller steps, from where they were best."""
    for arm in LONGER:
        best = TABLE.at_best_rate(replace(arm, steps=Point.steps))
        yield from TABLE.rates([replace(best, steps=arm.steps)])


def longer() -> Iterator[Point]:
    yield from TABLE.seeds(LONGER, SEEDS)


EXPERIMENTS = {each.__name__: each for each in (rates, seeds, longer_rates, longer)}

if __name__ == "__main__":
    packages = "torch", "numpy", "tiktoken", "regex"
    TABLE.make(measure, EXPERIMENTS, packages=packages)
