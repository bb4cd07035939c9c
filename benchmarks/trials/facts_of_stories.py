"""How often does a stored model get a fact of its language wrong, and how often had it read it?

    python benchmarks/trials/facts_of_stories.py

Held-out stories lead the model to every place where a fact is told (`exact.facts_told`). There the
probability is taken, exactly, that it leaves the language within the words that tell the fact. It
stands beside how often the training stories told the same fact: a fact is somebody's food, friend,
street and so on, or what a thing is used for. "missing" is the mass of facts that the training
stories never tell, in the same held-out stories; "single" is the share of the training's tellings
that are of facts told once, the estimate of Good and Turing. Chapter 15 reads the table. Expected
beforehand: the missing mass is far below what is told wrongly, since the stories tell nearly
every fact; a fact that was told less than a hundred times is wrong at least twice as often as one
that was told more.
"""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice

import torch
from trial import Table

from decoder_only.data import END_OF_TEXT
from decoder_only.stored import load_model
from decoder_only.stories import StoryLanguage, exact

N_STORIES = 240
BINS = (0, 1, 10, 100, 1_000)  # times told, from


@dataclass(frozen=True, kw_only=True)
class Point:
    """A stored model."""

    model: str
    step: int


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """The facts of one story that the training stories told `told` times or more, up to the next
    of `BINS`: how many, and how many of them are told wrongly in expectation."""

    story: int
    told: int
    facts: int
    wrong: float
    missing: float
    single: float
    processor_seconds: float


TABLE = Table("facts_of_stories", Point, score="wrong")


def trained() -> Iterator[Point]:
    for name in ("hamlet", "full"):
        yield Point(model=name, step=load_model(name).step)


def times_told(language: StoryLanguage, stories: Iterator[str]) -> Counter:
    told: Counter = Counter()
    for text in stories:
        told.update((x.whose, x.which) for x in exact.facts_told(language, text))
    return told


@torch.no_grad()
def chances_of_wrong(model, truth: exact.NextToken, text: str) -> list[float]:
    """For each fact of a story, the probability to leave the language where it is told."""
    tokenizer = truth.tokenizer
    ids = tokenizer.encode(text)
    start = tokenizer.special_tokens[END_OF_TEXT]
    q = model(torch.tensor([[start, *ids]]))[0].softmax(-1)
    trees = islice(truth.along(text), len(ids))
    stays = [
        row[[*exact.probabilities(tree)]].sum().item()
        for row, tree in zip(q, trees, strict=False)
    ]
    cuts = exact.spans(tokenizer, ids)
    found = []
    for fact in exact.facts_told(truth.language, text):
        right = 1.0
        for stay, (first, end) in zip(stays, cuts, strict=True):
            if first < fact.end and end > fact.start:
                right *= min(stay, 1.0)
        found.append(1 - right)
    return found


def measure(point: Point) -> Iterator[Row]:
    began = time.process_time()
    saved = load_model(point.model)
    language = StoryLanguage.named(point.model)
    truth = exact.NextToken(language, saved.tokenizer)
    n_train = saved.config["data"]["n_train"]
    read = islice(language.stories(split="train", seed=0), n_train)
    told = times_told(language, read)
    single = sum(n == 1 for n in told.values()) / told.total()
    heard = list(islice(language.stories(split="validation", seed=2), N_STORIES))
    facts = [exact.facts_told(language, text) for text in heard]
    counts = [[told[x.whose, x.which] for x in each] for each in facts]
    missing = sum(n == 0 for each in counts for n in each) / sum(map(len, counts))
    for i, (text, each) in enumerate(zip(heard, counts, strict=True)):
        wrong = chances_of_wrong(saved.model, truth, text)
        for low in BINS:
            own = [x for x, n in zip(wrong, each, strict=True) if low == bin_of(n)]
            if own:
                yield Row(
                    **asdict(point),
                    story=i,
                    told=low,
                    facts=len(own),
                    wrong=round(sum(own), 6),
                    missing=round(missing, 6),
                    single=round(single, 6),
                    processor_seconds=round(time.process_time() - began, 1),
                )
                began = time.process_time()


def bin_of(n: int) -> int:
    return max(low for low in BINS if n >= low)


if __name__ == "__main__":
    TABLE.make(measure, {"trained": trained})
