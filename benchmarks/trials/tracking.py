"""Does a model carry a word of its story along, or look it up where it is needed?

    python benchmarks/trials/tracking.py probes controls

A linear probe reads a word of the story, the hero or the crop, off the residual stream after each
block. Stories of one tale are told, and each is read at up to ten places where the word is not near
("on the way") and at up to ten where it is said next ("asked").

Arms        "trained"; "untrained", a model of the same shape; "shuffled", the trained one with
            labels exchanged between stories; "planted", the trained one with a code of one
            per cent of the stream's variance for each label added, which a probe should find.
            For the small model's hero also three more models of its shape from other seeds
            ("untrained 1", ...), and the first one with nothing added by its attention ("no
            attention"), which cannot mix what was said into a place.
Fixed       Penalty of the ridge regression 0.01. Four fifths of the stories fit it.
Seeds       Five splits by story.
Measured    Accuracy on the other stories.
Against     "Nothing is carried along" fails if the trained model is above the untrained one on the
            way, by more than the spread of splits; it says nothing if the planted code is missed.
            "Untrained attention mixes the hero in" fails if the model without it gains as much from
            its embedding to its last block.

Chapter 14 reads the table.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from random import Random

import torch
from torch import Tensor, nn
from trial import Trial, seeded

from decoder_only.analysis.interpretation import fit_probe, streams
from decoder_only.model.gpt import GPT
from decoder_only.stories import StoryLanguage, exact
from decoder_only_book.stored import load_model

MOST, TALES = 10, {"hero": "lost", "crop": "garden"}
STORIES = {"small": 800, "large": 240}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    arm: str
    size: str
    role: str
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """The accuracy of a probe after a block, at places of a sort."""

    asked: int
    layer: int
    accuracy: float
    labels: int
    places: int


TRIAL = Trial("tracking", Run, Found, score="accuracy", digits=4)


def probes() -> Iterator[list[Run]]:
    """All arms of three cases, with five splits."""
    for size, role in (("small", "hero"), ("small", "crop"), ("large", "crop")):
        for arm in ("trained", "shuffled", "planted", "untrained"):
            yield [Run(arm=arm, size=size, role=role, seed=s) for s in range(1, 6)]


def controls() -> Iterator[list[Run]]:
    """More untrained models for the small model's hero, and one without attention."""
    for arm in ("untrained 1", "untrained 2", "untrained 3", "no attention"):
        yield [Run(arm=arm, size="small", role="hero", seed=s) for s in range(1, 6)]


@functools.lru_cache(maxsize=1)
def told(size: str, role: str) -> tuple[list, list]:
    """Stories as ids, and for each sort of place (story, place, label)."""
    language = StoryLanguage.hamlet() if size == "small" else StoryLanguage()
    part = StoryLanguage(**language.arguments | {"tales": (TALES[role],)})
    run = load_model("hamlet" if size == "small" else "full")
    bar, rng = run.tokenizer.special_tokens["<|endoftext|>"], Random(0)
    texts, found = [], {True: [], False: []}
    for number, text in enumerate(
        islice(part.stories(split="validation"), STORIES[size])
    ):
        ids = run.tokenizer.encode(text)
        texts.append(torch.tensor([[bar, *ids]]))
        states = exact.hidden_state(part, text)
        ends = [end for _, end in exact.spans(run.tokenizer, ids)]
        here: dict[bool, list] = {True: [], False: []}
        for place, (now, then) in enumerate(pairwise(ends), start=1):
            if not (word := states[now - 1].get(role)):
                continue
            if word in text[now : now + len(word) + 2]:
                here[True].append((number, place, word))
            elif word not in text[max(now - len(word) - 20, 0) : then + 8]:
                here[False].append((number, place, word))
        for asked, places in here.items():
            found[asked] += rng.sample(places, min(MOST, len(places)))
    return texts, [found[False], found[True]]


@functools.lru_cache(maxsize=1)
def vectors(size: str, role: str, untrained: str | None) -> list[Tensor]:
    """The streams at both sorts of places, (l, n, d) each; of an untrained arm, if it is named."""
    model = load_model("hamlet" if size == "small" else "full").model
    if untrained:
        config = replace(model.config, initialization="gpt2")
        number = untrained.removeprefix("untrained")
        seed = int(number) if number.strip().isdigit() else 0
        model = GPT(config, generator=seeded(seed)).eval()
    if untrained == "no attention":
        for block in model.blocks:
            nn.init.zeros_(block.attention.output.weight)
    texts, sorts = told(size, role)
    read = [streams(model, ids)[:, 0] for ids in texts]
    return [
        torch.stack([read[story][:, place] for story, place, _ in sort], dim=1)
        for sort in sorts
    ]


def measure(run: Run) -> Iterator[Found]:
    """One split, at both sorts of places and after each block."""
    texts, sorts = told(run.size, run.role)
    order = torch.randperm(len(texts), generator=seeded(run.seed))
    fits = set(order[: len(texts) * 4 // 5].tolist())
    arm = None if run.arm in ("trained", "shuffled", "planted") else run.arm
    for asked, x in enumerate(vectors(run.size, run.role, arm)):
        words = sorted({word for *_, word in sorts[asked]})
        stories = torch.tensor([story for story, *_ in sorts[asked]])
        y = torch.tensor([words.index(word) for *_, word in sorts[asked]])
        known = torch.tensor([story in fits for story in stories.tolist()])
        if run.arm == "shuffled":  # a story keeps one label, but another's
            of_story = torch.zeros(len(texts), dtype=torch.long)
            of_story[stories] = y
            present = stories.unique()
            mixed = present[torch.randperm(len(present), generator=seeded(run.seed))]
            of_story[present] = of_story[mixed]
            y = torch.where(known, of_story[stories], y)
        for layer, each in enumerate(x):
            if run.arm == "planted":
                code = torch.randn(len(words), each.shape[1], generator=seeded(99))
                each = each + 0.1 * each.var(0).mean().sqrt() * code[y]
            probe = fit_probe(each[known], y[known], penalty=1e-2)
            yield Found(
                asked=asked,
                layer=layer,
                accuracy=probe.accuracy(each[~known], y[~known]),
                labels=len(words),
                places=len(y),
            )


if __name__ == "__main__":
    TRIAL.main(measure, probes=probes, controls=controls)
