"""Clipping by the norm of a gradient of which no device has all.

    norm = sqrt(sum over devices of the squares of shares + squares of what all hold, once)

Chapter 13.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from decoder_only.variants.parallelism.group import Group


def clip_shares(
    shares: Iterable[nn.Parameter],
    group: Group,
    *,
    max_norm: float,
    copies: Iterable[nn.Parameter] = (),
) -> Tensor:
    """Scale the gradients on all devices alike, so that their common norm is at most `max_norm`.

    Args:
        shares: parameters of which every device has another part.
        group: the devices.
        max_norm: the largest norm that is left as it is.
        copies: parameters that all devices hold alike, with equal gradients. They count once.

    Returns:
        The norm before, the same on all devices as it would be on one.
    """
    shares = [p.grad for p in shares if p.grad is not None]
    copies = [p.grad for p in copies if p.grad is not None]
    like = [*shares, *copies][0]
    squares = like.new_zeros(1) + sum(g.square().sum() for g in shares)
    squares = group.all_reduce(squares) + sum(g.square().sum() for g in copies)
    norm = squares.sqrt()[0]
    factor = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    for gradient in (*shares, *copies):
        gradient.mul_(factor)
    return norm
