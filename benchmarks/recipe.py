"""Which settings learn a small language best in a few minutes on a CPU.

    python benchmarks/recipe.py vocabulary rates batch shape heads turns decay tables head untied

Each experiment varies one thing around the recipe that stands in `BASE`, and every run gets the
same processor time on one thread: the number of steps follows from how long a step takes. What
counts is the gap to the exact floor on stories that were held out, in bits per byte, so that
vocabularies can be compared; and how many of 64 samples at temperature 0.6 lie in the language.
Runs that stand in `results/recipe.csv` are not made again.
"""

import functools
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal

import torch
import tyro
from provenance import collect, write_results
from tables import append, key, read

from decoder_only.data import Corpus, story_corpora, training_batch
from decoder_only.generation import write
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import bits_per_byte
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import NextTokenLoss, TrainConfig, train, train_step
from decoder_only.training.optimizers import build_optimizers

RESULTS = Path(__file__).parent / "results"
N_SAMPLES, TEMPERATURE = 64, 0.6


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    language: str = "hamlet"
    seconds: float = 120.0
    vocab_size: int = 2048
    context_length: int = 192
    d_model: int = 128
    n_layers: int = 3
    n_heads: int = 4
    position_base: float = 10_000.0
    batch_size: int = 8
    optimizer: str = "muon"
    learning_rate: float = 8e-3
    table_learning_rate: float | None = 1.6e-2
    schedule: str = "warmup_stable_decay"
    warmup_steps: int = 50
    decay_share: float = 0.6
    weight_decay: float = 0.1
    tied: bool = False
    seed: int = 0


BASE = Point()
# Where the search stood before it tried a head of its own, and where it began.
TIED = replace(BASE, table_learning_rate=None, tied=True)
FOUR = replace(TIED, n_layers=4)


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it. The gap is in bits per byte."""

    steps: int
    parameters: int
    tokens: int
    gap: float
    floor: float
    in_language: int
    processor_seconds: float


def vocabulary() -> Iterator[Point]:
    # A context holds about one story in each.
    for vocab_size, context_length in ((1024, 224), (2048, 192), (2900, 176)):
        yield replace(FOUR, vocab_size=vocab_size, context_length=context_length)


def context() -> Iterator[Point]:
    for context_length in (144, 192, 256):
        yield replace(TIED, context_length=context_length)


def rates() -> Iterator[Point]:
    for rate in (4e-3, 8e-3, 1.6e-2):
        yield replace(FOUR, learning_rate=rate)


def shape() -> Iterator[Point]:
    for d_model, n_layers, n_heads in (
        (96, 3, 3),
        (96, 4, 3),
        (128, 2, 4),
        (128, 3, 4),
        (128, 4, 4),
        (128, 5, 4),
    ):
        yield replace(TIED, d_model=d_model, n_layers=n_layers, n_heads=n_heads)


def heads() -> Iterator[Point]:
    for n_heads in (2, 4, 8):
        yield replace(TIED, n_heads=n_heads)


def turns() -> Iterator[Point]:
    for position_base in (100.0, 1000.0, 10_000.0):
        yield replace(TIED, position_base=position_base)


def decay() -> Iterator[Point]:
    for weight_decay in (0.0, 0.1, 0.3):
        yield replace(TIED, weight_decay=weight_decay)


def batch() -> Iterator[Point]:
    for batch_size in (4, 8, 16):
        yield replace(FOUR, batch_size=batch_size)


def schedule() -> Iterator[Point]:
    yield replace(TIED, schedule="cosine")
    for share in (0.3, 0.6, 1.0):
        yield replace(TIED, decay_share=share)


def tables() -> Iterator[Point]:
    for rate in (4e-3, 8e-3, 1.6e-2):
        yield replace(TIED, table_learning_rate=rate)


def head() -> Iterator[Point]:
    yield TIED
    yield replace(TIED, tied=False)


def untied() -> Iterator[Point]:
    """Around the recipe with a head of its own: what helped before, and what might now."""
    for rate in (None, 1.6e-2, 3.2e-2):
        yield replace(BASE, table_learning_rate=rate)
    slow = replace(TIED, tied=False)
    yield replace(slow, n_heads=8)
    yield replace(slow, vocab_size=2900, context_length=176)
    yield replace(slow, batch_size=4)
    for rate in (4e-3, 1.6e-2):
        yield replace(BASE, learning_rate=rate)
    yield replace(BASE, vocab_size=2900, context_length=176)
    yield replace(BASE, n_layers=2)
    yield replace(BASE, batch_size=16)
    yield replace(BASE, decay_share=1.0)


def adamw() -> Iterator[Point]:
    for rate in (2e-3, 4e-3, 8e-3):
        yield replace(TIED, optimizer="adamw", learning_rate=rate)


def seeds() -> Iterator[Point]:
    for seed in range(3):
        yield replace(BASE, seed=seed)


EXPERIMENTS = {
    each.__name__: each
    for each in (
        vocabulary,
        context,
        rates,
        shape,
        heads,
        turns,
        decay,
        batch,
        schedule,
        tables,
        head,
        untied,
        adamw,
        seeds,
    )
}


@functools.cache
def material(
    name: str, vocab_size: int
) -> tuple[StoryLanguage, BytePairTokenizer, Corpus, Corpus]:
    """The language, a tokenizer, stories to learn from and 250 to be measured on."""
    language = StoryLanguage.named(name)
    some = islice(language.stories(split="train", seed=0), 4000)
    tokenizer = BytePairTokenizer.train(some, vocab_size)
    corpora = story_corpora(language, tokenizer, n_train=20_000, n_validation=250)
    return language, tokenizer, *corpora


def measure(point: Point) -> Row:
    """Make one run."""
    language, tokenizer, stories, validation = material(
        point.language, point.vocab_size
    )
    config = GPTConfig(
        vocab_size=tokenizer.vocab_size,
        context_length=point.context_length,
        d_model=point.d_model,
        n_layers=point.n_layers,
        n_heads=point.n_heads,
        positions="rotary",
        position_base=point.position_base,
        norm="rms",
        activation="squared_relu",
        qk_norm=True,
        bias=False,
        tied=point.tied,
        initialization="zero",
    )
    training = TrainConfig(
        steps=steps_within(point, config, stories),
        batch_size=point.batch_size,
        optimizer=point.optimizer,
        learning_rate=point.learning_rate,
        table_learning_rate=point.table_learning_rate,
        schedule=point.schedule,
        decay_fraction=point.decay_share,
        warmup_steps=point.warmup_steps,
        weight_decay=point.weight_decay,
        seed=point.seed,
    )
    began = time.process_time()
    model = GPT(config, generator=torch.Generator().manual_seed(point.seed))
    history = train(model, stories, validation, training)
    seconds = time.process_time() - began
    texts = write(
        model,
        tokenizer,
        count=N_SAMPLES,
        max_new_tokens=point.context_length,
        temperature=TEMPERATURE,
        generator=torch.Generator().manual_seed(point.seed),
    )
    return Row(
        **asdict(point),
        steps=training.steps,
        parameters=model.count_parameters(),
        tokens=history.tokens,
        gap=round(bits_per_byte(history.final.gap, validation.bytes_per_token), 5),
        floor=round(bits_per_byte(validation.floor, validation.bytes_per_token), 5),
        in_language=sum(language.log_prob(text) > -math.inf for text in texts),
        processor_seconds=round(seconds, 1),
    )


def steps_within(point: Point, config: GPTConfig, stories: Corpus) -> int:
    """How many steps the time allows; a few steps of a model that is thrown away tell."""
    model = GPT(config)
    moving = build_optimizers(model, optimizer=point.optimizer, learning_rate=1e-3)
    times = []
    for step in range(20):
        inputs, targets = training_batch(
            stories,
            batch_size=point.batch_size,
            context_length=point.context_length,
            seed=0,
            step=step,
        )
        began = time.process_time()
        train_step(NextTokenLoss(model), moving, inputs, targets, max_gradient_norm=1.0)
        times.append(time.process_time() - began)
    return round(point.seconds / min(times))  # what else runs only makes steps slower


def main(
    experiments: tyro.conf.Positional[
        tuple[
            Literal[
                "vocabulary",
                "context",
                "rates",
                "shape",
                "heads",
                "turns",
                "decay",
                "batch",
                "schedule",
                "tables",
                "head",
                "untied",
                "adamw",
                "seeds",
            ],
            ...,
        ]
    ],
) -> None:
    """Make the runs of some experiments that have not been made yet.

    Args:
        experiments: which.
    """
    torch.set_num_threads(1)
    path = RESULTS / "recipe.csv"
    done = {key(row, Point) for row in read(path)}
    points = [p for name in experiments for p in EXPERIMENTS[name]()]
    for point in dict.fromkeys(points):
        if key(asdict(point), Point) in done:
            continue
        row = measure(point)
        append(path, row)
        print(row, flush=True)
    provenance = collect(packages=["torch", "numpy", "tiktoken"])
    about = {"provenance": provenance, "runs": len(read(path))}
    write_results(RESULTS / "recipe.json", about)


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
