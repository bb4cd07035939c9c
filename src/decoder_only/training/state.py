"""The state of a training between two steps, and how a training resumes from a saved state.

Chapter 9.
"""

import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from decoder_only.base import hardware
from decoder_only.data.corpus import Corpus
from decoder_only.model.gpt import GPT
from decoder_only.training import checkpoint, processes
from decoder_only.training.config import TrainConfig, current_names
from decoder_only.training.evaluation import device_of
from decoder_only.training.monitor import History
from decoder_only.training.optimizers import build_optimizers
from decoder_only.training.processes import Process
from decoder_only.training.step import LossScale, NextTokenLoss

__all__ = ["TrainingState"]


@dataclass
class TrainingState:
    """Everything that a training has between two steps.

    Attributes:
        config: the settings.
        process: this process.
        model: its weights are changed in place.
        loss: gives the total loss of inputs and targets. It is `NextTokenLoss(model)`, which may
            be compiled, and wrapped by `processes.wrap`.
        optimizers: with their state for each weight.
        scale: the loss scale, where gradients are computed in float16; else None.
        history: the losses and evaluations so far, which the log holds, too.
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
        """The device of the weights."""
        return device_of(self.model)

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint holds, by name; sharded where the weights are."""
        tensors = {f"model.{n}": x for n, x in self.model.state_dict().items()}
        names = {p: name for name, p in self.model.named_parameters()}
        for optimizer in self.optimizers:
            for parameter, values in optimizer.state.items():
                for key, x in values.items():
                    tensors[f"optimizer.{names[parameter]}.{key}"] = x
        if self.scale is not None:
            tensors["scale.value"] = self.scale.value
            tensors["scale.n_good"] = self.scale.n_good
        return tensors

    @torch.no_grad()
    def restore(self, saved: checkpoint.State | None) -> None:
        """Load a saved state, of any number of processes and of any number format."""
        if saved is None:
            return
        self.step, tensors = saved.step, saved.tensors
        for name, x in self.model.state_dict().items():
            rows = tensors.rows(f"model.{name}", processes.local_rows(x))
            processes.local_tensor(x).copy_(rows)
        states = {
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
                    x = tensors.rows(name, processes.local_rows(p)).to(p.device)
                    states[p][key] = processes.as_shard_of(p, x)
                else:  # a count of steps
                    states[p][key] = tensors[name].to(p.device)
        # A training that began on another kind of device had no scale, and a new one adapts.
        if self.scale is not None and "scale.value" in tensors:
            self.scale.value = tensors["scale.value"].to(self.device)
            self.scale.n_good = tensors["scale.n_good"].to(self.device)


def initial_state(
    model: GPT, config: TrainConfig, process: Process, strategy: str
) -> TrainingState:
    """The state before the first step; the weights are sharded or replicated here."""
    model.recompute = config.recompute
    inner = NextTokenLoss(model, config.loss_slices)
    loss = processes.wrap(inner, process, strategy, blocks=model.blocks)
    device = device_of(model)
    is_compiled = config.compile
    if is_compiled is None:
        is_compiled = device.type == "cuda"
    if is_compiled:
        inner.forward = hardware.compiled(inner.forward)
    # After `wrap`, because sharding makes new parameters.
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


# Settings that may differ when a run resumes. They say how a training is watched and how it saves
# memory. Results are the same within rounding, apart from what dropout draws for the parts of a
# batch.
_MAY_CHANGE = {
    "evaluate_every",
    "save_every",
    "log_every",
    "compile",
    "recompute",
    "accumulation",
    "loss_slices",
}


def origin_of(
    model: GPT, train_data: Corpus, validation_data: Corpus | None, config: TrainConfig
) -> dict[str, dict[str, object]]:
    """What must not change when a run resumes, as plain data."""
    fixed = {name: x for name, x in asdict(config).items() if name not in _MAY_CHANGE}
    data = {"train": train_data, "validation": validation_data}
    data = {name: corpus.fingerprint for name, corpus in data.items() if corpus}
    origin = {"training": fixed, "model": model.config.to_dict(), "data": data}
    return json.loads(json.dumps(origin))


def saved_state(
    run: checkpoint.AnyPath | None, origin: dict[str, dict[str, object]]
) -> checkpoint.State | None:
    """The newest state of a run; None if there is none.

    Raises:
        ValueError: the run was begun with other settings or data, or all its states are damaged.
    """
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
    begun["training"] = current_names(begun["training"])
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
