"""Watching a training: what happened, what it says about the model, and how fast it goes.

A loss alone says little. Its distance from the language's exact floor is what is left to learn. Per
byte of text it can be compared between tokenizers. The model FLOPs utilization (MFU, Chowdhery et
al., 2022) is the fraction of the device's peak that the training reaches. Chapter 9.
"""

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from decoder_only.model.lm_head import bits_per_byte


@dataclass(frozen=True)
class Evaluation:
    """A model's loss on a whole corpus.

    Attributes:
        loss: mean cross-entropy, in nats per token.
        bytes_per_token: mean length of a token in bytes of text.
        floor: the entropy of the language in nats per token, where it is known.
    """

    loss: float
    bytes_per_token: float
    floor: float | None = None

    @property
    def bits_per_byte(self) -> float:
        """The loss in bits per byte of text, which does not depend on the tokenizer."""
        return bits_per_byte(self.loss, self.bytes_per_token)

    @property
    def gap(self) -> float | None:
        """The loss above the floor, in nats per token; None where the floor is unknown."""
        return None if self.floor is None else self.loss - self.floor


@dataclass
class History:
    """The course of a training: losses, norms, learning rates, evaluations and time.

    Attributes:
        tokens_per_step: B times S.
        losses: training loss of each step in nats per token, before the step.
        gradient_norms: norm of each step's gradient before clipping.
        learning_rates: of each step.
        skipped: the steps, counted from 1, whose loss or gradient was not finite.
        evaluations: pairs of a number of steps and the evaluation after them.
        seconds: wall-clock time with evaluations and earlier sessions.
    """

    tokens_per_step: int
    losses: list[float] = field(default_factory=list)
    gradient_norms: list[float] = field(default_factory=list)
    learning_rates: list[float] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    evaluations: list[tuple[int, Evaluation]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens that the model has been trained on, repetitions counted."""
        return len(self.losses) * self.tokens_per_step

    @property
    def final(self) -> Evaluation:
        """The last evaluation."""
        return self.evaluations[-1][1]

    def recall(
        self,
        records: Sequence[Mapping[str, object]],
        *,
        n_steps: int,
        bytes_per_token: float,
        floor: float | None = None,
    ) -> None:
        """Fill the history from the log of an earlier session.

        Args:
            records: the log's. A number that the log lacks becomes nan.
            n_steps: steps taken, as the saved state says. Records of later steps are ignored.
            bytes_per_token, floor: of the corpus that was evaluated.
        """
        columns = {
            "loss": self.losses,
            "gradient_norm": self.gradient_norms,
            "learning_rate": self.learning_rates,
        }
        for column in columns.values():
            column[:] = [math.nan] * n_steps
        for record in records:
            step, seconds = record["step"], _number(record.get("seconds"))
            if step > n_steps:
                continue
            self.seconds = max(self.seconds, seconds)  # nan is never larger
            if "validation_loss" in record:
                loss = _number(record["validation_loss"])
                evaluation = Evaluation(loss, bytes_per_token, floor)
                self.evaluations.append((step, evaluation))
            elif step > 0:
                for name, column in columns.items():
                    column[step - 1] = _number(record.get(name))
                if record.get("skipped"):
                    self.skipped.append(step)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


@dataclass
class Monitor:
    """Keeps the history, writes the log, draws the bar, and ends a run that has diverged.

    Args:
        n_steps: steps of the whole training.
        history: of earlier sessions; empty for a new training.
        look_every: steps between reads of the loss, because reading it synchronises a GPU.
        floor: the entropy of the language in nats per token, where it is known.
        log: called with the records of each read; None writes no log.
        flops_per_token: see `counting.flops_per_token`.
        peak_flops: operations per second of all devices together, where it is known.
        progress: show a bar on stderr.
        patience: how many steps in a row may be skipped.

    """

    n_steps: int
    history: History
    look_every: int = 10
    floor: float | None = None
    log: Callable[..., None] | None = None
    flops_per_token: int = 0
    peak_flops: float | None = None
    progress: bool = False
    patience: int = 5

    def __post_init__(self) -> None:
        self.last_save = "no state was saved"
        self._unread: list[tuple[Any, float]] = []
        self._looked = time.perf_counter()
        self._began = self._looked - self.history.seconds
        self._bar = tqdm(
            total=self.n_steps,
            initial=len(self.history.losses),
            disable=not self.progress,
            file=sys.stderr,
            smoothing=0,
            bar_format="{n_fmt}/{total_fmt} steps |{bar:24}| {remaining} left{postfix}",
        )

    def __enter__(self) -> "Monitor":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def note_step(self, result: Any, rate: float) -> None:
        """Keep a step's result. Several are read together, because a read synchronises a GPU.

        Args:
            result: a `training.StepResult`.
            rate: the learning rate of the step.
        """
        self._unread.append((result, rate))
        n_taken = len(self.history.losses) + len(self._unread)
        if n_taken % self.look_every == 0 or n_taken == self.n_steps:
            self.look()

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Leave the time within the context out of the speed that the bar shows."""
        self.look()
        yield
        self._looked = time.perf_counter()

    def look(self) -> None:
        """Read the results of the steps since the last read, log them and show them.

        Raises:
            FloatingPointError: `patience` steps in a row were skipped.
        """
        if not self._unread:
            return
        results, rates = zip(*self._unread, strict=True)
        self._unread = []
        losses, norms, skips = (
            torch.stack([getattr(result, name) for result in results]).tolist()
            for name in ("loss", "gradient_norm", "skipped")
        )
        now, first = time.perf_counter(), len(self.history.losses) + 1
        self.history.seconds, seconds = now - self._began, now - self._looked
        self._looked = now
        self.history.losses += losses
        self.history.gradient_norms += norms
        self.history.learning_rates += rates
        steps = range(first, first + len(losses))
        self.history.skipped += [
            n for n, skip in zip(steps, skips, strict=True) if skip
        ]
        names = ("step", "loss", "gradient_norm", "learning_rate", "skipped")
        rows = zip(steps, losses, norms, rates, skips, strict=True)
        self._log(*(dict(zip(names, row, strict=True)) for row in rows))
        self._stop_if_diverged(first)
        self._show(losses, seconds)

    def _stop_if_diverged(self, first: int) -> None:
        skipped, in_a_row = set(self.history.skipped), 0
        for step in range(first - self.patience + 1, len(self.history.losses) + 1):
            in_a_row = in_a_row + 1 if step in skipped else 0
            if in_a_row == self.patience:
                raise FloatingPointError(
                    f"the loss or its gradient was not finite in {self.patience} "
                    f"steps in a row, up to step {step}; {self.last_save}; "
                    "a lower learning rate or a longer warm-up may help"
                )

    def note_evaluation(self, evaluation: Evaluation) -> None:
        """Keep an evaluation, which follows the last step that was noted."""
        self.look()
        self.history.seconds = time.perf_counter() - self._began
        step = len(self.history.losses)
        self.history.evaluations.append((step, evaluation))
        record = {"step": step, "validation_loss": evaluation.loss}
        record["bits_per_byte"] = evaluation.bits_per_byte
        self._log({**record, "floor": evaluation.floor})

    def note_save(self, path: Path | None) -> None:
        """Remember the path of the last saved state, which an error names; None for no state."""
        if path is not None:
            self.last_save = f"the last good state is {path}"

    def _log(self, *records: dict[str, object]) -> None:
        seconds = round(self.history.seconds, 3)
        if self.log is not None:
            self.log(*({**_finite(each), "seconds": seconds} for each in records))

    def _show(self, losses: list[float], seconds: float) -> None:
        loss = sum(losses) / len(losses)
        parts = [f"loss {loss:.3f}"]
        if self.floor is not None:
            parts.append(f"gap to the floor {loss - self.floor:.3f}")
        speed = len(losses) * self.history.tokens_per_step / seconds
        parts.append(f"{speed:,.0f} tokens/s")
        if self.peak_flops:
            parts.append(f"MFU {speed * self.flops_per_token / self.peak_flops:.0%}")
        if self.history.skipped:
            parts.append(f"{len(self.history.skipped)} skipped")
        self._bar.set_postfix_str(", ".join(parts), refresh=False)
        self._bar.update(len(losses))


def _finite(record: dict[str, object]) -> dict[str, object]:
    """The record with None for nan and infinity, which JSON lacks."""
    return {
        name: None if isinstance(x, float) and not math.isfinite(x) else x
        for name, x in record.items()
    }
