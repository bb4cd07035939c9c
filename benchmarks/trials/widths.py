"""Which learning rate is best at which width, in the standard parametrization and in muP?

    python benchmarks/trials/widths.py muon adamw ratio

Four widths from 16 to 128, two blocks of two heads, learn stories for 128 steps: in the standard
parametrization, GPT-2's first weights at every width, and in muP with the widest as its base. Each
width, seed by seed, is given learning rates a factor of two apart until the best lies between two
others. What would count against muP: best rates that move with the width by as much as without it.

`ratio` asks whether the rate of Muon's matrices should fall as the root of the width, as above, or
as the width itself. What would count against the root: that by the ratio the best rates move less,
or that the base's rate costs less at other widths, seed by seed.

Runs that stand in the table are not made again. Chapter 10 reads it and repeats one of its rows.
"""

import functools
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import torch
from trial import Table

from decoder_only.data import Corpus, story_corpora
from decoder_only.model.config import GPTConfig
from decoder_only.model.counting import widened
from decoder_only.model.gpt import GPT
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import TrainConfig, train
from decoder_only_book.stored import load_story_model

WIDTHS, VOCAB_SIZE, CONTEXT_LENGTH, STEPS = (16, 32, 64, 128), 512, 128, 128
START = {"muon": 2.0**-6, "adamw": 2.0**-8}
SEEDS = 0, 1, 2
ARMS = [("standard", width) for width in WIDTHS]
ARMS += [("muP", width) for width in WIDTHS[:-1]]  # the widest is its own base


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


TABLE = Table("widths", Point)


def muon() -> Iterator[Point]:
    yield from tuned("muon")


def adamw() -> Iterator[Point]:
    yield from tuned("adamw")


def ratio() -> Iterator[Point]:
    yield from tuned("muon", [("muP by ratio", width) for width in WIDTHS[:-1]])


def tuned(optimizer: str, arms: Sequence[tuple[str, int]] = ARMS) -> Iterator[Point]:
    """Each seed has rates of its own, which are looked for from where the first found its best."""
    for seed in SEEDS:
        for parametrization, width in arms:
            first = Point(
                optimizer=optimizer,
                parametrization=parametrization,
                d_model=width,
                learning_rate=START[optimizer],
                seed=SEEDS[0],
            )
            yield from TABLE.rates([replace(TABLE.at_best_rate(first), seed=seed)])


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
    config, by_ratio = settings(point), point.parametrization == "muP by ratio"
    training = TrainConfig(
        steps=STEPS,
        batch_size=2,
        optimizer=point.optimizer,
        # Training divides the rate of Muon's matrices by the root of the ratio; here once more.
        learning_rate=point.learning_rate
        / (config.width_ratio**0.5 if by_ratio else 1),
        table_learning_rate=point.learning_rate,
        warmup_steps=10,
        weight_decay=0.0,
        seed=point.seed,
    )
    began = time.process_time()
    generator = torch.Generator().manual_seed(point.seed)
    model = GPT(config, generator=generator)
    final = train(model, stories, validation, training).final
    return Row(
        **asdict(point),
        parameters=model.count_parameters(),
        loss=round(final.loss, 5),
        floor=round(final.floor, 5),
        processor_seconds=round(time.process_time() - began, 1),
    )


if __name__ == "__main__":
    TABLE.make(measure, {each.__name__: each for each in (muon, adamw, ratio)})
