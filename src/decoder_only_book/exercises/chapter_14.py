"""Exercises of chapter 14: a probe and its control, what each part says, and what is used."""

import math

import torch
from torch import Tensor

from decoder_only_book.exercises.framework import Exercise, Predict, Write


def _normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _accuracy(
    x: Tensor,
    labels: Tensor,
    judged: Tensor | None = None,
    constant: bool = True,
    threshold: float = 0.5,
) -> float:
    """How often a linear probe by least squares agrees with the labels."""
    columns = torch.cat([x, torch.ones(len(x), 1)], dim=1) if constant else x
    weights = torch.linalg.lstsq(columns, labels[:, None]).solution[:, 0]
    judged = labels if judged is None else judged
    return ((columns @ weights > threshold) == (judged > 0.5)).float().mean().item()


def _selectivity(x: Tensor, labels: Tensor, shuffled: Tensor) -> float:
    return _accuracy(x, labels) - _accuracy(x, shuffled)


def _probe_case(seed: int, number: int) -> tuple[Tensor, Tensor, Tensor]:
    x = _normal(number, 3, seed=seed) + 0.5
    labels = (x[:, 0] + 0.7 * _normal(number, seed=seed + 1) > 0.8).float()
    order = torch.randperm(number, generator=torch.Generator().manual_seed(seed + 2))
    return x, labels, labels[order]


def _attribution(
    parts: Tensor, scale: float, gain: Tensor, right: Tensor, other: Tensor
) -> Tensor:
    return (parts / scale * gain) @ (right - other)


def _own_scale(parts: Tensor) -> Tensor:
    return parts.square().mean(1, keepdim=True).sqrt()


def _stream(seed: int, number: int) -> tuple[Tensor, float, Tensor, Tensor, Tensor]:
    gain, right, other = _normal(3, 5, seed=seed + 1)
    return _normal(number, 5, seed=seed), 0.5 + seed, gain, right, other


EXERCISES: dict[str, Exercise] = {
    "14.1": Write(
        title="a probe and its control",
        task="Fit a linear probe with a constant to `labels`, (N,), of 0 and 1 by least squares on "
        "`x`, (N, D). It says 1 where its output is above 0.5. Return its accuracy on the same N "
        "points, minus that of a second probe, fitted to and judged by `shuffled`, (N,). Return "
        "a float.",
        stub="def selectivity(x, labels, shuffled):\n    ...",
        hints=(
            "A column of ones beside x gives the constant.",
            "torch.linalg.lstsq(columns, labels[:, None]).solution gives the weights.",
            "Write one function for an accuracy; call it with both kinds of labels.",
        ),
        reference=_selectivity,
        cases={
            "30 points": _probe_case(0, 30),
            "41 points": _probe_case(10, 41),
            "53 points": _probe_case(20, 53),
        },
        wrong={
            "the control is missing": lambda x, y, s: _accuracy(x, y),
            "this is the control alone": lambda x, y, s: _accuracy(x, s),
            "the difference is turned round": lambda x, y, s: -_selectivity(x, y, s),
            "the control is judged by the true labels; it should be by its own": lambda x, y, s: (
                _accuracy(x, y) - _accuracy(x, s, judged=y)
            ),
            "the probe has no constant": lambda x, y, s: (
                _accuracy(x, y, constant=False) - _accuracy(x, s, constant=False)
            ),
            "the threshold is 0; between labels of 0 and 1 it is 0.5": lambda x, y, s: (
                _accuracy(x, y, threshold=0) - _accuracy(x, s, threshold=0)
            ),
            "a guess of one half was taken off; the control's accuracy should be": (
                lambda x, y, s: _accuracy(x, y) - 0.5
            ),
            "the true probe is judged by the shuffled labels": lambda x, y, s: (
                _accuracy(x, y) - _accuracy(x, y, judged=s)
            ),
        },
    ),
    "14.2": Write(
        title="direct logit attribution",
        task="The stream before the final norm is the sum of `parts`, (n, D). The norm divides it "
        "by the number `scale` and multiplies by `gain`, (D,). `right` and `other`, (D,), are the "
        "rows of two tokens in the head. Return how much each part adds to the logit of `right` "
        "minus that of `other`, (n,).",
        stub="def attribution(parts, scale, gain, right, other):\n    ...",
        hints=(
            "With the scale fixed, a logit is a sum over parts.",
            "Each part is divided by the same scale, that of the whole stream.",
            "(parts / scale * gain) @ (right - other).",
        ),
        reference=_attribution,
        cases={
            "three parts": _stream(0, 3),
            "four parts": _stream(1, 4),
        },
        wrong={
            "the scale is not used": lambda p, s, g, r, o: _attribution(
                p, 1.0, g, r, o
            ),
            "the gain is not used": lambda p, s, g, r, o: _attribution(p, s, 1.0, r, o),
            "each part has a scale of its own; all should share one": (
                lambda p, s, g, r, o: _attribution(p, _own_scale(p), g, r, o)
            ),
            "the difference of tokens is turned round": lambda p, s, g, r, o: (
                _attribution(p, s, g, o, r)
            ),
            "the other token is not used": lambda p, s, g, r, o: _attribution(
                p, s, g, r, 0 * o
            ),
            "the parts were added up; one number for each part is asked for": (
                lambda p, s, g, r, o: _attribution(p, s, g, r, o).sum()
            ),
            "these are shares of the whole difference": lambda p, s, g, r, o: (
                _attribution(p, s, g, r, o) / _attribution(p, s, g, r, o).sum()
            ),
            "the stream is multiplied by the scale; the norm divides": lambda p, s, g, r, o: (
                _attribution(p, 1 / s, g, r, o)
            ),
        },
    ),
    "14.3": Predict(
        title="a patched run",
        task="A logit difference is 4 in the clean run and -1 in the corrupted one. With the "
        "output of a head put back from the clean run, the corrupted run has 2. Which share of "
        "the difference between the runs does this head restore?",
        hints=(
            "The runs differ by 5.",
            "The head restores 3 of them.",
            "(patched - corrupted) / (clean - corrupted).",
        ),
        answer=0.6,
        wrong={
            "the corrupted run is the zero, not a difference of 0": 0.5,
            "that is the share that is not restored": 0.4,
            "that is the change; a share is asked for": 3,
            "the runs differ by 5: the corrupted one has -1": 1,
            "the whole is the difference between the runs, not the clean value": 0.75,
        },
    ),
    "14.4": Predict(
        title="where an induction head looks",
        task="A text is A B C D A, with position 1 first. An induction head reads at position 5. "
        "To which position does it attend?",
        hints=(
            "It looks for an earlier place where the present token stood.",
            "It attends to what came after that place.",
            "A stood at position 1.",
        ),
        answer=2,
        wrong={
            "that is the same token; the head attends to the one after it": 1,
            "that is the position before; an earlier head looks there": 4,
            "that is the present position": 5,
            "two places after the same token is too far": 3,
            "the first position is number 1": 0,
        },
    ),
    "14.5": Predict(
        title="a difference of logits in odds",
        task="A part adds 1.5 to the logit of one token and 0.5 to the logit of another. By which "
        "factor does it multiply the ratio of their probabilities?",
        hints=(
            "A probability is proportional to e to the power of its logit.",
            "The ratio changes by e to the power of the difference.",
            "e to the power of 1.",
        ),
        answer=math.e,
        wrong={
            "the ratio of the logits is not that of the probabilities": 3,
            "that is the difference of logits; its power is asked for": 1,
            "the base is e": 2,
            "the logits are subtracted, not added": math.exp(2),
            "the other token's logit counts, too": math.exp(1.5),
            "the ratio is turned round": math.exp(-1),
        },
    ),
}
