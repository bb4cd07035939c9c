"""How the loss falls with the size of a model and with its data, where the floor is known.

    python benchmarks/sweep.py rates       learning rates for four sizes
    python benchmarks/sweep.py grid        sizes times tokens, at the rates that `rate` gives
    python benchmarks/sweep.py heldout     the largest run, after the law has foretold it
    python benchmarks/sweep.py transfer    learning rates for four widths, standard and muP
    python benchmarks/sweep.py depth       as many weights, deep or wide
    python benchmarks/sweep.py tails       other exponents of the language

Every run is one row of a table, `EXPERIMENT.csv`; runs that stand there are not made again, so
that a sweep that was stopped goes on. The models are small enough for a CPU, one thread each, and
their tables are installed (`src/decoder_only_book/stored/story_sweep`), because chapter 10
reads them. `--size gpu` takes larger ones, of the same recipe, and writes to `results/sweep-gpu`.
"""

import functools
import math
import multiprocessing
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from itertools import islice, product
from pathlib import Path
from typing import Literal

import torch
import tyro
from provenance import collect, write_results
from tables import append, key, read

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
class Point:
    """One run, by what sets it apart from the others."""

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
class Row(Point):
    """A run and what came of it. Losses are in nats per token, over all validation stories."""

    parameters: int
    tokens: int
    loss: float
    floor: float
    bytes_per_token: float
    processor_seconds: float


def rate(d_model: int) -> float:
    """The peak learning rate of a width: the best of `rates` falls as 1 / D, near 0.9 / D."""
    return round(0.9 / d_model, 4)


def point(size: str, d_model: int, n_layers: int, steps: int, **changes) -> Point:
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
    return Point(**{**settings, **changes})


def rates(size: str) -> Iterator[Point]:
    """Four rates for every other size, at the second shortest length."""
    for (d_model, n_layers), peak in product(
        SIZES[size][::2], (5e-3, 1e-2, 2e-2, 4e-2)
    ):
        yield point(size, d_model, n_layers, STEPS[size][1], learning_rate=peak)


def grid(size: str) -> Iterator[Point]:
    """All sizes at all lengths, the dearest first; and two of the runs at more seeds."""
    runs = [(*shape, steps) for shape in SIZES[size] for steps in STEPS[size]]
    for run in sorted(runs, key=lambda run: -(run[0] ** 2) * run[1] * run[2]):
        yield point(size, *run)
    for seed in range(1, 5):
        yield point(size, *SIZES[size][0], STEPS[size][1], seed=seed)
    for seed in (1, 2):
        yield point(size, *SIZES[size][2], STEPS[size][2], seed=seed)


def heldout(size: str) -> Iterator[Point]:
    """A larger model than any of the grid, for as long as the longest."""
    yield point(size, *LARGEST[size], STEPS[size][-1])


def transfer(size: str) -> Iterator[Point]:
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
                yield point(
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


def depth(size: str) -> Iterator[Point]:
    """Blocks of as many weights together, from one wide to sixteen narrow.

    Two seeds, and three rates a factor of two apart, about the best of each shape.
    """
    shapes = {
        (128, 1, 512): (1, 2, 4),
        (96, 2, 320): (0.5, 1, 2),
        (64, 4, 256): (0.5, 1, 2),
        (48, 7, 197): (0.5, 1, 2),
        (32, 16, 128): (0.5, 1, 2),
    }
    scale = 1 if size == "cpu" else 8
    for (d_model, n_layers, d_mlp), seed in product(shapes, range(2)):
        for factor in shapes[d_model, n_layers, d_mlp]:
            yield point(
                size,
                scale * d_model,
                n_layers,
                STEPS[size][1],
                d_mlp=scale * d_mlp,
                seed=seed,
                learning_rate=factor * rate(d_model),
            )


def tails(size: str) -> Iterator[Point]:
    """The middle size on languages with other tails, at all lengths but the longest."""
    for steps, exponent in product(reversed(STEPS[size][:-1]), (0.0, 1.5)):
        yield point(size, *SIZES[size][2], steps, exponent=exponent)


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


def settings(point: Point) -> GPTConfig:
    """The model of a run."""
    is_mup_trial = point.optimizer == "adamw"
    return GPTConfig(
        vocab_size=VOCAB_SIZE,
        context_length=CONTEXT_LENGTH,
        d_model=point.d_model,
        n_layers=point.n_layers,
        n_heads=point.n_heads,
        d_mlp=point.d_mlp,
        positions="rotary",
        norm="rms",
        activation="squared_relu",
        bias=False,
        # Normalized queries and keys would hide what the attention scale does.
        qk_norm=not is_mup_trial,
        initialization="gpt2" if is_mup_trial else "zero",
        base_width=point.base_width,
        attention_scale=point.attention_scale,
    )


def measure(point: Point, size: str, device: str) -> Row:
    """Make one run."""
    _, stories, validation = material(point.exponent, size)
    began = time.process_time()
    generator = torch.Generator().manual_seed(point.seed)
    model = GPT(settings(point), generator=generator)
    training = TrainConfig(
        steps=point.steps,
        batch_size=point.batch_size,
        optimizer=point.optimizer,
        learning_rate=point.learning_rate,
        warmup_steps=max(10, point.steps // 20),
        weight_decay=0.0 if point.optimizer == "adamw" else 0.1,
        seed=point.seed,
    )
    history = train(model.to(device), stories, validation, training)
    return Row(
        **asdict(point),
        parameters=model.count_parameters(),
        tokens=history.tokens,
        loss=round(history.final.loss, 5),
        floor=round(history.final.floor, 5),
        bytes_per_token=round(validation.bytes_per_token, 5),
        processor_seconds=round(time.process_time() - began, 1),
    )


def prepare_worker() -> None:
    torch.set_num_threads(1)


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
    folder = Path(__file__).parent / "results" / "sweep-gpu"
    if size == "cpu":
        folder = Path(stored.__file__).parent / "story_sweep"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = []
    for experiment in experiments:
        done = {key(row, Point) for row in read(folder / f"{experiment}.csv")}
        points = dict.fromkeys(EXPERIMENTS[experiment](size))
        wanted += [(experiment, p) for p in points if key(asdict(p), Point) not in done]
    context = multiprocessing.get_context("spawn")
    workers = jobs if size == "cpu" else 1
    with ProcessPoolExecutor(
        workers, mp_context=context, initializer=prepare_worker
    ) as pool:
        futures = {
            pool.submit(measure, each, size, device.type): experiment
            for experiment, each in wanted
        }
        for number, future in enumerate(as_completed(futures), 1):
            row = future.result()
            append(folder / f"{futures[future]}.csv", row)
            print(f"{number}/{len(futures)} {futures[future]}: {row}", flush=True)
    for experiment in dict.fromkeys(experiment for experiment, _ in wanted):
        provenance = collect(packages=["torch", "numpy", "tiktoken"])
        rows = read(folder / f"{experiment}.csv")
        about = {
            "provenance": provenance | {"device": describe(device)},
            "runs": len(rows),
            "processor seconds": round(
                sum(float(row["processor_seconds"]) for row in rows)
            ),
        }
        write_results(folder / f"{experiment}.json", about)


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
