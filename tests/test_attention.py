"""Attention: masks, weights, and the two paths."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from ladder import PRECISIONS, compare, normal, results

from decoder_only.model import attention
from decoder_only.model.attention import attention_mask

B, H, G, S, T, K = 2, 6, 3, 5, 7, 4


def ruled(function):
    """With the mask that the rules give, where causality alone does not give it."""

    def call(query, key, *value, causal=True, window=None, padding=None, **options):
        rules = {"causal": causal, "window": window, "padding": padding}
        if window is None and padding is None:
            return function(query, key, *value, causal=causal, **options)
        mask = attention_mask(query.shape[2], key.shape[2], **rules)
        return function(query, key, *value, mask=mask, **options)

    return call


attend, attend_explicitly = ruled(attention.attend), ruled(attention.attend_explicitly)
attention_weights = ruled(attention.attention_weights)
every_precision = pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
both_paths = pytest.mark.parametrize("path", [attend, attend_explicitly])

# The second sequence is padded on the left, so that its first causal queries see nothing.
PADDING = torch.ones(B, T, dtype=torch.bool)
PADDING[1, :3] = False

CASES = {
    "causal": {},
    "not causal": {"causal": False},
    "window": {"window": 3},
    "window, not causal": {"window": 2, "causal": False},
    "window of one": {"window": 1},
    "window beyond the length": {"window": 50},
    "padding": {"padding": PADDING},
    "padding, not causal": {"padding": PADDING, "causal": False},
    "padding and window": {"padding": PADDING, "window": 3},
    "scale": {"scale": 0.3},
    "scale, not causal": {"scale": 0.3, "causal": False},
}


def make(
    n_queries: int = T, *, n_kv_heads: int = H, dtype=torch.float64, seed: int = 0
):
    return (
        normal(B, H, n_queries, K, seed=seed, dtype=dtype),
        normal(B, n_kv_heads, T, K, seed=seed + 1, dtype=dtype),
        normal(B, n_kv_heads, T, K, seed=seed + 2, dtype=dtype),
    )


def mask_by_definition(
    n_queries: int, n_keys: int, *, causal=True, window=None, padding=None
) -> torch.Tensor:
    """Entry by entry, straight from the words."""
    mask = torch.zeros(
        1 if padding is None else len(padding), 1, n_queries, n_keys
    ).bool()
    for row in range(mask.shape[0]):
        for s in range(n_queries):
            for t in range(n_keys):
                ahead = t - (
                    n_keys - n_queries + s
                )  # the last query stands at the last key
                mask[row, 0, s, t] = (
                    (ahead <= 0 or not causal)
                    and (window is None or -window < ahead < window)
                    and (padding is None or bool(padding[row, t]))
                )
    return mask if padding is not None else mask[0, 0]


# -------------------------------------------------------------------------------------------- masks


def test_masks_by_hand():
    def picture(mask: torch.Tensor) -> list[str]:
        return ["".join(".x"[int(seen)] for seen in row) for row in mask]

    assert picture(attention_mask(3, 3)) == ["x..", "xx.", "xxx"]
    assert picture(attention_mask(2, 4)) == ["xxx.", "xxxx"]
    assert picture(attention_mask(4, 4, window=2)) == ["x...", "xx..", ".xx.", "..xx"]
    assert picture(attention_mask(3, 3, causal=False, window=2)) == [
        "xx.",
        "xxx",
        ".xx",
    ]
    padding = torch.tensor([[True, True, False], [False, True, True]])
    padded = attention_mask(3, 3, padding=padding)
    assert padded.shape == (2, 1, 3, 3)
    assert picture(padded[0, 0]) == ["x..", "xx.", "xx."]
    assert picture(padded[1, 0]) == ["...", ".x.", ".xx"]


@given(
    st.integers(1, 6), st.integers(-5, 4), st.booleans(), st.integers(0, 8), st.data()
)
def test_masks_follow_the_definition(n_queries, n_more_keys, causal, window, data):
    window = window or None
    # Only where nothing is causal may the queries outnumber the keys.
    n_keys = max(1, n_queries + (abs(n_more_keys) if causal else n_more_keys))
    rows = st.lists(st.booleans(), min_size=n_keys, max_size=n_keys)
    padding = data.draw(
        st.none() | st.lists(rows, min_size=2, max_size=2).map(torch.tensor)
    )
    options = {"causal": causal, "window": window, "padding": padding}
    expected = mask_by_definition(n_queries, n_keys, **options)
    assert torch.equal(attention_mask(n_queries, n_keys, **options), expected)


@pytest.mark.parametrize("window", [0, -1])
def test_a_window_must_hold_the_query_itself(window):
    message = f"window={window} must be 1 or more"
    with pytest.raises(ValueError, match=message):
        attention_mask(3, 3, window=window)


@both_paths
def test_causal_queries_cannot_outnumber_the_keys(path):
    with pytest.raises(ValueError, match=r"n_queries=8 must be at most n_keys=7"):
        path(*make(T + 1))
    assert path(*make(T + 1), causal=False).shape == (B, H, T + 1, K)


# ------------------------------------------------------------------------------------------ weights


@both_paths
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_both_paths_hold_in_half_precision(path, dtype):
    """Products of 1,600 in 64 dimensions are more than float16 can hold.

    They are whole numbers, which float32 adds exactly in any order: scores of some 1,500, that
    differ by about 1, are the same on every processor. What is rounded to the format is each
    weight, or what stands for it before it is divided, their sum, the sum of the values, and the
    result: half an epsilon each.
    """
    query, key = torch.full((2, 1, 2, 5, 64), 40.0, dtype=torch.float64)
    query[..., :5] = (64 * normal(1, 2, 5, 5, seed=0, grad=False)).round()
    key[..., :5] += torch.eye(5)
    exact = attention_weights(query, key, scale=1 / 64)
    assert (query @ key.mT).min() > torch.finfo(torch.float16).max
    value = normal(1, 2, 5, 64, seed=2, grad=False).to(dtype)
    query, key = query.to(dtype), key.to(dtype)
    assert attention_weights(query, key, scale=1 / 64).dtype == dtype
    found = path(query, key, value, scale=1 / 64)
    assert found.dtype == dtype
    value, info = value.double(), torch.finfo(dtype)
    bound = 4 * info.eps / 2 * (exact @ value.abs())
    # Of weights that are next to nothing the last bits are lost.
    bound += info.smallest_normal * info.eps * value.abs().sum(-2, keepdim=True)
    ratio = (found.double() - exact @ value).abs() / bound
    assert ratio.max() <= 1


def test_weights_by_hand():
    # One dimension, scale 1: scores 0 and ln 3, so the second query gives them 1/4 and 3/4.
    query = torch.tensor([1.0, 1.0]).view(1, 1, 2, 1)
    key = torch.tensor([0.0, math.log(3)]).view(1, 1, 2, 1)
    value = torch.tensor([8.0, 4.0]).view(1, 1, 2, 1)
    torch.testing.assert_close(
        attention_weights(query, key)[0, 0], torch.tensor([[1.0, 0.0], [0.25, 0.75]])
    )
    for path in (attend, attend_explicitly):
        torch.testing.assert_close(
            path(query, key, value).flatten(), torch.tensor([8.0, 5.0])
        )


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_weights_are_a_distribution_over_what_is_seen(options):
    query, key, _ = make(n_kv_heads=G)
    weights = attention_weights(query, key, **options)
    assert weights.shape == (B, H, T, T)
    options = {name: value for name, value in options.items() if name != "scale"}
    mask = attention_mask(T, T, **options).expand_as(weights)
    assert (weights[mask] > 0).all()
    assert (weights[~mask] == 0).all()
    torch.testing.assert_close(weights.sum(-1), mask.any(-1).double())


def test_default_scale_keeps_unit_variance():
    query = normal(1, 1, 300, 64, seed=0, grad=False)
    key = normal(1, 1, 300, 64, seed=1, grad=False)
    logs = attention_weights(query, key, causal=False).log()
    # Up to a constant for each query the logarithms of the weights are the scores.
    assert logs.var(dim=-1).mean().item() == pytest.approx(1, rel=0.05)


# ---------------------------------------------------------------------------------------- two paths


@every_precision
@pytest.mark.parametrize("n_kv_heads", [H, G, 1])
@pytest.mark.parametrize("n_queries", [T, S, 2, 1])
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_attend_equals_attend_explicitly_and_pytorch(
    options, n_queries, n_kv_heads, dtype
):
    """Also with grouped heads, and with fewer queries than keys as when decoding."""
    fused, explicit, reference = (
        make(n_queries, n_kv_heads=n_kv_heads, dtype=dtype) for _ in range(3)
    )
    query, key, value = reference
    rules = {name: option for name, option in options.items() if name != "scale"}
    trusted = F.scaled_dot_product_attention(
        query,
        key.repeat_interleave(H // n_kv_heads, 1),
        value.repeat_interleave(H // n_kv_heads, 1),
        attn_mask=mask_by_definition(n_queries, T, **rules),
        scale=options.get("scale"),
    )
    written_out = results(attend_explicitly(*explicit, **options), *explicit)
    compare(
        "attention = scaled_dot_product_attention",
        written_out,
        results(trusted, *reference),
    )
    compare(
        "fused attention = explicit",
        results(attend(*fused, **options), *fused),
        written_out,
    )


@every_precision
def test_banded_attention_equals_dense_under_the_bands_mask(dtype):
    banded, dense = make(dtype=dtype), make(dtype=dtype)
    query, key, value = dense
    # Dense attention written out, the band added to the scores as minus infinity.
    band = torch.ones(T, T).tril().triu(-2)
    scores = query @ key.transpose(-1, -2) / math.sqrt(K) + band.log().to(dtype)
    compare(
        "banded attention = dense attention under the band's mask",
        results(attend(*banded, window=3), *banded),
        results(scores.softmax(-1) @ value, *dense),
    )


@both_paths
def test_grouped_heads_equal_repeated_heads(path):
    query, key, value = make(n_kv_heads=G)
    repeated = [x.repeat_interleave(H // G, dim=1) for x in (key, value)]
    grouped = results(path(query, key, value), query, key, value)
    torch.testing.assert_close(
        grouped, results(path(query, *repeated), query, key, value)
    )


@pytest.mark.parametrize("options", [{}, {"window": 3}, {"causal": False}], ids=str)
@both_paths
def test_large_scores_do_not_overflow(path, options):
    query, key, value = (x.detach() for x in make(dtype=torch.float32))
    out = path(1e4 * query, 1e4 * key, value, **options)
    assert out.isfinite().all()
    # So large that each query attends to its best key alone.
    unseen = ~attention_mask(T, T, **options)
    scores = (query @ key.transpose(-1, -2)).masked_fill(unseen, -math.inf)
    best = scores.argmax(-1, keepdim=True).expand(-1, -1, -1, K)
    torch.testing.assert_close(out, value.gather(2, best))


# --------------------------------------------------------------------------------------- properties


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
@both_paths
def test_gradients_reach_exactly_what_is_seen(path, options):
    query, key, value = make(S)
    out = path(query, key, value, **options)
    rules = {name: option for name, option in options.items() if name != "scale"}
    mask = mask_by_definition(S, T, **rules).expand(B, 1, S, T)
    noise = normal(*out.shape, seed=9, grad=False)
    for s in range(S):
        gradients = torch.autograd.grad(
            (out * noise)[:, :, s].sum(), (query, key, value), retain_graph=True
        )
        of_query, of_key, of_value = (g.abs().amax((1, 3)) for g in gradients)
        assert torch.equal(of_value > 0, mask[:, 0, s])
        assert (of_key[~mask[:, 0, s]] == 0).all()
        assert (of_query[:, [i for i in range(S) if i != s]] == 0).all()


@both_paths
def test_outputs_are_convex_combinations_of_values(path):
    query, key, value = make()
    out = path(query, key, value)
    for s in range(T):
        seen = value[:, :, : s + 1]
        assert (out[:, :, s] >= seen.amin(2) - 1e-12).all()
        assert (out[:, :, s] <= seen.amax(2) + 1e-12).all()


@both_paths
def test_without_a_mask_attention_is_permutation_equivariant(path):
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    x = make()
    shuffled = [each[:, :, order] for each in x]
    out = path(*x, causal=False)
    torch.testing.assert_close(path(*shuffled, causal=False), out[:, :, order])
    # Where the keys and values stand does not matter at all; with the mask it does.
    torch.testing.assert_close(path(x[0], *shuffled[1:], causal=False), out)
    assert (path(*shuffled) - path(*x)[:, :, order]).abs().max() > 0.1


@pytest.mark.parametrize("padding", [PADDING, PADDING & False], ids=["some", "all"])
@both_paths
def test_a_query_that_sees_nothing_gives_zeros(path, padding):
    query, key, value = make()
    out = path(query, key, value, padding=padding)
    blind = ~mask_by_definition(T, T, padding=padding).any(-1, keepdim=True).expand_as(
        out
    )
    assert blind.any()
    assert (out[blind] == 0).all()
    assert out.isfinite().all()
    with torch.autograd.set_detect_anomaly(True):  # no NaN on the way either
        out = path(query, key, value, padding=padding)
        gradients = torch.autograd.grad(out.sum(), (query, key, value))
    assert all(gradient.isfinite().all() for gradient in gradients)


@both_paths
def test_dropout_removes_weights_and_scales_up_the_rest(path):
    # Equal scores and values that are one-hot: the output is the row of weights itself.
    n = 64
    zeros = torch.zeros(1, 4, n, n)
    torch.manual_seed(0)
    weights = path(
        zeros, zeros, torch.eye(n).expand(1, 4, n, n), causal=False, dropout=0.25
    )
    kept = weights != 0
    assert kept.float().mean().item() == pytest.approx(0.75, abs=0.02)
    torch.testing.assert_close(
        weights[kept], torch.full_like(weights[kept], 1 / n / 0.75)
    )


@both_paths
def test_bfloat16_stays_close(path):
    exact = path(*make())
    rough = path(*(x.bfloat16() for x in make()))
    assert rough.dtype == torch.bfloat16
    assert (rough.double() - exact).abs().max() < 0.03
