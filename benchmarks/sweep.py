"""How does the loss fall with the size of a model and with its data, where the floor is known?

    python benchmarks/sweep.py rates       learning rates for four sizes
    python benchmarks/sweep.py grid        sizes times tokens, at the rates that `rate` gives
    python benchmarks/sweep.py heldout     the largest run, after the law has predicted it
    python benchmarks/sweep.py transfer    learning rates for four widths, standard and muP
    python benchmarks/sweep.py depth       as many weights, deep or wide
    python benchmarks/sweep.py tails       other exponents of the language

Each experiment has a table of its own. The models are small enough for a CPU, and their tables are
in the package (`src/decoder_only_book/stored/story_sweep`), because chapter 10 reads them. `--size
gpu` takes larger ones of the same recipe, and writes to `results/sweep-gpu`.
"""

import functools
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Literal

import torch
import tyro
from frame import Trial

from decoder_only.base.hardware import choose_device, describe
from decoder_only.data import Corpus, story_corpora
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import TrainConfig, train
from decoder_only_book import stored

CONTEXT_LENGTH = 256
BATCH_SIZE = {"cpu": 8, "gpu": 128}
STORIES = {"cpu": 60_000, "gpu": 3_000_000}
VOCAB_SIZE = 1024

# Widths and depths grow together. Tokens double from one to the next.
SIZES = {
    "cpu": [(32, 2), (48, 3), (64, 4), (96, 4), (128, 6)],
    "gpu": [(128, 4), (192, 6), (256, 8), (384, 10), (512, 12)],
}
LARGEST = {"cpu": (160, 6), "gpu": (768, 12)}
STEPS = {
    "cpu": [128, 256, 512, 1024, 2048],
    "gpu": [500, 1000, 2000, 4000, 8000, 16000],
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    d_model: int
    n_layers: int
    n_heads: int
    d_mlp: int
    steps: int
    batch_size: int
    learning_rate: float
    optimizer: str = "muon"
    seed: int = 0
    exponent: float = 1.0
    base_width: int | None = None
    attention_scale: float | None = None


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured. Losses are in nats per token, over all validation stories."""

    parameters: int
    tokens: int
    loss: float
    floor: float
    bytes_per_token: float


def rate(d_model: int) -> float:
    """The peak learning rate of a width: the best of `rates` falls as 1 / D, near 0.9 / D."""
    return round(0.9 / d_model, 4)


def sized(size: str, d_model: int, n_layers: int, steps: int, **changes) -> Run:
    """A run of the grid, heads 16 wide on a CPU and 64 on a GPU, with some things changed."""
    settings = {
        "d_model": d_model,
        "n_layers": n_layers,
        "n_heads": d_model // (16 if size == "cpu" else 64),
        "d_mlp": 4 * d_model,
        "steps": steps,
        "batch_size": BATCH_SIZE[size],
        "learning_rate": rate(d_model),
    }
    return Run(**{**settings, **changes})


def rates(size: str) -> Iterator[Run]:
    """Four rates for every other size, at the second shortest length."""
    for (d_model, n_layers), peak in product(
        SIZES[size][::2], (5e-3, 1e-2, 2e-2, 4e-2)
    ):
        yield sized(size, d_model, n_layers, STEPS[size][1], learning_rate=peak)


def grid(size: str) -> Iterator[Run]:
    """All sizes at all lengths, the most expensive first; and two of the runs at more seeds."""
    runs = [(*shape, steps) for shape in SIZES[size] for steps in STEPS[size]]
    for run in sorted(runs, key=lambda run: -(run[0] ** 2) * run[1] * run[2]):
        yield sized(size, *run)
    for seed in range(1, 5):
        yield sized(size, *SIZES[size][0], STEPS[size][1], seed=seed)
    for seed in (1, 2):
        yield sized(size, *SIZES[size][2], STEPS[size][2], seed=seed)


def heldout(size: str) -> Iterator[Run]:
    """A larger model than any of the grid, for as long as the longest."""
    yield sized(size, *LARGEST[size], STEPS[size][-1])


def transfer(size: str) -> Iterator[Run]:
    """Learning rates for four widths of four heads each, in four parametrizations.

    Standard; muP with the widest as its base, by 1 / K and by 1 / sqrt(K); and, for the widest
    alone, muP with the narrowest as its base.
    """
    widths = (32, 64, 128, 256) if size == "cpu" else (128, 256, 512, 1024)
    for d_model in reversed(widths):
        head_dim = d_model // 4
        arms = [(None, None, range(-11, -4))]
        if d_model == widths[-1]:
            scale = math.sqrt(widths[0] / 4) / head_dim
            arms += [(widths[0], scale, range(-9, -3))]
        else:
            scale = math.sqrt(widths[-1] / 4) / head_dim
            arms += [(widths[-1], each, range(-11, -4)) for each in (scale, None)]
        for base_width, scale, powers in arms:
            for power in powers:
                yield sized(
                    size,
                    d_model,
                    2,
                    STEPS[size][0],
                    n_heads=4,
                    batch_size=BATCH_SIZE[size] // 2,
                    learning_rate=2.0**power,
                    optimizer="adamw",
                    base_width=base_width,
                    attention_scale=scale,
                )


def depth(size: str) -> Iterator[Run]:
    """Blocks of as many weights together, from one wide to sixteen narrow.

    Two seeds, and rates a factor of two apart, about the best of each shape.
    """
    shapes = {
        (128, 1, 512): (1, 2, 4),
        (96, 2, 320): (0.5, 1, 2),
        (64, 4, 256): (0.5, 1, 2),
        (48, 7, 197): (0.5, 1, 2),
        (32, 16, 128): (0.25, 0.5, 1, 2),
    }
    scale = 1 if size == "cpu" else 8
    for (d_model, n_layers, d_mlp), seed in product(shapes, range(2)):
        for factor in shapes[d_model, n_layers, d_mlp]:
            yield sized(
                size,
                scale * d_model,
                n_layers,
                STEPS[size][1],
                d_mlp=scale * d_mlp,
                seed=seed,
                learning_rate=factor * rate(d_model),
            )


def tails(size: str) -> Iterator[Run]:
    """The middle size on languages with other tails, at all lengths but the longest."""
    for steps, exponent in product(reversed(STEPS[size][:-1]), (0.0, 1.5)):
        yield sized(size, *SIZES[size][2], steps, exponent=exponent)


EXPERIMENTS = {
    each.__name__: each for each in (rates, grid, heldout, transfer, depth, tails)
}


@functools.cache
def material(exponent: float, size: str) -> tuple[BytePairTokenizer, Corpus, Corpus]:
    """A tokenizer of the language, stories to learn from and 500 to be measured on."""
    language = StoryLanguage(exponent=exponent)
    some = islice(language.stories(split="train", seed=0), 4000)
    tokenizer = BytePairTokenizer.train(some, VOCAB_SIZE)
    corpora = story_corpora(
        language, tokenizer, n_train=STORIES[size], n_validation=500
    )
    return tokenizer, *corpora


def settings(run: Run) -> GPTConfig:
    """The model of a run."""
    is_mup_trial = run.optimizer == "adamw"
    return GPTConfig(
        vocab_size=VOCAB_SIZE,
        context_length=CONTEXT_LENGTH,
        d_model=run.d_model,
        n_layers=run.n_layers,
        n_heads=run.n_heads,
        d_mlp=run.d_mlp,
        positions="rotary",
        norm="rms",
        activation="squared_relu",
        bias=False,
        # Normalized queries and keys would hide what the attention scale does.
        qk_norm=not is_mup_trial,
        initialization="gpt2" if is_mup_trial else "zero",
        base_width=run.base_width,
        attention_scale=run.attention_scale,
    )


def measure(run: Run, size: str, device: str) -> Found:
    """Make one run."""
    _, corpus, validation = material(run.exponent, size)
    generator = torch.Generator().manual_seed(run.seed)
    model = GPT(settings(run), generator=generator)
    training = TrainConfig(
        steps=run.steps,
        batch_size=run.batch_size,
        optimizer=run.optimizer,
        learning_rate=run.learning_rate,
        warmup_steps=max(10, run.steps // 20),
        weight_decay=0.0 if run.optimizer == "adamw" else 0.1,
        seed=run.seed,
    )
    history = train(model.to(device), corpus, validation, training)
    return Found(
        parameters=model.count_parameters(),
        tokens=history.tokens,
        loss=history.final.loss,
        floor=history.final.floor,
        bytes_per_token=validation.bytes_per_token,
    )


def trial_of(experiment: str, size: str = "cpu") -> Trial:
    """The table of an experiment."""
    folder = Path(stored.__file__).parent / "story_sweep"
    if size == "gpu":
        folder = Path(__file__).parent / "results" / "sweep-gpu"
    return Trial(experiment, Run, Found, folder=folder)


def main(
    experiments: tyro.conf.Positional[
        tuple[
            Literal["rates", "grid", "heldout", "transfer", "depth", "tails"],
            ...,
        ]
    ],
    size: Literal["cpu", "gpu"] = "cpu",
    jobs: int = 2,
) -> None:
    """Make the runs of some experiments that have not been made yet.

    Args:
        experiments: which.
        size: of the models; "gpu" trains on one.
        jobs: runs at a time, on a CPU.
    """
    device = choose_device("cuda" if size == "gpu" else "cpu")
    for experiment in experiments:
        runs = list(EXPERIMENTS[experiment](size))
        trial_of(experiment, size).make(
            partial(measure, size=size, device=device.type),
            [(experiment, lambda runs=runs: [runs])],
            jobs=jobs if size == "cpu" else 1,
            about={"device": describe(device)},
        )


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
