"""The block: residual wiring, before or after the norms."""

import pytest
import torch
from ladder import PRECISIONS, compare, normal, randomize, results
from torch import nn

from decoder_only.model.block import Block
from decoder_only.model.mlp import MLP, SwiGLU
from decoder_only.model.multihead import MultiHeadAttention
from decoder_only.model.normalization import LayerNorm, RMSNorm

B, S, D, H, F = 2, 7, 12, 3, 17
every_precision = pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
both_orders = pytest.mark.parametrize(
    "pre_norm", [True, False], ids=["pre-norm", "post-norm"]
)


def make(
    *, pre_norm: bool = True, llama: bool = False, dtype=torch.float64, dropout=0.0
) -> Block:
    norm = RMSNorm if llama else LayerNorm
    mlp = (
        SwiGLU(d_model=D, d_mlp=F)
        if llama
        else MLP(d_model=D, d_mlp=F, activation="gelu_tanh")
    )
    block = Block(
        attention=MultiHeadAttention(
            d_model=D, n_heads=H, rotary_base=100.0 if llama else None
        ),
        mlp=mlp,
        attention_norm=norm(d_model=D),
        mlp_norm=norm(d_model=D),
        pre_norm=pre_norm,
        dropout=dropout,
    )
    return randomize(block.to(dtype)).eval()


@every_precision
@pytest.mark.parametrize("llama", [False, True])
@both_orders
def test_block_equals_its_formula(pre_norm, llama, dtype):
    block = make(pre_norm=pre_norm, llama=llama, dtype=dtype)
    x = normal(B, S, D, seed=2, dtype=dtype)
    first, second = block.attention_norm, block.mlp_norm
    if pre_norm:
        middle = x + block.attention(first(x))
        expected = middle + block.mlp(second(middle))
    else:
        middle = first(x + block.attention(x))
        expected = second(middle + block.mlp(middle))
    leaves = [x, *block.parameters()]
    compare(
        "block = its formula", results(block(x), *leaves), results(expected, *leaves)
    )


@every_precision
def test_post_norm_block_equals_pytorchs_encoder_layer(dtype):
    ours = make(pre_norm=False, dtype=dtype)
    ours.mlp.activation = nn.functional.relu
    theirs = nn.TransformerEncoderLayer(D, H, F, dropout=0.0, batch_first=True).to(
        dtype
    )
    x = normal(B, S, D, seed=3, dtype=dtype)
    compare(
        *climb(ours, theirs, x, "post-norm block = torch.nn.TransformerEncoderLayer")
    )


@every_precision
def test_pre_norm_block_equals_pytorchs_encoder_layer(dtype):
    ours = make(dtype=dtype)
    ours.mlp.activation = nn.functional.relu
    theirs = nn.TransformerEncoderLayer(
        D, H, F, dropout=0.0, batch_first=True, norm_first=True
    ).to(dtype)
    x = normal(B, S, D, seed=3, dtype=dtype)
    compare(
        *climb(ours, theirs, x, "pre-norm block = torch.nn.TransformerEncoderLayer")
    )


def climb(ours: Block, theirs: nn.TransformerEncoderLayer, x: torch.Tensor, rung: str):
    """The rung and both sides: output, gradient at the input, gradients of all weights."""

    def renamed(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        names = {
            "attention_norm": "norm1",
            "mlp_norm": "norm2",
            "mlp.up": "linear1",
            "mlp.down": "linear2",
            "attention.output": "self_attn.out_proj",
        }
        renamed = {}
        for kind in ("weight", "bias"):
            renamed[f"self_attn.in_proj_{kind}"] = torch.cat(
                [
                    tensors[f"attention.{part}.{kind}"]
                    for part in ("query", "key", "value")
                ]
            )
            for name, other in names.items():
                renamed[f"{other}.{kind}"] = tensors[f"{name}.{kind}"]
        return renamed

    theirs.load_state_dict(renamed(ours.state_dict()))
    later = torch.ones(S, S, dtype=torch.bool).triu(1)
    sides = []
    for module, output in [(ours, ours(x)), (theirs, theirs(x, src_mask=later))]:
        output, gradient, *gradients = results(output, x, *module.parameters())
        named = dict(zip(dict(module.named_parameters()), gradients, strict=True))
        named = renamed(named) if module is ours else named
        sides.append({"output": output, "x": gradient, **named})
    return rung, *sides


@every_precision
def test_block_equals_hugging_faces_gpt2_block(dtype):
    modeling = pytest.importorskip("transformers.models.gpt2.modeling_gpt2")
    from transformers import GPT2Config

    from decoder_only.hub import from_gpt2, to_gpt2

    config = GPT2Config(
        n_embd=D,
        n_head=H,
        n_inner=F,
        resid_pdrop=0,
        attn_pdrop=0,
        attn_implementation="eager",
    )
    theirs = modeling.GPT2Block(config, layer_idx=0).to(dtype)
    ours = make(dtype=dtype)
    # The table speaks of whole models: give it empty surroundings, and take the block out again.
    around = {
        "embedding.weight": torch.zeros(1, D, dtype=dtype),
        "positions.weight": torch.zeros(1, D, dtype=dtype),
        "final_norm.weight": torch.ones(D, dtype=dtype),
        "final_norm.bias": torch.zeros(D, dtype=dtype),
    }
    whole = to_gpt2(
        around | {f"blocks.0.{name}": x for name, x in ours.state_dict().items()}
    )
    prefix = "transformer.h.0."
    theirs.load_state_dict(
        {
            name.removeprefix(prefix): x
            for name, x in whole.items()
            if name.startswith(prefix)
        }
    )
    x = normal(B, S, D, seed=4, dtype=dtype)
    later = torch.full((S, S), torch.finfo(dtype).min, dtype=dtype).triu(1)
    output = theirs(x, attention_mask=later[None, None])
    output, gradient, *gradients = results(
        output[0] if isinstance(output, tuple) else output, x, *theirs.parameters()
    )
    names = [prefix + name for name, _ in theirs.named_parameters()]
    around = {
        name: tensor for name, tensor in whole.items() if not name.startswith(prefix)
    }
    named = from_gpt2(around | dict(zip(names, gradients, strict=True)))
    expected = {name: named[f"blocks.0.{name}"] for name, _ in ours.named_parameters()}
    actual = results(ours(x), x, *ours.parameters())
    compare(
        "block = Hugging Face's GPT2Block",
        actual,
        [output, gradient, *expected.values()],
    )


# --------------------------------------------------------------------------------------- properties


def test_parts_that_add_nothing_leave_the_stream_alone():
    block = make()
    for linear in (block.attention.output, block.mlp.down):
        nn.init.zeros_(linear.weight)
        nn.init.zeros_(linear.bias)
    x = normal(B, S, D, seed=5)
    output, gradient = results(block(x), x)
    assert torch.equal(output, x)
    assert torch.equal(gradient, results(x * 1, x)[1])


@both_orders
def test_post_norm_ends_on_a_norm_and_pre_norm_does_not(pre_norm):
    block = make(pre_norm=pre_norm)
    nn.init.ones_(block.mlp_norm.weight)
    nn.init.zeros_(block.mlp_norm.bias)
    out = block(10 * normal(B, S, D, seed=6, grad=False))
    normalized = (out.var(-1, correction=0) - 1).abs().max() < 1e-3
    assert normalized != pre_norm


@pytest.mark.parametrize("llama", [False, True])
@both_orders
def test_only_attention_mixes_positions(pre_norm, llama):
    block = make(pre_norm=pre_norm, llama=llama)
    x = normal(B, S, D, seed=7)
    noise = normal(B, S, D, seed=8, grad=False)

    def reached(b: int, s: int) -> torch.Tensor:
        (gradient,) = torch.autograd.grad((block(x) * noise)[b, s].sum(), x)
        return gradient.abs().amax(-1) > 0

    for s in range(S):
        expected = torch.zeros(B, S, dtype=torch.bool)
        expected[1, : s + 1] = True
        assert torch.equal(reached(1, s), expected)
    nn.init.zeros_(
        block.attention.output.weight
    )  # attention now says the same to everyone
    for s in range(S):
        expected = torch.zeros(B, S, dtype=torch.bool)
        expected[1, s] = True
        assert torch.equal(reached(1, s), expected)


@pytest.mark.parametrize("part", ["attention", "mlp"])
def test_dropout_acts_on_what_each_part_adds(part):
    block = make(dropout=0.25)
    for name, linear in [
        ("attention", block.attention.output),
        ("mlp", block.mlp.down),
    ]:
        nn.init.zeros_(linear.weight)
        nn.init.constant_(linear.bias, 3.0 if name == part else 0.0)
    x = normal(50, S, D, seed=9, grad=False)
    assert torch.equal(block(x), x + 3)
    torch.manual_seed(0)
    added = (block.train()(x) - x).round(decimals=9)
    assert added.unique().tolist() == [0, 4]  # dropped, or 3 / (1 - 0.25)
    assert (added == 0).double().mean().item() == pytest.approx(0.25, abs=0.02)
