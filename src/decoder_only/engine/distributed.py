"""Several processes, one model: each computes its share of every batch.

    torchrun --nproc-per-node 8 -m decoder_only train ...

starts eight processes that differ by their rank. Each takes its rows of the global batch, and
before the weights move the gradients are averaged. "ddp" keeps a whole model in each process;
"fsdp" spreads weights, gradients and optimizer state over them. The model does not know: it is
handed in, and comes back as what to call. Chapter 9.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

__all__ = [
    "ALONE",
    "STRATEGIES",
    "Process",
    "agreed",
    "any_of",
    "joined",
    "spread_like",
    "synchronizing",
    "total",
    "whole",
    "wrap",
]

Value = TypeVar("Value")
STRATEGIES = ("ddp", "fsdp")


@dataclass(frozen=True)
class Process:
    """This process among its fellows.

    Attributes:
        rank: its number, from 0.
        n_ranks: how many there are.
        local_rank: its number on this machine, hence the GPU that it takes.
    """

    rank: int = 0
    n_ranks: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        """Whether it is the one that prints and writes files."""
        return self.rank == 0


ALONE = Process()


@contextlib.contextmanager
def joined(device_type: str) -> Iterator[Process]:
    """Join the processes that `torchrun` started; alone if it did not.

    The one place that reads the variables which torchrun sets.

    Args:
        device_type: "cuda" talks through NCCL, all else through gloo.
    """
    if "WORLD_SIZE" not in os.environ:
        yield ALONE
        return
    process = Process(
        rank=int(os.environ["RANK"]),
        n_ranks=int(os.environ["WORLD_SIZE"]),
        local_rank=int(os.environ["LOCAL_RANK"]),
    )
    if device_type == "cuda":
        torch.cuda.set_device(process.local_rank)
    dist.init_process_group("nccl" if device_type == "cuda" else "gloo")
    try:
        yield process
    finally:
        dist.destroy_process_group()


def wrap(model: nn.Module, process: Process, strategy: str = "ddp") -> nn.Module:
    """What to call in place of the model, so that gradients are averaged over the processes.

    Args:
        model: on this process's device, the same in all. "fsdp" changes its parameters in place.
        process: this one; alone, the model itself is returned.
        strategy: "ddp" or "fsdp".

    Raises:
        ValueError: for another strategy.

    Source: Li et al. (2020) for "ddp"; Rajbhandari et al. (2020) and Zhao et al. (2023) for
    "fsdp"; both through torch.distributed.
    """
    if strategy not in STRATEGIES:
        raise ValueError(
            f"strategy={strategy!r} is unknown; choose one of {', '.join(STRATEGIES)}"
        )
    if process.n_ranks == 1:
        return model
    if strategy == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(next(model.parameters()).device.type, (process.n_ranks,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


@contextlib.contextmanager
def synchronizing(wrapped: nn.Module, wanted: bool) -> Iterator[None]:
    """Within, a backward pass averages gradients over the processes, or leaves that for later."""
    if isinstance(wrapped, nn.parallel.DistributedDataParallel) and not wanted:
        with wrapped.no_sync():
            yield
        return
    if hasattr(wrapped, "set_requires_gradient_sync"):
        wrapped.set_requires_gradient_sync(wanted)
    yield


def total(x: Tensor, process: Process) -> Tensor:
    """The sum of a tensor over all processes, in each of them."""
    if process.n_ranks > 1:
        dist.all_reduce(x)
    return x


def agreed(value: Value, process: Process) -> Value:
    """The first process's value, in all of them."""
    if process.n_ranks == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def any_of(flag: bool, process: Process) -> bool:
    """Whether any process says yes. All must ask together."""
    if process.n_ranks == 1:
        return flag
    device = torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
    return bool(total(torch.tensor(float(flag), device=device), process) > 0)


def whole(tensor: Tensor) -> Tensor:
    """A tensor in one piece. One that is spread is gathered: all processes must ask together."""
    gather: Callable[[], Tensor] | None = getattr(tensor, "full_tensor", None)
    return tensor if gather is None else gather()


def spread_like(target: Tensor, x: Tensor) -> Tensor:
    """A whole tensor, spread as the target is."""
    if not hasattr(target, "full_tensor"):
        return x
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(x, target.device_mesh, target.placements)
