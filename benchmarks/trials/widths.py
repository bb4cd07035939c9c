"""Which learning rate is best at which width, in the standard parametrization and in muP?

    python benchmarks/trials/widths.py muon
    python benchmarks/trials/widths.py adamw

Four widths from 16 to 128, two blocks of two heads, learn stories for 128 steps: in the standard
parametrization, GPT-2's first weights at every width, and in muP with the widest as its base. Each
width, seed by seed, is given learning rates a factor of two apart until the best lies between two
others. What would count against muP: best rates that move with the width by as much as without it.

Runs that stand in the table are not made again. Chapter 10 reads it and repeats one of its rows.
"""

import functools
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Literal

import torch
import tyro
from _path import TABLES
from provenance import collect, write_results
from tables import append, key, read

from decoder_only.config import GPTConfig
from decoder_only.data import Corpus, story_corpora
from decoder_only.model import GPT
from decoder_only.scaling import widened
from decoder_only.stored import load_story_model
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import TrainConfig, train

TABLE = TABLES / "widths.csv"
WIDTHS, VOCAB_SIZE, CONTEXT_LENGTH, STEPS = (16, 32, 64, 128), 512, 128, 128
START = {"muon": 2.0**-6, "adamw": 2.0**-8}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    optimizer: str
    parametrization: str
    d_model: int
    learning_rate: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it: the loss in nats per token, on 100 stories held out."""

    parameters: int
    loss: float
    floor: float
    processor_seconds: float


def wanted(optimizer: str, seed: int, rows: list[dict[str, str]]) -> Iterator[Point]:
    """What is still to be tried before every best rate of a seed lies between two others."""
    arms = [("standard", width) for width in WIDTHS]
    arms += [("muP", width) for width in WIDTHS[:-1]]  # the widest is its own base
    for parametrization, width in arms:
        arm = Point(
            optimizer=optimizer,
            parametrization=parametrization,
            d_model=width,
            learning_rate=START[optimizer],
            seed=seed,
        )
        middle = best(arm, rows) or best(replace(arm, seed=0), rows)
        middle = middle or arm.learning_rate
        for learning_rate in (middle, middle / 2, 2 * middle):
            yield replace(arm, learning_rate=learning_rate)


def best(arm: Point, rows: list[dict[str, str]]) -> float | None:
    """The rate with the lowest loss of those that were tried for an arm."""
    losses = {
        float(row["learning_rate"]): float(row["loss"])
        for row in rows
        if key(row | {"learning_rate": arm.learning_rate}, Point)
        == key(asdict(arm), Point)
    }
    return min(losses, key=losses.get, default=None)


@functools.cache
def material() -> tuple[Corpus, Corpus]:
    """Stories to learn from and 100 to be measured on, in the stored tokens cut short."""
    merges = load_story_model().tokenizer.merges[: VOCAB_SIZE - 257]
    return story_corpora(
        StoryLanguage(), BytePairTokenizer(merges), n_train=8_000, n_validation=100
    )


def settings(point: Point) -> GPTConfig:
    standard = GPTConfig(
        vocab_size=VOCAB_SIZE,
        context_length=CONTEXT_LENGTH,
        d_model=point.d_model if point.parametrization == "standard" else WIDTHS[-1],
        n_layers=2,
        n_heads=2,
        positions="rotary",
        norm="rms",
        activation="squared_relu",
        bias=False,
    )
    if point.parametrization == "standard":
        return standard
    return widened(standard, point.d_model)


def measure(point: Point) -> Row:
    """Make one run."""
    stories, validation = material()
    training = TrainConfig(
        steps=STEPS,
        batch_size=2,
        optimizer=point.optimizer,
        learning_rate=point.learning_rate,
        warmup_steps=10,
        weight_decay=0.0,
        seed=point.seed,
    )
    began = time.process_time()
    generator = torch.Generator().manual_seed(point.seed)
    model = GPT(settings(point), generator=generator)
    final = train(model, stories, validation, training).final
    return Row(
        **asdict(point),
        parameters=model.count_parameters(),
        loss=round(final.loss, 5),
        floor=round(final.floor, 5),
        processor_seconds=round(time.process_time() - began, 1),
    )


def main(
    optimizer: tyro.conf.Positional[Literal["muon", "adamw"]], n_seeds: int = 3
) -> None:
    """Make the runs of an optimizer that have not been made yet.

    Args:
        optimizer: which.
        n_seeds: how many seeds, one after the other.
    """
    torch.set_num_threads(1)
    for seed in range(n_seeds):
        while left := remaining(wanted(optimizer, seed, read(TABLE))):
            for point in left:
                row = measure(point)
                append(TABLE, row)
                print(row, flush=True)
    rows = read(TABLE)
    seconds = sum(float(row["processor_seconds"]) for row in rows)
    provenance = collect(packages=["torch", "numpy", "tiktoken"])
    about = {"provenance": provenance, "runs": len(rows)}
    write_results(
        TABLE.with_suffix(".json"), about | {"processor seconds": round(seconds)}
    )


def remaining(points: Iterator[Point]) -> list[Point]:
    done = {key(row, Point) for row in read(TABLE)}
    return [point for point in points if key(asdict(point), Point) not in done]


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
