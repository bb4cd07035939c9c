"""Training: ask for the next token, measure the surprise, move the weights, repeat.

    loss = -(1 / BS) sum over b, s of log P(targets[b, s] | inputs[b, :s + 1])
    weights = weights - optimizer's step along the gradient of the loss

The order of a step: learning rate, batch, loss and gradient (with gradient accumulation, if the
batch is too large to fit), clipping, optimizer. `train` is that order and little else. Chapter 9.
"""

import contextlib
import json
import operator
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from decoder_only.data import IGNORED, Corpus, evaluation_batches, training_batch
from decoder_only.engine import checkpoint, distributed, hardware, log
from decoder_only.engine.checks import Rule, check_fields, require
from decoder_only.engine.distributed import ALONE, STRATEGIES, Process
from decoder_only.engine.modes import kept_modes
from decoder_only.engine.monitor import (
    Evaluation,
    History,
    Monitor,
    flops_per_token,
    summary_writer,
)
from decoder_only.lm_head import LMHead, next_token_loss, sliced_next_token_loss
from decoder_only.model import GPT
from decoder_only.optimization import (
    SCHEDULES,
    Muon,
    build_optimizers,
    set_learning_rate,
)

__all__ = [
    "LossScale",
    "StepResult",
    "TrainConfig",
    "TrainingState",
    "batch_loss",
    "evaluate",
    "train",
    "train_step",
]


Count = Annotated[int, Rule(lambda x: x > 0, "above 0")]
Positive = Annotated[float, Rule(lambda x: x > 0, "above 0")]
Share = Annotated[float, Rule(lambda x: 0 <= x < 1, "from 0 to below 1")]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything that shapes a training run, apart from the model and the data.

    Args:
        steps: T, optimizer steps.
        batch_size: B, rows of one step, over all processes.
        accumulation: micro-batches into which a process cuts its rows, one after the other, to
            save memory; the gradient is the same.
        loss_slices: parts of a micro-batch whose logits are computed one after the other, to save
            memory; 1 computes them at once. Above 1 `GPT.hidden` is called and not the model as a
            whole, so hooks on the model itself do not run.
        recompute: compute each block's activations again in backward, to save memory.
        optimizer: "adamw" or "muon".
        learning_rate: the peak.
        table_learning_rate: the peak for tables, norms and biases, which AdamW moves in any case;
            None for the same.
        schedule: "cosine", "warmup_stable_decay" or "inverse_square_root".
        warmup_steps: steps in which the rate rises, fewer than all; None for 50, or a tenth of a
            run that is shorter than 500.
        decay_share: share of the steps after warm-up in which "warmup_stable_decay" decays.
        weight_decay: pull of matrices towards zero, per unit of learning rate.
        beta1, beta2: memory of AdamW's two means.
        momentum: memory of Muon's mean.
        max_gradient_norm: a longer gradient is shortened to this length; None leaves it.
        compile: run model, loss and Muon through torch.compile; None where the device is a GPU.
        evaluate_every: steps between evaluations; one at the end is always made. None for no
            other.
        save_every: steps between saved states; None to save after each evaluation.
        log_every: steps between looks at the loss. On a GPU a look makes it wait.
        seed: of the order of the data, and of dropout.

    Raises:
        ValueError: for a value that cannot work, with the field, the value and what would.
    """

    steps: Count = 1000
    batch_size: Annotated[
        int, Rule(lambda x: 0 < x <= 2**20, "above 0, 2^20 at most")
    ] = 32
    accumulation: Count = 1
    loss_slices: Count = 1
    recompute: bool = False
    optimizer: Literal["adamw", "muon"] = "adamw"
    learning_rate: Positive = 1e-3
    table_learning_rate: Positive | None = None
    schedule: Literal[*SCHEDULES] = "cosine"
    warmup_steps: Annotated[int, Rule(lambda x: x >= 0, "of 0 or more")] | None = None
    decay_share: Annotated[
        float, Rule(lambda x: 0 < x <= 1, "above 0, and 1 at most")
    ] = 0.4
    weight_decay: Annotated[float, Rule(lambda x: x >= 0, "of 0 or more")] = 0.1
    beta1: Share = 0.9
    beta2: Share = 0.95
    momentum: Share = 0.95
    max_gradient_norm: Positive | None = 1.0
    compile: bool | None = None
    evaluate_every: Count | None = None
    save_every: Count | None = None
    log_every: Count = 10
    seed: Annotated[int, Rule(lambda x: 0 <= x < 2**31, "from 0 to below 2^31")] = 0

    def __post_init__(self) -> None:
        check_fields(self)
        below = f"below steps={self.steps}, such as {self.steps // 10}"
        require("warmup_steps", self.warmup, lambda w: w < self.steps, below)
        if self.batch_size % self.accumulation:
            raise ValueError(
                f"accumulation={self.accumulation} must divide batch_size={self.batch_size}"
            )

    @property
    def warmup(self) -> int:
        """Steps in which the learning rate rises."""
        usual = min(50, self.steps // 10)
        return usual if self.warmup_steps is None else self.warmup_steps

    def share(self, step: int) -> float:
        """The share of the peak learning rate at which a step, counted from 0, is taken."""
        lengths = {"warmup_steps": self.warmup, "total_steps": self.steps}
        if self.schedule == "warmup_stable_decay":
            lengths["decay_share"] = self.decay_share
        return SCHEDULES[self.schedule](step, **lengths)

    def is_due(self, what: str, n_taken: int) -> bool:
        """Whether to "evaluate" or to "save" after so many steps; both after the last."""
        every = self.evaluate_every
        if what == "save" and self.save_every is not None:
            every = self.save_every
        return n_taken == self.steps or bool(every and n_taken % every == 0)

    def to_dict(self) -> dict[str, object]:
        """The fields as plain data, for JSON; `TrainConfig(**data)` restores them."""
        return asdict(self)


def check_settings(
    config: TrainConfig,
    *,
    process: Process = ALONE,
    strategy: str = "ddp",
    board: bool = False,
) -> None:
    """Refuse what `train` could not do here, before a folder is made or replaced.

    Args:
        config, process, strategy, board: as `train` takes them.

    Raises:
        ValueError: the strategy is unknown, or the rows do not divide among the processes.
        ImportError: a board is wanted, but TensorBoard is not installed.
    """
    require("strategy", strategy, STRATEGIES.__contains__, f"one of {STRATEGIES}")
    if config.batch_size % (process.n_ranks * config.accumulation):
        raise ValueError(
            f"batch_size={config.batch_size} does not divide among {process.n_ranks} "
            f"processes with accumulation={config.accumulation}"
        )
    if board:
        summary_writer()


def train(
    model: GPT,
    train_data: Corpus,
    validation_data: Corpus | None,
    config: TrainConfig,
    *,
    run: checkpoint.AnyPath | None = None,
    process: Process = ALONE,
    strategy: str = "ddp",
    progress: bool = False,
    board: bool = False,
) -> History:
    """Train a model where it lies, on the device of its weights.

    Everything random is a function of (seed, step, rank): the order of the data and dropout
    alike. torch's global generators, the CPU's and the device's, are left as they were.

    Args:
        model: its weights are changed in place.
        train_data: what it learns from.
        validation_data: what it is measured on; None to leave that out.
        config: see `TrainConfig`.
        run: a folder made by `checkpoint.create_run`, or kept locked by `checkpoint.new_run`,
            which then receives the log and the states. If it holds states, the training goes on
            from the newest that is whole, and ends in the same weights, bit by bit on a CPU, as
            if it had never stopped. It may then have more steps than before: a schedule that
            depends on their number follows the new one from there on. Ctrl-C, SIGTERM and SIGHUP
            save before they end the training.
        process, strategy: see `distributed.process_group` and `distributed.wrap`. "fsdp" takes
            the model on the CPU; in all but the first process it may be on the meta device.
        progress: show a bar on stderr.
        board: write TensorBoard's files into the run's folder.

    On a Mac's GPU (MPS) each step waits for the one before: its optimizers cannot leave out a step
    by themselves. On CUDA and on the CPU nothing waits but what is printed.

    Returns:
        Losses, evaluations and time; of fewer steps than wanted if it was interrupted.

    Raises:
        FloatingPointError: the loss or its gradient was not finite, several steps in a row.
        ValueError: the run was begun with other settings or data, all its states are damaged, or
            a run cannot hold the model.
        OSError: another process trains in the folder, or a state cannot be written.
    """
    check_settings(config, process=process, strategy=strategy, board=board)
    origin = _origin(model, train_data, validation_data, config)
    if run is not None:
        checkpoint.check_savable(model)
    with contextlib.ExitStack() as stack:
        stack.enter_context(kept_modes(model))
        stack.callback(setattr, model, "recompute", model.recompute)
        stop = stack.enter_context(_interruption(run, process))
        run = stack.enter_context(_locked(run, process))
        saved = _saved_state(run, origin)
        state = _initial_state(model, config, process, strategy)
        state.restore(saved)
        corpus = validation_data or train_data
        monitor = _monitor(state, run, corpus, progress=progress, board=board)
        monitor.note_save(saved and saved.path)
        stack.enter_context(monitor)
        savers = distributed.in_background(process) if strategy == "fsdp" else ALONE
        saver = stack.enter_context(checkpoint.Saver(savers))
        stack.enter_context(hardware.forked_generators(state.device))
        while state.step < config.steps:
            share = config.share(state.step)
            set_learning_rate(state.optimizers, share)
            # From these dropout draws.
            hardware.seed_generators(config.seed, state.step, process.rank)
            result = _step(state, train_data)
            monitor.note_step(result, config.learning_rate * share)
            interrupted = stop(state.step)
            if validation_data and config.is_due("evaluate", state.step):
                with monitor.pause():
                    monitor.note_evaluation(_evaluate(state, validation_data))
            if run and (interrupted or config.is_due("save", state.step)):
                with monitor.pause():
                    monitor.note_save(_save(state, run, origin, saver))
            if interrupted:
                break
    return state.history


@dataclass(frozen=True)
class StepResult:
    """What a step tells about itself, still on the device.

    Attributes:
        loss: before the step, in nats per token; the mean over all processes.
        gradient_norm: before it was shortened.
        skipped: whether loss or gradient was not finite in any process, so that nothing was
            changed in all of them.
    """

    loss: Float[Tensor, ""]
    gradient_norm: Float[Tensor, ""]
    skipped: Bool[Tensor, ""]


def batch_loss(
    model: nn.Module,
    inputs: Int[Tensor, "b s"],
    targets: Int[Tensor, "b s"],
    *,
    n_slices: int = 1,
) -> Float[Tensor, ""]:
    """Total surprise at a batch's targets: model and loss in one, to be compiled together.

    Args:
        model: a `GPT`.
        inputs, targets: ids.
        n_slices: parts whose logits are computed one after the other; see
            `lm_head.sliced_next_token_loss`.

    Raises:
        ValueError: slices of a head that is more than one matrix.
    """
    if n_slices == 1:
        return next_token_loss(model(inputs), targets, reduction="sum")
    kind, wanted = type(model.head), "LMHead, whose logits alone can be cut in slices"
    require("type of head", kind, lambda kind: kind is LMHead, wanted)
    return sliced_next_token_loss(
        model.hidden(inputs),
        model.head_weight,
        targets,
        scale=model.head.scale,
        soft_cap=model.head.soft_cap,
        reduction="sum",
        n_slices=n_slices,
    )


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
    process: Process = ALONE,
) -> StepResult:
    """Move the weights once, by the gradient of the mean loss over a batch.

    A loss or gradient that is not finite leaves everything as it is. Whether it was, only the
    device knows: nothing here waits for it, but for an optimizer that is not fused.

    Args:
        model: a `GPT`, or what `distributed.wrap` made of it.
        optimizers: see `build_optimizers`, or others whose step needs no closure.
        accumulation: cut the batch into this many micro-batches, whose gradients are summed.
        max_gradient_norm: shorten a longer gradient to this length (Pascanu et al., 2013).
        loss_function: `batch_loss`, or that compiled.
        scale: of the loss, where gradients are computed in float16.
        process: this one, which has its share of the batch.
    """
    model.train()
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=True)
    # Gradients are averaged over the processes, so each divides by the mean of their counts.
    n_targets = distributed.all_reduce_sum((targets != IGNORED).sum(), process)
    n_targets = n_targets / process.n_ranks
    loss = torch.zeros((), device=inputs.device)
    factor = 1.0 if scale is None else scale.value
    parts = zip(inputs.chunk(accumulation), targets.chunk(accumulation), strict=True)
    parts = list(parts)  # fewer than wanted, if the batch has fewer rows
    for number, (part, wanted) in enumerate(parts, 1):
        with distributed.gradient_sync(model, enabled=number == len(parts)):
            with hardware.autocast(inputs.device):
                # Each part's sum over the batch's count: they add up to the batch's mean.
                part_loss = loss_function(model, part, wanted) / n_targets
            (part_loss * factor).backward()
        loss += part_loss.detach()
    norm = _clip(model, max_gradient_norm, factor)
    finite = norm.isfinite() & loss.isfinite()
    if process.n_ranks > 1:  # all processes take the step, or none does
        facts = torch.stack([loss, (~finite).float()])
        loss, n_bad = distributed.all_reduce_sum(facts, process)
        loss, finite = loss / process.n_ranks, n_bad == 0
    _step_if(finite, optimizers)
    if scale is not None:
        scale.update(finite)
    return StepResult(loss, norm, ~finite)


def _step_if(
    finite: Bool[Tensor, ""], optimizers: Sequence[torch.optim.Optimizer]
) -> None:
    for optimizer in optimizers:
        heeds = isinstance(optimizer, Muon) or optimizer.defaults.get("fused")
        if heeds and finite.device.type != "mps":  # whose kernels know no flag
            # Where this is 1, the fused kernels change nothing.
            optimizer.found_inf = (~finite).float()
            optimizer.step()
        elif finite:  # waits for the device
            optimizer.step()


def _clip(model: nn.Module, limit: float | None, scale: float | Tensor) -> Tensor:
    """Undo the scale, shorten the whole gradient to the limit; return its length before."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    norm = distributed.full_tensor(norm) / scale
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
    loss_function: Callable[[nn.Module, Tensor, Tensor], Tensor] = batch_loss,
) -> Evaluation:
    """A model's mean surprise over every token of a corpus, each asked for once.

    Args:
        model: in evaluation mode meanwhile.
        corpus: see `data.evaluation_batches` for what the model sees before each token.
        batch_size: rows at a time; changes nothing but speed and memory.
        process: this one takes its share of the batches.
        loss_function: `batch_loss`, or that compiled.
    """
    device = _device(model)
    batches = evaluation_batches(
        corpus,
        batch_size=batch_size,
        context_length=model.config.context_length,
        rank=process.rank,
        n_ranks=process.n_ranks,
    )
    surprises = [torch.zeros((), device=device)]
    with kept_modes(model):
        model.eval()
        for batch in batches:
            inputs, targets = (hardware.send(ids, device) for ids in batch)
            with hardware.autocast(device):
                surprises.append(loss_function(model, inputs, targets))
    # Few numbers, added in double precision, which not every device has.
    total = torch.stack(surprises).cpu().double().sum()
    if process.n_ranks > 1:
        total = distributed.all_reduce_sum(total.to(device), process)
    return Evaluation(
        loss=total.item() / corpus.n_targets,
        bytes_per_token=corpus.bytes_per_token,
        floor=corpus.floor,
    )


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


# ------------------------------------------------------------------------- the state of a training


@dataclass
class TrainingState:
    """A training between two steps: how it is done, and all that changes meanwhile.

    Attributes:
        config, process: never change.
        model: its weights are moved in place.
        loss: what is called with inputs and targets: model and loss in one, compiled and wrapped.
        optimizers: with what they remember of each weight.
        scale: of the loss, where gradients are computed in float16.
        history: what is written to the log, and read from there.
        step: steps taken.
    """

    config: TrainConfig
    process: Process
    model: GPT
    loss: nn.Module
    optimizers: Sequence[torch.optim.Optimizer]
    scale: LossScale | None
    history: History
    step: int = 0

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return _device(self.model)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a checkpoint holds, by name; sharded where the weights are."""
        found = {f"model.{n}": x for n, x in self.model.state_dict().items()}
        names = {id(p): name for name, p in self.model.named_parameters()}
        for optimizer in self.optimizers:
            for parameter, kept in optimizer.state.items():
                for key, x in kept.items():
                    found[f"optimizer.{names[id(parameter)]}.{key}"] = x
        if self.scale is not None:
            found["scale.value"] = self.scale.value
            found["scale.n_good"] = self.scale.n_good
        return found

    @torch.no_grad()
    def restore(self, saved: checkpoint.State | None) -> None:
        """Take up what was saved, whatever the number of processes or the format it came from."""
        if saved is None:
            return
        self.step, tensors = saved.step, saved.tensors
        for name, x in self.model.state_dict().items():
            there = tensors.rows(f"model.{name}", distributed.local_rows(x))
            distributed.local_tensor(x).copy_(there)
        kept = {
            p: optimizer.state[p]
            for optimizer in self.optimizers
            for group in optimizer.param_groups
            for p in group["params"]
        }
        for name in tensors:
            kind, _, rest = name.partition(".")
            if kind == "optimizer":
                owner, _, key = rest.rpartition(".")
                p = self.model.get_parameter(owner)
                if tensors.shape(name) == p.shape:
                    x = tensors.rows(name, distributed.local_rows(p)).to(p.device)
                    kept[p][key] = distributed.as_shard_of(p, x)
                else:  # a count of steps
                    kept[p][key] = tensors[name].to(p.device)
        # One that was begun on another kind of device had no scale: a fresh one finds its size.
        if self.scale is not None and "scale.value" in tensors:
            self.scale.value = tensors["scale.value"].to(self.device)
            self.scale.n_good = tensors["scale.n_good"].to(self.device)


class _Loss(nn.Module):
    """Model and loss in one module, which is what DDP, FSDP and a compiler want to be handed."""

    def __init__(self, model: GPT, function: Callable) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        return self.function(self.model, inputs, targets)


def _initial_state(
    model: GPT, config: TrainConfig, process: Process, strategy: str
) -> TrainingState:
    """Before the first step; the weights are sharded or copied over the processes here."""

    def function(model: GPT, inputs: Tensor, targets: Tensor) -> Tensor:
        return batch_loss(model, inputs, targets, n_slices=config.loss_slices)

    model.recompute = config.recompute
    inner = _Loss(model, function)
    loss = distributed.wrap(inner, process, strategy, blocks=model.blocks)
    device = _device(model)
    is_compiled = config.compile
    if is_compiled is None:
        is_compiled = device.type == "cuda"
    if is_compiled:
        inner.function = hardware.compiled(function)
    # Sharded parameters are new ones, which the optimizers must get to know.
    optimizers = build_optimizers(
        model,
        optimizer=config.optimizer,
        learning_rate=config.learning_rate,
        table_learning_rate=config.table_learning_rate,
        weight_decay=config.weight_decay,
        beta1=config.beta1,
        beta2=config.beta2,
        momentum=config.momentum,
        width_ratio=model.config.width_ratio,
        compile=is_compiled,
        process=process,
    )
    is_half = hardware.multiplying_format(device) == torch.float16
    return TrainingState(
        config=config,
        process=process,
        model=model,
        loss=loss,
        optimizers=optimizers,
        scale=LossScale(device) if is_half else None,
        history=History(config.batch_size * model.config.context_length),
    )


# --------------------------------------------------------------------------- the steps of the loop


def _step(state: TrainingState, corpus: Corpus) -> StepResult:
    """Take the next step, on this process's rows of the next global batch."""
    config, process = state.config, state.process
    inputs, targets = training_batch(
        corpus,
        batch_size=config.batch_size,
        context_length=state.model.config.context_length,
        seed=config.seed,
        step=state.step,
        rank=process.rank,
        n_ranks=process.n_ranks,
        device=state.device,
    )
    result = train_step(
        state.loss,
        state.optimizers,
        inputs,
        targets,
        accumulation=config.accumulation,
        max_gradient_norm=config.max_gradient_norm,
        loss_function=operator.call,  # the model and its loss are one module here
        scale=state.scale,
        process=process,
    )
    state.step += 1
    return result


def _evaluate(state: TrainingState, corpus: Corpus) -> Evaluation:
    """With as many rows at a time as a step has, so that it needs no more memory."""
    n_parts = state.process.n_ranks * state.config.accumulation
    return evaluate(
        state.model,
        corpus,
        batch_size=state.config.batch_size // n_parts,
        process=state.process,
        loss_function=lambda _, *batch: state.loss(*batch),
    )


def _save(
    state: TrainingState, run: checkpoint.AnyPath, origin: dict, saver: checkpoint.Saver
) -> Path | None:
    """Copy what this process has to write of the state, and begin to write it."""
    saver.wait()  # two copies at a time would be one too many
    tensors = distributed.local_copies(state.tensors(), state.process)
    if not tensors:
        return None
    write = partial(
        checkpoint.save_state,
        run,
        tensors,
        step=state.step,
        notes={part: json.dumps(settings) for part, settings in origin.items()},
        is_last=state.step == state.config.steps,
        process=saver.process,
    )
    saver.submit(write)
    return checkpoint.state_path(run, state.step, saver.process)


# ---------------------------------------------------------------------------------- before the loop


def _locked(
    run: checkpoint.AnyPath | None, process: Process
) -> contextlib.AbstractContextManager:
    is_ours = run is None or isinstance(run, checkpoint.Run) or not process.is_first
    return contextlib.nullcontext(run) if is_ours else checkpoint.locked(run)


# How a training is watched, and how it saves memory: results are the same within rounding, apart
# from what dropout draws for the parts of a batch.
_MAY_CHANGE = {"evaluate_every", "save_every", "log_every", "compile"} | {
    "recompute",
    "accumulation",
    "loss_slices",
}


def _origin(
    model: GPT, train_data: Corpus, validation_data: Corpus | None, config: TrainConfig
) -> dict[str, dict[str, object]]:
    """What must not change when a run goes on, as it is read from JSON."""
    kept = {name: x for name, x in asdict(config).items() if name not in _MAY_CHANGE}
    data = {"train": train_data, "validation": validation_data}
    data = {name: corpus.fingerprint for name, corpus in data.items() if corpus}
    origin = {"training": kept, "model": model.config.to_dict(), "data": data}
    return json.loads(json.dumps(origin))


def _saved_state(
    run: checkpoint.AnyPath | None, origin: dict[str, dict[str, object]]
) -> checkpoint.State | None:
    """The state to go on from, after what the run was begun with is found to be the same."""
    if run is None:
        return None
    config, state = checkpoint.read_config(run), checkpoint.latest_state(run)
    if state is None:
        begun = {part: config.get(part) or {} for part in origin}
        begun["data"] = begun["data"].get("fingerprints") or {}
    else:
        begun = {part: json.loads(state.notes.get(part, "{}")) for part in origin}
        for reason in state.damaged:
            warnings.warn(f"passed over: {reason}", stacklevel=3)
    for part, settings in origin.items():
        for name, now in settings.items():
            then = begun[part].get(name, now)
            if name == "warmup_steps" and now is None and then is not None:
                # Older runs hold the number that None stood for.
                now = TrainConfig(steps=begun[part]["steps"]).warmup
            if then == now or (name == "steps" and then < now):
                continue
            what = f"{name}={then!r} ({part}), not {now!r}"
            if part == "data":
                what = f"other {name} data: fingerprint {then[:8]}…, now {now[:8]}…"
            raise ValueError(
                f"{os.fspath(run)} was begun with {what}; go on with the former, or choose "
                "another folder"
            )
    return state


def _monitor(
    state: TrainingState,
    run: checkpoint.AnyPath | None,
    corpus: Corpus,
    *,
    progress: bool,
    board: bool,
) -> Monitor:
    """A monitor that knows what happened before the state."""
    process, history = state.process, state.history
    writes = run is not None and process.is_first
    if writes:
        log.cut_log(run, step=state.step)
    if run is not None:
        history.recall(
            log.read_log(run),
            n_steps=state.step,
            bytes_per_token=corpus.bytes_per_token,
            floor=corpus.floor,
        )
    peak = hardware.peak_flops(state.device)
    return Monitor(
        n_steps=state.config.steps,
        history=history,
        look_every=state.config.log_every,
        floor=corpus.floor,
        log=partial(log.append_log, run) if writes else None,
        flops_per_token=flops_per_token(state.model.config),
        peak_flops=peak and peak * process.n_ranks,
        progress=progress and process.is_first,
        board=Path(run, "tensorboard") if board and writes else None,
    )


@contextlib.contextmanager
def _interruption(
    run: checkpoint.AnyPath | None, process: Process
) -> Iterator[Callable[[int], bool]]:
    """Within, Ctrl-C, SIGTERM and SIGHUP are remembered until a step is done; a second is not.

    Yields:
        A function that tells, for the number of steps taken, whether to stop.
    """
    came, before = [], {}

    def remember(number: int, frame: object) -> None:
        came.append(number)
        restore()

    def restore() -> None:
        for each, handler in before.items():
            signal.signal(each, handler)

    def stop(n_taken: int) -> bool:
        if process.n_ranks == 1:
            return bool(came)
        # All must stop after the same step, and asking one another takes time.
        return n_taken % 10 == 0 and distributed.any_rank(bool(came), process)

    if run is not None and threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            each = getattr(signal, name, None)  # Windows knows no SIGHUP
            ignored = signal.getsignal(each) is signal.SIG_IGN if each else True
            if not ignored or name == "SIGINT":  # as `nohup` asks
                before[each] = signal.signal(each, remember)
    try:
        yield stop
    finally:
        restore()
