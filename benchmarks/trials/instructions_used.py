"""How many nats is an instruction worth to a model that learned to follow it, and which part of it?

    python benchmarks/trials/instructions_used.py

The model that learned from "answers" in the trial `instructions`, at its best rate, reads the first
48 tokens of 60 unseen stories, each after an instruction.

Arms        "right": the instruction that the story follows. "another tale" and "the third tale":
            one of the other two tales is asked for. "another hero": the hero of the next story is.
            "none": the model before it learned, without an instruction.
Fixed       The stories, and the trained model.
Seed        One of the training, 1.
Measured    The nats of each story's 48 tokens, in a row each.
Against     The tale is not used if it costs nothing to ask for another one.

Chapter 12 reads the table.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import instructions
import torch
from hamlet import END, LANGUAGE, TALES, pretrained, stories
from trial import Trial

from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.stories.exact import hidden_state
from decoder_only.variants.finetuning import answer_rows


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    arm: str
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured, of each story."""

    story: int
    nats: float


TRIAL = Trial("instructions_used", Run, Found, score="nats", digits=4)
SHIFTS = {"right": 0, "another tale": 1, "the third tale": 2}


def arms() -> Iterator[list[Run]]:
    """Every way to ask."""
    yield [Run(arm=arm) for arm in (*SHIFTS, "another hero", "none")]


@functools.cache
def learned(seed: int) -> GPT:
    """The model that learned to follow instructions."""
    rate = instructions.TRIAL.best(instructions.ARMS[0]).learning_rate
    return instructions.fitted(
        instructions.Run(arm="answers", learning_rate=rate, seed=seed)
    )


def asked(arm: str) -> list[list[int]]:
    """What comes before each story."""
    told = stories("validation", instructions.N_TESTED, seed=0)
    if arm == "none":
        return [[END]] * len(told)
    heroes = [hidden_state(LANGUAGE, story)[-1]["hero"] for story in told]
    if arm == "another hero":
        heroes = heroes[1:] + heroes[:1]
    names, prompts = [*TALES], []
    for hero, story in zip(heroes, told, strict=True):
        own = next(
            i for i, x in enumerate(names) if TALES[x].explain(story).in_language
        )
        tale = names[(own + SHIFTS.get(arm, 0)) % len(names)]
        prompts.append(instructions.instruction(hero, tale))
    return prompts


def measure(run: Run) -> list[Found]:
    """Make one run."""
    model = pretrained() if run.arm == "none" else learned(run.seed)
    pairs = instructions.answered("validation", instructions.N_TESTED, 0)
    answers = [answer for _, answer in pairs]
    inputs, targets = answer_rows(asked(run.arm), answers)
    with torch.no_grad():
        nats = next_token_loss(model(inputs), targets, reduction="none").sum(1)
    return [Found(story=i, nats=x) for i, x in enumerate(nats.tolist())]


if __name__ == "__main__":
    TRIAL.main(measure, arms=arms)
