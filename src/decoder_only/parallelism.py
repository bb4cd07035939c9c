"""One model on many devices: divide the batch, the state, the matrices, the sequence or the depth.

Each way but the last is an identity of sums over P devices; what devices then tell each other:

    data        gradient = 1/P sum_p gradient_p                     all-reduce
    tensor      act(x W_up) W_down = sum_p act(x W_up,p) W_down,p   all-reduce, forward and backward
    sequence    norm(x)[s] reads x[s] alone                         all-gather, reduce-scatter
    ring        softmax over t, in P pieces of t                    neighbours exchange keys, values
    pipeline    block_L(... block_1(x))                             neighbours exchange x

What comes out is what one device computes, up to the rounding of a sum in another order. What
differs is how many bytes each device holds, and how many it sends. Chapter 13.
"""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import vector_to_parameters
from torch.utils.checkpoint import checkpoint

from decoder_only.block import Block
from decoder_only.config import GPTConfig
from decoder_only.engine.checks import require
from decoder_only.engine.collectives import Group
from decoder_only.lm_head import next_token_loss
from decoder_only.model import GPT
from decoder_only.scaling import activation_bytes

__all__ = [
    "DataParallel",
    "FullySharded",
    "ShardedOptimizer",
    "Share",
    "Stage",
    "Task",
    "TensorParallel",
    "activation_bytes_each",
    "copy_to_all",
    "fully_shard",
    "gather",
    "gpipe",
    "one_forward_one_backward",
    "places",
    "ring_attention",
    "ring_bytes",
    "run_stage",
    "scatter_sum",
    "simulate",
    "state_bytes",
    "sum_over_all",
    "tensor_parallel_bytes",
    "train_with_pytorch",
    "vocabulary_embedding",
    "vocabulary_loss",
]

# ------------------------------------------------------------------------- the batch, divided


class DataParallel:
    """Average a module's gradients over the devices while the backward pass goes on.

    As soon as the gradients of a bucket of parameters are there, their all-reduce begins. Call
    `finish` between backward and the optimizer's step.

    Args:
        module: a whole model in each device; it takes the values of the first.
        group: the devices, each of which computes its rows of the batch.
        bucket_bytes: a bucket is full when it holds so many. Small ones start early, and each
            costs the latency of a collective.

    Source: Li et al. (2020).
    """

    def __init__(
        self, module: nn.Module, group: Group, *, bucket_bytes: int = 25_000_000
    ) -> None:
        self.group, self.is_syncing = group, True
        self.buckets = _buckets(module, bucket_bytes, self._arrived)
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
                f"a second gradient of {name} came before the first was averaged; call finish() "
                "after every backward pass outside of no_sync()"
            )
        self._missing[number].remove(name)
        if not self._missing[number]:
            bucket = [*self.buckets[number].values()]
            flat = _flatten([p.grad for p in bucket], self.group)
            self._under_way.append((bucket, self.group.start_all_reduce(flat)))

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within, backward only adds up gradients: for all micro-batches but the last."""
        self.is_syncing = False
        try:
            yield
        finally:
            self.is_syncing = True

    def finish(self) -> None:
        """Wait for the sums, and put the averages in place of the gradients.

        Raises:
            RuntimeError: if some parameter had no gradient to send, so that its bucket never left.
        """
        if late := [name for bucket in self._missing for name in bucket]:
            raise RuntimeError(
                f"no gradient to average came for {', '.join(late)}: the last backward pass ran "
                "within no_sync(), or the loss does not depend on it; freeze it by "
                "requires_grad_(False) beforehand"
            )
        for bucket, wait in self._under_way:
            vector_to_parameters(wait() / self.group.size, [p.grad for p in bucket])
        self._under_way.clear()
        self._missing = [[*bucket] for bucket in self.buckets]


def _buckets(
    module: nn.Module, n_bytes: int, arrived: Callable[..., None]
) -> list[dict[str, nn.Parameter]]:
    """Trained parameters, the last ones first, since gradients are born in this order.

    Of each gradient that backward has made, `arrived` is told the bucket and the name.
    """
    buckets: list[dict[str, nn.Parameter]] = [{}]
    for name, p in reversed([*module.named_parameters()]):
        if p.requires_grad:
            if sum(each.nbytes for each in buckets[-1].values()) >= n_bytes:
                buckets.append({})
            buckets[-1][name] = p
            p.register_post_accumulate_grad_hook(
                partial(arrived, len(buckets) - 1, name)
            )
    return buckets


def _flatten(tensors: Iterable[Tensor], group: Group) -> Tensor:
    """All numbers in one row, and zeros up to a multiple of the number of devices."""
    flat = torch.cat([x.detach().flatten() for x in tensors])
    return F.pad(flat, (0, -len(flat) % group.size))


# ------------------------------------------------------------------------- the state, divided


class ShardedOptimizer:
    """Each device moves its share of the weights, and keeps the optimizer's state for that alone.

    The weights of a bucket lie in one piece of memory, and the share is a part of that: nothing is
    held twice.

    Args:
        module: a whole model, the same in each device, which must stay where it is.
        group: the devices, each of which computes its rows of the batch.
        build: makes the optimizer for a list of parameters, the shares: for all weights alike.
        stage: of ZeRO, 1 or 2. In the first, gradients are whole until `step`. In the second, a
            bucket's are added up over the devices as soon as backward has made them, and all but
            the share is let go; so every micro-batch sends its own.
        bucket_bytes: see `DataParallel`. A bucket that waits for a gradient is held whole.

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
        require("stage", stage, (1, 2).__contains__, "1 or 2")
        self.group, self.stage = group, stage
        self.buckets = _buckets(module, bucket_bytes, self._arrived)
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
        """Add the devices' gradients, keep the share of the average, and let go of the rest."""
        bucket, share = self.buckets[number], self.shares[number]
        if late := [name for name, p in bucket.items() if p.grad is None]:
            raise RuntimeError(
                f"no gradient came for {', '.join(late)}: the loss does not depend on it; freeze "
                "it by requires_grad_(False) beforehand"
            )
        flat = _flatten([p.grad for p in bucket.values()], self.group)
        for p in bucket.values():
            p.grad = None
        mean = self.group.reduce_scatter(flat) / self.group.size
        share.grad = mean if share.grad is None else share.grad + mean

    def step(self) -> None:
        """Move the shares, and gather the others'.

        Raises:
            RuntimeError: if some parameter that is not frozen has no gradient.
        """
        for number, share in enumerate(self.shares):
            is_whole = any(p.grad is not None for p in self.buckets[number].values())
            if is_whole or share.grad is None:
                self._reduce(number)
        self.optimizer.step()
        for flat, share in zip(self._flats, self.shares, strict=True):
            share.grad = None
            flat.copy_(self.group.all_gather(share.detach()))


class FullySharded(nn.Module):
    """A module of which each device keeps a P-th, and has the whole only while it computes.

    Forward gathers the weights and forgets them. Backward gathers them again, computes what
    forward did not keep (activation checkpointing, which ZeRO's third stage does not ask for), and
    adds up the gradients into shares: the transpose of an all-gather is a reduce-scatter.

    Args:
        module: parts of it may be fully sharded already, and keep their shares. None is frozen.
        group: the devices, each of which computes its rows of the batch.
        keep: gather once a step, keep the weights until backward is through, recompute nothing.

    Raises:
        ValueError: for frozen parts, and without `keep` for dropout.

    Source: Rajbhandari et al. (2020); Zhao et al. (2023).
    """

    def __init__(self, module: nn.Module, group: Group, *, keep: bool = False) -> None:
        super().__init__()
        self.group, self.keep = group, keep
        self._module = [module]  # in a list, so that its empty parameters are not ours
        inner = [m for m in module.modules() if isinstance(m, FullySharded)]
        theirs = {id(p) for m in inner for p in m.parameters()}
        own = {n: p for n, p in module.named_parameters() if id(p) not in theirs}
        chances = [getattr(m, n, 0) for m in module.modules() for n in ("p", "dropout")]
        dropout = max((p for p in chances if isinstance(p, float)), default=0.0)
        wanted = "0, or keep=True: what is computed again would draw another mask"
        require("dropout", dropout, lambda p: keep or p == 0, wanted)
        frozen = [name for name, p in own.items() if not p.requires_grad]
        require("frozen", frozen, lambda x: not x, "[], since a share moves as one")
        self.shapes = {name: p.shape for name, p in own.items()}
        flat = _flatten(own.values(), group)
        self.share = nn.Parameter(flat.chunk(group.size)[group.rank].clone())
        self.share.register_hook(lambda gradient: gradient / group.size)
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

    def forward(self, *inputs: Any) -> Any:
        """What the module returns."""
        if self.keep:
            return self._run(self.share, *inputs)
        settings = {"use_reentrant": False, "preserve_rng_state": False}
        return checkpoint(self._run, self.share, *inputs, **settings)

    def _run(self, share: Tensor, *inputs: Any) -> Any:
        weights = self._named(gather(share, self.group, dim=0))
        return functional_call(self._module[0], weights, inputs)

    def _named(self, flat: Tensor) -> dict[str, Tensor]:
        sizes = [shape.numel() for shape in self.shapes.values()]
        parts = flat[: sum(sizes)].split(sizes)
        named = zip(self.shapes.items(), parts, strict=True)
        return {name: part.view(shape) for (name, shape), part in named}

    def whole(self) -> dict[str, Tensor]:
        """All weights under the module's names."""
        found = self._named(self.group.all_gather(self.share.detach()))
        for name, part in self._module[0].named_modules():
            if isinstance(part, FullySharded):
                found |= {f"{name}.{inner}": x for inner, x in part.whole().items()}
        return found


def fully_shard(model: GPT, group: Group) -> FullySharded:
    """A model whose blocks are sharded one by one, and what lies around them together.

    The model itself is taken apart.
    """
    for number, block in enumerate(model.blocks):
        model.blocks[number] = FullySharded(block, group)
    return FullySharded(model, group, keep=True)


def state_bytes(n_parameters: int, n_devices: int, stage: int) -> dict[str, int]:
    """Bytes of "weights", "gradients" and "optimizer" that a device holds after backward.

    In float32, with AdamW's two means. Padding is left out: up to P - 1 numbers of each piece that
    is divided. In mixed precision stages 1 and 2 would move a float32 copy of their share instead,
    of 4 N / P bytes.

    Args:
        n_parameters: N.
        n_devices: P.
        stage: of ZeRO: 0 divides nothing, 1 the optimizer's state, 2 the gradients too, 3 the
            weights too.

    Raises:
        ValueError: for another stage.

    Source: Rajbhandari et al. (2020).
    """
    require("stage", stage, range(4).__contains__, "0, 1, 2 or 3")
    share = -(-n_parameters // n_devices)
    weights, gradients, means = (
        share if stage >= divided else n_parameters for divided in (3, 2, 1)
    )
    return {"weights": 4 * weights, "gradients": 4 * gradients, "optimizer": 8 * means}


# ---------------------------------------------------------------------- the matrices, divided


class _Pair(torch.autograd.Function):
    """One collective forward, and its transpose backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, there: Callable, back: Callable) -> Tensor:
        ctx.back = back
        return there(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.back(gradient), None, None


def copy_to_all(x: Float[Tensor, "*b d"], group: Group) -> Float[Tensor, "*b d"]:
    """What all devices hold goes into what each makes of it; gradients are added up.

    Source: Shoeybi et al. (2019), who call it f.
    """
    return _Pair.apply(x, lambda x: x, group.all_reduce)


def sum_over_all(x: Float[Tensor, "*b d"], group: Group) -> Float[Tensor, "*b d"]:
    """The sum of what the devices hold; its gradient is that of each term.

    Source: Shoeybi et al. (2019), who call it g.
    """
    return _Pair.apply(x, group.all_reduce, lambda gradient: gradient)


def gather(x: Tensor, group: Group, *, dim: int = 1) -> Tensor:
    """The devices' tensors, joined along a dimension; backward adds up and divides again.

    Source: Korthikanti et al. (2022), who call it g.
    """
    return _Pair.apply(
        x, lambda x: group.all_gather(x, dim), lambda y: group.reduce_scatter(y, dim)
    )


def scatter_sum(x: Float[Tensor, "b s d"], group: Group) -> Float[Tensor, "b _ d"]:
    """This device's positions of the sum of the devices' tensors; backward gathers.

    Source: Korthikanti et al. (2022), who call it g bar.
    """
    return _Pair.apply(
        x, lambda x: group.reduce_scatter(x, 1), lambda y: group.all_gather(y, 1)
    )


def vocabulary_embedding(
    ids: Int[Tensor, "b s"], table: Float[Tensor, "v d"], group: Group
) -> Float[Tensor, "b s d"]:
    """Each id's row where this device has it, and zeros elsewhere, to be summed over all.

    Args:
        ids: tokens, the same for all devices.
        table: this device's rows, V / P of them.
        group: the devices, in the order of their rows.

    Source: Shoeybi et al. (2019).
    """
    local = ids - group.rank * len(table)
    is_here = (local >= 0) & (local < len(table))
    return F.embedding(local.where(is_here, 0), table) * is_here[..., None]


def vocabulary_loss(
    logits: Float[Tensor, "b s v"],
    targets: Int[Tensor, "b s"],
    group: Group,
    *,
    ignore_index: int = -1,
) -> Float[Tensor, ""]:
    """`next_token_loss` of logits whose columns are divided; three numbers travel per position.

    The largest logit, the sum of the powers and the target's logit are each a maximum or a sum
    over the devices. The logits themselves stay where they are.

    Args:
        logits: this device's columns, V / P of them.
        targets, ignore_index: see `next_token_loss`.
        group: the devices, in the order of their columns.

    Source: Shoeybi et al. (2019).
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    local = targets - group.rank * logits.shape[-1]
    is_here = (local >= 0) & (local < logits.shape[-1])
    logits = logits - group.all_reduce(logits.detach().amax(-1), "max")[..., None]
    wanted = logits.gather(-1, local.where(is_here, 0)[..., None])[..., 0] * is_here
    total, wanted = sum_over_all(torch.stack([logits.exp().sum(-1), wanted]), group)
    counts = targets != ignore_index
    return ((total.log() - wanted) * counts).sum() / counts.sum()


class Share(nn.Module):
    """Attention with a P-th of the heads, or an MLP with a P-th of the hidden units.

    The first map is divided by columns, the second by rows. So each device computes heads, or
    hidden units, from the first product to the last, and only the results are summed.

    Args:
        part: a `MultiHeadAttention` or MLP that holds its share of the matrices.
        bias: what is added once, after the sum.
        group: the devices.
        sequence: between the parts each device holds a P-th of the positions. The gathered input
            is let go until backward, and gathered again then.

    Source: Shoeybi et al. (2019); for the sequence Korthikanti et al. (2022).
    """

    def __init__(
        self,
        part: nn.Module,
        bias: nn.Parameter | None,
        group: Group,
        sequence: bool,
    ) -> None:
        super().__init__()
        self.part, self.bias = part, bias
        self.group, self.sequence = group, sequence

    def forward(
        self, x: Float[Tensor, "b _ d"], *handed: Tensor | None
    ) -> Float[Tensor, "b _ d"]:
        """What the whole part makes of x, for the positions that this device holds."""
        read = (gather if self.sequence else copy_to_all)(x, self.group)
        term = self.part(read, *handed)
        if self.sequence and term.requires_grad:
            self._forget(read, x.detach(), until=term)
        y = (scatter_sum if self.sequence else sum_over_all)(term, self.group)
        return y if self.bias is None else y + self.bias

    def _forget(self, read: Tensor, x: Tensor, until: Tensor) -> None:
        storage = read.untyped_storage()
        n_bytes = storage.nbytes()
        storage.resize_(0)

        def refill(_: Tensor) -> None:
            storage.resize_(n_bytes)
            read.data.copy_(self.group.all_gather(x, 1))

        until.register_hook(refill)


_PLAIN = "GPT itself: other models see other positions, which is not divided here"


class TensorParallel(nn.Module):
    """This device's share of a GPT, whose matrices are divided among the devices.

    Heads, hidden units and vocabulary entries are divided; norms, positions and the biases after a
    sum are held by all. With `sequence`, what lies between attention and MLP is divided too, by
    positions.

    Args:
        model: the whole; it is copied. Without dropout.
        group: P devices; P divides the heads, those of keys and values, F and V, and with
            `sequence` every length.
        sequence: sequence parallelism in its original form.

    Raises:
        ValueError: for a model that does not divide.

    Source: Shoeybi et al. (2019); Korthikanti et al. (2022).
    """

    def __init__(self, model: GPT, group: Group, *, sequence: bool = False) -> None:
        require("model", type(model), lambda kind: kind is GPT, _PLAIN)
        config = model.config
        wanted = f"a multiple of the {group.size} devices"
        sizes = {"n_heads": config.n_heads, "n_kv_heads": config.kv_heads}
        sizes |= {"d_mlp": config.mlp_width, "vocab_size": config.vocab_size}
        for name, size in sizes.items():
            require(name, size, lambda n: n % group.size == 0, wanted)
        require(
            "dropout", config.dropout, lambda p: p == 0, "0: devices would draw apart"
        )
        super().__init__()
        self.config, self.group, self.sequence = config, group, sequence
        model = copy.deepcopy(model)
        self.layout: dict[str, tuple[nn.Parameter, int | None]] = {}
        for name, p in model.named_parameters():
            dim = _divided(name)
            if dim is not None:
                p.data = p.data.chunk(group.size, dim)[group.rank].clone()
            # What sees only this device's positions, or heads, has a part of its gradient.
            elif p.requires_grad and (
                sequence or name.endswith(("query_norm.weight", "key_norm.weight"))
            ):
                p.register_hook(group.all_reduce)
            self.layout[name] = p, dim
        self.embedding, self.positions = model.embedding, model.positions
        self.blocks = nn.ModuleList(
            _share_block(block, group, sequence) for block in model.blocks
        )
        self.final_norm, self.head = model.final_norm, model.head
        self._check = partial(model._check, cache=None)

    def forward(
        self, ids: Int[Tensor, "b s"], targets: Int[Tensor, "b s"]
    ) -> Float[Tensor, ""]:
        """The loss, `next_token_loss` of the whole model; all devices are handed the same.

        Raises:
            ValueError: for ids, or targets other than -1, that `GPT` would refuse, and with
                `sequence` for a length that does not divide.
        """
        self._check(ids)
        self._check(targets.where(targets != -1, 0))
        start, table = 0, self.embedding.weight
        x = vocabulary_embedding(ids, table, self.group)
        if self.sequence:
            x = scatter_sum(x, self.group)
            start = self.group.rank * x.shape[1]
        else:
            x = sum_over_all(x, self.group)
        if self.positions is not None:
            x = self.positions(
                x, torch.arange(start, start + x.shape[1], device=x.device)
            )
        for block in self.blocks:
            x = block(x)
        x = self.final_norm(x)
        x = (gather if self.sequence else copy_to_all)(x, self.group)
        logits = self.head(x, *([table] if self.config.tied else []))
        return vocabulary_loss(logits, targets, self.group)

    def whole(
        self, read: Callable[[nn.Parameter], Tensor] = torch.Tensor.detach
    ) -> dict[str, Tensor]:
        """All weights under the names of `GPT`, or what else is read of every parameter."""
        return {
            name: read(p) if dim is None else self.group.all_gather(read(p), dim)
            for name, (p, dim) in self.layout.items()
        }


def _divided(name: str) -> int | None:
    """The dimension along which a parameter of a GPT is divided; None if all hold it."""
    *_, part, kind = name.split(".")
    if part in ("embedding", "head", "query", "key", "value", "up", "gate"):
        return 0  # rows of the table; the map's outputs, and their offsets
    return 1 if part in ("output", "down") and kind == "weight" else None


def _share_block(block: Block, group: Group, sequence: bool) -> Block:
    attention, mlp = block.attention, block.mlp
    attention.n_heads //= group.size
    attention.n_kv_heads //= group.size
    biases = attention.output.bias, mlp.down.bias
    attention.output.bias = mlp.down.bias = None
    block.attention = Share(attention, biases[0], group, sequence)
    block.mlp = Share(mlp, biases[1], group, sequence)
    return block


def tensor_parallel_bytes(
    config: GPTConfig,
    batch_size: int,
    length: int,
    n_devices: int,
    *,
    sequence: bool = False,
) -> dict[str, int]:
    """What a device sends in one forward and backward pass of `TensorParallel`, by collective.

    In float32. With n = 4 B S D bytes of the residual stream, a block without `sequence` takes
    four all-reduces of n, half of them backward. With it, four all-gathers and four
    reduce-scatters, which send as much, and two more all-gathers to gather again.

    Args:
        batch_size, length: B and S.
        n_devices: P.
        sequence: see `TensorParallel`.

    Source: Korthikanti et al. (2022), section 4.2.2.
    """
    n_layers, d, n_positions = config.n_layers, config.d_model, batch_size * length

    def around(*sizes: int) -> int:  # a reduce-scatter, or an all-gather, of each
        return sum((n_devices - 1) * 4 * -(-size // n_devices) for size in sizes)

    stream = around(n_positions * d)
    all_reduce = around(n_positions, 2 * n_positions)  # the loss
    # Vectors that all hold, whose gradients are parts: of the norms, and of the biases.
    vectors = [config.head_width] * 2 * n_layers if config.qk_norm else []
    if not sequence:
        calls = 4 * n_layers + 2
        return {"all-reduce": 2 * (calls * stream + all_reduce + around(*vectors))}
    per_norm = 2 if config.norm == "layer" and config.bias else 1
    n_norms = 2 * n_layers + (config.norm_position == "pre")
    vectors += [d] * (per_norm * n_norms + 2 * config.bias * n_layers)
    if config.positions == "learned":
        vectors.append(d * config.context_length)
    return {
        "all-reduce": 2 * (all_reduce + around(*vectors)),
        "all-gather": (6 * n_layers + 2) * stream,
        "reduce-scatter": (4 * n_layers + 2) * stream,
    }


def activation_bytes_each(
    config: GPTConfig,
    batch_size: int,
    length: int,
    n_devices: int,
    *,
    sequence: bool = False,
) -> int:
    """What a device keeps of all blocks between forward and backward, in float32.

    The matrices' division leaves the inputs of the norms, and what the norms hand over, whole on
    every device; the sequence's divides them too.

    Args:
        batch_size, length: B and S.
        n_devices: P.
        sequence: see `TensorParallel`.

    Raises:
        ValueError: as `scaling.activation_bytes` does; for rotary positions or windows, whose
            angles and masks all devices hold; and for RMSNorm.

    Source: Korthikanti et al. (2022), section 4.2, for the method.
    """
    require("positions", config.positions, lambda p: p != "rotary", "not rotary")
    require("windows", config.windows, lambda w: set(w) == {None}, "(None,)")
    require("norm", config.norm, lambda norm: norm == "layer", "'layer'")
    kept = activation_bytes(config, batch_size, length)
    handed_over = 2 * config.n_layers * 4 * batch_size * length * config.d_model
    undivided = 0 if sequence else kept["norms"] + handed_over
    of_blocks = sum(kept[part] for part in ("attention", "mlp", "norms"))
    return undivided + (of_blocks - undivided) // n_devices


# --------------------------------------------------------------- the sequence, divided: a ring


def places(length: int, n_devices: int, *, balanced: bool = False) -> list[Tensor]:
    """Which positions each device holds: neighbours, or, balanced, early ones and late ones.

    A causal query at position s sees s + 1 keys, so that the last P-th of a sequence has more to
    do than the first. Of 2 P pieces, balanced ("zigzag"), device p takes piece p from both ends.

    Raises:
        ValueError: for a length that does not divide.

    Source: Liu et al. (2023) for the ring; Brandon et al. (2023) for another balance.
    """
    n_pieces = 2 * n_devices if balanced else n_devices
    wanted = f"a multiple of {n_pieces}"
    require("length", length, lambda n: n > 0 and n % n_pieces == 0, wanted)
    pieces = torch.arange(length).chunk(n_pieces)
    if not balanced:
        return list(pieces)
    return [torch.cat([pieces[p], pieces[-1 - p]]) for p in range(n_devices)]


def ring_attention(
    query: Float[Tensor, "b h s k"],
    key: Float[Tensor, "b h s k"],
    value: Float[Tensor, "b h s k"],
    group: Group,
    *,
    balanced: bool = False,
) -> Float[Tensor, "b h s k"]:
    """Causal attention over a sequence of which every device holds a P-th.

    Keys and values travel round the ring. Each device adds what its queries gather from the piece
    that is there to what they gathered before: the largest score, the sum of powers and the sum of
    values are all that it must remember. No device ever holds the whole sequence, backward either:
    there the pieces go round again, and their gradients with them. Tiles of scores that the mask
    would empty are not computed. Half precision is added up, and sent, in float32.

    Args:
        query, key, value: at this device's `places`.
        group: the devices.
        balanced: see `places`.

    Source: Liu et al. (2023).
    """
    length = query.shape[-2] * group.size
    where = [
        each.to(query.device).chunk(1 + balanced)
        for each in places(length, group.size, balanced=balanced)
    ]
    exact = torch.promote_types(query.dtype, torch.float32)
    parts = (each.to(exact) for each in (query, key, value))
    return _RingAttention.apply(*parts, group, where).to(query.dtype)


class _RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, group: Group, where: list
    ) -> Tensor:
        scale = 1 / math.sqrt(query.shape[-1])
        top = torch.full_like(query[..., :1], -math.inf)
        total, output = torch.zeros_like(top), torch.zeros_like(query)
        pair = torch.stack([key, value])
        for step in range(group.size):
            for here, there, hidden in _tiles(where, group.rank, step):
                k, v = pair[..., there, :]
                scores = (scale * query[..., here, :] @ k.mT).masked_fill(
                    hidden, -math.inf
                )
                higher = torch.maximum(top[..., here, :], scores.amax(-1, keepdim=True))
                powers = (scores - higher).exp()
                shrink = (top[..., here, :] - higher).exp()
                total[..., here, :].mul_(shrink).add_(powers.sum(-1, keepdim=True))
                output[..., here, :].mul_(shrink).add_(powers @ v)
                top[..., here, :] = higher
            if step < group.size - 1:
                pair = group.shift(pair, name="ring forward")
        output = output / total
        ctx.save_for_backward(query, key, value, output, top + total.log())
        ctx.group, ctx.where, ctx.scale = group, where, scale
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, output, log_total = ctx.saved_tensors
        group, pair = ctx.group, torch.stack([key, value])
        to_query, to_pair = torch.zeros_like(query), torch.zeros_like(pair)
        drift = (gradient * output).sum(-1, keepdim=True)
        for step in range(group.size):
            for here, there, hidden in _tiles(ctx.where, group.rank, step):
                q, g = query[..., here, :], gradient[..., here, :]
                k, v = pair[..., there, :]
                scores = ctx.scale * q @ k.mT - log_total[..., here, :]
                weights = scores.exp().masked_fill(hidden, 0.0)
                slope = ctx.scale * weights * (g @ v.mT - drift[..., here, :])
                to_query[..., here, :] += slope @ k
                to_pair[..., there, :] += torch.stack([slope.mT @ q, weights.mT @ g])
            if group.size > 1:  # the last shift brings the gradients home
                to_pair = group.shift(to_pair, name="ring backward")
            if step < group.size - 1:
                pair = group.shift(pair, name="ring backward")
        return to_query, *to_pair, None, None


def _tiles(
    where: list[tuple[Tensor, ...]], rank: int, step: int
) -> Iterator[tuple[slice, slice, Tensor]]:
    """The pieces of queries that see something of a piece of the keys that are here at this step.

    And what each query does not see of it: the keys that stand later.
    """
    size = len(where[rank][0])
    for i, queries in enumerate(where[rank]):
        for j, keys in enumerate(where[rank - step]):
            if keys[0] <= queries[-1]:
                here, there = (slice(n * size, (n + 1) * size) for n in (i, j))
                yield here, there, queries[:, None] < keys


def ring_bytes(
    batch_size: int, n_heads: int, length: int, head_dim: int, n_devices: int
) -> dict[str, int]:
    """What a device sends in `ring_attention`, in float32: forward and backward.

    A piece of keys and values makes P - 1 steps forward, and P - 1 more backward; their gradients
    make P, the last of which is the way home.
    """
    piece = 2 * 4 * batch_size * n_heads * length // n_devices * head_dim
    home = n_devices if n_devices > 1 else 0
    forward = (n_devices - 1) * piece
    return {"ring forward": forward, "ring backward": forward + home * piece}


# -------------------------------------------------------------------------- the depth, divided


class Task(NamedTuple):
    """One stage's work on one micro-batch, which has a number."""

    kind: Literal["forward", "backward"]
    micro_batch: int


def gpipe(n_stages: int, n_micro_batches: int) -> list[list[Task]]:
    """For each stage its tasks in order: all forward, then all backward.

    Source: Huang et al. (2019).
    """
    tasks = [Task("forward", m) for m in range(n_micro_batches)]
    tasks += [Task("backward", m) for m in range(n_micro_batches)]
    return [list(tasks) for _ in range(n_stages)]


def one_forward_one_backward(n_stages: int, n_micro_batches: int) -> list[list[Task]]:
    """For each stage its tasks in order: backward as soon as it can be, one after each forward.

    Stage p keeps the activations of at most P - p micro-batches. As long as `gpipe`, in time.

    Source: Narayanan et al. (2019); as here, with all weights moved at the end, (2020).
    """
    schedules = []
    for stage in range(n_stages):
        ahead = min(n_stages - 1 - stage, n_micro_batches)
        tasks = [Task("forward", m) for m in range(ahead)]
        for m in range(n_micro_batches):
            if ahead + m < n_micro_batches:
                tasks.append(Task("forward", ahead + m))
            tasks.append(Task("backward", m))
        schedules.append(tasks)
    return schedules


def simulate(
    schedules: Sequence[Sequence[Task]], *, forward: float = 1.0, backward: float = 2.0
) -> list[dict[Task, tuple[float, float]]]:
    """When each stage begins and ends each task, if messages took no time.

    Args:
        schedules: for each stage its tasks in order.
        forward, backward: how long each takes, the same in all stages.

    Raises:
        ValueError: if the stages would wait for each other for ever.
    """
    times: list[dict[Task, tuple[float, float]]] = [{} for _ in schedules]
    left, free = [list(tasks) for tasks in schedules], [0.0] * len(schedules)
    lengths = {"forward": forward, "backward": backward}
    # When what a task reads has come to its stage; at the ends of the pipeline it is there.
    ends = {"forward": 0, "backward": len(schedules) - 1}
    came = {(ends[t.kind], t): 0.0 for tasks in schedules for t in tasks}
    while any(left):
        ready = [s for s, tasks in enumerate(left) if tasks and (s, tasks[0]) in came]
        if not ready:
            raise ValueError("schedules must be an order in which some stage can go on")
        for stage in ready:
            task = left[stage].pop(0)
            begin = max(came[stage, task], free[stage])
            free[stage] = begin + lengths[task.kind]
            came[stage + (1 if task.kind == "forward" else -1), task] = free[stage]
            times[stage][task] = begin, free[stage]
    return times


class Stage(nn.Module):
    """Some of a model's blocks, with the embedding before the first, the head behind the last.

    Args:
        model: its parts are shared, not copied. Its head must have a matrix of its own, since a
            tied one would have to be held, and its gradient summed, at both ends.
        number: which stage, from 0.
        n_stages: P, a divisor of the number of blocks.

    Raises:
        ValueError: for a tied head, or a number that does not divide.

    Source: Huang et al. (2019).
    """

    def __init__(self, model: GPT, number: int, n_stages: int) -> None:
        require("model", type(model), lambda kind: kind is GPT, _PLAIN)
        require("tied", model.config.tied, lambda tied: not tied, "False")
        wanted = f"a multiple of the {n_stages} stages"
        n_layers = model.config.n_layers
        require("n_layers", n_layers, lambda n: n % n_stages == 0, wanted)
        super().__init__()
        each = n_layers // n_stages
        parts = [*model.blocks[number * each : (number + 1) * each]]
        if number == 0:
            positions = [] if model.positions is None else [model.positions]
            parts = [model.embedding, *positions, model.dropout, *parts]
        if number == n_stages - 1:
            parts += [model.final_norm, model.head]
        self.d_model, self.parts = model.config.d_model, nn.Sequential(*parts)

    def forward(self, x: Tensor) -> Tensor:
        """From ids, or what the stage before handed over, to what the next one reads, or logits."""
        return self.parts(x)


def run_stage(
    stage: Stage,
    tasks: Sequence[Task],
    group: Group,
    micro_batches: Sequence[Int[Tensor, "b s"]],
    loss_function: Callable[[Tensor, int], Tensor],
) -> float:
    """Work through a stage's tasks; its parameters end with the gradients of the mean loss.

    Messages of two stages may cross, which gloo sorts out by their tags; NCCL would need them
    paired. A stage keeps no more messages than P, or with `gpipe` than micro-batches.

    Args:
        stage: this device's.
        tasks: its schedule.
        group: the stages' devices, in order.
        micro_batches: ids, which all devices know; their shapes tell what to expect.
        loss_function: of the last stage's logits and the micro-batch's number.

    Returns:
        The mean loss, on the last device; 0 on the others.
    """
    first, last = group.rank == 0, group.rank == group.size - 1
    held: dict[int, tuple[Tensor, Tensor]] = {}
    unsent: dict[int, Callable[[], None]] = {}  # by tag
    loss, n = 0.0, len(micro_batches)
    for kind, m in tasks:
        if kind == "forward":
            x = micro_batches[m]
            if not first:
                like = next(stage.parameters()).new_empty(*x.shape, stage.d_model)
                x = group.receive(like, group.rank - 1, tag=m).requires_grad_()
            y = stage(x)
            if last:
                y = loss_function(y, m) / n
                loss += y.item()
            else:
                unsent[m] = group.send(y.detach(), group.rank + 1, tag=m, name=kind)
            held[m] = x, y
            continue
        x, y = held.pop(m)
        y.backward(None if last else group.receive(y, group.rank + 1, tag=n + m))
        # The message that this answers has come; one gradient at a time is under way.
        for tag in [tag for tag in unsent if tag == m or tag >= n]:
            unsent.pop(tag)()
        if not first:
            unsent[n + m] = group.send(x.grad, group.rank - 1, tag=n + m, name=kind)
    for wait in unsent.values():
        wait()
    return loss


# ------------------------------------------------------------------- what PyTorch brings for it


def train_with_pytorch(
    group: Group,
    model: GPT,
    batches: Sequence[tuple[Int[Tensor, "b s"], Int[Tensor, "b s"]]],
    build: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer],
    *,
    way: Literal["tensor", "sharded"],
) -> tuple[list[float], dict[str, Tensor]]:
    """Train by PyTorch's own means, with our division: what a user would run.

    "tensor": every parameter becomes a DTensor, in the layout of `TensorParallel`. The model runs
    as it is, and DTensor finds the collectives. "sharded": FSDP2, in the layout of `fully_shard`;
    each device computes its rows of the batch.

    Args:
        group: from `launch` with `processes`.
        model: the same on all devices; it is taken apart.
        batches: ids and targets of each step, the same on all devices.
        build: makes the optimizer.
        way: which.

    Returns:
        The loss of each step, and all weights at the end.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard as shard_by_fsdp
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.experimental import implicit_replication
    from torch.distributed.tensor.parallel import loss_parallel
    from torch.nn.attention import SDPBackend, sdpa_kernel

    mesh, losses = init_device_mesh(group.device, (group.size,)), []
    whole = _Loss(model)
    if way == "sharded":
        for part in (*model.blocks, whole):
            shard_by_fsdp(part, mesh=mesh)
    else:
        for name, p in list(model.named_parameters()):
            dim, (owner, _, leaf) = _divided(name), name.rpartition(".")
            where = [Replicate() if dim is None else Shard(dim)]
            divided = nn.Parameter(distribute_tensor(p.detach(), mesh, where))
            setattr(model.get_submodule(owner), leaf, divided)
    optimizer = build(model.parameters())
    for pair in batches:
        optimizer.zero_grad()
        if way == "sharded":
            ids, targets = (x.chunk(group.size)[group.rank] for x in pair)
            loss = whole(ids, targets)
            loss.backward()
            loss = group.all_reduce(loss.detach()) / group.size
        else:
            # The fused kernel of the CPU is not among the operators that DTensor can divide.
            ids, targets = (distribute_tensor(x, mesh, [Replicate()]) for x in pair)
            with implicit_replication(), sdpa_kernel(SDPBackend.MATH), loss_parallel():
                loss = whole(ids, targets)
                loss.backward()
            loss = loss.full_tensor()
        optimizer.step()
        losses.append(loss.item())
    return losses, {n: x.full_tensor() for n, x in model.state_dict().items()}


class _Loss(nn.Module):
    # The root of FSDP2, which warns of one that returns a view, as logits are.
    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        return next_token_loss(self.model(ids), targets)
