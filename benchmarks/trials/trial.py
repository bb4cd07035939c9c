"""What the trials share: a table of runs, the best rates of every arm, and what models learn from.

A trial says what sets its runs apart, in a dataclass, and how one is measured; its experiments are
generators of such points. A generator is asked for a point when the one before has been measured
and stands in the table, so that it can read there what to try next. What stands in the table is
not made again.
"""

import argparse
import functools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import collect, write_results
from tables import append, key, read

from decoder_only.data import Corpus, document_corpus, story_corpora
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only_book import stored

__all__ = ["Table", "beginnings", "learn", "running_stories", "stories"]


class Table:
    """The runs of a trial. They lie in the package, where `stored.load_runs` finds them.

    Args:
        name: of the trial.
        point: the dataclass of what sets a run apart.
        score: the column by which rates are chosen; the less the better.
        tuned: the rates, fields of `point`, that every arm has its own of.
    """

    def __init__(
        self,
        name: str,
        point: type[Any],
        *,
        score: str = "loss",
        tuned: Sequence[str] = ("learning_rate",),
    ) -> None:
        self.path = stored.FOLDER / "trials" / f"{name}.csv"
        self.point, self.score, self.tuned = point, score, tuned

    def rows(self) -> list[dict[str, str]]:
        return read(self.path)

    def row(self, point: Any) -> dict[str, str] | None:
        """What came of a run, or None before it is made."""
        wanted = key(asdict(point), self.point)
        found = (row for row in self.rows() if key(row, self.point) == wanted)
        return next(found, None)

    def scores(self, arm: Any) -> dict[tuple[float, ...], float]:
        """The score of an arm, with its seed, at all rates that were tried."""
        same = {name: getattr(arm, name) for name in self.tuned}
        wanted = key(asdict(arm), self.point)
        return {
            tuple(float(row[name]) for name in self.tuned): float(row[self.score])
            for row in self.rows()
            if key(row | same, self.point) == wanted
        }

    def at_best_rate(self, arm: Any) -> Any:
        """The arm at its best rates of those that were tried; as it is, before any was."""
        tried = self.scores(arm)
        return self._at(arm, min(tried, key=tried.get)) if tried else arm

    def _at(self, arm: Any, rates: Sequence[float]) -> Any:
        return replace(arm, **dict(zip(self.tuned, rates, strict=True)))

    def rates(self, arms: Iterable[Any]) -> Iterator[Any]:
        """Every arm at its own rates, half and twice each, until the best lies between two."""
        for arm in arms:
            while left := self._rates_left(arm):
                yield left[0]

    def _rates_left(self, arm: Any) -> list[Any]:
        best, tried = self.at_best_rate(arm), self.scores(arm)
        near = [best]
        for name in self.tuned:
            middle = getattr(best, name)
            near += [replace(best, **{name: x}) for x in (middle / 2, 2 * middle)]
        seen = [self._at(arm, rates) for rates in tried]
        return [each for each in near if each not in seen]

    def seeds(self, arms: Iterable[Any], seeds: Iterable[int]) -> Iterator[Any]:
        """Every arm at its best rates, from fresh seeds."""
        for seed in seeds:
            for arm in arms:
                yield replace(self.at_best_rate(arm), seed=seed)

    def make(
        self,
        measure: Callable[[Any], Any],
        experiments: Mapping[str, Callable[[], Iterable[Any]]],
        *,
        packages: Iterable[str] = ("torch", "numpy", "tiktoken"),
    ) -> None:
        """The command line of a trial: experiments by name and in this order; by default, all.

        Args:
            measure: makes one run; gives its row, or rows of which all or none are kept.
            experiments: for each name what yields its points.
            packages: distributions whose versions matter.
        """
        parser = argparse.ArgumentParser(description="Make runs that are not made yet.")
        parser.add_argument("experiments", nargs="*", help=", ".join(experiments))
        names = parser.parse_args().experiments or list(experiments)
        if unknown := [name for name in names if name not in experiments]:
            parser.error(
                f"no experiment {unknown[0]!r}; give some of {', '.join(experiments)}"
            )
        torch.set_num_threads(1)
        for name in names:
            for point in experiments[name]():
                if self.row(point) is None:
                    made = measure(point)
                    for row in [made] if is_dataclass(made) else list(made):
                        append(self.path, row)
                        print(row, flush=True)
        rows = self.rows()
        seconds = sum(float(row.get("processor_seconds", 0)) for row in rows)
        about = {"provenance": collect(packages=packages), "runs": len(rows)}
        about["processor seconds"] = round(seconds)
        write_results(self.path.with_suffix(".json"), about)


@functools.cache
def stories() -> tuple[Corpus, Corpus]:
    """Stories to learn from, and 400 others to be measured on, in a vocabulary of 512."""
    language = StoryLanguage()
    learned = list(islice(language.stories(split="train"), 1_500))
    tokenizer = BytePairTokenizer.train(learned[:300], 512)
    unseen = islice(language.stories(split="validation"), 400)
    return document_corpus(learned, tokenizer), document_corpus(unseen, tokenizer)


@functools.cache
def running_stories() -> tuple[Corpus, Corpus]:
    """Stories of the smallest language to learn from, and 60 others, in a vocabulary of 512.

    Both are running text: rows begin anywhere, so that a story is learned to its end.
    """
    language = StoryLanguage.hamlet()
    some = islice(language.stories(split="train", seed=0), 1_000)
    tokenizer = BytePairTokenizer.train(some, 512)
    corpora = story_corpora(language, tokenizer, n_train=3_000, n_validation=60)
    return tuple(replace(corpus, starts=None) for corpus in corpora)


def beginnings(corpus: Corpus, length: int) -> Int[Tensor, "b s"]:
    """The first tokens of every document, one more than `length`: inputs and targets."""
    rows = torch.from_numpy(corpus.ids.astype("int64")).unfold(0, length + 1, 1)
    return rows[corpus.starts]


def learn(
    model: nn.Module,
    loss_at: Callable[[int], Tensor],
    *,
    steps: int,
    learning_rate: float,
    warmup: int,
    max_gradient_norm: float = math.inf,
) -> list[float]:
    """AdamW under a cosine behind a warm-up; the loss of every step, until it is no number."""
    settings = {"betas": (0.9, 0.95), "weight_decay": 0.0, "fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), **settings)
    losses = []
    for step in range(steps):
        rising = min(1, (step + 1) / warmup)
        falling = (1 + math.cos(math.pi * step / steps)) / 2
        optimizer.param_groups[0]["lr"] = learning_rate * rising * falling
        optimizer.zero_grad()
        loss = loss_at(step)
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            break
        loss.backward()
        if max_gradient_norm < math.inf:
            nn.utils.clip_grad_norm_(model.parameters(), max_gradient_norm)
        optimizer.step()
    return losses
