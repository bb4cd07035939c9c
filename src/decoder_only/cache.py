"""Keys and values of the past, kept, so that a new token costs one position and not all of them.

A causal model's keys and values at a position depend on nothing after it. Generation can
therefore store them once, and ask only with the newest query:

    output[s] = attend(query[s], key[: s + 1], value[: s + 1])

Chapter 8.
"""

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["KeyValueCache"]


class KeyValueCache:
    """Room for one layer's keys and values, filled from the front.

    Args:
        batch_size: B, sequences that grow side by side.
        n_kv_heads: G, heads of keys and values.
        max_length: positions that there is room for.
        head_dim: K.
        dtype, device: of the keys and values.

    Source: Shazeer (2019), on what it costs; notes N.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        n_kv_heads: int,
        max_length: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
    ) -> None:
        shape = (batch_size, n_kv_heads, max_length, head_dim)
        self._key = torch.empty(shape, dtype=dtype, device=device)
        self._value = torch.empty(shape, dtype=dtype, device=device)
        self._length = 0

    def __len__(self) -> int:
        """Positions stored so far."""
        return self._length

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it takes, filled or not: 2 B G S K numbers."""
        return self._key.nbytes + self._value.nbytes

    def append(
        self, key: Float[Tensor, "b g s k"], value: Float[Tensor, "b g s k"]
    ) -> tuple[Float[Tensor, "b g t k"], Float[Tensor, "b g t k"]]:
        """Store the keys and values of the next positions. No gradient flows through the store.

        Returns:
            Those of all positions so far, as views into the cache.

        Raises:
            ValueError: if there is no room for them, or their shape is another. Nothing is
                stored then.
        """
        room = self._key.shape
        end = self._length + key.shape[2]
        if key.shape[:2] != room[:2] or key.shape[3] != room[3]:
            raise ValueError(
                f"keys of shape {tuple(key.shape)} do not fit a cache of shape {tuple(room)}; "
                "only the number of positions may differ"
            )
        if end > room[2]:
            raise ValueError(
                f"{end} positions do not fit a cache of {room[2]}; make a longer one, or "
                "begin anew with the last positions"
            )
        self._key[:, :, self._length : end] = key.detach()
        self._value[:, :, self._length : end] = value.detach()
        self._length = end
        return self._key[:, :, :end], self._value[:, :, :end]
