"""The key-value cache: what generation keeps equals what it would compute again."""

import pytest
import torch
from ladder import SIZES, VARIANTS, build, compare, random_ids

from decoder_only.cache import KeyValueCache

LENGTH = SIZES["context_length"]


def small(**sizes: object) -> KeyValueCache:
    fitting = {"batch_size": 2, "n_kv_heads": 3, "max_length": 5, "head_dim": 4}
    return KeyValueCache(**{**fitting, **sizes})


@pytest.mark.parametrize("settings", VARIANTS)
@pytest.mark.parametrize("pieces", [[1] * LENGTH, [4, 1, 1, 3], [LENGTH]], ids=str)
@torch.no_grad()
def test_cached_equals_uncached(settings, pieces):
    """Whether the text comes token by token, in pieces or at once."""
    model, ids = build(**settings), random_ids(length=LENGTH)
    cache = model.new_cache(len(ids))
    logits = [model(piece, cache) for piece in ids.split(pieces, dim=1)]
    assert {len(layer) for layer in cache} == {LENGTH}
    compare("cached = uncached", torch.cat(logits, dim=1), model(ids))


@torch.no_grad()
def test_what_is_stored_does_not_change_afterwards():
    model, ids = build(), random_ids(length=LENGTH)
    cache = model.new_cache(len(ids))
    model(ids[:, :4], cache)
    before = [layer._key[:, :, :4].clone() for layer in cache]
    model(ids[:, 4:], cache)
    for layer, stored in zip(cache, before, strict=True):
        assert torch.equal(layer._key[:, :, :4], stored)


def test_append_gives_everything_so_far():
    cache, keys, values = small(), torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4)
    assert len(cache) == 0
    for start, end in ((0, 2), (2, 3), (3, 5)):
        key, value = cache.append(keys[:, :, start:end], values[:, :, start:end])
        assert torch.equal(key, keys[:, :, :end])
        assert torch.equal(value, values[:, :, :end])
        assert len(cache) == end


def test_bytes_by_hand():
    """Two tensors of 2 x 3 x 5 x 4 numbers of 4 or 2 bytes, full or empty."""
    assert small().nbytes == 2 * (2 * 3 * 5 * 4) * 4
    assert small(dtype=torch.bfloat16).nbytes == 2 * (2 * 3 * 5 * 4) * 2


def test_fewer_heads_of_keys_shrink_it():
    full, grouped = build(), build(n_kv_heads=2)
    ratio = full.new_cache()[0].nbytes / grouped.new_cache()[0].nbytes
    assert ratio == SIZES["n_heads"] / 2


def test_it_is_where_the_model_is():
    model = build(torch.float32).bfloat16().to("meta")
    cache = model.new_cache(3, max_length=7)[0]
    assert (cache._key.dtype, cache._key.device.type) == (torch.bfloat16, "meta")
    assert cache._key.shape == (3, SIZES["n_heads"], 7, 4)


def test_no_gradient_flows_through_the_store():
    cache, key = small(), torch.randn(2, 3, 1, 4, requires_grad=True)
    cache.append(key, key)
    assert not any(x.requires_grad for x in cache.append(key, key))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 3, 4, 4), "6 positions do not fit a cache of 5; make a longer one"),
        ((1, 3, 1, 4), r"keys of shape \(1, 3, 1, 4\) do not fit a cache of shape"),
        ((2, 2, 1, 4), r"keys of shape \(2, 2, 1, 4\) do not fit a cache of shape"),
        ((2, 3, 1, 5), r"keys of shape \(2, 3, 1, 5\) do not fit a cache of shape"),
    ],
    ids=["too long", "rows", "heads", "width"],
)
def test_what_does_not_fit_is_named_and_not_stored(shape, message):
    cache = small()
    cache.append(torch.ones(2, 3, 2, 4), torch.ones(2, 3, 2, 4))
    with pytest.raises(ValueError, match=message):
        cache.append(torch.zeros(shape), torch.zeros(shape))
    assert len(cache) == 2
    key, _ = cache.append(torch.ones(2, 3, 3, 4), torch.ones(2, 3, 3, 4))
    assert torch.equal(key, torch.ones(2, 3, 5, 4))
