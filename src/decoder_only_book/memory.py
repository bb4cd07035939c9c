"""What tensors hold: which of those that a computation made are alive when it is over.

A forward pass leaves behind what its backward pass will need. Counted here by what was allocated
and has not been freed, so that no one has to know what each operator keeps. Used by chapter 13.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Allocations(TorchDispatchMode):
    """Within it, every new piece of memory is noted, and none is kept alive by that."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[int, StorageWeakRef] = {}

    def __torch_dispatch__(
        self,
        function: Callable[..., Any],
        types: Any,
        arguments: tuple = (),
        settings: dict[str, Any] | None = None,
    ) -> Any:
        made = function(*arguments, **(settings or {}))
        given = {ref.cdata for ref in _storages(arguments)}
        for ref in _storages(made):
            if ref.cdata not in given:  # no view of what there was
                self._seen.setdefault(ref.cdata, ref)
        return made

    @property
    def alive(self) -> int:
        """Bytes of what was allocated and still exists."""
        found = map(torch.UntypedStorage._new_with_weak_ptr, self._seen)
        return sum(storage.nbytes() for storage in found if storage is not None)


def held_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of the memory behind some tensors; what several of them share counts once."""
    storages = [x.untyped_storage() for x in tensors]
    return sum({each.data_ptr(): each.nbytes() for each in storages}.values())


def _storages(things: Any) -> list[StorageWeakRef]:
    tensors = (x for x in tree_leaves(things) if isinstance(x, Tensor))
    return [StorageWeakRef(x.untyped_storage()) for x in tensors]
