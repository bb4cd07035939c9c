"""Exercises of chapter 8: the wiring of a block, and from the stream to logits."""

from collections.abc import Callable

import torch
from torch import Tensor

from decoder_only_book.exercises.framework import Exercise, Find, Predict, Write


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


def _attended(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return (keys @ query / len(query) ** 0.5).softmax(0) @ values


def _cached_step(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    keys = torch.cat([keys, key[None]])
    values = torch.cat([values, value[None]])
    return _attended(query, keys, values), keys, values


_TABLE = torch.randn((4, 4), generator=torch.Generator().manual_seed(1))

_FAULTY = """\
def block(x, norm, attention, mlp):
    read = norm(x)
    change = attention(read)
    x = x + change
    change = mlp(read)
    x = x + change
    return x
"""

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
            "the norm replaces the stream; give the part a normalized copy, and add to x itself": (
                lambda x, n, a, m: _block(n(x), lambda x: x, a, m)
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
    "8.3": Write(
        title="one step with a cache",
        task="A cache keeps the keys and values of earlier tokens, so that they need not be "
        "computed again. A new token arrives with its own `query`, `key` and `value`, each (K,). "
        "Add its key and value to the cached `keys` and `values`, (S, K). Then attend from its "
        "query. Return three things: the output, (K,), the keys and the values, each (S + 1, K), "
        "for the next step.",
        stub="def cached_step(query, key, value, keys, values):\n    ...",
        hints=(
            "The new token sees itself, so its key and its value are in the cache first.",
            "The query is alone: nothing in the cache is in its future, and no mask is needed.",
            "torch.cat([keys, key[None]]), the same for values, then attention as in chapter 3.",
        ),
        reference=_cached_step,
        cases={
            "three tokens before": (_X[0], _X[1], _X[2], _TABLE[:3], _TABLE[1:]),
            "one token before": (_X[2], _X[0], _X[1], _TABLE[:1], _TABLE[3:]),
        },
        wrong={
            "the token does not see itself": lambda *a: (
                _attended(a[0], a[3], a[4]),
                *_cached_step(*a)[1:],
            ),
            "keys and values do not grow; the next step will miss this token": lambda *a: (
                _cached_step(*a)[0],
                a[3],
                a[4],
            ),
            "the new token comes first in the cache; its place is the last": lambda *a: (
                _cached_step(*a)[0],
                _cached_step(*a)[1].roll(1, 0),
                _cached_step(*a)[2].roll(1, 0),
            ),
            "the scores are not divided by the root of K": lambda *a: _cached_step(
                2 * a[0], *a[1:]
            ),
            "keys and values are exchanged": lambda q, k, v, ks, vs: _cached_step(
                q, v, k, vs, ks
            ),
            "the output, then the keys, then the values: yours come in another order": (
                lambda *a: tuple(_cached_step(*a)[i] for i in (0, 2, 1))
            ),
            "the output is the first of the three": lambda *a: tuple(
                _cached_step(*a)[i] for i in (1, 2, 0)
            ),
            "the scores are divided by the root of the number of keys; K is their width": (
                lambda *a: _cached_step(
                    a[0] * (len(a[0]) / (len(a[3]) + 1)) ** 0.5, *a[1:]
                )
            ),
            "the cache holds the query; the key belongs there": lambda q, k, v, ks, vs: (
                _cached_step(q, q, v, ks, vs)
            ),
        },
    ),
    "8.4": Predict(
        title="the parameters of a block",
        task="A block of width D = 10 has four matrices of D by D in its attention, and an MLP of "
        "two matrices with a hidden width of 4 D. There are no biases. How many parameters do "
        "the matrices of one block have?",
        hints=(
            "Attention has 4 D² parameters.",
            "Each matrix of the MLP has 4 D² parameters.",
            "12 D².",
        ),
        answer=1_200,
        wrong={
            "that is attention alone": 400,
            "that is the MLP alone": 800,
            "the hidden width is 4 D": 600,
            "a matrix has D squared parameters": 120,
            "attention has an output matrix, too": 1_100,
        },
    ),
    "8.5": Predict(
        title="the work without a cache",
        task="A model has read 8 tokens and then writes 4 more, one at a time. Without a cache, it "
        "reads its whole text again for each of the 4. How many positions does it pass through "
        "its blocks in all 4 readings together? The reading of the 8 gives the first new token.",
        hints=(
            "The first new token comes from a reading of 8 positions.",
            "The second one needs 9, because the first new token is now read, too.",
            "8 + 9 + 10 + 11.",
        ),
        answer=38,
        wrong={
            "that is with a cache": 11,
            "the text grows with each token": 32,
            "the first new token comes from 8 positions, not from 9": 42,
            "the token written last is not read": 50,
            "the first reading counts, too": 30,
            "the reading of the 8 is the first of the 4, not one more": 46,
            "with a cache, the token written last is still not read": 12,
        },
    ),
    "8.6": Find(
        title="a fault in a block",
        task="One line of this code is at fault. Give its number; the first line is number 1.",
        code=_FAULTY,
        hints=(
            "What does the MLP read?",
            "The MLP should see what attention has added.",
            "The normalized copy is older than the sum.",
        ),
        answer=5,
        wrong={
            "line 1 is right: a block needs the stream and its three parts": 1,
            "line 2 is right: attention reads a normalized copy": 2,
            "line 3 is right: attention comes first": 3,
            "line 4 is right: attention adds to the stream": 4,
            "line 6 is right: the MLP adds to the stream": 6,
            "line 7 is right: the stream itself is passed on": 7,
        },
    ),
}
