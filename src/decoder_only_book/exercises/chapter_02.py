"""Exercises of chapter 2: a look-up, turned positions, and what the tables take."""

import math

import torch
from torch import Tensor

from decoder_only_book.exercises.framework import Exercise, Predict, Write


def _normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _turn(x: Tensor, frequencies: Tensor, mistake: str = "") -> Tensor:
    positions = torch.arange(len(x)) + (mistake == "from one")
    angles = positions[:, None] * frequencies
    if mistake == "no position":
        angles = frequencies.expand_as(angles)
    if mistake == "backward":
        angles = -angles
    if mistake == "degrees":
        angles = angles * math.pi / 180
    first, second = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    if mistake == "swapped":
        cos, sin = sin, cos
    if mistake == "no minus":
        return torch.cat([first * cos + second * sin, first * sin + second * cos], -1)
    if mistake == "halves exchanged":
        return torch.cat([first * sin + second * cos, first * cos - second * sin], -1)
    if mistake == "added":
        return x + torch.cat([cos, sin], dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


def _wrong(mistake: str):
    return lambda x, frequencies: _turn(x, frequencies, mistake)


def _one_hot(ids: Tensor, v: int) -> Tensor:
    return torch.nn.functional.one_hot(ids, v).float()


_TABLE = _normal(5, 3, seed=0)
_SQUARE = _normal(4, 4, seed=2)
_IDS = torch.tensor([3, 0, 3])

EXERCISES: dict[str, Exercise] = {
    "2.1": Write(
        title="a look-up as a matrix product",
        task="Look up the rows of `table`, (V, D), for `ids`, (S,), by one product of matrices: "
        "build the one-hot rows, (S, V), and multiply. Return (S, D).",
        stub="def look_up(ids, table):\n    ...",
        hints=(
            "Row s of the one-hot matrix is 1 in column ids[s], and 0 elsewhere.",
            "torch.nn.functional.one_hot(ids, V) gives whole numbers; the table has floats.",
            "The product is one_hot @ table.",
        ),
        reference=lambda ids, table: _one_hot(ids, len(table)) @ table,
        cases={
            "three ids": (_IDS, _TABLE),
            "a square table": (torch.tensor([1, 2]), _SQUARE),
        },
        wrong={
            "these are the one-hot rows; multiply them by the table": lambda ids, table: (
                _one_hot(ids, len(table))
            ),
            "the rows are added up; each id keeps its own": lambda ids, table: table[
                ids
            ].sum(0),
            "the row after each id was taken; ids count from 0": lambda ids, table: (
                table[(ids + 1) % len(table)]
            ),
            "the row before each id was taken; ids count from 0": lambda ids, table: (
                table[ids - 1]
            ),
            "the result is transposed: positions come first": lambda ids, table: (
                table[ids].T
            ),
        },
    ),
    "2.2": Write(
        title="turning positions",
        task="Turn the rows of `x`, (S, K). Position s, counted from 0, turns pair i by the angle "
        "s * frequencies[i]. The pair i is (x[s, i], x[s, i + K/2]), and (1, 0) turned by an "
        "angle is (cos, sin). Return (S, K).",
        stub="def turn(x, frequencies):\n    ...",
        hints=(
            "The angles are a table, (S, K/2): torch.arange(S)[:, None] * frequencies.",
            "x.chunk(2, dim=-1) gives the first members of all pairs, and the second ones.",
            "first * cos - second * sin, and first * sin + second * cos, joined again.",
        ),
        reference=_turn,
        cases={
            "four positions": (_normal(4, 6, seed=3), torch.tensor([1.0, 0.5, 0.1])),
            "one pair": (_normal(5, 2, seed=4), torch.tensor([0.7])),
        },
        wrong={
            "positions count from 0: the first row stays as it is": _wrong("from one"),
            "all rows turn by the same angle; multiply by the position": _wrong(
                "no position"
            ),
            "the rows turn backward: the sign of the sine": _wrong("backward"),
            "the angles are in radians already": _wrong("degrees"),
            "cosine and sine are exchanged: position 0 must not turn": _wrong(
                "swapped"
            ),
            "a turn has one minus: first * cos - second * sin": _wrong("no minus"),
            "the two halves came back in the wrong order": _wrong("halves exchanged"),
            "these positions are added; they should turn": _wrong("added"),
        },
    ),
    "2.3": Predict(
        title="the size of the tables",
        task="A model has 50,257 tokens, 1,024 learned positions and D = 768. How many numbers do "
        "the two tables hold together?",
        hints=(
            "Each token has one row, and so has each position.",
            "A row has D numbers.",
            "(V + S) times D.",
        ),
        answer=(50_257 + 1_024) * 768,
        wrong={
            "the positions have a table, too": 50_257 * 768,
            "that is the number of rows; each has D numbers": 50_257 + 1_024,
            "the tables stand beside each other: add, do not multiply": 50_257 * 1_024,
            "that is the table of positions alone": 1_024 * 768,
            "a table of D by D is in neither": (50_257 + 1_024 + 768) * 768,
        },
    ),
    "2.4": Predict(
        title="a turned score",
        task="A query and a key are both (1, 0). Their positions turn them by 50 and by 20 "
        "degrees. What is their dot product?",
        hints=(
            "Turning both by the same angle changes no dot product.",
            "Only the difference of the two angles counts.",
            "Two arrows of length 1, 30 degrees apart: the cosine.",
        ),
        answer=math.cos(math.radians(30)),
        wrong={
            "the angles are subtracted, not added": math.cos(math.radians(70)),
            "that is the sine of the difference": 0.5,
            "that is the score before they were turned": 1,
            "that is the cosine of 30 radians; here are degrees": math.cos(30),
            "that is the product of the two cosines; the sines count, too": math.cos(
                math.radians(50)
            )
            * math.cos(math.radians(20)),
        },
    ),
    "2.5": Predict(
        title="how slowly the last pair turns",
        task="With K = 64 and base 10,000, pair i turns by 10,000 to the power of -2i / K for "
        "each position. After how many positions has the last pair, i = 31, turned by 1 radian?",
        hints=(
            "Each position turns it by 10,000 to the power of -62 / 64.",
            "How often does that fit into 1?",
            "10,000 to the power of 62 / 64, which is 10 to the power of 3.875.",
        ),
        answer=10_000 ** (62 / 64),
        wrong={
            "that is the first pair": 1,
            "the last pair is i = 31, since i counts from 0": 10_000,
            "the exponent has 2i, not i": 10_000 ** (31 / 64),
            "that is the angle for one position; the question is how often it fits into 1": (
                10_000 ** (-62 / 64)
            ),
            "that is a full turn; 1 radian is less": 2 * math.pi * 10_000 ** (62 / 64),
        },
    ),
}
