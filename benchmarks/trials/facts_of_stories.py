"""How often does a stored model get a fact of its language wrong, and how often had it read it?

    python benchmarks/trials/facts_of_stories.py

Held-out stories lead a model to every place where a fact about a person is told. The facts are the
nine of `StoryLanguage.facts`, of which pet and home are told in two parts.

Arms        The two stored models.
Measured    A row is one telling of a fact. `wrong` is the probability that the model leaves the
            language at a token that touches the words of the fact. Beside it are how often the
            training stories tell the same fact (`told`), and any fact of the same person
            (`of_person`), and how often the rows of the training showed it (`read`). A row begins
            at a story drawn at random and goes on into the next ones. The draws can be made again,
            and so this can be counted. `single` is the share of the training's tellings that are of
            facts told once. Good and Turing estimate with it what is still missing.
Against     Expected beforehand: what the training stories never tell is far less than what is told
            wrongly; and a fact that was told less than a hundred times is wrong at least twice as
            often as one that was told more.

A first version counted whatever `exact.facts_told` gives, also what holds of things and days, and
took all facts of a pet for one. A second one kept neither whose fact it was nor what was read.
Chapter 15 reads the table.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch
from jaxtyping import Int
from trial import Trial

from decoder_only.data import Corpus, document_corpus, training_batch
from decoder_only.model.gpt import GPT
from decoder_only.stories import StoryLanguage
from decoder_only.stories.exact import NextToken, Told, facts_told, probabilities, spans
from decoder_only.tokenization.tokenizer import END_OF_TEXT
from decoder_only.training.checkpoint import SavedRun
from decoder_only_book.stored import load_model

N_STORIES = 240
FACTS = {"friend", "pet", "pet.kind", "food", "toy", "haunt"}
FACTS |= {"home", "street", "fear", "hobby", "habit"}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart: a stored model, and the steps that it was trained for."""

    model: str
    step: int


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured of a telling of a fact in a held-out story.

    Attributes:
        story: number of the story.
        whose: the person.
        which: the fact.
        told: how often the training stories tell it.
        read: how often a row of the training showed it being told.
        of_person: how often the training stories tell facts of the same person.
        wrong: the probability that the model leaves the language at the words of the fact.
        certain: what the language itself gives to these words; below 1, others could follow, too.
        single: share of the training's tellings that are of facts told once.
    """

    story: int
    whose: str
    which: str
    told: int
    read: int
    of_person: int
    wrong: float
    certain: float
    single: float


TRIAL = Trial("facts_of_stories", Run, Found, score="wrong", digits=6)


def trained() -> Iterator[list[Run]]:
    """Both stored models."""
    yield [Run(model=name, step=load_model(name).step) for name in ("hamlet", "full")]


def people_told(language: StoryLanguage, text: str) -> list[Told]:
    """The facts about people that a story tells."""
    people = {*language.characters}
    return [
        x for x in facts_told(language, text) if x.whose in people and x.which in FACTS
    ]


def sights(corpus: Corpus, training: dict, context_length: int) -> Int[np.ndarray, "_"]:
    """How often each token of a corpus was a target of a training."""
    places = replace(corpus, ids=np.arange(len(corpus.ids)))
    shown = np.zeros(len(corpus.ids), dtype=np.int64)
    rows = {"batch_size": training["batch_size"], "seed": training["seed"]}
    for step in range(training["steps"]):
        _, asked = training_batch(
            places, context_length=context_length, step=step, **rows
        )
        np.add.at(shown, asked.numpy().ravel(), 1)
    return shown


def told_and_read(saved: SavedRun, language: StoryLanguage) -> tuple[Counter, Counter]:
    """How often the training stories tell each fact, and how often it was read."""
    n_train = saved.config["data"]["n_train"]
    texts = list(islice(language.stories(split="train", seed=0), n_train))
    corpus = document_corpus(texts, saved.tokenizer)
    assert corpus.fingerprint == saved.config["data"]["fingerprints"]["train"]
    length = saved.config["model"]["context_length"]
    shown = sights(corpus, saved.config["training"], length)
    vocabulary = range(saved.tokenizer.vocab_size)
    sizes = np.array([len(saved.tokenizer.token_bytes(id)) for id in vocabulary])
    told, read = Counter(), Counter()
    ends = [*corpus.starts[1:], corpus.n_targets]
    for text, start, end in zip(texts, corpus.starts, ends, strict=True):
        ends_at = sizes[corpus.ids[start + 1 : end]].cumsum()
        for fact in people_told(language, text):
            name = fact.whose, fact.which
            told[name] += 1
            read[name] += int(shown[start + 1 + ends_at.searchsorted(fact.end)])
    return told, read


@torch.no_grad()
def chances(model: GPT, truth: NextToken, text: str) -> list[tuple[float, float]]:
    """Of each fact of a story: that the model leaves the language there, and that the language
    itself says these words."""
    tokenizer = truth.tokenizer
    ids = tokenizer.encode(text)
    start = tokenizer.special_tokens[END_OF_TEXT]
    q = model(torch.tensor([[start, *ids]]))[0].double().softmax(-1)
    trees = [probabilities(tree) for tree in truth.along(text)]
    found, cuts = [], spans(tokenizer, ids)
    for fact in people_told(truth.language, text):
        stays = certain = 1.0
        for i, (first, end) in enumerate(cuts):
            if first < fact.end and end > fact.start:
                stays *= q[i, [*trees[i]]].sum().item()
                certain *= trees[i][ids[i]]
        found.append((1 - stays, certain))
    return found


def measure(run: Run) -> Iterator[Found]:
    """Ask one model."""
    saved, language = load_model(run.model), StoryLanguage.named(run.model)
    truth = NextToken(language, saved.tokenizer)
    told, read = told_and_read(saved, language)
    of_person: Counter = Counter()
    for (whose, _), n in told.items():
        of_person[whose] += n
    single = sum(n == 1 for n in told.values()) / told.total()
    stories = islice(language.stories(split="validation", seed=2), N_STORIES)
    for i, text in enumerate(stories):
        both = chances(saved.model, truth, text)
        facts = people_told(language, text)
        for fact, (wrong, certain) in zip(facts, both, strict=True):
            yield Found(
                story=i,
                whose=fact.whose,
                which=fact.which,
                told=told[fact.whose, fact.which],
                read=read[fact.whose, fact.which],
                of_person=of_person[fact.whose],
                wrong=wrong,
                certain=certain,
                single=single,
            )


if __name__ == "__main__":
    TRIAL.main(measure, trained=trained)
