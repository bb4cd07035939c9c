"""What is counted on paper equals what a real model holds, computes and keeps."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable
from functools import partial
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ladder import OPTIONS, SIZES, VARIANTS, V, random_ids, unchecked
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from decoder_only import GPT, GPTConfig
from decoder_only.base.hardware import DEVICES, Device
from decoder_only.model import multihead
from decoder_only.model.attention import attend_explicitly, attention_mask
from decoder_only.model.counting import (
    Work,
    activation_bytes,
    cache_bytes,
    count_flops,
    count_parameters,
    decoding_work,
    flops_per_token,
    training_bytes,
    visible_pairs,
    widened,
)
from decoder_only.model.lm_head import next_token_loss, sliced_next_token_loss
from decoder_only.model.presets import PRESETS
from decoder_only.training.optimizers import build_optimizers

every_variant = pytest.mark.parametrize("variant", VARIANTS)
FORMATS = {"float32": None, "bfloat16": torch.bfloat16}
every_format = pytest.mark.parametrize("number_format", FORMATS)
# Under autocast RMSNorm meets a 16-bit input and a 32-bit scale, and PyTorch says so once.
pytestmark = pytest.mark.filterwarnings("ignore:Mismatch dtype between input and")


def small(**variant: object) -> GPTConfig:
    return GPTConfig(**{**SIZES, "head_dim": 4, **variant})


@st.composite
def shapes(draw, **fixed: object) -> GPTConfig:
    """Small configurations of every variant."""
    n_heads = draw(st.sampled_from([1, 2, 4, 6]))
    variant = {name: draw(st.sampled_from(values)) for name, values in OPTIONS.items()}
    variant["n_kv_heads"] = draw(
        st.sampled_from([None, *(g for g in range(1, 7) if n_heads % g == 0)])
    )
    sizes = {
        "vocab_size": draw(st.integers(1, 40)),
        "context_length": draw(st.integers(1, 30)),
        "d_model": n_heads * draw(st.sampled_from([2, 4, 6])),
        "n_layers": draw(st.integers(1, 4)),
        "n_heads": n_heads,
        "head_dim": draw(st.sampled_from([None, 2, 8])),
        "d_mlp": draw(st.none() | st.integers(1, 30)),
    }
    with unchecked():  # the check of a sequence draws an item, which hypothesis minds
        return GPTConfig(**{**variant, **sizes, **fixed})


# Models are checked against their annotations in tests/test_model.py; here it would take long.
@unchecked()
def on_paper(config: GPTConfig) -> GPT:
    with torch.device("meta"):
        return GPT(config)


# --------------------------------------------------------------------------------------- parameters


def component(name: str) -> str:
    """Which part of the count a named parameter belongs to."""
    for part in ("norm", ".attention.", ".mlp."):
        if part in name:
            return {"norm": "norms"}.get(part, part.strip("."))
    return name.removesuffix(".weight")


def held(model: GPT) -> Counter:
    found = Counter()
    for name, parameter in model.named_parameters():
        found[component(name)] += parameter.numel()
    return found


@pytest.mark.parametrize("name", PRESETS)
def test_parameters_of_every_preset(name):
    model = on_paper(PRESETS[name])
    counted = count_parameters(PRESETS[name])
    assert sum(counted.values()) == model.count_parameters()
    assert Counter(counted) == held(model)


@given(shapes())
def test_parameters_of_every_variant_component_by_component(config):
    model, counted = on_paper(config), count_parameters(config)
    assert sum(counted.values()) == model.count_parameters()
    assert set(held(model)) <= set(counted)
    assert Counter(counted) == held(model)


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("gpt3-small", 125_187_840),
        ("gpt3-medium", 355_771_392),
        ("gpt3-large", 760_149_504),
        ("gpt3-xl", 1_315_522_560),
        ("gpt3-2.7b", 2_651_220_480),
        ("gpt3-6.7b", 6_657_871_872),
        ("gpt3-13b", 12_952_106_100),
        ("gpt3-175b", 174_599_516_160),
    ],
)
def test_post_ps_totals_to_the_digit(name, total):
    """It leaves out the norms, and takes heads that divide the width, which two rows' do not."""
    config = PRESETS[name]
    d, n_layers, merged = (
        config.d_model,
        config.n_layers,
        config.n_heads * config.head_width,
    )
    formula = d * config.vocab_size + d * config.context_length
    formula += 12 * n_layers * d**2 + 9 * n_layers * d
    assert formula == total
    counted = count_parameters(config)
    # Four matrices are wider by what the heads exceed the width, and so are three offsets.
    excess = n_layers * (4 * d + 3) * (merged - d)
    assert sum(counted.values()) - counted["norms"] - excess == total
    assert (excess == 0) == (name not in ("gpt3-xl", "gpt3-13b"))


# --------------------------------------------------------------------------------------- operations


@given(
    st.integers(1, 12),
    st.integers(0, 12),
    st.none() | st.integers(1, 30),
    st.booleans(),
)
def test_visible_pairs_are_the_masks_entries(length, past, window, causal):
    found = visible_pairs(length, past=past, window=window, causal=causal)
    if not causal:  # the whole square, whatever the window
        window = None
    mask = attention_mask(length, past + length, causal=causal, window=window)
    assert found == mask.sum()


@unchecked()
def counted_by_pytorch(step) -> int:
    """With attention written out: of the fused kernel it counts the products in another way."""
    with (
        mock.patch.object(multihead, "attend", attend_explicitly),
        FlopCounterMode(display=False) as counter,
    ):
        step()
    return counter.get_total_flops()


@every_variant
def test_flops_are_what_pytorch_counts_forward_and_three_times_that_with_backward(
    variant,
):
    config, ids = small(**variant), random_ids()
    model = GPT(config)
    forward = len(ids) * sum(count_flops(config, ids.shape[1], causal=False).values())
    logits = []
    assert counted_by_pytorch(lambda: logits.append(model(ids))) == forward
    assert counted_by_pytorch(logits[0].sum().backward) == 2 * forward


@settings(max_examples=20)
@given(shapes(context_length=12), st.integers(1, 8), st.integers(1, 4))
def test_flops_behind_a_cache_are_what_pytorch_counts(config, length, past):
    """Behind one key at least: a product over a single one runs as a scaling, uncounted."""
    model, ids = GPT(config).eval(), torch.zeros(1, past + length, dtype=torch.long)
    with torch.no_grad():
        with unchecked():
            cache = model.new_cache()
            model(ids[:, :past], cache)
        counted = counted_by_pytorch(lambda: model(ids[:, past:], cache))
    assert counted == sum(count_flops(config, length, past=past, causal=False).values())


@given(shapes(), st.integers(1, 20), st.integers(1, 20))
def test_a_prefix_and_the_rest_behind_it_cost_what_the_whole_costs(config, first, rest):
    whole = count_flops(config, first + rest)
    parts = count_flops(config, first), count_flops(config, rest, past=first)
    assert whole == {name: parts[0][name] + parts[1][name] for name in whole}


@given(shapes(), st.integers(1, 20))
def test_causal_attention_costs_the_pairs_that_the_masks_show(config, length):
    seen, square = (count_flops(config, length, causal=c) for c in (True, False))
    pairs = sum(
        int(attention_mask(length, length, window=window).sum())
        for window, _ in zip(
            itertools.cycle(config.windows), range(config.n_layers), strict=False
        )
    )
    width = config.n_heads * config.head_width
    assert seen["attention"] == 4 * width * pairs
    assert square["attention"] == 4 * width * config.n_layers * length**2
    del seen["attention"], square["attention"]
    assert seen == square


@pytest.mark.parametrize("name", PRESETS)
def test_the_fields_count_takes_the_matrices_and_the_whole_square(name):
    config = PRESETS[name]
    length = config.context_length
    exact = 3 * sum(count_flops(config, length, causal=False).values())
    assert length * flops_per_token(config) == exact
    # 6 N + 12 L D S with N = 123.6 M, as nanoGPT counts GPT-2 in its padded vocabulary.
    if name == "gpt2-small":
        padded = flops_per_token(dataclasses.replace(config, vocab_size=50304))
        assert padded == 6 * 123_568_128 + 12 * 12 * 768 * 1024


# -------------------------------------------------------------------------------------- activations


class Saved:
    """Within it, what autograd keeps besides the weights themselves is counted, in bytes."""

    def __init__(self, model: nn.Module) -> None:
        self.weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
        self.kept: dict[int, Tensor] = {}  # alive, so that no address is used twice

    def __enter__(self) -> "Saved":
        def pack(x: Tensor) -> Tensor:
            if x.untyped_storage().data_ptr() not in self.weights:
                self.kept[x.untyped_storage().data_ptr()] = x
            return x

        self.hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x)
        self.hooks.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.hooks.__exit__(*error)

    @property
    def n_bytes(self) -> int:
        return sum(x.untyped_storage().nbytes() for x in self.kept.values())


def recomputed(forward: Callable, saved: Saved, x: Tensor, **inputs: object) -> Tensor:
    """As `GPT` recomputes a block; what is passed by name stays alive, where no hook looks."""
    named = [each for each in inputs.values() if isinstance(each, Tensor)]
    saved.kept |= {each.untyped_storage().data_ptr(): each for each in named}
    return checkpoint(forward, x, use_reentrant=False, **inputs)


@unchecked()
def saved_bytes(
    config: GPTConfig,
    batch_size: int,
    length: int,
    number_format: str,
    *,
    recompute: bool = False,
) -> int:
    """Of a forward pass with the loss, whose targets are the ids themselves."""
    model = GPT(config)
    saved = Saved(model)
    if recompute:
        for block in model.blocks:
            block.forward = partial(recomputed, block.forward, saved)
    ids = torch.zeros(batch_size, length, dtype=torch.long)
    chosen = FORMATS[number_format]
    with saved:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=chosen is not None):
            logits = model(ids)
        next_token_loss(logits, ids)
    return saved.n_bytes


# Counted as PyTorch keeps it since 2.13, and the same in 2.15; before, it kept other things of an
# RMS norm. The loss itself keeps one number, the sum of its targets' weights.
as_counted = pytest.mark.skipif(
    tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 13),
    reason="this PyTorch is older than 2.13 and may keep other activations than are counted: "
    "here nobody has seen that what `counting` says of activations is what it holds",
)
LEEWAY = 8


@as_counted
@every_format
@every_variant
def test_activations_are_what_autograd_saves(variant, number_format):
    config = small(**{**variant, "norm_position": "pre"})
    expected = activation_bytes(config, 2, 7, number_format=number_format)
    found = saved_bytes(config, 2, 7, number_format)
    assert sum(expected.values()) == pytest.approx(found, rel=0, abs=LEEWAY)


@as_counted
@settings(max_examples=30)
@given(
    shapes(norm_position="pre", context_length=64, head_dim=4),
    st.integers(2, 5),
    st.integers(2, 64),
    st.sampled_from(sorted(FORMATS)),
)
def test_activations_of_every_batch_and_length(config, batch_size, length, name):
    expected = activation_bytes(config, batch_size, length, number_format=name)
    found = saved_bytes(config, batch_size, length, name)
    assert sum(expected.values()) == pytest.approx(found, rel=0, abs=LEEWAY)


@as_counted
@every_format
@every_variant
def test_recomputing_keeps_inputs_and_one_block_at_a_time(variant, number_format):
    """Inside `checkpoint` hooks do not look; a block's share is what one more block adds."""
    config = small(
        **{**variant, "norm_position": "pre", "windows": variant["windows"][:1]}
    )
    batch = (2, 7, number_format)
    outside = saved_bytes(config, *batch, recompute=True)
    shallow = dataclasses.replace(config, n_layers=config.n_layers - 1)
    one_block = saved_bytes(config, *batch) - saved_bytes(shallow, *batch)
    its_input = 2 * 7 * config.d_model * 4  # seen from outside and from inside
    expected = activation_bytes(
        config, 2, 7, number_format=number_format, recompute=True
    )
    found = outside + one_block - its_input
    assert sum(expected.values()) == pytest.approx(found, rel=0, abs=LEEWAY)


def test_recomputing_counts_the_block_whose_mask_is_largest():
    dense, alternating, banded = (
        sum(activation_bytes(small(windows=w), 2, 7, recompute=True).values())
        for w in ((None,), (None, 3), (3,))
    )
    assert dense < alternating == banded


@pytest.mark.parametrize(
    ("variant", "options", "message"),
    [
        (
            {},
            {"number_format": "float8"},
            "number_format='float8' must be one of",
        ),
        (
            {"norm_position": "post"},
            {},
            "norm_position='post' must be 'pre'",
        ),
        ({"dropout": 0.1}, {}, r"dropout=0\.1 must be 0"),
    ],
    ids=str,
)
def test_what_is_not_counted_is_refused(variant, options, message):
    with pytest.raises(ValueError, match=message):
        activation_bytes(small(**variant), 2, 7, **options)


# ------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("variant", VARIANTS[::4])
def test_training_holds_what_a_real_step_leaves(variant, optimizer):
    config = small(**{**variant, "norm_position": "pre"})
    model, ids = GPT(config), random_ids()
    counted = training_bytes(
        config, *ids.shape, number_format="float32", optimizer=optimizer
    )
    optimizers = build_optimizers(model, optimizer=optimizer, learning_rate=0.1)
    next_token_loss(model(ids), ids).backward()
    for each in optimizers:
        each.step()
    states = [s for each in optimizers for s in each.state.values()]
    assert counted == {
        "weights": sum(p.nbytes for p in model.parameters()),
        "gradients": sum(p.grad.nbytes for p in model.parameters()),
        "optimizer": sum(x.nbytes for s in states for n, x in s.items() if n != "step"),
        "activations": sum(activation_bytes(config, *ids.shape).values()),
        "loss": 2 * 4 * ids.numel() * V,
    }


def peak_bytes(step) -> int:
    """The most memory that a step holds beside what there was before it."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step()
    events = [
        e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"
    ]
    events.sort(key=lambda event: event.start_ns())
    return max(itertools.accumulate(event.nbytes() for event in events))


LARGE = {"vocab_size": 4096, "context_length": 64, "d_model": 32, "n_heads": 2}


@unchecked()
def held_at_most(config: GPTConfig, number_format: str, way: dict) -> int:
    """Of a whole pass, forward and back, into gradients that exist already."""
    model, ids = GPT(config), torch.zeros(4, config.context_length, dtype=torch.long)
    model.recompute = way.get("recompute", False)
    n_slices = way.get("loss_slices", 1)

    def total(model, inputs, targets):
        if n_slices == 1:
            return next_token_loss(model(inputs), targets, reduction="sum")
        hidden, weight = model.hidden(inputs), model.head_weight
        return sliced_next_token_loss(
            hidden, weight, targets, reduction="sum", n_slices=n_slices
        )

    def step() -> None:
        chosen = FORMATS[number_format]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=chosen is not None):
            loss = total(model, ids, ids)
        loss.backward()

    step()
    return peak_bytes(step)


@as_counted
@every_format
@pytest.mark.parametrize("n_layers", [1, 6])
@pytest.mark.parametrize(
    "way", [{}, {"recompute": True}, {"loss_slices": 2}, {"loss_slices": 8}], ids=str
)
def test_memory_at_its_fullest_is_what_a_step_really_takes(
    way, n_layers, number_format
):
    config = GPTConfig(**LARGE, n_layers=n_layers)
    counted = training_bytes(config, 4, number_format=number_format, **way)
    found = held_at_most(config, number_format, way)
    assert counted["activations"] + counted["loss"] == pytest.approx(found, rel=0.03)


@every_format
def test_compiled_the_logits_are_held_once_in_the_format_of_the_products(number_format):
    """And not three times in float32. The head's copy in 16 bits has a gradient of its own.

    `benchmarks/compiled_memory.py` measures it: what generated code holds differs by processor.
    """
    config = GPTConfig(**LARGE, n_layers=2)
    plain, compiled = (
        training_bytes(config, 4, number_format=number_format, compiled=way)
        for way in (False, True)
    )
    saved = {name: plain[name] - compiled[name] for name in plain}
    logits, head = 4 * 64 * 4096, 4096 * 32
    b = {"float32": 4, "bfloat16": 2}[number_format]
    total = 3 * 4 * logits - b * logits - (0 if b == 4 else b * head)
    assert sum(saved.values()) == saved["activations"] + saved["loss"] == total
    assert saved["activations"] == (4 - b) * logits


def test_training_takes_the_context_and_the_options_that_it_is_given():
    config = small()
    assert training_bytes(config, 2) == training_bytes(
        config, 2, SIZES["context_length"]
    )
    for options in ({"number_format": "float32"}, {"recompute": True}):
        kept = activation_bytes(
            config, 2, 7, **{"number_format": "bfloat16", **options}
        )
        assert training_bytes(config, 2, 7, **options)["activations"] == sum(
            kept.values()
        )
    with pytest.raises(ValueError, match="optimizer='sgd' must be 'adamw'"):
        training_bytes(config, 2, optimizer="sgd")


@given(shapes(context_length=30), st.integers(1, 4), st.integers(1, 30))
def test_the_cache_is_as_large_as_the_real_one(config, batch_size, length):
    model = on_paper(config)
    for dtype, n_bytes in ((torch.float32, 4), (torch.bfloat16, 2)):
        with unchecked():
            real = model.to(dtype).new_cache(batch_size, max_length=length)
        assert sum(layer.nbytes for layer in real) == cache_bytes(
            config, batch_size, length, bytes_per_number=n_bytes
        )


# --------------------------------------------------------------------------------------------- work

TOY = Device("toy", flops=100.0, bandwidth=10.0, memory=1.0)  # its ridge is at 10


@pytest.mark.parametrize(
    ("flops", "n_bytes", "intensity", "seconds"),
    [
        (1000, 10, 100, 10),  # arithmetic decides
        (1000, 100, 10, 10),  # on the ridge both take as long
        (1000, 1000, 1, 100),  # memory decides
        (1000, 101, 1000 / 101, 10.1),
        (1010, 100, 10.1, 10.1),
    ],
)
def test_the_slower_of_arithmetic_and_memory_decides(
    flops, n_bytes, intensity, seconds
):
    work = Work(flops, n_bytes)
    assert work.intensity == pytest.approx(intensity)
    assert work.seconds(TOY) == pytest.approx(seconds)


def test_work_is_written_out_from_the_counts():
    config = small(tied=False)
    counted = count_parameters(config)
    n = sum(counted.values())
    # Keys and values of 7 positions in 2 sequences; 10 channels of 19 and 9 rows are looked up.
    cache = 2 * 2 * 7 * SIZES["n_layers"] * SIZES["n_heads"] * 4
    read = n - SIZES["d_model"] * (V + SIZES["context_length"])
    assert decoding_work(config, 2, 7, bytes_per_number=4) == Work(
        2 * sum(count_flops(config, 1, past=7).values()), 4 * (cache + read)
    )
    tied = small()
    counted = count_parameters(tied)
    read = sum(counted.values()) - counted["positions"]
    assert decoding_work(tied, 1, 0).n_bytes == 2 * read


def test_decoding_waits_for_memory():
    config, device = PRESETS["gpt2-small"], DEVICES["H100"]
    ridge = device.flops / device.bandwidth
    writing = decoding_work(config, 8, 512)
    assert writing.intensity < ridge / 10
    assert writing.seconds(device) == writing.n_bytes / device.bandwidth


# -------------------------------------------------------------------------------------------- width


@unchecked()
def logits_of(config: GPTConfig, ids: Tensor) -> Tensor:
    return GPT(config, generator=torch.Generator().manual_seed(0))(ids)


@every_variant
def test_at_its_own_width_a_widened_model_is_the_same_function(variant):
    config, ids = small(**variant), random_ids()
    same = widened(config, config.d_model)
    assert torch.equal(logits_of(same, ids), logits_of(config, ids))


@given(shapes(), st.integers(1, 4), st.integers(1, 4))
def test_widths_grow_together_and_numbers_stay(config, first, second):
    wide = widened(config, first * config.d_model)
    assert wide.width_ratio == first
    assert wide.head_width == first * config.head_width
    if config.d_mlp is not None or config.activation != "swiglu":
        assert wide.mlp_width == first * config.mlp_width
    # It falls as 1 / K, from 1 / sqrt(K) where none was given.
    scale = config.attention_scale or config.head_width**-0.5
    assert wide.attention_scale == pytest.approx(scale / first)
    changed = {"d_model", "head_dim", "d_mlp", "base_width", "attention_scale"}
    for field in dataclasses.fields(config):
        if field.name not in changed:
            assert getattr(wide, field.name) == getattr(config, field.name)
    # In two steps as in one.
    twice, once = (
        widened(wide, first * second * config.d_model),
        widened(config, first * second * config.d_model),
    )
    assert twice.attention_scale == pytest.approx(once.attention_scale)
    assert dataclasses.replace(twice, attention_scale=None) == dataclasses.replace(
        once, attention_scale=None
    )


def test_a_model_can_be_narrowed():
    """The small model of a large one, on which to look for its learning rate."""
    config = PRESETS["llama2-7b"]
    narrow = widened(config, 256)
    assert (narrow.n_heads, narrow.head_width, narrow.mlp_width) == (32, 8, 688)
    assert (narrow.base_width, narrow.width_ratio) == (4096, 1 / 16)


@pytest.mark.parametrize("d_model", [0, 1, 11, -10])
def test_heads_that_would_not_be_whole_are_named(d_model):
    message = (
        f"d_model={d_model} cannot work: heads of 4 at 10 would be .* keep it whole"
    )
    with pytest.raises(ValueError, match=message):
        widened(small(), d_model)
