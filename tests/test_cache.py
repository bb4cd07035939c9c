"""The key-value cache: what generation keeps equals what it would compute again."""

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import accumulate

import pool
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ladder import SIZES, VARIANTS, V, build, compare, random_ids, unchecked

from decoder_only import GPT, GPTConfig
from decoder_only.model.attention import attend, attention_mask
from decoder_only.model.cache import CachePosition, KeyValueCache

LENGTH = SIZES["context_length"]


def small(*, padding: torch.Tensor | None = None, **sizes: object) -> KeyValueCache:
    fitting = {"batch_size": 2, "n_kv_heads": 3, "max_length": 5, "head_dim": 4} | sizes
    limits = {"max_length": fitting.pop("max_length"), "padding": padding}
    return KeyValueCache(**fitting, position=CachePosition(**limits))


@contextmanager
def broken(block: torch.nn.Module) -> Iterator[None]:
    """Within, a pass through this block fails, after those before it."""

    def fail(*_: object) -> None:
        raise ArithmeticError

    handle = block.register_forward_hook(fail)
    with pytest.raises(ArithmeticError):
        yield
    handle.remove()


def append(cache: KeyValueCache, key: torch.Tensor, value: torch.Tensor) -> list:
    cache.position.begin(key.shape[2])
    stored = cache.append(key, value)
    cache.position.advance()
    return stored


@pytest.fixture(params=["the host counts", "no one counts"])
def counting(request, monkeypatch):
    """As on the CPU, where only what is filled is read, or as on a GPU: all slots, masked."""
    if request.param == "no one counts":
        begin = CachePosition.begin

        def uncounted(position, n_new):
            found = begin(position, n_new)
            position.n_stored = None
            return found

        monkeypatch.setattr(CachePosition, "begin", uncounted)


# ---------------------------------------------------------------------------------------- equality


@pytest.fixture(scope="module", params=VARIANTS)
def uncached(request):
    """A model, ids, and its logits for the whole of them, which no test changes."""
    model, ids = build(**request.param), random_ids(4, LENGTH)
    with torch.no_grad(), unchecked():
        return model, ids, model(ids)


@pytest.mark.parametrize("pieces", [[1] * LENGTH, [4, 1, 1, 3], [LENGTH]], ids=str)
@torch.no_grad()
def test_cached_equals_uncached(uncached, pieces, counting):
    """Whether the text comes token by token, in pieces or at once.

    Annotations are checked where it comes at once: they say the same of every length.
    """
    model, ids, expected = uncached
    cache = model.new_cache(len(ids))
    with unchecked() if len(pieces) > 1 else nullcontext():
        logits = [model(piece, cache) for piece in ids.split(pieces, dim=1)]
    assert {len(layer) for layer in cache} == {LENGTH}
    compare("cached = uncached", torch.cat(logits, dim=1), expected)


@torch.no_grad()
def test_padded_rows_equal_each_row_alone(uncached, counting):
    """Prompts of several lengths in one batch, each with its own positions; so are pieces."""
    model, ids, _ = uncached
    padding = torch.tensor([0, 3, 5, 1])
    cache = model.new_cache(len(ids), padding=padding)
    logits = [model(piece, cache) for piece in ids.split([6, 1, 2], dim=1)]
    for row, (skipped, found) in enumerate(
        zip(padding.tolist(), torch.cat(logits, dim=1), strict=True)
    ):
        with unchecked():
            alone = model(ids[row : row + 1, skipped:])[0]
        compare("padded row = row alone", found[skipped:], alone)


@pytest.mark.parametrize("positions", ["rotary", "none"])
@torch.no_grad()
def test_a_ring_equals_the_whole_text_at_any_length(positions, counting):
    """Three blocks with windows 4, 2, 4 hold ten positions, and go on for sixty."""
    model = build(positions=positions, windows=(4, 2))
    ids = random_ids(length=60, seed=5)
    cache = model.new_cache(len(ids))
    assert [layer._key.shape[2] for layer in cache] == [4, 2, 4]
    with unchecked():  # sixty passes: the tests above check annotations
        logits = [model(p, cache) for p in ids.split([7, *[1] * 20, 3, *[1] * 30], 1)]
    compare("ring = whole text", torch.cat(logits, dim=1), model(ids))


@settings(max_examples=60)
@given(st.data())
def test_masks_match_what_append_gives(data):
    """Any pieces, window and padding: attention over it equals attention over everything."""
    window = data.draw(st.none() | st.integers(1, 6))
    pieces = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    padding = data.draw(st.none() | st.lists(st.integers(0, 4), min_size=2, max_size=2))
    padding = None if padding is None else torch.tensor(padding)
    n, kept = sum(pieces), {"dtype": torch.float64, "padding": padding}
    cache = small(max_length=n, window=window, **kept)
    query, key, value = torch.randn(3, 2, 3, n, 4, dtype=torch.float64)
    real = None if padding is None else torch.arange(n) >= padding[:, None]
    mask = attention_mask(n, n, window=window, padding=real)
    expected, found = attend(query, key, value, mask=mask), []
    for at in torch.arange(n).split(pieces):
        positions = cache.position.begin(len(at))
        seen = cache.mask()
        # Padding sees itself: what a row that sees nothing gives is up to the kernel.
        assert seen is None or seen.any(dim=-1).all()
        assert torch.equal(
            positions if padding is None else positions[1],
            at if padding is None else (at - padding[1]).clamp(min=0),
        )
        stored = cache.append(key[:, :, at], value[:, :, at])
        cache.position.advance()
        found.append(attend(query[:, :, at], *stored, mask=seen))
    found = torch.cat(found, dim=2)
    if (
        real is not None
    ):  # what padding itself sees does not matter, but must be a number
        assert found.isfinite().all()
        expected, found = (x * real[:, None, :, None] for x in (expected, found))
    torch.testing.assert_close(found, expected)


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
        key, value = append(cache, keys[:, :, start:end], values[:, :, start:end])
        assert torch.equal(key, keys[:, :, :end])
        assert torch.equal(value, values[:, :, :end])
        assert len(cache) == end


# ---------------------------------------------------------------------------------------- memory


def test_bytes_by_hand():
    """Two tensors of 2 x 3 x 5 x 4 numbers of 4 or 2 bytes, full or empty."""
    assert small().nbytes == 2 * (2 * 3 * 5 * 4) * 4
    assert small(dtype=torch.bfloat16).nbytes == 2 * (2 * 3 * 5 * 4) * 2
    assert small(window=3).nbytes == 2 * (2 * 3 * 3 * 4) * 4
    assert small(window=30).nbytes == small().nbytes


def test_fewer_heads_of_keys_shrink_it():
    full, grouped = build(), build(n_kv_heads=2)
    ratio = full.new_cache()[0].nbytes / grouped.new_cache()[0].nbytes
    assert ratio == SIZES["n_heads"] / 2


def test_it_is_where_the_model_is():
    model = build(torch.float32).bfloat16().to("meta")
    cache = model.new_cache(3, max_length=7)[0]
    assert (cache._key.dtype, cache._key.device.type) == (torch.bfloat16, "meta")
    assert cache._key.shape == (3, SIZES["n_heads"], 7, 4)


@torch.no_grad()
def test_it_may_keep_another_format_than_the_model_computes_in():
    model, ids = build(torch.float32, positions="rotary"), random_ids(length=LENGTH)
    cache = model.new_cache(len(ids), dtype=torch.bfloat16)
    logits = [model(piece, cache) for piece in ids.split([4, 1, 1, 3], dim=1)]
    assert cache[0]._key.dtype == torch.bfloat16
    assert logits[-1].dtype == torch.float32
    error = (torch.cat(logits, dim=1) - model(ids)).abs().max()
    assert 0 < error < 0.1 * model(ids).std()


def test_no_gradient_flows_through_the_cache():
    cache, key = small(), torch.randn(2, 3, 1, 4, requires_grad=True)
    append(cache, key, key)
    assert not any(x.requires_grad for x in append(cache, key, key))


# ---------------------------------------------------------------------------------------- refusals


def test_what_does_not_fit_is_named_and_not_stored():
    """Before any block has stored anything; where all blocks are rings, everything fits."""
    model, ids = build(positions="rotary"), random_ids(length=6)
    cache = model.new_cache(len(ids), max_length=5)
    model(ids[:, :2], cache)
    before = [layer._key.clone() for layer in cache]
    message = "positions=6 must be at most the cache's max_length=5"
    with pytest.raises(ValueError, match=message):
        model(ids[:, :4], cache)
    for layer, stored in zip(cache, before, strict=True):
        assert len(layer) == 2
        assert torch.equal(layer._key, stored)
    found = model(ids[:, 2:5], cache)
    compare("after a refusal", found, model(ids[:, :5])[:, 2:])
    rings = build(positions="rotary", windows=(3,))
    rings(ids, rings.new_cache(len(ids)))
    with pytest.raises(ValueError, match=message):  # a limit is one for rings, too
        rings(ids, rings.new_cache(len(ids), max_length=5))


@settings(max_examples=60)
@given(st.data())
@torch.no_grad()
def test_a_cache_gives_what_no_cache_gives_or_refuses(data):
    """At any window, limit and position: what is computed is right, after a failure too."""
    positions = data.draw(st.sampled_from(["learned", "sinusoidal", "rotary", "none"]))
    widths = st.none() | st.integers(1, 2 * LENGTH)
    windows = tuple(data.draw(st.lists(widths, min_size=1, max_size=2)))
    max_length = data.draw(st.none() | st.integers(0, 2 * LENGTH))
    with unchecked():
        model, ids = build(positions=positions, windows=windows), random_ids(length=24)
        most = LENGTH if positions == "learned" else math.inf
        if max_length is not None and not 0 < max_length <= most:
            with pytest.raises(ValueError, match=f"max_length={max_length} must"):
                model.new_cache(len(ids), max_length=max_length)
            return
        cache = model.new_cache(len(ids), max_length=max_length)
        limit = cache[0].position.max_length or len(ids[0])
        assert max_length in (None, limit)
        sizes, found = data.draw(st.lists(st.integers(1, 7), min_size=1)), []
        for begin, size in zip(accumulate([0, *sizes]), sizes, strict=False):
            piece = ids[:, begin : begin + size]
            if begin + piece.shape[1] > limit:
                with pytest.raises(ValueError, match="at most the cache's max_length"):
                    model(piece, cache)
                break
            with broken(data.draw(st.sampled_from([*model.blocks]))):
                model(torch.cat([piece, piece[:, :1]], 1)[:, : limit - begin], cache)
            found.append(model(piece, cache))
            assert len(cache[0]) == begin + piece.shape[1]
            if len(cache[0]) == ids.shape[1]:
                break
        if found:
            expected = model(ids[:, : len(cache[0])])
            compare("cached = uncached", torch.cat(found, dim=1), expected)


def test_what_cannot_be_cached_is_refused():
    model = build(positions="rotary", windows=(4,))
    with pytest.raises(ValueError, match=r"max_length=0 must be .* and 1 or more"):
        model.new_cache(max_length=0)
    cache = model.new_cache(2)
    with pytest.raises(ValueError, match=r"rows of ids=3 must be .* batch_size=2"):
        model(random_ids(3, 4), cache)
    assert len(cache[0]) == 0


def test_a_cache_longer_than_learned_positions_is_refused():
    message = f"max_length={LENGTH + 1} must be at most {LENGTH}"
    with pytest.raises(ValueError, match=message):
        build(positions="learned").new_cache(max_length=LENGTH + 1)
    build(positions="rotary").new_cache(max_length=LENGTH + 1)


# -------------------------------------------------------------------------------------- compilation

# What they have between them is all that makes a graph another one: a cache that is never full and
# one that is a ring, alone and together, with padding and without. The options that change no cache
# are compiled in tests/test_model.py. A count that was fixed in a graph would show at the second
# step and a ring's turn at the fourth.
COMPILED = {
    "gpt2": {"n_layers": 1},
    "rings": {"n_layers": 1, "positions": "none", "windows": (3,), "tied": False},
    "padded": {
        "n_layers": 2,
        "positions": "rotary",
        "norm": "rms",
        "qk_norm": True,
        "n_kv_heads": 2,
        "soft_cap": 5.0,
        "activation": "swiglu",
        "bias": False,
        "windows": (None, 3),
    },
}


@torch.no_grad()
@pool.short_traces()
def decoded_by_two_graphs(name: str) -> None:
    """In another process: run-time checks of annotations cannot be compiled."""
    from torch._dynamo.testing import CompileCounter
    from torch._dynamo.utils import counters

    shape = {"vocab_size": V, "context_length": 64, "d_model": 16, "n_heads": 4}
    config = GPTConfig(**shape, **COMPILED[name])
    model = GPT(config, generator=torch.Generator().manual_seed(0))
    for parameter in model.eval().double().parameters():
        parameter.mul_(10 if parameter.ndim == 2 else 1)
    padding = torch.tensor([0, 2]) if name == "padded" else None
    ids, cache = random_ids(length=16), model.new_cache(2, padding=padding)
    pieces = ids.split([5, *[1] * 11], dim=1)
    expected = [model(piece, cache, last_only=True) for piece in pieces]
    torch._dynamo.reset()
    counters.clear()
    counter = CompileCounter()
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    for repeat in range(2):  # another text needs no other graph
        cache = model.new_cache(2, padding=padding)
        for i, piece in enumerate(pieces):
            found = compiled(piece, cache, last_only=True)
            torch.testing.assert_close(found, expected[i], rtol=1e-9, atol=1e-9)
            # One graph for the prompt, one for the step, and nothing is compiled again.
            assert counter.frame_count == (1 if repeat == i == 0 else 2), (repeat, i)
    assert not counters["graph_break"]


@pytest.mark.parametrize("name", COMPILED)
def test_a_text_takes_one_graph_for_the_prompt_and_one_for_the_step(name):
    pool.call("test_cache:decoded_by_two_graphs", name)
