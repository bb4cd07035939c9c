"""Exercises of chapter 11: who sees whom in three families, and what a masked model is asked."""

import math

import torch
from torch import Tensor

from decoder_only_book.exercises.framework import Exercise, Predict, Write


def _causal(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def _everyone(queries: int, keys: int) -> Tensor:
    return torch.ones(queries, keys, dtype=torch.bool)


def _masks(S: int, T: int) -> tuple[Tensor, Tensor, Tensor]:
    return _everyone(S, S), _causal(T), _everyone(T, S)


def _prefix(length: int, prefix: int) -> Tensor:
    sees = _causal(length)
    sees[:, :prefix] = True
    return sees


EXERCISES: dict[str, Exercise] = {
    "11.1": Write(
        title="the masks of three families",
        task="Return three masks, True where a query (row) sees a key (column): that of an encoder "
        "on S tokens, that of a decoder on T tokens, and that of the cross-attention by which "
        "this decoder reads that encoder. There is no padding.",
        stub="def masks(S, T):\n    ...",
        hints=(
            "An encoder hides nothing, and a decoder hides the future.",
            "The encoder has read its whole text before the decoder starts.",
            "The cross-attention has T rows and S columns, all True.",
        ),
        reference=_masks,
        cases={
            "S = 4, T = 3": (4, 3),
            "S = 2, T = 5": (2, 5),
        },
        wrong={
            "the encoder's mask is causal; an encoder sees both ways": lambda S, T: (
                _causal(S),
                *_masks(S, T)[1:],
            ),
            "the decoder sees its own future": lambda S, T: (
                _everyone(S, S),
                _everyone(T, T),
                _everyone(T, S),
            ),
            "the decoder sees the future and hides the past": lambda S, T: (
                _everyone(S, S),
                _causal(T).T,
                _everyone(T, S),
            ),
            "a position of the decoder sees itself, too": lambda S, T: (
                _everyone(S, S),
                _causal(T).tril(-1),
                _everyone(T, S),
            ),
            "the cross-attention is causal; the encoder's whole text is known": lambda S, T: (
                _everyone(S, S),
                _causal(T),
                _everyone(T, S).tril(),
            ),
            "in cross-attention, queries are the decoder's: T rows and S columns": lambda S, T: (
                _everyone(S, S),
                _causal(T),
                _everyone(S, T),
            ),
            "True and False are exchanged: True is where a query sees": lambda S, T: (
                tuple(~mask for mask in _masks(S, T))
            ),
            "encoder and decoder are exchanged": lambda S, T: (
                _causal(T),
                _everyone(S, S),
                _everyone(T, S),
            ),
        },
    ),
    "11.2": Write(
        title="a mask with a prefix",
        task="The first `prefix` of `length` tokens are a question, which is known from the start. "
        "Every position sees the whole question; what follows is written token by token. Return "
        "the mask, (length, length), True where a query (row) sees a key (column).",
        stub="def prefix_mask(length, prefix):\n    ...",
        hints=(
            "Begin with a causal mask.",
            "The columns of the question are open to all rows.",
            "sees[:, :prefix] = True.",
        ),
        reference=_prefix,
        cases={
            "two of five": (5, 2),
            "three of six": (6, 3),
        },
        wrong={
            "the mask is causal within the question, too": lambda n, p: _causal(n),
            "nothing is hidden; after the question, the future is": lambda n, p: (
                _everyone(n, n)
            ),
            "the question sees what is written after it": lambda n, p: (
                _prefix(n, p) | (torch.arange(n) < p)[:, None]
            ),
            "the question sees its answer, and only its own past of the question": lambda n, p: (
                _causal(n) | (torch.arange(n) < p)[:, None] & (torch.arange(n) >= p)
            ),
            "the question ends one token earlier here": lambda n, p: _prefix(n, p - 1),
            "the question ends one token later here": lambda n, p: _prefix(n, p + 1),
            "True and False are exchanged: True is where a query sees": lambda n, p: (
                ~_prefix(n, p)
            ),
            "rows and columns are exchanged": lambda n, p: _prefix(n, p).T,
        },
    ),
    "11.3": Predict(
        title="how often the mask token stands",
        task="Of all tokens, 15 % are chosen. Of these, 80 % are replaced by the mask token, 10 % "
        "by a random token, and 10 % stay. Which share of all tokens is the mask token, in "
        "percent?",
        hints=(
            "Only chosen tokens are replaced.",
            "80 % of 15 %.",
            "0.8 * 15.",
        ),
        answer=12,
        wrong={
            "that is the share of the chosen tokens": 80,
            "that is the share of all that are chosen": 15,
            "that is the share; percent are asked for": 0.12,
            "random tokens are not the mask token": 13.5,
            "that is the share of random tokens": 1.5,
            "that is the share of other tokens": 88,
        },
    ),
    "11.4": Predict(
        title="a token that is seen and still predicted",
        task="By the same rule of 15 % and 80/10/10, a token that the model reads is not the mask "
        "token. How likely was it chosen, so that it must be predicted? Give percent.",
        hints=(
            "88 % of all tokens are not the mask token.",
            "Chosen and not masked are 20 % of 15 %.",
            "3 of 88.",
        ),
        answer=300 / 88,
        wrong={
            "that is the share of all tokens; here the mask token is ruled out": 3,
            "random tokens count as well as those that stay": 150 / 88,
            "that is the share of the chosen tokens": 20,
            "most chosen tokens are the mask token, and ruled out": 15,
            "that is a share; percent are asked for": 3 / 88,
            "those that were not chosen are 85 of the 88; they are not asked for": 8_500
            / 88,
        },
    ),
    "11.5": Predict(
        title="the first loss of two encoders that should agree",
        task="In a batch of 64 pairs, each text must find its partner among 64. All similarities "
        "are equal at the start. What is the contrastive loss, in nats?",
        hints=(
            "The softmax gives each candidate the same probability.",
            "This probability is 1 / 64.",
            "The loss is the natural logarithm of 64.",
        ),
        answer=math.log(64),
        wrong={
            "that is in bits": 6,
            "the partner itself is among the candidates: 64, not 63": math.log(63),
            "each text has 64 candidates, not 64 times 64": math.log(64**2),
            "that is the probability": 1 / 64,
            "a loss is not negative": -math.log(64),
            "equal similarities are no certainty": 0,
        },
    ),
}
