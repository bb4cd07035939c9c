"""The sequence, divided: ring attention.

Chapter 13.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from decoder_only.variants.parallelism.group import Group


def places(length: int, n_devices: int, *, balanced: bool = False) -> list[Tensor]:
    """Which positions each device holds: neighbours, or, balanced, early ones and late ones.

    A causal query at position s sees s + 1 keys, so that the last P-th of a sequence has more to
    do than the first. Of 2 P pieces, balanced ("zigzag"), device p takes piece p from both ends.

    Raises:
        ValueError: for a length that does not divide.

    Source: Liu et al. (2023) for the ring; Brandon et al. (2023) for another balance.
    """
    n_pieces = 2 * n_devices if balanced else n_devices
    if length < 1 or length % n_pieces:
        raise ValueError(f"{length=} must be a multiple of {n_pieces}")
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

    Keys and values travel round the ring. Each device adds to its queries' outputs what they
    gather from the piece that is there: it must remember the largest score, the sum of powers and
    the sum of values. No device ever holds the whole sequence. In backward the pieces go round
    again, and their gradients with them. Tiles of scores that the mask would empty are not
    computed. Half precision is added up, and sent, in float32.

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
                scores = scale * query[..., here, :] @ k.mT
                scores = scores.masked_fill(hidden, -math.inf)
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

    And what each query does not see of it: the keys of later positions.
    """
    size = len(where[rank][0])
    for i, queries in enumerate(where[rank]):
        for j, keys in enumerate(where[rank - step]):
            if keys[0] <= queries[-1]:
                here, there = (slice(n * size, (n + 1) * size) for n in (i, j))
                yield here, there, queries[:, None] < keys
