"""Published weights: names and layouts, both directions."""

import json

import pytest
import torch
from ladder import SIZES, V, build, compare, random_ids

from decoder_only import GPT, GPTConfig
from decoder_only.presets import PRESETS
from decoder_only.pretrained import (
    from_gpt2,
    from_llama,
    gpt2_config,
    llama_config,
    to_gpt2,
    to_llama,
)

GPT2 = {"n_heads": 2, "head_dim": None, "d_mlp": 17}
LLAMA = {
    "d_model": 18,
    "n_kv_heads": 3,
    "d_mlp": 17,
    "positions": "rotary",
    "norm": "rms",
    "activation": "swiglu",
    "bias": False,
    "tied": False,
}
BOTH = pytest.mark.parametrize(
    ("settings", "forth", "back"),
    [(GPT2, to_gpt2, from_gpt2), (LLAMA, to_llama, from_llama)],
    ids=["GPT-2", "Llama"],
)


def hugging_face(name: str):
    """An empty model of theirs of the same sizes as ours."""
    transformers = pytest.importorskip("transformers")
    if name == "GPT-2":
        return transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=V,
                n_positions=SIZES["context_length"],
                n_embd=SIZES["d_model"],
                n_layer=SIZES["n_layers"],
                n_head=2,
                n_inner=17,
                bos_token_id=0,
                eos_token_id=0,
            )
        )
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=V,
            max_position_embeddings=SIZES["context_length"],
            hidden_size=18,
            intermediate_size=17,
            num_hidden_layers=SIZES["n_layers"],
            num_attention_heads=SIZES["n_heads"],
            num_key_value_heads=3,
            head_dim=4,
            rms_norm_eps=1e-5,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


# ---------------------------------------------------------------------------------- both directions


@BOTH
def test_there_and_back_changes_nothing(settings, forth, back):
    ours = build(**settings).state_dict()
    before = {name: tensor.clone() for name, tensor in ours.items()}
    theirs = forth(ours)
    again = back(theirs)
    assert set(again) == set(ours)
    for name, tensor in before.items():
        assert torch.equal(again[name], tensor), name
        assert torch.equal(ours[name], tensor), f"{name} was changed"
        assert again[name].is_contiguous()
    for name, tensor in forth(again).items():
        assert torch.equal(theirs[name], tensor), name
        assert tensor.is_contiguous()


@pytest.mark.parametrize(
    ("name", "settings", "forth"),
    [("GPT-2", GPT2, to_gpt2), ("Llama", LLAMA, to_llama)],
)
def test_our_weights_in_their_model_equal_our_model(name, settings, forth):
    """The way out; the way in, with gradients, is a rung of the whole model's ladder."""
    ours, theirs = build(torch.float32, **settings), hugging_face(name).eval()
    theirs.load_state_dict(forth(ours.state_dict()), strict=True)
    compare(
        f"our weights in Hugging Face's {name}",
        theirs(random_ids()).logits,
        ours(random_ids()),
    )


def test_fused_projections_by_hand():
    ours = build(**GPT2).state_dict()
    theirs = to_gpt2(ours)
    fused = theirs["transformer.h.1.attn.c_attn.weight"]
    d = SIZES["d_model"]
    assert fused.shape == (d, 3 * d)
    for i, part in enumerate(("query", "key", "value")):
        columns = slice(i * d, i * d + d)
        name = f"blocks.1.attention.{part}"
        assert torch.equal(fused[:, columns], ours[f"{name}.weight"].T)
        bias = theirs["transformer.h.1.attn.c_attn.bias"][columns]
        assert torch.equal(bias, ours[f"{name}.bias"])


def test_the_published_file_is_understood():
    """Without a prefix, without a head, and with the causal mask among the weights."""
    ours = build(**GPT2).state_dict()
    published = {
        name.removeprefix("transformer."): x for name, x in to_gpt2(ours).items()
    }
    del published["lm_head.weight"]
    for layer in range(SIZES["n_layers"]):
        published[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 9, 9).tril()
        published[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    read = from_gpt2(published)
    assert set(read) == set(ours)
    assert all(torch.equal(read[name], ours[name]) for name in ours)
    assert "h.0.attn.bias" in published, "the caller's dictionary was changed"


def test_old_llama_files_and_shared_heads_are_understood():
    ours = build(**{**LLAMA, "tied": True}).state_dict()
    published = to_llama(ours)
    published["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(2)
    del published["lm_head.weight"]
    read = from_llama(published)
    assert "head.weight" not in read
    assert set(read) == set(ours)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_dtypes_are_kept(dtype):
    read = from_gpt2(to_gpt2(build(dtype, **GPT2).state_dict()))
    assert {tensor.dtype for tensor in read.values()} == {dtype}


def test_many_blocks_keep_their_numbers():
    """Block 10 comes after block 9, and not after block 1."""
    ours = build(**GPT2, n_layers=12).state_dict()
    read = from_gpt2(to_gpt2(ours))
    assert all(torch.equal(read[name], ours[name]) for name in ours)


# -------------------------------------------------------------------------- weights that do not fit


def spoilt(change) -> dict[str, torch.Tensor]:
    weights = to_gpt2(build(**GPT2).state_dict())
    change(weights)
    return weights


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda w: w.pop("transformer.h.1.ln_2.bias"),
            r"missing h\.1\.ln_2\.bias; unexpected nothing",
        ),
        (
            lambda w: w.update({"transformer.h.1.attn.rotary": torch.ones(1)}),
            r"missing nothing; unexpected h\.1\.attn\.rotary",
        ),
        (
            lambda w: [w.pop(name) for name in list(w) if ".h.1." in name],
            r"missing h\.1\.ln_1\.weight, .* and 8 more; unexpected nothing",
        ),
        (
            lambda w: w.clear(),
            r"missing wte\.weight, .* and 12 more; unexpected nothing",
        ),
        (
            lambda w: w.update({"transformer.h.1.mlp.c_fc.weight": torch.ones(17, 10)}),
            r"h\.1\.mlp\.c_fc\.weight has f = 10, but h\.0\.mlp\.c_fc\.weight has f = 17",
        ),
        (
            lambda w: w.update(
                {"transformer.h.0.attn.c_attn.weight": torch.ones(10, 31)}
            ),
            r"h\.0\.attn\.c_attn\.weight has shape \(10, 31\).*fit \[d \(n hk\), n = 3\]",
        ),
        (
            lambda w: w.update(
                {"transformer.h.0.attn.c_attn.weight": torch.ones(10, 33)}
            ),
            r"h\.1\.attn\.c_attn\.weight has hk = 10, but h\.0\.attn\.c_attn\.weight has hk = 11",
        ),
        (
            lambda w: w.update({"transformer.ln_f.weight": torch.ones(10, 1)}),
            r"ln_f\.weight has shape \(10, 1\), which does not fit \[d\]",
        ),
        (
            lambda w: w.update({"lm_head.weight": torch.ones(V + 1, 10)}),
            r"lm_head\.weight has v = 20, but wte\.weight has v = 19",
        ),
    ],
    ids=[
        "missing",
        "unexpected",
        "a whole block",
        "everything",
        "transposed",
        "not three",
        "another width",
        "another rank",
        "another vocabulary",
    ],
)
def test_weights_that_do_not_fit_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        from_gpt2(spoilt(change))


@pytest.mark.parametrize(
    ("convert", "settings", "message"),
    [
        (
            to_gpt2,
            LLAMA,
            r"missing positions\.weight, .*; unexpected blocks\.0\.mlp\.gate\.weight",
        ),
        (
            to_gpt2,
            {**GPT2, "positions": "rotary", "head_dim": 4},
            r"missing positions\.weight; ",
        ),
        (
            to_gpt2,
            {**GPT2, "norm": "rms"},
            r"missing blocks\.0\.attention_norm\.bias, ",
        ),
        (
            to_gpt2,
            {**GPT2, "n_kv_heads": 1},
            r"key\.weight has hk = 5, but blocks\.0\.attention\.query\.weight has hk = 10",
        ),
        (
            to_llama,
            GPT2,
            r"missing blocks\.0\.mlp\.gate\.weight, .*; unexpected blocks\.0\.",
        ),
        (
            to_llama,
            {**LLAMA, "qk_norm": True},
            r"unexpected blocks\.0\.attention\.key_norm",
        ),
        (to_llama, {**LLAMA, "norm_position": "post"}, r"missing final_norm\.weight; "),
    ],
)
def test_other_variants_have_no_such_names(convert, settings, message):
    with pytest.raises(ValueError, match=message):
        convert(build(**settings).state_dict())


# ----------------------------------------------------------------------------------------- settings

GPT2_SMALL = {  # what the published file says, as far as it shapes the model
    "activation_function": "gelu_new",
    "attn_pdrop": 0.1,
    "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2",
    "n_ctx": 1024,
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
}
LLAMA_2 = {
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "max_position_embeddings": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 32,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "tie_word_embeddings": False,
    "vocab_size": 32000,
}


def test_gpt2_settings():
    config = gpt2_config(json.loads(json.dumps(GPT2_SMALL)))
    assert config == GPTConfig(
        vocab_size=50257, context_length=1024, d_model=768, n_layers=12, n_heads=12
    )
    assert config == PRESETS["gpt2-small"]
    assert gpt2_config({**GPT2_SMALL, "layer_norm_epsilon": 1e-6}).norm_eps == 1e-6


def test_llama_settings():
    config = llama_config(json.loads(json.dumps(LLAMA_2)))
    with torch.device("meta"):
        model = GPT(config)
    assert model.count_parameters() == 6_738_415_616  # "7B"
    assert set(to_llama(model.state_dict())) >= {"lm_head.weight", "model.norm.weight"}
    assert llama_config({**LLAMA_2, "rope_theta": 5e5}).position_base == 5e5
    newer = {**LLAMA_2, "rope_parameters": {"rope_type": "default", "rope_theta": 7e5}}
    assert llama_config(newer).position_base == 7e5
    assert llama_config({**LLAMA_2, "num_key_value_heads": 8}).n_kv_heads == 8
    assert llama_config({**LLAMA_2, "rms_norm_eps": 1e-4}).norm_eps == 1e-4
    silent = {key: x for key, x in LLAMA_2.items() if key != "rms_norm_eps"}
    assert llama_config(silent).norm_eps == 1e-6


@pytest.mark.parametrize(
    ("read", "settings", "message"),
    [
        (
            gpt2_config,
            GPT2_SMALL | {"activation_function": "relu"},
            r"activation_function='relu'",
        ),
        (
            gpt2_config,
            {"n_embd": 768},
            r"the settings lack 'vocab_size'; they hold n_embd",
        ),
        (
            llama_config,
            LLAMA_2 | {"attention_bias": True},
            r"attention_bias=True asks for another",
        ),
        (
            llama_config,
            LLAMA_2 | {"rope_scaling": {"rope_type": "llama3"}},
            r"rope_type='llama3'",
        ),
        (
            llama_config,
            LLAMA_2 | {"rope_scaling": {"type": "linear"}},
            r"type='linear'",
        ),
    ],
)
def test_settings_that_ask_for_another_model_are_named(read, settings, message):
    with pytest.raises(ValueError, match=message):
        read(settings)
