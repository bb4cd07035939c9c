"""One table or two: does a language model learn better with a head of its own?

    python benchmarks/trials/tying.py

Models of width 64 and two blocks learn the stories.

Arms        "tied": the embedding is the head. "separate": V D parameters more. "tied, wider": the
            MLPs have V / 2 L neurons more, which gives it exactly as many parameters as "separate".
Fixed       400 steps of AdamW with a cosine schedule. V = 512. `size` repeats it for V = 2048,
            where the tables outweigh the blocks, with 200 steps. `length` gives the arms of `size`
            800 steps, the tied one also at half the rate, with two seeds. `length_rates` gives
            it twice the rate, too, with seed 0.
Rates       Four (three in `size`), each arm at its own best. One rate moves everything but in
            `tables`: there tables and norms have a rate of their own, for the arms of `size`. With
            seed 0, each of the two rates is halved and doubled while the other stays, until both
            are between two others.
Seeds       Three at each rate. `fresh` compares the best rates with three seeds that did not choose
            them, `size_fresh` those of V = 2048, and `tables_fresh` the best pairs of rates.
Measured    The loss on 100 held-out stories, in nats per token and in bits per byte.
Repeated    `short`, from which laboratory 7 makes one again: eight steps of each arm at its best
            rate for V = 512, from two seeds, on 3,000 stories, judged on 20.
Against     A second table is not worth it if the gap is no more than its standard error, or if a
            tied model of the same size learns as well.

Chapter 7 reads the table.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from trial import Trial, seeded, stories_in_stored_tokens

from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import bits_per_byte
from decoder_only.training import TrainConfig, train

WIDTH, DEPTH = 64, 2
KINDS = ("tied", "separate", "tied, wider")
RATES = (2e-3, 4e-3, 8e-3, 1.6e-2)
CHOOSING, FRESH = range(3), range(3, 6)  # seeds
SHORT = 8  # steps


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    arm: str
    vocab_size: int = 512
    steps: int = 400
    learning_rate: float = RATES[0]
    table_learning_rate: float = RATES[0]
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: the loss in nats per token, and in bits per byte."""

    parameters: int
    loss: float
    bits_per_byte: float


ARMS = [Run(arm=arm) for arm in KINDS]
LARGE = [replace(arm, vocab_size=2048, steps=200) for arm in ARMS]
TRIAL = Trial("tying", Run, Found, tuned=("learning_rate", "table_learning_rate"))


def rates() -> Iterator[list[Run]]:
    """V = 512: every arm at four rates, three seeds each."""
    yield at_rates(ARMS, RATES)


def fresh() -> Iterator[list[Run]]:
    """V = 512: every arm at its best rate, from three fresh seeds."""
    best = [TRIAL.best(arm, seeds=CHOOSING) for arm in ARMS]
    yield [replace(arm, seed=seed) for arm in best for seed in FRESH]


def size() -> Iterator[list[Run]]:
    """V = 2048: three rates, and for the tied arm a lower one."""
    yield [*at_rates(LARGE, RATES[1:]), *at_rates(LARGE[:1], RATES[:1])]


def length() -> Iterator[list[Run]]:
    """V = 2048: four times the steps, at a rate that is the best of two arms."""
    longer = [replace(arm, steps=4 * arm.steps) for arm in LARGE]
    yield [
        *at_rates(longer, RATES[2:3]),
        *at_rates(longer[:1], RATES[1:2])[:2],
    ]


def tables() -> Iterator[list[Run]]:
    """V = 2048: tables and norms with a rate of their own."""
    highest = {"learning_rate": RATES[-1], "table_learning_rate": RATES[-1]}
    yield from TRIAL.search(replace(arm, **highest) for arm in LARGE)


def size_fresh() -> Iterator[list[Run]]:
    """V = 2048: every arm at its best rate, from three fresh seeds; the tied one at its second."""
    best = [TRIAL.best(arm, seeds=CHOOSING) for arm in LARGE]
    second = replace(best[0], learning_rate=8e-3, table_learning_rate=8e-3)
    yield [replace(arm, seed=seed) for arm in (*best, second) for seed in FRESH]


def tables_fresh() -> Iterator[list[Run]]:
    """V = 2048: every arm at its best pair of rates, from the same seeds."""
    best = [TRIAL.best(arm) for arm in LARGE]
    yield [replace(arm, seed=seed) for arm in best for seed in FRESH]


def length_rates() -> Iterator[list[Run]]:
    """V = 2048, four times the steps: one table at twice the rate, with one seed."""
    longer = replace(LARGE[0], steps=4 * LARGE[0].steps)
    yield at_rates([longer], RATES[3:])[:1]


def short() -> Iterator[list[Run]]:
    """A few steps of every arm, to be made again in a moment."""
    best = [TRIAL.best(arm, seeds=CHOOSING) for arm in ARMS]
    yield [replace(arm, steps=SHORT, seed=seed) for arm in best for seed in FRESH[:2]]


def at_rates(arms: Iterable[Run], rates: Iterable[float]) -> list[Run]:
    """Arms at some rates that move everything."""
    return [
        replace(arm, learning_rate=rate, table_learning_rate=rate, seed=seed)
        for arm in arms
        for rate in rates
        for seed in CHOOSING
    ]


def settings(run: Run) -> GPTConfig:
    wider = run.vocab_size // (2 * DEPTH) if run.arm == "tied, wider" else 0
    return GPTConfig(
        vocab_size=run.vocab_size,
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
        tied=run.arm != "separate",
    )


def measure(run: Run) -> Found:
    """Make one run."""
    sizes = {"n_train": 3_000, "n_validation": 20} if run.steps == SHORT else {}
    corpus, validation = stories_in_stored_tokens(run.vocab_size, **sizes)
    training = TrainConfig(
        steps=run.steps,
        batch_size=8,
        learning_rate=run.learning_rate,
        table_learning_rate=run.table_learning_rate,
        seed=run.seed,
    )
    model = GPT(settings(run), generator=seeded(run.seed))
    loss = train(model, corpus, validation, training).final.loss
    return Found(
        parameters=model.count_parameters(),
        loss=loss,
        bits_per_byte=bits_per_byte(loss, validation.bytes_per_token),
    )


if __name__ == "__main__":
    TRIAL.main(
        measure,
        rates=rates,
        fresh=fresh,
        size=size,
        length=length,
        tables=tables,
        size_fresh=size_fresh,
        tables_fresh=tables_fresh,
        length_rates=length_rates,
        short=short,
    )
