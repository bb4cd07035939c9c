"""Exercises of chapter 16: temperature, top-k and top-p, and steps of search by hand."""

import math

import torch
from torch import Tensor

from decoder_only_book.exercises.framework import Exercise, Predict, Write


def _normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _top_k(logits: Tensor, k: int) -> Tensor:
    return logits.masked_fill(logits < logits.topk(k).values[-1], -math.inf).softmax(0)


def _top_p(probabilities: Tensor, p: float, rule: str = "") -> Tensor:
    ordered, places = probabilities.sort(descending=rule != "ascending")
    before = ordered.cumsum(0) - ordered
    if rule == "within":
        kept = ordered.cumsum(0) <= p
        kept[0] = True
    elif rule == "one more":
        kept = before - ordered.roll(1) < p
        kept[0] = True
    else:
        kept = before < p
    result = torch.zeros_like(probabilities)
    result[places[kept]] = ordered[kept]
    return result if rule == "not renewed" else result / result.sum()


_PROBABILITIES = torch.tensor([0.1, 0.4, 0.05, 0.3, 0.15])
_OTHERS = torch.tensor([0.25, 0.05, 0.2, 0.35, 0.15])

EXERCISES: dict[str, Exercise] = {
    "16.1": Write(
        title="temperature",
        task="Turn `logits`, (V,), into the probabilities from which a sampler with this "
        "`temperature` draws. The temperature is above 0.",
        stub="def with_temperature(logits, temperature):\n    ...",
        hints=(
            "A low temperature makes the differences between logits larger.",
            "The logits are divided before the softmax.",
            "(logits / temperature).softmax(0).",
        ),
        reference=lambda x, t: (x / t).softmax(0),
        cases={
            "a low temperature": (_normal(5, seed=0), 0.5),
            "a high one": (_normal(4, seed=1), 2.5),
        },
        wrong={
            "the logits are multiplied; a low temperature would flatten": lambda x, t: (
                x * t
            ).softmax(0),
            "the temperature is not used": lambda x, t: x.softmax(0),
            "the probabilities are divided after the softmax; they no longer add up to 1": (
                lambda x, t: x.softmax(0) / t
            ),
            "these are logits; probabilities are asked for": lambda x, t: x / t,
            "these are logarithms; probabilities are asked for": lambda x, t: (
                x / t
            ).log_softmax(0),
            "the probabilities went through a second softmax": lambda x, t: (
                x.softmax(0) / t
            ).softmax(0),
        },
    ),
    "16.2": Write(
        title="top-k",
        task="Return the probabilities, (V,), from which top-k sampling draws: the `k` largest of "
        "`logits`, (V,), share the whole probability, and all other tokens have 0. No two "
        "logits are equal.",
        stub="def top_k(logits, k):\n    ...",
        hints=(
            "A logit of minus infinity has the probability 0.",
            "The smallest logit that stays is logits.topk(k).values[-1].",
            "Mask what is smaller than that, then take the softmax.",
        ),
        reference=_top_k,
        cases={
            "two of five": (_normal(5, seed=2), 2),
            "three of six": (_normal(6, seed=3), 3),
        },
        wrong={
            "the probabilities that stay do not add up to 1": lambda x, k: (
                x.softmax(0) * (_top_k(x, k) > 0)
            ),
            "the k-th token is missing: one more should stay": lambda x, k: _top_k(
                x, k - 1
            ),
            "one token too many stays": lambda x, k: _top_k(x, k + 1),
            "the smallest logits stay; the largest should": lambda x, k: x.masked_fill(
                x > x.topk(k, largest=False).values[-1], -math.inf
            ).softmax(0),
            "the other logits were set to 0, which is not the probability 0": lambda x, k: (
                (x * (_top_k(x, k) > 0)).softmax(0)
            ),
            "the tokens that stay are in order of size; each should be at its own place": (
                lambda x, k: _top_k(x, k).sort(descending=True).values
            ),
            "all tokens that stay have the same probability": lambda x, k: (
                (_top_k(x, k) > 0).float() / k
            ),
        },
    ),
    "16.3": Write(
        title="top-p",
        task="Return the probabilities, (V,), from which top-p sampling draws. The smallest set of "
        "the likeliest tokens stays whose probabilities add up to at least `p`. They share the "
        "whole probability; all others have 0.",
        stub="def top_p(probabilities, p):\n    ...",
        hints=(
            "Sort the probabilities, the largest first, and add them up with cumsum.",
            "A token stays if what comes before it has not reached p.",
            "Put those that stay back at their places, and divide by their sum.",
        ),
        reference=_top_p,
        cases={
            "p = 0.6": (_PROBABILITIES, 0.6),
            "p = 0.9": (_OTHERS, 0.9),
            "p = 0.3": (_PROBABILITIES, 0.3),
        },
        wrong={
            "the probabilities that stay do not add up to 1": lambda x, p: _top_p(
                x, p, "not renewed"
            ),
            "the token that reaches p is missing: the set adds up to at least p": lambda x, p: (
                _top_p(x, p, "within")
            ),
            "one token too many stays after p is reached": lambda x, p: _top_p(
                x, p, "one more"
            ),
            "the unlikeliest tokens come first; the likeliest should": lambda x, p: (
                _top_p(x, p, "ascending")
            ),
            "the tokens were not sorted first": lambda x, p: (
                x * (x.cumsum(0) - x < p) / x[x.cumsum(0) - x < p].sum()
            ),
            "the tokens that stay are in order of size; each should be at its own place": (
                lambda x, p: _top_p(x, p).sort(descending=True).values
            ),
        },
    ),
    "16.4": Predict(
        title="a beam of two",
        task="The first token is A with probability 0.5, B with 0.4, or C with 0.1. After A come "
        "two tokens of 0.5 each; after B one has 0.9 and one 0.1; after C one is certain. A beam "
        "of width 2 keeps the two best texts at each step. What is the probability of the best "
        "text of two tokens that it finds?",
        hints=(
            "After the first step, A and B are kept.",
            "The probabilities of a text's tokens are multiplied.",
            "Compare 0.5 * 0.5 with 0.4 * 0.9.",
        ),
        answer=0.36,
        wrong={
            "that is greedy search, which keeps A alone": 0.25,
            "C is not in the beam, and less likely than the best": 0.1,
            "probabilities of a text are multiplied, not added": 1.3,
            "that is the last token alone": 0.9,
            "the probabilities of both texts in the beam were added; the best is asked for": 0.61,
        },
    ),
    "16.5": Predict(
        title="a draft that may be refused",
        task="A draft model gives three tokens the probabilities 0.6, 0.3 and 0.1; the large model "
        "gives them 0.3, 0.5 and 0.2. A token that the draft has drawn is accepted with "
        "probability min(1, large / draft). How likely is a drawn token to be accepted?",
        hints=(
            "The first token is drawn with 0.6 and accepted with 0.5.",
            "Drawn and accepted: 0.6 * 0.5 = 0.3, which is the smaller of the two probabilities.",
            "Add up the smaller probability of each token.",
        ),
        answer=0.7,
        wrong={
            "that is the probability of a refusal": 0.3,
            "the acceptances were averaged; a token counts as often as it is drawn": 2.5
            / 3,
            "the ratio is cut off at 1": 1,
            "that is how often two independent draws agree": 0.35,
            "the likeliest token of the draft is not the only one": 0.5,
        },
    ),
}
