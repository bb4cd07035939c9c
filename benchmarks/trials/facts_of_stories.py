"""How often does a stored model get a fact of its language wrong, and how often had it read it?

    python benchmarks/trials/facts_of_stories.py

Held-out stories lead the model to every place where a fact about a person is told, the nine of
`StoryLanguage.facts`, of which pet and home are told in two parts. There the probability is taken
that it leaves the language at a token that touches the words of the fact. It stands beside how
often the training stories tell the same fact, and how often any fact of the same person. (They
were drawn at random, so that some were read twice and others not at all.) "single" is the share of
the training's tellings that are of facts told once, the estimate of Good and Turing of what is
still missing. Chapter 15 reads the table. Expected beforehand: what the training stories never
tell is far less than what is told wrongly; and a fact that was told less than a hundred times is
wrong at least twice as often as one that was told more.

A first run counted whatever `exact.facts_told` gives, also what holds of things and days, and took
all facts of a pet for one.
"""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice

import torch
from trial import Table

from decoder_only.data import END_OF_TEXT
from decoder_only.model import GPT
from decoder_only.stored import load_model
from decoder_only.stories import StoryLanguage
from decoder_only.stories.exact import NextToken, Told, facts_told, probabilities, spans

N_STORIES = 240
FACTS = {"friend", "pet", "pet.kind", "food", "toy", "haunt"}
FACTS |= {"home", "street", "fear", "hobby", "habit"}


@dataclass(frozen=True, kw_only=True)
class Point:
    """A stored model."""

    model: str
    step: int


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A fact that a held-out story tells: how often the training stories told it, and facts of the
    same person; and the probability that it is told wrongly."""

    story: int
    told: int
    of_person: int
    wrong: float
    single: float
    processor_seconds: float


TABLE = Table("facts_of_stories", Point, score="wrong")


def trained() -> Iterator[Point]:
    for name in ("hamlet", "full"):
        yield Point(model=name, step=load_model(name).step)


def people_told(language: StoryLanguage, text: str) -> list[Told]:
    """The facts about people that a story tells."""
    people = {*language.characters}
    return [
        x for x in facts_told(language, text) if x.whose in people and x.which in FACTS
    ]


@torch.no_grad()
def chances_of_wrong(model: GPT, truth: NextToken, text: str) -> list[float]:
    """For each fact of a story, the probability to leave the language where it is told."""
    tokenizer = truth.tokenizer
    ids = tokenizer.encode(text)
    start = tokenizer.special_tokens[END_OF_TEXT]
    q = model(torch.tensor([[start, *ids]]))[0].double().softmax(-1)
    leaves = [
        1 - row[[*probabilities(tree)]].sum().item()
        for row, tree in zip(q, truth.along(text), strict=True)
    ]
    cuts = spans(tokenizer, ids)
    found = []
    for fact in people_told(truth.language, text):
        right = 1.0
        for leave, (first, end) in zip(leaves[:-1], cuts, strict=True):
            if first < fact.end and end > fact.start:
                right *= 1 - leave
        found.append(1 - right)
    return found


def measure(point: Point) -> Iterator[Row]:
    began = time.process_time()
    saved, language = load_model(point.model), StoryLanguage.named(point.model)
    truth = NextToken(language, saved.tokenizer)
    told: Counter = Counter()
    n_train = saved.config["data"]["n_train"]
    for text in islice(language.stories(split="train", seed=0), n_train):
        told.update((x.whose, x.which) for x in people_told(language, text))
    of_person: Counter = Counter()
    for (whose, _), n in told.items():
        of_person[whose] += n
    single = sum(n == 1 for n in told.values()) / told.total()
    heard = islice(language.stories(split="validation", seed=2), N_STORIES)
    for i, text in enumerate(heard):
        wrong = chances_of_wrong(saved.model, truth, text)
        for fact, chance in zip(people_told(language, text), wrong, strict=True):
            yield Row(
                **asdict(point),
                story=i,
                told=told[fact.whose, fact.which],
                of_person=of_person[fact.whose],
                wrong=round(chance, 6),
                single=round(single, 6),
                processor_seconds=round(time.process_time() - began, 1),
            )
            began = time.process_time()


if __name__ == "__main__":
    TABLE.make(measure, {"trained": trained})
