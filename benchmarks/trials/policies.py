"""Rewarded answers whose best distribution is known: how near do policy gradients and DPO come?

    python benchmarks/trials/policies.py rates seeds free halved noise undivided

The model is a state of the hamlet's training, after 512 steps, which knows some of the people's
favourite foods. The prompts are "NAME liked" for the 18 people whose favourite has two tokens. The
answers are the 18 foods of two tokens, and no other can be given (`AnswerTree`). The reward is 1
for the person's favourite, and 0 for the others; beta = 1/4. What maximizes the mean reward minus
beta times the KL divergence to the reference p is pi* = p exp(reward / beta) / Z. Every answer's
probability is exact, and so is KL(q || pi*).

Arms        "exact" climbs the objective itself, and draws nothing.
            "policy gradient" draws eight answers to each prompt in each step. It subtracts
            beta log(q / p) from the reward, and then the mean of the group.
            "GRPO" has the KL divergence in its loss, and divides by the group's spread.
            "DPO" draws four fresh pairs for each prompt in each step from the reference. One of a
            pair is preferred, with the odds exp(difference of the rewards).
            `free` is the policy gradient with beta = 0, at the policy gradient's rate. `halved` has
            both at half of that rate.
            `noise` has two controls for DPO, each at its own rate. "DPO, expected" gets the same
            pairs, and its loss is the mean over both preferences. "DPO, all pairs" descends the
            exact mean over all pairs of the reference.
            `undivided` has two controls for GRPO, each at its own rate. "GRPO, undivided" does not
            divide by the group's spread. "GRPO, undivided, doubled" does not either, and every
            reward is twice as large.
Fixed       60 steps of AdamW with a cosine.
Rates       Halved and doubled until the best is between two others, with seed 0, by the last `kl`.
Seeds       Three fresh ones.
Measured    A row for every five steps. `kl` is KL(q || pi*) in nats, the mean over the prompts and
            the last five steps. Of the last step's model: `kl_reference`, which is KL(q || p),
            `reward`, which is the mean probability of the favourite, `pass_k`, the chance that one
            of k answers is the favourite, and `old_gap`, the loss on stories above the exact floor,
            in nats per token.
Against     A method fails if its `kl` stays high where "exact" shows that the model can lower it.

Chapter 12 reads the table.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from hamlet import END, LANGUAGE, TOKENIZER, old_gap, pretrained
from jaxtyping import Float, Int
from torch import Tensor
from trial import Trial, learn, seeded

from decoder_only.variants.finetuning import (
    AnswerTree,
    dpo_loss,
    grpo_loss,
    optimal_policy,
)

STATE, BETA, STEPS, EVERY = 512, 0.25, 60, 5
GROUP, PAIRS = 8, 4
TRIES = 1, 4, 16, 64, 256, 1024
HALVED = ", half the rate"


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    arm: str
    learning_rate: float
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured of a state; divergences in nats."""

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


GRADIENT = Run(arm="policy gradient", learning_rate=5e-4)
ARMS = [
    Run(arm="exact", learning_rate=5e-4),
    GRADIENT,
    Run(arm="GRPO", learning_rate=5e-4),
    Run(arm="DPO", learning_rate=5e-4),
]
CONTROLS = [
    Run(arm="DPO, expected", learning_rate=1e-3),
    Run(arm="DPO, all pairs", learning_rate=2e-3),
]
UNDIVIDED = [
    Run(arm="GRPO, undivided", learning_rate=5e-4),
    Run(arm="GRPO, undivided, doubled", learning_rate=5e-4),
]
TRIAL = Trial(
    "policies",
    Run,
    Found,
    arms=ARMS,
    seeds=(1, 2, 3),
    score="kl",
    scored={"step": STEPS},
    digits=4,
)


def free() -> Iterator[list[Run]]:
    """The policy gradient without the reference."""
    for runs in TRIAL.repeat([GRADIENT]):
        yield [replace(run, arm="free") for run in runs]


def halved() -> Iterator[list[Run]]:
    """The policy gradient and `free` at half the rate."""
    for runs in TRIAL.repeat([GRADIENT]):
        yield [
            replace(run, arm=arm + HALVED, learning_rate=run.learning_rate / 2)
            for run in runs
            for arm in ("policy gradient", "free")
        ]


def noise() -> Iterator[list[Run]]:
    """Two controls for DPO, each at its own rate."""
    yield from TRIAL.search(CONTROLS)
    yield from TRIAL.repeat(CONTROLS)


def undivided() -> Iterator[list[Run]]:
    """Two controls for GRPO, each at its own rate."""
    yield from TRIAL.search(UNDIVIDED)
    yield from TRIAL.repeat(UNDIVIDED)


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


def loss_of(
    arm: str, log_q: Tensor, log_p: Tensor, rewards: Tensor, generator: torch.Generator
) -> Float[Tensor, ""]:
    """What a step of an arm descends."""
    arm = arm.removesuffix(HALVED)
    if arm == "exact":
        objective = log_q.exp() * (rewards - BETA * (log_q - log_p))
        return -objective.sum(1).mean()
    if arm == "DPO, all pairs":
        return loss_of_all_pairs(log_q, log_p, rewards)
    if arm.startswith("DPO"):
        is_expected = arm == "DPO, expected"
        return loss_of_pairs(log_q, log_p, rewards, generator, is_expected)
    answers = drawn(log_q.detach(), GROUP, generator)
    rewards = 2 * rewards if arm.endswith("doubled") else rewards
    return grpo_loss(
        *(x.gather(1, answers) for x in (log_q, log_p, rewards)),
        beta=0.0 if arm == "free" else BETA,
        penalty="loss" if arm.startswith("GRPO") else "reward",
        divide=arm == "GRPO",
    )


def loss_of_all_pairs(log_q: Tensor, log_p: Tensor, rewards: Tensor) -> Tensor:
    """The exact mean of DPO's loss over all pairs that the reference draws."""
    p, gain = log_p.exp(), log_q - log_p
    gaps = rewards[:, :, None] - rewards[:, None]
    losses = expected(gain[:, :, None] - gain[:, None], gaps)
    return (p[:, :, None] * p[:, None] * losses).sum((1, 2)).mean()


def loss_of_pairs(
    log_q: Tensor,
    log_p: Tensor,
    rewards: Tensor,
    generator: torch.Generator,
    is_expected: bool,
) -> Tensor:
    """DPO's loss on drawn pairs; with drawn preferences, or the mean over these."""
    answers = drawn(log_p, 2 * PAIRS, generator)
    log_q, log_p, rewards = (
        x.gather(1, answers).unflatten(1, (PAIRS, 2)) for x in (log_q, log_p, rewards)
    )
    gaps = rewards[..., 0] - rewards[..., 1]
    # Drawn in any case, so that both arms see the same pairs.
    chances = torch.rand(gaps.shape, generator=generator)
    if is_expected:
        gain = log_q - log_p
        return expected(gain[..., 0] - gain[..., 1], gaps).mean()
    is_first = chances < torch.sigmoid(gaps)
    order = torch.stack([~is_first, is_first], -1).long()  # the chosen, the rejected
    chosen, rejected = log_q.gather(-1, order).flatten(0, 1).unbind(-1)
    p_chosen, p_rejected = log_p.gather(-1, order).flatten(0, 1).unbind(-1)
    return dpo_loss(chosen, rejected, p_chosen, p_rejected, beta=BETA)


def expected(margins: Float[Tensor, "*b"], gaps: Float[Tensor, "*b"]) -> Tensor:
    """DPO's loss of every pair, the mean over who is preferred at these gaps of the reward."""
    return -sum(
        torch.sigmoid(sign * gaps) * F.logsigmoid(sign * BETA * margins)
        for sign in (1, -1)
    )


def divergence(log_q: Tensor, log_p: Tensor) -> float:
    """KL(q || p), the mean over the prompts."""
    return (log_q.exp() * (log_q - log_p)).sum(1).mean().item()


def measure(run: Run) -> list[Found]:
    """Make one run; a row for every five steps."""
    model = pretrained(STATE)
    tree, prompts, rewards = questions()
    generator = seeded(run.seed)
    with torch.no_grad():
        log_p = tree.log_probs(model, prompts)
    goal = optimal_policy(log_p, rewards, beta=BETA)
    found, recent = [], []

    @torch.no_grad()
    def note(step: int, log_q: Tensor) -> None:
        recent.append(divergence(log_q, goal))
        if step % EVERY:
            return
        right = (log_q.exp() * rewards).sum(1)
        state = Found(
            step=step,
            kl=sum(recent) / len(recent),
            kl_reference=divergence(log_q, log_p),
            reward=right.mean().item(),
            **{f"pass_{k}": (1 - (1 - right) ** k).mean().item() for k in TRIES},
            old_gap=old_gap(model) if step in (0, STEPS) else None,
        )
        found.append(state)
        recent.clear()

    def loss_at(step: int) -> Tensor:
        log_q = tree.log_probs(model, prompts)
        note(step, log_q)
        return loss_of(run.arm, log_q, log_p, rewards, generator)

    settings = {"steps": STEPS, "learning_rate": run.learning_rate}
    learn(model, loss_at, **settings, warmup=6, max_gradient_norm=1.0)
    with torch.no_grad():
        note(STEPS, tree.log_probs(model, prompts))
    return found


if __name__ == "__main__":
    TRIAL.main(
        measure,
        rates=TRIAL.search,
        seeds=TRIAL.repeat,
        free=free,
        halved=halved,
        noise=noise,
        undivided=undivided,
    )
