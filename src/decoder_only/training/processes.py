"""Several processes, one model: each computes its rows of every batch.

    torchrun --nproc-per-node 8 -m decoder_only train ...

starts a process group of eight, whose processes differ by their rank. Each takes its rows of the
global batch. Before the optimizer's step an all-reduce averages the gradients. "ddp" (distributed
data parallel) keeps a whole model in each process; "fsdp" (fully sharded data parallel) shards
weights, gradients and optimizer state over the processes. The model's code does not change: `wrap`
returns the module to call in its place. Chapter 9.
"""

import contextlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from decoder_only.base import hardware

Value = TypeVar("Value")
STRATEGIES = ("ddp", "fsdp")


@dataclass(frozen=True)
class Process:
    """This process and its place in the process group.

    Attributes:
        rank: its number, from 0.
        n_ranks: the number of processes, the world size.
        local_rank: its number on this machine, which is the number of its GPU.
        group: the torch.distributed group; None for the default group of all processes.
    """

    rank: int = 0
    n_ranks: int = 1
    local_rank: int = 0
    group: "dist.ProcessGroup | None" = None

    @property
    def is_first(self) -> bool:
        """Whether this process prints and writes files."""
        return self.rank == 0


ALONE = Process()
# A group freed with its DDP model holds Python's lock while it waits for a thread that needs it.
_kept: list[object] = []


@contextlib.contextmanager
def process_group(device_type: str) -> Iterator[Process]:
    """Join the processes that `torchrun` started; yield `ALONE` if it started none.

    No other place reads the environment variables that torchrun sets.

    Args:
        device_type: "cuda" communicates through NCCL, any other through gloo.

    Raises:
        ValueError: only some of the variables are set.
    """
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    variables = {name: os.environ.get(name, "") for name in names}
    if not (world := variables["WORLD_SIZE"]):
        yield ALONE
        return
    if missing := [name for name in names if not variables[name].isdecimal()]:
        raise ValueError(
            f"WORLD_SIZE={world} is set in the environment, but {missing[0]} is not a number; "
            "start several processes with torchrun, or one with WORLD_SIZE unset"
        )
    process = Process(*map(int, variables.values()))
    if device_type == "cuda":
        torch.cuda.set_device(process.local_rank)
    dist.init_process_group("nccl" if device_type == "cuda" else "gloo")
    _kept.append(dist.group.WORLD)
    try:
        yield process
    finally:
        dist.destroy_process_group()


def wrap(
    module: nn.Module,
    process: Process,
    strategy: str = "ddp",
    *,
    blocks: Iterable[nn.Module] = (),
) -> nn.Module:
    """The module to call in place of another, so that gradients are averaged over the processes.

    Args:
        module: returns the loss. For "ddp" it must be on this process's device. "fsdp" shards its
            parameters in place, from the CPU or from the meta device, so that no GPU ever holds
            all of them. The values are those of the first process.
        process: this process; if it is alone, the module itself is returned.
        strategy: "ddp" or "fsdp".
        blocks: modules whose weights "fsdp" gathers one at a time.

    Under "ddp" a compiled module becomes one graph for each bucket of gradients. The gradients of
    a bucket are averaged while those of the next are computed. With
    `torch._dynamo.config.optimize_ddp = False` there is one graph, and averaging waits for its end.

    Source: Li et al. (2020) for "ddp"; Rajbhandari et al. (2020) and Zhao et al. (2023) for
    "fsdp"; both through torch.distributed.
    """
    if process.n_ranks == 1:
        return module
    if strategy == "ddp":
        return nn.parallel.DistributedDataParallel(module, gradient_as_bucket_view=True)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed.tensor import distribute_tensor

    device = _device(process)
    mesh = init_device_mesh(device.type, (process.n_ranks,))
    number_format = hardware.multiplying_format(device)
    # Weights are gathered in bfloat16 where it is native, gradients are summed in float32.
    is_short = number_format == torch.bfloat16
    policy = MixedPrecisionPolicy(
        param_dtype=number_format if is_short else None, reduce_dtype=torch.float32
    )
    values = {name: p.detach() for name, p in module.named_parameters()}
    buffers = dict(module.named_buffers())
    module.to("meta")
    for part in (*blocks, module):
        fully_shard(part, mesh=mesh, mp_policy=policy)
    module.to_empty(device=device)
    with torch.no_grad():
        for name, p in module.named_parameters():
            value = values[name]
            if not process.is_first:
                value = torch.empty_like(value, device=device)
            p.copy_(distribute_tensor(value.to(device), mesh, p.placements))
        for name, buffer in module.named_buffers():
            buffer.copy_(buffers[name])
    return module


def _device(process: Process) -> torch.device:
    is_cuda = dist.get_backend(process.group) == "nccl"
    return torch.device("cuda", process.local_rank) if is_cuda else torch.device("cpu")


@contextlib.contextmanager
def gradient_sync(wrapped: nn.Module, enabled: bool) -> Iterator[None]:
    """Within the context, backward averages gradients over the processes only if enabled."""
    if isinstance(wrapped, nn.parallel.DistributedDataParallel) and not enabled:
        with wrapped.no_sync():
            yield
        return
    if hasattr(wrapped, "set_requires_gradient_sync"):
        wrapped.set_requires_gradient_sync(enabled)
    yield


def all_reduce_sum(x: Tensor, process: Process) -> Tensor:
    """Sum a tensor over all processes, in place, and return it."""
    if process.n_ranks > 1:
        dist.all_reduce(x, group=process.group)
    return x


def broadcast(value: Value, process: Process) -> Value:
    """Send the first process's value to all processes; each returns it."""
    if process.n_ranks == 1:
        return value
    values = [value]
    dist.broadcast_object_list(values, group=process.group, group_src=0)
    return values[0]


def any_rank(flag: bool, process: Process) -> bool:
    """Whether the flag is true in any process. All processes must call it together."""
    if process.n_ranks == 1:
        return flag
    count = torch.tensor(float(flag), device=_device(process))
    return bool(all_reduce_sum(count, process) > 0)


def in_background(process: Process) -> Process:
    """A second process group (gloo), so that a background thread can communicate during training.

    Its timeout is a day, because tokenizing or saving takes longer than NCCL's ten minutes. All
    processes must call it together.
    """
    if process.n_ranks == 1:
        return process
    group = dist.new_group(backend="gloo", timeout=timedelta(days=1))
    return replace(process, group=group)


@contextlib.contextmanager
def all_or_none(process: Process) -> Iterator[None]:
    """Leaving the context waits for all processes; if one met an OSError, all raise one."""
    own_error = None
    try:
        yield
    except OSError as error:
        own_error = error
    if any_rank(own_error is not None, process):
        if own_error is None:
            raise OSError("another process could not write its part")
        raise own_error


def all_gather(x: Tensor, process: Process) -> Tensor:
    """Concatenate the tensors of all processes, of one shape, along their first dimension."""
    joined = x.new_empty((process.n_ranks * x.shape[0], *x.shape[1:]))
    parts = list(joined.chunk(process.n_ranks))
    dist.all_gather(parts, x.contiguous(), group=process.group)
    return joined


def all_to_all(x: Tensor, process: Process) -> Tensor:
    """Send part p of the first dimension to process p; return the parts from all processes."""
    received = torch.empty_like(x, memory_format=torch.contiguous_format)
    dist.all_to_all_single(received, x.contiguous(), group=process.group)
    return received


def full_tensor(tensor: Tensor) -> Tensor:
    """The whole of a tensor. All processes must call it together, since it may be sharded."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def local_tensor(tensor: Tensor) -> Tensor:
    """This process's shard of a tensor, as a view; the tensor itself if it is not sharded."""
    return tensor.to_local() if is_sharded(tensor) else tensor


def as_shard_of(target: Tensor, x: Tensor) -> Tensor:
    """The inverse of `local_tensor`: a shard as the sharded tensor that `target` is."""
    if not is_sharded(target):
        return x
    from torch.distributed.tensor import DTensor

    mesh, placements = target.device_mesh, target.placements
    sizes = {"shape": target.shape, "stride": target.stride()}
    return DTensor.from_local(x, mesh, placements, run_check=False, **sizes)


def local_rows(tensor: Tensor) -> slice:
    """The rows of a tensor that `local_tensor` gives; all rows if it is not sharded."""
    if not is_sharded(tensor):
        return slice(None)
    mesh, n = tensor.device_mesh, len(tensor)
    begin = min(n, math.ceil(n / mesh.size()) * mesh.get_local_rank())
    return slice(begin, begin + len(tensor.to_local()))


def local_copies(tensors: Mapping[str, Tensor], process: Process) -> dict[str, Tensor]:
    """Copy this process's shards to the CPU; the first process copies whole tensors, too.

    The copies run side by side, and a GPU is waited for once, after the last.
    """
    copies, devices = {}, set()
    for name, tensor in tensors.items():
        if process.is_first or is_sharded(tensor):
            x = local_tensor(tensor.detach())
            # A GPU copies without holding up the host only to pinned memory.
            copies[name] = torch.empty_like(x, device="cpu", pin_memory=x.is_cuda)
            copies[name].copy_(x, non_blocking=True)
            devices |= {x.device} - {torch.device("cpu")}
    for device in devices:
        torch.accelerator.synchronize(device)
    return copies


def is_sharded(tensor: Tensor) -> bool:
    """Whether a tensor is a DTensor, of which each process holds some rows, as under "fsdp"."""
    return hasattr(tensor, "full_tensor")
