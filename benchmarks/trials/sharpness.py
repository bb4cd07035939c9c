"""Does the limit of a step, 2 over the curvature, hold for a transformer?

    python benchmarks/trials/sharpness.py

Plain descent, on the same eight rows at every step, so that the loss is one fixed function. Its
largest curvature (the largest eigenvalue of the second derivatives, called sharpness) is measured
on the way.

Arms        Rates of 0.25, 0.5 and 1, constant from the first step.
Fixed       A model of chapter 9, 400 steps, no momentum.
Seeds       Three, of weights and rows.
Measured    Every tenth step: the loss, and the sharpness, by power iteration (30 products with the
            second derivatives at first, then 10 from the direction found before).
Against     The limit says nothing here if the sharpness, once it has risen to 2 over the rate,
            goes on to more than half as much again and stays there, or if the three rates end at
            one sharpness.

The laboratory of chapter 9 reads the table. Source of the experiment: Cohen et al. (2021).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import updates
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from trial import Trial, seeded

from decoder_only.data import training_batch
from decoder_only.model.gpt import GPT, GPTConfig
from decoder_only.model.lm_head import next_token_loss

STEPS, EVERY = 400, 10


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    learning_rate: float
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured before a step, counted from 0."""

    step: int
    loss: float
    sharpness: float


TRIAL = Trial("sharpness", Run, Found, digits=4)


def rates() -> Iterator[list[Run]]:
    """All rates, three seeds."""
    yield [
        Run(learning_rate=rate, seed=seed)
        for seed in (1, 2, 3)
        for rate in (0.25, 0.5, 1.0)
    ]


def sharpness(
    weights: list[Tensor], gradients: list[Tensor], direction: list[Tensor], n: int
) -> tuple[float, list[Tensor]]:
    """The largest curvature, and its direction, by `n` rounds of power iteration."""
    value = 0.0
    for _ in range(n):
        length = torch.sqrt(sum((each**2).sum() for each in direction))
        direction = [each / length for each in direction]
        along = sum((g * d).sum() for g, d in zip(gradients, direction, strict=True))
        product = torch.autograd.grad(along, weights, retain_graph=True)
        pairs = zip(product, direction, strict=True)
        value = sum((p * d).sum() for p, d in pairs).item()
        direction = list(product)
    return value, direction


def measure(run: Run) -> list[Found]:
    """Make one run."""
    openings, _ = updates.material()
    model = GPT(GPTConfig(**updates.SHAPE), generator=seeded(run.seed))
    size = {"batch_size": updates.BATCH, "context_length": 64}
    inputs, targets = training_batch(openings, seed=run.seed, step=0, **size)
    weights, found = list(model.parameters()), []
    direction = [torch.randn(w.shape, generator=seeded(run.seed)) for w in weights]
    for step in range(STEPS + 1):
        looks = step % EVERY == 0
        with sdpa_kernel(SDPBackend.MATH):  # which can be differentiated twice
            loss = next_token_loss(model(inputs), targets)
            gradients = torch.autograd.grad(loss, weights, create_graph=looks)
            if looks:
                n = 10 if step else 30
                value, direction = sharpness(weights, gradients, direction, n)
                row = {"loss": loss.item(), "sharpness": value}
                found.append(Found(step=step, **row))
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight -= run.learning_rate * gradient
    return found


if __name__ == "__main__":
    TRIAL.main(measure, rates=rates)
