"""The batch and the state, divided: data parallelism, and ZeRO's three stages.

Chapter 13.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import vector_to_parameters
from torch.utils.checkpoint import checkpoint

from decoder_only.model.gpt import GPT
from decoder_only.variants.parallelism.group import Group
from decoder_only.variants.parallelism.tensor import gather

__all__ = ["DataParallel", "FullySharded", "ShardedOptimizer", "fully_shard"]


class DataParallel:
    """Average a module's gradients over the devices during the backward pass.

    As soon as the gradients of a bucket of parameters are there, their all-reduce
    begins. Call `finish` between backward and the optimizer's step.

    Args:
        module: a whole model in each device; it takes the values of the first.
        group: the devices, each of which computes its rows of the batch.
        bucket_bytes: a bucket is full when it holds so many. Small ones start early,
            and each costs the latency of a collective.

    Source: Li et al. (2020).
    """

    def __init__(
        self, module: nn.Module, group: Group, *, bucket_bytes: int = 25_000_000
    ) -> None:
        self.group, self.is_syncing = group, True
        self.buckets = bucketed(module, bucket_bytes, self._arrived)
        self._missing = [[*bucket] for bucket in self.buckets]
        self._under_way: list[tuple[list[nn.Parameter], Callable[[], Tensor]]] = []
        # The first device's values: their sum with zeros from all others.
        weights = [*module.parameters()]
        flat = _flatten(weights, group)
        flat = group.all_reduce(flat if group.rank == 0 else torch.zeros_like(flat))
        vector_to_parameters(flat, weights)

    def _arrived(self, number: int, name: str, _: nn.Parameter) -> None:
        if not self.is_syncing:
            return
        if name not in self._missing[number]:
            raise RuntimeError(
                f"a second gradient of {name} came before the first was averaged; "
                "call finish() after every backward pass outside of no_sync()"
            )
        self._missing[number].remove(name)
        if not self._missing[number]:
            bucket = [*self.buckets[number].values()]
            flat = _flatten([p.grad for p in bucket], self.group)
            self._under_way.append((bucket, self.group.start_all_reduce(flat)))

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward only adds up gradients: for all micro-batches but the last."""
        self.is_syncing = False
        try:
            yield
        finally:
            self.is_syncing = True

    def finish(self) -> None:
        """Wait for the sums, and put the averages in place of the gradients.

        Raises:
            RuntimeError: if some parameter had no gradient to send, so that its bucket
                never left.
        """
        if late := [name for bucket in self._missing for name in bucket]:
            raise RuntimeError(
                f"no gradient to average came for {', '.join(late)}: "
                "the last backward pass ran within no_sync(), or the loss does not "
                "depend on it; freeze it by requires_grad_(False) beforehand"
            )
        for bucket, wait in self._under_way:
            vector_to_parameters(wait() / self.group.size, [p.grad for p in bucket])
        self._under_way.clear()
        self._missing = [[*bucket] for bucket in self.buckets]


def bucketed(
    module: nn.Module, n_bytes: int, arrived: Callable[..., None]
) -> list[dict[str, nn.Parameter]]:
    """Trained parameters, the last ones first, since gradients are born in this order.

    `arrived` is called with the bucket and the name of each gradient that backward has made.
    """
    buckets: list[dict[str, nn.Parameter]] = [{}]
    for name, p in reversed([*module.named_parameters()]):
        if p.requires_grad:
            if sum(each.nbytes for each in buckets[-1].values()) >= n_bytes:
                buckets.append({})
            buckets[-1][name] = p
            hook = partial(arrived, len(buckets) - 1, name)
            p.register_post_accumulate_grad_hook(hook)
    return buckets


def _flatten(tensors: Iterable[Tensor], group: Group) -> Tensor:
    """All numbers in one row, and zeros up to a multiple of the number of devices."""
    flat = torch.cat([x.detach().flatten() for x in tensors])
    return F.pad(flat, (0, -len(flat) % group.size))


class ShardedOptimizer:
    """Each device updates its shard of the weights, and stores its state alone.

    The weights of a bucket are in one piece of memory, and the shard is a view of that: nothing is
    stored twice.

    Args:
        module: a whole model, the same in each device, which must stay where it is.
        group: the devices, each of which computes its rows of the batch.
        build: makes the optimizer for a list of parameters, the shards: for all weights
            alike.
        stage: of ZeRO, 1 or 2. In the first, gradients are whole until `step`. In the
            second, a bucket's are added up over the devices as soon as backward has
            made them, and all but the shard is freed; so every micro-batch sends its
            own.
        bucket_bytes: see `DataParallel`. A bucket that waits for a gradient is whole
            until then.

    Source: Rajbhandari et al. (2020).
    """

    def __init__(
        self,
        module: nn.Module,
        group: Group,
        build: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
        *,
        stage: int,
        bucket_bytes: int = 25_000_000,
    ) -> None:
        if stage not in (1, 2):
            raise ValueError(f"{stage=} must be 1 or 2")
        self.group, self.stage = group, stage
        self.buckets = bucketed(module, bucket_bytes, self._arrived)
        self._flats = [_flatten(bucket.values(), group) for bucket in self.buckets]
        for bucket, flat in zip(self.buckets, self._flats, strict=True):
            vector_to_parameters(flat, bucket.values())
        self.shares = [
            nn.Parameter(flat.chunk(group.size)[group.rank]) for flat in self._flats
        ]
        self.optimizer = build(self.shares)

    def _arrived(self, number: int, *_: object) -> None:
        bucket = self.buckets[number].values()
        if self.stage == 2 and all(p.grad is not None for p in bucket):
            self._reduce(number)

    def _reduce(self, number: int) -> None:
        """Average the devices' gradients, keep this one's shard, free the rest."""
        bucket, shard = self.buckets[number], self.shares[number]
        if late := [name for name, p in bucket.items() if p.grad is None]:
            raise RuntimeError(
                f"no gradient came for {', '.join(late)}: the loss does not depend "
                "on it; freeze it by requires_grad_(False) beforehand"
            )
        flat = _flatten([p.grad for p in bucket.values()], self.group)
        for p in bucket.values():
            p.grad = None
        mean = self.group.reduce_scatter(flat) / self.group.size
        shard.grad = mean if shard.grad is None else shard.grad + mean

    def step(self) -> None:
        """Update this device's shards, and gather the others'.

        Raises:
            RuntimeError: if some parameter that is not frozen has no gradient.
        """
        for number, shard in enumerate(self.shares):
            is_whole = any(p.grad is not None for p in self.buckets[number].values())
            if is_whole or shard.grad is None:
                self._reduce(number)
        self.optimizer.step()
        for flat, shard in zip(self._flats, self.shares, strict=True):
            shard.grad = None
            flat.copy_(self.group.all_gather(shard.detach()))


class FullySharded(nn.Module):
    """A module of which each device stores a P-th, and has the whole only while it computes.

    Forward gathers the weights and frees them. Backward gathers them again, computes what
    forward did not save (activation checkpointing, which ZeRO's third stage does not ask for), and
    adds up the gradients into shards: the transpose of an all-gather is a reduce-scatter.

    Args:
        module: parts of it may be fully sharded already, and keep their shards. None is frozen.
        group: the devices, each of which computes its rows of the batch.
        keep: gather once a step, keep the weights until backward is done, recompute nothing.

    Raises:
        ValueError: for frozen parts, and without `keep` for dropout.

    Source: Rajbhandari et al. (2020); Zhao et al. (2023).
    """

    def __init__(self, module: nn.Module, group: Group, *, keep: bool = False) -> None:
        super().__init__()
        self.group, self.keep = group, keep
        self._module = [module]  # in a list, which does not register its parameters
        inner = [m for m in module.modules() if isinstance(m, FullySharded)]
        sharded = {id(p) for m in inner for p in m.parameters()}
        own = {n: p for n, p in module.named_parameters() if id(p) not in sharded}
        rates = [getattr(m, n, 0) for m in module.modules() for n in ("p", "dropout")]
        dropout = max((p for p in rates if isinstance(p, float)), default=0.0)
        if dropout and not keep:
            raise ValueError(f"{dropout=} must be 0, or keep=True: masks would differ")
        if frozen := [name for name, p in own.items() if not p.requires_grad]:
            raise ValueError(f"{frozen=} must be [], since a shard is updated whole")
        self.shapes = {name: p.shape for name, p in own.items()}
        flat = _flatten(own.values(), group)
        self.shard = nn.Parameter(flat.chunk(group.size)[group.rank].clone())
        self.shard.register_hook(lambda gradient: gradient / group.size)
        for p in own.values():
            p.data = p.new_empty(0)
        self.inner = nn.ModuleList(inner)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if "_module" not in self.__dict__:  # half made, as by copy
                raise
            return getattr(self._module[0], name)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """What the module returns."""
        if self.keep:
            return self._run(self.shard, *inputs, **named)
        settings = {"use_reentrant": False, "preserve_rng_state": False}
        return checkpoint(self._run, self.shard, *inputs, **settings, **named)

    def _run(self, shard: Tensor, *inputs: Any, **named: Any) -> Any:
        weights = self._named(gather(shard, self.group, dim=0))
        return functional_call(self._module[0], weights, inputs, named)

    def _named(self, flat: Tensor) -> dict[str, Tensor]:
        sizes = [shape.numel() for shape in self.shapes.values()]
        parts = flat[: sum(sizes)].split(sizes)
        named = zip(self.shapes.items(), parts, strict=True)
        return {name: part.view(shape) for (name, shape), part in named}

    def whole(self) -> dict[str, Tensor]:
        """All weights under the module's names."""
        weights = self._named(self.group.all_gather(self.shard.detach()))
        for name, part in self._module[0].named_modules():
            if isinstance(part, FullySharded):
                weights |= {f"{name}.{inner}": x for inner, x in part.whole().items()}
        return weights


def fully_shard(model: GPT, group: Group) -> FullySharded:
    """A model whose blocks are sharded one by one, and its other parts together.

    The model itself is taken apart.
    """
    for number, block in enumerate(model.blocks):
        model.blocks[number] = FullySharded(block, group)
    return FullySharded(model, group, keep=True)
