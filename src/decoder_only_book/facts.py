"""How the models of chapter 15 learn facts, and everything that is weighed about them.

The lesson, its laboratory and the trials `made_up`, `first_sight` and `looked_up` share these runs.
"""

from collections.abc import Callable, Container, Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from decoder_only.analysis.knowledge import FactWorld, is_it_valid, made_up
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import IGNORED
from decoder_only.model.presets import MODERN
from decoder_only.training import NextTokenLoss, train_step
from decoder_only.training.optimizers import build_optimizers, set_learning_rate

WARMUP = 16
FIRST_SIGHT = 128
SIGHTS = {
    "never": (),
    "once": (0,),
    "4 running": (0, 1, 2, 3),
    "4 apart": (0, 16, 32, 48),
}
"""When each group of new facts is slipped in, in steps after the first of these sights."""


def seeded(seed: int) -> torch.Generator:
    """A generator of random numbers that begins at a seed."""
    return torch.Generator().manual_seed(seed)


def small_model(vocab_size: int, generator: torch.Generator, **settings) -> GPT:
    """A model of one block and width 32, unless settings say more."""
    usual = {"context_length": 8, "d_model": 32, "n_layers": 1, "n_heads": 2}
    usual |= MODERN | {"tied": False} | settings
    return GPT(GPTConfig(vocab_size=vocab_size, **usual), generator=generator).eval()


def epochs(
    rows: Int[Tensor, "_ s"], batch: int, generator: torch.Generator
) -> Callable[[int], Int[Tensor, "_ s"]]:
    """Batches that read all rows again and again, each time in a new order."""
    queue = rows[:0]

    def batch_at(step: int) -> Int[Tensor, "_ s"]:
        nonlocal queue
        if len(queue) < batch:
            order = torch.randperm(len(rows), generator=generator)
            queue = torch.cat([queue, rows[order]])
        now, queue = queue[:batch], queue[batch:]
        return now

    return batch_at


def learn(
    model: GPT,
    batch_at: Callable[[int], Int[Tensor, "_ s"]],
    *,
    steps: int,
    learning_rate: float = 1.6e-2,
    skip: int = 0,
) -> Iterator[tuple[int, GPT]]:
    """Train with Muon at a constant rate after a warm-up, and stop before every step to be seen.

    Args:
        batch_at: the rows of a step.
        skip: how many of the first targets are left out of the loss.

    Yields:
        How many steps were taken, and the model.
    """
    optimizers = build_optimizers(model, optimizer="muon", learning_rate=learning_rate)
    for step in range(steps):
        yield step, model.eval()
        rows = batch_at(step)
        targets = rows[:, 1:].clone()
        targets[:, :skip] = IGNORED
        set_learning_rate(optimizers, min(1, (step + 1) / WARMUP))
        loss = NextTokenLoss(model)
        train_step(loss, optimizers, rows[:, :-1], targets, max_gradient_norm=1.0)
    yield steps, model.eval()


def tell(
    n: int, seed: int = 0, *, learning_rate: float = 1.6e-2, steps: int = 256
) -> Iterator[tuple[int, FactWorld, Int[Tensor, "_ _"], GPT]]:
    """A model reads n sentences about a world again and again.

    Yields:
        Before each step and at the end: how many steps were taken, the world, how often the n
        sentences tell each fact, and the model.
    """
    world, generator = FactWorld(256, seed=seed), seeded(seed)
    facts = world.draw(n, generator)
    model = small_model(world.vocab_size, generator)
    batch_at = epochs(world.sentences(facts), 128, generator)
    path = learn(model, batch_at, steps=steps, learning_rate=learning_rate)
    for step, model in path:
        yield step, world, world.counts(facts), model


def answers(
    world: FactWorld, model: GPT
) -> tuple[Float[Tensor, "_"], Int[Tensor, "_"], Float[Tensor, "_"]]:
    """What a model answers if it is asked for every fact.

    Returns:
        For every fact: the probability of the likeliest answer, whether that is right, and the
        probability of the right answer.
    """
    q = world.ask(model).exp()
    confidence, guess = q.max(1)
    right = world.sentences(torch.arange(len(q)))[:, -1]
    return confidence, guess == right, q.gather(1, right[:, None])[:, 0]


def weigh(world: FactWorld, model: GPT, counts: Int[Tensor, "_ _"]) -> dict[str, float]:
    """Everything about a state: its falsehoods, the terms of both bounds, and its excess.

    Returns:
        The attributes of `MadeUp`, and
        bound: of Kalai and Vempala.
        narrow, wide: the same bound with bins of ratio 1.1 and 2.
        judge: the bound of Kalai, Nachum, Vempala and Zhang.
        excess: the divergence from the truth to what the model says, in nats a sentence.
        about_told: falsehoods about facts that were told.
    """
    g = world.says(model)
    p, true, everything = world.outcomes(g)
    said = made_up(world, g, counts)
    excess = (p[true] * (p[true] / everything[true]).log()).sum().item()
    own = g.gather(2, world.answers[..., None])[..., 0]
    about_told = (g[..., :-1].sum(2) - own)[counts > 0].sum().item()
    return vars(said) | {
        "bound": said.bound,
        "narrow": made_up(world, g, counts, ratio=1.1).bound,
        "wide": made_up(world, g, counts, ratio=2.0).bound,
        "judge": is_it_valid(everything, p, true).bound,
        "excess": excess,
        "about_told": about_told,
    }


# ------------------------------------------------------------------------ seen, and seen no more


def remembered(
    seed: int, *, steps: int = 304, moments: Container[int] = range(305)
) -> Iterator[tuple[int, str, Float[Tensor, "_ v"], Int[Tensor, "_"]]]:
    """Four groups of 32 facts are slipped into a stream that never tells them again.

    Args:
        seed: of the world, the stream and the model.
        steps: at most 320.
        moments: when it is asked, in steps after the first sight.

    Yields:
        At every moment and for every group: steps since the first sight, the group, the
        log-probabilities of all answers, and the right answers.
    """
    world, generator = FactWorld(256, seed=seed), seeded(seed)
    some = torch.randperm(256, generator=generator)[:128].split(32)  # of the first 64
    groups = dict(zip(SIGHTS, some, strict=True))
    chances = world.chances.flatten().index_fill(0, torch.cat(some), 0.0)
    stream = torch.multinomial(chances, 128 * 320, True, generator=generator)
    stream = stream.view(320, 128)
    for slot, (name, when) in enumerate(SIGHTS.items()):
        for step in when:
            stream[FIRST_SIGHT + step, 32 * slot : 32 * slot + 32] = groups[name]
    model = small_model(world.vocab_size, generator)
    path = learn(model, lambda step: world.sentences(stream[step]), steps=steps)
    for step, model in path:
        for name, facts in groups.items() if step - FIRST_SIGHT in moments else ():
            right = world.sentences(facts)[:, -1]
            yield step - FIRST_SIGHT, name, world.ask(model, facts=facts), right


# ------------------------------------------------------------------------------ looked up


def passages(
    world: FactWorld, facts: Int[Tensor, "_"], values: Int[Tensor, "_"]
) -> Int[Tensor, "_ s"]:
    """A passage that gives the asked fact some value, and then the question with that answer.

    Args:
        facts: which are asked for.
        values: what the passage says, from 0.

    Returns:
        Shape (facts, 8): the passage's four tokens and the question's four.
    """
    sentence = world.sentences(facts)
    sentence[:, -1] = world.unknown - world.n_values + values
    return torch.cat([sentence, sentence], dim=1)


def learn_to_look_up(world: FactWorld, seed: int = 0, *, steps: int = 150) -> GPT:
    """A model of two blocks that reads passages, whose values are new in every row.

    No value in these passages is true more often than by chance: the model cannot learn a fact.
    """
    generator = seeded(seed)
    model = small_model(world.vocab_size, generator, n_layers=2)

    def batch_at(step: int) -> Int[Tensor, "_ s"]:
        n_facts = world.answers.numel()
        facts = torch.randint(n_facts, (128,), generator=generator)
        values = torch.randint(world.n_values, (128,), generator=generator)
        return passages(world, facts, values)

    *_, (_, model) = learn(model, batch_at, steps=steps, skip=6, learning_rate=8e-3)
    return model


@torch.no_grad()
def read_off(
    world: FactWorld, model: GPT, values: Int[Tensor, "_"]
) -> Float[Tensor, "_ v"]:
    """What a model answers to every question after a passage with these values.

    Returns:
        The probability of each token as the answer, for every fact.
    """
    facts = torch.arange(world.answers.numel())
    rows = passages(world, facts, values)
    return model(rows[:, :-1], last_only=True)[:, 0].double().softmax(-1)
