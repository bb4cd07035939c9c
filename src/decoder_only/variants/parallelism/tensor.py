"""The matrices, divided: tensor and sequence parallelism.

Chapter 13.
"""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from decoder_only.model.block import Block
from decoder_only.model.config import GPTConfig
from decoder_only.model.counting import activation_bytes
from decoder_only.model.gpt import GPT
from decoder_only.variants.parallelism.group import Group

__all__ = [
    "ShardedPart",
    "TensorParallel",
    "activation_bytes_each",
    "copy_to_all",
    "gather",
    "scatter_sum",
    "sum_over_all",
    "vocabulary_embedding",
    "vocabulary_loss",
]


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
    """The identity, on a tensor that is the same on all devices; backward adds up the gradients.

    Source: Shoeybi et al. (2019), who call it f.
    """
    return _Pair.apply(x, lambda x: x, group.all_reduce)


def sum_over_all(x: Float[Tensor, "*b d"], group: Group) -> Float[Tensor, "*b d"]:
    """The sum of the devices' tensors; its gradient is that of each term.

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
    chosen = logits.gather(-1, local.where(is_here, 0)[..., None])[..., 0] * is_here
    total, chosen = sum_over_all(torch.stack([logits.exp().sum(-1), chosen]), group)
    counts = targets != ignore_index
    return ((total.log() - chosen) * counts).sum() / counts.sum()


class ShardedPart(nn.Module):
    """Attention with a P-th of the heads, or an MLP with a P-th of the hidden units.

    The first map is divided by columns, the second by rows. So each device computes heads, or
    hidden units, from the first product to the last, and only the results are summed.

    Args:
        part: a `MultiHeadAttention` or MLP with this device's rows or columns of the matrices.
        bias: what is added once, after the sum.
        group: the devices.
        sequence: between the parts each device holds a P-th of the positions. The gathered input
            is freed after forward, and gathered again in backward.

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
        self, x: Float[Tensor, "b _ d"], **inputs: Tensor | None
    ) -> Float[Tensor, "b _ d"]:
        """The output of the whole part for the positions of this device."""
        whole = (gather if self.sequence else copy_to_all)(x, self.group)
        term = self.part(whole, **inputs)
        if self.sequence and term.requires_grad:
            self._free_until_backward(whole, x.detach(), term)
        y = (scatter_sum if self.sequence else sum_over_all)(term, self.group)
        return y if self.bias is None else y + self.bias

    def _free_until_backward(self, whole: Tensor, x: Tensor, output: Tensor) -> None:
        storage = whole.untyped_storage()
        n_bytes = storage.nbytes()
        storage.resize_(0)

        def gather_again(_: Tensor) -> None:
            storage.resize_(n_bytes)
            whole.data.copy_(self.group.all_gather(x, 1))

        output.register_hook(gather_again)


def check_plain(model: nn.Module) -> None:
    """Raise ValueError for a subclass of GPT, whose mask is not divided here."""
    if type(model) is not GPT:
        raise ValueError(f"model={type(model)} must be GPT itself")


class TensorParallel(nn.Module):
    """This device's part of a GPT, whose matrices are divided among the devices.

    Heads, hidden units and vocabulary entries are divided; norms, positions and the biases after a
    sum are the same on all. With `sequence`, what is between attention and MLP is divided too, by
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
        check_plain(model)
        config, n = model.config, group.size
        sizes = {"n_heads": config.n_heads, "n_kv_heads": config.kv_heads}
        sizes |= {"d_mlp": config.mlp_width, "vocab_size": config.vocab_size}
        for name, size in sizes.items():
            if size % n:
                raise ValueError(f"{name}={size} must be a multiple of the {n} devices")
        if config.dropout:
            raise ValueError(f"dropout={config.dropout} must be 0: masks would differ")
        super().__init__()
        self.config, self.group, self.sequence = config, group, sequence
        model = copy.deepcopy(model)
        self.layout: dict[str, tuple[nn.Parameter, int | None]] = {}
        for name, p in model.named_parameters():
            dim = divided_dim(name)
            if dim is not None:
                p.data = p.data.chunk(group.size, dim)[group.rank].clone()
            # What sees only this device's positions, or heads, has a part of its gradient.
            elif p.requires_grad and (
                sequence or name.endswith(("query_norm.weight", "key_norm.weight"))
            ):
                p.register_hook(group.all_reduce)
            self.layout[name] = p, dim
        self.embedding, self.positions = model.embedding, model.positions
        self.blocks = nn.ModuleList(_divide(b, group, sequence) for b in model.blocks)
        self.final_norm, self.head = model.final_norm, model.head
        self._check = partial(model._check, cache=None)

    def forward(
        self, ids: Int[Tensor, "b s"], targets: Int[Tensor, "b s"]
    ) -> Float[Tensor, ""]:
        """The loss, `next_token_loss` of the whole model, of the same batch on all devices.

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
            end = start + x.shape[1]
            x = self.positions(x, torch.arange(start, end, device=x.device))
        for block in self.blocks:
            x = block(x)
        x = self.final_norm(x)
        x = (gather if self.sequence else copy_to_all)(x, self.group)
        logits = self.head(x, *([table] if self.config.tied else []))
        return vocabulary_loss(logits, targets, self.group)

    def whole(
        self, read: Callable[[nn.Parameter], Tensor] = torch.Tensor.detach
    ) -> dict[str, Tensor]:
        """All weights under the names of `GPT`, or what `read` returns for every parameter."""
        return {
            name: read(p) if dim is None else self.group.all_gather(read(p), dim)
            for name, (p, dim) in self.layout.items()
        }


def divided_dim(name: str) -> int | None:
    """The dimension along which a parameter of a GPT is divided; None if it is replicated."""
    *_, part, kind = name.split(".")
    if part in ("embedding", "head", "query", "key", "value", "up", "gate"):
        return 0  # rows of the table; the map's outputs, and their offsets
    return 1 if part in ("output", "down") and kind == "weight" else None


def _divide(block: Block, group: Group, sequence: bool) -> Block:
    attention, mlp = block.attention, block.mlp
    attention.n_heads //= group.size
    attention.n_kv_heads //= group.size
    biases = attention.output.bias, mlp.down.bias
    attention.output.bias = mlp.down.bias = None
    block.attention = ShardedPart(attention, biases[0], group, sequence)
    block.mlp = ShardedPart(mlp, biases[1], group, sequence)
    return block


def activation_bytes_each(
    config: GPTConfig,
    batch_size: int,
    length: int,
    n_devices: int,
    *,
    sequence: bool = False,
) -> int:
    """The activations of all blocks that each device saves for backward, in float32.

    Tensor parallelism leaves the inputs and the outputs of the norms whole on every device.
    Sequence parallelism divides them too.

    Args:
        batch_size, length: B and S.
        n_devices: P.
        sequence: see `TensorParallel`.

    Raises:
        ValueError: as `activation_bytes` does; for rotary positions or windows, whose
            angles and masks all devices hold; and for RMSNorm.

    Source: Korthikanti et al. (2022), section 4.2, for the method.
    """
    if config.positions == "rotary":
        raise ValueError("positions='rotary' must be another: all hold its angles")
    if set(config.windows) != {None}:
        raise ValueError(f"windows={config.windows} must be (None,)")
    if config.norm != "layer":
        raise ValueError(f"norm={config.norm!r} must be 'layer'")
    saved = activation_bytes(config, batch_size, length)
    outputs_of_norms = 2 * config.n_layers * 4 * batch_size * length * config.d_model
    undivided = 0 if sequence else saved["norms"] + outputs_of_norms
    of_blocks = saved["attention"] + saved["mlp"] + saved["norms"]
    return undivided + (of_blocks - undivided) // n_devices
