"""In which order are the kinds of choice learned, and does it depend on the seed or the rate?

    python benchmarks/trials/kinds_learned.py

Models of width 64 and two blocks learn the stories of the hamlet with the tokenizer and the recipe
of the stored one, 512 steps of eight rows, each story at most once. At the powers of two the excess
over the exact floor is measured on 40 held-out stories, split by kind of choice. Four seeds at the
recipe's rate; and, for one seed, half and twice the rate. What would count against an order: that
the step at which a kind has lost nine tenths of its excess differs as much between seeds as between
kinds. Chapter 14 reads the table.
"""

import math
import sys
from dataclasses import asdict, dataclass, replace
from itertools import islice

import _path
import torch
from provenance import collect, write_results
from tables import append, key, read

from decoder_only.analysis.interpretation import ExcessByKind
from decoder_only.data import story_corpora, training_batch
from decoder_only.model.gpt import GPT
from decoder_only.stories import StoryLanguage
from decoder_only.stories.exact import KINDS, NextToken
from decoder_only.training import NextTokenLoss, TrainConfig, train_step
from decoder_only.training.optimizers import build_optimizers, set_learning_rate
from decoder_only_book.stored import load_model

TABLE = _path.TABLES / "kinds_learned.csv"
STEPS, N_STORIES = 512, 40


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    learning_rate: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A state of a run: the excess of one kind, in bits per story, and its entropy."""

    step: int
    kind: str
    excess: float
    entropy: float


class Meter:
    """The excess of a model on some held-out stories, by kind."""

    def __init__(self, language: StoryLanguage, tokenizer: object) -> None:
        following = NextToken(language, tokenizer)
        stories = list(islice(language.stories(split="validation"), N_STORIES))
        self.ids = [
            torch.tensor([[following.end_of_text, *tokenizer.encode(story)]])
            for story in stories
        ]
        self.splits = [ExcessByKind(list(following.along(story))) for story in stories]

    @torch.no_grad()
    def __call__(self, model: GPT) -> torch.Tensor:
        """Bits per story, for each of `KINDS`."""
        parts = [
            split(model(ids)[0].log_softmax(-1)).sum((0, 1))
            for split, ids in zip(self.splits, self.ids, strict=True)
        ]
        return torch.stack(parts).mean(0) / math.log(2)

    @property
    def entropy(self) -> torch.Tensor:
        """Bits per story, for each of `KINDS`."""
        parts = [split.entropy.sum(0) for split in self.splits]
        return torch.stack(parts).mean(0) / math.log(2)


def run(point: Point, material: tuple, meter: Meter) -> None:
    """Trains one model, and writes a row for each kind at each state."""
    stored, corpus = material
    config = replace(stored.model.config, n_layers=2)
    model = GPT(config, generator=torch.Generator().manual_seed(point.seed))
    recipe = TrainConfig(
        steps=STEPS,
        batch_size=8,
        optimizer="muon",
        learning_rate=point.learning_rate,
        schedule="warmup_stable_decay",
        decay_fraction=0.5,
        warmup_steps=30,
        seed=point.seed,
    )
    optimizers = build_optimizers(
        model, optimizer=recipe.optimizer, learning_rate=recipe.learning_rate
    )
    rows = []
    for step in range(STEPS + 1):
        if step & (step - 1) == 0:
            found = zip(KINDS, meter(model.eval()), meter.entropy, strict=True)
            for kind, excess, entropy in found:
                numbers = {"excess": round(float(excess), 4)}
                numbers |= {"entropy": round(float(entropy), 4)}
                rows.append(Row(**asdict(point), step=step, kind=kind, **numbers))
            print(point, step, flush=True)
        if step == STEPS:
            break
        inputs, targets = training_batch(
            corpus, batch_size=8, context_length=192, seed=point.seed, step=step
        )
        set_learning_rate(optimizers, recipe.rate_factor(step))
        train_step(
            NextTokenLoss(model), optimizers, inputs, targets, max_gradient_norm=1.0
        )
    for row in rows:  # a run is in the table as a whole, or not at all
        append(TABLE, row)


def main() -> None:
    """Make the runs that have not been made yet."""
    torch.set_num_threads(1)
    language, stored = StoryLanguage.hamlet(), load_model("hamlet")
    meter = Meter(language, stored.tokenizer)
    corpora = story_corpora(language, stored.tokenizer, n_train=4200, n_validation=2)
    points = [Point(learning_rate=8e-3, seed=seed) for seed in (1, 2, 3, 4)]
    points += [Point(learning_rate=rate, seed=1) for rate in (4e-3, 1.6e-2)]
    for point in points:
        made = {key(row, Point) for row in read(TABLE)}
        if key(asdict(point), Point) not in made:
            run(point, (stored, corpora[0]), meter)
    about = {"provenance": collect(packages=["torch", "numpy"])}
    write_results(TABLE.with_suffix(".json"), about)


if __name__ == "__main__":
    sys.exit(main())
