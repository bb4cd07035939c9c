"""Exercises of chapter 15: what was never seen, confidence that fits, and facts in bits."""

from collections import Counter

import torch
from torch import Tensor

from decoder_only_book.exercises.framework import Exercise, Predict, Write


def _missing(draws: list) -> float:
    once = [thing for thing, number in Counter(draws).items() if number == 1]
    return len(once) / len(draws)


def _gaps(confidence: Tensor, right: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """The signed gap and the share of answers of each bin; empty bins are left out."""
    place = (confidence * bins).long().clamp(max=bins - 1)
    used = place.unique()
    gaps = [(right[place == b].double() - confidence[place == b]).mean() for b in used]
    shares = [(place == b).double().mean() for b in used]
    return torch.stack(gaps), torch.stack(shares)


def _calibration(confidence: Tensor, right: Tensor, bins: int) -> float:
    gaps, shares = _gaps(confidence, right, bins)
    return float((gaps.abs() * shares).sum())


def _answers(seed: int, number: int, share: float) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    confidence = torch.rand(number, generator=generator, dtype=torch.float64)
    return confidence, torch.rand(number, generator=generator) < share


EXERCISES: dict[str, Exercise] = {
    "15.1": Write(
        title="the missing mass",
        task="`draws` is a list of names, drawn independently. Estimate by Good-Turing the "
        "probability that the next draw is a name which is not in the list. Return a float.",
        stub="def missing_mass(draws):\n    ...",
        hints=(
            "Names that were drawn exactly once tell of names that were not drawn.",
            "Count how often each name was drawn; collections.Counter does that.",
            "The number of names drawn once, divided by the number of draws.",
        ),
        reference=_missing,
        cases={
            "eight draws": (list("abacddea"),),
            "ten draws": (list("xyzzywxxvu"),),
        },
        wrong={
            "divide by the number of draws, not of different names": lambda d: (
                _missing(d) * len(d) / len(set(d))
            ),
            "this is the number of names drawn once": lambda d: _missing(d) * len(d),
            "this is the share of the rest: names that were drawn more than once": lambda d: (
                1 - _missing(d)
            ),
            "all different names were counted; those drawn exactly once tell": lambda d: (
                len(set(d)) / len(d)
            ),
            "names drawn twice were counted; those drawn once tell": lambda d: (
                list(Counter(d).values()).count(2) / len(d)
            ),
            "the missing mass is not 0: a list does not hold every name": lambda d: 0.0,
            "one over the number of draws takes no account of the names": lambda d: (
                1 / len(d)
            ),
        },
    ),
    "15.2": Write(
        title="the calibration error",
        task="Sort answers into `bins` equal intervals of `confidence`, (N,), from 0 to 1. In each "
        "bin, compare the mean confidence with the share of answers that are `right`, (N,). "
        "Return the mean absolute gap over all answers as a float; an empty bin has no gap.",
        stub="def calibration_error(confidence, right, bins):\n    ...",
        hints=(
            "The bin of an answer is (confidence * bins).long(), and `bins - 1` at most.",
            "Take the means within a bin first, and the absolute value of their difference then.",
            "Weigh each bin by its share of all answers, and add up.",
        ),
        reference=_calibration,
        cases={
            "four bins": (*_answers(0, 40, 0.7), 4),
            "five bins": (*_answers(1, 30, 0.3), 5),
        },
        wrong={
            "the gaps have signs here, and cancel": lambda c, r, b: float(
                r.double().mean() - c.mean()
            ),
            "the bins have the same weight; each should weigh by its answers": lambda c, r, b: (
                float(_gaps(c, r, b)[0].abs().mean())
            ),
            "the absolute value was taken for each answer, not for each bin": lambda c, r, b: (
                float((r.double() - c).abs().mean())
            ),
            "the gaps were squared; their absolute value is asked for": lambda c, r, b: (
                float((_gaps(c, r, b)[0] ** 2 * _gaps(c, r, b)[1]).sum())
            ),
            "this is the largest gap; the mean is asked for": lambda c, r, b: float(
                _gaps(c, r, b)[0].abs().max()
            ),
            "the gaps were added up without weights": lambda c, r, b: float(
                _gaps(c, r, b)[0].abs().sum()
            ),
            "right and wrong are exchanged": lambda c, r, b: _calibration(c, ~r, b),
            "all answers are in one bin": lambda c, r, b: _calibration(c, r, 1),
        },
    ),
    "15.3": Predict(
        title="facts in bits",
        task="100 people have each one of 16 professions and one of 8 towns, all equally likely "
        "and independent. How many bits does a model hold that knows all of them?",
        hints=(
            "A choice among 16 is 4 bits.",
            "A choice among 8 is 3 bits.",
            "100 times 4 + 3.",
        ),
        answer=700,
        wrong={
            "that is one person": 7,
            "the towns are facts, too": 400,
            "the professions are facts, too": 300,
            "bits of independent facts add up": 1_200,
            "a bit is a logarithm of the number of choices": 2_400,
            "that is in nats": 485.2030,
        },
    ),
    "15.4": Predict(
        title="when to answer",
        task="A right answer earns 1 point, a wrong one costs 3, and no answer counts 0. From "
        "which confidence on does an answer pay, if confidence is the probability of being right?",
        hints=(
            "With confidence p, an answer earns p - 3 (1 - p) on average.",
            "It pays where that is above 0.",
            "4 p = 3.",
        ),
        answer=0.75,
        wrong={
            "that holds where a wrong answer costs as much as a right one earns": 0.5,
            "that is the probability of being wrong": 0.25,
            "that is the ratio of the points, not a share of both": 1 / 3,
            "an answer need not be certain": 1,
            "that holds where a wrong answer costs nothing": 0,
        },
    ),
    "15.5": Predict(
        title="facts that were read once",
        task="1,000 sentences state one fact each, drawn independently. 200 facts appear once; 300 "
        "others appear twice or more often, in the remaining 800 sentences. What is the "
        "Good-Turing estimate of the probability that the next sentence states a new fact?",
        hints=(
            "Each sentence is a draw.",
            "Only facts that appear once tell of those that do not appear.",
            "200 / 1,000.",
        ),
        answer=0.2,
        wrong={
            "divide by the number of draws, not of different facts": 0.4,
            "all different facts were counted; those seen once tell": 0.5,
            "that is the share of draws of facts seen more often": 0.8,
            "facts that are seen more often do not count": 0.3,
            "a fact that was not seen can still come": 0,
        },
    ),
}
