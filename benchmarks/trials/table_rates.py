"""Is the bump at 4,096 entries made by one learning rate for matrices and tables?

    python benchmarks/trials/table_rates.py tables wider seeds pairs fresh near

In `vocabulary.py` one rate moved matrices and tables alike, and 4,096 entries came out worse than
1,024 and than 8,192. Here the table of the tokens has a rate of its own.

Arms        Vocabularies of 1,024, 4,096 and 8,192 tokens, learned from the text.
Fixed       Models, steps and bytes, as in `vocabulary.py`.
Rates       Of the matrices at first 2^-7, which was the best for 1,024 and 8,192 entries there; of
            the table twice and four times that. Those with one rate for both are in
            `vocabulary.py`. `wider` goes on to eight and sixteen times. `pairs` halves and doubles
            both rates of every arm until the best pair lies between others.
Seeds       0, the one that chose the rates in `vocabulary.py`, for all of these. Five fresh ones:
            `fresh` takes each arm through them at its best pair. One seed may choose badly, so
            `seeds` takes all arms through three of them with matrices at 2^-7 and a table four
            times as fast, and `near` 4,096 entries with that table and matrices at 2^-7, 2^-8 and,
            from four seeds only, 2^-9.
Measured    Bits per byte of held-out text.
Against     The bump is the rates' if 4,096 is as good as one of the others, each at its best pair.

Chapter 1 reads the table.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import vocabulary
from trial import Trial

from decoder_only.model.lm_head import bits_per_byte
from decoder_only.training import evaluate


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    vocab_size: int
    learning_rate: float = 2.0**-7
    table_learning_rate: float
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured. The loss is in nats per token, on text that was held out."""

    parameters: int
    tokens_per_word: float
    loss: float
    bits_per_byte: float
    processor_seconds: float


ARMS = [
    Run(vocab_size=size, table_learning_rate=2.0**-6) for size in (1024, 4096, 8192)
]
TRIAL = Trial(
    "table_rates",
    Run,
    Found,
    arms=ARMS,
    seeds=(1, 2, 3, 4, 5),
    score="bits_per_byte",
    tuned=("learning_rate", "table_learning_rate"),
    packages=("torch", "numpy", "tiktoken", "regex"),
)


def tables() -> Iterator[list[Run]]:
    """Tables that move faster than the matrices."""
    yield [
        Run(vocab_size=size, table_learning_rate=rate)
        for rate in (2.0**-5, 2.0**-6)
        for size in (1024, 4096, 8192)
    ]


def wider() -> Iterator[list[Run]]:
    """Faster tables yet, since 4,096 entries were best at the fastest of the first."""
    yield [
        Run(vocab_size=size, table_learning_rate=rate)
        for rate in (2.0**-4, 2.0**-3)
        for size in (1024, 4096, 8192)
    ]


def seeds() -> Iterator[list[Run]]:
    """All arms with a table four times as fast as the matrices, from fresh seeds."""
    yield [
        Run(vocab_size=size, table_learning_rate=2.0**-5, seed=seed)
        for seed in (1, 2, 3)
        for size in (1024, 4096, 8192)
    ]


def near() -> Iterator[list[Run]]:
    """4,096 entries with the same table and these or slower matrices, from fresh seeds."""
    yield [
        Run(vocab_size=4096, learning_rate=x, table_learning_rate=2.0**-5, seed=seed)
        for x, n_seeds in ((2.0**-9, 4), (2.0**-8, 5), (2.0**-7, 5))
        for seed in TRIAL.seeds[:n_seeds]
    ]


def measure(run: Run) -> Found:
    """Make one run."""
    corpus, validation, tokens_per_word = vocabulary.material("words", run.vocab_size)
    began = time.process_time()
    model = vocabulary.learn(
        corpus,
        vocab_size=run.vocab_size,
        steps=384,
        learning_rate=run.learning_rate,
        table_learning_rate=run.table_learning_rate,
        seed=run.seed,
    )
    final = evaluate(model, validation, batch_size=vocabulary.BATCH_SIZE)
    return Found(
        parameters=model.count_parameters(),
        tokens_per_word=round(tokens_per_word, 4),
        loss=final.loss,
        bits_per_byte=bits_per_byte(final.loss, validation.bytes_per_token),
        processor_seconds=round(time.process_time() - began, 1),
    )


if __name__ == "__main__":
    TRIAL.main(
        measure,
        tables=tables,
        wider=wider,
        seeds=seeds,
        pairs=TRIAL.search,
        fresh=TRIAL.repeat,
        near=near,
    )
