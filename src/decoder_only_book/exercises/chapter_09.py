"""Exercises of chapter 9: a step of AdamW, a schedule, clipping."""

import math

import torch
from torch import Tensor

from decoder_only_book.exercises.framework import Exercise, Predict, Write

_BETAS, _EPS = (0.9, 0.95), 1e-8


def _normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _adamw(
    w: Tensor,
    g: Tensor,
    m: Tensor,
    v: Tensor,
    n: int,
    rate: float,
    decay: float,
    *,
    wrong="",
) -> tuple[Tensor, Tensor, Tensor]:
    first, second = _BETAS if wrong != "betas" else _BETAS[::-1]
    if wrong == "coupled":
        g = g + decay * w
    m = first * m + (1 - first) * g
    v = second * v + (1 - second) * (g.abs() if wrong == "no square" else g.square())
    mean, square = m / (1 - first**n), v / (1 - second**n)
    if wrong == "no correction":
        mean, square = m, v
    root = square if wrong == "no root" else square.sqrt()
    step = rate * mean / (root + _EPS)
    if wrong == "uphill":
        step = -step
    kept = 1 - (decay if wrong == "decay alone" else rate * decay)
    if wrong in ("coupled", "no decay"):
        kept = 1.0
    return kept * w - step, m, v


def _mistaken(wrong: str):
    return lambda *arguments: _adamw(*arguments, wrong=wrong)


def _state(seed: int, n: int) -> tuple:
    w, g, m = (_normal(3, seed=3 * seed + i) for i in range(3))
    return w, g, 0.1 * m, 0.01 * m.square() + 0.001, n, 0.02, 0.3


def _schedule(
    step: int, steps: int, warmup: int, decay: int, *, wrong: str = ""
) -> float:
    if step < warmup:
        return step / warmup if wrong == "zero" else (step + 1) / warmup
    left = steps - step
    if wrong == "after warm-up" and step >= steps - decay:
        return (steps - step) / (steps - warmup)
    return 1.0 if left >= decay or wrong == "stays" else left / decay


def _rates(steps: int, warmup: int, decay: int, *, wrong: str = "") -> list[float]:
    if wrong == "no warm-up":
        return [_schedule(s, steps, 0, decay) for s in range(steps)]
    if wrong == "cosine":
        falling = [
            0.5 * (1 + math.cos(math.pi * (s - warmup) / (steps - warmup)))
            for s in range(warmup, steps)
        ]
        return [_schedule(s, steps, warmup, decay) for s in range(warmup)] + falling
    if wrong == "reversed":
        return _rates(steps, warmup, decay)[::-1]
    return [_schedule(s, steps, warmup, decay, wrong=wrong) for s in range(steps)]


def _rates_with(wrong: str):
    return lambda *arguments: _rates(*arguments, wrong=wrong)


EXERCISES: dict[str, Exercise] = {
    "9.1": Write(
        title="a step of AdamW",
        task="One step for weights `w` with gradient `g`. `m` and `v` are the running means of g "
        "and of its square, and n counts steps from 1. Use 0.9 and 0.95 for the two means, correct "
        "both for their start at zero, add 1e-8 to the root, and shrink w by rate * decay. Return "
        "the new w, m and v.",
        stub="def adamw(w, g, m, v, n, rate, decay):\n    ...",
        hints=(
            "m becomes 0.9 m + 0.1 g, and v becomes 0.95 v + 0.05 g squared.",
            "Corrected: m / (1 - 0.9**n) and v / (1 - 0.95**n). Return the uncorrected m and v.",
            "w becomes (1 - rate * decay) w - rate * mean / (square.sqrt() + 1e-8).",
        ),
        reference=_adamw,
        cases={"an early step": _state(1, 2), "a late step": _state(2, 50)},
        wrong={
            "the means are not corrected for their start at zero": _mistaken(
                "no correction"
            ),
            "the decay went into the gradient: that is Adam with L2, not AdamW": _mistaken(
                "coupled"
            ),
            "w does not decay": _mistaken("no decay"),
            "the decay is multiplied by the rate": _mistaken("decay alone"),
            "the two constants are exchanged": _mistaken("betas"),
            "v is a mean of squares, not of sizes": _mistaken("no square"),
            "divide by the root of the mean square": _mistaken("no root"),
            "the step goes uphill; subtract it": _mistaken("uphill"),
        },
    ),
    "9.2": Write(
        title="warm up, stay, fall",
        task="List the factors of the rate for steps 0 to steps - 1. In the first `warmup` steps "
        "they rise in a line, from 1 / warmup to 1. In the last `decay` steps they fall in a line: "
        "the last is 1 / decay. Between them they are 1.",
        stub="def factors(steps, warmup, decay):\n    ...",
        hints=(
            "At step s of the warm-up the factor is (s + 1) / warmup.",
            "At step s, steps - s steps are left, this one counted.",
            "min(1, (s + 1) / warmup, (steps - s) / decay) for each s.",
        ),
        reference=_rates,
        cases={"ten steps": (10, 3, 4), "twelve steps": (12, 4, 6)},
        wrong={
            "the first step has the factor 0, so it is lost": _rates_with("zero"),
            "there is no warm-up": _rates_with("no warm-up"),
            "the rate stays at the end; it should fall": _rates_with("stays"),
            "that is a cosine, which falls from the warm-up on": _rates_with("cosine"),
            "the order is turned round": _rates_with("reversed"),
            "the fall should begin at 1, with `decay` steps left": _rates_with(
                "after warm-up"
            ),
        },
    ),
    "9.3": Predict(
        title="the longest step that works",
        task="Along one direction the loss is 4 times w squared. At which rate does plain descent "
        "begin to fly off?",
        hints=(
            "The gradient is 8 w, so the curvature is 8.",
            "Each step multiplies w by 1 - 8 times the rate.",
            "The size of that factor must stay below 1.",
        ),
        answer=0.25,
        wrong={
            "that is the rate that arrives in one step; twice that is the limit": 0.125,
            "the curvature is the second derivative, 8 and not 4": 0.5,
            "2 is divided by the curvature": 4,
            "that is the curvature": 8,
            "the curvature of 4 w squared is 8": 2,
        },
    ),
    "9.4": Predict(
        title="a clipped gradient",
        task="A gradient is (6, 8), and the clip is at 5. What is the first number afterwards?",
        hints=(
            "The norm is the root of 36 + 64.",
            "It is twice the clip.",
            "All numbers are multiplied by 5 / 10.",
        ),
        answer=3,
        wrong={
            "the norm is clipped, not each number": 5,
            "the norm is above the clip": 6,
            "the norm is the root of the sum of squares": 0.3,
            "the factor is 5 / 10": 12,
            "the norm is 10, and not the sum of the numbers": 6 * 5 / 14,
        },
    ),
    "9.5": Predict(
        title="the bytes of a state",
        task="In mixed precision a weight has 2 bytes and so has its gradient; a master copy and "
        "AdamW's two means have 4 each. How many GB does a model of 7 billion weights take, before "
        "activations?",
        hints=(
            "2 + 2 + 4 + 4 + 4 for each weight.",
            "16 bytes.",
            "7 billion times 16.",
        ),
        answer=112,
        wrong={
            "a copy or a mean of 4 bytes is missing: the master copy, or one of two means": 84,
            "both means are missing": 56,
            "those are the weights alone": 14,
            "the gradient counts, too": 98,
            "that is in GB for one byte a weight": 7,
        },
    ),
}
