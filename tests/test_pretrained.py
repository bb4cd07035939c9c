"""Published weights: names and layouts, both directions."""

import contextlib
import io
import json
import math
import os
import re
import shutil
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ladder import SIZES, V, build, compare, examples, random_ids, unchecked

from decoder_only import GPT, GPTConfig
from decoder_only.data.prepared import prepare
from decoder_only.hub import (
    export,
    from_gpt2,
    from_llama,
    gpt2_config,
    llama_config,
    load,
    to_gpt2,
    to_llama,
)
from decoder_only.hub.folder import PUBLISHED, load_model, read_config
from decoder_only.model.presets import PRESETS
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import (
    GPT2_BYTE_ORDER,
    GPT2_PATTERN,
    BytePairTokenizer,
    gpt2_tokenizer,
)
from decoder_only.tokenization.exchange import to_tokenizers
from decoder_only.training.checkpoint import create_run, save
from decoder_only.variants.encoders import Encoder

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
    assert llama_config({**LLAMA_2, "num_key_value_heads": 8}).kv_heads == 8
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
            r"attention_bias=True must be False",
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
        (llama_config, LLAMA_2 | {"mlp_bias": "yes"}, r"mlp_bias='yes'"),
        (llama_config, LLAMA_2 | {"rope_parameters": 3}, r"rope_parameters=3"),
        (llama_config, LLAMA_2 | {"hidden_act": ["silu"]}, r"hidden_act=\['silu'\]"),
        (llama_config, LLAMA_2 | {"hidden_act": "gelu"}, r"one of silu, relu"),
    ],
)
def test_settings_that_ask_for_another_model_are_named(read, settings, message):
    with pytest.raises(ValueError, match=message):
        read(settings)


# ------------------------------------------------------------------------------------------ folders

ROTARY = {"d_model": 18, "positions": "rotary", "norm": "rms", "bias": False}
FAMILIES = {
    "gpt2": GPT2,
    "gpt2, a head of its own": {**GPT2, "tied": False},
    "llama": LLAMA,
    "llama, squared ReLU": {**ROTARY, "activation": "squared_relu"},
    "qwen3": {**LLAMA, "qk_norm": True, "tied": True, "position_base": 500.0}
    | {"norm_eps": 1e-2},
    # What `decoder-only train` makes by default.
    "qwen3, squared ReLU": {**ROTARY, "activation": "squared_relu", "qk_norm": True},
}
every_family = pytest.mark.parametrize("kind", FAMILIES.values(), ids=FAMILIES)


@pytest.fixture(scope="module")
def tokenizer():
    stories = list(islice(StoryLanguage.hamlet().stories(), 60))
    return BytePairTokenizer.train(stories, 400)


@pytest.fixture(scope="module")
def unseen() -> str:
    """Stories that the tokenizer was not trained on."""
    return "\n".join(islice(StoryLanguage().stories(seed=3), 20))


def with_room(kind, tokenizer, **others) -> GPT:
    """A model with random weights for all of the tokenizer's tokens, and for a few more."""
    vocab_size = tokenizer.vocab_size + 3
    return build(torch.float32, **kind, vocab_size=vocab_size, **others)


@every_family
def test_transformers_opens_the_folder_and_computes_the_same(
    kind, tokenizer, unseen, tmp_path
):
    transformers = pytest.importorskip("transformers", reason="compares with it")
    ours = with_room(kind, tokenizer)
    export(ours, tokenizer, tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ids = tokenizer.encode(unseen)
    assert reader(unseen).input_ids == ids
    assert reader.decode(ids) == unseen
    end = tokenizer.special_tokens["<|endoftext|>"]
    assert reader("a<|endoftext|>").input_ids == [*tokenizer.encode("a"), end]
    assert reader.eos_token_id == theirs.config.eos_token_id == end
    batch = torch.tensor(ids[:18]).view(2, 9)
    assert theirs.config.max_position_embeddings == batch.shape[1]
    compare("a run in transformers", theirs.eval()(batch).logits, ours(batch))


def in_numbers(config: GPTConfig) -> GPTConfig:
    """The same with all sizes given, as folders hold them."""
    sizes = {"n_kv_heads": config.kv_heads, "head_dim": config.head_width}
    return replace(config, **sizes, d_mlp=config.mlp_width)


@every_family
def test_a_folder_read_back_is_the_same_bit_for_bit(kind, tokenizer, tmp_path):
    ours = with_room(kind, tokenizer, dropout=0.1, initialization="zero")
    export(ours, tokenizer, tmp_path / "a" / "folder")
    again = load_model(str(tmp_path / "a" / "folder"))
    before = replace(ours.config, dropout=0.0, initialization="gpt2")
    assert in_numbers(again.config) == in_numbers(before)
    assert not again.training
    state, before = again.state_dict(), ours.state_dict()
    assert list(state) == list(before)
    assert all(torch.equal(state[name], before[name]) for name in before)
    assert all(parameter.requires_grad for parameter in again.parameters())
    ids = torch.arange(9)[None]
    assert torch.equal(again(ids), ours.eval()(ids))
    assert load(tmp_path / "a" / "folder")[1] == tokenizer


def test_of_a_folder_written_again_nothing_old_remains(tokenizer, tmp_path):
    export(with_room(GPT2, tokenizer), tokenizer, tmp_path)
    export(with_room(LLAMA, tokenizer), None, tmp_path, overwrite=True)
    assert load(tmp_path)[1] is None
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"config.json", "model.safetensors"}


def test_the_model_alone_can_have_any_tokenizer(tokenizer, tmp_path):
    ours = with_room(LLAMA, tokenizer)
    # A folder may have the name of a published model, and hold another.
    folder = tmp_path / "gpt2-small"
    export(ours, tokenizer, folder)
    (folder / "tokenizer.json").write_text('{"model": {"type": "Unigram"}}')
    with pytest.raises(ValueError, match=r"\.load_model reads the model"):
        load(folder)
    assert in_numbers(load_model(folder).config) == in_numbers(ours.config)


def test_the_dtype_is_kept(tokenizer, tmp_path):
    export(with_room(LLAMA, tokenizer).to(torch.bfloat16), None, tmp_path)
    assert {x.dtype for x in load(tmp_path)[0].parameters()} == {torch.bfloat16}
    assert load(tmp_path)[1] is None
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "bfloat16"


@BOTH
def test_translated_weights_can_be_stored_though_the_head_is_tied(
    settings, forth, back, tmp_path
):
    theirs = forth(build(**{**settings, "tied": True}).state_dict())
    safetensors.torch.save_file(theirs, tmp_path / "weights.safetensors")
    again = safetensors.torch.load_file(tmp_path / "weights.safetensors")
    assert all(torch.equal(again[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ({**GPT2, "soft_cap": 15.0}, r"soft_cap=15.0 has no place in a gpt2 model of"),
        ({**GPT2, "windows": (None, 4)}, r"windows=\(None, 4\) .* windows=\(None,\)"),
        ({**GPT2, "norm_position": "post"}, r"norm_position='post' .* 'pre'|='pre'"),
        ({**GPT2, "attention_scale": 0.1}, r"attention_scale=0.1 has no place"),
        ({**GPT2, "base_width": 5}, r"base_width=5 has no place"),
        ({**GPT2, "activation": "gelu"}, r"activation='gelu' .*='gelu_tanh'"),
        ({**GPT2, "norm": "rms"}, r"norm='rms' has no place"),
        ({**GPT2, "bias": False}, r"bias=False has no place"),
        ({**GPT2, "qk_norm": True}, r"qk_norm=True has no place in a gpt2"),
        ({**GPT2, "n_kv_heads": 1}, r"n_kv_heads=1 has no place in a gpt2"),
        ({**GPT2, "head_dim": 3}, r"head_dim=3 has no place in a gpt2"),
        ({**LLAMA, "bias": True}, r"bias=True has no place in a llama"),
        ({**LLAMA, "norm": "layer"}, r"norm='layer' has no place in a llama"),
        (
            {**ROTARY, "activation": "gelu"},
            r"activation='gelu' has no place in a llama",
        ),
        ({**ROTARY, "positions": "none"}, r"positions='none' has no place"),
    ],
)
def test_what_no_family_computes_is_refused_by_its_setting(kind, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        export(build(**kind), None, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (GPT2, {"windows": (None, None)}),
        (GPT2, {"windows": (SIZES["context_length"],)}),  # as long as positions go
        (GPT2, {"position_base": 5e5}),  # of which learned positions have none
        (GPT2, {"attention_scale": 1 / math.sqrt(SIZES["d_model"] // 2)}),
        (GPT2, {"base_width": SIZES["d_model"]}),
        (GPT2, {"n_kv_heads": 2}),
        (LLAMA, {"windows": (None,) * 5}),
    ],
    ids=str,
)
def test_what_means_the_same_is_exported_alike(kind, said, tmp_path):
    plain, other = build(**kind), build(**kind, **said)
    for name, model in (("plain", plain), ("other", other)):
        export(model, None, tmp_path / name)
    ids = random_ids()
    compare("read back", load_model(tmp_path / "other")(ids), other(ids))
    texts = [
        (tmp_path / name / "config.json").read_text() for name in ("plain", "other")
    ]
    assert texts[0] == texts[1]


def test_models_that_look_both_ways_are_not_exported(tmp_path):
    with pytest.raises(ValueError, match=r"model=.*Encoder.* must be GPT"):
        export(Encoder(GPTConfig(**SIZES, head_dim=4)), None, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_export_does_not_write_over_files_unasked(tokenizer, tmp_path):
    model = with_room(GPT2, tokenizer)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="is not empty"):
        export(model, tokenizer, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    export(model, tokenizer, tmp_path, overwrite=True)
    other = with_room(LLAMA, tokenizer)
    export(other, tokenizer, tmp_path, overwrite=True)
    assert in_numbers(load_model(tmp_path).config) == in_numbers(other.config)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    small = build(**GPT2)
    with pytest.raises(ValueError, match=r"vocab_size=400 .* at most the model's 19"):
        export(small, tokenizer, tmp_path / "small")


@pytest.mark.parametrize("kind", ["run", "prepared text"])
def test_export_never_destroys_a_run_or_prepared_text(kind, tokenizer, tmp_path):
    model, folder = with_room(GPT2, tokenizer), tmp_path / "d"
    if kind == "run":
        create_run(folder, model_config=model.config, tokenizer=tokenizer)
    else:
        prepare(io.StringIO("a text " * 9), folder, tokenizer=tokenizer)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(FileExistsError, match="d holds a run, or prepared tokens"):
        export(model, tokenizer, folder, overwrite=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_an_export_is_written_into_its_folder_and_nowhere_else(tokenizer, tmp_path):
    """Not through a link; and what others may read is up to the user's mask, for all files."""
    folder, victim = tmp_path / "folder", tmp_path / "victim"
    export(with_room(GPT2, tokenizer), tokenizer, folder)
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1
    victim.write_bytes(b"precious")
    for path in list(folder.iterdir()):
        path.unlink()
        for link in (path, path.with_name(f".{path.name}.part")):
            link.symlink_to(victim)
    export(with_room(GPT2, tokenizer), tokenizer, folder, overwrite=True)
    assert victim.read_bytes() == b"precious"
    assert not any(path.is_symlink() for path in folder.iterdir())


def test_of_an_export_to_a_full_disk_nothing_is_left(tokenizer, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"cannot write into .*folder: No space left"):
        export(with_room(GPT2, tokenizer), tokenizer, tmp_path / "folder")
    assert not any(tmp_path.iterdir())


def test_a_folder_that_was_not_finished_is_no_model(tokenizer, tmp_path, monkeypatch):
    model = with_room(GPT2, tokenizer)
    export(model, tokenizer, tmp_path)

    def full(*_, **__):
        raise OSError("the disk is full")

    monkeypatch.setattr("decoder_only.hub.folder.write_tensors", full)
    with pytest.raises(OSError, match="full"):
        export(model, tokenizer, tmp_path, overwrite=True)
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        load(tmp_path)


def in_parts(folder: Path, n: int = 3) -> None:
    """Cuts the weights of a folder into several files with an index, as large models come."""
    whole = folder / "model.safetensors"
    weights = safetensors.torch.load_file(whole)
    whole.unlink()
    names = sorted(weights)
    places = {name: f"part-{i % n}.safetensors" for i, name in enumerate(names)}
    for file in set(places.values()):
        part = {name: weights[name] for name in names if places[name] == file}
        safetensors.torch.save_file(part, folder / file)
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_weights_in_several_files(tokenizer, tmp_path):
    ours = with_room(LLAMA, tokenizer)
    export(ours, None, tmp_path)
    in_parts(tmp_path)
    again = load_model(tmp_path).state_dict()
    assert all(torch.equal(again[name], x) for name, x in ours.state_dict().items())
    (tmp_path / "part-1.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"part-1\.safetensors"):
        load(tmp_path)


@pytest.mark.parametrize(
    "place", ["../part.safetensors", "/etc/passwd", "", "weights.bin", 3, None, {}]
)
def test_weights_lie_in_the_folder(place, tokenizer, tmp_path):
    export(with_room(LLAMA, tokenizer), None, tmp_path)
    in_parts(tmp_path)
    index = {"weight_map": {"model.norm.weight": place}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match=r"weight_map=.* must be a table of files"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_embd": 20}, r"wte\.weight has d = 10, but config\.json has d = 20"),
        ({"n_layer": 4}, r"missing h\.3\.ln_1\.weight"),
        ({"n_layer": 2}, r"unexpected h\.2\.attn"),
        ({"n_layer": 2**15}, r"missing h\.3\.ln_1\.weight"),
        ({"n_layer": 2**30}, "n_layers=1073741824 must be"),
        ({"n_positions": 2**30}, r"wpe\.weight has s = 9, but config\.json has s = 1"),
        ({"n_inner": None}, r"f = 17, but config\.json has f = 40"),
        ({"vocab_size": 20}, r"wte\.weight has v = 19, but config\.json has v = 20"),
        ({"tie_word_embeddings": False}, r"missing lm_head\.weight"),
        ({"model_type": "bert"}, r"model_type='bert' .* one of gpt2, llama, qwen3"),
        ({"model_type": ["gpt2"]}, r"model_type="),
        ({"n_head": 3}, r"d_model=10 must"),
    ],
)
def test_settings_are_compared_with_the_file_before_a_weight_is_read(
    change, message, tmp_path, monkeypatch
):
    export(build(**GPT2).to(torch.float32), None, tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))

    class Closed:
        """A file that can be asked what it holds, and not for the weights."""

        def __init__(self, *args, **options):
            self.file = safetensors.safe_open(*args, **options)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def keys(self):
            return self.file.keys()

        def get_slice(self, name):
            return self.file.get_slice(name)

    monkeypatch.setattr("decoder_only.hub.folder.safe_open", Closed)
    with pytest.raises(ValueError, match=message) as caught:
        load(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_weights_that_ask_for_another_model(tmp_path):
    def spoil(kind, change):
        export(build(**kind).to(torch.float32), None, tmp_path, overwrite=True)
        weights = safetensors.torch.load_file(tmp_path / "model.safetensors")
        change(weights)
        safetensors.torch.save_file(weights, tmp_path / "model.safetensors")
        return pytest.raises(ValueError, match="cannot be read")

    gate = "model.layers.1.mlp.gate_proj.weight"
    with spoil(FAMILIES["llama, squared ReLU"], lambda w: w[gate].add_(1)) as caught:
        load(tmp_path)
    assert "hidden_act='relu' must be without a gate" in str(caught)
    head = {"lm_head.weight": torch.ones(V, 10)}
    with spoil(GPT2, lambda w: w.update(head)) as caught:
        load(tmp_path)
    assert "lm_head.weight" in str(caught)
    half = {"ln_f.bias": torch.ones(10).half()}
    with spoil(GPT2, lambda w: w.update(half)) as caught:
        load(tmp_path)
    assert "the same for all" in str(caught)
    whole = {"ln_f.bias": torch.ones(10, dtype=torch.int8)}
    with spoil(GPT2, lambda w: w.update(whole)) as caught:
        load(tmp_path)
    assert "one of BF16, F16, F32, F64, the same" in str(caught)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors"):
        load(tmp_path)


@pytest.mark.parametrize("kind", [GPT2, FAMILIES["llama, squared ReLU"]])
def test_weights_that_are_no_numbers_are_read_as_they_are(kind, tmp_path):
    """NaN is not equal to NaN, but a copy of it is a copy."""
    model = build(torch.float32, **kind)
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, torch.nan)
    export(model, None, tmp_path)
    weights = safetensors.torch.load_file(tmp_path / "model.safetensors")
    if kind == GPT2:
        weights["lm_head.weight"] = weights["wte.weight"].clone()
    safetensors.torch.save_file(weights, tmp_path / "model.safetensors")
    assert load(tmp_path)[0].embedding.weight.isnan().all()


def test_settings_are_read_without_weights_and_tokenizer(tokenizer, tmp_path):
    model = with_room(GPT2, tokenizer)
    export(model, tokenizer, tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "tokenizer.json").write_text('{"normalizer": {"type": "NFC"}}')
    assert read_config(tmp_path) == model.config


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_pipe_is_refused_before_it_is_opened(name, tokenizer, tmp_path):
    export(with_room(GPT2, tokenizer), tokenizer, tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises((ValueError, OSError), match=re.escape(name)):
        load(tmp_path)


def test_a_run_is_loaded_as_a_folder_is(tokenizer, tmp_path):
    model = with_room(GPT2, tokenizer)
    run = create_run(tmp_path / "run", model_config=model.config, tokenizer=tokenizer)
    with pytest.raises(FileNotFoundError, match="a run without weights"):
        load(run)
    save(run, model, step=1)
    found, same = load(run)
    assert same == tokenizer
    assert torch.equal(found.embedding.weight, model.embedding.weight)
    assert load_model(run).config == model.config


# -------------------------------------------------------------------------------------------- names


@pytest.fixture
def published(tokenizer, tmp_path, monkeypatch):
    """A folder in place of the network, which holds a small "gpt2-medium"."""
    folder = tmp_path / "snapshot"
    model = with_room(GPT2, tokenizer)
    export(model, tokenizer, folder)
    monkeypatch.setitem(PRESETS, "gpt2-medium", model.config)
    asked = []

    def hf_hub_download(repository, file, *, local_files_only):
        asked.append((repository, file, local_files_only))
        if local_files_only or not (folder / file).exists():
            raise ConnectionError("no network")
        return str(folder / file)

    def get_hf_file_metadata(url, *, timeout):
        if not folder.exists():
            raise TimeoutError

    module = SimpleNamespace(
        hf_hub_download=hf_hub_download,
        get_hf_file_metadata=get_hf_file_metadata,
        hf_hub_url="{}/{}".format,
    )
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return SimpleNamespace(folder=folder, asked=asked, model=model)


def test_a_published_model_by_its_name(published, tokenizer):
    model = load_model("gpt2-medium")
    assert in_numbers(model.config) == in_numbers(published.model.config)
    assert load("gpt2-medium")[1] == tokenizer
    # What is here already is preferred.
    assert published.asked[0] == ("openai-community/gpt2-medium", "config.json", True)
    with pytest.raises(ValueError, match=r"config\.json=.* that of gpt2-xl"):
        load("gpt2-xl")
    assert set(PUBLISHED) == {name for name in PRESETS if name.startswith("gpt2-")}


def test_gpt2_is_the_small_one(published, monkeypatch):
    monkeypatch.setitem(PRESETS, "gpt2-small", published.model.config)
    assert load("gpt2")[0].config == published.model.config
    assert published.asked[0] == ("openai-community/gpt2", "config.json", True)


def test_without_a_network_nothing_is_tried_twice(published):
    """Hugging Face's library repeats a download that fails for half a minute."""
    shutil.rmtree(published.folder)
    with pytest.raises(FileNotFoundError, match=r"network \(TimeoutError\)\. Name"):
        load("gpt2-medium")
    assert {here for _, _, here in published.asked} == {True}


def test_without_a_network_or_the_library_a_folder_is_asked_for(published, monkeypatch):
    (published.folder / "model.safetensors").unlink()
    layout = r"Name a folder; .* config\.json, model\.safetensors and tokenizer\.json"
    with pytest.raises(FileNotFoundError, match=rf"\(ConnectionError\)\. {layout}"):
        load("gpt2-small")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(FileNotFoundError, match=rf"needs huggingface_hub .* {layout}"):
        load_model("gpt2-small")
    with pytest.raises(FileNotFoundError, match=r"no folder gpt3; by name .* gpt2-xl"):
        load("gpt3")


# ----------------------------------------------------------------------------------- tokenizer.json

WORDS = st.text(max_size=60) | st.lists(
    st.sampled_from(["Ada", " had", "'s", "  ", "\n", "é", "12", "🙂", "a\u0301", "İ"])
).map("".join)


@settings(max_examples=examples(100))
@given(text=WORDS)
def test_ids_are_those_of_the_library_for_any_text(text, tokenizer):
    tokenizers = pytest.importorskip("tokenizers", reason="compares with it")
    if not hasattr(test_ids_are_those_of_the_library_for_any_text, "theirs"):
        content = json.dumps(to_tokenizers(tokenizer))
        made = tokenizers.Tokenizer.from_str(content)
        test_ids_are_those_of_the_library_for_any_text.theirs = made
    theirs = test_ids_are_those_of_the_library_for_any_text.theirs
    ids = tokenizer.encode(text)
    assert theirs.encode(text).ids == ids
    assert theirs.decode(ids, skip_special_tokens=False) == text


def as_published(tokenizer) -> dict:
    """The older form of the file: pairs as text, and the special token among the others."""
    content = to_tokenizers(tokenizer)
    model = content["model"]
    model["merges"] = [" ".join(pair) for pair in model["merges"]]
    model["vocab"] |= tokenizer.special_tokens
    del content["pre_tokenizer"]["use_regex"], model["type"]
    return content


def test_the_published_tokenizer_is_understood(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(as_published(tokenizer)))
    assert BytePairTokenizer.load(tmp_path / "tokenizer.json") == tokenizer
    try:
        gpt2 = gpt2_tokenizer()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    content = as_published(gpt2)
    assert content["model"]["merges"][0] == "Ġ t"
    assert list(content["model"]["vocab"])[:2] == ["!", '"']
    path.write_text(json.dumps(content))
    assert BytePairTokenizer.load(tmp_path / "tokenizer.json") == gpt2


def test_the_order_of_the_bytes_is_kept(tmp_path):
    backwards = bytes(reversed(range(256)))
    for byte_order in (backwards, GPT2_BYTE_ORDER):
        tokenizer = BytePairTokenizer(
            [(32, 33)], special_tokens=["<a>", "<b>"], byte_order=byte_order
        )
        content = json.dumps(to_tokenizers(tokenizer))
        (tmp_path / "tokenizer.json").write_text(content)
        assert BytePairTokenizer.load(tmp_path / "tokenizer.json") == tokenizer
        tokenizers = pytest.importorskip("tokenizers", reason="compares with it")
        theirs = tokenizers.Tokenizer.from_str(content)
        text = "".join(map(chr, range(300))) + "\udfff".replace("\udfff", "€")
        assert theirs.encode(text).ids == tokenizer.encode(text)


def changed(content: dict, *path, to) -> dict:
    *way, last = path
    inner = content
    for key in way:
        inner = inner[key]
    inner[last] = to
    return content


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("model", "type"), "Unigram"),
        (("normalizer",), {"type": "NFC"}),
        (("pre_tokenizer", "add_prefix_space"), True),
        (("pre_tokenizer", "use_regex"), False),
        (("pre_tokenizer",), {"type": "Sequence", "pretokenizers": []}),
        (("pre_tokenizer",), None),
        (("model", "merges"), []),
        (("model", "merges", 3), ["a", "b"]),
        (("model", "merges", 3), "a"),
        (("model", "merges", 3), 7),
        (("model", "vocab"), {}),
        (("model", "vocab"), []),
        (("model", "vocab", "a"), 300),
        (("model", "vocab", "a"), "97"),
        (("added_tokens",), []),
        (("added_tokens",), [{"id": 399}]),
        (("added_tokens", 0, "id"), 400),
        (("added_tokens", 0, "content"), ["x"]),
    ],
)
def test_other_tokenizers_are_refused(path, to, tokenizer, tmp_path):
    content = changed(to_tokenizers(tokenizer), *path, to=to)
    if path == ("added_tokens",) and not to:
        content["model"]["vocab"]["<|endoftext|>"] = 399  # as if it were a merge
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="is not a byte-level BPE tokenizer of") as it:
        BytePairTokenizer.load(tmp_path / "tokenizer.json")
    assert "\n" not in str(it.value)


def test_a_pattern_of_its_own_cannot_be_exported(tmp_path):
    tokenizer = BytePairTokenizer([], pattern=GPT2_PATTERN + "|x")
    with pytest.raises(ValueError, match=r"pattern=.* must be GPT-2's"):
        export(build(**GPT2, vocab_size=300), tokenizer, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_a_tokenizer_is_found_in_the_folder_of_a_run_or_a_model(tokenizer, tmp_path):
    model = with_room(GPT2, tokenizer)
    export(model, tokenizer, tmp_path / "model")
    create_run(tmp_path / "run", model_config=model.config, tokenizer=tokenizer)
    for folder in ("model", "run"):
        assert BytePairTokenizer.load(tmp_path / folder) == tokenizer


# ------------------------------------------------------------------------------------ hostile files

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
many = settings(
    max_examples=examples(100), suppress_health_check=list(HealthCheck), database=None
)


class Victim:
    """A good folder, and what its files hold."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        small = BytePairTokenizer([(97, 98), (256, 99)])
        export(with_room(FAMILIES["qwen3"], small, n_layers=1), small, folder)
        self.files = {path.name: path.read_bytes() for path in folder.iterdir()}

    def __repr__(self) -> str:  # Hypothesis shows it
        return "victim"

    def judged(self, name: str, content: bytes) -> None:
        """Its file with this content instead is read, or refused in one line."""
        path, refused = self.folder / name, ""
        path.write_bytes(content)
        try:
            with unchecked():  # of a setting's type, too, as it is in use
                load(self.folder)
        except (ValueError, FileNotFoundError) as error:
            refused = str(error)
        if name in self.files:
            path.write_bytes(self.files[name])
        assert "\n" not in refused
        assert len(refused) < 2000


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    return Victim(tmp_path_factory.mktemp("victim"))


def places(content: object, way: tuple = ()) -> list[tuple]:
    """Where something can be changed: of long tables, at their first entries."""
    inner = content if isinstance(content, dict) else ()
    inner = range(len(content)) if isinstance(content, list) else inner
    found = []
    for key in islice(inner, 14):
        found += [(*way, key), *places(content[key], (*way, key))]
    return found


@many
@given(data=st.data())
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_hostile_settings_and_tokenizers(name, data, victim):
    content = json.loads(victim.files[name])
    ways = st.sampled_from(places(content))
    for way, junk in data.draw(st.lists(st.tuples(ways, JUNK), min_size=1, max_size=3)):
        # An earlier change may have taken the place away.
        with contextlib.suppress(TypeError, KeyError, IndexError):
            changed(content, *way, to=junk)
    victim.judged(name, json.dumps(content).encode())


@many
@given(data=st.data())
def test_hostile_weights(data, victim):
    content = bytearray(victim.files["model.safetensors"])
    header = 8 + int.from_bytes(content[:8], "little")
    for _ in range(data.draw(st.integers(1, 4))):
        here = data.draw(st.integers(0, header) | st.integers(0, len(content) - 1))
        content[here] = data.draw(st.integers(0, 255))
    end = data.draw(st.just(len(content)) | st.integers(0, len(content)))
    victim.judged("model.safetensors", bytes(content[:end]))


@many
@given(index=st.dictionaries(st.sampled_from(["weight_map", "metadata"]), JUNK))
def test_hostile_indices(index, victim):
    weights = victim.folder / "model.safetensors"
    weights.unlink(missing_ok=True)
    victim.judged("model.safetensors.index.json", json.dumps(index).encode())
    weights.write_bytes(victim.files["model.safetensors"])


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 10**5, b"3"])
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_what_is_no_table_is_refused(name, content, victim):
    path = victim.folder / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=name.replace(".", r"\.")) as caught:
        load(victim.folder)
    path.write_bytes(victim.files[name])
    assert "\n" not in str(caught.value)
