"""Which settings learn a small language best in two minutes of one thread of a CPU?

    python benchmarks/recipe.py vocabulary rates batch shape heads turns decay tables head untied

Arms        Each experiment varies one thing around a recipe: `FOUR` when the search began, `TIED`
            before it tried a head of its own, and `BASE`.
Fixed       Processor time: the number of steps follows from how long a step takes. So the same run
            has other numbers on another machine.
Seeds       One: the search is an illustration.
Measured    The gap to the exact floor on held-out stories, in bits per byte, so that vocabularies
            can be compared; and how many of 64 samples at temperature 0.6 are in the language.
Against     See benchmarks/README.md, which reads `results/recipe.csv`: what looked best here was
            run again at the length of the default run.
"""

import functools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import torch
from frame import Trial

from decoder_only.data import Corpus, story_corpora, training_batch
from decoder_only.generation import write
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import bits_per_byte
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import NextTokenLoss, TrainConfig, train, train_step
from decoder_only.training.optimizers import build_optimizers

N_SAMPLES, TEMPERATURE = 64, 0.6


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

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


BASE = Run()
# Where the search stood before it tried a head of its own, and where it began.
TIED = replace(BASE, table_learning_rate=None, tied=True)
FOUR = replace(TIED, n_layers=4)


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured. The gap and the floor are in bits per byte."""

    steps: int
    parameters: int
    tokens: int
    gap: float
    floor: float
    in_language: int
    processor_seconds: float


TRIAL = Trial(
    "recipe", Run, Found, score="gap", folder=Path(__file__).parent / "results"
)


def vocabulary() -> Iterator[list[Run]]:
    """Three vocabularies, with contexts that hold about one story in each."""
    sizes = ((1024, 224), (2048, 192), (2900, 176))
    yield [replace(FOUR, vocab_size=v, context_length=s) for v, s in sizes]


def rates() -> Iterator[list[Run]]:
    """Three learning rates."""
    yield [replace(FOUR, learning_rate=rate) for rate in (4e-3, 8e-3, 1.6e-2)]


def shape() -> Iterator[list[Run]]:
    """Widths and depths."""
    shapes = ((96, 3, 3), (96, 4, 3), *((128, depth, 4) for depth in (3, 4, 5)))
    yield [replace(TIED, d_model=d, n_layers=n, n_heads=h) for d, n, h in shapes]


def heads() -> Iterator[list[Run]]:
    """Two, four and eight heads."""
    yield [replace(TIED, n_heads=n_heads) for n_heads in (2, 4, 8)]


def turns() -> Iterator[list[Run]]:
    """Three bases of the rotary positions."""
    yield [replace(TIED, position_base=base) for base in (100.0, 1000.0, 10_000.0)]


def decay() -> Iterator[list[Run]]:
    """Weight decay or none."""
    yield [replace(TIED, weight_decay=decay) for decay in (0.0, 0.1)]


def batch() -> Iterator[list[Run]]:
    """Three batch sizes."""
    yield [replace(FOUR, batch_size=batch_size) for batch_size in (4, 8, 16)]


def tables() -> Iterator[list[Run]]:
    """Three learning rates of the embedding."""
    yield [replace(TIED, table_learning_rate=rate) for rate in (4e-3, 8e-3, 1.6e-2)]


def head() -> Iterator[list[Run]]:
    """The embedding as the head, and a head of its own."""
    yield [TIED, replace(TIED, tied=False)]


def untied() -> Iterator[list[Run]]:
    """Around the recipe with a head of its own: what helped before, and what might now."""
    slow = replace(TIED, tied=False)
    yield [
        *(replace(BASE, table_learning_rate=rate) for rate in (None, 1.6e-2, 3.2e-2)),
        replace(slow, n_heads=8),
        replace(slow, vocab_size=2900, context_length=176),
        replace(slow, batch_size=4),
        replace(BASE, learning_rate=1.6e-2),
    ]


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


def measure(run: Run) -> Found:
    """Make one run."""
    language, tokenizer, stories, validation = material(run.language, run.vocab_size)
    config = GPTConfig(
        vocab_size=tokenizer.vocab_size,
        context_length=run.context_length,
        d_model=run.d_model,
        n_layers=run.n_layers,
        n_heads=run.n_heads,
        positions="rotary",
        position_base=run.position_base,
        norm="rms",
        activation="squared_relu",
        qk_norm=True,
        bias=False,
        tied=run.tied,
        initialization="zero",
    )
    training = TrainConfig(
        steps=steps_within(run, config, stories),
        batch_size=run.batch_size,
        optimizer=run.optimizer,
        learning_rate=run.learning_rate,
        table_learning_rate=run.table_learning_rate,
        schedule=run.schedule,
        decay_fraction=run.decay_share,
        warmup_steps=run.warmup_steps,
        weight_decay=run.weight_decay,
        seed=run.seed,
    )
    began = time.process_time()
    model = GPT(config, generator=torch.Generator().manual_seed(run.seed))
    history = train(model, stories, validation, training)
    seconds = time.process_time() - began
    texts = write(
        model,
        tokenizer,
        count=N_SAMPLES,
        max_new_tokens=run.context_length,
        temperature=TEMPERATURE,
        generator=torch.Generator().manual_seed(run.seed),
    )
    return Found(
        steps=training.steps,
        parameters=model.count_parameters(),
        tokens=history.tokens,
        gap=bits_per_byte(history.final.gap, validation.bytes_per_token),
        floor=bits_per_byte(validation.floor, validation.bytes_per_token),
        in_language=sum(language.log_prob(text) > -math.inf for text in texts),
        processor_seconds=round(seconds, 1),
    )


def steps_within(run: Run, config: GPTConfig, stories: Corpus) -> int:
    """How many steps the time allows; a few steps of a model that is thrown away tell."""
    model = GPT(config)
    moving = build_optimizers(model, optimizer=run.optimizer, learning_rate=1e-3)
    times = []
    for step in range(20):
        inputs, targets = training_batch(
            stories,
            batch_size=run.batch_size,
            context_length=run.context_length,
            seed=0,
            step=step,
        )
        began = time.process_time()
        train_step(NextTokenLoss(model), moving, inputs, targets, max_gradient_norm=1.0)
        times.append(time.process_time() - began)
    return round(run.seconds / min(times))  # what else runs only makes steps slower


if __name__ == "__main__":
    TRIAL.main(
        measure,
        vocabulary=vocabulary,
        rates=rates,
        shape=shape,
        heads=heads,
        turns=turns,
        decay=decay,
        batch=batch,
        tables=tables,
        head=head,
        untied=untied,
    )
