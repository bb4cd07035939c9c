"""Encoders, decoders that read, and masked models: equal to PyTorch's and Hugging Face's."""

import itertools
from dataclasses import replace

import pytest
import torch
from ladder import PRECISIONS, compare, normal, randomize, results, unchecked
from torch import nn

from decoder_only import GPT, GPTConfig
from decoder_only.generation import beam_search, generate
from decoder_only.model.lm_head import next_token_loss
from decoder_only.variants.encoders import (
    Decoder,
    Encoder,
    EncoderDecoder,
    MaskedModel,
    mask_tokens,
)

V, D, H, F, L = 19, 12, 3, 17, 2
B, S, T = 3, 5, 8
CONFIG = GPTConfig(
    vocab_size=V, context_length=10, d_model=D, n_layers=L, n_heads=H, d_mlp=F
)
ORIGINAL = replace(
    CONFIG, positions="sinusoidal", norm_position="post", activation="relu"
)
VARIANTS = {
    "original": ORIGINAL,
    "pre-norm": replace(ORIGINAL, norm_position="pre"),
    "modern": replace(
        CONFIG,
        n_kv_heads=1,
        positions="rotary",
        norm="rms",
        activation="swiglu",
        qk_norm=True,
        bias=False,
        tied=False,
    ),
}
every_variant = pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
every_precision = pytest.mark.parametrize("dtype", PRECISIONS, ids=str)


def ids(rows: int, length: int, *, seed: int, lengths: tuple[int, ...] = ()):
    """Random tokens, none of them padding but behind the lengths that are given."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(1, V, (rows, length), generator=generator)
    for row, size in enumerate(lengths):
        drawn[row, size:] = 0
    return drawn


SOURCE = ids(B, T, seed=1, lengths=(8, 5, 3))
TARGET = ids(B, S, seed=2, lengths=(3, 5, 4))


def both(config: GPTConfig, *, dtype=torch.float64, **settings) -> EncoderDecoder:
    return randomize(EncoderDecoder(config, **settings).to(dtype)).eval()


def masked(config: GPTConfig, *, dtype=torch.float64, **settings) -> MaskedModel:
    return randomize(MaskedModel(config, **settings).to(dtype)).eval()


def embedded(model: GPT, out: list) -> None:
    """Notes what the embedding gives, as a leaf whose gradient can be asked for."""

    def hook(module, inputs, output):
        out.append(output.detach().requires_grad_())
        return out[-1]

    model.embedding.register_forward_hook(hook)


# ----------------------------------------------------------------------------------------- shapes


@every_variant
def test_shapes(config):
    model = both(config)
    assert model(SOURCE, TARGET).shape == (B, S, V)
    memory, is_seen = model.read(SOURCE)
    assert memory.shape == (B, T, D)
    assert is_seen.tolist() == (SOURCE != 0).tolist()
    assert masked(config)(TARGET).shape == (B, S, V)
    assert Encoder(config).hidden(TARGET).shape == (B, S, D)


def test_sizes_of_the_halves_may_differ():
    model = both(replace(CONFIG, tied=False), n_encoder_layers=1, source_vocab_size=30)
    assert len(model.encoder.blocks) == 1
    assert len(model.decoder.blocks) == L
    assert model.encoder.embedding.weight.shape == (30, D)
    assert model(SOURCE + 11, TARGET).shape == (B, S, V)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_tables_are_shared_as_asked_and_every_parameter_is_used(tied, shared):
    sizes = {} if shared else {"source_vocab_size": V}
    model = both(replace(ORIGINAL, tied=tied), **sizes)
    tables = [
        model.encoder.embedding.weight,
        model.decoder.embedding.weight,
        model.decoder.head_weight,
    ]
    assert (tables[0] is tables[1]) == shared
    assert (tables[1] is tables[2]) == tied
    n_tables = 3 - tied - shared
    matrices = L * (4 * D * D + 2 * D * F) + L * (8 * D * D + 2 * D * F)
    vectors = L * (4 * D + F + D + 4 * D) + L * (8 * D + F + D + 6 * D)
    n_parameters = sum(p.numel() for p in model.parameters())
    assert n_parameters == n_tables * V * D + matrices + vectors
    model(SOURCE, TARGET).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_the_same_generator_gives_the_same_weights():
    def weights(kind):
        model = kind(CONFIG, generator=torch.Generator().manual_seed(0))
        return nn.utils.parameters_to_vector(model.parameters())

    for kind in (Decoder, EncoderDecoder, MaskedModel):
        assert torch.equal(weights(kind), weights(kind))
        assert weights(kind).std() < 0.5
    scales = [
        p
        for name, p in MaskedModel(CONFIG).named_parameters()
        if name.endswith("norm.weight")
    ]
    assert len(scales) == 2 * L + 3
    assert all((p == 1).all() for p in scales)


# ------------------------------------------------------------------------------------ what is seen


@every_variant
def test_a_target_position_sees_its_past_and_the_whole_source(config):
    model, read, written = both(config), [], []
    embedded(model.encoder, read)
    embedded(model.decoder, written)
    if model.encoder.embedding is model.decoder.embedding:
        model.encoder.embedding = type(model.encoder.embedding)(vocab_size=V, d_model=D)
        model.encoder.embedding.to(torch.float64)
        model.decoder.embedding._forward_hooks.clear()
        embedded(model.encoder, read)
        embedded(model.decoder, written)
    logits = model(SOURCE, TARGET)
    logits = (logits * normal(B, S, V, seed=3, grad=False)).sum(-1)
    for row, s in itertools.product(range(B), range(S)):
        from_source, from_target = torch.autograd.grad(
            logits[row, s], [read[-1], written[-1]], retain_graph=True
        )
        reached = from_source.abs().amax(-1) > 0
        assert reached[row].tolist() == (SOURCE[row] != 0).tolist()
        reached[row] = False
        assert not reached.any(), "another row"
        reached = from_target.abs().amax(-1) > 0
        assert reached[row].tolist() == [t <= s for t in range(S)]


@every_variant
def test_an_encoder_position_sees_all_that_is_not_padding(config):
    model, read = masked(config, pad_id=0), []
    embedded(model, read)
    logits = (model(SOURCE) * normal(B, T, V, seed=3, grad=False)).sum(-1)
    for row, s in itertools.product(range(B), range(T)):
        (gradient,) = torch.autograd.grad(logits[row, s], read[-1], retain_graph=True)
        reached = gradient.abs().amax(-1)[row] > 0
        own = torch.arange(T) == s  # the residual stream, at padding too
        assert reached.tolist() == ((SOURCE[row] != 0) | own).tolist()


@every_variant
def test_padding_changes_nothing(config):
    """Rows padded side by side equal each row alone, without a single pad."""
    model = both(config)
    together = model(SOURCE, TARGET)
    encoder = masked(config, pad_id=0)
    filled = encoder(SOURCE)
    for row in range(B):
        n, m = int((SOURCE[row] != 0).sum()), int((TARGET[row] != 0).sum())
        alone = model(SOURCE[row : row + 1, :n], TARGET[row : row + 1, :m])
        torch.testing.assert_close(together[row, :m], alone[0], rtol=0, atol=1e-12)
        alone = encoder(SOURCE[row : row + 1, :n])
        torch.testing.assert_close(filled[row, :n], alone[0], rtol=0, atol=1e-12)
    # The padding would matter if it were seen.
    seen = masked(config)(SOURCE)
    assert (seen[1, :5] - filled[1, :5]).abs().max() > 1e-3


@pytest.mark.parametrize("lengths", [(1, 9), (9, 1), (4, 4), (2, 9), (9, 2)])
def test_source_and_target_may_have_any_lengths(lengths):
    t, s = lengths
    source, target = ids(2, t, seed=4), ids(2, s, seed=5)
    model = both(ORIGINAL)
    logits = model(source, target)
    assert logits.shape == (2, s, V)
    for length in range(1, s + 1):
        shorter = model(source, target[:, :length])
        torch.testing.assert_close(logits[:, :length], shorter, rtol=0, atol=1e-12)


@every_variant
def test_the_source_is_read_as_a_set(config):
    """Its order is what the encoder wrote into it: distances between two texts mean nothing."""
    reading = randomize(Decoder(config).double())
    memory = normal(B, T, D, seed=6, grad=False)
    is_seen = SOURCE != 0
    order = torch.tensor([3, 0, 7, 1, 6, 2, 5, 4])
    logits = reading(TARGET, source=memory, is_seen=is_seen)
    turned = reading(TARGET, source=memory[:, order], is_seen=is_seen[:, order])
    torch.testing.assert_close(turned, logits, rtol=0, atol=1e-11)
    others = reading(TARGET, source=memory[:, order], is_seen=is_seen)
    assert (others - logits).abs().max() > 1e-3


@every_variant
def test_a_decoder_without_cross_attention_equals_a_gpt(config):
    reading = randomize(Decoder(config).double())
    for block in reading.blocks:
        nn.init.zeros_(block.cross.output.weight)
        if config.bias:
            nn.init.zeros_(block.cross.output.bias)
            nn.init.zeros_(block.cross_norm.bias)
    plain = GPT(config).double()
    weights = reading.state_dict()
    plain.load_state_dict({name: weights[name] for name in plain.state_dict()})
    memory = normal(B, T, D, seed=6, grad=False)
    is_seen = torch.ones(B, T, dtype=torch.bool)
    logits = reading(TARGET, source=memory, is_seen=is_seen)
    if config.norm_position == "pre":
        compare("a decoder without cross-attention = GPT", logits, plain(TARGET))
    else:  # the norm behind the missing part is left
        assert (logits - plain(TARGET)).abs().max() > 1e-3


# ----------------------------------------------------------------------------------------- parity


def pytorch_names(ours: dict[str, torch.Tensor], part: str, cross: bool) -> dict:
    """Our weights of one half by the names of torch.nn.TransformerEncoder and ...Decoder."""
    attentions = {"attention": "self_attn"}
    attentions |= {"cross": "multihead_attn"} if cross else {}
    names = {"mlp.up": "linear1", "mlp.down": "linear2", "attention_norm": "norm1"}
    last = {"cross_norm": "norm2", "mlp_norm": "norm3"} if cross else {}
    names |= last or {"mlp_norm": "norm2"}
    found = {}
    for layer, kind in itertools.product(range(L), ("weight", "bias")):
        block, theirs = f"{part}.blocks.{layer}", f"{part}.layers.{layer}"
        for mine, yours in attentions.items():
            fused = [
                ours[f"{block}.{mine}.{p}.{kind}"] for p in ["query", "key", "value"]
            ]
            found[f"{theirs}.{yours}.in_proj_{kind}"] = torch.cat(fused)
            output = ours[f"{block}.{mine}.output.{kind}"]
            found[f"{theirs}.{yours}.out_proj.{kind}"] = output
        for mine, yours in names.items():
            found[f"{theirs}.{yours}.{kind}"] = ours[f"{block}.{mine}.{kind}"]
        if f"{part}.final_norm.{kind}" in ours:
            found[f"{part}.norm.{kind}"] = ours[f"{part}.final_norm.{kind}"]
    return found


def pytorch_transformer(pre_norm: bool, dtype: torch.dtype) -> nn.Transformer:
    """Theirs of our sizes. Their post-norm stacks end on a norm more, which the paper lacks."""
    settings = {"dropout": 0.0, "batch_first": True, "norm_first": pre_norm}
    last = [nn.LayerNorm(D) if pre_norm else None for _ in range(2)]
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(D, H, F, **settings),
        L,
        norm=last[0],
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(D, H, F, **settings), L, norm=last[1]
    )
    settings = {"custom_encoder": encoder, "custom_decoder": decoder}
    return nn.Transformer(D, H, L, L, F, batch_first=True, **settings).to(dtype)


@every_precision
@pytest.mark.parametrize("pre_norm", [True, False], ids=["pre-norm", "post-norm"])
def test_encoder_decoder_equals_pytorchs_transformer(pre_norm, dtype):
    """Outputs where there is no padding, and gradients at both texts and all weights."""
    config = VARIANTS["pre-norm"] if pre_norm else ORIGINAL
    ours = both(config, dtype=dtype, source_vocab_size=V)
    theirs = pytorch_transformer(pre_norm, dtype)

    def renamed(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        encoder = pytorch_names(tensors, "encoder", False)
        return encoder | pytorch_names(tensors, "decoder", True)

    theirs.load_state_dict(renamed(ours.state_dict()))
    theirs.train()  # there is no dropout, and their fast path has no gradients
    read, written = [], []
    embedded(ours.encoder, read)
    embedded(ours.decoder, written)
    real = (TARGET != 0)[..., None]
    memory, is_seen = ours.read(SOURCE)
    hidden = ours.decoder.hidden(TARGET, source=memory, is_seen=is_seen)
    named = {n: p for n, p in ours.named_parameters() if "embedding" not in n}
    leaves = [read[0], written[0], *named.values()]
    output, *gradients = results(hidden.where(real, 0.0), *leaves)
    mine = {"output": output, "source": gradients[0], "target": gradients[1]}
    mine |= renamed(dict(zip(named, gradients[2:], strict=True)))

    read, written = (x[0].detach().requires_grad_() for x in (read, written))
    hidden = theirs(
        ours.encoder.positions(read),
        ours.decoder.positions(written),
        tgt_mask=torch.ones(S, S, dtype=torch.bool).triu(1),
        src_key_padding_mask=SOURCE == 0,
        tgt_key_padding_mask=TARGET == 0,
        memory_key_padding_mask=SOURCE == 0,
    )
    leaves = [read, written, *theirs.parameters()]
    output, *gradients = results(hidden.where(real, 0.0), *leaves)
    yours = {"output": output, "source": gradients[0], "target": gradients[1]}
    yours |= dict(zip(dict(theirs.named_parameters()), gradients[2:], strict=True))
    compare("encoder-decoder = torch.nn.Transformer", mine, yours)


BERT = {
    "embedding.weight": "bert.embeddings.word_embeddings.weight",
    "positions.inner.weight": "bert.embeddings.position_embeddings.weight",
    "positions.norm": "bert.embeddings.LayerNorm",
    "head.dense": "cls.predictions.transform.dense",
    "head.norm": "cls.predictions.transform.LayerNorm",
    "head.bias": "cls.predictions.bias",
}
BERT_BLOCK = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "mlp.up": "intermediate.dense",
    "mlp.down": "output.dense",
    "mlp_norm": "output.LayerNorm",
}


def bert_names(ours: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Our weights by the names of Hugging Face's BertForMaskedLM."""
    names = dict(BERT)
    for layer in range(L):
        for mine, yours in BERT_BLOCK.items():
            names[f"blocks.{layer}.{mine}"] = f"bert.encoder.layer.{layer}.{yours}"
    found = {}
    for name, tensor in ours.items():
        start = next(n for n in names if name == n or name.startswith(f"{n}."))
        found[names[start] + name.removeprefix(start)] = tensor
    return found


@every_precision
def test_masked_model_equals_hugging_faces_bert(dtype):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=V,
            hidden_size=D,
            num_hidden_layers=L,
            num_attention_heads=H,
            intermediate_size=F,
            max_position_embeddings=CONFIG.context_length,
            type_vocab_size=1,
            pad_token_id=0,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    ).to(dtype)
    settings = {"norm_position": "post", "activation": "gelu", "norm_eps": 1e-12}
    ours = masked(replace(CONFIG, **settings), dtype=dtype, pad_id=0)
    missing = theirs.load_state_dict(bert_names(ours.state_dict()), strict=False)
    assert not missing.unexpected_keys
    segments = theirs.bert.embeddings.token_type_embeddings.weight
    with torch.no_grad():
        segments.zero_()  # of the one kind of text: its vector would join every position's
    tied = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    rest = {"bert.embeddings.token_type_embeddings.weight"}
    assert set(missing.missing_keys) <= tied | rest

    real = (SOURCE != 0)[..., None]
    named = dict(ours.named_parameters())
    output, *gradients = results(ours(SOURCE).where(real, 0.0), *named.values())
    mine = {"logits": output} | bert_names(dict(zip(named, gradients, strict=True)))
    logits = theirs(SOURCE, attention_mask=(SOURCE != 0).long()).logits
    named = {n: p for n, p in theirs.named_parameters() if p is not segments}
    output, *gradients = results(logits.where(real, 0.0), *named.values())
    yours = {"logits": output} | dict(zip(named, gradients, strict=True))
    # Their table has no gradient for the row of padding: nothing depends on it but the head.
    word = "bert.embeddings.word_embeddings.weight"
    mine[word], yours[word] = mine[word][1:], yours[word][1:]
    compare("masked model = Hugging Face's BertForMaskedLM", mine, yours)
    # Its loss is ours too, with our mark for what is not asked.
    labels = SOURCE.masked_fill(torch.rand(SOURCE.shape) < 0.5, -100)
    labels = labels.masked_fill(SOURCE == 0, -100)
    theirs_loss = theirs(SOURCE, attention_mask=SOURCE != 0, labels=labels).loss
    loss = next_token_loss(ours(SOURCE), labels, ignore_index=-100)
    torch.testing.assert_close(loss, theirs_loss)


def test_the_head_of_a_masked_model_equals_its_formula():
    model = masked(replace(CONFIG, norm_position="post", activation="gelu"))
    head, table = model.head, model.embedding.weight
    x = normal(B, S, D, seed=7)
    dense = x @ head.dense.weight.T + head.dense.bias
    bent = dense * (1 + torch.erf(dense / 2**0.5)) / 2
    centred = bent - bent.mean(-1, keepdim=True)
    spread = (centred.square().mean(-1, keepdim=True) + CONFIG.norm_eps).sqrt()
    normed = centred / spread * head.norm.weight + head.norm.bias
    expected = normed @ table.T + head.bias
    leaves = [x, table, *head.parameters()]
    compare(
        "BERT's head = its formula",
        results(head(x, table), *leaves),
        results(expected, *leaves),
    )


# ----------------------------------------------------------------------------------------- writing


def by_hand(model: EncoderDecoder, source, start, n):
    """The likeliest token each time, the whole model asked anew for each."""
    target = start
    for _ in range(n):
        logits = model(source, target)[:, -1]
        target = torch.cat([target, logits.argmax(-1, keepdim=True)], dim=1)
    return target


@every_variant
def test_generate_equals_asking_the_whole_model_each_time(config):
    model, start = both(config), TARGET[:, :1]
    with torch.no_grad():
        expected = by_hand(model, SOURCE, start, 6)
    found = generate(model.given(SOURCE), start, max_new_tokens=6, temperature=0)
    assert torch.equal(found, expected)
    assert len({tuple(row) for row in found[:, 1:].tolist()}) > 1


def test_the_encoder_is_asked_once():
    model, calls = both(ORIGINAL), []
    model.encoder.blocks[0].register_forward_hook(lambda *_: calls.append(1))
    generate(model.given(SOURCE), TARGET[:, :1], max_new_tokens=5, temperature=0)
    assert len(calls) == 1


def test_beam_search_finds_the_likeliest_of_all():
    """A beam as wide as all texts is exhaustive."""
    model = both(replace(ORIGINAL, vocab_size=5))
    source, start = SOURCE[:1] % 4 + 1, torch.tensor([1])
    beams = beam_search(model.given(source), start, max_new_tokens=3, n_beams=125)
    texts = torch.cartesian_prod(*[torch.arange(5)] * 3)
    rows = torch.cat([torch.ones(125, 1, dtype=torch.long), texts], dim=1)
    with torch.no_grad():
        logits = model(source.expand(125, -1), rows[:, :-1])
    loss = next_token_loss(logits, rows[:, 1:], reduction="none").sum(1)
    assert beams[0][0].tolist() == rows[loss.argmin()].tolist()
    assert beams[0][1] == pytest.approx(-loss.min().item(), abs=1e-5)
    assert len(beams) == 125


def test_reading_is_without_dropout_and_leaves_the_mode():
    model = both(replace(ORIGINAL, dropout=0.5)).train()
    once, again = model.given(SOURCE), model.given(SOURCE)
    assert torch.equal(once.source[0], again.source[0])
    assert model.encoder.training
    assert not torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))


@pytest.mark.parametrize("part", ["attention", "cross", "mlp"])
def test_dropout_acts_on_what_each_part_of_a_decoders_block_adds(part):
    block = both(replace(VARIANTS["pre-norm"], dropout=0.25)).decoder.blocks[0]
    parts = {"attention": block.attention.output, "cross": block.cross.output}
    for name, linear in (parts | {"mlp": block.mlp.down}).items():
        nn.init.zeros_(linear.weight)
        nn.init.constant_(linear.bias, 3.0 if name == part else 0.0)
    x, source = normal(50, S, D, seed=3, grad=False), normal(50, T, D, seed=4)
    read = {"source": source, "is_seen": torch.ones(50, T, dtype=torch.bool)}
    assert torch.equal(block(x, **read), x + 3)
    torch.manual_seed(0)
    added = (block.train()(x, **read) - x).round(decimals=9)
    assert added.unique().tolist() == [0, 4]  # dropped, or 3 / (1 - 0.25)
    assert (added == 0).double().mean().item() == pytest.approx(0.25, abs=0.02)


def test_forgetting_activations_changes_no_gradient():
    model = both(ORIGINAL).train()

    def gradients():
        model.zero_grad()
        model(SOURCE, TARGET).square().sum().backward()
        return [p.grad.clone() for p in model.parameters()]

    plain = gradients()
    model.encoder.recompute = model.decoder.recompute = True
    for a, b in zip(plain, gradients(), strict=True):
        assert torch.equal(a, b)


# ----------------------------------------------------------------------------------------- masking


def test_tokens_are_masked_in_the_shares_that_are_asked_for():
    texts = torch.randint(4, 50, (200, 100), generator=torch.Generator().manual_seed(0))
    texts[:, 90:] = 0
    settings = {"mask_id": 1, "vocab_size": 50, "keep": (0, 2, 3)}
    generator = torch.Generator().manual_seed(1)
    inputs, targets = mask_tokens(texts, **settings, generator=generator)
    asked = targets != -1
    assert torch.equal(targets[asked], texts[asked])
    assert torch.equal(inputs[~asked], texts[~asked])
    assert not asked[:, 90:].any()
    n = 200 * 90
    assert abs(asked.sum() / n - 0.15) < 5 * (0.15 * 0.85 / n) ** 0.5
    hidden = inputs[asked] == 1
    random = ~hidden & (inputs[asked] != texts[asked])
    assert abs(hidden.double().mean() - 0.8) < 0.04
    # One draw in 46 gives the token itself.
    assert abs(random.double().mean() - 0.1 * 45 / 46) < 0.03
    drawn = inputs[asked][random]
    assert drawn.min() >= 4
    assert len(drawn.unique()) > 40
    again = mask_tokens(texts, **settings, generator=generator.manual_seed(1))
    assert torch.equal(again[0], inputs)


def test_all_or_nothing_may_be_masked():
    texts = ids(2, 6, seed=0)
    settings = {"mask_id": 18, "vocab_size": V, "rate": 1.0}
    texts[texts == 18] = 5
    inputs, targets = mask_tokens(texts, **settings, shares=(1.0, 0.0))
    assert (inputs == 18).all()
    assert torch.equal(targets, texts)
    inputs, _ = mask_tokens(texts, **settings, shares=(0.0, 0.0))
    assert torch.equal(inputs, texts)


@pytest.mark.parametrize("kind", [GPT, Encoder, Decoder, MaskedModel])
def test_a_generator_of_ones_own_leaves_torchs_alone(kind):
    before = torch.get_rng_state()
    made = [kind(CONFIG, generator=torch.Generator().manual_seed(5)) for _ in range(2)]
    assert torch.equal(torch.get_rng_state(), before)
    one, other = (list(model.parameters()) for model in made)
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


# --------------------------------------------------------------------------------------- bad input


def test_settings_that_cannot_work_are_refused():
    with pytest.raises(ValueError, match=r"pad_id=19 must be in 0..18"):
        Encoder(CONFIG, pad_id=V)
    with pytest.raises(ValueError, match=r"pad_id=-1 must be in 0..18$"):
        EncoderDecoder(CONFIG, pad_id=-1)
    with pytest.raises(ValueError, match=r"pad_id=19 must be in 0..18$"):
        EncoderDecoder(CONFIG, pad_id=V, source_vocab_size=V + 1)
    with pytest.raises(ValueError, match=r"windows=.* a source is seen whole"):
        EncoderDecoder(replace(CONFIG, windows=(None, 3)))
    with pytest.raises(ValueError, match="n_layers=0 must be"):
        EncoderDecoder(CONFIG, n_encoder_layers=0)


def test_texts_that_cannot_work_are_refused():
    model = both(ORIGINAL)
    wanted = "target rows=2 must be 3"
    with unchecked(), pytest.raises(ValueError, match=wanted):
        model(SOURCE, TARGET[:2])
    with pytest.raises(ValueError, match=r"an id=36 must be in 0..18"):
        model(SOURCE + 18, TARGET)
    with (
        unchecked(),
        pytest.raises(ValueError, match=r"ids.shape=.*\(batch, sequence\)"),
    ):
        model.given(SOURCE[0])


def test_an_encoder_keeps_no_cache():
    model = masked(ORIGINAL)
    with pytest.raises(ValueError, match=r"cache=.* changes the keys of those before"):
        model(TARGET, model.new_cache(B))
    with pytest.raises(ValueError, match="cache="):
        generate(model, TARGET, max_new_tokens=1)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rate": 0}, "rate=0 must"),
        ({"rate": 1.5}, "rate=1.5 must"),
        ({"shares": (0.8, 0.3)}, "shares=.* at most 1 together"),
        ({"shares": (-0.1, 0.3)}, "shares=.* must be 0 or more"),
        ({"mask_id": V}, "mask_id=19 must"),
        ({"keep": range(V)}, "keep=range"),
    ],
)
def test_masking_that_cannot_work_is_refused(settings, said):
    with unchecked(), pytest.raises(ValueError, match=said):
        mask_tokens(TARGET, **{"mask_id": 1, "vocab_size": V} | settings)
