"""Exercises of chapter 13: a ring of devices, a mean of gradients, a bubble, and bytes."""

import torch
from torch import Tensor

from decoder_only_book.exercises.framework import Exercise, Predict, Write


def _normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _round(
    parts: Tensor, number: int, sent: int = 0, way: int = 1, adds: bool = True
) -> Tensor:
    """One round; `sent` is how far the chunk is from the right one."""
    after = parts.clone()
    for device in range(len(parts)):
        chunk = (device - number + sent) % len(parts)
        neighbour = (device + way) % len(parts)
        if adds:
            after[neighbour, chunk] += parts[device, chunk]
        else:
            after[neighbour, chunk] = parts[device, chunk]
    return after


def _all_chunks(parts: Tensor) -> Tensor:
    return parts + parts.roll(1, 0)


def _emptied(parts: Tensor, number: int) -> Tensor:
    after = _round(parts, number)
    for device in range(len(parts)):
        chunk = (device - number) % len(parts)
        after[device, chunk] -= parts[device, chunk]
    return after


def _mean(gradients: Tensor, sizes: Tensor) -> Tensor:
    return (gradients * sizes[:, None]).sum(0) / sizes.sum()


EXERCISES: dict[str, Exercise] = {
    "13.1": Write(
        title="one round of a ring",
        task="`parts`, (P, P, n), holds P chunks of n numbers on each of P devices. In round "
        "`number` of a reduce-scatter, each device d sends chunk (d - number) mod P to device "
        "(d + 1) mod P, which adds it to its own. All send at once. Return the parts afterwards.",
        stub="def ring_round(parts, number):\n    ...",
        hints=(
            "Each device sends one chunk and receives another one.",
            "All send at once: what is sent are the values from before the round.",
            "after = parts.clone(), then after[(d + 1) % P, chunk] += parts[d, chunk] for each d.",
        ),
        reference=_round,
        cases={
            "round 0 of three devices": (_normal(3, 3, 2, seed=0), 0),
            "round 1 of four devices": (_normal(4, 4, 1, seed=1), 1),
        },
        wrong={
            "the chunk is replaced; the receiver adds it to its own": lambda x, r: (
                _round(x, r, adds=False)
            ),
            "the ring turns the wrong way: device d sends to d + 1": lambda x, r: (
                _round(x, r, way=-1)
            ),
            "the wrong chunk is sent: with each round it is one lower, not one higher": (
                lambda x, r: _round(x, r, sent=2 * r) if r else _round(x, r)
            ),
            "all devices send the same chunk": lambda x, r: torch.stack(
                [x[:, c] + x[:, c].roll(1, 0) * (c == r) for c in range(len(x))], dim=1
            ),
            "all chunks are sent; a round moves one from each device": lambda x, r: (
                _all_chunks(x)
            ),
            "the number of the round is not used": lambda x, r: _round(x, 0),
            "what a device sends stays there, too": _emptied,
        },
    ),
    "13.2": Write(
        title="a gradient from uneven shares",
        task="Each of P devices has the mean gradient over its own tokens: `gradients`, (P, n), "
        "from `sizes`, (P,), tokens. Return the mean gradient over all tokens, (n,).",
        stub="def mean_gradient(gradients, sizes):\n    ...",
        hints=(
            "A device with more tokens counts more.",
            "A mean times its number of tokens is a sum.",
            "Add the sums of all devices, and divide by the number of all tokens.",
        ),
        reference=_mean,
        cases={
            "two devices": (_normal(2, 3, seed=2), torch.tensor([3.0, 1.0])),
            "three devices": (_normal(3, 4, seed=3), torch.tensor([2.0, 5.0, 1.0])),
        },
        wrong={
            "each device has one vote here; each token should": lambda g, s: g.mean(0),
            "the means were added up and not divided": lambda g, s: g.sum(0),
            "the sums were not divided by the number of all tokens": lambda g, s: s @ g,
            "the sums were divided by the number of devices": lambda g, s: (
                s @ g / len(g)
            ),
            "a mean was divided by its tokens once more": lambda g, s: (
                (g / s[:, None]).sum(0) / len(g)
            ),
            "the sum of means was divided by the number of all tokens": lambda g, s: (
                g.sum(0) / s.sum()
            ),
        },
    ),
    "13.3": Predict(
        title="the bubble of a pipeline",
        task="A pipeline has 4 stages and 12 micro-batches, which all take the same time. Each "
        "stage waits while the first ones arrive and the last ones leave. Which share of its time "
        "is a stage idle?",
        hints=(
            "A stage works in 12 slots of time.",
            "The last stage starts 3 slots late.",
            "3 of 12 + 3 slots are idle.",
        ),
        answer=0.2,
        wrong={
            "that compares idle slots with working ones, not with all": 0.25,
            "that is the share in which a stage works": 0.8,
            "stages over micro-batches leaves the wait out": 1 / 3,
            "that is the number of idle slots": 3,
            "4 idle slots are one too many": 4 / 15,
        },
    ),
    "13.4": Predict(
        title="the bytes of a ring",
        task="Four devices add up 8 MB of gradients by a ring: a reduce-scatter, then an "
        "all-gather. How many MB does each device send?",
        hints=(
            "A chunk is 2 MB.",
            "The reduce-scatter has 3 rounds, and so has the all-gather.",
            "6 rounds of 2 MB.",
        ),
        answer=12,
        wrong={
            "that is the reduce-scatter alone": 6,
            "four devices need 3 rounds in each half, not 4": 16,
            "a device sends more than its own gradients once": 8,
            "that is what all devices send together; one is asked for": 48,
            "that is one chunk": 2,
            "that is the way by a single sender: all gradients to 3 others": 24,
        },
    ),
    "13.5": Predict(
        title="bytes of a parameter",
        task="A parameter takes 2 bytes for its weight, 2 for its gradient, and 12 for the "
        "optimizer: a 4-byte copy and two moments. Four devices divide what the optimizer holds, "
        "and nothing else. How many bytes does a parameter take on each device?",
        hints=(
            "Weight and gradient are whole on each device.",
            "The 12 bytes are divided by 4.",
            "2 + 2 + 3.",
        ),
        answer=7,
        wrong={
            "that is without a division": 16,
            "weights and gradients are not divided": 4,
            "the gradient is not divided: it has 2 bytes on each device": 5.5,
            "that is the optimizer alone": 3,
            "the copy of 4 bytes is the optimizer's, and is divided, too": 10,
        },
    ),
}
