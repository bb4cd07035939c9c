"""Exercises of chapter 12: thin matrices, preferences, and the loss on answers alone."""

import math

import torch
from torch import Tensor

from decoder_only_book.exercises.framework import Exercise, Predict, Write


def _normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _lora(x: Tensor, W: Tensor, A: Tensor, U: Tensor, alpha: float) -> Tensor:
    return x @ W.T + alpha / len(A) * (x @ A.T) @ U.T


def _dpo(
    good: Tensor, bad: Tensor, good_ref: Tensor, bad_ref: Tensor, beta: float
) -> Tensor:
    margin = (good - good_ref) - (bad - bad_ref)
    return -(beta * margin).sigmoid().log().mean()


def _answers(losses: Tensor, is_answer: Tensor) -> Tensor:
    return losses[is_answer].mean()


def _adapter(seed: int, rank: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shapes = (3, 4), (5, 4), (rank, 4), (5, rank)
    x, W, A, U = [_normal(*shape, seed=seed + n) for n, shape in enumerate(shapes)]
    return x, W, A, U


def _log_probabilities(seed: int) -> list[Tensor]:
    return [-_normal(3, seed=seed + n).abs() for n in range(4)]


_IS_ANSWER = torch.tensor([[False, True, True, True], [False, False, False, True]])

EXERCISES: dict[str, Exercise] = {
    "12.1": Write(
        title="a layer with a thin pair of matrices",
        task="Give the output of a layer with LoRA. `x` is (S, D), the frozen `W` (E, D), `A` "
        "(r, D), and `U` (E, r). The pair is scaled by `alpha` / r. Return (S, E).",
        stub="def lora(x, W, A, U, alpha):\n    ...",
        hints=(
            "The frozen layer gives x @ W.T; what the pair gives is added.",
            "The pair takes x down to r components and up again: (x @ A.T) @ U.T.",
            "The scale is alpha / len(A).",
        ),
        reference=_lora,
        cases={
            "rank 2": (*_adapter(0, 2), 8.0),
            "rank 3": (*_adapter(10, 3), 1.0),
        },
        wrong={
            "the frozen matrix alone was used": lambda x, W, A, U, a: x @ W.T,
            "the frozen matrix is missing": lambda x, W, A, U, a: _lora(
                x, 0 * W, A, U, a
            ),
            "alpha is not divided by the rank": lambda x, W, A, U, a: _lora(
                x, W, A, U, a * len(A)
            ),
            "the pair is not scaled": lambda x, W, A, U, a: _lora(x, W, A, U, len(A)),
            "the scale is turned round: it is alpha / r": lambda x, W, A, U, a: _lora(
                x, W, A, U, len(A) ** 2 / a
            ),
            "the frozen output is scaled, too": lambda x, W, A, U, a: (
                a / len(A) * _lora(x, W, A, U, len(A))
            ),
            "what the pair gives is subtracted; it should be added": lambda x, W, A, U, a: (
                _lora(x, W, A, U, -a)
            ),
            "alpha is divided by the width; the rank is the number of rows of A": (
                lambda x, W, A, U, a: _lora(x, W, A, U, a * len(A) / x.shape[1])
            ),
        },
    ),
    "12.2": Write(
        title="the loss of DPO",
        task="`good` and `bad`, (B,), are the log-probabilities that the model gives to the "
        "preferred answers and to the others; `good_ref` and `bad_ref` come from the reference "
        "model. Return the mean loss of DPO, a tensor with one number.",
        stub="def dpo(good, bad, good_ref, bad_ref, beta):\n    ...",
        hints=(
            "An answer's reward is beta times its log-probability minus that of the reference.",
            "The margin is the reward of the preferred answer minus that of the other.",
            "The loss is minus the logarithm of the sigmoid of the margin.",
        ),
        reference=_dpo,
        cases={
            "a small beta": (*_log_probabilities(0), 0.1),
            "a large beta": (*_log_probabilities(10), 2.0),
        },
        wrong={
            "the sign is turned: a loss is not negative": lambda *a: -_dpo(*a),
            "the margin is turned round: it prefers the bad answers": lambda g, b, gr, br, c: (
                _dpo(b, g, br, gr, c)
            ),
            "the reference model is not used": lambda g, b, gr, br, c: _dpo(
                g, b, 0 * gr, 0 * br, c
            ),
            "the reference's margin is added; it should be taken off": lambda g, b, gr, br, c: (
                _dpo(g, b, -gr, -br, c)
            ),
            "beta is not used": lambda *a: _dpo(*a[:4], 1.0),
            "the margin is divided by beta": lambda *a: _dpo(*a[:4], 1 / a[4]),
            "beta stands outside the sigmoid": lambda *a: a[4] * _dpo(*a[:4], 1.0),
            "this is the sum over pairs; the mean is asked for": lambda *a: (
                len(a[0]) * _dpo(*a)
            ),
            "the logarithm is missing": lambda g, b, gr, br, c: (
                -(c * ((g - gr) - (b - br))).sigmoid().mean()
            ),
            "the mean is taken of the margins; each pair has its own loss": (
                lambda g, b, gr, br, c: (
                    -(c * ((g - gr) - (b - br))).mean().sigmoid().log()
                )
            ),
        },
    ),
    "12.3": Write(
        title="the loss on answers alone",
        task="`losses`, (B, S), holds the loss of each target, and `is_answer`, (B, S), whether "
        "this target belongs to an answer. Return the mean over all tokens of answers.",
        stub="def answer_loss(losses, is_answer):\n    ...",
        hints=(
            "Only tokens of answers count, in the sum and in the number by which it is divided.",
            "Every token counts the same, whatever the length of its answer.",
            "losses[is_answer].mean().",
        ),
        reference=_answers,
        cases={
            "two answers": (_normal(2, 4, seed=20).abs(), _IS_ANSWER),
            "two longer ones": (
                1 + _normal(2, 8, seed=21).abs(),
                _IS_ANSWER.repeat(1, 2),
            ),
        },
        wrong={
            "the questions count, too": lambda x, a: x.mean(),
            "these are the questions; the answers are asked for": lambda x, a: x[
                ~a
            ].mean(),
            "the sum is divided by the number of all tokens": lambda x, a: (
                x * a
            ).mean(),
            "this is the sum; the mean is asked for": lambda x, a: x[a].sum(),
            "each answer has one vote here; each token should": lambda x, a: (
                (x * a).sum(1) / a.sum(1)
            ).mean(),
            "the sum is divided by the number of answers, not of their tokens": lambda x, a: (
                x[a].sum() / len(x)
            ),
            "the mask is one place late: it belongs to the targets already": lambda x, a: (
                x[:, 1:][a[:, :-1]].mean()
            ),
        },
    ),
    "12.4": Predict(
        title="the parameters of a thin pair",
        task="A matrix of 512 by 512 is frozen, and gets a pair of rank 4. Which share of the "
        "matrix's own number of parameters is trained, in percent?",
        hints=(
            "The pair is one matrix of 4 by 512 and one of 512 by 4.",
            "That is 8 * 512 parameters, where the matrix has 512 * 512.",
            "8 / 512, in percent.",
        ),
        answer=1.5625,
        wrong={
            "the pair has two matrices": 0.78125,
            "that is the share; percent are asked for": 0.015625,
            "that is the number of parameters": 4_096,
            "the pair is thin: a matrix of 4 by 512, not of 4 by 4": 100
            * 2
            * 16
            / 512**2,
            "that is the share that is frozen": 98.4375,
        },
    ),
    "12.5": Predict(
        title="the first loss of DPO",
        task="The model that is trained starts as a copy of the reference. What is its first loss, "
        "in nats, with beta = 0.1?",
        hints=(
            "Both models give the same log-probabilities.",
            "So every margin is 0, whatever beta is.",
            "Minus the logarithm of the sigmoid of 0.",
        ),
        answer=math.log(2),
        wrong={
            "that is the margin": 0,
            "that is the sigmoid of the margin; its logarithm is missing": 0.5,
            "that is in bits": 1,
            "a loss is not negative": -math.log(2),
            "beta multiplies the margin, not the loss": 0.1 * math.log(2),
        },
    ),
}
