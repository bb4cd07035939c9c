"""A classical task from few examples: words without order, a probe, fine-tuning, prompting.

    python benchmarks/trials/classifiers.py rates seeds prompts

The texts are stories of the hamlet, with labels that the grammar knows.

Tasks       "tale": which of the three tales is told, from the first 20 tokens. Where these leave it
            open, nobody can know.
            "holder": who has the toy or the dish of a story, from at most 176 tokens, cut off after
            a sentence. The answer is the hero, the friend, or nobody if it was forgotten
            somewhere. It is the grammar's own state, and the text may say so only later. For half
            of these texts it is the hero.
Arms        "scratch" is a fresh model of the pretrained one's shape. "full" is the pretrained one
            with all weights free. "lora" is the same with rank 4 in every linear map of its blocks.
            Each has a head for three classes on the last token.
            "probe" is ridge regression on the pretrained model's last vectors. Its column
            `learning_rate` has the penalty.
            "bag" is logistic regression on how often each token occurs, without their order and
            without any model. Its column `learning_rate` has the penalty, too.
            "words" adds nothing to the model, and asks which of three words is likeliest after the
            text.
Fixed       AdamW on eight examples a step: 240 steps for "tale" and 120 for "holder".
Rates       Halved and doubled until the best is between two others: 128 examples of seed 0, by the
            errors on the same 300 texts.
Seeds       Three fresh draws of 32 and of 512 examples.
Measured    The share of errors on 300 unseen texts. `old_gap` is the loss on stories afterwards,
            with the model's old head, above the exact floor, in nats per token.
Against     Pretraining is of no use if "scratch" or "bag" is as good as "full" with the same
            examples. LoRA loses if it is worse than "full", and fine-tuning if "words" is as good.

Chapter 12 reads the table.
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
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
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from trial import Trial, learn, seeded

from decoder_only.analysis.interpretation import fit_probe
from decoder_only.model.gpt import GPT
from decoder_only.stories.exact import hidden_state
from decoder_only.variants.finetuning import Classifier, add_lora

STEPS = {"tale": 240, "holder": 120}
TASKS = tuple(STEPS)
LEARNED = {"scratch": 4e-3, "full": 1e-3, "lora": 4e-3, "probe": 1e-2, "bag": 1e-2}
WITHOUT_STEPS = "probe", "bag"
BATCH, N_TESTED = 8, 300


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    task: str
    arm: str
    examples: int = 128
    steps: int
    learning_rate: float
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured, and how many weights were trained."""

    error: float
    trained: int
    old_gap: float | None


ARMS = [
    Run(
        task=task,
        arm=arm,
        steps=STEPS[task] * (arm not in WITHOUT_STEPS),
        learning_rate=rate,
    )
    for task, (arm, rate) in product(TASKS, LEARNED.items())
]
TRIAL = Trial(
    "classifiers", Run, Found, arms=ARMS, seeds=(1, 2, 3), score="error", digits=4
)


def seeds() -> Iterator[list[Run]]:
    """Every arm at its best rate, from three fresh draws of 32 and of 512 examples."""
    for runs in TRIAL.repeat():
        yield [replace(run, examples=n) for run, n in product(runs, (32, 512))]


def prompts() -> Iterator[list[Run]]:
    """The pretrained model as it is, asked for a word."""
    untrained = {"arm": "words", "examples": 0, "steps": 0, "learning_rate": 0.0}
    yield [Run(task=task, **untrained) for task in TASKS]


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


def fitted(run: Run) -> Classifier:
    """A classifier that has learned from its examples."""
    generator = seeded(run.seed)
    model = fresh(run.seed) if run.arm == "scratch" else pretrained()
    if run.arm == "lora":
        add_lora(model, rank=4, generator=generator)
    classifier = Classifier(model, 3).train()
    texts, labels = examples(run.task, "train", run.examples, run.seed)
    order: list[int] = []

    def loss_at(step: int) -> Tensor:
        while len(order) < BATCH:
            order.extend(torch.randperm(len(texts), generator=generator).tolist())
        chosen = [order.pop(0) for _ in range(BATCH)]
        logits = classifier(*padded([texts[i] for i in chosen]))
        return cross_entropy(logits, labels[chosen])

    settings = {"steps": run.steps, "learning_rate": run.learning_rate}
    learn(classifier, loss_at, **settings, warmup=12, max_gradient_norm=1.0)
    return classifier.eval()


@torch.no_grad()
def features(model: GPT, texts: list[list[int]]) -> Tensor:
    asked = Classifier(model, 3)
    parts = range(0, len(texts), 50)
    return torch.cat([asked.features(*padded(texts[i : i + 50])) for i in parts])


def counts(texts: list[list[int]]) -> Tensor:
    """How often each token occurs in each text."""
    size = pretrained().config.vocab_size
    rows = [torch.tensor(text).bincount(minlength=size) for text in texts]
    return torch.stack(rows).double()


def by_counts(texts: list[list[int]], labels: Tensor, penalty: float) -> nn.Linear:
    """Logistic regression on counts, to its optimum."""
    known = counts(texts)
    linear = nn.Linear(known.shape[1], 3).double()
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    settings = {"max_iter": 500, "line_search_fn": "strong_wolfe"}
    optimizer = torch.optim.LBFGS(linear.parameters(), **settings)

    def loss() -> Tensor:
        optimizer.zero_grad()
        size = linear.weight.square().sum()
        found = cross_entropy(linear(known), labels) + penalty * size
        found.backward()
        return found

    optimizer.step(loss)
    return linear


@torch.no_grad()
def by_words(task: str, texts: list[list[int]]) -> Tensor:
    """Which of three words the pretrained model finds likeliest after the text."""
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


def measure(run: Run) -> Found:
    """Make one run."""
    trained, after = 0, None
    texts, labels = examples(run.task, "validation", N_TESTED, 0)
    if run.arm == "words":
        found = by_words(run.task, texts)
    elif run.arm == "probe":
        known, given = examples(run.task, "train", run.examples, run.seed)
        model = pretrained()
        probe = fit_probe(features(model, known), given, penalty=run.learning_rate)
        found = (features(model, texts) @ probe.weight + probe.offset).argmax(-1)
        trained = probe.weight.numel() + probe.offset.numel()
    elif run.arm == "bag":
        known = examples(run.task, "train", run.examples, run.seed)
        linear = by_counts(*known, run.learning_rate)
        found = linear(counts(texts)).argmax(-1)
        trained = sum(p.numel() for p in linear.parameters())
    else:
        classifier = fitted(run)
        parts = classifier.parameters()
        trained = sum(p.numel() for p in parts if p.requires_grad)
        with torch.no_grad():
            found = classifier.classes(features(classifier.model, texts)).argmax(-1)
        if run.arm != "scratch" and run.seed:
            after = old_gap(classifier.model)
    wrong = (found != labels).float().mean().item()
    return Found(error=wrong, trained=trained, old_gap=after)


if __name__ == "__main__":
    TRIAL.main(measure, rates=TRIAL.search, seeds=seeds, prompts=prompts)
