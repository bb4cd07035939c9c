"""A model is asked for a story about somebody in which something happens: does it learn to obey?

    python benchmarks/trials/instructions.py rates seeds swapped shorter

The stored model of the hamlet learns "A story about NAME in which something is lost:" (or given, or
sown), followed by the first 48 tokens of such a story.

Arms        "answers": the loss is on the tokens of the answers.
            "all": the loss is on those of the instructions, too.
            "shuffled": like "answers", but each instruction belongs to another story.
            "base": the model before it learned.
            `swapped` has "answers" at the rate of "all", and "all" at that of "answers".
Fixed       200 steps of AdamW on eight pairs each.
Rates       Halved and doubled until the best is between two others, with seed 0, by `loss`.
            "shuffled" has the rate of "answers".
Seeds       Three fresh ones.
Shorter     20 steps with seed 1, of every arm that learns, at the same rates: rows that a chapter
            can make again while it is read. They are asked for their loss alone.
Measured    Each of the 72 instructions is given once, 48 tokens are drawn, and the parser judges.
            `name` and `tale` are the shares of answers whose hero and tale are those of the
            instruction; `reached` is the share in which the tale can be told; `told` the share
            whose text is, to the last character, the beginning of a story; `obeyed` is the share
            with all of it. `loss` is that of the answers to 60 unseen instructions, in nats per
            token. `old_gap` is that of whole stories without an instruction, above the exact floor.
Against     Nothing is learned from instructions if "shuffled" is as obedient. Leaving them out of
            the loss is of no use if "all" is as good.

This is the second design. In the first, with 96 tokens and 120 steps, hardly a tenth of the answers
obeyed, and it was put aside. Chapter 12 reads the table.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

import torch
from hamlet import END, LANGUAGE, TALES, TOKENIZER, old_gap, pretrained, stories
from torch import Tensor
from trial import Trial, learn, seeded

from decoder_only.generation import generate
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.stories.exact import hidden_state
from decoder_only.variants.finetuning import answer_rows

SHARES = "name", "tale", "reached", "told", "obeyed"
VERBS = {"lost": "lost", "gift": "given", "garden": "sown"}
OTHER_RATE, SHORTER = ", the other's rate", ", 20 steps"
LENGTH, STEPS, BATCH, N_TESTED = 48, 200, 8, 60


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    arm: str
    learning_rate: float
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured. The runs that choose a rate are only asked for their loss."""

    loss: float
    name: float | None
    tale: float | None
    reached: float | None
    told: float | None
    obeyed: float | None
    old_gap: float | None


ARMS = [Run(arm="answers", learning_rate=1e-3), Run(arm="all", learning_rate=1e-3)]
TRIAL = Trial("instructions", Run, Found, arms=ARMS, seeds=(1, 2, 3), digits=4)


def seeds() -> Iterator[list[Run]]:
    """Both arms at their best rates, "shuffled" and "base", from three fresh seeds."""
    yield from TRIAL.repeat()
    rate = TRIAL.best(ARMS[0]).learning_rate
    for seed in TRIAL.seeds:
        shuffled = Run(arm="shuffled", learning_rate=rate, seed=seed)
        yield [shuffled, Run(arm="base", learning_rate=0.0, seed=seed)]


def swapped() -> Iterator[list[Run]]:
    """Each arm at the best rate of the other, from the same seeds."""
    answers, both = (TRIAL.best(arm) for arm in ARMS)
    for seed in TRIAL.seeds:
        rates = {"answers": both.learning_rate, "all": answers.learning_rate}
        yield [
            Run(arm=arm + OTHER_RATE, learning_rate=rate, seed=seed)
            for arm, rate in rates.items()
        ]


def shorter() -> Iterator[list[Run]]:
    """A tenth of the steps, for every arm that learns."""
    runs = [
        run for experiment in (seeds, swapped) for some in experiment() for run in some
    ]
    first = [run for run in runs if run.seed == TRIAL.seeds[0] and run.arm != "base"]
    yield [replace(run, arm=run.arm + SHORTER) for run in first]


def instruction(name: str, tale: str) -> list[int]:
    told = f"A story about {name} in which something is {VERBS[tale]}:\n"
    return [END, *TOKENIZER.encode(told)]


def asked_for(story: str) -> list[int]:
    """The instruction that a story follows."""
    tale = next(
        name for name, each in TALES.items() if each.log_prob(story) > -math.inf
    )
    return instruction(hidden_state(LANGUAGE, story)[-1]["hero"], tale)


@functools.cache
def answered(split: str, n: int, seed: int) -> list[tuple[list[int], list[int]]]:
    """Instructions, each with the beginning of a story that follows it."""
    told = stories(split, n, seed=seed)
    return [(asked_for(text), TOKENIZER.encode(text)[:LENGTH]) for text in told]


def fitted(run: Run) -> GPT:
    """The pretrained model, when it has learned to follow instructions."""
    model = pretrained()
    if run.arm == "base":
        return model
    arm, steps = run.arm.removesuffix(SHORTER), STEPS
    if arm != run.arm:
        steps = STEPS // 10
    pairs = answered("train", steps * BATCH, 100 + run.seed)
    if arm == "shuffled":
        asked = [instruction for instruction, _ in pairs]
        Random(run.seed).shuffle(asked)
        pairs = list(zip(asked, [answer for _, answer in pairs], strict=True))

    def loss_at(step: int) -> Tensor:
        some = pairs[step * BATCH : (step + 1) * BATCH]
        asked, told = map(list, zip(*some, strict=True))
        if arm.removesuffix(OTHER_RATE) == "all":
            told = [[*a[1:], *b] for a, b in zip(asked, told, strict=True)]
            asked = [[END]] * len(told)
        inputs, targets = answer_rows(asked, told)
        return next_token_loss(model(inputs), targets)

    settings = {"steps": steps, "learning_rate": run.learning_rate}
    learn(model.train(), loss_at, **settings, warmup=steps // 10, max_gradient_norm=1.0)
    return model.eval()


def judged(name: str, tale: str, text: str) -> tuple[bool, bool, bool, bool]:
    """Whether a beginning is about the name, of the tale, of any, and told by the language."""
    far = {each: language.explain(text).at for each, language in TALES.items()}
    people = {person: text.find(person) for person in LANGUAGE.characters}
    heroes = {person: at for person, at in people.items() if at >= 0}
    about = bool(heroes) and min(heroes, key=heroes.get) == name
    own = far.pop(tale)
    others = max(far.values())
    reached = own > others or list(far.values()).count(others) == 1
    return about, own > others, reached, max(own, others) == len(text)


def obedience(model: GPT, seed: int) -> dict[str, float]:
    """Shares of the 72 instructions."""
    generator = seeded(seed)
    asked = [(name, tale) for name in LANGUAGE.characters for tale in TALES]
    prompts = [torch.tensor(instruction(*each)) for each in asked]
    settings = {"max_new_tokens": LENGTH, "stop_id": END, "generator": generator}
    rows = generate(model, prompts, **settings)
    verdicts = []
    for each, prompt, row in zip(asked, prompts, rows, strict=True):
        ids = row[len(prompt) :].tolist()
        ids = ids[: ids.index(END)] if END in ids else ids
        verdicts.append(judged(*each, TOKENIZER.decode(ids)))
    found = torch.tensor(verdicts)
    shares = [*found.float().mean(0).tolist(), found.all(1).float().mean().item()]
    return dict(zip(SHARES, shares, strict=True))


def measure(run: Run) -> Found:
    """Make one run."""
    model, is_whole = fitted(run), run.seed and not run.arm.endswith(SHORTER)
    asked, told = map(list, zip(*answered("validation", N_TESTED, 0), strict=True))
    inputs, targets = answer_rows(asked, told)
    with torch.no_grad():
        return Found(
            loss=next_token_loss(model(inputs), targets).item(),
            **(obedience(model, run.seed) if is_whole else dict.fromkeys(SHARES)),
            old_gap=old_gap(model) if is_whole else None,
        )


if __name__ == "__main__":
    experiments = {"rates": TRIAL.search, "seeds": seeds, "swapped": swapped}
    TRIAL.main(measure, **experiments, shorter=shorter)
