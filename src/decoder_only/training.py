"""Training: ask for the next token, measure the surprise, move the weights, repeat.

    loss = -(1 / BS) sum over b, s of log P(targets[b, s] | inputs[b, :s + 1])
    weights = weights - optimizer's step along the gradient of the loss

The order of a step: learning rate, batch, loss and gradient (in parts, if the batch is too large
to fit), clipping, optimizer. `train` is that order and little else. Chapter 9.
"""

import contextlib
import json
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from decoder_only.data import IGNORED, Corpus, evaluation_batches, training_batch
from decoder_only.engine import checkpoint, distributed, hardware
from decoder_only.engine.distributed import ALONE, Process, spread_like, whole
from decoder_only.engine.monitor import Evaluation, History, Monitor, flops_per_token
from decoder_only.lm_head import next_token_loss
from decoder_only.model import GPT
from decoder_only.optimization import SCHEDULES, build_optimizers, set_learning_rate

__all__ = [
    "LossScale",
    "StepResult",
    "TrainConfig",
    "batch_loss",
    "evaluate",
    "train",
    "train_step",
]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything that shapes a training run, apart from the model and the data.

    Args:
        steps: T, optimizer steps.
        batch_size: B, rows of one step, over all processes.
        accumulation: parts into which a process cuts its rows, one after the other, to save
            memory; the gradient is the same.
        optimizer: "adamw" or "muon".
        learning_rate: the peak.
        schedule: "cosine", "warmup_stable_decay" or "inverse_square_root".
        warmup_steps: steps in which the rate rises.
        weight_decay: pull of matrices towards zero, per unit of learning rate.
        beta1, beta2: memory of AdamW's two means.
        momentum: memory of Muon's mean.
        max_gradient_norm: a longer gradient is shortened to this length; None leaves it.
        compile: run model and loss through torch.compile; None where the device is a GPU.
        evaluate_every: steps between evaluations; one at the end is always made. None for no
            other.
        save_every: steps between saved states; None to save after each evaluation.
        log_every: steps between looks at the loss. On a GPU a look makes it wait.
        seed: of the order of the data, and of dropout.

    Raises:
        ValueError: for a value that cannot work, with the field, the value and what would.
    """

    steps: int = 1000
    batch_size: int = 32
    accumulation: int = 1
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    schedule: str = "cosine"
    warmup_steps: int = 50
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
        for name in ("steps", "batch_size", "accumulation", "log_every"):
            _require(self, name, lambda n: n >= 1, "1 or more")
        for name in ("warmup_steps", "weight_decay"):
            _require(self, name, lambda x: x >= 0, "0 or more")
        for name in ("beta1", "beta2", "momentum"):
            _require(self, name, lambda beta: 0 <= beta < 1, "at least 0 and below 1")
        _require(self, "learning_rate", lambda rate: rate > 0, "above 0")
        _require(
            self, "seed", lambda seed: 0 <= seed < 2**31, "at least 0 and below 2^31"
        )
        for name in ("max_gradient_norm", "evaluate_every", "save_every"):
            _require(self, name, lambda x: x is None or x > 0, "above 0, or None")
        kinds = {"optimizer": ("adamw", "muon"), "schedule": tuple(SCHEDULES)}
        for name, choices in kinds.items():
            _require(self, name, choices.__contains__, f"one of {choices}")
        if self.batch_size % self.accumulation:
            raise ValueError(
                f"accumulation={self.accumulation} must divide batch_size={self.batch_size}"
            )

    def share(self, step: int) -> float:
        """The share of the peak learning rate at which a step, counted from 0, is taken."""
        schedule = SCHEDULES[self.schedule]
        return schedule(step, warmup_steps=self.warmup_steps, total_steps=self.steps)

    def to_dict(self) -> dict[str, object]:
        """The fields as plain data, for JSON; `TrainConfig(**data)` restores them."""
        return asdict(self)


def _require(config: TrainConfig, name: str, holds: Callable, wanted: str) -> None:
    value = getattr(config, name)
    if not holds(value):
        raise ValueError(f"{name}={value!r} cannot work: it must be {wanted}")


def train(
    model: GPT,
    train_data: Corpus,
    validation_data: Corpus | None,
    config: TrainConfig,
    *,
    run: Path | None = None,
    process: Process = ALONE,
    strategy: str = "ddp",
    progress: bool = False,
    board: bool = False,
) -> History:
    """Train a model where it lies, on the device of its weights.

    Everything random is a function of (seed, step), the order of the data and dropout alike.
    For the latter, torch's global generator is seeded anew at each step.

    Args:
        model: changed in place.
        train_data: what it learns from.
        validation_data: what it is measured on; None to leave that out.
        config: see `TrainConfig`.
        run: a folder made by `checkpoint.create_run`, which then receives the log and the states.
            If it holds states already, the training goes on from the newest that is whole, and
            ends in the same weights, bit by bit on a CPU, as if it had never stopped. Ctrl-C and
            SIGTERM then save before they end the training.
        process, strategy: see `distributed.joined` and `distributed.wrap`.
        progress: show a bar on stderr, and say so when a damaged state was passed over.
        board: write TensorBoard's files into the run's folder.

    Returns:
        Losses, evaluations and time; of fewer steps than wanted if it was interrupted.

    Raises:
        FloatingPointError: the loss or its gradient was not finite, several steps in a row.
        ValueError: the run was begun with another configuration, or all its states are damaged.
        OSError: another process trains in the folder, or a state cannot be written.
    """
    with contextlib.ExitStack() as stack:
        stop = stack.enter_context(_interruption(run, process))
        session = _Session(model, train_data, validation_data, config, run, process)
        stack.enter_context(session.opened(strategy))
        monitor = stack.enter_context(session.monitor(progress, board))
        for step in range(session.first_step, config.steps):
            torch.manual_seed(config.seed * 2**32 + step)  # what dropout draws from
            set_learning_rate(session.optimizers, config.share(step))
            inputs, targets = _batch(train_data, step, model, config, process)
            result = session.step(inputs, targets)
            rate = config.learning_rate * config.share(step)
            monitor.note_step(result.loss, result.skipped, rate)
            interrupted = stop(step + 1)
            if session.evaluation_is_due(step + 1):
                monitor.note_evaluation(session.evaluate())
            if interrupted or session.save_is_due(step + 1):
                monitor.look()
                monitor.note_save(session.save(step + 1))
            if interrupted:
                break
    return monitor.history


@dataclass(frozen=True)
class StepResult:
    """What a step tells about itself, still on the device.

    Attributes:
        loss: before the step, in nats per token.
        gradient_norm: before it was shortened.
        skipped: whether loss or gradient was not finite, so that nothing was changed.
    """

    loss: Float[Tensor, ""]
    gradient_norm: Float[Tensor, ""]
    skipped: Bool[Tensor, ""]


def batch_loss(
    model: nn.Module, inputs: Int[Tensor, "b s"], targets: Int[Tensor, "b s"]
) -> Float[Tensor, ""]:
    """Total surprise at a batch's targets: model and loss in one, to be compiled together."""
    return next_token_loss(model(inputs), targets, reduction="sum")


def train_step(
    model: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    inputs: Int[Tensor, "b s"],
    targets: Int[Tensor, "b s"],
    *,
    accumulation: int = 1,
    max_gradient_norm: float | None = None,
    loss_function: Callable[[nn.Module, Tensor, Tensor], Tensor] = batch_loss,
    scale: "LossScale | None" = None,
) -> StepResult:
    """Move the weights once, by the gradient of the mean loss over a batch.

    A loss or gradient that is not finite leaves everything as it is. Whether it was, only the
    device knows: nothing here waits for it.

    Args:
        model: a `GPT`, or what `distributed.wrap` made of it.
        optimizers: see `build_optimizers`; others must be fused, so that they heed the flag.
        accumulation: cut the batch into this many parts, whose gradients are summed.
        max_gradient_norm: shorten a longer gradient to this length (Pascanu et al., 2013).
        loss_function: `batch_loss`, or that compiled.
        scale: of the loss, where gradients are computed in float16.
    """
    model.train()
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=True)
    n_targets = (targets != IGNORED).sum()
    loss = torch.zeros((), device=inputs.device)
    factor = 1.0 if scale is None else scale.value
    parts = zip(inputs.chunk(accumulation), targets.chunk(accumulation), strict=True)
    for number, (part, wanted) in enumerate(parts, 1):
        last = number == accumulation
        with (
            hardware.autocast(inputs.device),
            distributed.synchronizing(model, wanted=last),
        ):
            # Each part's sum over the whole batch's count: they add up to the batch's mean.
            part_loss = loss_function(model, part, wanted) / n_targets
            (part_loss * factor).backward()
        loss += part_loss.detach()
    norm = _clip(model, max_gradient_norm, factor)
    finite = norm.isfinite() & loss.isfinite()
    _step_if(finite, optimizers)
    if scale is not None:
        scale.update(finite)
    return StepResult(loss, norm, ~finite)


def _step_if(
    finite: Bool[Tensor, ""], optimizers: Sequence[torch.optim.Optimizer]
) -> None:
    if finite.device.type == "mps" and not finite:  # whose kernels know no flag
        return
    for optimizer in optimizers:
        if finite.device.type != "mps":
            # Where this is 1, the fused kernels change nothing.
            optimizer.found_inf = (~finite).float()
        optimizer.step()


def _clip(model: nn.Module, limit: float | None, scale: float | Tensor) -> Tensor:
    """Undo the scale, shorten the whole gradient to the limit; return its length before."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = whole(torch.nn.utils.get_total_norm(gradients)) / scale
    shrink = torch.ones_like(norm) / scale
    if limit is not None:
        shrink = shrink * (limit / (norm + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(gradients, shrink)
    return norm


class LossScale:
    """A factor on the loss that keeps small gradients within float16's range.

    It is halved when a gradient overflows, whose step is skipped, and doubled after a while
    without. Nothing waits for the device.

    Args:
        device: where the gradients are.
        patience: steps without overflow before it grows.

    Source: Micikevicius et al. (2018).
    """

    def __init__(self, device: torch.device, *, patience: int = 2000) -> None:
        self.patience = patience
        self.value = torch.tensor(2.0**16, device=device)
        self.n_good = torch.zeros((), device=device)

    def update(self, finite: Bool[Tensor, ""]) -> None:
        """Take account of a step."""
        self.n_good = torch.where(finite, self.n_good + 1, 0.0)
        grown = self.n_good >= self.patience
        self.n_good = torch.where(grown, 0.0, self.n_good)
        factor = torch.where(finite, torch.where(grown, 2.0, 1.0), 0.5)
        self.value = self.value * factor


@torch.no_grad()
def evaluate(
    model: GPT,
    corpus: Corpus,
    *,
    batch_size: int = 32,
    process: Process = ALONE,
) -> Evaluation:
    """A model's mean surprise over every token of a corpus, each asked for once.

    Args:
        model: in evaluation mode meanwhile.
        corpus: see `data.evaluation_batches` for what the model sees before each token.
        batch_size: rows at a time; changes nothing but speed and memory.
        process: this one takes its share of the batches.
    """
    device = _device(model)
    was_training = model.training
    model.eval()
    surprises = [torch.zeros((), device=device)]
    for number, (inputs, targets) in enumerate(
        evaluation_batches(
            corpus, batch_size=batch_size, context_length=model.config.context_length
        )
    ):
        if number % process.n_ranks == process.rank:
            with hardware.autocast(device):
                logits = model(inputs.to(device))
                surprises.append(
                    next_token_loss(logits, targets.to(device), reduction="sum")
                )
    model.train(was_training)
    # Few numbers, added in double precision, which not every device has.
    total = torch.stack(surprises).cpu().double().sum()
    if process.n_ranks > 1:
        total = distributed.total(total.to(device), process)
    return Evaluation(
        loss=total.item() / corpus.n_targets,
        bytes_per_token=corpus.bytes_per_token,
        floor=corpus.floor,
    )


def _batch(
    corpus: Corpus, step: int, model: GPT, config: TrainConfig, process: Process
) -> tuple[Tensor, Tensor]:
    """This process's rows of the global batch, on their way to the device."""
    device = _device(model)
    rows = training_batch(
        corpus,
        batch_size=config.batch_size,
        context_length=model.config.context_length,
        seed=config.seed,
        step=step,
        rank=process.rank,
        n_ranks=process.n_ranks,
    )
    if device.type == "cuda":  # pinned memory is copied while the GPU computes
        rows = [ids.pin_memory() for ids in rows]
    inputs, targets = (ids.to(device, non_blocking=True) for ids in rows)
    return inputs, targets


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


class _Session:
    """What a training holds from step to step, and how it is kept on the disk."""

    def __init__(
        self,
        model: GPT,
        train_data: Corpus,
        validation_data: Corpus | None,
        config: TrainConfig,
        run: Path | None,
        process: Process,
    ) -> None:
        self.model, self.config, self.run, self.process = model, config, run, process
        self.train_data, self.validation_data = train_data, validation_data
        self.device = _device(model)
        self.first_step = 0
        is_half = hardware.multiplying_format(self.device) == torch.float16
        self.scale = LossScale(self.device) if is_half else None
        wants_compiling = config.compile
        if wants_compiling is None:
            wants_compiling = self.device.type == "cuda"
        self.loss_function = (
            hardware.compiled(batch_loss) if wants_compiling else batch_loss
        )
        if config.batch_size % (process.n_ranks * config.accumulation):
            raise ValueError(
                f"batch_size={config.batch_size} does not divide among {process.n_ranks} "
                f"processes with accumulation={config.accumulation}"
            )

    @contextlib.contextmanager
    def opened(self, strategy: str) -> Iterator[None]:
        """With the run's folder locked, and everything as the newest state has it."""
        with contextlib.ExitStack() as stack:
            state = None
            if self.run is not None:
                if self.process.is_first:
                    stack.enter_context(checkpoint.locked(self.run))
                state = checkpoint.latest_state(self.run)
            if state is not None:
                self._check_origin(state)
                self.model.load_state_dict(_under("model.", state.tensors))
                self.first_step = state.step
            self.state = state
            # Spread parameters are new ones: the optimizers must get to know those.
            self.forward = distributed.wrap(self.model, self.process, strategy)
            self.optimizers = build_optimizers(
                self.model,
                optimizer=self.config.optimizer,
                learning_rate=self.config.learning_rate,
                weight_decay=self.config.weight_decay,
                beta1=self.config.beta1,
                beta2=self.config.beta2,
                momentum=self.config.momentum,
                width_ratio=self.model.config.width_ratio,
            )
            if state is not None:
                self._restore_optimizers(_under("optimizer.", state.tensors))
                if self.scale is not None:
                    self.scale.value = state.tensors["scale.value"].to(self.device)
                    self.scale.n_good = state.tensors["scale.n_good"].to(self.device)
            self.strategy = strategy
            yield

    def monitor(self, progress: bool, board: bool) -> Monitor:
        """A monitor that knows what happened before."""
        validation, run, first = self.validation_data, self.run, self.process.is_first
        writes = run is not None and first
        peak = hardware.peak_flops(self.device)
        monitor = Monitor(
            n_steps=self.config.steps,
            tokens_per_step=self.config.batch_size * self.model.config.context_length,
            look_every=self.config.log_every,
            floor=None if validation is None else validation.floor,
            log=partial(checkpoint.append_log, run) if writes else None,
            flops_per_token=flops_per_token(self.model),
            peak_flops=peak and peak * self.process.n_ranks,
            progress=progress and first,
            board=run / "tensorboard" if board and writes else None,
        )
        if run is not None:
            records = checkpoint.read_log(run)
            if first:
                records = checkpoint.cut_log(run, step=self.first_step)
            records = [r for r in records if r["step"] <= self.first_step]
            bytes_per_token = (validation or self.train_data).bytes_per_token
            monitor.go_on(records, Evaluation(0.0, bytes_per_token, monitor.floor))
        if self.state is not None:
            monitor.note_save(self.state.path)
            for reason in self.state.damaged if progress and first else ():
                monitor.say(f"passed over: {reason}")
        return monitor

    def step(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """Take one step; its loss is the mean over all processes."""
        result = train_step(
            self.forward,
            self.optimizers,
            inputs,
            targets,
            accumulation=self.config.accumulation,
            max_gradient_norm=self.config.max_gradient_norm,
            loss_function=self.loss_function,
            scale=self.scale,
        )
        mean = distributed.total(result.loss, self.process) / self.process.n_ranks
        return replace(result, loss=mean)

    def evaluation_is_due(self, n_taken: int) -> bool:
        every = self.config.evaluate_every
        return self.validation_data is not None and (
            n_taken == self.config.steps or bool(every and n_taken % every == 0)
        )

    def save_is_due(self, n_taken: int) -> bool:
        every = self.config.save_every or self.config.evaluate_every
        return self.run is not None and (
            n_taken == self.config.steps or bool(every and n_taken % every == 0)
        )

    def evaluate(self) -> Evaluation:
        # A model that is spread can only be asked by all processes together.
        share = ALONE if self.strategy == "fsdp" else self.process
        return evaluate(self.model, self.validation_data, process=share)

    def save(self, n_taken: int) -> Path:
        """Write the state, and at the end the weights; every process helps to gather them."""
        weights = {n: whole(x) for n, x in self.model.state_dict().items()}
        tensors = {f"model.{name}": x for name, x in weights.items()}
        for name, kept in self._optimizer_states():
            for key, x in kept.items():
                tensors[f"optimizer.{name}.{key}"] = whole(x)
        if self.scale is not None:
            tensors["scale.value"] = self.scale.value
            tensors["scale.n_good"] = self.scale.n_good
        if not self.process.is_first:
            return self.run
        if n_taken == self.config.steps:
            checkpoint.save(self.run, weights, step=n_taken)
        return checkpoint.save_state(
            self.run, tensors, step=n_taken, notes=self._origin()
        )

    def _optimizer_states(self) -> Iterator[tuple[str, dict[str, Tensor]]]:
        names = {id(p): name for name, p in self.model.named_parameters()}
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    yield names[id(parameter)], optimizer.state[parameter]

    def _restore_optimizers(self, tensors: dict[str, Tensor]) -> None:
        parameters = dict(self.model.named_parameters())
        for name, kept in self._optimizer_states():
            # Spreading is done together, and files name their tensors in no particular order.
            for full_name, x in sorted(tensors.items()):
                owner, _, key = full_name.rpartition(".")
                if owner == name:
                    x = x.to(self.device)
                    same = x.shape == parameters[name].shape
                    kept[key] = spread_like(parameters[name], x) if same else x

    def _origin(self) -> dict[str, str]:
        """What must not change when a run goes on; how often it is looked at may."""
        kept = self.config.to_dict()
        for name in ("evaluate_every", "save_every", "log_every", "compile"):
            del kept[name]
        return {
            "training": json.dumps(kept),
            "model": json.dumps(self.model.config.to_dict()),
            "data": json.dumps({"fingerprint": self.train_data.fingerprint}),
        }

    def _check_origin(self, state: checkpoint.State) -> None:
        for part, ours in self._origin().items():
            then, now = json.loads(state.notes[part]), json.loads(ours)
            changed = [name for name in now if now[name] != then.get(name)]
            if changed:
                name = changed[0]
                raise ValueError(
                    f"{self.run} was begun with {name}={then.get(name)!r} ({part}), not "
                    f"{now[name]!r}; go on with the former, or choose another folder"
                )


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): x
        for name, x in tensors.items()
        if name.startswith(prefix)
    }


@contextlib.contextmanager
def _interruption(
    run: Path | None, process: Process
) -> Iterator[Callable[[int], bool]]:
    """Within, Ctrl-C and SIGTERM are remembered until a step is done; a second one is not.

    Yields:
        A function that tells, for the number of steps taken, whether to stop.
    """
    came = False

    def remember(number: int, frame: object) -> None:
        nonlocal came
        came = True
        for each, handler in before.items():
            signal.signal(each, handler)

    before = {}
    if run is not None and threading.current_thread() is threading.main_thread():
        for each in (signal.SIGINT, signal.SIGTERM):
            before[each] = signal.signal(each, remember)

    def stop(n_taken: int) -> bool:
        if process.n_ranks == 1:
            return came
        # All must stop after the same step, and asking one another takes time.
        return n_taken % 10 == 0 and distributed.any_of(came, process)

    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
