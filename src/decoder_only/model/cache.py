"""Keys and values of the past, kept, so that a new token costs one position and not all of them.

A causal model's keys and values at a position depend on nothing after it. Generation can
therefore store them once, and ask only with the newest query:

    output[s] = attend(query[s], key[: s + 1], value[: s + 1])

A block with a window never looks back further than that, so its cache is a ring: position s is
in slot s mod W, over the position that has just left the window. Chapter 16.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class CachePosition:
    """How far a text has come: one count, which the caches of all blocks share.

    It is a tensor, so that each step of decoding is the same graph. On the CPU, where nothing is
    compiled, the host reads it once a step, and blocks look only at slots that are filled.

    Tokens are added by `begin`, an `append` to the cache of each block, and `advance`. Until then
    nothing is lost: what fails between can be tried again.

    Args:
        max_length: positions at most; None for any number, of which rings alone have room.
        padding: how many of the first positions of each row stand for nothing, so that prompts
            of several lengths end together. No query sees them, and each row's own positions are
            counted after them.
        device: where the model is.

    Attributes:
        new: the positions of the tokens that are being added.
        is_empty: whether none came before those.
        n_stored: positions that are read from the cache, which are those that came before, and a
            single new one, which is stored first. None on a GPU, where to read the count would
            mean to wait, and inside a compiled step: then all slots are read, under a mask.
        late: what several new tokens store only after all blocks have read: the tensor, its
            slots, and what goes there.
    """

    def __init__(
        self,
        *,
        max_length: int | None = None,
        padding: Int[Tensor, "b"] | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.max_length, self.padding = max_length, padding
        self.count = torch.zeros(1, dtype=torch.int64, device=device)
        self.is_empty, self._counted = True, 0

    def begin(self, n_new: int) -> Int[Tensor, "*b s"]:
        """The positions of the next tokens: the same in all rows, or each row's own if padded.

        Raises:
            ValueError: there is no room for them, as far as the host knows without waiting for a
                GPU, which is always except after steps that were compiled.
        """
        self.n_stored, self.late = None, []
        if not torch.compiler.is_compiling():
            n_before = int(self.count) if self.count.is_cpu else self._counted
            positions, most = n_before + n_new, self.max_length or math.inf
            if positions > most:
                limit = f"the cache's max_length={most}"
                raise ValueError(f"{positions=} must be at most {limit}")
            self.n_stored = n_before + (n_new == 1) if self.count.is_cpu else None
        self.new = self.count + torch.arange(n_new, device=self.count.device)
        rows = self.new if self.padding is None else self.new - self.padding[:, None]
        return rows.clamp(min=0)

    def advance(self) -> None:
        """Count the new tokens, once all blocks have stored them."""
        for stored, slots, new in self.late:
            stored.index_copy_(2, slots, new)
        self.late, self.is_empty = [], False
        self.count += len(self.new)
        if not torch.compiler.is_compiling():
            self._counted += len(self.new)


class KeyValueCache:
    """Room for one layer's keys and values, of a fixed size.

    Args:
        batch_size: B, sequences that grow side by side.
        n_kv_heads: G, heads of keys and values.
        head_dim: K.
        position: how far the text has come, and may come; they are where it is.
        window: W, positions that a query sees; no more than those are kept. None for all.
        dtype: of the keys and values. Where they are read, they are in the query's.

    Source: Shazeer (2019), on what it costs; Goon (2023); Beltagy et al. (2020) for windows.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        n_kv_heads: int,
        head_dim: int,
        position: CachePosition,
        window: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        most = position.max_length
        # A window that the text cannot outgrow hides nothing, and needs no ring.
        is_ring = window is not None and (most is None or window < most)
        self.position, self.window = position, window if is_ring else None
        self.batch_size, self.length = batch_size, window if is_ring else most
        shape = (batch_size, n_kv_heads, self.length, head_dim)
        self._key = torch.zeros(shape, dtype=dtype, device=position.count.device)
        self._value = torch.zeros_like(self._key)

    def __len__(self) -> int:
        """Positions that came so far."""
        return int(self.position.count)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it takes, filled or not: 2 B G S K numbers."""
        return self._key.nbytes + self._value.nbytes

    def mask(self) -> Bool[Tensor, "*b s t"] | None:
        """Which of the keys that `append` gives each of the new queries may see.

        Returns:
            See `attention_mask`. None where that is every key up to the query's own.
        """
        at, query = self.position, self.position.new
        in_window = self.window is None or len(query) <= self.window
        is_step = len(query) == 1 and at.n_stored is not None
        # A first piece within the window, or one token after those that are read, sees all keys.
        if at.padding is None and (in_window if at.is_empty else is_step):
            return None
        if at.is_empty:
            key = query
        elif len(query) == 1:  # stored before it is read
            key = positions_in_ring(query, self.length)[: at.n_stored]
        else:
            before = positions_in_ring(at.count - 1, self.length)[: at.n_stored]
            key = torch.cat([before, query])
        distance = query[:, None] - key
        mask = (distance >= 0) & (key >= 0)  # below 0 is a slot that was never filled
        if self.window is not None:
            mask = mask & (distance < self.window)
        if at.padding is None:
            return mask
        # Padding sees itself, or softmax had nothing.
        is_real = (key >= at.padding[:, None])[:, None, None]
        return mask & is_real | (distance == 0)

    def append(
        self, key: Float[Tensor, "b g s k"], value: Float[Tensor, "b g s k"]
    ) -> list[Float[Tensor, "b g t k"]]:
        """Store the keys and values of the new positions. No gradient flows through the cache.

        Returns:
            The keys and the values that queries of these positions may look at.
        """
        return [self._keep(self._key, key), self._keep(self._value, value)]

    def _keep(self, stored: Tensor, new: Tensor) -> Tensor:
        at, slots, n = self.position, self.position.new, self.length
        last = new.detach().to(stored.dtype)
        if self.window is not None:  # a ring has room for the last of them
            slots, last = slots[-n:] % n, last[:, :, -n:]
        if at.is_empty or new.shape[2] == 1:
            stored.index_copy_(2, slots, last)
            return new if at.is_empty else stored[:, :, : at.n_stored].to(new.dtype)
        # Later: in a ring they replace what is needed if these tokens have to be tried again.
        at.late.append((stored, slots, last))
        return torch.cat([stored[:, :, : at.n_stored].to(new.dtype), new], dim=2)


def positions_in_ring(newest: Int[Tensor, "1"], length: int) -> Int[Tensor, "t"]:
    """Which position is in each slot of a ring after `newest` was stored.

    Position s is in slot s mod length. In a ring of four slots:

        newest     slot 0   1   2   3
             1          0   1  -2  -1      a number below 0: the slot was never filled
             3          0   1   2   3      full
             4          4   1   2   3      position 4 has replaced position 0
             6          4   5   6   3

    Args:
        newest: the last position that was stored.
        length: slots; a cache without a window is a ring that is never filled twice.
    """
    slot = torch.arange(length, device=newest.device)
    return newest - (newest - slot) % length
