"""Watching a training: what happened, what it says about the model, and how fast it goes.

A loss means little by itself. Against the language's exact floor it tells what is left to learn;
per byte of text it can be compared between tokenizers; and the floating-point operations that it
cost, per second and as a share of what the device could do (MFU, Chowdhery et al., 2022), tell
whether the machine was used. Chapter 9.
"""

import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import torch
from torch import Tensor, nn
from tqdm import tqdm

from decoder_only.lm_head import bits_per_byte

__all__ = ["Evaluation", "History", "Monitor", "flops_per_token"]


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
        learning_rates: of each step.
        skipped: the steps, counted from 1, whose loss or gradient was not finite.
        evaluations: pairs of the number of steps taken and the evaluation made then.
        seconds: wall-clock time of the training, evaluations and earlier sessions included.
    """

    tokens_per_step: int
    losses: list[float] = field(default_factory=list)
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

    def recall(self, records: Iterable[Mapping[str, object]], like: Evaluation) -> None:
        """Take up what the log of an earlier session says.

        Args:
            records: of the log.
            like: tells the corpus's bytes per token and floor.
        """
        for record in records:
            self.seconds = record["seconds"]
            if "loss" in record:
                self.losses.append(
                    math.nan if record["loss"] is None else record["loss"]
                )
                self.learning_rates.append(record["learning_rate"])
                if record.get("skipped"):
                    self.skipped.append(record["step"])
            else:
                evaluation = Evaluation(
                    record["validation_loss"], like.bytes_per_token, like.floor
                )
                self.evaluations.append((record["step"], evaluation))


def flops_per_token(model: nn.Module) -> int:
    """Floating-point operations of training on one token: 6 N + 12 L H K S.

    Six for each weight of a matrix product, two forward and four backward, and the products of
    queries, keys and values over the whole context, whether the mask uses them or not.

    Args:
        model: a `GPT`.

    Source: Kaplan et al. (2020), appendix B; Chowdhery et al. (2022), appendix B.
    """
    config = model.config
    matrices = sum(p.numel() for block in model.blocks for p in block.parameters())
    matrices += config.vocab_size * config.d_model
    width = config.n_heads * config.head_dim
    return 6 * matrices + 12 * config.n_layers * width * config.context_length


class Monitor:
    """Keeps the history, writes the log, draws the bar, and ends a run that has diverged.

    Args:
        n_steps: length of the training.
        tokens_per_step: B times S.
        look_every: steps between looks at the loss. On a GPU a look makes it wait.
        floor: the loss of the language itself, where it is known.
        log: receives each record; None keeps none.
        flops_per_token: see the function of that name.
        peak_flops: of all devices together, where it is known.
        progress: show a bar on stderr.
        board: folder for TensorBoard, None for none.
        patience: steps that may be skipped in a row.

    Raises:
        ImportError: a board is wanted, but tensorboard is not installed.
    """

    def __init__(
        self,
        *,
        n_steps: int,
        tokens_per_step: int,
        look_every: int = 10,
        floor: float | None = None,
        log: Callable[[dict[str, object]], None] | None = None,
        flops_per_token: int = 0,
        peak_flops: float | None = None,
        progress: bool = False,
        board: Path | None = None,
        patience: int = 5,
    ) -> None:
        self.n_steps, self.look_every, self.floor = n_steps, look_every, floor
        self.flops_per_token, self.peak_flops = flops_per_token, peak_flops
        self.patience = patience
        self.history = History(tokens_per_step=tokens_per_step)
        self.last_save = "no state was saved"
        self._log_record = log
        self._board = None if board is None else _summary_writer(board)
        self._unread: list[tuple[Tensor, Tensor, float]] = []
        self._began = time.perf_counter()
        self._bar = tqdm(
            total=n_steps,
            disable=not progress,
            file=sys.stderr,
            smoothing=0,
            bar_format="{n_fmt}/{total_fmt} steps |{bar:24}| {remaining} left{postfix}",
        )

    def __enter__(self) -> "Monitor":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()
        if self._board is not None:
            self._board.close()

    def go_on(self, records: list[dict[str, object]], like: Evaluation) -> None:
        """Take up the history of an earlier session from its log."""
        self.history.recall(records, like)
        self._began = time.perf_counter() - self.history.seconds
        self._bar.update(len(self.history.losses))

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._bar.write(text, file=sys.stderr)

    def note_step(self, loss: Tensor, skipped: Tensor, rate: float) -> None:
        """Keep a loss. Some are read together, because a GPU falls idle at each reading."""
        self._unread.append((loss, skipped, rate))
        n_taken = len(self.history.losses) + len(self._unread)
        if n_taken % self.look_every == 0 or n_taken == self.n_steps:
            self.look()

    def look(self) -> None:
        """Read the losses that were kept, log and show them.

        Raises:
            FloatingPointError: more steps in a row were skipped than patience allows.
        """
        if not self._unread:
            return
        losses = torch.stack([loss for loss, _, _ in self._unread]).tolist()
        skipped = torch.stack([skip for _, skip, _ in self._unread]).tolist()
        rates = [rate for _, _, rate in self._unread]
        self._unread.clear()
        self.history.seconds = time.perf_counter() - self._began
        for loss, skip, rate in zip(losses, skipped, rates, strict=True):
            step = len(self.history.losses) + 1
            self.history.losses.append(loss)
            self.history.learning_rates.append(rate)
            if skip:
                self.history.skipped.append(step)
            # JSON has no word for a number that is none.
            said = loss if math.isfinite(loss) else None
            flag = {"skipped": True} if skip else {}
            self._log(step=step, loss=said, learning_rate=rate, **flag)
        self._stop_if_diverged()
        self._show(losses)

    def _stop_if_diverged(self) -> None:
        taken, last = len(self.history.losses), self.history.skipped[-self.patience :]
        if last == list(range(taken - self.patience + 1, taken + 1)):
            raise FloatingPointError(
                f"the loss or its gradient was not finite in {self.patience} steps in a row, "
                f"up to step {taken}; {self.last_save}; a lower learning rate or a longer "
                "warm-up may help"
            )

    def note_evaluation(self, evaluation: Evaluation) -> None:
        """Keep an evaluation, made after the steps that were noted."""
        self.look()
        self.history.seconds = time.perf_counter() - self._began
        step = len(self.history.losses)
        self.history.evaluations.append((step, evaluation))
        self._log(
            step=step,
            validation_loss=evaluation.loss,
            bits_per_byte=evaluation.bits_per_byte,
            floor=evaluation.floor,
        )

    def note_save(self, path: Path) -> None:
        """Remember where the last good state is."""
        self.last_save = f"the last good state is {path}"

    def _log(self, **record: object) -> None:
        if self._log_record is not None:
            self._log_record({**record, "seconds": round(self.history.seconds, 3)})
        if self._board is not None:
            step = record.pop("step")
            for name, value in record.items():
                if isinstance(value, float):
                    self._board.add_scalar(name, value, step)

    def _show(self, losses: list[float]) -> None:
        loss = sum(losses) / len(losses)
        parts = [f"loss {loss:.3f}"]
        if self.floor is not None:
            parts.append(f"gap to the floor {loss - self.floor:.3f}")
        speed = self.history.tokens / self.history.seconds
        parts.append(f"{speed:,.0f} tokens/s")
        if self.peak_flops:
            parts.append(f"MFU {speed * self.flops_per_token / self.peak_flops:.0%}")
        if self.history.skipped:
            parts.append(f"{len(self.history.skipped)} skipped")
        self._bar.set_postfix_str(", ".join(parts), refresh=False)
        self._bar.update(len(losses))


def _summary_writer(folder: Path) -> object:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError(
            "TensorBoard is not installed; pip install 'decoder-only[tensorboard]', or leave "
            "the option out"
        ) from error
    return SummaryWriter(folder)
