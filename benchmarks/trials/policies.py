"""Rewarded answers whose best distribution is known: how near do policy gradients and DPO come?

    python benchmarks/trials/policies.py rates seeds free halved noise

The model is a state of the hamlet's training, after 512 steps, which knows some of the people's
favourite foods. The prompts are "NAME liked" for the 18 people whose favourite is told in two
tokens; the answers are the 18 foods of two tokens, and no other can be given (`AnswerTree`). The
reward is 1 for what is true of the person, else 0, and beta = 1/4. What maximizes the mean reward
minus beta KL to the reference is pi* = reference exp(r / beta) / Z, and every answer's probability
is exact, so that KL(q || pi*) is, too.

"exact" climbs the objective itself, without drawing. "policy gradient" draws eight answers to each
prompt in each step, takes beta log(q / p) off the reward, and the group's mean; "GRPO" has its
penalty in the loss and divides by the group's spread. "DPO" gets four fresh pairs for each prompt
in each step, drawn from the reference, of which one is preferred with the odds exp(difference of
the rewards). 60 steps of AdamW with a cosine. `free` is the policy gradient with beta = 0, at the
rate of the policy gradient; `halved` has both at half of that rate. `noise` are two controls for
DPO, each at its own rate: "DPO, expected" gets the same pairs, and the loss is the mean over both
preferences; "DPO, all pairs" descends the exact mean over all pairs of the reference.

Rows are written every five steps: `kl` is the mean over the prompts and the last five steps, in
nats; `kl_reference` KL(q || p) and `reward` the mean probability of the truth, of the model of the
last step; `pass_k` the chance that one of k answers is true; `old_gap` the loss on stories above
the floor, in nats per token. `rates` chooses by the last `kl`. What would count against a method: a
`kl` that stays, where "exact" shows that the model can reach it.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

import torch
import torch.nn.functional as F
from hamlet import END, LANGUAGE, TOKENIZER, old_gap, pretrained
from jaxtyping import Float, Int
from torch import Tensor
from trial import Table, learn

from decoder_only.variants.finetuning import (
    AnswerTree,
    dpo_loss,
    grpo_loss,
    optimal_policy,
)

STATE, BETA, STEPS, EVERY = 512, 0.25, 60, 5
GROUP, PAIRS = 8, 4
TRIES = 1, 4, 16, 64, 256, 1024
ARMS = {
    "exact": 5e-4,
    "policy gradient": 5e-4,
    "GRPO": 5e-4,
    "DPO": 5e-4,
}
HALVED = ", half the rate"
CONTROLS = {"DPO, expected": 1e-3, "DPO, all pairs": 2e-3}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    arm: str
    learning_rate: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A state of a run; divergences in nats."""

    step: int
    kl: float
    kl_reference: float
    reward: float
    pass_1: float
    pass_4: float
    pass_16: float
    pass_64: float
    pass_256: float
    pass_1024: float
    old_gap: float | None
    processor_seconds: float


TABLE = Table("policies", Point, score="kl")


def arms(rates: Mapping[str, float] = ARMS) -> Iterator[Point]:
    for arm, rate in rates.items():
        yield Point(arm=arm, learning_rate=rate, seed=0)


def rates() -> Iterator[Point]:
    yield from TABLE.rates(arms())


def seeds() -> Iterator[Point]:
    yield from TABLE.seeds(list(arms()), (1, 2, 3))


def free() -> Iterator[Point]:
    (like,) = [arm for arm in arms() if arm.arm == "policy gradient"]
    for point in TABLE.seeds([like], (1, 2, 3)):
        yield replace(point, arm="free")


def halved() -> Iterator[Point]:
    (like,) = [arm for arm in arms() if arm.arm == "policy gradient"]
    for point in TABLE.seeds([like], (1, 2, 3)):
        for arm in ("policy gradient", "free"):
            rate = point.learning_rate / 2
            yield replace(point, arm=f"{arm}{HALVED}", learning_rate=rate)


def noise() -> Iterator[Point]:
    yield from TABLE.rates(arms(CONTROLS))
    yield from TABLE.seeds(list(arms(CONTROLS)), (1, 2, 3))


EXPERIMENTS = {each.__name__: each for each in (rates, seeds, free, halved, noise)}


def questions() -> tuple[AnswerTree, list[list[int]], Float[Tensor, "b _"]]:
    """The answers, the prompts, and the reward of every answer to every prompt."""
    foods = [food["text"] for food in LANGUAGE.grammar.lexicons["foods"].entries]
    foods = [food for food in foods if len(TOKENIZER.encode(f" {food}")) == 2]
    liked = {
        name: LANGUAGE.facts(name)["favourite food"] for name in LANGUAGE.characters
    }
    people = [name for name in liked if liked[name] in foods]
    tree = AnswerTree([TOKENIZER.encode(f" {food}") for food in foods])
    prompts = [[END, *TOKENIZER.encode(f"{name} liked")] for name in people]
    rewards = [[float(liked[name] == food) for food in foods] for name in people]
    return tree, prompts, torch.tensor(rewards)


def drawn(log_q: Tensor, n: int, generator: torch.Generator) -> Int[Tensor, "b _"]:
    """Answers to every prompt, by their numbers."""
    return torch.multinomial(log_q.exp(), n, replacement=True, generator=generator)


def expected(margins: Float[Tensor, "*b"], gaps: Float[Tensor, "*b"]) -> Tensor:
    """DPO's loss of every pair, the mean over who is preferred at these gaps of the reward."""
    return -sum(
        torch.sigmoid(sign * gaps) * F.logsigmoid(sign * BETA * margins)
        for sign in (1, -1)
    )


def loss_of(
    arm: str, log_q: Tensor, log_p: Tensor, rewards: Tensor, generator: torch.Generator
) -> Float[Tensor, ""]:
    """What a step of an arm descends."""
    arm = arm.removesuffix(HALVED)
    if arm == "exact":
        q = log_q.exp()
        return -(q * (rewards - BETA * (log_q - log_p))).sum(1).mean()
    if arm == "DPO, all pairs":
        p, gap = log_p.exp(), rewards[:, :, None] - rewards[:, None]
        gain = log_q - log_p
        each = expected(gain[:, :, None] - gain[:, None], gap)
        return (p[:, :, None] * p[:, None] * each).sum((1, 2)).mean()
    if arm.startswith("DPO"):
        pairs = drawn(log_p, 2 * PAIRS, generator)
        r = rewards.gather(1, pairs).unflatten(1, (PAIRS, 2))
        if arm == "DPO, expected":
            gain = (log_q - log_p).gather(1, pairs).unflatten(1, (PAIRS, 2))
            torch.rand(r.shape[:2], generator=generator)  # DPO's draws, so its pairs
            return expected(*(x[..., 0] - x[..., 1] for x in (gain, r))).mean()
        odds = torch.sigmoid(r[..., 0] - r[..., 1])
        first = torch.rand(odds.shape, generator=generator) < odds
        order = torch.stack(
            [~first, first], -1
        ).long()  # where the chosen and the other stand
        both = [x.gather(1, pairs).unflatten(1, (PAIRS, 2)) for x in (log_q, log_p)]
        (chosen, rejected), (p_chosen, p_rejected) = (
            x.gather(-1, order).flatten(0, 1).unbind(-1) for x in both
        )
        return dpo_loss(chosen, rejected, p_chosen, p_rejected, beta=BETA)
    answers = drawn(log_q.detach(), GROUP, generator)
    parts = [x.gather(1, answers) for x in (log_q, log_p, rewards)]
    in_reward = arm in ("policy gradient", "free")
    return grpo_loss(
        *parts,
        beta=0.0 if arm == "free" else BETA,
        penalty="reward" if in_reward else "loss",
        divide=arm == "GRPO",
    )


def divergence(log_q: Tensor, log_p: Tensor) -> float:
    """KL(q || p), the mean over the prompts."""
    return (log_q.exp() * (log_q - log_p)).sum(1).mean().item()


def measure(point: Point) -> Iterator[Row]:
    """Make one run; a row for every five steps."""
    began, model = time.process_time(), pretrained(STATE)
    tree, prompts, rewards = questions()
    generator = torch.Generator().manual_seed(point.seed)
    with torch.no_grad():
        log_p = tree.log_probs(model, prompts)
    goal = optimal_policy(log_p, rewards, beta=BETA)
    rows, recent = [], []

    def note(step: int, log_q: Tensor) -> None:
        recent.append(divergence(log_q, goal))
        if step % EVERY:
            return
        right = (log_q.exp() * rewards).sum(1)
        passed = {
            f"pass_{k}": round((1 - (1 - right) ** k).mean().item(), 4) for k in TRIES
        }
        found = Row(
            **asdict(point),
            step=step,
            kl=round(sum(recent) / len(recent), 4),
            kl_reference=round(divergence(log_q, log_p), 4),
            reward=round(right.mean().item(), 4),
            **passed,
            old_gap=old_gap(model) if step in (0, STEPS) else None,
            processor_seconds=0.0,
        )
        rows.append(found)
        recent.clear()

    def loss_at(step: int) -> Tensor:
        log_q = tree.log_probs(model, prompts)
        with torch.no_grad():
            note(step, log_q)
        return loss_of(point.arm, log_q, log_p, rewards, generator)

    settings = {"steps": STEPS, "learning_rate": point.learning_rate}
    learn(model, loss_at, **settings, warmup=6, max_gradient_norm=1.0)
    with torch.no_grad():
        note(STEPS, tree.log_probs(model, prompts))
    seconds = round(time.process_time() - began, 1)
    yield from (*rows[:-1], replace(rows[-1], processor_seconds=seconds))


if __name__ == "__main__":
    TABLE.make(measure, EXPERIMENTS)
