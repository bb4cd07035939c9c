"""Which learning rate is best at which width, in the standard parametrization and in muP?

    python benchmarks/trials/widths.py muon ratio kept parts

Models of four widths from 16 to 128, with two blocks of two heads, learn stories for 128 steps of
Muon.

Arms        "standard": GPT-2's first weights at every width. "muP": with the widest as its base.
            `ratio` has "muP by ratio", where the rate of Muon's matrices falls as the width itself,
            and not as its root.
            muP changes three parts: the start (the blocks' first matrices), the factors (of logits
            and scores) and the rate (of Muon's matrices). `kept` parts the rate from the others:
            "muP, rate kept" is muP with the standard rate, and "rate alone" has muP's rate and
            nothing else of muP. `parts` has the same two for the start and for the factors.
Rates       A factor of two apart, for every width and every seed until the best is between two
            others, from where the first seed found its best.
Seeds       Three.
Measured    The loss on 100 held-out stories, in nats per token.
Against     muP is of no use if its best rates move with the width by as much as without it. The
            root is wrong if by the ratio the best rates move less, or if the base's rate costs less
            at other widths, seed by seed. The rate is not what keeps the best rate in place if with
            "rate kept" it moves no more than under muP; nor is it what the lower loss comes from if
            "rate kept" has that loss as well, each arm at its best rate, seed by seed.

Chapter 10 reads the table, and repeats one of its rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from trial import Trial, seeded, stories_in_stored_tokens

from decoder_only.model.config import GPTConfig
from decoder_only.model.counting import widened
from decoder_only.model.gpt import GPT
from decoder_only.training import TrainConfig, train

WIDTHS, VOCAB_SIZE, CONTEXT_LENGTH, STEPS = (16, 32, 64, 128), 512, 128, 128
# The widest is its own base, and so has no arm of muP.
ARMS = [*product(["standard"], WIDTHS), *product(["muP"], WIDTHS[:-1])]
BY_RATIO = [*product(["muP by ratio"], WIDTHS[:-1])]
PARTS = {  # what an arm has of muP
    "standard": (),
    "muP": ("start", "factors", "rate"),
    "muP by ratio": ("start", "factors", "rate"),
    "muP, rate kept": ("start", "factors"),
    "muP, start kept": ("factors", "rate"),
    "muP, factors kept": ("start", "rate"),
    "rate alone": ("rate",),
    "start alone": ("start",),
    "factors alone": ("factors",),
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    optimizer: str
    parametrization: str
    d_model: int
    learning_rate: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured: the loss in nats per token, on 100 stories held out."""

    parameters: int
    loss: float
    floor: float


TRIAL = Trial("widths", Run, Found)


def muon() -> Iterator[list[Run]]:
    """Both parametrizations."""
    yield from tuned(ARMS)


def ratio() -> Iterator[list[Run]]:
    """muP with rates that fall as the width."""
    yield from tuned(BY_RATIO)


def kept() -> Iterator[list[Run]]:
    """muP without its rates, and its rates without all else."""
    yield from tuned([*product(["muP, rate kept", "rate alone"], WIDTHS[:-1])])


def parts() -> Iterator[list[Run]]:
    """The same for the start and for the factors."""
    for part in ("start", "factors"):
        arms = [f"muP, {part} kept", f"{part} alone"]
        yield from tuned([*product(arms, WIDTHS[:-1])])


def tuned(arms: Sequence[tuple[str, int]]) -> Iterator[list[Run]]:
    """Rates of its own for each seed, searched from where the first found its best."""
    first = [
        Run(
            optimizer="muon",
            parametrization=parametrization,
            d_model=width,
            learning_rate=2.0**-6,
            seed=0,
        )
        for parametrization, width in arms
    ]
    for seed in range(3):
        yield from TRIAL.search([replace(TRIAL.best(arm), seed=seed) for arm in first])


def settings(run: Run) -> GPTConfig:
    has_factors = "factors" in PARTS[run.parametrization]
    config = GPTConfig(
        vocab_size=VOCAB_SIZE,
        context_length=CONTEXT_LENGTH,
        d_model=WIDTHS[-1] if has_factors else run.d_model,
        n_layers=2,
        n_heads=2,
        positions="rotary",
        norm="rms",
        activation="squared_relu",
        bias=False,
    )
    return widened(config, run.d_model) if has_factors else config


def build(run: Run) -> GPT:
    """The model of a run, before its first step."""
    config = settings(run)
    model = GPT(config, generator=seeded(run.seed))
    ratio = run.d_model / WIDTHS[-1]
    wanted = ratio if "start" in PARTS[run.parametrization] else 1.0
    if wanted != config.width_ratio:  # the model's own start follows its factors
        for matrix in model.blocks.parameters():
            if matrix.ndim == 2:
                matrix.data *= (config.width_ratio / wanted) ** 0.5
    return model


def rate_of_matrices(run: Run) -> float:
    """What training is told. With a base's width it divides by the root of the ratio itself."""
    parts = PARTS[run.parametrization]
    power = ("rate" in parts) - ("factors" in parts)
    power += run.parametrization == "muP by ratio"
    return run.learning_rate / (run.d_model / WIDTHS[-1]) ** (power / 2)


def measure(run: Run) -> Found:
    """Make one run."""
    corpus, validation = stories_in_stored_tokens(VOCAB_SIZE)
    training = TrainConfig(
        steps=STEPS,
        batch_size=2,
        optimizer=run.optimizer,
        learning_rate=rate_of_matrices(run),
        table_learning_rate=run.learning_rate,
        warmup_steps=10,
        weight_decay=0.0,
        seed=run.seed,
    )
    model = build(run)
    final = train(model, corpus, validation, training).final
    return Found(
        parameters=model.count_parameters(), loss=final.loss, floor=final.floor
    )


if __name__ == "__main__":
    TRIAL.main(measure, muon=muon, ratio=ratio, kept=kept, parts=parts)
