"""Other ways to sum than around one ring: up and down a tree, and machine by machine.

    ring         2 (P - 1) messages wait for each other     2 (P - 1)/P of the tensor from each
    tree         2 log2 P                                    log2 P times the tensor, at most
    hierarchy    2 (m - 1) inside, 2 (K - 1) across          2 (K - 1)/K of an m-th by each card

for P devices, or K machines of m. Chapter 13.
"""

import torch.nn.functional as F
from torch import Tensor

from decoder_only.variants.parallelism.group import Group


def tree_all_reduce(x: Tensor, group: Group) -> Tensor:
    """The sum of all tensors: pairs are summed, then pairs of pairs, and the sum comes back down.

    The tensor is sent whole. Libraries cut it in pieces that follow each other, and use two trees
    so that no device only listens.

    Source: Thakur et al. (2005) for trees and rings; Sanders et al. (2009) for two of them.
    """
    reach = 1
    while reach < group.size:
        if group.rank % (2 * reach) == reach:
            group.send(x, group.rank - reach, name="tree")()
        elif group.rank % (2 * reach) == 0 and group.rank + reach < group.size:
            x = x + group.receive(x, group.rank + reach)
        reach *= 2
    while reach > 1:
        reach //= 2
        if group.rank % (2 * reach) == reach:
            x = group.receive(x, group.rank - reach)
        elif group.rank % (2 * reach) == 0 and group.rank + reach < group.size:
            group.send(x, group.rank + reach, name="tree")()
    return x


def hierarchical_all_reduce(x: Tensor, machine: Group, across: Group) -> Tensor:
    """The sum of all tensors, of which machines exchange only what their devices have summed.

    A reduce-scatter inside each machine, an all-reduce of each share across machines, and an
    all-gather inside. So the devices of a machine send different shares, by all its cards at once.

    Args:
        x: this device's tensor.
        machine, across: `group.split(m)` for machines of m devices.
    """
    flat = F.pad(x.flatten(), (0, -x.numel() % machine.size))
    share = across.all_reduce(machine.reduce_scatter(flat))
    return machine.all_gather(share)[: x.numel()].view(x.shape)
