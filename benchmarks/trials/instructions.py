"""Asked for a story about somebody in which something happens: does a model obey, and what of?

    python benchmarks/trials/instructions.py rates seeds

The stored model of the hamlet learns "A story about NAME in which something is lost:" (or given, or
sown), followed by such a story, cut off behind 48 tokens: 200 steps of AdamW on eight of them. The
loss is on the answers' tokens ("answers") or on the instructions' too ("all"). "shuffled" learns
as "answers" does, but from instructions that belong to another story.

Then each of the 72 instructions is given once, and 48 tokens are drawn. The parser decides: `name`
and `tale` are the shares of answers whose hero and tale are those asked for, `reached` the share in
which any tale can be told, `told` the share that is the beginning of a story of the language to the
last character, `obeyed` all of it. `base` is the
model before it learned. `loss` is that of the answers to 60 unseen instructions, in nats per token,
and `rates` chooses by it; `old_gap` that of whole stories without an instruction, above the floor.
What would count against learning from instructions: "shuffled" as obedient. Against leaving them
out of the loss: "all" as good.

It is the second design. The first, 96 tokens and 120 steps, was obeyed in hardly a tenth of the
answers and put aside.
"""

import functools
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from random import Random

import torch
from hamlet import END, LANGUAGE, TALES, TOKENIZER, old_gap, pretrained, stories
from torch import Tensor
from trial import Table, learn

from decoder_only.generation import generate
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.stories.exact import hidden_state
from decoder_only.variants.finetuning import answer_rows

SHARES = "name", "tale", "reached", "told", "obeyed"
VERBS = {"lost": "lost", "gift": "given", "garden": "sown"}
LENGTH, STEPS, BATCH, N_TESTED = 48, 200, 8, 60
ARMS = {"answers": 1e-3, "all": 1e-3, "shuffled": 1e-3}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    arm: str
    learning_rate: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it."""

    loss: float
    name: float | None
    tale: float | None
    reached: float | None
    told: float | None
    obeyed: float | None
    old_gap: float | None
    processor_seconds: float


TABLE = Table("instructions", Point)


def arms() -> Iterator[Point]:
    for arm, rate in ARMS.items():
        yield Point(arm=arm, learning_rate=rate, seed=0)


def rates() -> Iterator[Point]:
    yield from TABLE.rates(each for each in arms() if each.arm != "shuffled")


def seeds() -> Iterator[Point]:
    own = [each for each in arms() if each.arm != "shuffled"]
    yield from TABLE.seeds(own, (1, 2, 3))
    (like,) = [each for each in arms() if each.arm == "answers"]
    rate = TABLE.at_best_rate(like).learning_rate
    for seed in (1, 2, 3):
        yield Point(arm="shuffled", learning_rate=rate, seed=seed)
        yield Point(arm="base", learning_rate=0.0, seed=seed)


EXPERIMENTS = {each.__name__: each for each in (rates, seeds)}


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


def fitted(point: Point) -> GPT:
    """The pretrained model, when it has learned to follow instructions."""
    model = pretrained()
    if point.arm == "base":
        return model
    pairs = answered("train", STEPS * BATCH, 100 + point.seed)
    if point.arm == "shuffled":
        asked = [instruction for instruction, _ in pairs]
        Random(point.seed).shuffle(asked)
        pairs = list(zip(asked, [answer for _, answer in pairs], strict=True))

    def loss_at(step: int) -> Tensor:
        some = pairs[step * BATCH : (step + 1) * BATCH]
        asked, told = map(list, zip(*some, strict=True))
        if point.arm == "all":
            told = [[*a[1:], *b] for a, b in zip(asked, told, strict=True)]
            asked = [[END]] * len(told)
        inputs, targets = answer_rows(asked, told)
        return next_token_loss(model(inputs), targets)

    settings = {"steps": STEPS, "learning_rate": point.learning_rate}
    learn(model.train(), loss_at, **settings, warmup=20, max_gradient_norm=1.0)
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
    generator = torch.Generator().manual_seed(seed)
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
    return {name: round(share, 4) for name, share in zip(SHARES, shares, strict=True)}


@torch.no_grad()
def measure(point: Point) -> Row:
    """Make one run."""
    began = time.process_time()
    with torch.enable_grad():
        model = fitted(point)
    asked, told = map(list, zip(*answered("validation", N_TESTED, 0), strict=True))
    inputs, targets = answer_rows(asked, told)
    return Row(
        **asdict(point),
        loss=round(next_token_loss(model(inputs), targets).item(), 4),
        **(obedience(model, point.seed) if point.seed else dict.fromkeys(SHARES)),
        old_gap=old_gap(model) if point.seed else None,
        processor_seconds=round(time.process_time() - began, 1),
    )


if __name__ == "__main__":
    TABLE.make(measure, EXPERIMENTS)
