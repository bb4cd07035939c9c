"""How much does a model make up of what it was never told, and what does it take to stop it?

    python benchmarks/trials/making_up.py told rates unknown

Models of width 48 and two blocks learn sentences of a `FactWorld`: 512 people, four attributes, 64
values, people by Zipf's law. A training set is n sentences drawn from it, some facts among them
often and many never, seen again in a fresh order every epoch, at a constant rate behind a warm-up.
At the powers of two of the step everything that can be said is weighed exactly.

`told`: n = 512, 2,048 and 8,192, three seeds each. `rates`: half and twice the
rate for n = 2,048. `unknown`: half of the facts that were never told are in the training set
with the word "unknown" for a value; and, as a control, as many facts picked at random are.
What would count against the theory: anything below its bounds. What would count against its
importance: a rate of false sentences that does not follow the missing mass, from n to n, in the
epochs in which the model is calibrated. What would count for learning to say "unknown": of facts
never told and never shown as unknown it is said more often than of those that were told, by more
than in the control.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from trial import Table

from decoder_only.config import GPTConfig
from decoder_only.knowledge import FactWorld, is_it_valid, made_up
from decoder_only.model import GPT
from decoder_only.optimization import build_optimizers, set_learning_rate
from decoder_only.training import train_step

STEPS, BATCH, WARMUP, RATE = 512, 128, 16, 8e-3
TEMPERATURES = (1.0, 0.7, 0.5, 0.3)
TIMES = (0, 1, 2, 4, 8, 16)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    n: int
    arm: str = "told"
    learning_rate: float = RATE
    seed: int


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A state of a run, sampled at a temperature; see `knowledge.MadeUp` and `Validity`.

    `excess` is the divergence from the truth to what the model says, in nats a sentence.
    `asked` columns are of questions, drawn as the world speaks of them: the probability of a false
    answer and of "unknown". `right_k` is that of the right answer, the mean over facts that were
    told k times or more (less than the next k). `refused` columns: of "unknown", the mean over
    facts that were told, and over those that were neither told nor shown as unknown.
    """

    step: int
    temperature: float
    excess: float
    false: float
    nonsense: float
    unknown: float
    missing: float
    single: float
    unseen: float
    lucky: float
    miscalibration: float
    unseen_fine: float
    miscalibration_fine: float
    unseen_coarse: float
    miscalibration_coarse: float
    misclassified: float
    sparsity: float
    offset: float
    asked_false: float
    asked_unknown: float
    right_0: float
    right_1: float
    right_2: float
    right_4: float
    right_8: float
    right_16: float
    refused_told: float
    refused_new: float
    processor_seconds: float


TABLE = Table("making_up", Point)


def told() -> Iterator[Point]:
    for seed in range(3):
        for n in (2048, 512, 8192):
            yield Point(n=n, seed=seed)


def rates() -> Iterator[Point]:
    for rate in (RATE / 2, 2 * RATE):
        yield Point(n=2048, learning_rate=rate, seed=0)


def unknown() -> Iterator[Point]:
    for seed in range(3):
        for arm in ("unknown", "unknown at random"):
            yield Point(n=2048, arm=arm, seed=seed)


def material(
    point: Point, world: FactWorld, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Sentences to learn from, how often each fact is told, and which were shown as unknown."""
    facts = world.draw(point.n, generator)
    counts = world.counts(facts)
    never = (counts.flatten() == 0).nonzero().flatten()
    never = never[torch.randperm(len(never), generator=generator)]
    half = never[: len(never) // 2]
    if point.arm == "unknown at random":
        some = torch.randperm(counts.numel(), generator=generator)
        half = some[: len(half)]
    shown = torch.zeros(counts.numel(), dtype=torch.bool)
    if point.arm != "told":
        shown[half] = True
    rows = world.sentences(facts)
    as_unknown = world.sentences(shown.nonzero().flatten())
    as_unknown[:, -1] = world.unknown
    return torch.cat([rows, as_unknown]), counts, shown.view(counts.shape)


def weigh(
    point: Point, step: int, model: GPT, world: FactWorld, counts: Tensor, shown: Tensor
) -> Iterator[dict[str, float]]:
    """Everything about a state, at each temperature."""
    many = step in (64, STEPS)
    for temperature in TEMPERATURES if many else TEMPERATURES[:1]:
        g = world.says(model, temperature)
        p, valid, everything = world.outcomes(g)
        said, judged = made_up(world, g, counts), is_it_valid(everything, p, valid)
        gap = p[valid] * (p[valid].log() - everything[valid].log())
        found = {"step": step, "temperature": temperature, "excess": gap.sum().item()}
        found |= asdict(said)
        found.pop("ratio")
        for name, ratio in (("fine", 1.1), ("coarse", 2.0)):
            other = made_up(world, g, counts, ratio=ratio)
            found[f"unseen_{name}"] = other.unseen
            found[f"miscalibration_{name}"] = other.miscalibration
        found |= asdict(judged)
        found.pop("error")
        answers = answer(model, world, temperature)
        right = answers.gather(2, world.answers[..., None])[..., 0]
        refusal = answers[..., -1]
        found["asked_false"] = (world.chances * (1 - right - refusal)).sum().item()
        found["asked_unknown"] = (world.chances * refusal).sum().item()
        for k, above in zip(TIMES, (*TIMES[1:], 10**9), strict=True):
            own = (counts >= k) & (counts < above)
            found[f"right_{k}"] = right[own].mean().item()
        found["refused_told"] = refusal[(counts > 0) & ~shown].mean().item()
        found["refused_new"] = refusal[(counts == 0) & ~shown].mean().item()
        yield found


def answer(model: GPT, world: FactWorld, temperature: float) -> Tensor:
    """What the model answers: shape (people, attributes, values + 1), as `FactWorld.says` has it;
    what is no value is missing."""
    q = (world.ask(model) / temperature).softmax(-1)
    values = q[:, world.unknown - world.n_values :]
    return values.view(*world.answers.shape, -1)


def settings(world: FactWorld) -> GPTConfig:
    return GPTConfig(
        vocab_size=world.vocab_size,
        context_length=4,
        d_model=48,
        n_layers=2,
        n_heads=2,
        positions="rotary",
        norm="rms",
        activation="squared_relu",
        qk_norm=True,
        bias=False,
        tied=False,
        initialization="zero",
    )


def measure(point: Point) -> Iterator[Row]:
    """Make one run."""
    world = FactWorld(seed=point.seed)
    generator = torch.Generator().manual_seed(point.seed)
    rows, counts, shown = material(point, world, generator)
    model = GPT(settings(world), generator=generator)
    optimizers = build_optimizers(
        model, optimizer="muon", learning_rate=point.learning_rate
    )
    queue, before = rows[:0], time.process_time()
    for step in range(STEPS + 1):
        if step & (step - 1) == 0:
            model.eval()
            for found in weigh(point, step, model, world, counts, shown):
                spent = time.process_time() - before
                before += spent
                numbers = {k: float(f"{x:.5g}") for k, x in found.items()}
                numbers["step"] = step
                numbers["processor_seconds"] = round(spent, 2)
                yield Row(**asdict(point), **numbers)
        if step == STEPS:
            break
        while len(queue) < BATCH:
            order = torch.randperm(len(rows), generator=generator)
            queue = torch.cat([queue, rows[order]])
        batch, queue = queue[:BATCH], queue[BATCH:]
        set_learning_rate(optimizers, min(1, (step + 1) / WARMUP))
        train_step(
            model, optimizers, batch[:, :-1], batch[:, 1:], max_gradient_norm=1.0
        )


if __name__ == "__main__":
    TABLE.make(
        measure,
        {"told": told, "rates": rates, "unknown": unknown},
        packages=("torch", "numpy"),
    )
