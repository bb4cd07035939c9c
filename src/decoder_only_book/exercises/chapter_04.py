"""Exercises of chapter 4: heads split and joined, groups of heads, and the bytes of a cache."""

import torch
from torch import Tensor

from decoder_only_book.exercises.framework import Exercise, Predict, Write


def _normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _split(x: Tensor, heads: int) -> Tensor:
    S, D = x.shape
    return x.view(S, heads, D // heads).transpose(0, 1)


def _join(x: Tensor) -> Tensor:
    return x.transpose(0, 1).reshape(x.shape[1], -1)


def _repeat(keys: Tensor, queries_each: int) -> Tensor:
    return keys.repeat_interleave(queries_each, dim=0)


EXERCISES: dict[str, Exercise] = {
    "4.1": Write(
        title="split into heads",
        task="Split `x`, (S, D), into heads of equal width: return (heads, S, K), with K = D / "
        "heads. Head 0 has the first K components of each position.",
        stub="def split(x, heads):\n    ...",
        hints=(
            "A position keeps its components; only their grouping is new.",
            "First cut D into heads and K: the shape (S, heads, K).",
            "x.view(S, heads, K).transpose(0, 1).",
        ),
        reference=_split,
        cases={
            "two heads": (_normal(6, 4, seed=0), 2),
            "three heads": (_normal(3, 12, seed=1), 3),
        },
        wrong={
            "the view goes straight to (heads, S, K), and mixes positions": lambda x, h: (
                x.reshape(h, len(x), -1)
            ),
            "positions come first here; heads should": lambda x, h: _split(
                x, h
            ).transpose(0, 1),
            "neighbouring components belong to one head; here they are dealt out in turn": (
                lambda x, h: x.view(len(x), -1, h).permute(2, 0, 1)
            ),
            "positions and components are exchanged within each head": lambda x, h: (
                _split(x, h).transpose(1, 2)
            ),
            "the heads are in the opposite order": lambda x, h: _split(x, h).flip(0),
            "each head has a copy of all components; it should have its own share": (
                lambda x, h: x.expand(h, *x.shape)
            ),
        },
    ),
    "4.2": Write(
        title="join the heads",
        task="Undo the split: `x` is (heads, S, K). Return (S, D), with the K components of head 0 "
        "first at each position.",
        stub="def join(x):\n    ...",
        hints=(
            "The heads must come beside the components before they can become one dimension.",
            "x.transpose(0, 1) is (S, heads, K).",
            "Use reshape, because a view needs another order in memory.",
        ),
        reference=_join,
        cases={
            "two heads": (_normal(2, 6, 2, seed=2),),
            "three heads": (_normal(3, 3, 4, seed=3),),
        },
        wrong={
            "the reshape comes without the exchange of dimensions, and mixes positions": (
                lambda x: x.reshape(x.shape[1], -1)
            ),
            "the heads were added up; they should stand side by side": lambda x: x.sum(
                0
            ),
            "the heads were averaged; they should stand side by side": lambda x: x.mean(
                0
            ),
            "the components of the heads alternate; each head's should stay together": (
                lambda x: x.permute(1, 2, 0).reshape(x.shape[1], -1)
            ),
            "the heads stand one below the other; they should stand side by side": (
                lambda x: x.reshape(-1, x.shape[-1])
            ),
            "the heads are in the opposite order": lambda x: _join(x.flip(0)),
        },
    ),
    "4.3": Write(
        title="keys shared by a group",
        task="`keys`, (G, S, K), has one head of keys for each group of `queries_each` heads of "
        "queries; neighbouring heads form a group. Return keys for all heads of queries, "
        "(G * queries_each, S, K).",
        stub="def share(keys, queries_each):\n    ...",
        hints=(
            "With two groups of two, heads 0 and 1 read the keys of group 0.",
            "Head h reads the keys of group h // queries_each.",
            "keys.repeat_interleave(queries_each, dim=0).",
        ),
        reference=_repeat,
        cases={
            "two groups of two": (_normal(2, 3, 4, seed=4), 2),
            "two groups of three": (_normal(2, 5, 2, seed=5), 3),
        },
        wrong={
            "the groups are dealt out in turn: 0, 1, 0, 1; neighbours form a group": (
                lambda k, n: k.repeat(n, 1, 1)
            ),
            "positions were repeated; heads should be": lambda k, n: (
                k.repeat_interleave(n, dim=1)
            ),
            "components were repeated; heads should be": lambda k, n: (
                k.repeat_interleave(n, dim=2)
            ),
            "every head reads the keys of group 0": lambda k, n: _repeat(
                k[:1], n * len(k)
            ),
            "the keys are not repeated": lambda k, n: k,
            "the keys are divided by the size of the group; they are copies": lambda k, n: (
                _repeat(k, n) / n
            ),
        },
    ),
    "4.4": Predict(
        title="the bytes of a cache",
        task="A model has 12 layers with 8 heads of keys and 8 heads of values, each 64 wide. Its "
        "cache holds 1,024 tokens with 2 bytes a number. How many MiB is the cache?",
        hints=(
            "A token leaves 2 * 8 * 64 numbers in each layer: a key and a value for each head.",
            "Multiply by 12 layers, 1,024 tokens and 2 bytes.",
            "1 MiB is 1,024 * 1,024 bytes.",
        ),
        answer=24,
        wrong={
            "values are kept, too, not keys alone": 12,
            "each number has 2 bytes, not 4": 48,
            "that is one layer": 2,
            "that is one head of each layer": 3,
            "that is in bytes": 24 * 1_024**2,
            "a MiB is 1,024 times 1,024 bytes, not a million": 25.165824,
        },
    ),
    "4.5": Predict(
        title="fewer heads of keys",
        task="A layer of width 64 has 8 heads of queries, 8 wide, and 2 heads of keys and values. "
        "How many parameters do its four matrices have, without biases?",
        hints=(
            "The matrices of the queries and of the output are 64 by 64.",
            "The matrix of the keys is 64 by 16.",
            "2 * 64 * 64 + 2 * 64 * 16.",
        ),
        answer=10_240,
        wrong={
            "that is with a key and a value for each query": 16_384,
            "the matrix of the output is missing": 6_144,
            "the matrices of keys or of values are missing, or they have one head": 9_216,
            "the matrices of keys and of values are missing": 8_192,
            "queries have 8 heads; only keys and values have 2": 4_096,
        },
    ),
}
