"""Multi-head attention: several small attentions side by side, each with its own question.

    query, key, value = x W_query, x W_key, x W_value      split into heads of K dimensions
    output = merge(attend(query, key, value)) W_output

Fewer heads of keys and values than of queries give grouped-query attention (one: multi-query),
which shrinks the cache at generation. Chapter 4.
"""

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from decoder_only.attention import attend
from decoder_only.cache import KeyValueCache
from decoder_only.embeddings import rotary
from decoder_only.normalization import RMSNorm

__all__ = ["MultiHeadAttention"]


class MultiHeadAttention(nn.Module):
    """Causal self-attention with H heads.

    Args:
        d_model: D, width of the residual stream.
        n_heads: H, heads of queries.
        n_kv_heads: G, heads of keys and values, a divisor of H; H by default.
        head_dim: K, width of a head; D / H by default, which must then divide.
        window: see only that many nearest positions; all by default.
        rotary_base: rotate queries and keys by their position, with this base; None does not.
        qk_norm: normalize queries and keys, so that scores cannot grow without bound.
        scale: factor on the products of queries and keys; 1 / sqrt(K) by default.
        dropout: probability of dropping an attention weight in training.
        bias: whether the projections have an offset.

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
        scale: float | None = None,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if n_heads < 1:
            raise ValueError(
                f"n_heads={n_heads} cannot work: there must be at least one head"
            )
        if head_dim is None and d_model % n_heads:
            raise ValueError(
                f"d_model={d_model} does not divide into n_heads={n_heads} heads; "
                "change one of them, or give head_dim"
            )
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        if n_kv_heads < 1 or n_heads % n_kv_heads:
            raise ValueError(f"n_kv_heads={n_kv_heads} must divide n_heads={n_heads}")
        head_dim = d_model // n_heads if head_dim is None else head_dim

        if rotary_base is not None and head_dim % 2:
            raise ValueError(
                f"head_dim={head_dim} cannot work with rotary positions, which turn dimensions "
                "in pairs; make it even"
            )
        if window is not None and window < 1:
            raise ValueError(
                f"window={window} cannot work: a query must see at least itself; use 1 or more"
            )

        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, head_dim
        self.window, self.rotary_base, self.dropout = window, rotary_base, dropout
        self.scale = scale
        self.query = nn.Linear(d_model, n_heads * head_dim, bias=bias)
        self.key = nn.Linear(d_model, n_kv_heads * head_dim, bias=bias)
        self.value = nn.Linear(d_model, n_kv_heads * head_dim, bias=bias)
        self.output = nn.Linear(n_heads * head_dim, d_model, bias=bias)
        self.query_norm = RMSNorm(d_model=head_dim) if qk_norm else nn.Identity()
        self.key_norm = RMSNorm(d_model=head_dim) if qk_norm else nn.Identity()

    def forward(
        self, x: Float[Tensor, "b s d"], cache: KeyValueCache | None = None
    ) -> Float[Tensor, "b s d"]:
        """Let every position gather from itself and the positions before it.

        Args:
            x: the residual stream, normalized.
            cache: keys and values of the positions before the first of x; those of x join them.
        """
        query, key, value = self.project(x, first=len(cache) if cache else 0)
        if cache is not None:
            key, value = cache.append(key, value)
        dropout = self.dropout if self.training else 0.0
        heads = attend(
            query,
            key,
            value,
            causal=True,
            window=self.window,
            scale=self.scale,
            dropout=dropout,
        )
        return self.output(rearrange(heads, "b h s k -> b s (h k)"))

    def project(
        self, x: Float[Tensor, "b s d"], *, first: int = 0
    ) -> tuple[
        Float[Tensor, "b h s k"],
        Float[Tensor, "b g s k"],
        Float[Tensor, "b g s k"],
    ]:
        """Queries, keys and values, split into heads, normalized and rotated as configured.

        A step of its own, so that a figure can hand them to `attention_weights`. `first` is the
        position of the first of x.
        """
        query = rearrange(self.query(x), "b s (h k) -> b h s k", h=self.n_heads)
        key = rearrange(self.key(x), "b s (g k) -> b g s k", g=self.n_kv_heads)
        value = rearrange(self.value(x), "b s (g k) -> b g s k", g=self.n_kv_heads)
        query, key = self.query_norm(query), self.key_norm(key)
        if self.rotary_base is not None:
            query = rotary(query, base=self.rotary_base, first=first)
            key = rotary(key, base=self.rotary_base, first=first)
        return query, key, value
