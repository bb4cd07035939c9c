"""Keys and values of the past, kept, so that a new token costs one position and not all of them.

A causal model's keys and values at a position depend on nothing after it. Generation can
therefore store them once, and ask only with the newest query:

    output[s] = attend(query[s], key[: s + 1], value[: s + 1])

A block with a window never looks back further than that, so its store is a ring: position s lies
in slot s mod W, over the position that has just left the window. Chapter 8.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from decoder_only.engine.checks import require

__all__ = ["KeyValueCache"]


class KeyValueCache:
    """Room for one layer's keys and values: its size is fixed, and its position is a tensor.

    So a step of decoding has the same shapes every time, and is compiled once.

    Args:
        batch_size: B, sequences that grow side by side.
        n_kv_heads: G, heads of keys and values.
        max_length: positions that there is room for.
        head_dim: K.
        window: W, positions that a query sees; no more than those are kept. None for all.
        padding: how many of the first positions of each row stand for nothing, so that prompts
            of several lengths end together. No query sees them, and each row's own positions are
            counted behind them.
        dtype, device: of the keys and values. Where they are read, they are in the query's.

    Source: Shazeer (2019), on what it costs; notes N; Beltagy et al. (2020) for windows.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        n_kv_heads: int,
        max_length: int,
        head_dim: int,
        window: int | None = None,
        padding: Int[Tensor, "b"] | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
    ) -> None:
        self.window, self.padding = window, padding
        self.length = max_length if window is None else min(window, max_length)
        shape = (batch_size, n_kv_heads, self.length, head_dim)
        self._key = torch.zeros(shape, dtype=dtype, device=device)
        self._value = torch.zeros(shape, dtype=dtype, device=device)
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.is_empty = True

    def __len__(self) -> int:
        """Positions that came so far."""
        return int(self.position)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it takes, filled or not: 2 B G S K numbers."""
        return self._key.nbytes + self._value.nbytes

    def positions(self, n_new: int) -> Int[Tensor, "*b s"]:
        """Where the next tokens stand: the same in all rows, or in each by itself if padded."""
        positions = self._next(n_new)
        if self.padding is None:
            return positions
        return (positions - self.padding[:, None]).clamp(min=0)

    def mask(self, n_new: int) -> Bool[Tensor, "*b s t"] | None:
        """Which of the keys that `append` will give each of the next queries may see.

        Returns:
            See `attention_mask`. None where that is every key up to the query's own.
        """
        query, alone = self._next(n_new), int(n_new == 1)
        in_window = self.window is None or n_new <= self.window
        all_seen = in_window if self.is_empty else alone and self._host_knows
        if self.padding is None and all_seen:
            return None
        key = query
        if not self.is_empty:
            newest = query[:1] + alone - 1  # a lone key is stored, then looked at
            slot = torch.arange(self.length, device=query.device)
            slot = slot[: len(self) + alone] if self._host_knows else slot
            stored = newest - (newest - slot) % self.length
            key = torch.cat([stored, query[alone:]])
        distance = query[:, None] - key
        mask = (distance >= 0) & (key >= 0)  # below 0 is a slot that was never filled
        if self.window is not None:
            mask = mask & (distance < self.window)
        if self.padding is None:
            return mask
        real = (key >= self.padding[:, None])[:, None, None]
        return mask & real | (
            distance == 0
        )  # padding sees itself, or softmax had nothing

    def append(
        self, key: Float[Tensor, "b g s k"], value: Float[Tensor, "b g s k"]
    ) -> list[Float[Tensor, "b g t k"]]:
        """Store the keys and values of the next positions. No gradient flows through the store.

        Returns:
            The keys and the values that queries of these positions may look at.

        Raises:
            ValueError: if there is no room for them, and the host knows without waiting for a
                GPU; there the first positions are overwritten.
        """
        n_new, was_empty = key.shape[2], self.is_empty
        if self.window is None and self._host_knows:
            wanted = f"at most the cache's max_length={self.length}"
            require("positions", len(self) + n_new, lambda n: n <= self.length, wanted)
        pairs, seen = ((self._key, key), (self._value, value)), [key, value]
        if (
            not was_empty and n_new > 1
        ):  # a ring may lose what the first of them still see
            seen = [torch.cat([self._filled(old, new), new], 2) for old, new in pairs]
        if n_new == 1 and self._host_knows:  # the common step, without small tensors
            for old, new in pairs:
                old[:, :, len(self) % self.length] = new[:, :, 0].detach()
        else:
            slots = self._next(n_new)[-self.length :] % self.length
            for old, new in pairs:
                kept = new[:, :, -self.length :].detach().to(old.dtype)
                old.index_copy_(2, slots, kept)
        self.position += n_new
        self.is_empty = False
        if not was_empty and n_new == 1:
            seen = [self._filled(old, new) for old, new in pairs]
        return seen

    def _next(self, n_new: int) -> Tensor:
        return self.position + torch.arange(n_new, device=self.position.device)

    @property
    def _host_knows(self) -> bool:
        """Whether the number of positions can be used as a number; else all slots are read."""
        return self.position.is_cpu and not torch.compiler.is_compiling()

    def _filled(self, store: Tensor, like: Tensor) -> Tensor:
        return (store[:, :, : len(self)] if self._host_knows else store).to(like.dtype)
