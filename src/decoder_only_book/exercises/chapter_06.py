"""Exercises of chapter 6: a gated MLP, and what an MLP takes."""

import torch
import torch.nn.functional as F
from torch import Tensor

from decoder_only_book.exercises.framework import Exercise, Predict, Write


def _normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _gated(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return (F.silu(x @ gate.T) * (x @ up.T)) @ down.T


def _squared(x: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return F.relu(x @ up.T).square() @ down.T


def _case(seed: int) -> tuple[Tensor, ...]:
    return tuple(_normal(4, 4, seed=4 * seed + i) for i in range(4))


EXERCISES: dict[str, Exercise] = {
    "6.1": Write(
        title="an MLP with a gate",
        task="SwiGLU: `gate` and `up`, (F, D), both read `x`, (S, D). The SiLU of what the gate "
        "reads multiplies what `up` reads, number by number, and `down`, (D, F), writes the "
        "product back. Return (S, D).",
        stub="def swiglu(x, gate, up, down):\n    ...",
        hints=(
            "Two products with x come first: x @ gate.T and x @ up.T.",
            "SiLU is z times sigmoid(z): torch.nn.functional.silu.",
            "(silu(x @ gate.T) * (x @ up.T)) @ down.T",
        ),
        reference=_gated,
        cases={"four rows": _case(1), "another": _case(2)},
        wrong={
            "the gate has no activation": lambda x, g, u, d: (
                ((x @ g.T) * (x @ u.T)) @ d.T
            ),
            "the activation is on `up`; it belongs to the gate": lambda x, g, u, d: (
                ((x @ g.T) * F.silu(x @ u.T)) @ d.T
            ),
            "gate and up are added; one multiplies the other": lambda x, g, u, d: (
                (F.silu(x @ g.T) + x @ u.T) @ d.T
            ),
            "SiLU is z * sigmoid(z); this is the sigmoid alone": lambda x, g, u, d: (
                (torch.sigmoid(x @ g.T) * (x @ u.T)) @ d.T
            ),
            "that gate is a ReLU": lambda x, g, u, d: (
                (F.relu(x @ g.T) * (x @ u.T)) @ d.T
            ),
            "that gate is a GELU": lambda x, g, u, d: (
                (F.gelu(x @ g.T) * (x @ u.T)) @ d.T
            ),
            "the activation came after the product of the two": lambda x, g, u, d: (
                F.silu((x @ g.T) * (x @ u.T)) @ d.T
            ),
            "`up` is not used": lambda x, g, u, d: F.silu(x @ g.T) @ d.T,
            "the matrices are transposed": lambda x, g, u, d: (
                (F.silu(x @ g) * (x @ u)) @ d
            ),
        },
    ),
    "6.2": Write(
        title="a unit as key and value",
        task="For one row `x`, (D,), list what each unit of a ReLU MLP adds to the stream: unit f "
        "reads with row f of `up`, (F, D), and writes column f of `down`, (D, F). Return (F, D), a "
        "row for each unit.",
        stub="def contributions(x, up, down):\n    ...",
        hints=(
            "Unit f is open by relu(up[f] @ x), one number.",
            "It writes that number times down[:, f].",
            "relu(up @ x)[:, None] * down.T",
        ),
        reference=lambda x, up, down: F.relu(up @ x)[:, None] * down.T,
        cases={
            "four units": (
                _normal(4, seed=1),
                _normal(4, 4, seed=2),
                _normal(4, 4, seed=3),
            ),
            "another": (
                _normal(4, seed=4),
                _normal(4, 4, seed=5),
                _normal(4, 4, seed=6),
            ),
        },
        wrong={
            "the units are added up; each has its own row": lambda x, up, down: (
                down @ F.relu(up @ x)
            ),
            "a unit below zero is closed and adds nothing": lambda x, up, down: (
                (up @ x)[:, None] * down.T
            ),
            "a unit writes a column of `down`, not a row": lambda x, up, down: (
                F.relu(up @ x)[:, None] * down
            ),
            "a unit reads with a row of `up`, not with a column": lambda x, up, down: (
                F.relu(up.T @ x)[:, None] * down.T
            ),
            "the result is transposed: units come first": lambda x, up, down: (
                F.relu(up @ x) * down
            ),
            "how far a unit is open counts, not only that it is": lambda x, up, down: (
                (up @ x > 0).float()[:, None] * down.T
            ),
        },
    ),
    "6.3": Predict(
        title="the weights of an MLP",
        task="How many weights has an MLP with D = 768 and F = 4 D, without biases?",
        hints=(
            "There are two matrices.",
            "Each has D times F weights.",
            "8 D squared.",
        ),
        answer=8 * 768**2,
        wrong={
            "there are two matrices": 4 * 768**2,
            "that is what attention has, four matrices of D by D": 4 * 768 * 768 + 768,
            "that is an MLP with a gate of the same width, three matrices": 12 * 768**2,
            "that is the number of units": 4 * 768,
            "the biases are left out": 8 * 768**2 + 5 * 768,
        },
    ),
    "6.4": Predict(
        title="a gate at equal cost",
        task="An MLP with a gate has three matrices. It should have as many weights as one without "
        "that has F = 3,072. How wide may it be?",
        hints=(
            "Without a gate: 2 D F weights.",
            "With one: 3 D F' weights.",
            "F' is two thirds of F.",
        ),
        answer=2_048,
        wrong={
            "with the third matrix that takes half as much again": 3_072,
            "two matrices become three: two thirds, not a half": 1_536,
            "the gate makes it narrower, not wider": 4_608,
            "two thirds, not one third": 1_024,
            "two thirds, not three quarters": 2_304,
        },
    ),
    "6.5": Predict(
        title="what two experts cost",
        task="A mixture of 8 experts sends each token to 2 of them. The experts hold 800 million "
        "weights together. Through how many of these does one token go?",
        hints=(
            "Each expert holds an eighth.",
            "A token is read by two.",
            "Two eighths of 800 million.",
        ),
        answer=200e6,
        wrong={
            "that is one expert; each token has two": 100e6,
            "all experts are held, but two compute": 800e6,
            "that is what the token does not use": 600e6,
            "two of eight is a quarter, not a half": 400e6,
            "that is the number of millions": 200,
        },
    ),
    "6.6": Write(
        title="an MLP with squared ReLU",
        task="`up`, (F, D), reads `x`, (S, D). Negative results become 0, and the others are "
        "squared. `down`, (D, F), writes the squares back. Return (S, D).",
        stub="def mlp(x, up, down):\n    ...",
        hints=(
            "What `up` reads is x @ up.T, (S, F).",
            "torch.nn.functional.relu sets negative numbers to 0; then square.",
            "relu(x @ up.T).square() @ down.T",
        ),
        reference=_squared,
        cases={"four rows": _case(3)[:3], "another": _case(4)[:3]},
        wrong={
            "the ReLU is not squared": lambda x, u, d: F.relu(x @ u.T) @ d.T,
            "the square came before the ReLU, which then changes nothing": (
                lambda x, u, d: (x @ u.T).square() @ d.T
            ),
            "the output is squared; the square belongs to the units": (
                lambda x, u, d: (F.relu(x @ u.T) @ d.T).square()
            ),
            "the ReLU is on the output; it belongs to the units": lambda x, u, d: (
                F.relu((x @ u.T) @ d.T)
            ),
            "there is no activation": lambda x, u, d: (x @ u.T) @ d.T,
            "that is a GELU": lambda x, u, d: F.gelu(x @ u.T) @ d.T,
            "the matrices are transposed": lambda x, u, d: F.relu(x @ u).square() @ d,
            "`up` and `down` are exchanged": lambda x, u, d: (
                F.relu(x @ d.T).square() @ u.T
            ),
        },
    ),
}
