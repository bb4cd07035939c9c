"""Watching a training: what happened, what it says about the model, and how fast it goes.

A loss means little by itself. Against the language's exact floor it tells what is left to learn;
per byte of text it can be compared between tokenizers; and the floating-point operations that it
cost, per second and as a share of what the device could do (MFU, Chowdhery et al., 2022), tell
whether the machine was used. Chapter 9.
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

__all__ = ["Evaluation", "History", "Monitor"]


@dataclass(frozen=True)
class Evaluation:
    """A model's score on a whole corpus.

    Attributes:
        loss: mean surprise in nats per token.
        bytes_per_token: mean length of a token in bytes of text.
        floor: the loss of the language itself, where it is known.
    """

    loss: float
    bytes_per_token: float
    floor: float | None = None

    @property
    def bits_per_byte(self) -> float:
        """The loss in a unit that does not depend on the tokenizer."""
        return bits_per_byte(self.loss, self.bytes_per_token)

    @property
    def gap(self) -> float | None:
        """What remains to be learned, in nats per token."""
        return None if self.floor is None else self.loss - self.floor


@dataclass
class History:
    """What happened during training, for plots.

    Attributes:
        tokens_per_step: B times S.
        losses: training loss of each step, in nats per token, before the step was taken.
        gradient_norms: of each step, before the gradient was shortened.
        learning_rates: of each step.
        skipped: the steps, counted from 1, whose loss or gradient was not finite.
        evaluations: pairs of the number of steps taken and the evaluation made then.
        seconds: wall-clock time of the training, evaluations and earlier sessions included.
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
        """Take up what the log of an earlier session says.

        Args:
            records: of the log. What they do not say of a step is nan.
            n_steps: steps that were taken, as the state has it; what came later does not count.
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
            self.seconds = max(self.seconds, seconds)  # nan is never the larger
            if "validation_loss" in record:
                loss = _number(record["validation_loss"])
                evaluation = Evaluation(loss, bytes_per_token, floor)
                self.evaluations.append((step, evaluation))
            elif step > 0:
                for name, column in columns.items():
                    column[step - 1] = _number(record.get(name))
                if record.get("skipped"):
                    self.skipped.append(step)


def _number(said: object) -> float:
    return float(said) if isinstance(said, int | float) else math.nan


@dataclass
class Monitor:
    """Keeps the history, writes the log, draws the bar, and ends a run that has diverged.

    Args:
        n_steps: length of the training.
        history: of what happened before; of a new training an empty one.
        look_every: steps between looks at the loss. On a GPU a look makes it wait.
        floor: the loss of the language itself, where it is known.
        log: receives the records of each look; None keeps none.
        flops_per_token: see the function of that name.
        peak_flops: of all devices together, where it is known.
        progress: show a bar on stderr.
        board: folder for TensorBoard, None for none.
        patience: steps that may be skipped in a row.

    Raises:
        ImportError: a board is wanted, but tensorboard is not installed.
    """

    n_steps: int
    history: History
    look_every: int = 10
    floor: float | None = None
    log: Callable[..., None] | None = None
    flops_per_token: int = 0
    peak_flops: float | None = None
    progress: bool = False
    board: Path | None = None
    patience: int = 5

    def __post_init__(self) -> None:
        self.last_save = "no state was saved"
        if self.board is not None and self.board.is_symlink():
            raise ValueError(f"{self.board} is a link; nothing is written through one")
        self._board = None if self.board is None else summary_writer()(self.board)
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
        if self._board is not None:
            self._board.close()

    def note_step(self, result: Any, rate: float) -> None:
        """Keep what a step tells. Some are read together: a GPU falls idle at each reading.

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
        """Within, something else than steps takes time, which the speed shall not count."""
        self.look()
        yield
        self._looked = time.perf_counter()

    def look(self) -> None:
        """Read what was kept of the steps since the last look, log and show it.

        Raises:
            FloatingPointError: more steps in a row were skipped than patience allows.
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
        """Keep an evaluation, made after the steps that were noted."""
        self.look()
        self.history.seconds = time.perf_counter() - self._began
        step = len(self.history.losses)
        self.history.evaluations.append((step, evaluation))
        record = {"step": step, "validation_loss": evaluation.loss}
        record["bits_per_byte"] = evaluation.bits_per_byte
        self._log({**record, "floor": evaluation.floor})

    def note_save(self, path: Path | None) -> None:
        """Remember where the last good state is; None where there is none."""
        if path is not None:
            self.last_save = f"the last good state is {path}"

    def _log(self, *records: dict[str, object]) -> None:
        seconds = round(self.history.seconds, 3)
        if self.log is not None:
            self.log(*({**_finite(each), "seconds": seconds} for each in records))
        for record in records if self._board is not None else ():
            for name, value in record.items():
                if isinstance(value, float):
                    self._board.add_scalar(name, value, record["step"])

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
    """JSON has no word for a number that is none."""
    return {
        name: None if isinstance(x, float) and not math.isfinite(x) else x
        for name, x in record.items()
    }


def summary_writer() -> type:
    """TensorBoard's writer, which a board needs.

    Raises:
        ImportError: it is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError(
            "TensorBoard is not installed; pip install tensorboard, or leave the option out"
        ) from error
    return SummaryWriter
