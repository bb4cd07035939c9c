"""Training: ask for the next token, measure the surprise, move the weights, repeat.

    loss = -(1 / BS) sum over b, s of log P(targets[b, s] | inputs[b, :s + 1])
    weights = weights - AdamW step along the gradient of the loss

The order of a step: learning rate, batch, loss and gradient (in parts, if the batch is too large
to fit), clipping, optimizer. `train` is that order and little else. Chapter 9.
"""

import math
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from decoder_only import checkpoint
from decoder_only.data import IGNORED, Corpus, evaluation_batches, training_batch
from decoder_only.hardware import autocast
from decoder_only.lm_head import bits_per_byte, next_token_loss
from decoder_only.model import GPT
from decoder_only.optimization import adamw, learning_rate, set_learning_rate

__all__ = ["Evaluation", "History", "TrainConfig", "evaluate", "train", "train_step"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything that shapes a training run, apart from the model and the data.

    Args:
        steps: T, optimizer steps.
        batch_size: B, rows of one step.
        accumulation: parts into which the batch is cut, one after the other, to save memory; the
            gradient is the same.
        learning_rate: the highest, after warm-up.
        final_learning_rate: the last.
        warmup_steps: steps in which the rate rises.
        weight_decay: pull of matrices towards zero, per unit of learning rate.
        beta1, beta2: memory of AdamW's two means.
        max_gradient_norm: a longer gradient is shortened to this length; None leaves it.
        evaluate_every: steps between evaluations; one at the end is always made. None for no
            other.
        log_every: steps between looks at the loss. On a GPU a look makes it wait.
        seed: of the order of the data, and of dropout.

    Raises:
        ValueError: for a value that cannot work, with the field, the value and what would.
    """

    steps: int = 1000
    batch_size: int = 32
    accumulation: int = 1
    learning_rate: float = 1e-3
    final_learning_rate: float = 0.0
    warmup_steps: int = 50
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    max_gradient_norm: float | None = 1.0
    evaluate_every: int | None = None
    log_every: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "accumulation", "log_every"):
            _require(self, name, lambda n: n >= 1, "1 or more")
        for name in ("warmup_steps", "weight_decay", "final_learning_rate"):
            _require(self, name, lambda x: x >= 0, "0 or more")
        for name in ("beta1", "beta2"):
            _require(self, name, lambda beta: 0 <= beta < 1, "at least 0 and below 1")
        _require(self, "learning_rate", lambda rate: rate > 0, "above 0")
        _require(
            self, "seed", lambda seed: 0 <= seed < 2**31, "at least 0 and below 2^31"
        )
        for name in ("max_gradient_norm", "evaluate_every"):
            _require(self, name, lambda x: x is None or x > 0, "above 0, or None")
        if self.batch_size % self.accumulation:
            raise ValueError(
                f"accumulation={self.accumulation} must divide batch_size={self.batch_size}"
            )

    def to_dict(self) -> dict[str, object]:
        """The fields as plain data, for JSON; `TrainConfig(**data)` restores them."""
        return asdict(self)


def _require(config: TrainConfig, name: str, holds: Callable, wanted: str) -> None:
    value = getattr(config, name)
    if not holds(value):
        raise ValueError(f"{name}={value!r} cannot work: it must be {wanted}")


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
        losses: training loss of each step, in nats per token, before the step was taken.
        learning_rates: of each step.
        evaluations: pairs of the number of steps taken and the evaluation made then.
        tokens_per_step: B times S.
        seconds: wall-clock time of the training, evaluations included.
    """

    tokens_per_step: int
    losses: list[float] = field(default_factory=list)
    learning_rates: list[float] = field(default_factory=list)
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


def train(
    model: GPT,
    train_data: Corpus,
    validation_data: Corpus | None,
    config: TrainConfig,
    *,
    run: Path | None = None,
    progress: bool = False,
) -> History:
    """Train a model where it lies, on the device of its weights.

    Everything random is a function of (seed, step), the order of the data and dropout alike.
    For the latter, torch's global generator is seeded anew at each step.

    Args:
        model: changed in place.
        train_data: what it learns from.
        validation_data: what it is measured on; None to leave that out.
        config: see `TrainConfig`.
        run: a folder made by `checkpoint.create_run`, which then receives the log, and the
            weights after each evaluation.
        progress: show a bar on stderr.

    Returns:
        Losses, evaluations and time.

    Raises:
        FloatingPointError: the loss is no longer a finite number.
    """
    optimizer = adamw(
        model,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        beta1=config.beta1,
        beta2=config.beta2,
    )
    floor = None if validation_data is None else validation_data.floor
    with _Monitor(
        config, model=model, floor=floor, run=run, progress=progress
    ) as monitor:
        for step in range(config.steps):
            torch.manual_seed(config.seed * 2**32 + step)  # what dropout draws from
            rate = _rate(step, config)
            set_learning_rate(optimizer, rate)
            inputs, targets = _batch(train_data, step, model, config)
            loss = train_step(
                model,
                optimizer,
                inputs,
                targets,
                accumulation=config.accumulation,
                max_gradient_norm=config.max_gradient_norm,
            )
            monitor.note_step(loss, rate)
            if monitor.evaluation_is_due():
                if validation_data is not None:
                    monitor.note_evaluation(evaluate(model, validation_data))
                if run is not None:
                    checkpoint.save(run, model, step=step + 1)
    return monitor.history


def train_step(
    model: GPT,
    optimizer: torch.optim.Optimizer,
    inputs: Int[Tensor, "b s"],
    targets: Int[Tensor, "b s"],
    *,
    accumulation: int = 1,
    max_gradient_norm: float | None = None,
) -> Float[Tensor, ""]:
    """Move the weights once, by the gradient of the mean loss over a batch.

    Args:
        accumulation: cut the batch into this many parts, whose gradients are summed.
        max_gradient_norm: shorten a longer gradient to this length (Pascanu et al., 2013).

    Returns:
        The loss before the step, in nats per token, still on the device.
    """
    model.train()
    optimizer.zero_grad(set_to_none=True)
    n_targets = (targets != IGNORED).sum()
    loss = torch.zeros((), device=inputs.device)
    for part, wanted in zip(
        inputs.chunk(accumulation), targets.chunk(accumulation), strict=True
    ):
        with autocast(inputs.device):
            # Each part's sum over the whole batch's count: the parts add up to the batch's mean.
            part_loss = (
                next_token_loss(model(part), wanted, reduction="sum") / n_targets
            )
        part_loss.backward()
        loss += part_loss.detach()
    if max_gradient_norm is not None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_gradient_norm)
    optimizer.step()
    return loss


@torch.no_grad()
def evaluate(model: GPT, corpus: Corpus, *, batch_size: int = 32) -> Evaluation:
    """A model's mean surprise over every token of a corpus, each asked for once.

    Args:
        model: in evaluation mode meanwhile.
        corpus: see `data.evaluation_batches` for what the model sees before each token.
        batch_size: rows at a time; changes nothing but speed and memory.
    """
    device = _device(model)
    was_training = model.training
    model.eval()
    total = torch.zeros((), dtype=torch.float64)
    for inputs, targets in evaluation_batches(
        corpus, batch_size=batch_size, context_length=model.config.context_length
    ):
        with autocast(device):
            logits = model(inputs.to(device))
            total += next_token_loss(logits, targets.to(device), reduction="sum").cpu()
    model.train(was_training)
    return Evaluation(
        loss=total.item() / corpus.n_targets,
        bytes_per_token=corpus.bytes_per_token,
        floor=corpus.floor,
    )


def _rate(step: int, config: TrainConfig) -> float:
    return learning_rate(
        step,
        warmup_steps=config.warmup_steps,
        total_steps=config.steps,
        peak=config.learning_rate,
        final=config.final_learning_rate,
    )


def _batch(
    corpus: Corpus, step: int, model: GPT, config: TrainConfig
) -> tuple[Tensor, Tensor]:
    inputs, targets = training_batch(
        corpus,
        batch_size=config.batch_size,
        context_length=model.config.context_length,
        seed=config.seed,
        step=step,
    )
    device = _device(model)
    return inputs.to(device), targets.to(device)


def _device(model: GPT) -> torch.device:
    return next(model.parameters()).device


class _Monitor:
    """Keeps the history, writes the log, draws the bar, and stops a run that has diverged."""

    def __init__(
        self,
        config: TrainConfig,
        *,
        model: GPT,
        floor: float | None,
        run: Path | None,
        progress: bool,
    ) -> None:
        self.config, self.floor, self.run = config, floor, run
        self.history = History(
            tokens_per_step=config.batch_size * model.config.context_length
        )
        self.unread: list[tuple[Tensor, float]] = []
        self.n_steps = 0
        self.began = time.perf_counter()
        self.bar = tqdm(
            total=config.steps,
            disable=not progress,
            file=sys.stderr,
            bar_format="{n_fmt}/{total_fmt} steps |{bar:24}| {remaining} left{postfix}",
        )

    def __enter__(self) -> "_Monitor":
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def evaluation_is_due(self) -> bool:
        every = self.config.evaluate_every
        return self.n_steps == self.config.steps or bool(
            every and self.n_steps % every == 0
        )

    def note_step(self, loss: Tensor, rate: float) -> None:
        """Keep a loss. Some are read together, because a GPU falls idle at each reading."""
        self.n_steps += 1
        self.unread.append((loss, rate))
        if self.n_steps % self.config.log_every == 0 or self.evaluation_is_due():
            self._read_losses()

    def _read_losses(self) -> None:
        losses = torch.stack([loss for loss, _ in self.unread]).tolist()
        rates = [rate for _, rate in self.unread]
        self.unread.clear()
        self.history.seconds = time.perf_counter() - self.began
        for loss, rate in zip(losses, rates, strict=True):
            step = len(self.history.losses) + 1
            self._log(step=step, loss=loss, learning_rate=rate)
            if not math.isfinite(loss):
                raise FloatingPointError(
                    f"the loss is {loss} at step {step}: the training has diverged; a lower "
                    f"learning_rate than {self.config.learning_rate:g} or a longer warm-up than "
                    f"{self.config.warmup_steps} steps may help"
                )
            self.history.losses.append(loss)
            self.history.learning_rates.append(rate)
        self._show(sum(losses) / len(losses), len(losses))

    def note_evaluation(self, evaluation: Evaluation) -> None:
        self.history.seconds = time.perf_counter() - self.began
        self.history.evaluations.append((self.n_steps, evaluation))
        self._log(
            step=self.n_steps,
            validation_loss=evaluation.loss,
            bits_per_byte=evaluation.bits_per_byte,
            floor=evaluation.floor,
        )

    def _log(self, **record: float | int | None) -> None:
        if self.run is not None:
            checkpoint.append_log(
                self.run, {**record, "seconds": round(self.history.seconds, 3)}
            )

    def _show(self, loss: float, n_steps: int) -> None:
        parts = [f"loss {loss:.3f}"]
        if self.floor is not None:
            parts.append(f"gap to the floor {loss - self.floor:.3f}")
        parts.append(f"{self.history.tokens / self.history.seconds:,.0f} tokens/s")
        self.bar.set_postfix_str(", ".join(parts), refresh=False)
        self.bar.update(n_steps)
