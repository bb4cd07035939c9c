"""A classical task from few examples: from scratch, a probe, full fine-tuning, LoRA, prompting.

    python benchmarks/trials/classifiers.py rates seeds prompts

Two labels that the grammar knows, of stories of the hamlet. "tale": which of the three tales is
told, from the first 20 tokens; where they leave it open, nobody can know. "holder": with whom the
toy or the dish of a story is (the hero, the friend, or nobody: it lies where it was forgotten), in
a text of at most 176 tokens, cut off behind a sentence; the text always tells. Half of these texts
are answered by the hero.

"scratch" is a fresh model of the pretrained one's shape, "full" the pretrained one with all its
weights free, "lora" the same with rank 4 in every linear map of its blocks: each with a head for
three classes on the last token, 240 steps of AdamW for "tale" and 120 for "holder", on eight
examples each. "probe" is ridge regression on the pretrained model's last vectors; its column
`learning_rate` holds the penalty. "words" adds nothing to the model: it asks which of three words
is likeliest behind the text.

Measured is the share of errors on 300 unseen texts; `old_gap` is the loss on stories afterwards,
above the floor, in nats per token, by the model's old head. `rates` chooses with 128 examples of
one seed, on the same 300 texts; `seeds` makes three fresh draws of 32 and 512.
What would count against pretraining: "scratch" as good as "full" from the same examples. Against
LoRA: worse than "full". Against fine-tuning at all: "words" as good.
"""

import functools
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from random import Random

import torch
from hamlet import (
    END,
    LANGUAGE,
    TALES,
    TOKENIZER,
    fresh,
    old_gap,
    padded,
    pretrained,
    stories,
)
from torch import Tensor
from torch.nn.functional import cross_entropy
from trial import Table, learn

from decoder_only.analysis.interpretation import fit_probe
from decoder_only.model.gpt import GPT
from decoder_only.stories.exact import hidden_state
from decoder_only.variants.finetuning import Classifier, add_lora

TASKS = "tale", "holder"
LEARNED = {"scratch": 4e-3, "full": 1e-3, "lora": 4e-3, "probe": 1e-2}
COUNTS = 32, 512
STEPS = {"tale": 240, "holder": 120}
BATCH, N_TESTED = 8, 300


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    task: str
    arm: str
    examples: int
    steps: int
    learning_rate: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it."""

    error: float
    trained: int
    old_gap: float | None
    processor_seconds: float


TABLE = Table("classifiers", Point, score="error")


def arms(names: tuple[str, ...] = tuple(LEARNED)) -> Iterator[Point]:
    for task in TASKS:
        for name in names:
            rate = LEARNED[name]
            steps = STEPS[task] if name != "probe" else 0
            point = {"task": task, "arm": name, "examples": 128, "steps": steps}
            yield Point(**point, learning_rate=rate, seed=0)


def rates() -> Iterator[Point]:
    yield from TABLE.rates(arms())


def seeds() -> Iterator[Point]:
    for point in TABLE.seeds(list(arms()), (1, 2, 3)):
        for n in COUNTS:
            yield replace(point, examples=n)


def prompts() -> Iterator[Point]:
    untrained = {"examples": 0, "steps": 0, "learning_rate": 0.0}
    for task in TASKS:
        yield Point(task=task, arm="words", **untrained, seed=0)


EXPERIMENTS = {each.__name__: each for each in (rates, seeds, prompts)}


# ------------------------------------------------------------------------------- the examples


def tale_of(story: str) -> int:
    """Which tale a story tells, by the parser."""
    return [tale.log_prob(story) > -1e9 for tale in TALES.values()].index(True)


def holder(state: dict[str, str]) -> int | None:
    """0 for the hero, 1 for the friend, 2 for nobody, None where there is nothing to hold."""
    who = state.get("toy.holder") or state.get("dish.holder")
    return who and (0 if who == state["hero"] else 2 if who == state.get("nook") else 1)


def cut(story: str, rng: Random) -> tuple[str, int] | None:
    """A beginning of a story that ends with a sentence, and who holds the thing by then."""
    states, found = hidden_state(LANGUAGE, story), {}
    for sentence in re.finditer(r'[.!?]"?(?= )', story):
        end = sentence.end()
        who = holder(states[end])
        if who is not None and len(TOKENIZER.encode(story[:end])) < 176:
            found.setdefault(who, []).append(end)
    if not found:
        return None
    who = rng.choice(sorted(found))
    return story[: rng.choice(found[who])], who


@functools.cache
def examples(
    task: str, split: str, n: int, seed: int
) -> tuple[list[list[int]], Tensor]:
    """Texts as ids, and their labels."""
    rng, texts, labels = Random(seed), [], []
    for story in stories(split, 3 * n + 50, seed=1000 + seed):
        ids = [END, *TOKENIZER.encode(story)]
        if task == "tale":
            found = ids[:21], tale_of(story)
        elif found := cut(story, rng):
            found = [END, *TOKENIZER.encode(found[0])], found[1]
        if found:
            texts.append(found[0])
            labels.append(found[1])
    return texts[:n], torch.tensor(labels[:n])


# -------------------------------------------------------------------------------- the arms


def fitted(point: Point) -> Classifier:
    """A classifier that has learned from its examples."""
    generator = torch.Generator().manual_seed(point.seed)
    model = fresh(point.seed) if point.arm == "scratch" else pretrained()
    if point.arm == "lora":
        add_lora(model, rank=4, generator=generator)
    classifier = Classifier(model, 3).train()
    texts, labels = examples(point.task, "train", point.examples, point.seed)
    order: list[int] = []

    def loss_at(step: int) -> Tensor:
        while len(order) < BATCH:
            order.extend(torch.randperm(len(texts), generator=generator).tolist())
        chosen = [order.pop(0) for _ in range(BATCH)]
        logits = classifier(*padded([texts[i] for i in chosen]))
        return cross_entropy(logits, labels[chosen])

    settings = {"steps": point.steps, "learning_rate": point.learning_rate}
    learn(classifier, loss_at, **settings, warmup=12, max_gradient_norm=1.0)
    return classifier.eval()


@torch.no_grad()
def features(model: GPT, texts: list[list[int]]) -> Tensor:
    asked = Classifier(model, 3)
    parts = range(0, len(texts), 50)
    return torch.cat([asked.features(*padded(texts[i : i + 50])) for i in parts])


def errors(answers: Tensor, labels: Tensor) -> float:
    return round((answers != labels).float().mean().item(), 4)


@torch.no_grad()
def by_words(task: str, texts: list[list[int]]) -> Tensor:
    """Which of three words the pretrained model finds likeliest behind the text."""
    model, answers = pretrained(), []
    told = stories("validation", 3 * N_TESTED + 50, seed=1000)
    for ids in texts:
        text = TOKENIZER.decode(ids[1:])
        words = list(TALES)
        if task == "holder":
            story = next(story for story in told if story.startswith(text))
            hero = hidden_state(LANGUAGE, story)[-1]["hero"]
            words = [hero, LANGUAGE.facts(hero)["friend"], "Nobody"]
            ids = [END, *TOKENIZER.encode(text + " Who has it?")]
        rows = [ids + TOKENIZER.encode(f" {word}") for word in words]
        said = model(padded(rows)[0]).log_softmax(-1)
        scores = [
            sum(said[i, at - 1, row[at]].item() for at in range(len(ids), len(row)))
            for i, row in enumerate(rows)
        ]
        answers.append(scores.index(max(scores)))
    return torch.tensor(answers)


def measure(point: Point) -> Row:
    """Make one run."""
    began, trained, after = time.process_time(), 0, None
    texts, labels = examples(point.task, "validation", N_TESTED, 0)
    if point.arm == "words":
        found = by_words(point.task, texts)
    elif point.arm == "probe":
        known, given = examples(point.task, "train", point.examples, point.seed)
        model = pretrained()
        probe = fit_probe(features(model, known), given, penalty=point.learning_rate)
        found = (features(model, texts) @ probe.weight + probe.offset).argmax(-1)
        trained = probe.weight.numel() + probe.offset.numel()
    else:
        classifier = fitted(point)
        parts = classifier.parameters()
        trained = sum(p.numel() for p in parts if p.requires_grad)
        with torch.no_grad():
            found = classifier.classes(features(classifier.model, texts)).argmax(-1)
        if point.arm != "scratch" and point.seed:
            after = old_gap(classifier.model)
    return Row(
        **asdict(point),
        error=errors(found, labels),
        trained=trained,
        old_gap=after,
        processor_seconds=round(time.process_time() - began, 1),
    )


if __name__ == "__main__":
    TABLE.make(measure, EXPERIMENTS)
