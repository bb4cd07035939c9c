"""How a model is trained: the settings of a run.

Chapter 9.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from decoder_only.base import checks
from decoder_only.training.optimizers import SCHEDULES
from decoder_only.training.processes import ALONE, STRATEGIES, Process

__all__ = ["TrainConfig"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything that shapes a training run, apart from the model and the data.

    Args:
        steps: T, optimizer steps.
        batch_size: B, rows of one step, over all processes.
        accumulation: number of micro-batches into which a process cuts its rows, to save memory;
            the gradient is the same.
        loss_slices: number of parts of a micro-batch whose logits are computed one after another,
            to save memory. Above 1 the model's `hidden` is called instead of the model, so that
            hooks on the model itself do not run.
        recompute: compute each block's activations again in backward, to save memory.
        optimizer: "adamw" or "muon".
        learning_rate: the peak.
        table_learning_rate: the peak for tables, norms and biases, which AdamW updates in any
            case; None for the same.
        schedule: "cosine", "warmup_stable_decay" or "inverse_square_root".
        warmup_steps: steps in which the rate rises, fewer than all; None for 50, or a tenth of a
            run that is shorter than 500.
        decay_fraction: fraction of the steps after warm-up in which "warmup_stable_decay" decays.
        weight_decay: pull of matrices towards zero, per unit of learning rate.
        beta1, beta2: decay rates of AdamW's two means.
        momentum: decay rate of Muon's mean.
        max_gradient_norm: a gradient with a larger norm is scaled down to it; None for no clipping.
        compile: run model, loss and Muon through torch.compile; None where the device is a GPU.
        evaluate_every: steps between evaluations; None to evaluate only after the last step,
            which is always done.
        save_every: steps between saved states; None to save after each evaluation.
        log_every: steps between reads of the loss, because reading it synchronises a GPU.
        seed: of the order of the data, and of dropout.

    Raises:
        ValueError: a value cannot work; the message has the field, the value and what would work.
    """

    steps: int = 1000
    batch_size: int = 32
    accumulation: int = 1
    loss_slices: int = 1
    recompute: bool = False
    optimizer: Literal["adamw", "muon"] = "adamw"
    learning_rate: float = 1e-3
    table_learning_rate: float | None = None
    schedule: Literal[*SCHEDULES] = "cosine"
    warmup_steps: int | None = None
    decay_fraction: float = 0.4
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    momentum: float = 0.95
    max_gradient_norm: float | None = 1.0
    compile: bool | None = None
    evaluate_every: int | None = None
    save_every: int | None = None
    log_every: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        checks.to_plain_values(self)
        checks.choices(self)
        checks.choice("compile", self.compile, (True, False, None))
        for name in ("steps", "accumulation", "loss_slices", "log_every"):
            checks.whole(name, getattr(self, name), at_least=1)
        for name in ("evaluate_every", "save_every"):
            checks.whole(name, getattr(self, name), at_least=1, optional=True)
        checks.whole("batch_size", self.batch_size, at_least=1, at_most=2**20)
        checks.whole("warmup_steps", self.warmup_steps, at_least=0, optional=True)
        if self.warmup >= self.steps:
            below = f"below steps={self.steps}, such as {self.steps // 10}"
            raise ValueError(f"warmup_steps={self.warmup} must be {below}")
        checks.whole("seed", self.seed, at_least=0, at_most=2**31 - 1)
        checks.number("learning_rate", self.learning_rate, above=0)
        for name in ("table_learning_rate", "max_gradient_norm"):
            checks.number(name, getattr(self, name), above=0, optional=True)
        checks.number("weight_decay", self.weight_decay, at_least=0)
        checks.number("decay_fraction", self.decay_fraction, above=0, at_most=1)
        for name in ("beta1", "beta2", "momentum"):
            checks.number(name, getattr(self, name), at_least=0, below=1)
        if self.batch_size % self.accumulation:
            raise ValueError(
                f"accumulation={self.accumulation} must divide batch_size={self.batch_size}"
            )

    @property
    def warmup(self) -> int:
        """Steps in which the learning rate rises."""
        usual = min(50, self.steps // 10)
        return usual if self.warmup_steps is None else self.warmup_steps

    def rate_factor(self, step: int) -> float:
        """The learning rate of a step, counted from 0, divided by its peak."""
        lengths = {"warmup_steps": self.warmup, "total_steps": self.steps}
        if self.schedule == "warmup_stable_decay":
            lengths["decay_fraction"] = self.decay_fraction
        return SCHEDULES[self.schedule](step, **lengths)

    def is_due(self, what: str, n_taken: int) -> bool:
        """Whether to "evaluate" or to "save" after `n_taken` steps; both after the last step."""
        every = self.evaluate_every
        if what == "save" and self.save_every is not None:
            every = self.save_every
        return n_taken == self.steps or bool(every and n_taken % every == 0)

    def to_dict(self) -> dict[str, object]:
        """The fields as plain data, for JSON; `TrainConfig(**data)` restores them."""
        return asdict(self)


def current_names(settings: Mapping[str, object]) -> dict[str, object]:
    """The settings of a run, which may be older, under the names that the fields have now."""
    former = {"decay_share": "decay_fraction"}
    return {former.get(name, name): value for name, value in settings.items()}


def check_settings(
    config: TrainConfig, *, process: Process = ALONE, strategy: str = "ddp"
) -> None:
    """Refuse what `train` cannot do on this machine, before a folder is made or replaced.

    Args:
        config, process, strategy: as for `train`.

    Raises:
        ValueError: the strategy is unknown, or the rows cannot be divided among the processes.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy={strategy!r} must be one of {STRATEGIES}")
    if config.batch_size % (process.n_ranks * config.accumulation):
        raise ValueError(
            f"batch_size={config.batch_size} does not divide among {process.n_ranks} "
            f"processes with accumulation={config.accumulation}"
        )
