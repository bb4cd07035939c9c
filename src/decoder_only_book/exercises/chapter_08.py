"""Exercises of chapter 8: the wiring of a block, and from the stream to logits."""

from collections.abc import Callable

import torch
from torch import Tensor

from decoder_only_book.exercises.framework import Exercise, Write


def _double(x: Tensor) -> Tensor:
    return 2 * x


def _shifted(x: Tensor) -> Tensor:
    return x.roll(1, dims=0) + 1


def _scaled(x: Tensor) -> Tensor:
    return x / x.square().mean(dim=-1, keepdim=True).sqrt()


def _square(x: Tensor) -> Tensor:
    return x.square()


def _block(x: Tensor, norm: Callable, attention: Callable, mlp: Callable) -> Tensor:
    x = x + attention(norm(x))
    return x + mlp(norm(x))


_X = torch.randn((3, 4), generator=torch.Generator().manual_seed(0))


def _head(x: Tensor, norm: Callable, table: Tensor) -> Tensor:
    return norm(x) @ table.T


_TABLE = torch.randn((4, 4), generator=torch.Generator().manual_seed(1))

EXERCISES: dict[str, Exercise] = {
    "8.1": Write(
        title="a pre-norm block",
        task="Wire a block. `norm`, `attention` and `mlp` are functions of the stream `x`, "
        "shape (S, D). Each part reads a normalized copy and adds to the stream.",
        stub="def block(x, norm, attention, mlp):\n    ...",
        hints=(
            "Attention comes first, and the MLP reads what attention has added.",
            "What is added is computed from a normalized copy; the stream is not normalized.",
            "Two lines, each of the form x = x + part(norm(x)).",
        ),
        reference=_block,
        cases={
            "one set of parts": (_X, _scaled, _shifted, _square),
            "another": (_X + 1, _scaled, _square, _double),
        },
        wrong={
            "the norms come after the sums: that is a post-norm block": lambda x, n, a, m: (
                n(n(x + a(x)) + m(n(x + a(x))))
            ),
            "both residual connections are missing": lambda x, n, a, m: m(n(a(n(x)))),
            "the residual connection round attention is missing": lambda x, n, a, m: (
                a(n(x)) + m(n(a(n(x))))
            ),
            "the residual connection round the MLP is missing": lambda x, n, a, m: m(
                n(x + a(n(x)))
            ),
            "no part reads a normalized copy": lambda x, n, a, m: (
                x + a(x) + m(x + a(x))
            ),
            "attention and MLP run side by side; the MLP comes after": lambda x, n, a, m: (
                x + a(n(x)) + m(n(x))
            ),
            "the MLP comes before attention": lambda x, n, a, m: _block(x, n, m, a),
        },
    ),
    "8.2": Write(
        title="from the stream to logits",
        task="Give the logits, (S, V), of a model whose head shares the `table`, (V, D), of its "
        "embedding. `norm` is the final norm, and `x` the stream after the last block, (S, D).",
        stub="def logits(x, norm, table):\n    ...",
        hints=(
            "A logit is a dot product.",
            "Normalize the stream first.",
            "Multiply by the transposed table.",
        ),
        reference=_head,
        cases={
            "three positions": (_X, _scaled, _TABLE),
            "a longer text": (_X.repeat(2, 1) + 1, _scaled, _TABLE),
        },
        wrong={
            "the final norm is missing": lambda x, n, t: x @ t.T,
            "the table must be transposed: its rows are the tokens": lambda x, n, t: (
                n(x) @ t
            ),
            "these are probabilities; logits come before the softmax": lambda x, n, t: (
                n(x) @ t.T
            ).softmax(-1),
            "these are log-probabilities; logits come before the softmax": lambda x, n, t: (
                (n(x) @ t.T).log_softmax(-1)
            ),
            "the logits are normalized; the stream should be": lambda x, n, t: n(
                x @ t.T
            ),
        },
    ),
}
