"""Multi-head attention: projections, heads, and what is shared between them."""

import pytest
import torch
from einops import rearrange, repeat
from ladder import PRECISIONS, compare, normal, randomize, results
from torch import nn

from decoder_only.model.attention import (
    attend_explicitly,
    attention_mask,
    attention_weights,
)
from decoder_only.model.cache import CachePosition, KeyValueCache
from decoder_only.model.multihead import MultiHeadAttention

B, S, D, H, G, K = 2, 7, 10, 6, 3, 4
every_precision = pytest.mark.parametrize("dtype", PRECISIONS, ids=str)


def make(
    *, dtype: torch.dtype = torch.float64, seed: int = 1, **settings
) -> MultiHeadAttention:
    module = MultiHeadAttention(
        **{"d_model": D, "n_heads": H, "head_dim": K, **settings}
    )
    return randomize(module.to(dtype), seed=seed).eval()


# ----------------------------------------------------------------------------------------- parity


@every_precision
@pytest.mark.parametrize("bias", [True, False])
def test_equals_pytorchs_multihead_attention(bias, dtype):
    d, h = 12, 3
    ours = randomize(MultiHeadAttention(d_model=d, n_heads=h, bias=bias).to(dtype))
    theirs = nn.MultiheadAttention(d, h, bias=bias, batch_first=True).to(dtype)
    projections = ours.query, ours.key, ours.value
    weights = {
        "in_proj_weight": torch.cat([linear.weight for linear in projections]),
        "out_proj.weight": ours.output.weight,
    }
    if bias:
        weights["in_proj_bias"] = torch.cat([linear.bias for linear in projections])
        weights["out_proj.bias"] = ours.output.bias
    theirs.load_state_dict(weights)

    x = normal(B, S, d, seed=2, dtype=dtype)
    y = x.detach().clone().requires_grad_()
    later = torch.ones(S, S, dtype=torch.bool).triu(1)
    output, gradient, *gradients = results(ours(x), x, *ours.parameters())
    named = dict(zip(dict(ours.named_parameters()), gradients, strict=True))
    mine = {"output": output, "x": gradient}
    for kind in ("weight", "bias") if bias else ("weight",):
        mine[f"in_proj_{kind}"] = torch.cat(
            [named[f"{part}.{kind}"] for part in ("query", "key", "value")]
        )
        mine[f"out_proj.{kind}"] = named[f"output.{kind}"]

    output, gradient, *gradients = results(
        theirs(y, y, y, attn_mask=later)[0], y, *theirs.parameters()
    )
    yours = dict(zip(dict(theirs.named_parameters()), gradients, strict=True))
    compare(
        "multi-head = torch.nn.MultiheadAttention",
        mine,
        {"output": output, "x": gradient, **yours},
    )


@every_precision
@pytest.mark.parametrize("rotary_base", [None, 100.0])
@pytest.mark.parametrize("n_kv_heads", [G, 1])
def test_grouped_query_equals_multi_head_with_repeated_weights(
    n_kv_heads, rotary_base, dtype
):
    """Outputs; and the gradient of a shared weight is the sum over those that share it."""
    grouped = make(n_kv_heads=n_kv_heads, rotary_base=rotary_base, dtype=dtype)
    full = make(rotary_base=rotary_base, dtype=dtype)
    weights = grouped.state_dict()
    for name in weights:
        if name.startswith(("key", "value")):
            heads = rearrange(weights[name], "(g k) ... -> g k ...", k=K)
            weights[name] = repeat(heads, "g k ... -> (g n k) ...", n=H // n_kv_heads)
    full.load_state_dict(weights)

    x = normal(B, S, D, seed=3, dtype=dtype)
    ours = results(grouped(x), x, *grouped.parameters())
    expected = results(full(x), x, *full.parameters())
    for i, (name, _) in enumerate(full.named_parameters(), start=2):
        if name.startswith(("key", "value")):
            expected[i] = rearrange(
                expected[i], "(g n k) ... -> n g k ...", g=n_kv_heads, k=K
            ).sum(0)
            expected[i] = rearrange(expected[i], "g k ... -> (g k) ...")
    compare("grouped queries = repeated key and value heads", ours, expected)


@every_precision
@pytest.mark.parametrize("window", [None, 3])
def test_heads_equal_separate_attentions_added_up(window, dtype):
    """Each head alone, with its slices of the four matrices; the outputs simply add."""
    module = make(window=window, dtype=dtype)
    x = normal(B, S, D, seed=4, dtype=dtype)
    total = module.output.bias
    for head in range(H):
        rows = slice(head * K, head * K + K)
        query, key, value = (
            (x @ linear.weight[rows].T + linear.bias[rows])[:, None]
            for linear in (module.query, module.key, module.value)
        )
        mask = attention_mask(S, S, window=window)
        alone = attend_explicitly(query, key, value, mask=mask)[:, 0]
        total = total + alone @ module.output.weight[:, rows].T
    compare(
        "multi-head = sum of its heads",
        results(module(x), x, *module.parameters()),
        results(total, x, *module.parameters()),
    )


# ----------------------------------------------------------------------------------------- shapes


@pytest.mark.parametrize("n_kv_heads", [None, G, 1])
def test_shapes(n_kv_heads):
    module = make(n_kv_heads=n_kv_heads)
    groups = n_kv_heads or H
    x = normal(B, S, D, seed=5)
    query, key, value = module.project(x)
    assert query.shape == (B, H, S, K)
    assert key.shape == value.shape == (B, groups, S, K)
    assert module(x).shape == (B, S, D)
    assert module.query.weight.shape == (H * K, D)
    assert module.key.weight.shape == module.value.weight.shape == (groups * K, D)
    assert module.output.weight.shape == (D, H * K)


def test_head_dim_is_a_share_of_the_width_by_default():
    assert MultiHeadAttention(d_model=12, n_heads=3).query.weight.shape == (12, 12)


@pytest.mark.parametrize("bias", [True, False])
def test_bias_is_everywhere_or_nowhere(bias):
    linears = [m for m in make(bias=bias).modules() if isinstance(m, nn.Linear)]
    assert len(linears) == 4
    assert {linear.bias is not None for linear in linears} == {bias}


# ----------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize("window", [None, 1, 3])
@pytest.mark.parametrize("rotary_base", [None, 100.0])
@pytest.mark.parametrize("qk_norm", [False, True])
def test_gradients_reach_exactly_the_window(qk_norm, rotary_base, window):
    module = make(qk_norm=qk_norm, rotary_base=rotary_base, window=window)
    x = normal(B, S, D, seed=6)
    out = module(x) * normal(B, S, D, seed=7)
    for s in range(S):
        (gradient,) = torch.autograd.grad(out[1, s].sum(), x, retain_graph=True)
        reached = gradient.abs().amax(-1) > 0
        first = 0 if window is None else max(0, s - window + 1)
        assert not reached[0].any()
        assert reached[1].tolist() == [first <= t <= s for t in range(S)]


@pytest.mark.parametrize("window", [None, 2, 50])
@pytest.mark.parametrize("rotary_base", [None, 100.0])
@pytest.mark.parametrize("parts", [(6,), (4, 1, 1), (1, 3, 2)], ids=str)
def test_alone_with_a_cache_the_layer_goes_on_where_it_ends(parts, rotary_base, window):
    module = make(window=window, rotary_base=rotary_base)
    x, position = normal(B, 6, D, seed=15, grad=False), CachePosition(max_length=6)
    sizes = {"batch_size": B, "n_kv_heads": H, "head_dim": K}
    cache = KeyValueCache(
        **sizes, window=window, position=position, dtype=torch.float64
    )
    found = []
    for part in x.split(parts, dim=1):
        position.begin(part.shape[1])
        found.append(module(part, cache=cache))
        position.advance()
    torch.testing.assert_close(torch.cat(found, dim=1), module(x))


@pytest.mark.parametrize("n_keys", [S, S + 2])
def test_a_source_is_seen_whole_whatever_the_window(n_keys):
    x, source = normal(B, S, D, seed=16), normal(B, n_keys, D, seed=17)
    found = make(window=2)(x, source=source)
    torch.testing.assert_close(found, make()(x, source=source))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (
            {"d_model": 10, "n_heads": 3},
            "d_model=10 must be a multiple of n_heads=3, or",
        ),
        ({"d_model": 3, "n_heads": 5}, "d_model=3 must be a multiple"),
        ({"d_model": 8, "n_heads": 4, "n_kv_heads": 3}, "n_kv_heads=3 .* divisor of"),
    ],
)
def test_heads_that_do_not_divide_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(**sizes)


def test_a_window_is_held_against_the_text_and_not_the_width():
    module = MultiHeadAttention(d_model=4, n_heads=2, window=5)
    x = torch.randn(1, 8, 4, requires_grad=True)
    module(x)[0, -1].sum().backward()
    assert (x.grad[0].abs().amax(-1) > 0).tolist() == [False] * 3 + [True] * 5


def test_rotary_sees_distances_not_positions():
    """Shift a sequence, and outputs that look back no further than it shift along."""
    module = make(rotary_base=100.0, window=3)
    x = normal(B, S, D, seed=8, grad=False)
    shifted = torch.cat([normal(B, 5, D, seed=9, grad=False), x], dim=1)
    torch.testing.assert_close(module(shifted)[:, 5 + 2 :], module(x)[:, 2:])
    # Distances do matter: without the rotation a window is a bag.
    swapped = x[:, [1, 0, *range(2, S)]]
    assert (module(swapped) - module(x))[:, 2].abs().max() > 0.01
    bag = make(window=3)
    torch.testing.assert_close(bag(swapped)[:, 2], bag(x)[:, 2])


def test_normalized_queries_and_keys_bound_the_scores():
    """Unit root mean square, so |query . key| <= K whatever the input's scale."""
    module = MultiHeadAttention(
        d_model=D, n_heads=H, n_kv_heads=G, head_dim=K, qk_norm=True, rotary_base=100.0
    ).double()
    x = normal(B, S, D, seed=10, grad=False)
    query, key, value = module.project(1000 * x)
    for projected in (query, key):
        assert (projected.square().mean(-1) - 1).abs().max() < 1e-4
    assert value.abs().max() > 100
    # The weights no longer depend on the scale of the input.
    torch.testing.assert_close(
        attention_weights(query, key),
        attention_weights(*module.project(2000 * x)[:2]),
        rtol=1e-3,
        atol=1e-3,
    )


@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_normalization_is_per_head_with_a_learned_scale(eps):
    module = make(n_kv_heads=G, qk_norm=True, norm_eps=eps)
    assert module.query_norm.weight.shape == module.key_norm.weight.shape == (K,)
    x = normal(B, S, D, seed=11)
    query, key, _ = module.project(x)
    for projected, linear, norm, n in [
        (query, module.query, module.query_norm, H),
        (key, module.key, module.key_norm, G),
    ]:
        raw = linear(x).view(B, S, n, K).transpose(1, 2)
        expected = (
            raw / (raw.square().mean(-1, keepdim=True) + eps).sqrt() * norm.weight
        )
        torch.testing.assert_close(projected, expected)


def test_dropout_acts_on_weights_and_in_training_only():
    module = make(dropout=0.5)
    x = normal(B, S, D, seed=12, grad=False)
    assert torch.equal(module(x), make(dropout=0.0)(x))
    module.train()
    torch.manual_seed(0)
    once, again = module(x), module(x)
    assert (once - again).abs().max() > 0.01
    # The first position has one weight, 1, for each head: it is dropped or doubled.
    heads = module.value(x)[:, 0].view(B, H, K)
    whole = module.output.weight.view(D, H, K)
    kept = torch.linalg.lstsq(
        torch.einsum("bhk,dhk->bdh", heads, whole),
        (once[:, 0] - module.output.bias)[..., None],
    ).solution
    distance = torch.minimum(kept.abs(), (kept - 2).abs())
    assert distance.max() < 1e-10


@every_precision
@pytest.mark.parametrize("scale", [None, 0.1, 1.5])
def test_the_scale_equals_the_formula(scale, dtype):
    """1 / sqrt(K) where none is given."""
    module = make(scale=scale, dtype=dtype)
    x = normal(B, S, D, seed=13, dtype=dtype)
    query, key, value = module.project(x)
    scores = (K**-0.5 if scale is None else scale) * query @ key.transpose(-1, -2)
    later = torch.ones(S, S, dtype=torch.bool).triu(1)
    heads = scores.masked_fill(later, -torch.inf).softmax(-1) @ value
    compare(
        "scaled attention = softmax(scale Q K^T) V",
        results(module(x), x, *module.parameters()),
        results(
            module.output(rearrange(heads, "b h s k -> b s (h k)")),
            x,
            *module.parameters(),
        ),
    )


# ----------------------------------------------------------------------------------- another source


@every_precision
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("t", [4, S, 11])
def test_cross_attention_equals_pytorchs_multihead_attention(t, padded, dtype):
    """Queries from one sequence, keys and values from another of any length."""
    d, h = 12, 3
    ours = randomize(MultiHeadAttention(d_model=d, n_heads=h).to(dtype))
    theirs = nn.MultiheadAttention(d, h, batch_first=True).to(dtype)
    projections = ours.query, ours.key, ours.value
    theirs.load_state_dict(
        {
            "in_proj_weight": torch.cat([linear.weight for linear in projections]),
            "in_proj_bias": torch.cat([linear.bias for linear in projections]),
            "out_proj.weight": ours.output.weight,
            "out_proj.bias": ours.output.bias,
        }
    )
    x, source = (normal(B, n, d, seed=n, dtype=dtype) for n in (S, t + 20))
    source = source[:, :t].detach().requires_grad_()
    is_real = torch.arange(t) < torch.tensor([[t - 2], [t]])
    mask = attention_mask(S, t, causal=False, padding=is_real) if padded else None
    hidden = ~is_real if padded else None
    compare(
        "cross-attention = torch.nn.MultiheadAttention",
        results(ours(x, mask=mask, source=source), x, source),
        results(theirs(x, source, source, key_padding_mask=hidden)[0], x, source),
    )


def test_a_source_that_is_the_sequence_itself_is_attention_without_a_mask():
    module, x = make(n_kv_heads=G, qk_norm=True), normal(B, S, D, seed=14)
    everything = torch.ones(S, S, dtype=torch.bool)
    compare(
        "attention to itself as a source = attention that sees everything",
        results(module(x, source=x), x),
        results(module(x, mask=everything), x),
    )
    query, key, value = module.project(x, source=x[:, :3])
    assert query.shape == (B, H, S, K)
    assert key.shape == value.shape == (B, G, 3, K)
