"""Exercises of chapter 5: norms by hand, and one that is folded into the next layer."""

import torch
from torch import Tensor

from decoder_only_book.exercises.framework import Exercise, Predict, Write

EPS = 1e-5


def _normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _centred(x: Tensor, dim: int = -1) -> Tensor:
    return x - x.mean(dim, keepdim=True)


def _layer_norm(x: Tensor, dim: int = -1) -> Tensor:
    centred = _centred(x, dim)
    return centred / (centred.square().mean(dim, keepdim=True) + EPS).sqrt()


def _rms_norm(x: Tensor, gain: Tensor, dim: int = -1) -> Tensor:
    return gain * x / (x.square().mean(dim, keepdim=True) + EPS).sqrt()


def _divided(x: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    return (x - mean) / spread


def _fold(gain: Tensor, bias: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return weight * gain, weight @ bias


_GAIN, _BIAS = 1 + _normal(4, seed=5), _normal(4, seed=6)

EXERCISES: dict[str, Exercise] = {
    "5.1": Write(
        title="layer norm without gain and bias",
        task="Normalize each row of `x`, (S, D): subtract the row's mean, then divide by the root "
        "of the row's variance plus 1e-5. The variance is the mean of the squares.",
        stub="def layer_norm(x):\n    ...",
        hints=(
            "A mean over the last dimension, kept as a column: x.mean(-1, keepdim=True).",
            "The variance is the mean of the squares of what is left.",
            "Divide by the root of (variance + 1e-5).",
        ),
        reference=_layer_norm,
        cases={
            "three rows": (_normal(3, 4, seed=0) + 2,),
            "small numbers": (0.003 * _normal(4, 4, seed=1),),
        },
        wrong={
            "each row has its own mean and variance, not each column": lambda x: (
                _layer_norm(x, 0)
            ),
            "the mean is not subtracted: that is an RMSNorm": lambda x: (
                x / (x.square().mean(-1, keepdim=True) + EPS).sqrt()
            ),
            "the rows are centred, and not divided": _centred,
            "the variance divides by D, not by D - 1": lambda x: (
                _centred(x) / (x.var(-1, keepdim=True) + EPS).sqrt()
            ),
            "1e-5 belongs inside of the root": lambda x: (
                _centred(x) / (x.std(-1, keepdim=True, correction=0) + EPS)
            ),
            "1e-5 is missing": lambda x: (
                _centred(x) / x.std(-1, keepdim=True, correction=0)
            ),
            "divide by the root of the variance, not by the variance": lambda x: (
                _centred(x) / (x.var(-1, keepdim=True, correction=0) + EPS)
            ),
            "all rows together have one mean and one variance here": lambda x: (
                (x - x.mean()) / (x.var(correction=0) + EPS).sqrt()
            ),
        },
    ),
    "5.2": Write(
        title="a norm folded into the next layer",
        task="A norm ends with n * gain + bias, and a linear layer computes weight @ that, with "
        "`weight` of shape (F, D). Return a new weight, (F, D), and a new bias, (F,), so that the "
        "layer gives the same from n alone.",
        stub="def fold(gain, bias, weight):\n    ...",
        hints=(
            "Write out output f: the sum over d of weight[f, d] * (n[d] * gain[d] + bias[d]).",
            "What multiplies n[d] in it? What is left if n is zero?",
            "weight * gain scales the columns, and weight @ bias is the rest.",
        ),
        reference=_fold,
        cases={
            "four outputs": (_GAIN, _BIAS, _normal(4, 4, seed=7)),
            "another layer": (_GAIN.square(), -_BIAS, _normal(4, 4, seed=8)),
        },
        wrong={
            "the gain scales rows here; it belongs to the columns, which read n": (
                lambda g, b, w: (w * g[:, None], w @ b)
            ),
            "the new bias must go through the layer": lambda g, b, w: (w * g, b),
            "the bias is not multiplied by the gain": lambda g, b, w: (
                w * g,
                w @ (g * b),
            ),
            "the layer divides by the gain here; it should multiply": lambda g, b, w: (
                w / g,
                w @ b,
            ),
            "the new bias was made with the transposed weight": lambda g, b, w: (
                w * g,
                w.T @ b,
            ),
            "the weight still is the old one": lambda g, b, w: (w, w @ b),
        },
    ),
    "5.3": Predict(
        title="a row on paper",
        task="Layer norm, without gain, bias and 1e-5, is applied to (1, 3, 5, 7). What becomes of "
        "the last number?",
        hints=(
            "The mean is 4.",
            "The squares of -3, -1, 1 and 3 have the mean 5.",
            "3 divided by the root of 5.",
        ),
        answer=3 / 5**0.5,
        wrong={
            "that is centred, and not yet divided": 3,
            "divide by the root of the variance": 0.6,
            "the variance divides by 4, not by 3": 3 / (20 / 3) ** 0.5,
            "that is an RMSNorm: the mean was not subtracted": 7 / 21**0.5,
            "that is the first number": -3 / 5**0.5,
        },
    ),
    "5.4": Predict(
        title="a shrinking signal",
        task="Each of 24 parts without a residual connection multiplies its signal by 0.8. Which "
        "share of the signal is left at the end?",
        hints=(
            "Factors multiply; they do not add up.",
            "0.8 to the power of 24.",
            "0.8 to the power of 10 is about 0.107.",
        ),
        answer=0.8**24,
        wrong={
            "each part multiplies what the last one left": 24 * 0.8,
            "that is what is left after one part": 0.8,
            "that is what is lost": 1 - 0.8**24,
            "each part loses a fifth of what is left, not of the first signal": 1
            - 24 * 0.2,
            "that is growth by 1.25, the other way round": 1.25**24,
        },
    ),
    "5.5": Predict(
        title="the numbers of a norm",
        task="A model has 12 blocks of two layer norms each and a final one, all with gain and "
        "bias, at D = 768. How many numbers do they hold?",
        hints=(
            "One norm has a gain and a bias of D numbers each.",
            "There are 25 norms.",
            "25 times 2 times 768.",
        ),
        answer=25 * 2 * 768,
        wrong={
            "the bias has D numbers, too": 25 * 768,
            "the final norm is missing": 24 * 2 * 768,
            "each block has two norms": 13 * 2 * 768,
            "that is one norm": 2 * 768,
            "a gain has one number for each dimension": 25 * 2,
        },
    ),
    "5.6": Write(
        title="RMSNorm",
        task="Divide each row of `x`, (S, D), by the root of the mean of its squares plus 1e-5. "
        "No mean is subtracted. Then multiply each column by its number in `gain`, (D,).",
        stub="def rms_norm(x, gain):\n    ...",
        hints=(
            "The mean of the squares of each row: x.square().mean(-1, keepdim=True).",
            "Divide x by the root of (that mean + 1e-5).",
            "Multiply the result by gain: its D numbers meet the D columns.",
        ),
        reference=_rms_norm,
        cases={
            "three rows": (_normal(3, 4, seed=0) + 2, _GAIN),
            "small numbers": (0.003 * _normal(4, 4, seed=1), _GAIN),
        },
        wrong={
            "the mean is subtracted: that is a LayerNorm": lambda x, g: (
                g * _layer_norm(x)
            ),
            "the gain is missing": lambda x, g: _rms_norm(x, torch.ones(4)),
            "the gain multiplies, and does not divide": lambda x, g: _rms_norm(
                x, 1 / g
            ),
            "each row has its own root, not each column": lambda x, g: _rms_norm(
                x, g, 0
            ),
            "the squares are added up; their mean is asked for": lambda x, g: (
                g * x / (x.square().sum(-1, keepdim=True) + EPS).sqrt()
            ),
            "divide by the root of the mean square, not by the mean square": lambda x, g: (
                g * x / (x.square().mean(-1, keepdim=True) + EPS)
            ),
            "1e-5 is missing": lambda x, g: (
                g * x / x.square().mean(-1, keepdim=True).sqrt()
            ),
            "1e-5 belongs inside of the root": lambda x, g: (
                g * x / (x.square().mean(-1, keepdim=True).sqrt() + EPS)
            ),
        },
    ),
}
