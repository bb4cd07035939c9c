"""Attention: every position gathers what it needs from the positions that it may see.

A query asks, keys answer, values are what is passed on:

    score[s, t] = query[s] . key[t] / sqrt(K)
    weight[s, t] = softmax over t of score[s, t], zero where s may not see t
    output[s] = sum_t weight[s, t] value[t]

`attend_explicitly` is these three lines. `attend` computes the same by PyTorch's fused kernel,
which never stores the weights. Chapter 3 derives both, and the test-suite ties them together.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor


def attention_mask(
    n_queries: int,
    n_keys: int,
    *,
    causal: bool = True,
    window: int | None = None,
    padding: Bool[Tensor, "b t"] | None = None,
    device: torch.device | None = None,
) -> Bool[Tensor, "*b s t"]:
    """Which keys each query may see: True where attention is allowed.

    The last query is at the last key's position, so a handful of new queries can look back
    over a longer past.

    Args:
        n_queries: S, the number of queries.
        n_keys: T, the number of keys; at least S if causal.
        causal: a query sees no later position.
        window: a query sees only the `window` nearest positions, itself included.
        padding: True where a key is a real token; shape (b, t).

    Returns:
        Shape (s, t), or (b, 1, s, t) when there is padding: the 1 stands for every head.

    Raises:
        ValueError: if the window is not positive, or if causal queries outnumber the keys.
    """
    if window is not None and window < 1:
        raise ValueError(f"{window=} must be 1 or more, or None")
    if causal and n_queries > n_keys:
        raise ValueError(f"causal {n_queries=} must be at most {n_keys=}")
    query_position = torch.arange(n_keys - n_queries, n_keys, device=device)[:, None]
    distance = query_position - torch.arange(n_keys, device=device)
    mask = distance >= (0 if causal else -n_queries)
    if window is not None:
        mask = mask & (distance.abs() < window)
    return mask if padding is None else mask & padding[:, None, None, :]


def attention_weights(
    query: Float[Tensor, "b h s k"],
    key: Float[Tensor, "b g t k"],
    *,
    mask: Bool[Tensor, "*b s t"] | None = None,
    causal: bool = True,
    scale: float | None = None,
) -> Float[Tensor, "b h s t"]:
    """The weights with which each query mixes the values.

    Rows are non-negative and sum to one, except where a query may see no key at all:
    such a row is all zeros, never NaN, and the query's output is zero.

    Args:
        query: H heads of queries.
        key: G heads of keys; G divides H, and each is shared by H / G heads of queries.
        mask: True where a query may see a key, see `attention_mask`.
        causal: without a mask, whether a query sees no later position, or else
            everything.
        scale: factor on the dot products, 1 / sqrt(K) by default, which gives scores of
            unit variance if queries and keys have independent components of unit
            variance.

    Source: Vaswani et al. (2017), equation 1; grouped queries: Ainslie et al. (2023).
    """
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    # In float32 at least, as in the kernel: products overflow float16 unscaled.
    exact = torch.promote_types(query.dtype, torch.float32)
    scores = scale * torch.einsum("bhsk,bhtk->bhst", query.to(exact), key.to(exact))
    if mask is None:
        mask = attention_mask(*scores.shape[-2:], causal=causal, device=query.device)
    # A softmax over no visible key is 0/0: let such a row see, then void it.
    blind = ~mask.any(dim=-1, keepdim=True)
    weights = scores.masked_fill(~(mask | blind), -math.inf).softmax(dim=-1)
    return weights.masked_fill(blind, 0.0).to(query.dtype)


def attend_explicitly(
    query: Float[Tensor, "b h s k"],
    key: Float[Tensor, "b g t k"],
    value: Float[Tensor, "b g t k"],
    *,
    mask: Bool[Tensor, "*b s t"] | None = None,
    causal: bool = True,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "b h s k"]:
    """Mix the values by the attention weights, step by step.

    Args:
        value: what each key passes on.
        dropout: probability of dropping a weight; the others grow by 1 / (1 - dropout).
        others: see `attention_weights`.
    """
    weights = attention_weights(query, key, mask=mask, causal=causal, scale=scale)
    weights = F.dropout(weights, p=dropout)
    value = value.repeat_interleave(query.shape[1] // value.shape[1], dim=1)
    return torch.einsum("bhst,bhtk->bhsk", weights, value)


def attend(
    query: Float[Tensor, "b h s k"],
    key: Float[Tensor, "b g t k"],
    value: Float[Tensor, "b g t k"],
    *,
    mask: Bool[Tensor, "*b s t"] | None = None,
    causal: bool = True,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "b h s k"]:
    """The same as `attend_explicitly`, by PyTorch's fused kernel.

    The weights are computed tile by tile and never stored (but with dropout on a CPU),
    so memory grows with S rather than with S squared. A mask is S by S itself, once for
    all heads, and what it hides is computed all the same: a window saves no time. A
    query that may see no key gives zeros.

    Source: Dao et al. (2022), through torch.nn.functional.scaled_dot_product_attention.
    """
    n_queries, n_keys = query.shape[-2], key.shape[-2]
    # The kernel's own triangle is square; one last query sees every key.
    if mask is None and causal and 1 < n_queries != n_keys:
        mask = attention_mask(n_queries, n_keys, device=query.device)
    n_shared = query.shape[1] // key.shape[1]
    if n_shared > 1 and mask is not None and not query.is_cpu:
        # A GPU's fused kernels take shared keys or a mask, and for both the weights are
        # stored.
        key, value = (x.repeat_interleave(n_shared, dim=1) for x in (key, value))
    return F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        is_causal=causal and mask is None and n_queries == n_keys,
        scale=scale,
        dropout_p=dropout,
        enable_gqa=query.shape[1] != key.shape[1],
    )
