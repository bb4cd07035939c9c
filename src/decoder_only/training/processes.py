"""Several processes, one model: each computes its rows of every batch.

    torchrun --nproc-per-node 8 -m decoder_only train ...

starts a process group of eight, which differ by their rank. Each takes its rows of the global
batch, and before the weights move the gradients are averaged, by an all-reduce. "ddp" (data
parallel) keeps a whole model in each process; "fsdp" (fully sharded data parallel) shards weights,
gradients and optimizer state over them. The model itself is not changed: `wrap` returns what to
call in its place. Chapter 9.
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
    """This process among those of its group.

    Attributes:
        rank: its number, from 0.
        n_ranks: how many there are, the world size.
        local_rank: its number on this machine, hence the GPU that it takes.
        group: the torch.distributed group; None for the default, which is all processes.
    """

    rank: int = 0
    n_ranks: int = 1
    local_rank: int = 0
    group: "dist.ProcessGroup | None" = None

    @property
    def is_first(self) -> bool:
        """Whether it is the one that prints and writes files."""
        return self.rank == 0


ALONE = Process()


@contextlib.contextmanager
def process_group(device_type: str) -> Iterator[Process]:
    """Join the processes that `torchrun` started; alone if it did not.

    The one place that reads the variables which torchrun sets.

    Args:
        device_type: "cuda" communicates through NCCL, all else through gloo.

    Raises:
        ValueError: if only some of the variables are set.
    """
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    given = {name: os.environ.get(name, "") for name in names}
    if not given["WORLD_SIZE"]:
        yield ALONE
        return
    if missing := [name for name in names if not given[name].isdecimal()]:
        raise ValueError(
            f"WORLD_SIZE={given['WORLD_SIZE']} is set in the environment, but {missing[0]} is not "
            "a number; start several processes with torchrun, or one with WORLD_SIZE unset"
        )
    process = Process(*(int(number) for number in given.values()))
    if device_type == "cuda":
        torch.cuda.set_device(process.local_rank)
    dist.init_process_group("nccl" if device_type == "cuda" else "gloo")
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
    """What to call in place of a module, so that gradients are averaged over the processes.

    Args:
        module: what returns the loss. "ddp" wants it on this process's device. "fsdp" shards its
            parameters in place, from the CPU or from the meta device, so that no GPU ever holds
            all of them; the first process's values count.
        process: this one; alone, the module itself is returned.
        strategy: "ddp" or "fsdp".
        blocks: parts whose weights "fsdp" gathers one at a time.

    What is compiled inside of "ddp" becomes one graph for each of its buckets, so that the
    gradients of one are averaged while those of the next are computed. With
    `torch._dynamo.config.optimize_ddp = False` it becomes one graph, and they wait for its end.

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
    # Gathered in 16 bits where those multiply without a loss scale, summed in float32.
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
            if process.is_first:
                value = value.to(device)
            else:
                value = torch.empty(value.shape, dtype=value.dtype, device=device)
            p.copy_(distribute_tensor(value, mesh, p.placements))
        for name, buffer in module.named_buffers():
            buffer.copy_(buffers[name])
    return module


def _device(process: Process) -> torch.device:
    is_cuda = dist.get_backend(process.group) == "nccl"
    return torch.device("cuda", process.local_rank) if is_cuda else torch.device("cpu")


@contextlib.contextmanager
def gradient_sync(wrapped: nn.Module, enabled: bool) -> Iterator[None]:
    """Within, backward averages gradients over the processes, or leaves that for later."""
    if isinstance(wrapped, nn.parallel.DistributedDataParallel) and not enabled:
        with wrapped.no_sync():
            yield
        return
    if hasattr(wrapped, "set_requires_gradient_sync"):
        wrapped.set_requires_gradient_sync(enabled)
    yield


def all_reduce_sum(x: Tensor, process: Process) -> Tensor:
    """The sum of a tensor over all processes, in each of them."""
    if process.n_ranks > 1:
        dist.all_reduce(x, group=process.group)
    return x


def broadcast(value: Value, process: Process) -> Value:
    """The first process's value, in all of them."""
    if process.n_ranks == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, group=process.group, group_src=0)
    return box[0]


def any_rank(flag: bool, process: Process) -> bool:
    """Whether any process says yes. All must ask together."""
    if process.n_ranks == 1:
        return flag
    return bool(
        all_reduce_sum(torch.tensor(float(flag), device=_device(process)), process) > 0
    )


def in_background(process: Process) -> Process:
    """A second process group (gloo), so that a background thread can communicate during training.

    It waits for a day, not the minutes after which NCCL takes a process for lost. All processes
    must call it together.
    """
    if process.n_ranks == 1:
        return process
    group = dist.new_group(backend="gloo", timeout=timedelta(days=1))
    return replace(process, group=group)


@contextlib.contextmanager
def all_or_none(process: Process) -> Iterator[None]:
    """At the end wait for all processes. If one of them met an OSError, all raise one."""
    error = None
    try:
        yield
    except OSError as caught:
        error = caught
    if any_rank(error is not None, process):
        raise error or OSError("another process could not write its part")


def all_gather(x: Tensor, process: Process) -> Tensor:
    """The tensors of all processes, of one shape, joined along their first dimension."""
    joined = x.new_empty((process.n_ranks * x.shape[0], *x.shape[1:]))
    parts = list(joined.chunk(process.n_ranks))
    dist.all_gather(parts, x.contiguous(), group=process.group)
    return joined


def all_to_all(x: Tensor, process: Process) -> Tensor:
    """Part p of the first dimension goes to process p, and from each comes its part for us."""
    received = torch.empty_like(x, memory_format=torch.contiguous_format)
    dist.all_to_all_single(received, x.contiguous(), group=process.group)
    return received


def full_tensor(tensor: Tensor) -> Tensor:
    """A tensor in one piece. A sharded one is gathered: all processes must ask together."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def local_tensor(tensor: Tensor) -> Tensor:
    """This process's shard of a tensor, sharing its memory; all of it where it is not sharded."""
    return tensor.to_local() if is_sharded(tensor) else tensor


def as_shard_of(target: Tensor, x: Tensor) -> Tensor:
    """What `local_tensor` gave, as the sharded tensor that it came from."""
    if not is_sharded(target):
        return x
    from torch.distributed.tensor import DTensor

    where = (target.device_mesh, target.placements)
    sizes = {"shape": target.shape, "stride": target.stride()}
    return DTensor.from_local(x, *where, run_check=False, **sizes)


def local_rows(tensor: Tensor) -> slice:
    """Which rows of a tensor `local_tensor` gives: all of them where it is not sharded."""
    if not is_sharded(tensor):
        return slice(None)
    mesh, n = tensor.device_mesh, len(tensor)
    begin = min(n, math.ceil(n / mesh.size()) * mesh.get_local_rank())
    return slice(begin, begin + len(tensor.to_local()))


def local_copies(tensors: Mapping[str, Tensor], process: Process) -> dict[str, Tensor]:
    """Copies in CPU memory of this process's shards; in the first also of what has none.

    A GPU is waited for once, after the last of them.
    """
    mine = {
        name: local_tensor(tensor.detach())
        for name, tensor in tensors.items()
        if process.is_first or is_sharded(tensor)
    }
    copies = {
        # A GPU copies while the host goes on only to pinned memory.
        name: torch.empty_like(x, device="cpu", pin_memory=x.is_cuda)
        for name, x in mine.items()
    }
    for name, x in mine.items():
        copies[name].copy_(x, non_blocking=True)
    for device in {x.device for x in mine.values() if not x.is_cpu}:
        torch.accelerator.synchronize(device)
    return copies


def is_sharded(tensor: Tensor) -> bool:
    """Whether each process holds some of its rows, as under "fsdp"."""
    return hasattr(tensor, "full_tensor")
