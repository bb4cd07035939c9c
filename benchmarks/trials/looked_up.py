"""What do refusing and looking up save, and what do they cost?

    python benchmarks/trials/looked_up.py

Every fact of a world is asked for, as often as the world speaks of it.

Arms        A model that was told 2,048 sentences, sixteen times, answers every question; it
            refuses where its likeliest answer has less than 0.5 or 0.9. Another model has learned
            to read a passage before the question, of which no value was ever true but by chance.
            Its store of passages has all facts; or one passage in ten is false; or it has only the
            facts that were told, and a question without a passage is refused.
Fixed       See `facts.tell` and `facts.learn_to_look_up`. Rates of 0.016 and 0.008, untuned.
Seeds       Five, of world, sentences and models.
Measured    Which share of the questions is answered rightly, wrongly, and not at all. The likeliest
            word is the answer.
Against     Refusing does not pay if it gives up more right answers than wrong ones. Looking up does
            not pay if with a whole store more is wrong than with either threshold.

Laboratory 15 reads the table, and repeats one seed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from trial import Trial, seeded

from decoder_only_book import facts


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    seed: int


@dataclass(frozen=True, kw_only=True)
class Found:
    """What became of the questions, in shares that add up to one."""

    way: str
    right: float
    wrong: float
    refused: float
    missing: float


TRIAL = Trial("looked_up", Run, Found, score="wrong", packages=("torch", "numpy"))


def seeds() -> Iterator[list[Run]]:
    """Five seeds."""
    yield [Run(seed=seed) for seed in range(5)]


def measure(run: Run) -> Iterator[Found]:
    """Make one run."""
    *_, (_, world, counts, model) = facts.tell(2048, run.seed)
    confidence, is_right, _ = facts.answers(world, model)
    asked, told = world.chances.flatten(), counts.flatten() > 0
    missing = asked[~told].sum().item()

    def found(way: str, is_right: torch.Tensor, answered: torch.Tensor) -> Found:
        right = asked[is_right & answered].sum().item()
        wrong = asked[~is_right & answered].sum().item()
        refused = 1 - right - wrong
        return Found(
            way=way, right=right, wrong=wrong, refused=refused, missing=missing
        )

    for threshold in (0.0, 0.5, 0.9):
        yield found(f"memory, {threshold}", is_right, confidence >= threshold)
    reader = facts.learn_to_look_up(world, run.seed)
    true, generator = world.answers.flatten(), seeded(run.seed)
    is_false = torch.rand(len(true), generator=generator) < 0.1
    every, words = torch.ones_like(told), world.unknown - world.n_values
    for way, values, answered in (
        ("store, whole", true, every),
        ("store, a tenth false", (true + is_false) % world.n_values, every),
        ("store, told only", true, told),
    ):
        guess = facts.read_off(world, reader, values).argmax(1)
        yield found(way, guess == words + true, answered)


if __name__ == "__main__":
    TRIAL.main(measure, seeds=seeds)
