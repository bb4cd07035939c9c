"""Exercises of chapter 10: a power law from points, the cost of training, and the roofline."""

import math

import torch
from torch import Tensor

from decoder_only_book.exercises.framework import Exercise, Predict, Write


def _line(x: Tensor, y: Tensor) -> tuple[float, float]:
    """Intercept and slope of the least-squares line."""
    slope = ((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()
    return float(y.mean() - slope * x.mean()), float(slope)


def _law(sizes: Tensor, losses: Tensor) -> tuple[float, float]:
    intercept, slope = _line(sizes.log(), losses.log())
    return math.exp(intercept), -slope


def _ends(sizes: Tensor, losses: Tensor) -> tuple[float, float]:
    ends = torch.tensor([0, len(sizes) - 1])
    return _law(sizes[ends], losses[ends])


def _inverse(sizes: Tensor, losses: Tensor) -> tuple[float, float]:
    intercept, slope = _line(losses.log(), sizes.log())
    return math.exp(-intercept / slope), -1 / slope


def _points(*losses: float) -> tuple[Tensor, Tensor]:
    sizes = torch.tensor([10.0, 40.0, 100.0, 500.0], dtype=torch.float64)[: len(losses)]
    return sizes, torch.tensor(losses, dtype=torch.float64)


def _time(flops: float, moved: float, peak: float, bandwidth: float) -> float:
    return max(flops / peak, moved / bandwidth)


EXERCISES: dict[str, Exercise] = {
    "10.1": Write(
        title="a power law from points",
        task="Fit `losses` = A * `sizes` ** -alpha, both (n,), by least squares in the logarithms "
        "of both. Return A and alpha as floats.",
        stub="def power_law(sizes, losses):\n    ...",
        hints=(
            "In logarithms, the law is a line: log loss = log A - alpha log size.",
            "The slope is the covariance of x and y over the variance of x.",
            "alpha is minus the slope, and A is e to the power of the intercept.",
        ),
        reference=_law,
        cases={
            "four points": _points(5.0, 3.4, 2.9, 1.9),
            "three points": _points(9.0, 7.5, 5.2),
        },
        wrong={
            "alpha has the wrong sign: the law has a minus already": lambda n, y: (
                _law(n, y)[0],
                -_law(n, y)[1],
            ),
            "this is the logarithm of A": lambda n, y: (
                math.log(_law(n, y)[0]),
                _law(n, y)[1],
            ),
            "A and alpha are exchanged": lambda n, y: _law(n, y)[::-1],
            "the line was fitted without logarithms": lambda n, y: (
                _line(n, y)[0],
                -_line(n, y)[1],
            ),
            "the sizes are not in logarithms: that is an exponential law": lambda n, y: (
                math.exp(_line(n, y.log())[0]),
                -_line(n, y.log())[1],
            ),
            "the losses are not in logarithms": lambda n, y: (
                _line(n.log(), y)[0],
                -_line(n.log(), y)[1],
            ),
            "the line goes through the first and the last point; all points count": _ends,
            "sizes were fitted to losses; the errors are those of the losses": _inverse,
            "the logarithm has base 10, and A was found with base e": lambda n, y: (
                math.exp(_line(n.log10(), y.log10())[0]),
                _law(n, y)[1],
            ),
        },
    ),
    "10.2": Write(
        title="time under the roofline",
        task="A kernel does `flops` operations and moves `moved` bytes; the device does `peak` "
        "operations and moves `bandwidth` bytes per second, both at once. Return the shortest "
        "time in seconds, a float.",
        stub="def roofline_time(flops, moved, peak, bandwidth):\n    ...",
        hints=(
            "Computing takes flops / peak seconds.",
            "Moving takes moved / bandwidth seconds.",
            "Both run at once, so the slower one decides.",
        ),
        reference=_time,
        cases={
            "little to compute": (2e9, 4e9, 1e12, 1e11),
            "much to compute": (6e12, 1e9, 1e12, 1e11),
        },
        wrong={
            "both run at once; here one waits for the other": lambda f, m, p, b: (
                f / p + m / b
            ),
            "the slower of the two decides, not the faster": lambda f, m, p, b: min(
                f / p, m / b
            ),
            "the bytes are not counted": lambda f, m, p, b: f / p,
            "the operations are not counted": lambda f, m, p, b: m / b,
            "these are operations per second; return a time": lambda f, m, p, b: (
                f / _time(f, m, p, b)
            ),
            "the fractions are turned round": lambda f, m, p, b: max(p / f, b / m),
            "peak and bandwidth are exchanged": lambda f, m, p, b: _time(f, m, b, p),
        },
    ),
    "10.3": Predict(
        title="the cost of a training run",
        task="A model of 100 million parameters is trained on 2 billion tokens. How many floating-"
        "point operations does that take, by the usual estimate without attention?",
        hints=(
            "Forward, a parameter takes 2 operations for each token.",
            "Backward costs twice as much as forward.",
            "6 N M, for N parameters and M tokens.",
        ),
        answer=1.2e18,
        wrong={
            "that is the forward pass alone": 4e17,
            "backward costs twice as much as forward, and both count": 8e17,
            "a parameter takes more than one operation for each token": 2e17,
            "a multiplication and an addition are two operations": 6e17,
            "that is one token": 6e8,
        },
    ),
    "10.4": Predict(
        title="where the roofline bends",
        task="A device does 300e12 operations and moves 2e12 bytes per second. At how many "
        "operations per byte does it first reach its peak?",
        hints=(
            "At the bend, computing takes as long as moving.",
            "Operations / 300e12 equals bytes / 2e12.",
            "300 / 2.",
        ),
        answer=150,
        wrong={
            "the fraction is turned round": 2 / 300,
            "a rate for each byte is a quotient, not a product": 600e24,
            "the bytes are given: they need no division by numbers of 2 bytes": 300,
            "bytes are asked for, not bits": 18.75,
            "that is the peak": 300e12,
        },
    ),
    "10.5": Predict(
        title="a model a hundred times as large",
        task="A loss follows A * N ** -0.5. By which factor is it multiplied if N becomes 100 "
        "times as large?",
        hints=(
            "A cancels.",
            "The factor is 100 ** -0.5.",
            "One over the root of 100.",
        ),
        answer=0.1,
        wrong={
            "the exponent has a minus: the loss falls": 10,
            "the exponent is a half: the loss falls more slowly than N grows": 0.01,
            "that is the share by which the loss falls": 0.9,
            "the exponent is not a factor": -50,
            "a half is the exponent, not the new loss": 0.5,
        },
    ),
}
