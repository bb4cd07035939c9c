"""Ways to draw the next token: how many stories are possible, and are those as rich as true ones?

    python benchmarks/trials/samplers.py filters truth grammar penalties short

The stored story model writes whole stories, at most 207 tokens long, and the language judges them.

Arms        `filters`: temperature, top-k, top-p and min-p, each at several values. `truth`: stories
            of the validation split instead. `penalties`: the logits of tokens that were there
            before are divided by the value if positive and multiplied if not, as in CTRL (Keskar
            et al., 2019). `grammar`: only tokens with which some story goes on, at temperature 1.
            `top-k` of 4,096 is a plain draw.
Fixed       The model, 64 stories a run.
Seeds       Five of the draws, the same in all arms. `truth` takes other stories for each seed.
Short       16 stories of every arm with seed 0, and of one arm with all seeds: rows that a chapter
            can make again while it is read.
Measured    How many stories are possible. Of the possible ones, added up: tokens with the one that
            ends the story, surprise under the language and under the model, and, in `grammar`, the
            surprise at having drawn an allowed token at all. Of all stories: how many ended by
            themselves, the share of different runs of four words, and how many had not left the
            language after so many tokens.
Against     A filter would be free if its possible stories were as surprising as true ones. Masking
            by the grammar would equal drawing again until a story is possible if both were equally
            far from the language.

Chapter 16 reads the table, and makes a row again.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from trial import Trial, seeded

from decoder_only.generation.sampling import (
    apply_temperature,
    columns,
    keep_top_k,
    keep_top_p,
)
from decoder_only.model.lm_head import next_token_loss
from decoder_only.stories import StoryLanguage, exact
from decoder_only.training.checkpoint import SavedRun
from decoder_only_book.stored import load_story_model

N_STORIES, MOST = 64, 207
SHORT = ", 16 stories"
VALUES = {
    "temperature": (0.9, 0.8, 0.7, 0.6, 0.4),
    "top-k": (4096, 20, 10, 5, 3),
    "top-p": (0.98, 0.95, 0.9, 0.8, 0.5),
    "min-p": (0.02, 0.05, 0.1, 0.2, 0.5),
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    sampler: str
    value: float = 1.0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured; sums are over the possible stories."""

    stories: int
    possible: int
    ended: int
    tokens: int
    truth_nats: float
    model_nats: float
    allowed_nats: float
    different_runs: float
    alive_25: int
    alive_50: int
    alive_75: int
    alive_100: int
    alive_125: int


TRIAL = Trial("samplers", Run, Found, score="possible", seeds=tuple(range(5)))


def filters() -> Iterator[list[Run]]:
    """Every filter at all of its values."""
    pairs = [(name, value) for name, values in VALUES.items() for value in values]
    yield [
        Run(sampler=name, value=value, seed=seed)
        for seed in TRIAL.seeds
        for name, value in pairs
    ]


def truth() -> Iterator[list[Run]]:
    """Stories of the language."""
    yield [Run(sampler="truth", seed=seed) for seed in TRIAL.seeds]


def penalties() -> Iterator[list[Run]]:
    """Two penalties on what was there before."""
    yield [
        Run(sampler="penalty", value=value, seed=seed)
        for seed in TRIAL.seeds
        for value in (1.05, 1.2)
    ]


def grammar() -> Iterator[list[Run]]:
    """Only what the grammar allows."""
    yield [Run(sampler="grammar", seed=seed) for seed in TRIAL.seeds]


def short() -> Iterator[list[Run]]:
    """A quarter of the stories, for every arm."""
    arms = [
        run for some in (filters, truth, penalties, grammar) for run in next(some())
    ]
    told = [
        x for x in arms if x.seed == 0 or (x.sampler, x.value) == ("temperature", 0.4)
    ]
    yield [replace(run, sampler=run.sampler + SHORT) for run in told]


@functools.cache
def world() -> tuple[StoryLanguage, SavedRun, exact.NextToken]:
    language, run = StoryLanguage(), load_story_model()
    return language, run, exact.NextToken(language, run.tokenizer)


def keep_min_p(logits: Float[Tensor, "b v"], p: float) -> Float[Tensor, "b v"]:
    """Keep the tokens that are at least p times as likely as the likeliest."""
    least = logits.amax(dim=-1, keepdim=True) + math.log(p)
    return logits.masked_fill(logits < least, -math.inf)


def penalized(
    logits: Float[Tensor, "b v"], ids: Int[Tensor, "b s"], by: float
) -> Float[Tensor, "b v"]:
    """The logits, lower for tokens that are in the row already."""
    seen = logits.gather(-1, ids)
    return logits.scatter(-1, ids, torch.where(seen > 0, seen / by, seen * by))


class Sampler:
    """Draws tokens, and remembers the rows so far and how likely an allowed token was."""

    def __init__(self, run: Run, n_stories: int) -> None:
        self.run, self.generator = run, seeded(run.seed)
        self.rows: Int[Tensor, "b s"] | None = None
        self.allowed_nats = torch.zeros(n_stories, dtype=torch.float64)
        _, saved, self.next_token = world()
        self.n_tokens = saved.tokenizer.vocab_size

    def restrict(self, rows: Int[Tensor, "b s"]) -> Bool[Tensor, "b v"] | None:
        """Looks at the rows; nothing is ruled out here."""
        self.rows = rows

    def choose(self, logits: Float[Tensor, "b v"]) -> Int[Tensor, "b"]:
        name, value = self.run.sampler, self.run.value
        if name == "grammar":
            logits = self.only_possible(logits)
        elif name == "penalty":
            logits = penalized(logits, self.rows, value)
        else:
            filters = {
                "temperature": apply_temperature,
                "top-k": lambda logits, k: keep_top_k(logits, int(k)),
                "top-p": keep_top_p,
                "min-p": keep_min_p,
            }
            logits = filters[name](logits, value)
        drawn = torch.multinomial(logits.softmax(-1), 1, generator=self.generator)
        return drawn[:, 0]

    def only_possible(self, logits: Float[Tensor, "b v"]) -> Float[Tensor, "b v"]:
        """Minus infinity for tokens with which no story goes on."""
        masked = torch.full_like(logits, -math.inf)
        end = self.next_token.end_of_text
        for row, (ids, said) in enumerate(zip(self.rows.tolist(), logits, strict=True)):
            if end in ids[1:]:
                masked[row, end] = 0.0
                continue
            may = [*exact.probabilities(self.next_token.after(ids))]
            masked[row, may] = said[may]
            nats = said.double().logsumexp(0) - said[may].double().logsumexp(0)
            self.allowed_nats[row] += nats
        return masked


@torch.no_grad()
def written(run: Run) -> tuple[list[list[int]], Float[Tensor, "b"]]:
    """Stories as tokens, each with the one that ends it if it ended; and what a mask kept out."""
    language, saved, next_token = world()
    end, name, n = next_token.end_of_text, run.sampler.removesuffix(SHORT), N_STORIES
    if name != run.sampler:
        run, n = replace(run, sampler=name), 16
    if run.sampler == "truth":
        some = language.stories(split="validation", seed=run.seed)
        rows = [[*saved.tokenizer.encode(x), end] for x in islice(some, n)]
        return rows, torch.zeros(n, dtype=torch.float64)
    sampler = Sampler(run, n)
    start = torch.full((n, 1), end)
    each = columns(
        saved.model,
        start,
        MOST,
        sampler.choose,
        stop_id=end,
        n_allowed=saved.tokenizer.vocab_size,
        restrict=sampler.restrict,
    )
    rows = torch.stack(list(each), dim=1).tolist()
    rows = [row[: row.index(end) + 1] if end in row else row for row in rows]
    return rows, sampler.allowed_nats


@torch.no_grad()
def surprise(saved: SavedRun, row: list[int]) -> float:
    """Of a story under the model, in nats."""
    ids = torch.tensor([[row[-1], *row]])
    logits = saved.model(ids[:, :-1])
    return next_token_loss(logits, ids[:, 1:], reduction="sum").item()


def measure(run: Run) -> Found:
    """Make one run."""
    language, saved, next_token = world()
    rows, allowed_nats = written(run)
    possible = ended = tokens = 0
    truth_nats = model_nats = allowed = 0.0
    runs, alive = [], dict.fromkeys((25, 50, 75, 100, 125), 0)
    for row, nats in zip(rows, allowed_nats.tolist(), strict=True):
        has_ended = row[-1] == next_token.end_of_text
        ids = row[:-1] if has_ended else row
        text = saved.tokenizer.decode(ids)
        words = text.split()
        runs += zip(*(words[i:] for i in range(4)), strict=False)
        ended += has_ended
        found = language.explain(text)
        is_story = found.in_language and has_ended
        ends = [end for _, end in exact.spans(saved.tokenizer, ids)]
        for n in alive:
            alive[n] += is_story or (n <= len(ends) and found.at >= ends[n - 1])
        if is_story:
            possible, tokens = possible + 1, tokens + len(row)
            truth_nats -= found.log_prob
            model_nats += surprise(saved, row)
            allowed += nats
    return Found(
        stories=len(rows),
        possible=possible,
        ended=ended,
        tokens=tokens,
        truth_nats=truth_nats,
        model_nats=model_nats,
        allowed_nats=allowed,
        different_runs=len({*runs}) / len(runs),
        **{f"alive_{n}": count for n, count in alive.items()},
    )


if __name__ == "__main__":
    experiments = [filters, truth, grammar, penalties, short]
    TRIAL.main(measure, **{each.__name__: each for each in experiments})
