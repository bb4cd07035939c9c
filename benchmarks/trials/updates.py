"""How a model is trained: update rules, schedules, warm-up, decay, clipping, starts, dropout.

    python benchmarks/trials/updates.py rules schedules warmup clipping decay starts dropout

Models of chapter 9 (width 64, V = 1024) learn the openings of stories, 200 steps of eight rows. An
experiment is a list of arms, which differ from the plainest run (no clipping, no decay, warm-up of
20 steps, half a cosine) in one thing. Each arm is tried with one seed at rates a factor of two
apart, and at further ones until its best is not an end; then at its best with fresh seeds. Judged
by the loss on the openings of 128 stories that were held out; one that is no number any more is
written as infinite. `clipping` also lets one batch of random tokens come halfway, at the best
rates of `rules`, with and without a limit.

What would count against an arm: a difference to the other, seed by seed, of less than twice its
standard error. Three arms are there to take Muon apart: without the look-ahead, without the mean,
and with both but without the orthogonalization, its step scaled to the same length.

The table goes into the package, for chapter 9. Runs that stand in it are not made again.
"""

import functools
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from itertools import islice

import _path
import torch
import tyro
from provenance import collect, write_results
from tables import append, key, read
from torch import Tensor

from decoder_only.config import GPTConfig
from decoder_only.data import END_OF_TEXT, Corpus, document_corpus, training_batch
from decoder_only.engine import hardware
from decoder_only.model import GPT
from decoder_only.optimization import (
    SCHEDULES,
    Muon,
    build_optimizers,
    set_learning_rate,
)
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import evaluate, train_step

TABLE = _path.TABLES / "updates.csv"
SHAPE = {"vocab_size": 1024, "context_length": 64, "d_model": 64, "n_heads": 4}
SHAPE |= {"positions": "rotary", "norm": "rms", "bias": False}
BATCH = 8


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others.

    Attributes:
        rule: how weights follow gradients.
        learning_rate: the peak.
        table_share: rate of tables and norms, as a share of that of matrices.
        schedule, warmup: how the rate changes.
        beta2: of AdamW.
        weight_decay: of matrices.
        clip: the longest gradient; infinite leaves all.
        start: factor on the first weights.
        last: factor on the first weights of the matrices that add to the stream, besides.
        n_layers, dropout: of the model.
        texts: openings to learn from.
        spoiled: the step at which a batch of random tokens comes; -1 for none.
        steps: how many.
        seed: of weights and order.
    """

    rule: str = "adamw"
    learning_rate: float = 0.0
    table_share: float = 1.0
    schedule: str = "cosine"
    warmup: int = 20
    beta2: float = 0.95
    weight_decay: float = 0.0
    clip: float = math.inf
    start: float = 1.0
    last: float = 1.0
    n_layers: int = 2
    dropout: float = 0.0
    texts: int = 4000
    spoiled: int = -1
    steps: int = 200
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it: held-out loss at the end and at its lowest, training loss."""

    loss: float
    lowest: float
    training_loss: float
    processor_seconds: float


RATES = {
    "descent": (0.5, 1.0, 2.0, 4.0),
    "momentum": (0.025, 0.05, 0.1),
    "adamw": (2.5e-3, 5e-3, 1e-2),
    "muon": (1e-2, 2e-2, 4e-2),
}
MUONS = ("muon", "muon, no look-ahead", "muon, no mean", "muon, not orthogonal")


ORDER = [
    "rules",
    "clipping",
    "warmup",
    "dropout",
    "schedules",
    "decay",
    "starts",
    "deep",
]


def rates(arm: Point) -> tuple[float, ...]:
    """To begin with: about what was best for the plain run."""
    return RATES["muon" if arm.rule in MUONS else arm.rule]


ARMS = {
    "rules": [Point(rule=name) for name in ("descent", "momentum", "adamw", *MUONS)],
    # With the betas of the original recipe.
    "schedules": [Point(schedule=name, beta2=0.98) for name in SCHEDULES],
    "warmup": [Point(rule=rule, warmup=0) for rule in ("adamw", "muon")],
    "clipping": [Point(rule=rule, clip=1.0) for rule in ("momentum", "adamw", "muon")],
    # And a rate of their own for tables and norms, which do not decay.
    "decay": [
        *(Point(weight_decay=decay) for decay in (0.1, 1.0)),
        *(Point(rule="muon", table_share=share) for share in (0.25, 4.0)),
    ],
    "starts": [Point(start=factor) for factor in (0.1, 10.0)],
    "deep": [Point(n_layers=8, last=factor) for factor in (1.0, 4.0)],
    "dropout": [
        Point(texts=60),
        Point(texts=60, dropout=0.2),
        Point(dropout=0.2),
    ],
}
N_FRESH = {"rules": 5}  # and three elsewhere


def search(arm: Point) -> Iterator[Point]:
    """The rates of an arm that are still to be tried, one seed."""
    while True:
        ends = {}
        for row in read(TABLE):
            own = key(asdict(replace(arm, learning_rate=row["learning_rate"])), Point)
            if key(row, Point) == own:
                ends[float(row["learning_rate"])] = float(row["loss"])
        missing = [rate for rate in rates(arm) if rate not in ends]
        if not missing:
            best = min(ends, key=ends.get)
            missing = [best / 2] if best == min(ends) else []
            missing += [best * 2] if best == max(ends) else []
        if not missing:
            return
        yield replace(arm, learning_rate=missing[0])


def best_rate(arm: Point) -> float:
    """Of those that were tried with the first seed."""
    tried = {}
    for row in read(TABLE):
        own = key(asdict(replace(arm, learning_rate=row["learning_rate"])), Point)
        if key(row, Point) == own:
            tried[float(row["learning_rate"])] = float(row["loss"])
    return min(tried, key=tried.get)


def runs(name: str) -> Iterator[Point]:
    """Of an experiment, one after the other: the later depend on what came of the earlier."""
    for arm in ARMS[name]:
        yield from search(arm)
        at_best = replace(arm, learning_rate=best_rate(arm))
        for seed in range(1, 1 + N_FRESH.get(name, 3)):
            yield replace(at_best, seed=seed)
    if name == "clipping":
        for rule in ("adamw", "muon"):
            rate = best_rate(Point(rule=rule))
            for clip in (math.inf, 1.0):
                point = Point(rule=rule, learning_rate=rate, clip=clip, spoiled=100)
                yield from (replace(point, seed=seed) for seed in range(1, 4))


@functools.cache
def material(texts: int = 4000) -> tuple[Corpus, Corpus]:
    """The openings of stories, two sentences each, as chapter 9 has them."""
    language = StoryLanguage()
    told = list(islice(language.stories(split="train"), 4000))
    tokenizer = BytePairTokenizer.train(told, SHAPE["vocab_size"])
    unseen = islice(language.stories(split="validation"), 128)
    openings, held_out = (
        document_corpus([opening(story) for story in stories], tokenizer)
        for stories in (told[:texts], unseen)
    )
    assert openings.ids[0] == tokenizer.special_tokens[END_OF_TEXT]
    return openings, held_out


def opening(story: str) -> str:
    head = ". ".join(story.split(". ")[:2])
    return head if head == story else head + "."


@torch.no_grad()
def build(point: Point) -> GPT:
    config = GPTConfig(**SHAPE, n_layers=point.n_layers, dropout=point.dropout)
    model = GPT(config, generator=torch.Generator().manual_seed(point.seed))
    for name, weight in model.named_parameters():
        is_last = name.endswith(("output.weight", "down.weight"))
        if weight.ndim == 2:
            weight.mul_(point.start * (point.last if is_last else 1))
    return model


class Blind(Muon):
    """Muon without the look-ahead: along the mean as it is."""

    def _directions(self, ahead: list[Tensor], matrices: list[Tensor]) -> list[Tensor]:
        means = [self.state[matrix]["momentum"] for matrix in matrices]
        return super()._directions(means, matrices)


class Straight(Muon):
    """Muon without its essence: the step has the same length, and the mean's own shape."""

    def _directions(self, ahead: list[Tensor], matrices: list[Tensor]) -> list[Tensor]:
        size = math.sqrt(min(matrices[0].shape))
        return [size * mean / mean.norm().clamp(min=1e-12) for mean in ahead]


def optimizers_of(point: Point, model: GPT) -> list[torch.optim.Optimizer]:
    if point.rule in ("descent", "momentum"):
        memory = 0.9 if point.rule == "momentum" else 0.0
        rate = {"lr": point.learning_rate, "peak": point.learning_rate}
        group = {"params": list(model.parameters()), **rate}
        return [torch.optim.SGD([group], momentum=memory, fused=True)]
    settings = {
        "learning_rate": point.learning_rate,
        "table_learning_rate": point.table_share * point.learning_rate,
        "weight_decay": point.weight_decay,
        "beta2": point.beta2,
    }
    if point.rule == "adamw":
        return build_optimizers(model, **settings)
    if point.rule == "muon, no mean":
        settings["momentum"] = 0.0
    adamw, muon = build_optimizers(model, optimizer="muon", **settings)
    other = {"muon, no look-ahead": Blind, "muon, not orthogonal": Straight}
    if point.rule in other:
        muon = other[point.rule](muon.param_groups, learning_rate=point.learning_rate)
    return [adamw, muon]


def measure(point: Point) -> Row:
    """Make one run."""
    openings, held_out = material(point.texts)
    model = build(point)
    optimizers = optimizers_of(point, model)
    noise = torch.Generator().manual_seed(point.seed)
    course = {"warmup_steps": point.warmup, "total_steps": point.steps}
    losses, seen, began = [], [math.inf], time.process_time()
    for step in range(point.steps):
        set_learning_rate(optimizers, SCHEDULES[point.schedule](step, **course))
        size = {"batch_size": BATCH, "context_length": SHAPE["context_length"]}
        batch = training_batch(openings, seed=point.seed, step=step, **size)
        if step == point.spoiled:
            batch = [
                torch.randint(SHAPE["vocab_size"], ids.shape, generator=noise)
                for ids in batch
            ]
        hardware.seed_generators(point.seed, step, 0)  # from these dropout draws
        limit = point.clip if math.isfinite(point.clip) else None
        result = train_step(model, optimizers, *batch, max_gradient_norm=limit)
        losses.append(result.loss.item())
        if point.texts < 4000 and step % 20 == 19:
            seen.append(evaluate(model, held_out).loss)
    loss = evaluate(model, held_out).loss
    return Row(
        **asdict(point),
        loss=_written(loss),
        lowest=_written(min(*seen, loss)),
        training_loss=_written(sum(losses[-20:]) / 20),
        processor_seconds=round(time.process_time() - began, 2),
    )


def _written(loss: float) -> float:
    return round(loss, 5) if math.isfinite(loss) else math.inf


def main(experiments: tyro.conf.Positional[tuple[str, ...]]) -> None:
    """Make the runs of some experiments that have not been made yet.

    Args:
        experiments: which: rules, schedules, warmup, clipping, decay, starts, deep or dropout.
    """
    torch.set_num_threads(1)
    for name in sorted(experiments, key=ORDER.index):
        for point in runs(name):
            done = {key(row, Point) for row in read(TABLE)}
            if key(asdict(point), Point) not in done:
                append(TABLE, row := measure(point))
                shown = {
                    f.name for f in fields(row) if f.default != getattr(row, f.name)
                }
                print({n: x for n, x in asdict(row).items() if n in shown}, flush=True)
        provenance = collect(packages=["torch", "numpy", "tiktoken"])
        about = {"provenance": provenance, "runs": len(read(TABLE))}
        write_results(TABLE.with_suffix(".json"), about)


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
