"""The memory of tensors: which of those that a computation allocated are alive when it is over.

After a forward pass these are the tensors saved for backward. They are counted by what was
allocated and has not been freed, whatever each operator saves. Used by chapter 13.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Allocations(TorchDispatchMode):
    """Within this context, every new storage is recorded by a weak reference."""

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
            if ref.cdata not in given:  # not a view of an argument
                self._seen.setdefault(ref.cdata, ref)
        return made

    @property
    def alive(self) -> int:
        """Bytes of what was allocated and still exists."""
        storages = map(torch.UntypedStorage._new_with_weak_ptr, self._seen)
        return sum(storage.nbytes() for storage in storages if storage is not None)


def held_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of the storages of some tensors; a storage of several tensors counts once."""
    storages = [x.untyped_storage() for x in tensors]
    return sum({each.data_ptr(): each.nbytes() for each in storages}.values())


def _storages(things: Any) -> list[StorageWeakRef]:
    tensors = (x for x in tree_leaves(things) if isinstance(x, Tensor))
    return [StorageWeakRef(x.untyped_storage()) for x in tensors]
