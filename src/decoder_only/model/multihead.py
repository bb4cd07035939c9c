"""Multi-head attention: several small attentions side by side, each with its own question.

    query, key, value = x W_query, x W_key, x W_value      split into heads of K dimensions
    output = merge(attend(query, key, value)) W_output

Fewer heads of keys and values than of queries give grouped-query attention (one: multi-query),
which shrinks the cache at generation. Chapter 4.
"""

from functools import partial

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from decoder_only.model.attention import attend, attention_mask
from decoder_only.model.cache import KeyValueCache
from decoder_only.model.embeddings import rotary, rotations
from decoder_only.model.normalization import RMSNorm

__all__ = ["MultiHeadAttention"]


class MultiHeadAttention(nn.Module):
    """Causal self-attention with H heads, or cross-attention to another sequence.

    Args:
        d_model: D, width of the residual stream.
        n_heads: H, heads of queries.
        n_kv_heads: G, heads of keys and values, a divisor of H; H by default.
        head_dim: K, width of a head; D / H by default, which must then divide.
        window: see only that many nearest positions; all by default.
        rotary_base: rotate queries and keys by their position, with this base; None does not.
        qk_norm: normalize queries and keys, so that scores cannot grow without bound.
        norm_eps: what that adds below its root.
        scale: factor on the products of queries and keys; 1 / sqrt(K) by default.
        dropout: probability of dropping an attention weight in training.
        bias: whether the projections have an offset.

    Raises:
        ValueError: for heads that do not divide the width, or share keys and values unevenly.

    Source: Vaswani et al. (2017), section 3.2.2; Shazeer (2019) and Ainslie et al. (2023) for
    shared keys and values; Dehghani et al. (2023) for normalized queries and keys.
    """

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        head_dim: int | None = None,
        window: int | None = None,
        rotary_base: float | None = None,
        qk_norm: bool = False,
        norm_eps: float = 1e-5,
        scale: float | None = None,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        n_kv_heads = n_kv_heads or n_heads
        check_heads(d_model, n_heads, n_kv_heads, head_dim)
        head_dim = head_dim or d_model // n_heads
        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, head_dim
        self.window, self.rotary_base = window, rotary_base
        self.scale, self.dropout = scale, dropout
        self.query = nn.Linear(d_model, n_heads * head_dim, bias=bias)
        self.key = nn.Linear(d_model, n_kv_heads * head_dim, bias=bias)
        self.value = nn.Linear(d_model, n_kv_heads * head_dim, bias=bias)
        self.output = nn.Linear(n_heads * head_dim, d_model, bias=bias)
        norm = partial(RMSNorm, d_model=head_dim, eps=norm_eps)
        self.query_norm = norm() if qk_norm else nn.Identity()
        self.key_norm = norm() if qk_norm else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "b s d"],
        *,
        rotation: Float[Tensor, "2 ... s _"] | None = None,
        mask: Bool[Tensor, "*b s t"] | None = None,
        cache: KeyValueCache | None = None,
        source: Float[Tensor, "b t d"] | None = None,
    ) -> Float[Tensor, "b s d"]:
        """Let every position gather from itself and the positions before it, or from a source.

        Rotation and mask are the same in many blocks, so a model makes them once and passes them
        to all. Alone, the layer makes its own.

        Args:
            x: the residual stream, normalized.
            rotation: what `rotations` gives for the positions of x, which by default are 0 to
                S - 1, or those that follow what the cache holds.
            mask: which keys each query may see; by default all up to its own, in the window.
            cache: keys and values of the positions before the first of x; those of x join them.
            source: another sequence to gather from instead, all of it unless there is a mask; no
                cache then, and no window.
        """
        if cache is not None and rotation is None:
            rotation = self.rotation(x, cache.position.new)
        query, key, value = self.project(x, rotation=rotation, source=source)
        length = x.shape[1]
        is_banded = self.window is not None and self.window < length
        if cache is not None:
            mask = cache.mask() if mask is None else mask
            key, value = cache.append(key, value)
        elif mask is None and source is None and is_banded:
            mask = attention_mask(length, length, window=self.window, device=x.device)
        settings = {"scale": self.scale, "dropout": self.dropout * self.training}
        heads = attend(query, key, value, mask=mask, causal=source is None, **settings)
        return self.output(rearrange(heads, "b h s k -> b s (h k)"))

    def project(
        self,
        x: Float[Tensor, "b s d"],
        *,
        rotation: Float[Tensor, "2 ... s _"] | None = None,
        source: Float[Tensor, "b t d"] | None = None,
    ) -> tuple[Float[Tensor, "b _ _ k"], ...]:
        """Query (b, h, s, k), key and value (b, g, s, k), normalized and rotated as configured.

        A step of its own, so that a figure can pass them to `attention_weights`.

        Args:
            x, source: see `forward`; with a source keys and values are its own, (b, g, t, k).
            rotation: what `rotations` gives for the positions of x, 0 to S - 1 by default.
        """
        source = x if source is None else source
        query = rearrange(self.query(x), "b s (h k) -> b h s k", h=self.n_heads)
        key = rearrange(self.key(source), "b t (g k) -> b g t k", g=self.n_kv_heads)
        value = rearrange(self.value(source), "b t (g k) -> b g t k", g=self.n_kv_heads)
        query, key = self.query_norm(query), self.key_norm(key)
        if self.rotary_base is not None:
            query = rotary(query, rotation, base=self.rotary_base)
            key = rotary(key, rotation, base=self.rotary_base)
        return query, key, value

    def rotation(self, x: Tensor, positions: Tensor | None = None) -> Tensor | None:
        """What `rotations` gives for the positions of x, 0 to S - 1 by default; None if unused."""
        if self.rotary_base is None:
            return None
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        settings = {"head_dim": self.head_dim, "base": self.rotary_base}
        return rotations(positions, **settings, dtype=x.dtype)


def check_heads(
    d_model: int, n_heads: int, n_kv_heads: int, head_dim: int | None
) -> None:
    """Refuse heads that do not divide the width, or share keys and values unevenly.

    Args:
        d_model, n_heads, n_kv_heads: see `MultiHeadAttention`.
        head_dim: None for d_model / n_heads.

    Raises:
        ValueError: they cannot work.
    """
    if head_dim is None and d_model % n_heads:
        raise ValueError(
            f"{d_model=} must be a multiple of {n_heads=}, or give head_dim"
        )
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads=} must be a divisor of {n_heads=}")
