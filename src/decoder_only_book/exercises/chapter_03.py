"""Exercises of chapter 3: softmax, attention with a mask, and the square root."""

import math

import torch
from torch import Tensor

from decoder_only_book.exercises.framework import Exercise, Find, Predict, Write


def _normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _softmax(scores: Tensor) -> Tensor:
    return scores.softmax(dim=-1)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sees: Tensor,
    mistake: str = "",
) -> Tensor:
    scores = query @ key.T
    if mistake == "keys ask":
        scores = scores.T
    if mistake == "K":
        scores = scores / query.shape[-1]
    elif mistake == "root of S":
        scores = scores / math.sqrt(len(query))
    elif mistake not in ("no root", "root last"):
        scores = scores / math.sqrt(query.shape[-1])
    if mistake == "inverted":
        sees = ~sees
    if mistake == "own mask":
        sees = torch.ones_like(sees).tril()
    if mistake == "turned":
        sees = sees.T
    if mistake == "zero":
        scores = scores * sees
    elif mistake not in ("no mask", "late"):
        scores = scores.masked_fill(~sees, -math.inf)
    weights = scores.softmax(dim=0 if mistake == "queries" else 1)
    if mistake == "late":
        weights = weights * sees
    if mistake == "root last":
        weights = weights / math.sqrt(query.shape[-1])
    if mistake == "powers":
        weights = scores.exp()
    if mistake == "weights.T":
        weights = weights.T
    return weights @ (key if mistake == "key" else value)


def _wrong(mistake: str):
    return lambda *inputs: _attend(*inputs, mistake=mistake)


def _case(length: int, seed: int) -> tuple[Tensor, ...]:
    query, key, value = (_normal(length, 4, seed=seed + i) for i in range(3))
    return 2 * query, key, value, torch.ones(length, length).tril().bool()


def _window(length: int, seed: int) -> tuple[Tensor, ...]:
    """A mask that is not causal: one place back, and one ahead."""
    *inputs, _ = _case(length, seed)
    near = torch.ones(length, length).tril(1).triu(-1)
    return *inputs, near.bool()


_FAULTY = """\
def attend(query, key, value, sees):
    scores = query @ key.T
    scores = scores / math.sqrt(len(key))
    scores = scores.masked_fill(~sees, -math.inf)
    weights = scores.softmax(dim=1)
    return weights @ value
"""

EXERCISES: dict[str, Exercise] = {
    "3.1": Write(
        title="a softmax that does not overflow",
        task="Turn the last dimension of a tensor of scores into weights that sum to one. "
        "Scores may be as large as 1,000. Do not call PyTorch's softmax.",
        stub="def softmax(scores):\n    ...",
        hints=(
            "Powers of e, divided by their sum.",
            "A constant added to a whole row changes nothing.",
            "Subtract the largest score of each row first.",
        ),
        reference=_softmax,
        cases={
            "a row": (torch.tensor([1.0, 1.0, 0.0]),),
            "two rows": (_normal(2, 3, seed=1),),
            "scores of 1,000": (torch.tensor([[1000.0, 999.0, 0.0]]),),
            "a small row beside a large one": (
                torch.tensor([[0.0, 1.0], [1000.0, 1001.0]]),
            ),
        },
        wrong={
            "large scores overflow: subtract the largest of each row first": lambda x: (
                x.exp() / x.exp().sum(-1, keepdim=True)
            ),
            "the first dimension sums to one; the last one should": lambda x: x.softmax(
                0
            ),
            "the base is 2; softmax has e": lambda x: (x * math.log(2)).softmax(-1),
            "all entries together sum to one; each row should": lambda x: (
                x.flatten().softmax(0).view(x.shape)
            ),
            "each row has the right shift, but is divided by the sum of all rows": lambda x: (
                (x - x.amax(-1, keepdim=True)).exp()
                / (x - x.amax(-1, keepdim=True)).exp().sum()
            ),
            "the largest of all entries is subtracted; take each row's own": lambda x: (
                (x - x.max()).exp() / (x - x.max()).exp().sum(-1, keepdim=True)
            ),
            "these are logarithms of the weights": lambda x: x.log_softmax(-1),
            "the base is 10; softmax has e": lambda x: (x * math.log(10)).softmax(-1),
            "the scores are divided by their sum; take e to their power first": lambda x: (
                x / x.sum(-1, keepdim=True)
            ),
            "the shift is right, but no power of e is taken": lambda x: (
                (x - x.amax(-1, keepdim=True))
                / (x - x.amax(-1, keepdim=True)).sum(-1, keepdim=True)
            ),
            "large scores overflow, and the sum is over all rows; each row has its own": (
                lambda x: x.exp() / x.exp().sum()
            ),
            "the powers are not divided by their sum": lambda x: (
                x - x.amax(-1, keepdim=True)
            ).exp(),
        },
    ),
    "3.2": Write(
        title="attention with a mask",
        task="Attention for one head. `query`, `key` and `value` have the shape (S, K), and "
        "`sees[s, t]` is True where position s may look at t. Return the outputs, (S, K).",
        stub="def attend(query, key, value, sees):\n    ...",
        hints=(
            "Scores, then weights, then an average of the values.",
            "What is not seen must have no weight, and the others still sum to one.",
            "Put minus infinity where `sees` is False, before the softmax over the keys.",
        ),
        reference=_attend,
        cases={
            "six positions": _case(6, seed=1),
            "another text": _case(9, seed=5),
            "a mask that is not causal": _window(5, seed=9),
        },
        wrong={
            "weights sum to 1 over the queries; they should over the keys": _wrong(
                "queries"
            ),
            "the scores are not divided by the root of K": _wrong("no root"),
            "the scores are divided by K; divide by its root": _wrong("K"),
            "the mask is not used: early positions see the future": _wrong("no mask"),
            "a mask of your own is used; take `sees`, which need not be causal": _wrong(
                "own mask"
            ),
            "the mask is inverted: hide where `sees` is False": _wrong("inverted"),
            "the mask is turned round: positions see the future, not the past": _wrong(
                "turned"
            ),
            "hidden scores are 0, and e to the power of 0 is still a weight": _wrong(
                "zero"
            ),
            "the mask came after the softmax, so rows no longer sum to 1": _wrong(
                "late"
            ),
            "the keys ask and the queries answer: the scores are transposed": _wrong(
                "keys ask"
            ),
            "the average is of the keys; it should be of the values": _wrong("key"),
            "the root of K comes after the softmax; divide the scores by it": _wrong(
                "root last"
            ),
            "the scores are divided by the root of S; K is the width of a key": _wrong(
                "root of S"
            ),
            "the weights are transposed: each row belongs to a query": _wrong(
                "weights.T"
            ),
            "the powers are not divided by their sum, so rows do not sum to 1": _wrong(
                "powers"
            ),
        },
    ),
    "3.3": Predict(
        title="the weight of a plant",
        task="A query gives three keys the scores 0, log 8 and 0, already divided by the root. "
        "Which weight has the middle key?",
        hints=(
            "Take e to the power of each score.",
            "The powers are 1, 8 and 1.",
            "Divide the middle power by the sum of all three.",
        ),
        answer=0.8,
        wrong={
            "that is the power before the division by the sum": 8,
            "that is the score; take e to its power": math.log(8),
            "the scores were divided by their sum; their powers should be": 1,
            "that is the weight of one of the other keys": 0.1,
            "log is the natural logarithm here, and e to its power is 8; yours has base 2": (
                math.exp(3) / (math.exp(3) + 2)
            ),
            "log is the natural logarithm here, and e to its power is 8; yours has base 10": (
                math.exp(math.log10(8)) / (math.exp(math.log10(8)) + 2)
            ),
            "the powers are those of e, not of 2": (
                2 ** math.log(8) / (2 ** math.log(8) + 2)
            ),
            "divide by the sum of all powers, the middle one's own included": 4,
        },
    ),
    "3.4": Predict(
        title="how many keys are seen",
        task="Under the causal mask, how many pairs of a query and a key are seen in a text of "
        "6 positions?",
        hints=(
            "How many does the first position see?",
            "Position s, counted from 0, sees s + 1 positions.",
            "Add up 1 + 2 + … + 6.",
        ),
        answer=21,
        wrong={
            "a position sees itself, too": 15,
            "that is all pairs; the future is hidden": 36,
            "half of all pairs leaves half of the diagonal out": 18,
            "that is what the last position sees alone": 6,
            "count from the first position, which sees one": 27,
        },
    ),
    "3.5": Predict(
        title="the size of a score",
        task="Queries and keys have 64 independent components of mean 0 and variance 1. What is "
        "the standard deviation of their dot product?",
        hints=(
            "Each product of two components has variance 1.",
            "Variances of independent terms add up.",
            "The standard deviation is the root of the variance.",
        ),
        answer=8,
        wrong={
            "that is the variance; the standard deviation is its root": 64,
            "that holds after the division by the root of K": 1,
            "the dot product is a sum, not a mean": 0.125,
            "variances add up, not their squares": 4096,
            "that is the mean": 0,
        },
    ),
    "3.6": Find(
        title="a fault in attention",
        task="One line of this code is at fault. Give its number; the first line is number 1.",
        code=_FAULTY,
        hints=(
            "Follow the shapes: which of the numbers is S, and which is K?",
            "The variance of a score grows with the number of components.",
            "len(key) counts positions.",
        ),
        answer=3,
        wrong={
            "line 1 names what attention needs: queries, keys, values and who sees whom": 1,
            "line 2 is right: a row for each query, a column for each key": 2,
            "line 4 is right: it hides where `sees` is false, before the softmax": 4,
            "line 5 is right: dimension 1 is that of the keys": 5,
            "line 6 is right: each output is a mean of the values": 6,
        },
    ),
}
