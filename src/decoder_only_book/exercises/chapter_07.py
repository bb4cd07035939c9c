"""Exercises of chapter 7: the loss from logits, and what it means."""

import math

import torch
from torch import Tensor

from decoder_only_book.exercises.framework import Exercise, Find, Predict, Write


def _normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _chosen(logits: Tensor, targets: Tensor) -> Tensor:
    return logits.gather(1, targets[:, None])[:, 0]


def _loss(logits: Tensor, targets: Tensor) -> Tensor:
    return (logits.logsumexp(1) - _chosen(logits, targets)).mean()


def _pairs(ids: Tensor) -> tuple[Tensor, Tensor]:
    return ids[:, :-1], ids[:, 1:]


_TARGETS = torch.tensor([2, 0, 3])

_FAULTY = """\
def cross_entropy(logits, targets):
    largest = logits.amax(dim=1, keepdim=True)
    shifted = logits - largest
    total = shifted.exp().sum(dim=1).log()
    chosen = logits.gather(1, targets[:, None])[:, 0]
    losses = total - chosen
    return losses.mean()
"""

EXERCISES: dict[str, Exercise] = {
    "7.1": Write(
        title="cross-entropy from logits",
        task="Give the mean loss, in nats, of `logits`, (S, V), whose right next tokens are "
        "`targets`, (S,). It must stand logits of 1,000. Return a tensor with one number.",
        stub="def cross_entropy(logits, targets):\n    ...",
        hints=(
            "The loss at one position is minus the log of the probability of its target.",
            "log softmax is the logit minus the logarithm of the sum of all powers.",
            "logits.logsumexp(1) does not overflow; logits.gather(1, targets[:, None]) picks.",
        ),
        reference=_loss,
        cases={
            "three positions": (_normal(3, 4, seed=0), _TARGETS),
            "large logits": (1_000 + 3 * _normal(3, 4, seed=1), _TARGETS),
        },
        wrong={
            "the powers overflow at large logits; subtract the largest logit first": (
                lambda x, t: (x.exp().sum(1).log() - _chosen(x, t)).mean()
            ),
            "the sign is turned: a loss is not negative": lambda x, t: -_loss(x, t),
            "this is the sum over positions; the mean is asked for": lambda x, t: (
                len(x) * _loss(x, t)
            ),
            "this is in bits; nats are asked for": lambda x, t: (
                _loss(x, t) / math.log(2)
            ),
            "the softmax is over the positions; it should be over the vocabulary": (
                lambda x, t: (x.logsumexp(0)[t] - _chosen(x, t)).mean()
            ),
            "this is the mean probability; its logarithm is taken position by position": (
                lambda x, t: _chosen(x.softmax(1), t).mean()
            ),
            "the logarithm was taken after the mean; each position has its own": (
                lambda x, t: -_chosen(x.softmax(1), t).mean().log()
            ),
            "the mean is over all tokens of the vocabulary; only the targets count": (
                lambda x, t: -x.log_softmax(1).mean()
            ),
            "the logits themselves were averaged; they are not logarithms of probabilities yet": (
                lambda x, t: -_chosen(x, t).mean()
            ),
        },
    ),
    "7.2": Write(
        title="inputs and targets",
        task="Cut `ids`, (B, S + 1), into what the model reads and what it should predict: return "
        "the inputs, (B, S), and the targets, (B, S).",
        stub="def inputs_and_targets(ids):\n    ...",
        hints=(
            "The target of a position is the token after it.",
            "The last token is read by nobody, and the first is predicted by nobody.",
            "ids[:, :-1] and ids[:, 1:].",
        ),
        reference=_pairs,
        cases={
            "two rows": (torch.tensor([[5, 3, 8, 1], [2, 7, 4, 9]]),),
            "four rows": (torch.arange(16).view(4, 4) ** 2,),
        },
        wrong={
            "inputs and targets are exchanged": lambda ids: _pairs(ids)[::-1],
            "the target is the token after the input, not the input itself": lambda ids: (
                ids[:, :-1],
                ids[:, :-1],
            ),
            "rows were shifted, not positions": lambda ids: (ids[:-1], ids[1:]),
            "the last target wraps round to the first token": lambda ids: (
                ids,
                ids.roll(-1, 1),
            ),
            "the target is two tokens away": lambda ids: (ids[:, :-2], ids[:, 2:]),
        },
    ),
    "7.3": Predict(
        title="the surprise of four tokens",
        task="A model gives the four tokens of a text the probabilities 1/2, 1/4, 1/8 and 1. What "
        "is the mean loss in bits?",
        hints=(
            "A probability of 1/2 is a surprise of 1 bit.",
            "The surprises are 1, 2, 3 and 0.",
            "Their mean.",
        ),
        answer=1.5,
        wrong={
            "that is the sum; the mean is asked for": 6,
            "that is in nats": 1.5 * math.log(2),
            "a token without surprise counts, too": 2,
            "that is the logarithm of the mean probability": -math.log2(15 / 32),
            "that is the perplexity": 2**1.5,
        },
    ),
    "7.4": Predict(
        title="perplexity",
        task="A loss is 2.303 nats per token. What is the perplexity?",
        hints=(
            "Perplexity undoes the logarithm.",
            "The loss is in nats, so the base is e.",
            "e to the power of 2.303.",
        ),
        answer=math.exp(2.303),
        wrong={
            "the loss is in nats: the base is e, not 2": 2**2.303,
            "the loss is in nats: the base is e, not 10": 10**2.303,
            "that is the loss in bits": 2.303 / math.log(2),
            "that is the probability; the perplexity is its inverse": math.exp(-2.303),
            "that is the loss": 2.303,
        },
    ),
    "7.5": Predict(
        title="the first loss",
        task="An untrained model gives all 8,192 tokens the same probability. What is its loss in "
        "nats?",
        hints=(
            "The probability of each token is 1 / 8,192.",
            "The loss is minus its logarithm.",
            "8,192 is 2 to the power of 13.",
        ),
        answer=13 * math.log(2),
        wrong={
            "that is in bits": 13,
            "that is the probability": 1 / 8_192,
            "that is the perplexity": 8_192,
            "a loss is not negative": -13 * math.log(2),
            "that is with base 10": math.log10(8_192),
        },
    ),
    "7.6": Find(
        title="a fault in the loss",
        task="One line of this code is at fault. Give its number; the first line is number 1.",
        code=_FAULTY,
        hints=(
            "Both terms of the difference must be moved by the same amount.",
            "Which lines use the logits before the largest is taken off?",
            "The chosen logit is compared with a sum of shifted powers.",
        ),
        answer=5,
        wrong={
            "line 1 is right: the loss needs logits and targets": 1,
            "line 2 is right: each position has its own largest logit": 2,
            "line 3 is right: a softmax does not change when all logits move together": 3,
            "line 4 is right: no power is above 1, so none overflows": 4,
            "line 6 is right: minus the logarithm of a probability is total minus chosen": 6,
            "line 7 is right: the mean over positions is asked for": 7,
        },
    ),
}
