"""The same division by what PyTorch brings for it: DTensor and FSDP2, which ours must equal."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor, nn

from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.variants.parallelism.group import Group
from decoder_only.variants.parallelism.tensor import divided_dim


def train_with_pytorch(
    group: Group,
    model: GPT,
    batches: Sequence[tuple[Int[Tensor, "b s"], Int[Tensor, "b s"]]],
    build: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer],
    *,
    way: Literal["tensor", "sharded"],
) -> tuple[list[float], dict[str, Tensor]]:
    """Train by PyTorch's own means, in the layouts of this package: what a user would run.

    "tensor": every parameter becomes a DTensor, in the layout of `TensorParallel`. The model runs
    as it is, and DTensor finds the collectives. "sharded": FSDP2, in the layout of `fully_shard`;
    each device computes its rows of the batch.

    Args:
        group: from `launch` with `processes`.
        model: the same on all devices; it is taken apart.
        batches: ids and targets of each step, the same on all devices.
        build: makes the optimizer.
        way: which of the two.

    Returns:
        The loss of each step, and all weights at the end.
    """
    prepare = _tensor if way == "tensor" else _sharded
    loss_and_gradients = prepare(group, model)
    optimizer, losses = build(model.parameters()), []
    for ids, targets in batches:
        optimizer.zero_grad()
        losses.append(loss_and_gradients(ids, targets).item())
        optimizer.step()
    return losses, {n: x.full_tensor() for n, x in model.state_dict().items()}


def _tensor(group: Group, model: GPT) -> Callable[[Tensor, Tensor], Tensor]:
    """Divide the parameters; return what computes a loss and its gradients."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.experimental import implicit_replication
    from torch.distributed.tensor.parallel import loss_parallel
    from torch.nn.attention import SDPBackend, sdpa_kernel

    mesh = init_device_mesh(group.device, (group.size,))
    for name, p in list(model.named_parameters()):
        dim, (owner, _, leaf) = divided_dim(name), name.rpartition(".")
        where = [Replicate() if dim is None else Shard(dim)]
        divided = nn.Parameter(distribute_tensor(p.detach(), mesh, where))
        setattr(model.get_submodule(owner), leaf, divided)

    def loss_and_gradients(ids: Tensor, targets: Tensor) -> Tensor:
        pair = (ids, targets)
        ids, targets = (distribute_tensor(x, mesh, [Replicate()]) for x in pair)
        # DTensor cannot divide the fused kernel of the CPU.
        with implicit_replication(), sdpa_kernel(SDPBackend.MATH), loss_parallel():
            loss = next_token_loss(model(ids), targets)
            loss.backward()
        return loss.full_tensor()

    return loss_and_gradients


def _sharded(group: Group, model: GPT) -> Callable[[Tensor, Tensor], Tensor]:
    """Shard the parameters; return a function that computes a loss and its gradients."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh, whole = init_device_mesh(group.device, (group.size,)), _Loss(model)
    for part in (*model.blocks, whole):
        fully_shard(part, mesh=mesh)

    def loss_and_gradients(ids: Tensor, targets: Tensor) -> Tensor:
        rows = [x.chunk(group.size)[group.rank] for x in (ids, targets)]
        loss = whole(*rows)
        loss.backward()
        return group.all_reduce(loss.detach()) / group.size

    return loss_and_gradients


class _Loss(nn.Module):
    # The root of FSDP2, which warns of one that returns a view, as logits are.
    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        return next_token_loss(self.model(ids), targets)
