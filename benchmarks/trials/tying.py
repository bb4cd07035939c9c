"""One table or two: does a language model learn better with a head of its own?

    python benchmarks/trials/tying.py rates fresh size length tables

Models of width 64 and two blocks learn the stories with AdamW and a cosine schedule. Three arms:
"tied", whose head is the embedding; "separate", with V D parameters more; and "tied, wider", whose
MLPs have V / 2 L neurons more, which makes its size the separate one's to the digit. Each arm has
its own best of several rates, three seeds at each, and is judged by the loss on 100 stories that
were held out. What would count against a second table: a gap of no more than its standard error,
or a tied model of the same size that learns as well.

`rates` is the comparison at V = 512, and `fresh` makes it anew at the best rates, from three seeds
that did not choose them; `size` repeats it where the tables outweigh the blocks (V = 2048), for
fewer steps; `length` gives the two larger arms of `size` four times the steps, each at its best
rate. In these, one rate moves everything. `tables` gives the tables and the norms a rate of their
own, for the two larger arms of `size`: with seed 0, an illustration, each of the two rates is
halved and doubled while the other stays, from where they are best, until both lie between two
others. The table goes into the package, for chapter 7. Runs that stand in it are not made again.
"""

import functools
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import torch
from trial import Table

from decoder_only.data import Corpus, story_corpora
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import bits_per_byte
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import TrainConfig, train
from decoder_only_book.stored import load_story_model

WIDTH, DEPTH = 64, 2
ARMS = ("tied", "separate", "tied, wider")
RATES = (2e-3, 4e-3, 8e-3, 1.6e-2)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    arm: str
    vocab_size: int = 512
    steps: int = 400
    learning_rate: float
    table_learning_rate: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it: the loss in nats per token, and in bits per byte."""

    parameters: int
    loss: float
    bits_per_byte: float
    processor_seconds: float


TABLE = Table("tying", Point, tuned=("learning_rate", "table_learning_rate"))


def rates() -> Iterator[Point]:
    for arm in ARMS:
        for rate in RATES:
            for seed in range(3):
                same = {"learning_rate": rate, "table_learning_rate": rate}
                yield Point(arm=arm, **same, seed=seed)


def fresh() -> Iterator[Point]:
    for arm in ARMS:
        tried = [point for point in rates() if point.arm == arm]
        best = min(
            RATES, key=lambda rate: sum(TABLE.scores(p)[rate, rate] for p in tried)
        )
        for seed in range(3, 6):
            same = {"learning_rate": best, "table_learning_rate": best}
            yield Point(arm=arm, **same, seed=seed)


def size() -> Iterator[Point]:
    for point in rates():
        if point.learning_rate > RATES[0] or point.arm == "tied":
            yield replace(point, vocab_size=2048, steps=200)


def length() -> Iterator[Point]:
    for point in size():
        if point.learning_rate == RATES[2] and point.arm != "tied":
            yield replace(point, steps=800)


def tables() -> Iterator[Point]:
    larger = {point.arm: point for point in size() if point.arm != "tied"}
    yield from TABLE.rates(replace(point, seed=0) for point in larger.values())


@functools.cache
def material(vocab_size: int) -> tuple[Corpus, Corpus]:
    """Stories to learn from and 100 to be measured on, in the stored tokens cut short."""
    merges = load_story_model().tokenizer.merges[: vocab_size - 257]
    corpora = story_corpora(
        StoryLanguage(), BytePairTokenizer(merges), n_train=8_000, n_validation=100
    )
    return corpora


def settings(point: Point) -> GPTConfig:
    wider = point.vocab_size // (2 * DEPTH) if point.arm == "tied, wider" else 0
    return GPTConfig(
        vocab_size=point.vocab_size,
        context_length=128,
        d_model=WIDTH,
        n_layers=DEPTH,
        n_heads=2,
        d_mlp=4 * WIDTH + wider,
        positions="rotary",
        norm="rms",
        activation="squared_relu",
        qk_norm=True,
        bias=False,
        tied=point.arm != "separate",
    )


def measure(point: Point) -> Row:
    """Make one run."""
    stories, validation = material(point.vocab_size)
    training = TrainConfig(
        steps=point.steps,
        batch_size=8,
        learning_rate=point.learning_rate,
        table_learning_rate=point.table_learning_rate,
        seed=point.seed,
    )
    generator = torch.Generator().manual_seed(point.seed)
    model = GPT(settings(point), generator=generator)
    began = time.process_time()
    loss = train(model, stories, validation, training).final.loss
    return Row(
        **asdict(point),
        parameters=model.count_parameters(),
        loss=round(loss, 5),
        bits_per_byte=round(bits_per_byte(loss, validation.bytes_per_token), 5),
        processor_seconds=round(time.process_time() - began, 1),
    )


EXPERIMENTS = {each.__name__: each for each in (rates, fresh, size, length, tables)}

if __name__ == "__main__":
    TABLE.make(measure, EXPERIMENTS)
