"""What the tests of the trials' tables share: the protocol that a table must have kept."""

import math
import os
from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np
import pytest

from decoder_only.data import Corpus, document_corpus
from decoder_only.tokenization import BytePairTokenizer

__all__ = ["check_rates", "corpus", "measured", "nightly", "unmade"]

# A row made again shows where a table came from, and little about the code that other tests do not.
nightly = pytest.mark.skipif(
    not os.environ.get("DECODER_ONLY_NIGHTLY"),
    reason="makes a row of a trial again, a whole training; with DECODER_ONLY_NIGHTLY=1",
)


def corpus() -> Corpus:
    """A few sentences, to learn a few steps from."""
    text = [
        "the cat sat on the mat. it slept. " * 5,
        "a dog ran. it ran far away. " * 5,
    ]
    text, tokenizer = 9 * text, BytePairTokenizer.train(text[0] + text[1], 280)
    return document_corpus(text, tokenizer, nats=99.0)


def measured(trial: ModuleType, run: object, *columns: str) -> dict:
    """A trial's script still makes a run, whose numbers are numbers; its last row."""
    found = trial.TRIAL.rows_made(trial.measure, run)[-1]
    assert all(math.isfinite(found[name]) for name in columns), found
    return found


def check_rates(
    runs: np.ndarray,
    arms: list[str],
    *,
    score: str = "loss",
    rates: tuple[str, ...] = ("learning_rate",),
) -> list[np.ndarray]:
    """Every arm's best rates, chosen with seed 0, lie between two others; the rest runs there.

    Args:
        arms: the columns that set the arms apart.
        score: what rates are chosen by; the less the better.
        rates: the columns of which every arm has its own.

    Returns:
        Of each arm the runs of fresh seeds, by seed.
    """
    found = []
    for arm in np.unique(runs[arms]):
        own = runs[runs[arms] == arm]
        tried, fresh = own[own["seed"] == 0], own[own["seed"] > 0]
        best = tried[tried[score].argmin()]
        for rate in rates:
            others = [name for name in rates if name != rate]
            near = tried[rate][tried[others] == best[others]] if others else tried[rate]
            assert near.min() < best[rate] < near.max(), (arm.tolist(), rate)
            assert set(fresh[rate]) == {best[rate]}, (arm.tolist(), rate)
        found.append(np.sort(fresh, order="seed"))
    return found


def unmade(trial: ModuleType, *experiments: Callable[[], Iterator[list]]) -> list:
    """What the next round of some experiments would make; nothing, when they are through."""
    made = set(trial.TRIAL.table.runs(trial.TRIAL.table.rows()))
    rounds = (next(iter(each()), []) for each in experiments)
    return [run for wanted in rounds for run in wanted if run not in made]
