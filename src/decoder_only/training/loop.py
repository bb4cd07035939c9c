"""The training loop: step, evaluate, save, until the last step or an interruption.

Chapter 9.
"""

import contextlib
import json
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from decoder_only.base import hardware
from decoder_only.base.modes import restored_modes
from decoder_only.data.corpus import Corpus, training_batch
from decoder_only.model.counting import flops_per_token
from decoder_only.model.gpt import GPT
from decoder_only.training import checkpoint, log, processes
from decoder_only.training.config import TrainConfig, check_settings
from decoder_only.training.evaluation import evaluate
from decoder_only.training.monitor import Evaluation, History, Monitor
from decoder_only.training.optimizers import set_learning_rate
from decoder_only.training.processes import ALONE, Process
from decoder_only.training.state import (
    TrainingState,
    initial_state,
    origin_of,
    saved_state,
)
from decoder_only.training.step import StepResult, train_step


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
) -> History:
    """Train a model in place, on the device of its weights.

    The order of the data and dropout depend on (seed, step, rank) alone. torch's global generators
    are left as they were.

    Args:
        model: its weights are changed in place.
        train_data: the corpus to learn from.
        validation_data: the corpus of the evaluations; None for no evaluation.
        config: see `TrainConfig`.
        run: a folder made by `checkpoint.create_run`, or kept locked by `checkpoint.new_run`, for
            the log and the states. If it holds states, the training resumes from the newest one
            that is not damaged. It then ends in the same weights, bit by bit on a CPU, as if it
            had never stopped. It may have more steps than before; a schedule that depends on their
            number follows the new number from there on. Ctrl-C, SIGTERM and SIGHUP save before
            they end the training.
        process, strategy: see `processes.process_group` and `processes.wrap`. "fsdp" takes
            the model on the CPU; in all but the first process it may be on the meta device.
        progress: show a bar on stderr.

    On CUDA and on the CPU a step never waits for the step before. On a Mac's GPU (MPS) it does,
    because the optimizers there cannot skip a step by themselves.

    Returns:
        Losses, evaluations and time; of fewer steps than `config.steps` after an interruption.

    Raises:
        FloatingPointError: the loss or its gradient was not finite in several steps in a row.
        ValueError: the run was begun with other settings or data, all its states are damaged, or
            a run cannot hold the model.
        OSError: another process trains in the folder, or a state cannot be written.
    """
    check_settings(config, process=process, strategy=strategy)
    origin = origin_of(model, train_data, validation_data, config)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_settings_restored(model))
        stop = stack.enter_context(_interruption(run, process))
        run = stack.enter_context(_locked(run, model, process))
        saved = saved_state(run, origin)
        state = initial_state(model, config, process, strategy)
        state.restore(saved)
        corpus = validation_data or train_data
        monitor = _monitor(state, saved, run, corpus, progress=progress)
        stack.enter_context(monitor)
        saver = stack.enter_context(_saver(process, strategy))
        stack.enter_context(hardware.forked_generators(state.device))
        interrupted = False
        while state.step < config.steps and not interrupted:
            factor = config.rate_factor(state.step)
            set_learning_rate(state.optimizers, factor)
            result = _step(state, train_data)
            monitor.note_step(result, config.learning_rate * factor)
            interrupted = stop(state.step)
            if validation_data and config.is_due("evaluate", state.step):
                with monitor.pause():
                    monitor.note_evaluation(_evaluate(state, validation_data))
            if run and (interrupted or config.is_due("save", state.step)):
                with monitor.pause():
                    monitor.note_save(_save(state, run, origin, saver))
    return state.history


@contextlib.contextmanager
def _settings_restored(model: GPT) -> Iterator[None]:
    """Restore the model's modes and its `recompute` on leaving the context."""
    recompute = model.recompute
    with restored_modes(model):
        try:
            yield
        finally:
            model.recompute = recompute


def _step(state: TrainingState, corpus: Corpus) -> StepResult:
    """Take the next step, on this process's rows of the global batch."""
    config, process = state.config, state.process
    # Dropout draws from these.
    hardware.seed_generators(config.seed, state.step, process.rank)
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
        scale=state.scale,
        process=process,
    )
    state.step += 1
    return result


def _evaluate(state: TrainingState, corpus: Corpus) -> Evaluation:
    """Evaluate with as many rows at a time as a step has, so that memory is enough."""
    n_parts = state.process.n_ranks * state.config.accumulation
    return evaluate(
        state.model,
        corpus,
        batch_size=state.config.batch_size // n_parts,
        process=state.process,
        loss=state.loss,
    )


def _saver(process: Process, strategy: str) -> checkpoint.Saver:
    """A saver for all processes together where each has shards, else for the first alone."""
    is_sharded = strategy == "fsdp"
    return checkpoint.Saver(processes.in_background(process) if is_sharded else ALONE)


def _save(
    state: TrainingState, run: checkpoint.AnyPath, origin: dict, saver: checkpoint.Saver
) -> Path | None:
    """Copy this process's part of the state, and start to write it."""
    saver.wait()  # two copies at a time would be one too many
    tensors = processes.local_copies(state.tensors(), state.process)
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


def _locked(
    run: checkpoint.AnyPath | None, model: GPT, process: Process
) -> contextlib.AbstractContextManager:
    """Lock the run's folder in the first process; refuse a model that a run cannot hold."""
    if run is not None:
        checkpoint.check_savable(model)
    needs_lock = run is not None and not isinstance(run, checkpoint.Run)
    if needs_lock and process.is_first:
        return checkpoint.locked(run)
    return contextlib.nullcontext(run)


def _monitor(
    state: TrainingState,
    saved: checkpoint.State | None,
    run: checkpoint.AnyPath | None,
    corpus: Corpus,
    *,
    progress: bool,
) -> Monitor:
    """A monitor, with the history of earlier sessions."""
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
    monitor = Monitor(
        n_steps=state.config.steps,
        history=history,
        look_every=state.config.log_every,
        floor=corpus.floor,
        log=partial(log.append_log, run) if writes else None,
        flops_per_token=flops_per_token(state.model.config),
        peak_flops=peak and peak * process.n_ranks,
        progress=progress and process.is_first,
    )
    monitor.note_save(saved and saved.path)
    return monitor


@contextlib.contextmanager
def _interruption(
    run: checkpoint.AnyPath | None, process: Process
) -> Iterator[Callable[[int], bool]]:
    """Let Ctrl-C, SIGTERM or SIGHUP stop after the current step; a second signal acts at once.

    Yields:
        A function that says whether to stop after a number of steps.
    """
    received, handlers = [], {}

    def remember(number: int, frame: object) -> None:
        received.append(number)
        restore()

    def restore() -> None:
        for each, handler in handlers.items():
            signal.signal(each, handler)

    def stop(n_taken: int) -> bool:
        if process.n_ranks == 1:
            return bool(received)
        # All must stop after the same step, and an all-reduce takes time.
        return n_taken % 10 == 0 and processes.any_rank(bool(received), process)

    if run is not None and threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            each = getattr(signal, name, None)  # Windows knows no SIGHUP
            ignored = signal.getsignal(each) is signal.SIG_IGN if each else True
            if not ignored or name == "SIGINT":  # as `nohup` asks
                handlers[each] = signal.signal(each, remember)
    try:
        yield stop
    finally:
        restore()
